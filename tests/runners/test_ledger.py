"""runners.ledger: what was committed is there, whatever happens afterwards; and only one process writes."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter, deque
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners import ledger_writes as w
from runners.jobs import request_bytes
from runners.ledger import read_ledger
from runners.ledger_rows import AS_SENT, NO_LONGER, Known, Totals
from runners.tables import unsqueezed
from tests.conftest import ROOT
from tests.runners.ledger_kit import BLOCK, answered, as_of_version, made, prompt

NAME = "ledger.sqlite3"


def test_rows_hold_what_was_written(tmp_path: Path) -> None:
    """Request with its block, answer, hashes, cost and verdict come back; rows stand in the order of the input."""
    with made(tmp_path) as ledger:
        ledger.named("dataset", "first")
        answered(ledger, 1, b'{"x":1}', "second")
        answered(ledger, 0, b'{"x":0}', "second", cost=None)
        answered(ledger, 5, b'{"x":5}', "first")
        ledger.commit([w.judged(6, "verified", b"packed")])

        rows = list(ledger.rows())
        only = list(ledger.rows("second"))

    assert [(r.dataset, r.id, r.index) for r in rows] == [("first", "p5", 5), ("second", "p0", 0), ("second", "p1", 1)]
    assert [r.id for r in only] == ["p0", "p1"]
    first = rows[0]
    assert first.request == request_bytes(b'{"n":5}', BLOCK) == b'{"n":5,"provider":%s}' % BLOCK
    assert first.request_sha256 == sha256(first.request).hexdigest()
    assert (first.answer, first.answer_sha256) == (b'{"x":5}', sha256(b'{"x":5}').hexdigest())
    assert (first.n_prompt, first.max_tokens, first.n_attempts, first.cost_nano) == (9, 99, 1, 7)
    assert (first.end, first.provider, first.generation, first.ended_at) == ("answered", "Chutes", "gen-5", 2.0)
    assert first.n_tokens == 5
    assert (first.verdict_name, first.verdict) == ("verified", b"packed")
    assert (rows[1].cost_nano, rows[1].verdict) == (100, None)  # not settled: the whole reservation


def test_a_failed_prompt_says_how_it_failed(tmp_path: Path) -> None:
    """Without an answer the last attempt speaks; each attempt's money counts."""
    with made(tmp_path) as ledger:
        ds, block = ledger.named("dataset", "a"), ledger.named("block", BLOCK)
        ledger.commit([w.job(1, ds, prompt(0))])
        for attempt, state, cost in ((1, "failed", 0), (2, "unknown", 50)):
            ledger.commit([w.reserved(attempt, 1, block, 50, 1.0)])
            ledger.commit([w.failed(attempt, 3.0, "hang", "no words", state=state), w.settled(attempt, cost, "none")])
        ledger.commit([w.ended(1, "gave-up", "3 tries")])

        (row,) = ledger.rows()
        totals = ledger.totals()

    assert (row.end, row.note, row.failure, row.answer) == ("gave-up", "3 tries", "hang", None)
    assert (row.n_attempts, row.cost_nano, row.attempt) == (2, 50, 2)
    assert totals == Totals(50, 0, 2, 1, {"a": Counter({"gave-up": 1})}, {})


def test_totals_and_lookups(tmp_path: Path) -> None:
    """Money spent and reserved apart, ends and verdicts per data set, the highest numbers, and what is not settled."""
    with made(tmp_path) as ledger:
        answered(ledger, 0)
        answered(ledger, 1, cost=None)
        answered(ledger, 0, dataset="b")
        ledger.commit([w.judged(1, "exact", b""), w.job(7, 1, prompt(6))])

        assert ledger.totals() == Totals(
            14,
            100,
            3,
            0,
            {"a": Counter(answered=2, open=1), "b": Counter(answered=1)},
            {"a": Counter(exact=1, unjudged=1), "b": Counter(unjudged=1)},
            {"a": 10, "b": 5},
        )
        assert (ledger.numbers("job"), ledger.numbers("attempt")) == (1001, 1001)
        assert ledger.unsettled() == [(2, "a", "answered", 100, "gen-1")]
        assert [r.id for r in ledger.unjudged()] == ["p1", "p0"]
        assert ledger.latest_verdicts(5) == [("Chutes", "exact", b"")]
        assert ledger.known(1, ["p6", "p7"]) == {"p6": Known(7, None, sha256(b'{"n":6}').digest())}
        assert ledger.known(2, ["p6"]) == {}


def test_a_changed_request_opens_its_prompt_again(tmp_path: Path) -> None:
    """The same job with another body: the new request and hash stand, and no end."""
    with made(tmp_path) as ledger:
        ledger.commit([w.job(3, ledger.named("dataset", "a"), prompt(0)), w.ended(3, "bad-request", "no")])
        ledger.commit([w.job(3, 1, prompt(0, body=b'{"new":1}', max_tokens=5))])
        (row,) = ledger.rows()
        assert (row.request, row.end, row.note, row.max_tokens, row.cost_nano) == (b'{"new":1}', None, None, 5, 0)
        assert ledger.known(1, ["p0"]) == {"p0": Known(3, None, sha256(b'{"new":1}').digest())}


def test_fragments_are_kept(tmp_path: Path) -> None:
    """Bytes that are no answer stay with their attempt; no bytes, no row."""
    with made(tmp_path) as ledger:
        answered(ledger, 0)
        ledger.commit([w.fragment(1, b"half an ans"), w.fragment(2, b"")])
        assert [(n, unsqueezed(body)) for n, body in ledger._db.execute("SELECT * FROM fragment")] == [
            (1, b"half an ans")
        ]


def test_meta_and_amendments(tmp_path: Path) -> None:
    """A new value replaces the old one; amendments stay, in order."""
    with made(tmp_path) as ledger:
        ledger.commit([w.meta(run_sha256="a", ticket="t"), w.meta(run_sha256="b")])
        ledger.commit([w.amended(2.0, "b", "more tokens"), w.amended(1.0, "a", "first")])
        assert ledger.meta() == {"run_sha256": "b", "ticket": "t"}
        assert ledger.amendments() == [(1.0, "a", "first"), (2.0, "b", "more tokens")]


def columns_of(path: Path) -> dict[str, set[str]]:
    """Table -> its columns."""
    with closing(sqlite3.connect(path)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {name: {row[1] for row in db.execute(f"PRAGMA table_info({name})")} for name in names}


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_older_version_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    """By its writer: nothing of it is lost, every prompt is asked, it has all columns, and is written as any other."""
    with made(tmp_path) as ledger:
        for n in range(3):
            answered(ledger, n, b'{"n":%d}' % n)
        before, totals = list(ledger.rows()), ledger.totals()
    columns = columns_of(tmp_path / NAME)
    as_of_version(tmp_path / NAME, version)

    with made(tmp_path) as ledger:
        assert (list(ledger.rows()), ledger.totals()) == (before, totals)
        assert columns_of(tmp_path / NAME) == columns
        answered(ledger, 3)
        ledger.commit([w.datasets(["b", "a"]), w.placed([(1, 5, AS_SENT)])])
        assert [(r.id, r.index, r.asked) for r in ledger.rows()] == [
            ("p1", 1, NO_LONGER), ("p2", 2, NO_LONGER), ("p3", 3, NO_LONGER), ("p0", 5, AS_SENT),
        ]  # fmt: skip


@pytest.mark.parametrize("version", [1, 2])
def test_a_reader_leaves_an_older_version_as_it_is(tmp_path: Path, version: int) -> None:
    """All is read, and not a byte of the file changes; what its writer makes of it meanwhile is read on."""
    with made(tmp_path) as ledger:
        ledger.commit([w.meta(run="text"), w.amended(1.0, "a", "why")])
        for n in range(3):
            answered(ledger, n, b'{"n":%d}' % n)
        rows, totals = list(ledger.rows()), ledger.totals()
    as_of_version(tmp_path / NAME, version)
    before = (tmp_path / NAME).read_bytes()

    with read_ledger(tmp_path / NAME) as reader:
        reader.check()
        assert (list(reader.rows()), reader.totals(), reader.meta()) == (rows, totals, {"run": "text"})
        assert (reader.datasets(), reader.amendments()) == ({"a": 1}, [(1.0, "a", "why")])
        assert reader.known(1, ["p1"]) == {"p1": Known(2, "answered", sha256(b'{"n":1}').digest())}
        assert (tmp_path / NAME).read_bytes() == before
        with made(tmp_path) as ledger:
            answered(ledger, 3, b'{"n":3}')
        assert [row.id for row in reader.rows()] == ["p0", "p1", "p2", "p3"]


def test_a_ledger_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    """Writer and reader say that a newer tokenproof wrote it, and what to do; not a byte of it changes."""
    with made(tmp_path) as ledger:
        answered(ledger, 0)
    with closing(sqlite3.connect(tmp_path / NAME, isolation_level=None)) as db:
        db.execute("PRAGMA user_version = 4")
    before = (tmp_path / NAME).read_bytes()
    for opened in (made, lambda folder: read_ledger(folder / NAME)):
        with pytest.raises(SetupError, match=r"a newer tokenproof wrote it \(version 4 .*update tokenproof"):
            opened(tmp_path)
    assert (tmp_path / NAME).read_bytes() == before


def test_data_sets_have_their_order(tmp_path: Path) -> None:
    """As they were placed last; those that were not come after them, in the order in which they came."""
    with made(tmp_path) as ledger:
        for name in ("a", "b", "c", "d"):
            answered(ledger, 0, dataset=name)
        assert [r.dataset for r in ledger.rows()] == ["a", "b", "c", "d"]
        ledger.commit([w.datasets(["d", "new", "b"])])
        assert [r.dataset for r in ledger.rows()] == ["d", "b", "a", "c"]
        ledger.commit([w.datasets(["c"])])
        assert [r.dataset for r in ledger.rows()] == ["c", "a", "b", "d"]
        assert ledger.datasets() == {"a": 1, "b": 2, "c": 3, "d": 4, "new": 5}


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    """The lock holds while the first is open, and is gone with it; readers see what is committed."""
    with made(tmp_path) as ledger:
        answered(ledger, 0)
        with pytest.raises(SetupError, match="another process is at work"):
            made(tmp_path)
        with read_ledger(tmp_path / NAME) as reader:
            assert [r.id for r in reader.rows()] == ["p0"]
            with pytest.raises(SetupError, match="readonly"):
                reader.commit([w.meta(a="b")])
    made(tmp_path).close()


def test_a_group_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """A statement that fails takes back its group; earlier groups stay."""
    with made(tmp_path) as ledger:
        answered(ledger, 0)
        with pytest.raises(SetupError, match="everything committed before is safe"):
            ledger.commit([w.meta(a="b"), w.reserved(1, 1, 1, 5, 1.0)])  # attempt 1 is there already
        assert (ledger.meta(), ledger.totals().n_attempts) == ({}, 1)


@pytest.mark.parametrize("cut", [1, 1000, 5000])
def test_a_torn_tail_loses_the_last_group_at_most(tmp_path: Path, cut: int) -> None:
    """The WAL cut or garbled at its end: every earlier group is there, and the ledger takes new ones."""
    (tmp_path / "torn").mkdir()
    with made(tmp_path) as ledger:
        for n in range(5):
            answered(ledger, n, os.urandom(3000))
        expected = [(r.id, r.answer_sha256) for r in ledger.rows()]
        for file in (NAME, f"{NAME}-wal"):  # as a crash leaves them: not closed
            shutil.copy(tmp_path / file, tmp_path / "torn" / file)
    wal = tmp_path / "torn" / f"{NAME}-wal"
    data = wal.read_bytes()
    wal.write_bytes(data[:-cut] if cut > 1 else data[:-100] + b"\xff" * 100)

    with made(tmp_path / "torn") as ledger:
        rows = list(ledger.rows())
        assert [(r.id, r.answer_sha256) for r in rows if r.answer][:4] == expected[:4]
        assert [r.end for r in rows] == ["answered"] * 4 + [None]  # its reservation was an earlier group
        answered(ledger, 9)
        assert len(list(ledger.rows())) == 6


def test_a_full_disk_is_told_and_harms_nothing(tmp_path: Path) -> None:
    """Writes beyond a file's limit fail in the operating system: the error says so, and all groups before are there."""
    program = """
import resource, sys
from pathlib import Path
from harness.errors import SetupError
from tests.runners.ledger_kit import answered, made
import os
with made(Path(sys.argv[1])) as ledger:
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    for n in range(100):
        try:
            answered(ledger, n, os.urandom(4000))
        except SetupError as error:
            print(n, "|", error)
            break
"""
    ran = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    said = ran.stdout.partition("|")
    n = int(said[0])

    assert "make room" in said[2] or "the disk refused" in said[2], ran.stderr
    assert "everything committed before is safe" in said[2]
    assert 0 < n < 100
    with made(tmp_path) as ledger:
        assert [r.id for r in ledger.rows() if r.answer] == [f"p{k}" for k in range(n)]
        answered(ledger, 500)


def test_a_database_that_may_not_grow_is_a_full_disk(tmp_path: Path) -> None:
    """SQLite's own word for a full disk is told with what to do."""
    with made(tmp_path) as ledger:
        ledger._db.execute("PRAGMA max_page_count = 24")
        with pytest.raises(SetupError, match=r"full .*make room"):
            deque(answered(ledger, n, os.urandom(4000)) for n in range(100))
        assert ledger.totals().n_attempts > 0


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Told before anything else happens, by a user for whom the folder is read-only."""
    tmp_path.chmod(0o555)
    program = (
        "import sys; from pathlib import Path; from runners.ledger import open_ledger\n"
        "if hasattr(sys, 'argv') and __import__('os').geteuid() == 0: __import__('os').setuid(65534)\n"
        "open_ledger(Path('ledger.sqlite3'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}
    )
    tmp_path.chmod(0o755)

    assert "SetupError: ledger.sqlite3 cannot be written: Permission denied" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_ledger(tmp_path: Path) -> None:
    """Nothing, other text, another database and a damaged ledger are each told apart."""
    path = tmp_path / NAME
    with pytest.raises(SetupError, match="no ledger; expected the output folder"):
        read_ledger(path)
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(SetupError, match="the file is no ledger"):
        made(tmp_path)
    path.unlink()
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE other (x)")
    before = path.read_bytes()
    with pytest.raises(SetupError, match=r"a database, but no ledger .*choose another folder"):
        made(tmp_path)
    assert path.read_bytes() == before
    path.unlink()
    with made(tmp_path) as ledger:
        for n in range(20):
            answered(ledger, n, os.urandom(4000))
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(SetupError, match="the file is damaged"), made(tmp_path) as ledger:
        list(ledger.rows())
