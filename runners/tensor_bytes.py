"""The safetensors format as bytes: written a piece at a time with a checksum of each tensor, checked the same way.

A library would want each tensor whole in memory, twice for a shard that is made of samples. Reading it back with the
library is what the tests do. Knows nothing of samples; needs no torch.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, BinaryIO

from harness.errors import HarnessError, SetupError
from harness.response import loads

ITEM_BYTES: Mapping[str, int] = {"I64": 8, "F32": 4, "BF16": 2, "F16": 2, "U8": 1}
"""Bytes of one value of each dtype that a shard can hold."""
MAX_HEADER_BYTES = 1 << 20
PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Column:
    """One tensor to be written.

    Attributes:
        dtype: As safetensors names it; one of ITEM_BYTES.
        pieces: Its bytes in row-major order, little-endian, in any number of pieces.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: Iterable[bytes | memoryview]

    @property
    def n_bytes(self) -> int:
        """Of all pieces."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Written:
    """What a file holds: name -> dtype, shape and sha256 of the bytes; the header's own sha256; bytes in all."""

    tensors: Mapping[str, Mapping[str, Any]]
    header_sha256: str
    n_bytes: int


def write_tensors(file: BinaryIO, columns: Sequence[Column], metadata: Mapping[str, str]) -> Written:
    """Write a safetensors file.

    Raises:
        ValueError: A column's pieces are not as many bytes as its shape says.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    at = 0
    for column in columns:
        header[column.name] = {
            "dtype": column.dtype,
            "shape": list(column.shape),
            "data_offsets": [at, at + column.n_bytes],
        }
        at += column.n_bytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # the data then begins where any dtype may
    head = len(text).to_bytes(8, "little") + text
    file.write(head)
    tensors = {
        c.name: {"dtype": c.dtype, "shape": list(c.shape), "sha256": _write_column(file, c)} for c in columns
    }  # fmt: skip
    return Written(tensors, hashlib.sha256(head).hexdigest(), len(head) + at)


def _write_column(file: BinaryIO, column: Column) -> str:
    total, n_bytes = hashlib.sha256(), 0
    for piece in column.pieces:
        file.write(piece)
        total.update(piece)
        n_bytes += memoryview(piece).nbytes  # its length counts items, of whatever size
    if n_bytes != column.n_bytes:
        raise ValueError(f"{column.name}: {n_bytes} bytes for shape {column.shape} of {column.dtype}")
    return total.hexdigest()


def read_header(file: BinaryIO) -> tuple[dict[str, Any], str]:
    """(header, its sha256) of a file that stands at its beginning; then the data begins.

    Raises:
        SetupError: No header of a safetensors file, or one that is longer than any shard's.
    """
    size = file.read(8)
    n_bytes = int.from_bytes(size, "little")
    if len(size) < 8 or n_bytes > MAX_HEADER_BYTES:
        raise SetupError("it does not begin as a shard does")
    text = file.read(n_bytes)
    try:
        header = loads(text)
    except HarnessError as error:
        raise SetupError(f"its header is no JSON: {error!s:.100}") from error
    if len(text) < n_bytes or not isinstance(header, dict):
        raise SetupError("its header is cut or no object")
    return header, hashlib.sha256(size + text).hexdigest()


def check_tensors(
    file: BinaryIO, expected: Written, keep: frozenset[str], tick: Callable[[int], None] = lambda _: None
) -> tuple[list[str], dict[str, bytes]]:
    """What does not fit in a file that stands at its beginning, in words; and the bytes of the tensors in `keep`.

    Every byte of the file counts: those of the header, those of each tensor, and none beside them.
    """
    try:
        header, header_sha256 = read_header(file)
    except SetupError as error:
        return [str(error)], {}
    header.pop("__metadata__", None)
    places = [(name, value["dtype"], value["shape"]) for name, value in expected.tensors.items()]
    at, wanted = 0, {}
    for name, dtype, shape in places:
        end = at + prod(shape) * ITEM_BYTES.get(dtype, 0)
        wanted[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    if header != wanted or header_sha256 != expected.header_sha256:
        return ["its header is not the one that was written"], {}
    kept, problems = {}, []
    for name, place in wanted.items():
        size = place["data_offsets"][1] - place["data_offsets"][0]
        sha256, kept_bytes = _digest(file, size, name in keep, tick)
        kept[name] = kept_bytes
        if sha256 != expected.tensors[name]["sha256"]:
            problems.append(f"{name}: its bytes are not those that were written")
    if file.read(1):
        problems.append("bytes after the last tensor")
    return problems, {name: kept[name] for name in keep if name in kept}


def _digest(file: BinaryIO, size: int, keep: bool, tick: Callable[[int], None]) -> tuple[str, bytes]:
    total, kept, left = hashlib.sha256(), [], size
    while left and (piece := file.read(min(left, PIECE_BYTES))):
        total.update(piece)
        left -= len(piece)
        tick(len(piece))
        if keep:
            kept.append(piece)
    return total.hexdigest(), b"".join(kept)
