"""runners.feed: what is done is passed over, what is open comes again, and nothing is read far ahead."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners import ledger_writes as w
from runners.feed import CHUNK, Feed
from runners.jobs import Prompt
from runners.ledger import read_ledger
from tests.runners.ledger_kit import answered, made, prompt


async def _fed(folder: Path, prompts: Iterator[Prompt], *, amended: bool = False) -> list[tuple[str, int, bool]]:
    with read_ledger(folder / "ledger.sqlite3") as reader:
        feed = Feed(prompts, reader, {"a": 1, "b": 2}, next_job=100, amended=amended)
        found = []
        while (task := await feed.next({"b"}, lambda: False)) is not None:
            found.append((task.prompt.id, task.job, task.new))
        return found


async def test_only_what_is_open_comes(tmp_path: Path) -> None:
    """Answered and refused prompts are done; an open one keeps its job; gave-up and bad-request are asked anew."""
    with made(tmp_path) as ledger:
        answered(ledger, 0)
        for n, end in ((1, "refused"), (2, "gave-up"), (3, "bad-request"), (4, None)):
            ledger.commit([w.job(n + 1, 1, prompt(n)), *([w.ended(n + 1, end, "")] if end else [])])
        prompts = (prompt(n) for n in range(6))

        assert await _fed(tmp_path, prompts) == [
            *(("p2", 3, True), ("p3", 4, True), ("p4", 5, False), ("p5", 100, True))
        ]


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE job SET end = NULL, end_crc = NULL WHERE job = 2",  # as a ledger of an older version
        "UPDATE job SET end = 'gave-up', end_crc = NULL WHERE job = 2",
        "UPDATE job SET end = NULL WHERE job = 2",
        "UPDATE job SET ds = 2 WHERE job = 2",
        "UPDATE job SET sha256 = x'00' WHERE job = 2",
    ],
)
@pytest.mark.parametrize("amended", [False, True])
async def test_what_has_an_answer_is_never_asked_again(tmp_path: Path, edit: str, amended: bool) -> None:
    """Whatever its job says: the ledger is damaged, and nothing is paid twice."""
    with made(tmp_path) as ledger:
        for n in range(3):
            answered(ledger, n)
        ledger.named("dataset", "b")
        ledger.commit([[(edit, ())]])
        dataset = "b" if "ds = 2" in edit else "a"
        with pytest.raises(SetupError, match="prompt 'p1' is not what was written; the file is damaged"):
            await _fed(tmp_path, (prompt(n, dataset) for n in range(3)), amended=amended)


async def test_a_data_set_can_be_left_out(tmp_path: Path) -> None:
    """The prompts of a stopped data set are passed over, also between others."""
    with made(tmp_path):
        prompts = (prompt(n, "ab"[n % 2]) for n in range(200))
        assert [row[0] for row in await _fed(tmp_path, prompts)] == [f"p{n}" for n in range(0, 200, 2)]


async def test_nothing_is_read_far_ahead(tmp_path: Path) -> None:
    """However many prompts there are, a chunk is in memory; long runs of done ones are passed over."""
    pulled = 0

    def prompts() -> Iterator[Prompt]:
        nonlocal pulled
        for n in range(10**9):
            pulled += 1
            yield prompt(n)

    with made(tmp_path) as ledger, read_ledger(tmp_path / "ledger.sqlite3") as reader:
        for n in range(3 * CHUNK):
            answered(ledger, n)
        feed = Feed(prompts(), reader, {"a": 1}, next_job=1000, amended=False)
        task = await feed.next(set(), lambda: False)
        assert task is not None
        assert (task.prompt.index, task.job) == (3 * CHUNK, 1000)
        assert pulled == 4 * CHUNK


async def test_a_changed_prompt_is_refused_or_replaced(tmp_path: Path) -> None:
    """Another request under a known id: refused unless amended; then it replaces what has no answer, and that alone."""
    with made(tmp_path) as ledger:
        answered(ledger, 0)
        ledger.commit([w.job(2, 1, prompt(1)), w.job(3, 1, prompt(2)), w.ended(3, "bad-request", "")])
        changed = [prompt(n, body=b'{"other":%d}' % n) for n in range(3)]

        with pytest.raises(SetupError, match=r"'p0' is not the one that was asked .* --amend"):
            await _fed(tmp_path, iter(changed))
        assert await _fed(tmp_path, iter(changed), amended=True) == [("p1", 2, True), ("p2", 3, True)]


async def test_a_run_that_stops_passes_over_no_more(tmp_path: Path) -> None:
    """However many prompts are done: after the stop at most a chunk is still read."""
    pulled = 0

    def prompts() -> Iterator[Prompt]:
        nonlocal pulled
        while True:
            pulled += 1
            yield prompt(0)

    with made(tmp_path) as ledger, read_ledger(tmp_path / "ledger.sqlite3") as reader:
        answered(ledger, 0)
        feed = Feed(prompts(), reader, {"a": 1}, next_job=1000, amended=False)
        assert await feed.next(set(), lambda: pulled > 5 * CHUNK) is None
        assert pulled == 6 * CHUNK
