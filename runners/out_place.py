"""The folder of a cluster's run, on any file system: alone in it, and whether it is ours; as `out_folder` as far as the
file system allows.

A local folder is locked as any run locks it, and the lock falls with the process. Elsewhere the lock is a file that is
made only where none is, and taken away at the end: a run that was killed leaves it, and whoever knows that it is gone
removes it. Where a file system cannot make a file only where none is (pyarrow's, HDFS, older drivers of object stores),
a second run is kept out all the same, but not one that begins in the same moment, and that is said. Ours is a folder by
its contents.jsonl, which is put there before anything else, or by a manifest.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from harness.errors import SetupError
from runners.contents import NAME as CONTENTS
from runners.contents import Contents, read_contents, write_contents
from runners.manifests import FORMAT, read_manifest
from runners.out_folder import LEFT_OVER, LOCK, locked
from runners.places import Place
from runners.shards import NAME, free_ending
from runners.standing import pair
from runners.state_layouts import SHARD_FILES, foreign, refuse_foreign


class Claim(Protocol):
    """A folder that is held."""

    @property
    def known(self) -> bool:
        """Whether a run of this layout began there."""

    def claim(self) -> None:
        """The run begins."""


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """A folder elsewhere; see `out_folder.Held`."""

    known: bool

    def claim(self) -> None:
        """Nothing: contents.jsonl claims it."""


@contextmanager
def held(place: Place, layout: str, complain: Callable[[str], None]) -> Iterator[Claim]:
    """Alone in a folder of native shards, in which nothing foreign has the names of its files.

    Raises:
        SetupError: Another run is at work there, or something of somebody else has such a name.
    """
    if place.local is not None:
        with locked(place.local, layout) as ours:
            if not ours.known:
                refuse_foreign(layout, place.local)
            yield ours
        return
    mark = _take(place, layout, complain)
    try:
        names = place.names()
        known = _known(place, names, layout)
        if not known and (found := sorted(n for n in names if any(fnmatch(n, pattern) for pattern in SHARD_FILES))):
            raise foreign(f"{place.uri}/{found[0]}", place.uri, layout)
        for name in names:
            if known and any(fnmatch(name, pattern) for pattern in LEFT_OVER):
                place.remove(name)
        yield HeldPlace(known)
    finally:
        try:
            if place.read(LOCK, len(mark) + 1) == mark:  # else somebody removed it, and another run may be at work
                place.remove(LOCK)
        except SetupError as error:
            complain(f"{error}; remove {LOCK} there before the next run")


def _take(place: Place, layout: str, complain: Callable[[str], None]) -> bytes:
    """Make the lock, and give its text; or say what it does not promise."""
    mark = f"{FORMAT} {layout}\nhost {socket.gethostname()}, process {os.getpid()}\n".encode()
    made = place.create(LOCK, mark)
    if made is None:
        complain(
            f"{place.uri}: this file system cannot make a file only where none is, so that two runs which begin in one "
            "moment are not kept apart: see to it that there is one"
        )
    if made is not False:
        return mark
    told = place.read(LOCK, len(mark) + 1000).decode("utf-8", "replace")
    if not told.startswith(f"{FORMAT} "):
        raise SetupError(f"{place.uri}/{LOCK} is not a lock of tokenproof: choose another --out")
    who = told.partition("\n")[2].strip() or "nobody knows which"
    raise SetupError(
        f"another run is at work in {place.uri} ({who}); wait for it, or choose another --out; where it was killed, "
        f"remove {place.uri}/{LOCK}"
    )


def _known(place: Place, names: list[str], layout: str) -> bool:
    if CONTENTS in names:
        with suppress(SetupError), TemporaryDirectory() as folder:
            place.fetch(CONTENTS, Path(folder))
            return read_contents(Path(folder)).layout == layout
    for name in filter(NAME.fullmatch, names):
        with suppress(SetupError), TemporaryDirectory() as folder:
            return read_manifest(place.fetch(name, Path(folder))).run.get("layout") == layout
    return False


def put_contents(place: Place, contents: Contents) -> None:
    """As `contents.write_contents`.

    Raises:
        SetupError: It cannot be written there.
    """
    with TemporaryDirectory() as folder:
        write_contents(Path(folder), contents)
        place.put(Path(folder) / CONTENTS)


def put_apart(place: Place, manifest: str, word: str = "broken") -> None:
    """As `shards.set_apart`, the shard of this manifest.

    Raises:
        SetupError: It cannot be renamed.
    """
    names = set(place.names())
    parts = [path.name for path in pair(Path(manifest))]
    end = free_ending(parts, names.__contains__, word)
    for part in parts:
        if part in names:
            place.rename(part, f"{part}{end}")
