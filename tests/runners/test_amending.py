"""runners.amending: where prompts lie after their data sets changed, and what no amendment may do."""

import asyncio
import json
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from runners import ledger_writes as w
from runners.amending import layout, places
from runners.bulk import generate, outlook
from runners.data_sets import canonical, survey
from runners.jobs import Prompt
from runners.ledger import Ledger, Row, read_ledger
from runners.ledger_rows import AS_SENT, NO_LONGER, OTHERWISE
from runners.output import LEDGER, write_output
from runners.runfile import RunFile
from runners.tables import read_rows
from tests.bulk_kit import Direct, outside
from tests.corpus import kit
from tests.runners.ledger_kit import answered, made, prompt
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_of, run_text
from tests.runners.sample_kit import emulator
from tests.runners.test_bulk import done, launch, meta, rows

TWO = '[[data]]\npath = "b.jsonl"\n'


def row(name: str) -> dict[str, str]:
    """A row of a data set whose id is its prompt's."""
    return {"id": name, "prompt": f"say {name}"}


def named(names: str) -> list[dict[str, str]]:
    """Rows, one a letter."""
    return [row(name) for name in names]


def shown(run: RunFile) -> list[tuple[str, str, int]]:
    """(data set, id, asked) of each row of the ledger, in the order in which it gives them."""
    return [(found.dataset, found.id, found.asked) for found in rows(run)]


def written(run: RunFile) -> dict[str, Any]:
    """What is written from the ledger: the summary, and the ids of both Parquet files."""
    with read_ledger(run.out / LEDGER) as ledger:
        told = write_output(ledger, kit(), run.out)
    for name in ("samples", "rejected"):
        told[name + "_rows"] = list(read_rows(run.out / f"{name}.parquet", ("id", "data_set", "index", "left_out")))
    return told


async def test_the_output_follows_the_new_file(tmp_path: Path) -> None:
    """Rows moved, removed and added: samples are in the new order, what was removed is told and in no sample."""
    await done(launch(run_of(tmp_path, *named("abcdef"))))
    run = run_of(tmp_path, *named("fxdab"))

    stop, host, _ = await done(launch(run, amend="better rows"))

    assert (stop.good, host.seen) == (True, ["say x"])
    told = written(run)
    assert [(r["id"], r["index"]) for r in told["samples_rows"]] == [(name, k) for k, name in enumerate("fxdab")]
    assert [(r["id"], r["index"], r["left_out"]) for r in told["rejected_rows"]] == [
        ("c", None, "no-longer-asked"), ("e", None, "no-longer-asked"),
    ]  # fmt: skip
    assert told["no_longer_asked"] == {"n": 2, "ids": ["a/c", "a/e"]}
    assert told["answered_as_before"] == {"n": 0, "ids": []}
    assert (told["samples"], told["answers"], told["open"]) == (5, 7, 0)
    assert told["findings"] == {"no-longer-asked": 2}
    answers = {found.id: found.answer for found in rows(run)}
    assert all(f"say {name}".encode() in (answers[name] or b"") for name in "abcdefx")


async def test_a_row_that_comes_back_is_a_sample_again(tmp_path: Path) -> None:
    """It was paid for once."""
    await done(launch(run_of(tmp_path, *named("abc"))))
    await done(launch(run_of(tmp_path, *named("ac")), amend="without b"))
    run = run_of(tmp_path, *named("cba"))

    stop, host, _ = await done(launch(run, amend="with b"))

    assert (stop.good, host.seen) == (True, [])
    assert [r["id"] for r in written(run)["samples_rows"]] == ["c", "b", "a"]


async def test_data_sets_are_moved_and_removed_too(tmp_path: Path) -> None:
    """Samples follow the order of the run file; a limit that shrinks and a data set that is gone ask no longer."""
    data_file(tmp_path, *named("xy"), name="b.jsonl")
    await done(launch(run_of(tmp_path, *named("abc"), text=run_text(PROVIDER, ONE, TWO))))
    turned = run_of(tmp_path, *named("abc"), text=run_text(PROVIDER, TWO, ONE + "limit = 2\n"))
    await done(launch(turned, amend="b first"))
    told = written(turned)

    assert [(r["data_set"], r["id"]) for r in told["samples_rows"]] == [("b", "x"), ("b", "y"), ("a", "a"), ("a", "b")]
    assert (told["no_longer_asked"]["ids"], told["open"]) == (["a/c"], 0)
    alone = run_of(tmp_path, *named("abc"))
    stop, host, seen = await done(launch(alone, amend="a alone"))
    assert (stop.good, host.seen) == (True, [])
    assert written(alone)["no_longer_asked"]["ids"] == ["b/x", "b/y"]
    assert {name: sum(one.n_ended.values()) for name, one in seen[-1].sets.items()} == {"a": 3, "b": 0}


async def test_what_is_asked_no_longer_counts_towards_no_target(tmp_path: Path) -> None:
    """Tokens of removed rows are not in the samples, so that others are asked for; their dollars are spent."""
    text = run_text(PROVIDER, ONE + "tokens = 60\n", concurrency="1")
    run = run_of(tmp_path, *named("abcdefghijklmnop"), text=text)
    _, first, _ = await done(launch(run))
    spent = written(run)["spent_usd"]
    run = run_of(tmp_path, *named("cdefghijklmnop"), text=text)

    _, second, _ = await done(launch(run, amend="without a and b"))

    assert (len(first.seen), len(second.seen)) == (5, 2)
    told = written(run)
    assert (told["samples"], told["open"]) == (5, 0)
    assert told["spent_usd"] == pytest.approx(spent * 7 / 5, rel=0.01)


async def test_an_answer_stays_with_the_request_that_was_sent(tmp_path: Path) -> None:
    """Another limit or sampling asks the same prompt: the answer stays a sample, is counted and named, and so back."""
    await done(launch(run_of(tmp_path, *named("abc")), probe=2))
    longer = run_of(tmp_path, *named("abc"), text=run_text(max_tokens="90"))
    await done(launch(longer, amend="shorter"))
    told = written(longer)

    assert told["answered_as_before"] == {"n": 2, "ids": ["a/a", "a/b"]}
    assert [found.max_tokens for found in rows(longer)] == [100, 100, 90]
    assert (told["samples"], told["no_longer_asked"]["n"]) == (3, 0)
    back = run_of(tmp_path, *named("abc"))
    await done(launch(back, amend="as it was"))
    assert [found.asked for found in rows(back)] == [AS_SENT, AS_SENT, OTHERWISE]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"b": {"id": "b", "prompt": "another"}}, run_text()),
        ({"b": {**row("b"), "tools": [{"type": "function", "function": {"name": "f"}}]}}, run_text()),
        ({}, run_text(thinking="false")),
    ],
    ids=["prompt", "tools", "thinking"],
)
async def test_another_prompt_under_an_id_with_an_answer_is_refused(
    tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    """Each such id is told, nothing is asked, and the ledger is as it was; what has no answer may change."""
    run = run_of(tmp_path, *named("abc"))
    await done(launch(run, probe=2))
    before = (meta(run), shown(run))
    other = run_of(tmp_path, *(change.get(name, row(name)) for name in "xcba"), text=text)
    host = Direct(emulator())

    with pytest.raises(SetupError) as caught:
        await done(launch(other, amend="so"), host)

    *lines, remedy = str(caught.value).splitlines()
    assert [line.partition(" is not ")[0] for line in lines] == [
        f"data set a: the answer under the id {name!r}" for name in (["b"] if change else ["b", "a"])
    ]
    assert lines[0].endswith("is not to the prompt of today's row 3")
    assert remedy.startswith("an answer never passes as one to another prompt: give each of these prompts an id")
    assert (await outlook(launch(other), host)).against == (*lines, remedy)
    assert (host.seen, meta(run), shown(run)) == ([], *before)
    with read_ledger(run.out / LEDGER) as ledger:
        assert ledger.amendments() == []
    fine = run_of(tmp_path, row("b"), row("a"), {"id": "c", "prompt": "another"})
    stop, host, _ = await done(launch(fine, amend="c alone"), host)
    assert (stop.good, host.seen, [r["id"] for r in written(fine)["samples_rows"]]) == (
        True,
        ["another"],
        ["b", "a", "c"],
    )


async def test_rows_without_ids_go_by_their_place(tmp_path: Path) -> None:
    """One that is removed makes all behind it other prompts: refused, and their old places as ids bring them back."""
    old = [{"prompt": f"say {k}"} for k in range(5)]
    await done(launch(run_of(tmp_path, *old)))

    with pytest.raises(SetupError) as caught:
        await done(launch(run_of(tmp_path, *old[:1], *old[2:]), amend="without the second"))
    assert [line.partition("'")[2][0] for line in str(caught.value).splitlines()[:-1]] == ["1", "2", "3"]

    run = run_of(tmp_path, *({"id": k, **old[k]} for k in (0, 2, 3, 4)))
    stop, host, _ = await done(launch(run, amend="without the second"))
    assert (stop.good, host.seen) == (True, [])
    assert [r["id"] for r in written(run)["samples_rows"]] == ["0", "2", "3", "4"]


class Broken(BaseException):
    """As KeyboardInterrupt, which no task of a test may raise."""


@pytest.mark.parametrize("error", [Broken, asyncio.CancelledError])
async def test_a_pass_that_is_broken_off_changes_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    """Ctrl-C while prompts are compared: all of the amendment is in the ledger, or nothing of it."""
    run = run_of(tmp_path, *named("abcd"))
    await done(launch(run))
    before = (meta(run), shown(run))
    other = run_of(tmp_path, *named("dcb"))
    n = 0

    def tick() -> None:
        nonlocal n
        n += 1
        if n == 2 and error is Broken:
            raise Broken
        task = asyncio.current_task()
        if n == 2 and task is not None:
            task.cancel()  # as the first Ctrl-C of a running loop does

    async def amended() -> None:
        what = launch(other, amend="other", counting=lambda: nullcontext(tick))
        await generate(what, outside(Direct(emulator())), lambda now: None)

    with pytest.raises(error):
        await asyncio.create_task(amended())
    assert (n, meta(run), shown(run)) == (2, *before)
    stop, host, _ = await done(launch(other, amend="other"))
    assert (stop.good, host.seen) == (True, [])
    assert shown(other) == [("a", "a", NO_LONGER), ("a", "d", AS_SENT), ("a", "c", AS_SENT), ("a", "b", AS_SENT)]


async def test_a_budget_moves_nothing(tmp_path: Path) -> None:
    """Prompts are compared only where data sets or requests changed, and once."""
    n: list[int] = []

    async def compared(names: str, amend: str | None, **keys: str) -> int:
        """How many prompts a run compares before it asks anything."""
        n.clear()
        what = launch(run_of(tmp_path, *named(names), text=run_text(**keys)), amend=amend)
        await done(replace(what, counting=lambda: nullcontext(lambda: n.append(1))))
        return len(n)

    assert await compared("abc", None) == 0
    assert await compared("abc", "more", budget_usd="2") == 0
    assert await compared("cab", "order", budget_usd="2") == 3
    assert await compared("cab", None, budget_usd="2") == 0
    assert await compared("cab", "shorter", budget_usd="2", max_tokens="90") == 3


async def test_a_ledger_that_was_amended_before_places_were_kept(tmp_path: Path) -> None:
    """Its next run compares all prompts, since nobody knows where they lie."""
    run = run_of(tmp_path, *named("abc"))
    await done(launch(run))
    run = run_of(tmp_path, *named("ca"))
    await done(launch(run, amend="order"))
    from runners.ledger import open_ledger

    with open_ledger(run.out / LEDGER) as ledger:
        sql = "DELETE FROM meta WHERE key = 'layout'", "UPDATE job SET idx = job, asked = 1, place_crc = NULL"
        ledger.commit([[(text, ()) for text in sql]])

    await done(launch(run))
    assert shown(run) == [("a", "c", AS_SENT), ("a", "a", AS_SENT), ("a", "b", NO_LONGER)]


def test_a_layout_is_of_data_sets_in_their_order(tmp_path: Path) -> None:
    """Names, ids, requests and order each make another one; how a file is written does not."""
    data_file(tmp_path, *named("xy"), name="b.jsonl")

    def lies(names: str, *tables: str) -> str:
        run = run_of(tmp_path, *named(names), text=run_text(PROVIDER, *(tables or (ONE,))))
        return layout(survey(run, encode_prompt_text))

    found = [lies("abc"), lies("acb"), lies("abc", ONE, TWO), lies("abc", TWO, ONE), lies("abc", ONE + 'name = "c"\n')]
    assert len(set(found)) == 5
    data_file(tmp_path, *(json.dumps(r, indent=None, separators=(" ,", " : ")) for r in named("abc")))
    assert lies("abc") == found[0]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"max_tokens": 9, "temperature": 0.5, "seed": 1}, True),
        ({"model": "other"}, False),
        ({"messages": [{"role": "user", "content": True}]}, False),
        ({"tools": [{}]}, False),
        ({"reasoning": {"enabled": False}}, False),
    ],
)
def test_what_makes_another_prompt(tmp_path: Path, change: dict[str, Any], same: bool) -> None:
    """What is read and by whom, to the JSON value; not for how long and how freely it is answered."""
    body: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": 1}], "reasoning": {"enabled": True}}
    with made(tmp_path) as ledger:
        answered(ledger, 0)
        ledger.commit([w.job(1, 1, prompt(0, body=canonical(body))), w.ended(1, "answered", "")])
    with read_ledger(tmp_path / "ledger.sqlite3") as reader:
        found = places([prompt(0, body=canonical(body | change))], reader, {"a": 1}, lambda: None)
        if same:
            assert list(found) == [(1, 0, OTHERWISE)]
        else:
            with pytest.raises(SetupError, match="the answer under the id 'p0' is not to the prompt of today's row 1"):
                list(found)


def test_every_fault_is_counted_and_few_are_told(tmp_path: Path) -> None:
    """A million of them are twenty lines and a number."""
    with made(tmp_path) as ledger:
        for n in range(30):
            answered(ledger, n)
    other = (prompt(n, body=canonical({"messages": n + 100})) for n in range(40))

    with read_ledger(tmp_path / "ledger.sqlite3") as reader, pytest.raises(SetupError) as caught:
        list(places(other, reader, {"a": 1}, lambda: None))

    lines = str(caught.value).splitlines()
    assert (len(lines), lines[20]) == (22, "and 10 faults more")


def test_many_prompts_do_not_enter_memory(tmp_path: Path) -> None:
    """Places go into the ledger as they come."""

    def many(n: int) -> Iterator[Prompt]:
        return (prompt(k % 40) for k in range(n))

    def peak(ledger: Ledger, reader: Ledger, n: int) -> int:
        tracemalloc.start()
        found = places(many(n), reader, {"a": 1}, lambda: None)
        ledger.commit([w.placed((job + 1000 * k, index, asked) for k, (job, index, asked) in enumerate(found))])
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    with made(tmp_path) as ledger:
        for n in range(40):
            answered(ledger, n)
        with read_ledger(tmp_path / "ledger.sqlite3") as reader:
            peak(ledger, reader, 10)
            assert peak(ledger, reader, 20_000) < peak(ledger, reader, 1000) + 20_000


def test_rows_say_how_they_are_asked(tmp_path: Path) -> None:
    """Those that were placed, those that are asked otherwise, and the others not at all; twice is once."""

    def seen(ledger: Ledger) -> list[tuple[str, int, int]]:
        return [(found.id, found.index, found.asked) for found in ledger.rows()]

    with made(tmp_path) as ledger:
        for n in range(4):
            answered(ledger, n)
        for _ in range(2):
            ledger.commit([w.placed([(3, 0, AS_SENT), (1, 1, OTHERWISE)])])
            assert seen(ledger) == [
                ("p2", 0, AS_SENT),
                ("p0", 1, OTHERWISE),
                ("p1", 1, NO_LONGER),
                ("p3", 3, NO_LONGER),
            ]
        assert ledger.totals().ends == {"a": {"answered": 2}}
        assert ledger.totals().n_tokens == {"a": 10}
        ledger.commit([w.placed([(k + 1, k, AS_SENT) for k in range(4)])])
        assert seen(ledger) == [(f"p{k}", k, AS_SENT) for k in range(4)]
        assert {type(found) for found in ledger.rows()} == {Row}
