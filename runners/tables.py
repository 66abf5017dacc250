"""Parquet: rows in, some at a time; rows out, a row group at a time, the whole file or none of it. And LZ4.

The owner of pyarrow in runners. Knows nothing of prompts, samples or ledgers.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import SetupError
from harness.store import atomic_file

READ_ROWS = 256
"""Rows that are in memory at once when a file is read."""
GROUP_VALUES = 500_000
"""Values of the longest lists in one row group that is written: what bounds the memory, whatever a row holds."""
GROUP_ROWS = 1000

Kind = str | tuple["Kind", ...] | Mapping[str, "Kind"]
"""A key of KINDS; (kind,) for a list of it; an object of kinds."""
KINDS: Mapping[str, pa.DataType] = MappingProxyType(
    {
        "text": pa.string(),
        "int": pa.int64(),
        "id": pa.int32(),
        "byte": pa.uint8(),
        "number": pa.float64(),
        "flag": pa.bool_(),
    }
)


_WHOLE = (pa.types.is_integer,)
FITTING: Mapping[str, Sequence[Callable[[pa.DataType], bool]]] = MappingProxyType(
    {
        "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        **dict.fromkeys(("int", "id", "byte"), _WHOLE),
        "number": (pa.types.is_floating, *_WHOLE),
        "flag": (pa.types.is_boolean,),
    }
)
"""Types of Arrow whose values can be of a kind."""
LISTS = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
    *(pa.types.is_list_view, pa.types.is_large_list_view),
)


def columns(path: Path) -> tuple[str, ...]:
    """Names of a file's columns.

    Raises:
        SetupError: It is no Parquet file, or cannot be read.
    """
    with _opened(path) as file:
        return tuple(file.schema_arrow.names)


def mistyped(path: Path, kinds: Mapping[str, Kind]) -> Iterator[tuple[str, str]]:
    """(name, Arrow's name of its type) of each column that is there and whose values cannot be of its kind.

    A text may be of any encoding, a whole number of any width and sign, a list of any sort; nothing else is taken for
    another thing: a flag is no number. Within a list the type `null` fits, for there are lists without a value.

    Raises:
        SetupError: It is no Parquet file, or cannot be read.
    """
    with _opened(path) as file:
        for field in file.schema_arrow:
            if field.name in kinds and not _fits(field.type, kinds[field.name]):
                yield field.name, str(field.type)


def _fits(there: pa.DataType, kind: Kind) -> bool:
    if pa.types.is_dictionary(there):
        return _fits(there.value_type, kind)
    if isinstance(kind, str):
        return any(test(there) for test in FITTING[kind])
    if isinstance(kind, tuple):
        listed = any(test(there) for test in LISTS)
        return listed and (pa.types.is_null(there.value_type) or _fits(there.value_type, kind[0]))
    return pa.types.is_struct(there) and all(
        there.get_field_index(name) >= 0 and _fits(there.field(name).type, part) for name, part in kind.items()
    )


def read_rows(path: Path, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The wanted columns of each row, in order.

    Raises:
        SetupError: It is no Parquet file, lacks a column or rows, or cannot be read; the rows before the fault have
            been given.
    """
    with _opened(path) as file:
        if missing := [name for name in wanted if name not in file.schema_arrow.names]:
            raise SetupError(f"{path} has no column {missing[0]!r}")  # else the library would leave it out
        left, values = file.metadata.num_rows, _plain_values(file, wanted)
        for batch in file.iter_batches(batch_size=READ_ROWS, columns=list(wanted)):
            left -= batch.num_rows
            try:
                rows = batch.to_pylist()
            except UnicodeDecodeError as error:
                raise SetupError(
                    f"{path}: column {_undecodable(batch)!r} holds bytes that are no UTF-8 text"
                ) from error
            for row in rows:
                for name in values:
                    values[name] -= len(row[name] or ".") if isinstance(row[name], list) else 1
                yield row
        # pages have checksums, their headers do not: a damaged one may pass over a page or values without a word
        if wanted and (left or any(values.values())):
            raise SetupError(f"{path}: rows or values less than it says; it is damaged: copy or write it again")


def _plain_values(file: pq.ParquetFile, wanted: Sequence[str]) -> dict[str, int]:
    """How many values the footer tells of columns that are no objects: an empty list and a null are one each."""
    groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
    found: dict[str, int] = {}
    for k, path in enumerate(file.schema.column(k).path for k in range(len(file.schema))):
        name = path.partition(".")[0]
        if name in wanted and path.count(".") in (0, 2) and file.schema.column(k).max_repetition_level < 2:
            kind = file.schema_arrow.field(name).type
            if not pa.types.is_struct(kind) and not pa.types.is_nested(getattr(kind, "value_type", pa.null())):
                found[name] = sum(group.column(k).num_values for group in groups)
    return found


def _undecodable(batch: pa.RecordBatch) -> str:
    """The first column whose texts cannot be read."""
    for name, values in zip(batch.schema.names, batch.columns, strict=True):
        try:
            values.to_pylist()
        except UnicodeDecodeError:
            return str(name)
    return ""


@contextmanager
def _opened(path: Path) -> Iterator[pq.ParquetFile]:
    try:
        if not S_ISREG(path.stat().st_mode):  # to open a named pipe would never end
            raise SetupError(f"{path} is no file; expected Parquet")
        with pq.ParquetFile(path, buffer_size=1 << 20, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, ValueError) as error:  # the latter of an object with a member twice
        raise SetupError(f"{path} cannot be read as Parquet: {error!s:.200}") from error
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror or error!s:.200}; expected Parquet") from error


class TableFile:
    """A Parquet file in the making; `add` takes a row, the last rows are written by `close`."""

    def __init__(self, file: BinaryIO, kinds: Mapping[str, Kind]) -> None:
        self._schema = pa.schema([(name, arrow_type(kind)) for name, kind in kinds.items()])
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd", write_page_checksum=True)
        self._rows: list[Mapping[str, Any]] = []
        self._n_values = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """One more row; its keys are those of `kinds`."""
        self._rows.append(row)
        self._n_values += sum(len(value) for value in row.values() if isinstance(value, list))
        if len(self._rows) >= GROUP_ROWS or self._n_values >= GROUP_VALUES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._n_values = [], 0

    def close(self, *, whole: bool) -> None:
        """Write what is left, where the file is wanted, and the footer."""
        try:
            if whole:
                self._flush()
        finally:
            self._writer.close()  # always: a writer that is left open complains when it is collected


def arrow_type(kind: Kind) -> pa.DataType:
    """The type of a kind."""
    if isinstance(kind, str):
        return KINDS[kind]
    if isinstance(kind, tuple):
        return pa.list_(arrow_type(kind[0]))
    return pa.struct([(name, arrow_type(part)) for name, part in kind.items()])


@contextmanager
def table_file(path: str | os.PathLike[str], kinds: Mapping[str, Kind]) -> Iterator[TableFile]:
    """A Parquet file that stands under its name once all of it is on disk; the same rows give the same bytes.

    Raises:
        SetupError: It cannot be written there.
    """
    with atomic_file(path) as file:
        table, whole = TableFile(file, kinds), False
        try:
            yield table
            whole = True
        finally:
            table.close(whole=whole)


SMALL_BYTES = 1024
"""Fewer are stored as they are: packing them saves little."""
STORED, LZ4 = 1 << 31, 1 << 30
"""Bits of the length that say how; none of them: zstd, as in older ledgers."""
SIZE = LZ4 - 1
LENGTH = struct.Struct("<I")


def squeezed(data: bytes) -> bytes:
    """Bytes as LZ4, their length before it (4 bytes, little endian).

    An answer takes a third of the time of zstd, and half as much room again.
    """
    if len(data) < SMALL_BYTES:
        return LENGTH.pack(len(data) | STORED) + data
    return LENGTH.pack(len(data) | LZ4) + cast(bytes, pa.compress(data, codec="lz4", asbytes=True))


def unsqueezed(data: bytes) -> bytes:
    """What `squeezed` was given.

    Raises:
        SetupError: These bytes are none of its.
    """
    try:
        (head,) = LENGTH.unpack_from(data)
        packed, size, codec = data[LENGTH.size :], head & SIZE, "lz4" if head & LZ4 else "zstd"
        found = packed if head & STORED else pa.decompress(packed, decompressed_size=size, codec=codec, asbytes=True)
        if len(found) != size:
            raise ValueError(f"{len(found)} bytes where {size} were stored")
        return cast(bytes, found)
    except (struct.error, OSError, ValueError) as error:
        raise SetupError(f"bytes in the ledger cannot be unpacked ({error!s:.100}); its file is damaged") from error
