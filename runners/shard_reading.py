"""Shards read back: a folder as a whole, and one sample out of it. Needs no torch."""

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import SetupError
from harness.store import atomic_file
from runners.contents import NAME as CONTENTS
from runners.contents import contents_problems, read_contents
from runners.manifests import Manifest, read_manifest, run_differences
from runners.shards import METADATA, Checked, checked, manifests
from runners.tensor_bytes import ITEM_BYTES, Column, read_header, write_tensors

READ_BY: Mapping[str, Sequence[str]] = {
    "specforge": ("**/*.ckpt", "**/*.ckpt.gz"),  # its reader walks through all folders below
    "speculators": ("hidden_states/hs_*.safetensors",),  # by the number of a row
}
"""Which files the reader of a layout takes for states."""


def verify(folder: Path) -> Iterator[Checked]:
    """Every shard of a folder in order: its manifest, and all that does not fit; every byte is read.

    Raises:
        SetupError: No folder, or one in which no run began.
    """
    paths = manifests(folder)
    if not paths and not (folder / CONTENTS).exists():
        raise SetupError(f"{folder}: no shard in it; expected files such as shard-000000.json")
    yield from checked(paths)


def folder_problems(folder: Path, shards: Iterable[Checked]) -> Iterator[str]:
    """What does not fit between the shards of a folder, as `verify` gave them, and what lies beside them.

    A sample that stands twice or is missed, shards of several runs, a data set that is not what was written, files of a
    trainer of which no manifest tells: it reads them.
    """
    shards = list(shards)
    counts: Counter[str] = Counter()
    first: Manifest | None = None
    for path, manifest, _ in shards:
        if manifest is None:
            continue
        counts.update(sample["id"] for sample in manifest.samples)
        first = first or manifest
        for parted in run_differences(first.run, manifest.run):
            yield f"{path.name} is of another run than the first shard: {parted}"
    for name, n in counts.items():
        if n > 1:
            yield f"sample {name!r:.80} stands {n} times"
    if all(manifest for _, manifest, _ in shards):  # else the files of a manifest that cannot be read would be named
        yield from _untold(folder, shards)
    yield from contents_problems(folder, [manifest for _, manifest, _ in shards if manifest])


def _untold(folder: Path, shards: Iterable[Checked]) -> Iterator[str]:
    """Files that the reader of a layout would take, in whatever folder below this one it looks."""
    whole = [manifest for _, manifest, _ in shards if manifest]
    told = {folder / side["name"] for manifest in whole for side in manifest.side_files}
    layouts = [manifest.run.get("layout") for manifest in whole]
    with suppress(SetupError):  # where no shard is left; that it cannot be read is told elsewhere
        layouts.append(read_contents(folder).layout)
    patterns = chain.from_iterable(READ_BY[layout] for layout in READ_BY if layout in layouts)
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)} - told):
        yield f"{path.relative_to(folder).as_posix()}: no manifest tells of it, and a trainer would read it"


def unfinished(folder: Path) -> list[str]:
    """Tensors without a manifest: a run was killed between the two, or is at work; they count for nothing."""
    return sorted(p.name for p in folder.glob("shard-*.safetensors") if not p.with_suffix(".json").exists())


@dataclass(frozen=True, slots=True)
class Found:
    """One sample in its shard.

    Attributes:
        line: What the manifest says of it.
        start: Its first row in the shard.
        columns: Its own rows of each tensor, as bytes with dtype and shape.
        side_file: Where its states are, in a layout that keeps them apart; None where they are in the shard.
    """

    path: Path
    manifest: Manifest
    line: dict[str, Any]
    start: int
    columns: tuple[Column, ...]
    side_file: str | None

    @property
    def ids(self) -> "array[int]":
        """input_ids, shape [T]."""
        return array("q", self._bytes("input_ids"))

    @property
    def loss_mask(self) -> bytes:
        """A byte an id, shape [T]."""
        return self._bytes("loss_mask")

    def column(self, name: str) -> Column:
        """Its rows of the tensor of this name.

        Raises:
            SetupError: The shard has no such tensor: another layout keeps the states in files of its own.
        """
        for column in self.columns:
            if column.name == name:
                return column
        raise SetupError(f"{self.path}: no tensor {name}; sample {self.line['id']!r:.80} is kept in {self.side_file}")

    def _bytes(self, name: str) -> bytes:
        return b"".join(self.column(name).pieces)

    def save(self, path: Path) -> None:
        """The sample's tensors as a safetensors file of its own; nothing but such a file is overwritten.

        Raises:
            SetupError: It cannot be written, or something else stands there or belongs there.
        """
        target, folder = path.resolve(), self.path.parent.resolve()
        below = target.parent != folder and target.is_relative_to(folder)  # there lie the files of a trainer's data set
        if below or target.name.startswith(("shard-", ".", CONTENTS)):
            raise SetupError(f"{path} is, or would be, a file of these shards; choose another --out")
        if target.is_file() and not _is_made_here(target):
            raise SetupError(f"{path} is there, and is no sample's file; remove it, or choose another --out")
        with atomic_file(path) as file:
            write_tensors(file, self.columns, METADATA)


def _is_made_here(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return bool(read_header(file)[0].get("__metadata__") == METADATA)
    except (OSError, SetupError):
        return False


def find_sample(folder: Path, name: str) -> Found:
    """The sample of this id.

    Raises:
        SetupError: None has it, or its ids are not those of its hash.
    """
    for path in manifests(folder):
        manifest = read_manifest(path)
        for number, line in enumerate(manifest.samples):
            if line["id"] == name:
                return sample_at(path, manifest, number)
    raise SetupError(
        f"{folder}: no sample has the id {name!r:.80}; `tokenproof shards ls {folder} --samples` lists them"
    )


def sample_at(path: Path, manifest: Manifest, number: int) -> Found:
    """The sample that stands at this place of a shard.

    Raises:
        SetupError: It cannot be read, or its ids are not those of its hash.
    """
    line = dict(manifest.samples[number])
    ends = list(accumulate((sample["n_tokens"] for sample in manifest.samples), initial=0))
    start, end = list(pairwise(ends))[number]
    file = path.with_suffix(".safetensors")
    try:
        with file.open("rb") as stream:
            columns = tuple(_rows(stream, manifest, start, end))
    except OSError as error:
        raise SetupError(f"{file} cannot be read: {error.strerror or error}") from error
    sides = {side["sample"]: side["name"] for side in manifest.side_files}
    found = Found(path, manifest, line, start, columns, sides.get(line["id"]))
    if hashlib.sha256(found.ids.tobytes()).hexdigest() != line["ids_sha256"]:
        raise SetupError(f"{file}: the ids of sample {line['id']!r:.80} are not those of its hash; verify the folder")
    return found


def read_ids(path: Path) -> Iterator[tuple["array[int]", bytes]]:
    """(input_ids, loss_mask) of each sample of a shard without states, by its manifest's path.

    Raises:
        SetupError: It cannot be read, or ids are not those of their hash.
    """
    manifest = read_manifest(path)
    file = path.with_suffix(".safetensors")
    try:
        with file.open("rb") as stream:
            columns = {c.name: b"".join(c.pieces) for c in _rows(stream, manifest, 0, manifest.n_tokens)}
    except OSError as error:
        raise SetupError(f"{file} cannot be read: {error.strerror or error}") from error
    ids, mask, at = array("q", columns["input_ids"]), columns["loss_mask"], 0
    for line in manifest.samples:
        end = at + line["n_tokens"]
        if hashlib.sha256(ids[at:end].tobytes()).hexdigest() != line["ids_sha256"]:
            raise SetupError(f"{file}: the ids of sample {line['id']!r:.80} are not those of its hash")
        yield ids[at:end], mask[at:end]
        at = end


def _rows(stream: BinaryIO, manifest: Manifest, start: int, end: int) -> Iterator[Column]:
    """Rows `start` to `end` of every tensor that has a row a token."""
    read_header(stream)
    at = stream.tell()
    for name, value in manifest.written.tensors.items():
        shape, size = value["shape"], ITEM_BYTES[value["dtype"]]
        width = prod(shape[1:]) * size
        if name != "offsets":
            stream.seek(at + start * width)
            data = stream.read((end - start) * width)
            yield Column(name, value["dtype"], (end - start, *shape[1:]), [data])
        at += prod(shape) * size
