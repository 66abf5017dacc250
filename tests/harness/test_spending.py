"""harness.spending: a bound before, a cost after, and a budget that cannot be broken."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalog import Endpoint
from harness.encoder import encode_ordinary, encode_prompt_text
from harness.errors import SetupError
from harness.formats import find_format, formats
from harness.prompt import render
from harness.spending import Meter, OverBudgetError, budget_of, cost_of, usd, worst_case
from tests.scenario_truths import shipped

D = Decimal
END = Endpoint("a", "A", "int4", D("1"), D("100"), D("7"))
SAID: dict[str, Any] = {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}


def body(**fields: Any) -> bytes:
    """A request."""
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("request_body", "endpoint", "expected"),
    [
        (body(max_tokens=3), END, 7 + 17 + 64 + 300),
        (body(max_completion_tokens=3, max_tokens=9), END, 7 + 45 + 64 + 300),
        (body(max_tokens=3, n=2), END, 7 + 25 + 64 + 600),
        (body(max_tokens=3, messages=[{"content": "hi"}]), END, 7 + 50 + 16 + 64 + 300),
        (body(max_tokens=3, tools=[{}]), END, 7 + 2 * 32 + 64 + 300),
        (b"{}", Endpoint("a", "A", "int4", D(1), D(100), max_completion_tokens=5), 2 + 64 + 500),
        (b"{}", Endpoint("a", "A", "int4", D(1), D(100), context_length=50), 2 + 64 + 5000),
    ],
)
def test_the_worst_case(request_body: bytes, endpoint: Endpoint, expected: int) -> None:
    """Every byte of the request a token, the answer as long as it may be, in every choice."""
    assert worst_case(request_body, endpoint) == expected


@pytest.mark.parametrize(
    ("request_body", "words"),
    [
        (b"{}", "nothing bounds the answer's length; state max_tokens"),
        (b"[]", "no JSON object"),
        (b"{", "whose price nobody can tell"),
        (body(max_tokens=3, messages=[{"content": [{"type": "image_url"}]}]), "other parts than text"),
    ],
)
def test_a_request_without_a_bound_is_refused(request_body: bytes, words: str) -> None:
    """It is never sent on a guess."""
    with pytest.raises(SetupError, match=words):
        worst_case(request_body, END)


def test_no_prompt_has_more_ids_than_are_counted() -> None:
    """Each shipped scenario's prompt, rendered with the real vocabulary, is within the bound."""
    fmt = find_format("kimi-k2.5", formats())
    assert fmt is not None
    priced = Endpoint("a", "A", "int4", D(1), D(0))
    for scenario in shipped().scenarios:
        tools: Any = scenario.request.get("tools")
        found = render(scenario.request["messages"], tools, format=fmt, thinking=True, encode=encode_prompt_text)
        assert len(found.ids) <= worst_case(scenario.body("m", priced), priced)


@given(st.text(st.characters(codec="utf-8")))
def test_a_text_never_has_more_ids_than_bytes(text: str) -> None:
    """What the bound rests on."""
    assert len(encode_ordinary(text)) <= len(text.encode())


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"cost": 0.25, "prompt_tokens": 1, "completion_tokens": 1}, D("0.25")),
        ({"prompt_tokens": 3, "completion_tokens": 2}, D(7 + 3 + 200)),
        ({"prompt_tokens": 3}, None),
        (None, None),
    ],
)
def test_what_an_answer_cost(usage: Any, expected: Decimal | None) -> None:
    """As it says, else its bill at the listed price; else nobody knows."""
    assert cost_of(json.dumps(SAID | {"usage": usage}).encode(), END) == expected
    assert cost_of(b"<html>", END) is None


def test_a_budget_is_never_broken() -> None:
    """What is on its way counts as its worst case; a token reserves once; what is not told stays the worst case."""
    meter = Meter(D(10))
    meter.reserve("a", D(6))
    meter.reserve("a", D(6))
    with pytest.raises(OverBudgetError, match=r"can cost \$5.00, and \$4.00 of \$10.00 is left; it was not sent"):
        meter.reserve("b", D(5))
    meter.reserve("b", D(4))
    assert meter.settle("a", D(1)) == 1
    assert (meter.spent, meter.committed) == (1, 5)
    assert meter.settle("b", None) == 4
    meter.reserve("c", D(5))
    meter.drop_open()
    assert meter.committed == 5


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=30), st.integers(0, 60))
def test_whatever_comes_in_whatever_order(asked: list[tuple[int, int]], budget: int) -> None:
    """As long as no answer costs more than its worst case, the sum never passes the budget."""
    meter = Meter(D(budget))
    for k, (most, cost) in enumerate(asked):
        try:
            meter.reserve(k, D(most))
        except OverBudgetError:
            continue
        if k % 3:
            meter.settle(k, D(min(most, cost)))
        assert meter.committed <= budget


@pytest.mark.parametrize("text", ["", "x", "-1", "NaN", "inf", "1e999999999"])
def test_a_budget_that_is_none(text: str) -> None:
    """What came and what was expected."""
    with pytest.raises(SetupError, match=r"expected an amount in USD such as 0.50"):
        budget_of(text)


def test_amounts_are_read_and_shown() -> None:
    """Cents for people, more digits where an amount is small."""
    assert [budget_of("$0.5"), budget_of(" 2 ")] == [D("0.5"), D(2)]
    assert [usd(D(0)), usd(D("12.3456")), usd(D("0.00012345"))] == ["0.00", "12.35", "0.000123"]
