"""runners.tables: Parquet in and out, whole files only, in bounded memory."""

import random
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import SetupError
from runners import tables
from runners.tables import columns, read_rows, squeezed, table_file, unsqueezed

KINDS: dict[str, tables.Kind] = {
    "id": "text",
    "ids": ("id",),
    "mask": ("byte",),
    "cut": "flag",
    "usd": "number",
    "usage": {"prompt": "int", "completion": "int"},
    "findings": ({"code": "text", "text": "text"},),
}


def row(k: int, **more: Any) -> dict[str, Any]:
    """A row that differs from its neighbours in every column."""
    usage = {"prompt": k, "completion": 2 * k}
    found = [{"code": f"c{k}", "text": "ü"}]
    made = {"id": f"r{k}", "ids": [k, 163_839], "mask": [1, 0], "cut": k % 2 == 0, "usd": k / 8, "usage": usage}
    return {**made, "findings": found, **more}


def write(path: Path, rows: list[dict[str, Any]]) -> bytes:
    """The bytes of a file with these rows."""
    with table_file(path, KINDS) as table:
        for one in rows:
            table.add(one)
    return path.read_bytes()


def test_rows_come_back(tmp_path: Path) -> None:
    """Every kind survives, in order, with nulls and empty lists; other columns are not read."""
    rows = [row(0), row(1, ids=[], findings=[], usd=None, usage=None, cut=None), row(2)]
    write(tmp_path / "t.parquet", rows)

    assert list(read_rows(tmp_path / "t.parquet", tuple(KINDS))) == rows
    assert list(read_rows(tmp_path / "t.parquet", ["id"])) == [{"id": f"r{k}"} for k in range(3)]
    assert columns(tmp_path / "t.parquet") == tuple(KINDS)


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    """Neither the file's name nor the time is in it."""
    assert write(tmp_path / "a", [row(1), row(2)]) == write(tmp_path / "b", [row(1), row(2)])
    assert write(tmp_path / "a", [row(1), row(2)]) != write(tmp_path / "b", [row(2), row(1)])


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By rows and by the values of their lists, so that long rows do not pile up."""
    monkeypatch.setattr(tables, "GROUP_ROWS", 3)
    monkeypatch.setattr(tables, "GROUP_VALUES", 100)
    write(tmp_path / "t", [*(row(k) for k in range(7)), row(7, ids=list(range(120)))])

    data = pq.ParquetFile(tmp_path / "t").metadata
    assert [data.row_group(k).num_rows for k in range(data.num_row_groups)] == [3, 3, 2]


def test_a_block_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """Nothing half-written stands under the name, and no part is left over."""
    old = write(tmp_path / "t", [row(1)])

    def fail() -> None:
        with table_file(tmp_path / "t", KINDS) as table:
            table.add(row(2))
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    assert (tmp_path / "t").read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["t"]


def test_what_is_no_parquet_is_named(tmp_path: Path) -> None:
    """A missing file, another kind of file and a torn one say which file and why."""
    data = write(tmp_path / "t", [row(k) for k in range(50)])
    (tmp_path / "text").write_text("hello")
    (tmp_path / "torn").write_bytes(data[:-20])
    (tmp_path / "holed").write_bytes(data[:4] + bytes(len(data) - 504) + data[-500:])

    for name in ("none", "text", "torn", "holed"):
        with pytest.raises(SetupError, match=f"{name} cannot be read"):
            list(read_rows(tmp_path / name, ["id"]))


def rows_or_error(path: Path, wanted: list[str]) -> Any:
    """The rows, or what is said instead."""
    try:
        return list(read_rows(path, wanted))
    except SetupError as error:
        return str(error)


def test_a_flipped_bit_never_gives_other_rows(tmp_path: Path) -> None:
    """Wherever in the file it is: the very rows come, or an error that names the file. Pages have checksums."""
    wanted = ["ids", "mask", "cut", "usd"]
    rows = [row(k, ids=[random.Random(k).randrange(163_840) for _ in range(50)]) for k in range(40)]
    data = write(tmp_path / "r.parquet", rows)
    right, bad = [{name: one[name] for name in wanted} for one in rows], tmp_path / "bad.parquet"
    found = []
    for k in range(300):
        rng = random.Random(k)
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        bad.write_bytes(flipped)
        found.append(rows_or_error(bad, wanted))
    assert [one for one in found if one != right and str(bad) not in one] == []
    assert sum(one != right for one in found) > 100


def test_a_file_without_page_checksums_is_read(tmp_path: Path) -> None:
    """Data sets of others have none."""
    path = tmp_path / "plain.parquet"
    pq.write_table(pa.table({"id": ["a", "b"]}), path)
    assert list(read_rows(path, ["id"])) == [{"id": "a"}, {"id": "b"}]


def test_a_column_that_is_not_there_is_told(tmp_path: Path) -> None:
    """The library would give rows without it."""
    write(tmp_path / "r.parquet", [row(1)])
    with pytest.raises(SetupError, match=r"r\.parquet has no column 'maks'"):
        list(read_rows(tmp_path / "r.parquet", ["ids", "maks"]))


def test_many_rows_are_read_in_batches(tmp_path: Path) -> None:
    """More rows than one batch and one row group come in order."""
    table = pa.table({"id": [str(k) for k in range(1000)]})
    pq.write_table(table, tmp_path / "t", row_group_size=300)

    assert [r["id"] for r in read_rows(tmp_path / "t", ["id"])] == [str(k) for k in range(1000)]


@pytest.mark.parametrize("data", [b"", b"x", b'{"a":1}' * 5000, bytes(range(256))])
def test_squeezed_bytes_come_back(data: bytes) -> None:
    """Byte for byte, also where there is nothing to gain."""
    assert unsqueezed(squeezed(data)) == data


def test_bytes_of_an_older_ledger_come_back() -> None:
    """Written with zstd, their bare length before it."""
    data = b'{"a":1}' * 5000
    assert unsqueezed(struct.pack("<I", len(data)) + pa.compress(data, codec="zstd", asbytes=True)) == data


@pytest.mark.parametrize(
    "data", [b"", b"abc", b"\x05\x00\x00\x00nonsense", *(squeezed(b"x" * n)[:-4] for n in (100, 5000))]
)
def test_bytes_that_are_not_squeezed(data: bytes) -> None:
    """A damaged ledger is told, not crashed upon."""
    with pytest.raises(SetupError, match="its file is damaged"):
        unsqueezed(data)
