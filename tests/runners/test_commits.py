"""runners.commits: what was awaited is on the disk; what comes together is one transaction."""

import asyncio
import time
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners import ledger_writes as w
from runners.commits import Commits
from runners.ledger import read_ledger
from tests.runners.ledger_kit import made


async def test_what_was_awaited_is_there(tmp_path: Path) -> None:
    """A reader sees it as soon as the awaitable returns; a thousand at once need far fewer transactions."""
    with made(tmp_path) as ledger, read_ledger(tmp_path / "ledger.sqlite3") as reader:
        commits = Commits(ledger, time.monotonic)
        await commits.put(w.meta(a="1"), w.meta(b="2"))
        assert reader.meta() == {"a": "1", "b": "2"}
        await asyncio.gather(*(commits.put(w.meta(**{f"k{n}": "x"})) for n in range(1000)))
        await commits.close()
        assert len(reader.meta()) == 1002
        assert commits.n_groups < 100
        assert 0 < commits.longest_s < 5


async def test_what_waits_is_written_before_the_end(tmp_path: Path) -> None:
    """Closing writes what nobody awaited."""
    with made(tmp_path) as ledger:
        commits = Commits(ledger, time.monotonic)
        for n in range(10):
            commits.put(w.meta(**{f"k{n}": "x"}))
        await commits.close()
        assert len(ledger.meta()) == 10


async def test_a_failed_write_is_told_and_nothing_follows(tmp_path: Path) -> None:
    """Every write after the first failure fails too: an answer must never seem to be kept."""
    with made(tmp_path) as ledger:
        commits = Commits(ledger, time.monotonic)
        await commits.put(w.meta(a="1"))
        with pytest.raises(SetupError, match="everything committed before is safe"):
            await commits.put([("INSERT INTO nowhere VALUES (1)", ())])
        with pytest.raises(SetupError, match="nowhere"):
            await commits.put(w.meta(b="2"))
        await commits.close()
        assert ledger.meta() == {"a": "1"}


async def test_nothing_is_taken_after_the_end(tmp_path: Path) -> None:
    """A write that comes too late is told, and waits for nobody."""
    with made(tmp_path) as ledger:
        commits = Commits(ledger, time.monotonic)
        await commits.put(w.meta(a="1"))
        await commits.close()
        with pytest.raises(SetupError, match="no more writes are taken"):
            await asyncio.wait_for(commits.put(w.meta(b="2")), 5)
        assert ledger.meta() == {"a": "1"}
