"""runners.ledger_sums: a sum is of its values and of its row."""

import sqlite3
from contextlib import closing
from zlib import crc32

import pytest

from runners import ledger_writes as w
from runners.ledger import Write
from runners.ledger_rows import AS_SENT, NO_LONGER, SCHEMA
from runners.ledger_sums import PARTS, constant, row_sum, wrong
from tests.runners.ledger_kit import BLOCK, prompt


def test_a_sum_is_of_values_kinds_and_row() -> None:
    """The same everywhere and always; another value, kind of value, order or row gives another."""
    assert row_sum(7, 1, "é", b"\x00", None, 2.5) == crc32(rb"(1, '\xe9', b'\x00', None, 2.5)", 7)
    assert crc32(constant("answered", None), 9) == row_sum(9, "answered", None)
    others = [row_sum(8, 1, None), row_sum(7, "1", None), row_sum(7, 1.0, None), row_sum(7, None, 1), row_sum(7, 1)]
    assert len({row_sum(7, 1, None), *others}) == 6


EVENTS: dict[str, list[Write]] = {
    "asked": [w.job(1, 1, prompt(4))],
    "sent": [w.reserved(1, 1, 1, 100, 1)],
    "answered": [w.answered(1, 1, b"{}", 2, provider="Ünïcode", generation=None, n_tokens=5)],
    "billed at once": [w.answered(1, 1, b"{}", 2.5, provider=None, generation="g", cost=7)],
    "billed later": [w.settled(1, 9, "generation")],
    "failed": [w.failed(1, 3, "http-500", "w" * 5000, status=500, provider="P", generation="g")],
    "given up": [w.ended(1, "gave-up", "n" * 5000)],
    "judged": [w.judged(1, "verified", b"0123456789abcdef")],
    "judged anew": [w.judged(1, "verified", b"0123456789abcdef"), w.judged(1, "rejected", b"short")],
    "asked anew": [
        w.job(1, 1, prompt(4)),
        w.ended(1, "gave-up", "x"),
        w.job(1, 1, prompt(4, body=b"{}", max_tokens=3)),
    ],
    "placed": [w.job(1, 1, prompt(4)), w.job(2, 1, prompt(5)), w.placed([(2, 9, AS_SENT)])],
    "told": [w.meta(run="a"), w.meta(run="b"), w.amended(1, "ab", "why")],
    "ordered": [w.datasets(["a", "b"]), w.datasets(["b"])],
}


def database() -> sqlite3.Connection:
    """With the tables of a ledger, one data set and one block."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.create_function("row_sum", -1, row_sum)
    db.executescript(SCHEMA)
    db.execute("INSERT INTO dataset VALUES (1, 'a', NULL, ?)", (row_sum(0, "a", None),))
    db.execute("INSERT INTO block VALUES (1, ?, ?)", (BLOCK, row_sum(0, BLOCK)))
    return db


def n_wrong(db: sqlite3.Connection) -> int:
    """Rows with another sum than that of their values."""
    return sum(db.execute(f"SELECT count(*) FROM {table} t WHERE {wrong(table, 't')}").fetchone()[0] for table in PARTS)


def test_every_write_leaves_the_sums_of_what_it_wrote() -> None:
    """Each event of a run on its own and after all before: no row is wrong, and no sum is missing."""
    with closing(database()) as db:
        for name, writes in EVENTS.items():
            if name == "billed at once":
                db.execute("DELETE FROM answer")  # one answer a job
            for write in writes:
                for sql, values in write:
                    db.execute(sql, values)
            assert n_wrong(db) == 0, name
        for table, parts in PARTS.items():
            for column in parts:
                assert db.execute(f"SELECT count(*), count({column}) FROM {table}").fetchone() == ({
                    "job": 2, "dataset": 2,
                }.get(table, 1),) * 2  # fmt: skip


def test_a_wrong_place_stays_wrong() -> None:
    """What no data set has any more gets no right sum of a place that was wrong before."""
    with closing(database()) as db:
        for sql, values in (*w.job(1, 1, prompt(4)), ("UPDATE job SET idx = 8", ()), *w.placed([])):
            db.execute(sql, values)
        assert db.execute("SELECT idx, asked FROM job").fetchone() == (8, NO_LONGER)
        assert n_wrong(db) == 1


@pytest.mark.parametrize("table", PARTS)
def test_rows_without_sums_are_not_checked(table: str) -> None:
    """Those of older versions, and those that a LEFT JOIN did not find."""
    with closing(database()) as db:
        assert db.execute(f"SELECT {wrong(table, 't')} FROM (SELECT 1) LEFT JOIN {table} t ON 0").fetchone() == (0,)
        db.execute("UPDATE dataset SET name = 'other', crc = NULL")
        assert n_wrong(db) == 0
