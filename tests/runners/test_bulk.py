"""runners.bulk: a run file becomes a run, and whatever stands against it is told before the first chat request."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.openrouter_lists import Endpoint
from harness.presets import PRESETS
from harness.ticket import TicketProvider
from harness.transport import Call, Reply, UnansweredError
from runners import ledger_writes as w
from runners.bulk import Launch, generate, still_admitted
from runners.data_sets import survey
from runners.identity import canonical_run, run_sha256
from runners.ledger import Row, open_ledger, read_ledger
from runners.output import LEDGER
from runners.progress import Progress, Stop
from runners.runfile import RunFile
from tests.bulk_kit import PRICE, RECIPE, Direct, outside
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_of, run_text
from tests.runners.sample_kit import emulator
from tests.runners.test_admission import ticket

SIX = [{"prompt": f"number {k}"} for k in range(6)]


def launch(run: RunFile, **how: Any) -> Launch:
    """A launch that judges in a thread."""
    return Launch(run, survey(run, encode_prompt_text), RECIPE, n_judges=0, **how)


async def done(what: Launch, host: Direct | None = None) -> tuple[Stop, Direct, list[Progress]]:
    """A run until it stops, its host, and what was shown."""
    host, seen = host or Direct(emulator()), list[Progress]()
    return await generate(what, outside(host), seen.append), host, seen


def rows(run: RunFile) -> list[Row]:
    """What the ledger holds."""
    with read_ledger(run.out / LEDGER) as ledger:
        return list(ledger.rows())


def meta(run: RunFile) -> dict[str, str]:
    """What the ledger says of the run."""
    with read_ledger(run.out / LEDGER) as ledger:
        return ledger.meta()


async def test_a_run_file_becomes_answers(tmp_path: Path) -> None:
    """Every prompt of every data set is asked once, in order, and the ledger says which run it is."""
    data_file(tmp_path, {"prompt": "last"}, name="b.jsonl")
    run = run_of(tmp_path, *SIX, text=run_text(PROVIDER, ONE, '[[data]]\npath = "b.jsonl"\n'))
    what = launch(run)

    stop, host, seen = await done(what)

    assert (stop.good, len(host.seen)) == (True, 7)
    assert [(row.dataset, row.id, row.verdict_name) for row in rows(run)] == [
        *(("a", str(k), "verified") for k in range(6)), ("b", "0", "verified"),
    ]  # fmt: skip
    told, text = meta(run), canonical_run(run, what.surveyed)
    assert (told["run"], told["run_sha256"]) == (text, run_sha256(text))
    assert (told["ticket_id"], told["ungated"]) == ("", "a test")
    assert {name: float(usd) for name, usd in json.loads(told["price"]).items()} == {
        "prompt": 5e-7, "completion": 2.5e-6, "request": 0.0,
    }  # fmt: skip
    assert seen[-1].stop == stop
    blocks = {json.dumps(json.loads(row.request)["provider"], sort_keys=True) for row in rows(run)}
    assert blocks == {'{"allow_fallbacks": false, "only": ["chutes/int4"]}'}


async def test_a_second_start_asks_nothing_again(tmp_path: Path) -> None:
    """What was answered stays; a probe is a part of the run, not a cost beside it."""
    run = run_of(tmp_path, *SIX)
    _, first, _ = await done(launch(run, probe=2))
    _, second, _ = await done(launch(run))
    _, third, _ = await done(launch(run))

    assert first.seen == ["number 0", "number 1"]
    assert second.seen == [f"number {k}" for k in range(2, 6)]
    assert third.seen == []


async def test_a_changed_run_is_refused_or_named(tmp_path: Path) -> None:
    """Each change is told and nothing is asked; with a reason it goes on, and the ledger keeps both."""
    await done(launch(run_of(tmp_path, *SIX), probe=2))
    other = run_of(tmp_path, *SIX, {"prompt": "more"}, text=run_text(budget_usd="2"))
    host = Direct(emulator())

    with pytest.raises(SetupError) as caught:
        await done(launch(other), host)
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["budget_usd", "data.a.requests"]
    assert "is not the run that was begun" in lines[2]
    assert host.calls == []

    stop, host, _ = await done(launch(other, amend="one more"))
    assert (stop.good, len(host.seen)) == (True, 5)
    with read_ledger(other.out / LEDGER) as ledger:
        ((_, sha256, reason),) = ledger.amendments()
    assert sha256 == meta(other)["run_sha256"]
    assert reason.startswith("one more; budget_usd: 1.5 -> 2.0; data.a.requests: ")


async def test_an_amended_run_is_resumed_without_a_word(tmp_path: Path) -> None:
    """Named once is named; requests that were answered before stay as they were."""
    await done(launch(run_of(tmp_path, *SIX), probe=2))
    other = run_of(tmp_path, *SIX, text=run_text(max_tokens="90"))
    await done(launch(other, amend="shorter", probe=3))

    stop, host, _ = await done(launch(other))

    assert (stop.good, len(host.seen)) == (True, 3)
    assert [row.max_tokens for row in rows(other)] == [100, 100, 90, 90, 90, 90]


def offering(**how: Any) -> Direct:
    """A host whose Chutes is another one."""
    return Direct(emulator(endpoints=[replace(Endpoint("chutes/int4", PRESETS["chutes"]), **how)]))


async def test_a_run_whose_providers_were_dropped_is_refused(tmp_path: Path) -> None:
    """Also where an amendment names them again: nothing is asked, nothing is amended, and it says what to do."""
    both = PROVIDER.replace('"chutes/int4"', '"chutes/int4", "siliconflow/int4"')
    run = run_of(tmp_path, *SIX, text=run_text(both, ONE))
    await done(launch(run, probe=2))
    with open_ledger(run.out / LEDGER) as ledger:
        ledger.commit([w.meta(dropped='["Chutes"]', dropped_why="Chutes: 11 of its last 40 answers")])
    alone, host = run_of(tmp_path, *SIX), Direct(emulator())

    told = (
        r"dropped chutes/int4 \(Chutes: 11 of its last 40 answers\), and nobody else may answer; name another provider"
    )
    with pytest.raises(SetupError, match=told):
        await done(launch(alone, amend="Chutes is better now"), host)
    assert host.seen == []
    with read_ledger(run.out / LEDGER) as ledger:
        assert ledger.amendments() == []
    _, host, _ = await done(launch(run))
    assert {tuple(json.loads(c.body)["provider"]["only"]) for c in host.calls if c.body} == {("siliconflow/int4",)}


async def test_a_disk_that_is_too_small_is_refused(tmp_path: Path) -> None:
    """In the words of `plan`, before anything is asked; a probe may run, and what was measured or is there counts."""
    run = run_of(tmp_path, *SIX, text=run_text(max_tokens="100000"))
    small: dict[str, Any] = {"free_bytes": lambda folder: 5_000_000}
    host = Direct(emulator())

    with pytest.raises(SetupError) as caught:
        await done(launch(run, **small), host)
    said = str(caught.value)
    assert re.fullmatch(
        r"the run may write 24\.\d MB, and 5\.0 MB are free at .*/out; nothing was measured yet: .*", said
    )
    assert "`tokenproof plan --probe N` may show that it is less; make room" in said
    assert host.seen == []
    with read_ledger(run.out / LEDGER) as ledger:
        assert ledger.meta() == {}

    await done(launch(run, probe=2, **small), host)
    stop, host, _ = await done(launch(run, **small), host)
    assert (stop.good, len(host.seen)) == (True, 6)
    stop, _, _ = await done(launch(run, free_bytes=lambda folder: 0), host)
    assert stop.good


async def test_a_higher_price_is_refused_or_named(tmp_path: Path) -> None:
    """Than the one at which the run was begun, also after a lower one, which is welcome; an amended one stands."""
    run = run_of(tmp_path, *SIX)
    await done(launch(run, probe=1))
    dear = offering(prices=(5e-7, 3e-6))

    with pytest.raises(SetupError, match=r"a completion token or request costs \$0.0000030+ today, \$0.000002"):
        await done(launch(run), dear)
    assert dear.seen == []
    await done(launch(run, probe=2), offering(prices=(4e-7, 2e-6)))
    back = offering()
    await done(launch(run, probe=3), back)
    assert back.seen == ["number 2"]
    stop, _, _ = await done(launch(run, amend="they raised it"), offering(prices=(5e-7, 3e-6)))
    assert stop.good
    assert float(json.loads(meta(run)["price"])["completion"]) == 3e-6


@pytest.mark.parametrize(
    ("how", "table", "said"),
    [
        ({"quantization": "fp8"}, "", "no endpoint answers to 'chutes/int4' in int4"),
        ({"preset": PRESETS["novita"]}, "", "chutes/int4 is Novita in int4 today, which was not tested"),
        ({"context_length": 100}, "", "chutes/int4 holds 100 tokens"),
        ({"max_completion_tokens": 99}, "", "chutes/int4 answers with at most 99 tokens"),
        ({}, "max_price = {completion = 2}\n", "chutes/int4 takes $2.5"),
        ({}, "require_parameters = true\n[sampling]\nmin_p = 0.5\n", "chutes/int4 does not take min_p"),
    ],
)
async def test_what_the_listing_of_today_says_against_it(
    tmp_path: Path, how: dict[str, Any], table: str, said: str
) -> None:
    """Other hosts behind a pin, limits and prices stop the run before its first chat request."""
    text = run_text(PROVIDER + 'quantizations = ["int4"]\n' + table, ONE)
    gate = ticket(providers=(TicketProvider("chutes/int4", "Chutes", "int4"),))
    host = offering(**how)

    with pytest.raises(SetupError) as caught:
        await done(launch(run_of(tmp_path, *SIX, text=text), ticket=gate), host)

    assert str(caught.value).startswith(said)
    assert host.seen == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([*SIX[:5], {"prompt": "another"}], "prompt '5' was not there before"),
        ([*SIX, {"prompt": "one more"}], "prompt '6' was not there before"),
        ([*SIX, *[{"id": "twin", "prompt": "one more"}] * 2], "prompt 'twin' was not there before"),
        ([{"prompt": "first"}, *SIX], "prompt '0' was not there before"),
        (SIX[:4], "its last prompts are gone"),
    ],
    ids=["other", "appended", "twins", "before", "cut"],
)
async def test_a_data_set_that_changes_under_the_run(tmp_path: Path, rows: list[Any], said: str) -> None:
    """What was surveyed is asked and nothing else, or the run stops and says so; restored, it is taken up."""
    run = run_of(tmp_path, *SIX)
    what = launch(run)
    data_file(tmp_path, *rows)

    stop, host, _ = await done(what)

    assert stop.why == "input"
    assert f"data set a: a.jsonl changed while it was read: {said}; restore it, choose another" in stop.text
    assert set(host.seen) <= {row["prompt"] for row in SIX}
    data_file(tmp_path, *SIX)
    again, _, _ = await done(launch(run), host)
    assert again.good
    assert sorted(host.seen) == sorted(row["prompt"] for row in SIX)


async def test_limits_and_targets_of_data_sets(tmp_path: Path) -> None:
    """A limit counts prompts, a target tokens; the others go on."""
    data_file(tmp_path, *({"prompt": f"other {k}"} for k in range(40)), name="b.jsonl")
    more = '[[data]]\npath = "b.jsonl"\ntokens = 60\n'
    run = run_of(tmp_path, *SIX, text=run_text(PROVIDER, ONE + "limit = 4\n", more, concurrency="1"))

    stop, host, seen = await done(launch(run))

    assert stop.good
    assert [sum("number" in text for text in host.seen), sum("other" in text for text in host.seen)] == [4, 5]
    assert seen[-1].sets["b"].stopped == "its 60 tokens are reached"


async def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    """Where a file is in the way, nothing is asked."""
    run = run_of(tmp_path, *SIX)
    run.out.write_text("in the way")
    host = Direct(emulator())

    with pytest.raises(SetupError, match="cannot be made"):
        await done(launch(run), host)
    assert host.calls == []


NOW = Endpoint("chutes/int4", PRESETS["chutes"])


@pytest.mark.parametrize(
    ("endpoints", "said"),
    [
        ((NOW,), None),
        ((replace(NOW, prices=(4e-7, 2.5e-6)),), None),
        ((replace(NOW, prices=(6e-7, 2.5e-6)),), "a prompt token or request costs $6"),
        ((replace(NOW, tag="novita/int4"),), "no endpoint answers to 'chutes/int4'"),
        ((replace(NOW, max_completion_tokens=10),), "answers with at most 10 tokens"),
    ],
    ids=["same", "cheaper", "dearer", "gone", "shorter"],
)
async def test_the_listing_while_the_run_goes_on(
    tmp_path: Path, endpoints: tuple[Endpoint, ...], said: str | None
) -> None:
    """A dearer price, an endpoint that is gone or that takes less: the run may not go on; cheaper is fine."""
    host = Direct(emulator())
    host.app.endpoints = endpoints
    found = await still_admitted(launch(run_of(tmp_path, *SIX)), host, PRICE)
    assert found is None if said is None else said in (found or "")


async def test_a_listing_that_does_not_come_stops_nothing(tmp_path: Path) -> None:
    """It comes later."""

    class Silent(Direct):
        async def send(self, call: Call) -> Reply:
            raise UnansweredError("late")

    assert await still_admitted(launch(run_of(tmp_path, *SIX)), Silent(emulator()), PRICE) is None


async def test_a_run_goes_on_with_the_judge_that_it_had(tmp_path: Path) -> None:
    """Other habits than judged so far: nothing is asked, both hashes are named; with the first ones it goes on."""
    run = run_of(tmp_path, *SIX)
    await done(launch(run, probe=2))
    other, host = replace(RECIPE, facts=replace(RECIPE.facts, habits_sha256="9" * 64)), Direct(emulator())

    with pytest.raises(
        SetupError, match=r"judged so far with other habits .habits_sha256 h, here 999999999999.*rejudge"
    ):
        await done(replace(launch(run), recipe=other), host)

    assert host.calls == []
    stop, host, _ = await done(launch(run))
    assert (stop.good, len(host.seen)) == (True, 4)
