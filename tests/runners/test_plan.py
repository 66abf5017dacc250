"""runners.plan: what a run will take, held against runs that were drawn, and every reason that stands against it."""

import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.catalog import Endpoint
from harness.emulator import Truth
from harness.encoder import encode_prompt_text
from runners.data_sets import Surveyed, survey
from runners.ledger import Totals
from runners.output import write_output
from runners.plan import Begun, Measured, Plan, Range, begun_of, make_plan, size
from tests.bulk_kit import text_of
from tests.corpus import kit
from tests.runners import sample_kit
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_of, run_text

CHUTES = Endpoint("chutes/int4", "Chutes", "int4", Decimal("0.000001"), Decimal("0.00001"), context_length=100_000)
TWO = run_text(PROVIDER, ONE, '[[data]]\npath = "b.jsonl"\n', max_tokens="1000", budget_usd="1000", concurrency="10")
MIN_P = "[sampling]\nmin_p = 0.1\n"
A, B = Surveyed("a", 1000, 50_000, 90, 300_000, "s"), Surveyed("b", 500, 10_000, 40, 100_000, "s")


def planned(folder: Path, measured: dict[str, list[Measured]], text: str = TWO, **how: Any) -> Plan:
    """A plan for two data sets of 1,000 and 500 prompts."""
    data_file(folder, {"prompt": "x"}, name="b.jsonl")
    run = run_of(folder, text=text)
    endpoints, free = how.get("endpoints", [CHUTES]), how.get("free_bytes", 10**12)
    begun, against = how.get("begun", Begun()), how.get("against", ())
    return make_plan(run, how.get("surveyed", [A, B]), endpoints, measured, free, random.Random(0), begun, against)


def lengths(mean: float, n: int = 200, seed: int = 1) -> list[Measured]:
    """Answers whose lengths are spread widely around a mean, a hundredth of a second a token."""
    rng = random.Random(seed)
    drawn = [rng.expovariate(1 / mean) for _ in range(n)]
    return [Measured(round(x * mean * n / sum(drawn)), x / 100) for x in drawn]


def test_answers_of_one_length_are_sure(tmp_path: Path) -> None:
    """Then p50 and p95 are the product: tokens, dollars, and hours by the number in flight."""
    plan = planned(tmp_path, {"a": [Measured(400, 9.0)] * 50, "b": [Measured(100, 3.6)] * 50})

    assert plan.tokens == Range(450_000, 450_000)
    assert plan.usd is not None
    assert plan.usd.p50 == plan.usd.p95 == pytest.approx(60_000 * 1e-6 + 450_000 * 1e-5)
    assert plan.hours is not None
    assert plan.hours.p95 == pytest.approx((1000 * 9 + 500 * 3.6) / 10 / 3600)
    assert [(s.name, s.n_measured, s.borrowed) for s in plan.sets] == [("a", 50, False), ("b", 50, False)]
    assert (plan.against, plan.notes) == ((), ())


def test_p50_and_p95_cover_what_happens(tmp_path: Path) -> None:
    """Measured on 40 answers of one data set and borrowed by the other, the true total lies below p95 in most of 60
    cases and below p50 in about half."""
    below = [0, 0]
    for seed in range(60):
        rng = random.Random(1000 + seed)
        found = [Measured(round(rng.expovariate(1 / 300)), 1.0) for _ in range(40)]
        plan = planned(tmp_path, {"a": found})
        truth = sum(rng.expovariate(1 / 300) for _ in range(1500))
        assert plan.tokens is not None
        below[0] += truth <= plan.tokens.p50
        below[1] += truth <= plan.tokens.p95

    assert 18 <= below[0] <= 42
    assert below[1] >= 51


def test_a_target_of_tokens_ends_a_data_set(tmp_path: Path) -> None:
    """It takes no more of its prompts than the target needs."""
    text = TWO.replace('path = "a.jsonl"', 'path = "a.jsonl"\ntokens = 40_000')
    plan = planned(tmp_path, {"a": [Measured(400, 1.0)] * 30, "b": [Measured(100, 1.0)] * 30}, text)

    assert plan.sets[0].tokens == Range(40_000, 40_000)
    assert plan.sets[0].usd is not None
    assert plan.sets[0].usd.p50 == pytest.approx(0.1 * (50_000 * 1e-6 + 400_000 * 1e-5))
    assert plan.sets[1].tokens == Range(50_000, 50_000)


def test_what_nobody_measured_is_borrowed_or_unknown(tmp_path: Path) -> None:
    """From the other data sets, and said so; without any answer only the worst case is known."""
    plan = planned(tmp_path, {"a": lengths(300)})
    assert (plan.sets[1].borrowed, plan.sets[1].n_measured) == (True, 200)
    assert plan.notes == ("b: nothing measured, taken to be as long as the answers of the other data sets",)

    bare = planned(tmp_path, {})
    assert (bare.tokens, bare.usd, bare.hours, bare.against) == (None, None, None, ())
    assert 1500 * 1000 * 1e-5 < bare.worst_usd < 1500 * 1001 * 1e-5 + 2 * 150_000 * 1e-6
    (reason,) = planned(tmp_path, {}, TWO.replace("budget_usd = 1000", "budget_usd = 10")).against
    assert reason.startswith("the budget is $10.00; nothing was measured, and at max_tokens the run would cost $15.1")


def test_few_answers_are_said_to_be_few(tmp_path: Path) -> None:
    """Their longest is not the longest."""
    plan = planned(tmp_path, {"a": [Measured(5, 1.0)] * 3, "b": [Measured(5, 1.0)] * 20})

    assert plan.notes == ("a: 3 answers measured; 20 or more would say more of the longest",)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"free_bytes": 1000}, "the run may write "),
        ({"endpoints": [replace(CHUTES, max_completion_tokens=999)]}, "chutes/int4 answers with at most 999 tokens"),
        (
            {"endpoints": [replace(CHUTES, context_length=1089)]},
            "chutes/int4 holds 1,089 tokens; the longest",
        ),
        (
            {"text": TWO.replace("budget_usd = 1000", "budget_usd = 4")},
            "the budget is $4.00, and 5 runs",
        ),
        (
            {
                "text": TWO.replace("allow_fallbacks = false", "require_parameters = true")
                + "[sampling]\nmin_p = 0.1\n",
                "endpoints": [replace(CHUTES, supported_parameters=frozenset({"max_tokens", "reasoning"}))],
            },
            "chutes/int4 does not take min_p, and the run requires it",
        ),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, how: dict[str, Any], reason: str) -> None:
    """Budget, disk, and the limits of the endpoints, a line each."""
    plan = planned(tmp_path, {"a": [Measured(400, 1.0)] * 30, "b": [Measured(100, 1.0)] * 30}, **how)

    assert [line[: len(reason)] for line in plan.against] == [reason]


def test_limits_that_just_fit(tmp_path: Path) -> None:
    """The same limits, one token wider, are no reason."""
    wide = replace(CHUTES, max_completion_tokens=1000, context_length=1090)

    assert planned(tmp_path, {"a": lengths(100)}, endpoints=[wide]).against == ()


def test_the_dearest_price_counts(tmp_path: Path) -> None:
    """Of each kind, and the plan says that there are several."""
    other = replace(CHUTES, tag="b", prompt_usd=Decimal("0.000002"), completion_usd=Decimal("0.000005"))
    plan = planned(
        tmp_path, {"a": [Measured(400, 1.0)] * 30, "b": [Measured(100, 1.0)] * 30}, endpoints=[CHUTES, other]
    )

    assert plan.usd is not None
    assert plan.usd.p50 == pytest.approx(60_000 * 2e-6 + 450_000 * 1e-5)
    assert plan.notes == ("the 2 endpoints have 2 prices; the dearest is taken",)


@pytest.mark.parametrize("n_words", [40, 600])
def test_disk_is_not_too_little_and_not_twice_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_words: int
) -> None:
    """Held against all that a run of 60 prompts really writes, with short and with long answers."""
    plain = sample_kit.truth_of

    def truth(request: Any) -> Truth:
        said, half = request["messages"][-1]["content"], n_words // 2
        ids = sample_kit.ids(text_of(f"t{said}", half), sample_kit.CLOSE, text_of(f"s{said}", half), sample_kit.END)
        return Truth(ids, True, plain(request).prompt_ids)

    monkeypatch.setattr(sample_kit, "truth_of", truth)
    rows = ({"prompt": text_of(f"p{k}", 50)} for k in range(60))
    run = run_of(tmp_path, *rows, text=run_text(max_tokens="5000"))
    run.out.mkdir()
    with sample_kit.answered(run.out, run) as ledger:
        told = write_output(ledger, kit(), run.out)
        measured = {"a": [Measured(tokens, s) for _, tokens, s in ledger.lengths(500)]}
    found = sum(path.stat().st_size for path in run.out.iterdir())  # the ledger is closed, its WAL is gone
    plan = make_plan(run, survey(run, encode_prompt_text), [CHUTES], measured, 10**12, random.Random(0))

    assert told["samples"] == 60
    assert found < plan.disk_bytes.p50 < 2 * found


def test_sizes() -> None:
    """In the unit that a person would use."""
    assert [size(n) for n in (999, 1000, 2_500_000, 3e12, 5e15)] == ["999 B", "1.0 kB", "2.5 MB", "3.0 TB", "5000.0 TB"]


SURE = {"a": [Measured(400, 9.0)] * 50, "b": [Measured(100, 3.6)] * 50}


def test_what_has_begun_is_not_planned_again(tmp_path: Path) -> None:
    """Prompts that ended are not asked, and what was spent is not there any more."""
    begun = Begun(996.0, {"a": 900, "b": 500}, {"a": 360_000, "b": 50_000})
    plan = planned(tmp_path, SURE, begun=begun)

    assert [(s.n_prompts, s.prompt_tokens) for s in plan.sets] == [(100, 5_000), (0, 0)]
    assert plan.tokens == Range(40_000, 40_000)
    assert plan.usd is not None
    assert plan.usd.p95 == pytest.approx(5_000 * 1e-6 + 40_000 * 1e-5)
    assert plan.worst_usd == pytest.approx(plan.sets[0].worst_usd)
    assert (plan.spent_usd, plan.left_usd, plan.against) == (996.0, 4.0, ())
    poor = planned(tmp_path, SURE, begun=replace(begun, spent_usd=999.7))
    (said,) = poor.against
    assert said == ("the budget is $1000.00, of which $0.3000 are left, and 5 runs of 100 would cost more than $0.4050")


def test_the_last_request_needs_its_worst_case(tmp_path: Path) -> None:
    """It is not sent where its price fits and its reservation does not; where nothing is open, nothing is needed."""
    begun = Begun(999.59, {"a": 900, "b": 500})
    (said,) = planned(tmp_path, SURE, begun=begun).against
    assert said.startswith("the budget is $1000.00, of which $0.4100 are left; the run takes $0.4050, and a request is")
    assert planned(tmp_path, SURE, begun=Begun(1000.0, {"a": 1000, "b": 500})).against == ()


def test_a_target_counts_the_tokens_that_are_there(tmp_path: Path) -> None:
    """A data set ends with its target over all parts of a run."""
    text = TWO.replace('path = "a.jsonl"', 'path = "a.jsonl"\ntokens = 40_000')
    some = planned(tmp_path, SURE, text, begun=Begun(0.0, {"a": 75}, {"a": 30_000}))
    done = planned(tmp_path, SURE, text, begun=Begun(0.0, {"a": 100}, {"a": 40_000}))

    assert [plan.sets[0].tokens for plan in (some, done)] == [Range(10_000, 10_000), Range(0, 0)]
    assert done.sets[0].n_prompts == 0


def test_a_reason_is_told_once(tmp_path: Path) -> None:
    """Limits are found here and by whoever looked at the endpoints."""
    small = replace(CHUTES, context_length=1000)
    (said,) = planned(tmp_path, SURE, endpoints=[small]).against
    assert planned(tmp_path, SURE, endpoints=[small], against=(said, "other")).against == (said, "other")


def test_what_is_asked_again_is_still_open() -> None:
    """A run asks anew what gave up and what got a 400, and so a plan counts it; what was refused is done."""
    ends = Counter({"answered": 2, "refused": 1, "bad-request": 4, "gave-up": 8, "open": 16})

    assert begun_of(Totals(ends={"a": ends})).n_ended == {"a": 3}
