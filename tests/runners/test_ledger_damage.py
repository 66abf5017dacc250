"""runners.ledger, ledger_rows and samples: bytes that changed on the disk are never taken for what was written."""

import random
import sqlite3
from collections import Counter
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


EDITS = {
    "what was paid": ("UPDATE attempt SET settled_nano = 1 WHERE job = 2", "an attempt is not what was written"),
    "what was reserved": ("UPDATE attempt SET reserved_nano = 1 WHERE job = 2", "an attempt is not what was written"),
    "who said so": ("UPDATE attempt SET settled_by = 'none' WHERE job = 2", "an attempt is not what was written"),
    "how an attempt ended": ("UPDATE attempt SET state = 'failed' WHERE job = 2", "an attempt is not what was written"),
    "generation": ("UPDATE attempt SET generation = 'gen-1' WHERE job = 2", "an attempt is not what was written"),
    "when it came": ("UPDATE attempt SET ended_at = 1.0 WHERE job = 2", "an attempt is not what was written"),
    "whose attempt": ("UPDATE attempt SET job = 1 WHERE job = 2", "not what was written"),
    "id": ("UPDATE job SET prompt_id = 'x' WHERE job = 2", "what was asked is not what was written"),
    "place": ("UPDATE job SET idx = 5 WHERE job = 2", "what was asked is not what was written"),
    "asked": ("UPDATE job SET asked = 0 WHERE job = 2", "what was asked is not what was written"),
    "max_tokens": ("UPDATE job SET max_tokens = 7 WHERE job = 2", "what was asked is not what was written"),
    "note": ("UPDATE job SET note = 'x' WHERE job = 2", "what was asked is not what was written"),
    "no end": ("UPDATE job SET end = NULL, end_crc = NULL WHERE job = 2", "has an answer, and is not answered"),
    "another end": (
        "UPDATE job SET end = 'gave-up', end_crc = NULL WHERE job = 2",
        "has an answer, and is not answered",
    ),
    "tokens": ("UPDATE answer SET n_tokens = 1 WHERE job = 2", "the answer is not what was written"),
    "another's answer": (
        "UPDATE answer SET (body, sha256) = (SELECT body, sha256 FROM answer WHERE job = 1) WHERE job = 2",
        "the answer is not what was written",
    ),
    "another's answer with its sum": (
        "UPDATE answer SET (body, sha256, crc) = (SELECT body, sha256, crc FROM answer WHERE job = 1) WHERE job = 2",
        "the answer is not what was written",
    ),
    "another's attempt": (
        "UPDATE answer SET attempt = 1, crc = NULL WHERE job = 2",
        "the answer is not what was written",
    ),
    "another's verdict": (
        "UPDATE verdict SET packed = (SELECT packed FROM verdict WHERE job = 1) WHERE job = 2",
        "tokenproof rejudge",
    ),
    "another's verdict with its sum": (
        "UPDATE verdict SET (packed, crc) = (SELECT packed, crc FROM verdict WHERE job = 1) WHERE job = 2",
        "tokenproof rejudge",
    ),
    "the name of a verdict": ("UPDATE verdict SET name = 'exact', crc = NULL WHERE job = 2", "tokenproof rejudge"),
    "block": ("UPDATE block SET json = CAST('{}' AS BLOB)", "an attempt is not what was written"),
    "no block": ("DELETE FROM block", "the block of a row of attempt is not there"),
    "no job": ("DELETE FROM job WHERE job = 2", "the job of a row of attempt is not there"),
    "no data set": ("DELETE FROM dataset", "the dataset of a row of job is not there"),
    "no attempt": ("DELETE FROM attempt WHERE job = 2", "the attempt of a row of answer is not there"),
    "no answer": ("DELETE FROM answer WHERE job = 2", "the answer of a row of verdict is not there"),
    "data set": ("UPDATE dataset SET name = 'b'", "what was asked is not what was written"),
    "order of data sets": ("UPDATE dataset SET place = 3", "what was asked is not what was written"),
    "what the run is": ("UPDATE meta SET value = '[]' WHERE key = 'dropped'", "the table meta is not what was written"),
    "its changes": ("UPDATE amendment SET reason = 'x'", "the table amendment is not what was written"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_value_is_refused(tmp_path: Path, edit: str) -> None:
    """Each value that reaches what is written or what was paid, and whole values of another row: told, not believed."""
    sql, said = EDITS[edit]
    with answered(tmp_path, run_of(tmp_path, {"prompt": "hi"}, {"prompt": "you"})) as ledger:
        ledger.commit([w.meta(dropped='["Chutes"]'), w.amended(1.0, "ab", "why")])
        assert write_output(ledger, kit(), tmp_path)["dropped"] == ["Chutes"]
        ledger.commit([[(sql, ())]])
        with pytest.raises(SetupError, match=said):
            write_output(ledger, kit(), tmp_path)


def test_money_that_was_edited_pays_for_nothing(tmp_path: Path) -> None:
    """Neither plan nor run takes sums of attempts that are not what was written."""
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        assert ledger.totals().n_attempts == 1
        ledger.commit([[("UPDATE attempt SET settled_nano = 1", ())]])
        with pytest.raises(SetupError, match="the table attempt is not what was written; the file is damaged"):
            ledger.totals()


def test_what_is_open_is_not_settled_where_it_is_wrong(tmp_path: Path) -> None:
    """A resumed run would book it under a new sum, and nobody would ever know."""
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        ledger.commit([w.reserved(2, 1, 1, 70, 1.0)])
        assert ledger.unsettled() == [(2, "a", "reserved", 70, None)]
        ledger.commit([[("UPDATE attempt SET state = 'answered' WHERE attempt = 2", ())]])
        with pytest.raises(SetupError, match="the table attempt is not what was written; the file is damaged"):
            ledger.unsettled()


def test_a_verdict_in_the_wrong_row_is_made_anew(tmp_path: Path) -> None:
    """`rejudge` is the way on, and gives the samples that were there."""
    with answered(tmp_path, run_of(tmp_path, {"prompt": "hi"}, {"prompt": "you"})) as ledger:
        ledger.commit([w.meta(ticket_id="t" * 64)])  # which the new verdict goes by
        before = write_output(ledger, kit(), tmp_path)["files"]
        ledger.commit([[(EDITS["another's verdict"][0], ())]])
    assert sum(rejudge(tmp_path / LEDGER, kit(), HASHES).values()) == 2
    with read_ledger(tmp_path / LEDGER) as ledger:
        assert write_output(ledger, kit(), tmp_path)["files"] == before


def test_a_page_that_is_wrong_is_refused_before_any_row(tmp_path: Path) -> None:
    """A page that nothing leads to: told before a verdict or a sample is made."""
    answered(tmp_path, run_of(tmp_path, {"prompt": "hi"}, {"prompt": "you"})).close()
    with closing(sqlite3.connect(tmp_path / LEDGER)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("DELETE FROM sqlite_schema WHERE name = 'attempt_job'")
        db.commit()
    said = "is never used; the file is damaged: restore it"
    with pytest.raises(SetupError, match=said):
        rejudge(tmp_path / LEDGER, kit(), HASHES)
    with read_ledger(tmp_path / LEDGER) as ledger, pytest.raises(SetupError, match=said):
        write_output(ledger, kit(), tmp_path)


def test_text_that_is_none_is_damage(tmp_path: Path) -> None:
    """Bytes that are no UTF-8, in a value or in the schema: no bug of tokenproof."""
    answered(tmp_path, run_of(tmp_path)).close()
    data = (tmp_path / LEDGER).read_bytes()
    for word, other in (
        (b"Chutes", b"Chu\xf4es"),
        (b"settled_by TEXT", b"settled_b\xf9 TEXT"),
        (b"n_tokens", b"m_tokens"),
    ):
        (tmp_path / LEDGER).write_bytes(data.replace(word, other))
        with (
            pytest.raises(SetupError, match="the file is damaged: restore it"),
            read_ledger(tmp_path / LEDGER) as ledger,
        ):
            write_output(ledger, kit(), tmp_path)


def test_no_flipped_bit_is_believed(tmp_path: Path) -> None:
    """Some hundred anywhere in a finished ledger: the same samples, or a refusal; `rejudge` gives no others either."""
    prompts = [{"prompt": f"say {k}"} for k in range(6)]
    with answered(tmp_path, run_of(tmp_path, *prompts), {4: "http-500"}) as ledger:
        ledger.commit([w.meta(asked='{"a":{"n_prompts":6}}', ticket_id="t" * 64), w.amended(3.5, "ab", "more")])
    path, rng = tmp_path / LEDGER, random.Random(5)
    data, outcomes = path.read_bytes(), Counter[str]()
    used = [k for k, byte in enumerate(data) if byte or k < 100]  # most else is free space

    def written() -> dict[str, object]:
        with read_ledger(path) as ledger:
            return write_output(ledger, kit(), tmp_path)

    good = written()
    for _ in range(300):
        k = rng.choice(used)
        path.write_bytes(data[:k] + bytes([data[k] ^ 1 << rng.randrange(8)]) + data[k + 1 :])
        try:
            found = written()
        except SetupError as error:
            outcomes["a bug" if "please report" in str(error) else "refused"] += 1
        else:
            assert found == good
            outcomes["harmless"] += 1
    assert outcomes["refused"] > 100
    assert outcomes["a bug"] == 0


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

    with read_ledger(tmp_path / LEDGER) as ledger:
        with pytest.raises(SetupError, match="row 2 missing from index job_order; the file is damaged: restore it"):
            write_output(ledger, kit(), tmp_path)
        with pytest.raises(SetupError, match="1 prompts are not where their order says; the file is damaged"):
            list(ledger.rows())
