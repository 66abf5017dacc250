"""runners.ledger, ledger_rows and samples: bytes that changed on the disk are never taken for what was written."""

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.ticket import Hashes
from runners import ledger_writes as w
from runners.layouts import export
from runners.ledger import open_ledger, read_ledger
from runners.output import LEDGER, write_output
from runners.rejudge import rejudge
from runners.tables import squeezed
from runners.verdicts import pack, unpack
from tests.corpus import kit
from tests.runners.run_kit import run_of
from tests.runners.sample_kit import FACTS, answered

HASHES = Hashes(FACTS.content_hash, FACTS.vocab_sha256, FACTS.formats_sha256, FACTS.habits_sha256)


def change(folder: Path, table: str, column: str, found: bytes) -> None:
    """Other bytes in the place of those that were stored."""
    with closing(sqlite3.connect(folder / LEDGER)) as db:
        db.execute(f"UPDATE {table} SET {column} = ? WHERE job = 2", (found,))
        db.commit()


def stored(folder: Path, table: str, column: str) -> bytes:
    """The bytes of the second of two prompts."""
    with closing(sqlite3.connect(folder / LEDGER)) as db:
        return bytes(db.execute(f"SELECT {column} FROM {table} WHERE job = 2").fetchone()[0])


@pytest.mark.parametrize(("table", "column"), [("job", "request"), ("answer", "body"), ("verdict", "packed")])
def test_a_flipped_bit_is_refused_by_name(tmp_path: Path, table: str, column: str) -> None:
    """In a prompt, an answer or a verdict: no samples, and the row, the file and the way out are told."""
    answered(tmp_path, run_of(tmp_path, {"prompt": "hi"}, {"prompt": "you"})).close()
    good, rng = stored(tmp_path, table, column), random.Random(3)
    for _ in range(40):
        k = rng.randrange(len(good))
        change(tmp_path, table, column, good[:k] + bytes([good[k] ^ 1 << rng.randrange(8)]) + good[k + 1 :])
        with read_ledger(tmp_path / LEDGER) as ledger, pytest.raises(SetupError) as told:
            write_output(ledger, kit(), tmp_path)
        said = str(told.value)
        assert str(tmp_path / LEDGER) in said
        assert "a/1" in said
        assert ("restore it from a copy" in said) == (table != "verdict")
        assert ("`tokenproof rejudge`" in said) == (table == "verdict")
    assert not (tmp_path / "samples.parquet").exists()


@pytest.mark.parametrize(("table", "column"), [("job", "request"), ("answer", "body")])
def test_whole_bytes_of_another_row_are_refused(tmp_path: Path, table: str, column: str) -> None:
    """They can be unpacked, and are not what was written there: neither judged again nor asked."""
    answered(tmp_path, run_of(tmp_path, {"prompt": "hi"}, {"prompt": "you"})).close()
    change(tmp_path, table, column, squeezed(b'{"model":"other"}'))

    with pytest.raises(SetupError, match=r"a/1: the .* is not what was written"):
        rejudge(tmp_path / LEDGER, kit(), HASHES)
    if table == "job":
        with open_ledger(tmp_path / LEDGER) as ledger, pytest.raises(SetupError, match="is not what was written"):
            ledger.body(2)


def test_an_answer_that_is_gone_is_missed(tmp_path: Path) -> None:
    """A prompt that says it is answered has its answer, or the ledger is damaged."""
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        ledger.commit([[("DELETE FROM verdict", ()), ("DELETE FROM answer", ())]])
        with pytest.raises(SetupError, match="a/0 is answered, and the answer is not there; the file is damaged"):
            write_output(ledger, kit(), tmp_path)


@pytest.mark.parametrize("member", ["content_hash", "vocab_sha256", "formats_sha256", "habits_sha256"])
def test_a_verdict_of_another_judge_is_refused(tmp_path: Path, member: str) -> None:
    """Its prompt would be rendered by what did not verify it; both hashes are named, and `rejudge` is the way out."""
    other = replace(HASHES, **{member: "9" * 64})
    was = getattr(HASHES, member)
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        said = f"a/0 was judged with other .*{member} {was[:12]}, here 999999999999.*tokenproof rejudge"
        with pytest.raises(SetupError, match=said):
            write_output(ledger, kit(), tmp_path, used=other)
        with pytest.raises(SetupError, match=said):
            export(ledger, kit(), "specforge", tmp_path / "x", used=other)
        assert write_output(ledger, kit(), tmp_path, used=HASHES)["samples"] == 1
        (row,) = ledger.rows()
        verdict, facts = unpack(row.verdict or b"")
        ledger.commit([w.judged(1, verdict.name, pack(verdict, replace(facts, **{member: "9" * 64})))])
        assert write_output(ledger, kit(), tmp_path, used=other)["samples"] == 1


def test_a_row_that_its_index_lost_is_missed(tmp_path: Path) -> None:
    """Rows are read by an index: what it does not lead to any more is not left out in silence."""
    answered(tmp_path, run_of(tmp_path, {"prompt": "hi"}, {"prompt": "you"})).close()
    with closing(sqlite3.connect(tmp_path / LEDGER)) as db:
        db.execute("PRAGMA writable_schema = ON")
        (sql,) = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'job_order'").fetchone()
        db.execute("DROP INDEX job_order")
        db.execute("CREATE INDEX job_order ON job (ds, idx) WHERE job = 1")
        db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'job_order'", (sql,))
        db.commit()

    with read_ledger(tmp_path / LEDGER) as ledger, pytest.raises(SetupError, match="1 prompts are not where"):
        write_output(ledger, kit(), tmp_path)
