"""harness.scoreboard: scores of endpoints, and who may be asked in a run."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.habits import Habit, Habits
from harness.scoreboard import Rule, Score, Seen, habits_of, is_good, run_block, scoreboard
from harness.types import Finding, Ids, Verdict

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODEL = "moonshotai/kimi-k2.5"
RULE = Rule(NOW, MODEL)
GOOD = Verdict("verified", Ids([1], b"\3"), format="kimi-k2.5")
BAD = Verdict("rejected", findings=(Finding("bill-mismatch", "", ""), Finding("note", "", "", fatal=False)))


def seen(verdict: Verdict = GOOD, tag: str = "chutes/int4", provider: str = "Chutes", **more: Any) -> Seen:
    """An answer that is evidence, a day old."""
    row = Seen(verdict, provider, MODEL, tag, tag.partition("/")[2], "live", True, NOW - timedelta(days=1))
    return replace(row, **more)


def test_scores() -> None:
    """A score an endpoint and model: verdicts, what rejected ones were rejected by, where they are from, how old."""
    rows = [
        seen(), seen(BAD), seen(BAD, at=NOW - timedelta(days=3)),
        seen(Verdict("unverified"), kind="hand-made", speaks=False, at=NOW),
        seen(tag="chutes/fp8"), seen(provider="Novita", tag="novita/int4", model="m"),
    ]  # fmt: skip
    first, second, third = scoreboard(rows)
    assert [(s.provider, s.tag, s.model) for s in (first, second, third)] == [
        ("Chutes", "chutes/fp8", MODEL),
        ("Chutes", "chutes/int4", MODEL),
        ("Novita", "novita/int4", "m"),
    ]
    assert (second.answers, dict(second.verdicts)) == (4, {"verified": 1, "rejected": 2, "unverified": 1})
    assert (dict(second.findings), dict(second.kinds)) == ({"bill-mismatch": 2}, {"live": 3, "hand-made": 1})
    assert (second.good, second.speaking, second.quantization) == (1, 3, "int4")
    assert second.newest == NOW - timedelta(days=1)  # of the evidence, not of what is none


def test_good_answers() -> None:
    """Accepted, and of the prompt that was sent."""
    assert is_good(GOOD)
    assert not is_good(replace(GOOD, prompt="contradicted"))
    assert not is_good(BAD)
    assert not is_good(Verdict("unverified"))


def habit(trait: str, value: str, **key: Any) -> Habit:
    """A line of habits of Chutes."""
    return Habit("Chutes", trait, value, **key)


def test_habits_of_a_score() -> None:
    """Those of the provider for this model's format; where calls differ both are told, what nobody knows is not."""
    known = Habits(
        (
            habit("terminator_billed", "yes", format="kimi-k2.5", finish="stop"),
            habit("terminator_billed", "no", format="kimi-k2.5", finish="tool_calls"),
            habit("call_id", "minted", finish="tool_calls"),
            habit("spaces", "none"),
            habit("think_billed", "yes", format="kimi-k2"),
        )
    )
    (score,) = scoreboard([seen()])
    assert habits_of(score, known) == {
        "call_id": "minted (tool_calls)",
        "spaces": "none",
        "terminator_billed": "yes (stop), no (tool_calls)",
    }


def five(*verdicts: Verdict, **more: Any) -> Score:
    """The score of five answers, good ones but for the verdicts given."""
    (score,) = scoreboard([seen(v, **more) for v in (*verdicts, *[GOOD] * (5 - len(verdicts)))])
    return score


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (five(), ""),
        (five(BAD, BAD), ""),
        (five(BAD, BAD, BAD), "2 of 5 are exact or verified, expected 50%"),
        (five(tag=""), "nobody knows which endpoint answered"),
        (five(speaks=False, kind="hand-made"), "no recording of it speaks for the place of the run (5 hand-made)"),
        (five(at=NOW - timedelta(days=8)), "its newest evidence is not of the last 7 days"),
        (five(at=NOW + timedelta(seconds=1)), "its newest evidence is not of the last 7 days"),
        (five(at=None), "its newest evidence is not of the last 7 days"),
        (five(at=NOW - timedelta(days=7)), ""),
        (scoreboard([seen()] * 4)[0], "4 answers, expected 5"),
    ],
)
def test_who_may_run(score: Score, reason: str) -> None:
    """Enough fresh evidence of the place of the run, enough of it good; the first reason against is told."""
    assert RULE.against(score) == reason


def test_none_good_is_never_enough() -> None:
    """Whatever share is asked for, one answer must be good."""
    assert replace(RULE, min_verified=0.0).against(five(BAD, BAD, BAD, BAD, BAD)).startswith("0 of 5")


def test_the_block_of_a_run() -> None:
    """The best first, the others ignored by name, all quantizations of those that may answer; no fallbacks."""
    scores = [
        five(BAD), five(tag="novita/fp8", provider="Novita"), five(BAD, BAD, BAD, tag="groq/int4", provider="Groq"),
        five(tag="", provider="Nobody"), replace(five(), model="other"),
    ]  # fmt: skip
    block, reasons = run_block(scores, RULE)
    assert block == {
        "only": ["novita/fp8", "chutes/int4"],
        "ignore": ["groq/int4"],
        "quantizations": ["fp8", "int4"],
        "allow_fallbacks": False,
        "require_parameters": True,
    }
    assert reasons == (
        "Nobody: nobody knows which endpoint answered",
        "groq/int4: 2 of 5 are exact or verified, expected 50%",
    )


def test_a_quantization_that_nobody_knows() -> None:
    """Then none is asked for: a filter would shut that endpoint out."""
    block, _ = run_block([five(), five(tag="novita", provider="Novita")], RULE)
    assert block is not None
    assert ("quantizations" in block, "ignore" in block) == (False, False)


def test_nobody_is_left() -> None:
    """No block, and why."""
    assert run_block([five(BAD, BAD, BAD)], RULE) == (
        None,
        ("chutes/int4: 2 of 5 are exact or verified, expected 50%",),
    )
    assert run_block([replace(five(), model="other")], RULE) == (None, (f"no answer of {MODEL} was seen",))
