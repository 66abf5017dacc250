"""equations.py: which equation of a bill some answers prove, and when they prove none."""

from typing import Any

import pytest

from harness.equations import PLAIN, Equation, Evidence, Vote, Way, equations, no_equation, offset_traits, style_vote

pytestmark = pytest.mark.required

SPACED, COMPACT, PREFIXED, MINTED = (
    Way("spaced", "as-sent"),
    Way("compact", "as-sent"),
    Way("as-sent", "prefixed"),
    Way("as-sent", "minted"),
)
BOTH = Way("compact", "prefixed")


def answer(excess: dict[Way, int], *, finish: str = "tool_calls", thinks: bool = False, **fields: Any) -> Evidence:
    """Evidence of one answer of ProviderX."""
    return Evidence(
        "ProviderX", "m", "kimi-k2", thinks, finish, "2026-01-01", thinks_in_prompt=thinks, excess=excess, **fields
    )


@pytest.mark.parametrize(
    ("n_for", "n_against", "carries"),
    [(4, 0, False), (5, 0, True), (9, 1, True), (8, 1, False), (45, 5, True), (44, 5, False), (0, 0, False)],
)
def test_a_vote_carries_with_five_and_nine_tenths(n_for: int, n_against: int, carries: bool) -> None:
    """At least five answers for it, and at least nine tenths of those that speak."""
    assert Vote("x", n_for, n_against).carries == carries


def test_the_equation_that_fits_most_comes_first() -> None:
    """By the answers that it fits; of equal ones the plain way first, then the excess nearest to a terminator."""
    rows = [answer({PLAIN: 1, SPACED: 0}), answer({PLAIN: 1, SPACED: -1}), answer({PLAIN: 0, SPACED: -1})]
    found = equations(rows)
    assert found[:2] == [Equation(PLAIN, 1, 2), Equation(SPACED, -1, 2)]
    assert equations([]) == equations([answer({})]) == []


def test_too_few_or_too_many_who_differ() -> None:
    """Four answers prove nothing, nor do eight of nine; the reason says how many fit."""
    four = [answer({PLAIN: 1})] * 4
    assert no_equation(equations(four), four) == "best equation (+1) fits 4 of 4 answers"
    assert no_equation(equations(four * 2), four * 2) == ""
    mixed = [*four * 2, answer({PLAIN: 3})]
    assert "8 of 9" in no_equation(equations(mixed), mixed)
    assert no_equation([], []) == "no answer says what was billed"


def test_answers_that_do_not_count_do_not_speak() -> None:
    """An answer without a bill is neither for nor against."""
    rows = [answer({PLAIN: 1})] * 5 + [answer({})] * 50
    assert no_equation(equations(rows), rows) == ""


def test_an_excess_that_nothing_explains() -> None:
    """Three tokens more than the ids are no terminator and no `<think>`."""
    rows = [answer({PLAIN: 3})] * 9
    assert no_equation(equations(rows), rows) == "+3 is no sum of a terminator and a <think>"


def test_answers_that_are_all_alike_prove_nothing() -> None:
    """One call each: `NAME:0` with a terminator and `functions.NAME:0` without one have one count.

    Taking the first for proven would make every later answer of the host wrong: neither is.
    """
    alike = [answer({PLAIN: 1, PREFIXED: 0})] * 50
    assert no_equation(equations(alike), alike).startswith(
        "several equations fit: as-sent/as-sent +1, as-sent/prefixed"
    )
    two_calls = [answer({PLAIN: 2, PREFIXED: 0})] * 10
    told = alike + two_calls
    assert no_equation(equations(told), told) == ""
    assert equations(told)[0] == Equation(PREFIXED, 0, 60)


@pytest.mark.parametrize(
    ("excess", "finish", "thinks", "traits"),
    [
        (0, "stop", False, {"terminator_billed": "no"}),
        (1, "stop", False, {"terminator_billed": "yes"}),
        (2, "stop", False, {}),
        (-1, "stop", False, {}),
        (0, "tool_calls", True, {"terminator_billed": "no", "think_billed": "no"}),
        (1, "tool_calls", True, {"offset": "1"}),
        (2, "tool_calls", True, {"terminator_billed": "yes", "think_billed": "yes"}),
        (3, "tool_calls", True, {}),
        (0, "length", True, {"think_billed": "no"}),
        (1, "length", True, {"think_billed": "yes"}),
        (0, "length", False, {}),
        (2, "length", True, {}),
    ],
)
def test_what_an_excess_is_made_of(excess: int, finish: str, thinks: bool, traits: dict[str, str]) -> None:
    """A terminator, a billed `<think>`, both; one token that could be either stays a sum. A cut answer has no end."""
    assert offset_traits(excess, answer({}, finish=finish, thinks=thinks)) == traits


def votes(rows: list[Evidence]) -> tuple[Vote, Vote]:
    """The votes on arguments and on call ids."""
    found = equations(rows)
    return style_vote("arguments", found, rows), style_vote("call_id", found, rows)


def test_a_style_is_told_where_another_one_would_not_fit() -> None:
    """Answers of several shapes: only one way has one excess for all of them."""
    rows = [answer({PLAIN: 1, SPACED: 0, COMPACT: 1})] * 3 + [answer({PLAIN: 1, SPACED: -2, COMPACT: 2})] * 3
    assert votes(rows) == (Vote("as-sent", 6, 0), Vote("as-sent", 0, 0))


def test_a_style_that_no_answer_tells_stays_unknown() -> None:
    """Arguments that read alike in every style, ids that are native: nobody speaks."""
    rows = [answer({PLAIN: 1, SPACED: 1, COMPACT: 1, PREFIXED: 1})] * 20
    assert votes(rows) == (Vote("as-sent", 0, 0), Vote("as-sent", 0, 0))


def test_two_styles_that_cancel_prove_neither() -> None:
    """Compact arguments and prefixed ids have the count of both as sent: no single swap fits, the pair does."""
    rows = [answer({PLAIN: 1, COMPACT: 2, PREFIXED: 0, BOTH: 1})] * 8 + [answer({PLAIN: 1, BOTH: 1})]
    assert votes(rows) == (Vote("as-sent", 0, 0), Vote("as-sent", 0, 0))
    apart = rows + [answer({PLAIN: 1, COMPACT: 3, PREFIXED: 0, BOTH: 2})] * 2
    assert votes(apart) == (Vote("as-sent", 11, 0), Vote("as-sent", 11, 0))


def test_only_invented_ids_speak_for_inventing() -> None:
    """Native ids can be read as minted too; answers whose ids are invented can be read in no other way."""
    native, minted = answer({PLAIN: 1, MINTED: 1}), answer({MINTED: 1})
    assert style_vote("call_id", equations([minted] * 6), [minted] * 6) == Vote("minted", 6, 0)
    rows = [native] * 6
    assert style_vote("call_id", equations(rows), rows).n_for == 0
