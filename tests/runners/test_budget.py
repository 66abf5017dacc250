"""runners.budget: what a request can cost, and a purse that promises no more than its cap."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.catalog import Endpoint
from runners.budget import Price, Purse, dearest, nano_of, worst_case

PRICE = Price(Decimal("5e-7"), Decimal("2.5e-6"))


@pytest.mark.parametrize(
    ("n_prompt", "max_tokens", "price", "nano"),
    [
        pytest.param(0, 0, PRICE, 64 * 500 + 2500, id="empty-prompt"),
        pytest.param(1280, 100, PRICE, (1280 + 64) * 500 + 101 * 2500, id="64-is-a-twentieth"),
        pytest.param(1281, 100, PRICE, (1281 + 65) * 500 + 101 * 2500, id="a-twentieth-is-more-and-rounded-up"),
        pytest.param(10, 9, Price(Decimal(0), Decimal(0), Decimal("0.01")), 10_000_000, id="request"),
        pytest.param(1, 0, Price(Decimal("1e-12"), Decimal("1e-10")), 1, id="rounded-up"),
    ],
)
def test_the_worst_case(n_prompt: int, max_tokens: int, price: Price, nano: int) -> None:
    """Prompt with its slack, max_tokens with one more, each at its price, and the price of a request."""
    assert worst_case(n_prompt, max_tokens, price) == nano


@pytest.mark.parametrize(
    ("usd", "nano"),
    [
        (0.1, 100_000_000),
        (Decimal("0.0000000001"), 1),
        (0.0, 0),
        (2e-05, 20_000),
        (0.00123456789, 1_234_568),
        (1e300, 2**50),
        (4.6e9, 2**50),
        (Decimal("1e999999"), 2**50),
        (Decimal("1e-999999"), 1),
        (Decimal("0." + "9" * 5000), 1_000_000_000),
    ],
)
def test_dollars_are_rounded_up(usd: float | Decimal, nano: int) -> None:
    """A float is the number that it prints as: 0.1 has no hidden digits."""
    assert nano_of(usd) == nano


def test_the_dearest_of_several_endpoints() -> None:
    """The highest price of each kind, whichever endpoint asks it."""
    one = Endpoint("a/int4", "A", "int4", Decimal(1), Decimal(9))
    two = Endpoint("b/int4", "B", "int4", Decimal(3), Decimal(2), Decimal(4))
    assert dearest([one, two]) == Price(Decimal(3), Decimal(9), Decimal(4))


def test_a_promise_up_to_the_cap_and_not_a_nano_more() -> None:
    """Spent and promised count alike."""
    purse = Purse(100, spent=30).reserve(70)
    assert purse == Purse(100, 30, 70)
    assert purse is not None
    assert (purse.left, purse.reserve(1)) == (0, None)
    assert purse.settle(70, 20) == Purse(100, 50, 0)
    assert Purse(100, spent=120).reserve(0) is not None
    assert Purse(100, spent=120).left == 0


def test_a_bill_above_its_promise_ends_all_promises() -> None:
    """Its excess is kept, and nothing more is promised though there is room."""
    purse = Purse(1000, 0, 10).settle(10, 13)
    assert purse == Purse(1000, 13, 0, 3)
    assert purse.reserve(1) is None


@given(st.integers(0, 500), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 100), st.booleans()), max_size=60))
def test_no_order_of_events_passes_the_cap(cap: int, events: list[tuple[int, int, bool]]) -> None:
    """Whatever is promised and settled in whatever order, bills within their promise keep spent + reserved <= cap."""
    purse, promised = Purse(cap), list[int]()
    for nano, part, settle_first in events:
        if settle_first and promised:
            reserved = promised.pop(part % len(promised))
            purse = purse.settle(reserved, reserved * part // 100)
        more = purse.reserve(nano)
        assert (more is None) == (purse.spent + purse.reserved + nano > cap)
        if more is not None:
            purse, promised = more, [*promised, nano]
        assert purse.spent + purse.reserved <= cap
        assert purse.reserved == sum(promised)
