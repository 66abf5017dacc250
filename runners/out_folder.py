"""The folder of a run: alone in it, and whether it is ours.

A lock says only that a run looked at the folder. Ours it is by a manifest of ours, or by the mark that a run leaves in
the lock when it begins.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from harness.errors import SetupError
from runners.contents import NAME as CONTENTS
from runners.manifests import FORMAT, read_manifest
from runners.shards import manifests

LOCK = ".lock"
LEFT_OVER = (".shard-*", f".{CONTENTS}.*")  # of files that were being written
MAX_MARKS = 1 << 16  # bytes of a lock that are looked at: a mark is a line


@dataclass(frozen=True, slots=True)
class Held:
    """A folder that is locked.

    Attributes:
        known: Whether a run of this layout began there: a manifest of it says so, or its mark. A lock alone never does.
    """

    known: bool
    _lock: BinaryIO
    _mark: bytes

    def claim(self) -> None:
        """The run begins: call it once nothing foreign has the names of its files, for they are ours from here on."""
        if self._mark:
            self._lock.write(self._mark)
            self._lock.flush()


@contextmanager
def locked(folder: Path, layout: str) -> Iterator[Held]:
    """Alone in a folder: made where it is not there; left-overs of a broken run of ours removed.

    Raises:
        SetupError: Another run is at work there, nothing can be written, or the lock is not ours.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # never truncated, never followed: it may be somebody else's
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
        lock = os.fdopen(os.open(folder / LOCK, flags, 0o666), "r+b", buffering=0)
    except OSError as error:
        raise SetupError(f"{folder} cannot be used: {error.strerror or error}; choose another --out") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SetupError(f"another run is at work in {folder}; wait for it, or choose another --out") from error
        mark = f"{FORMAT} {layout}\n".encode()
        marks = lock.read(MAX_MARKS) or b""
        if not all(line.startswith(f"{FORMAT} ".encode()) for line in marks.splitlines()):
            raise SetupError(f"{folder / LOCK} is not a lock of tokenproof: choose another --out")
        known = mark in marks.splitlines(keepends=True) or any(_is_of(path, layout) for path in manifests(folder))
        for part in chain.from_iterable(map(folder.glob, LEFT_OVER)) if known else ():
            part.unlink(missing_ok=True)
        yield Held(known, lock, b"" if mark in marks else mark)


def _is_of(path: Path, layout: str) -> bool:
    with suppress(SetupError):
        return read_manifest(path).run.get("layout") == layout
    return False
