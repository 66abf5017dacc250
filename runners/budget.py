"""Money: the worst case that a request can cost, and a purse that never promises more than its cap.

Pure; whole numbers of nano-dollars, always rounded up, so that no sum of roundings can pass a cap.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from harness.catalog import Endpoint

NANO = 1_000_000_000  # nano-dollars in a dollar
MOST = 2**50  # over a million dollars for one answer; a ledger can add up thousands of such bills
SLACK_IDS, SLACK_PART = 64, 20  # a host may render a prompt otherwise than we do: 64 ids or a 20th, the larger
EXTRA_IDS = 1  # a `<think>` or a terminator that is billed beyond max_tokens


@dataclass(frozen=True, slots=True)
class Price:
    """USD a prompt token, a completion token and a request."""

    prompt: Decimal
    completion: Decimal
    request: Decimal = Decimal(0)


def dearest(endpoints: Iterable[Endpoint]) -> Price:
    """The price that no answer of these endpoints can pass: the highest of each kind."""
    offers = tuple(endpoints)
    return Price(
        max(e.prompt_usd for e in offers),
        max(e.completion_usd for e in offers),
        max(e.request_usd for e in offers),
    )


def nano_of(usd: Decimal | float) -> int:
    """Dollars as nano-dollars, rounded up, MOST at most; a float counts as the decimal that it prints as."""
    amount = usd if isinstance(usd, Decimal) else Decimal(repr(usd))
    return min(MOST, int((min(amount, Decimal(MOST)) * NANO).to_integral_value(ROUND_CEILING)))


def worst_case(n_prompt: int, max_tokens: int, price: Price) -> int:
    """The most that a request can cost, in nano-dollars.

    >>> worst_case(1000, 4000, Price(Decimal("5e-7"), Decimal("2.5e-6")))
    10534500
    """
    billed_prompt = n_prompt + max(SLACK_IDS, -(-n_prompt // SLACK_PART))
    return nano_of(price.prompt * billed_prompt + price.completion * (max_tokens + EXTRA_IDS) + price.request)


@dataclass(frozen=True, slots=True)
class Purse:
    """What may be spent, what is spent, and what is promised to requests under way: spent + reserved <= cap.

    A bill above its reservation breaks this by what it is above: `excess` is the sum of that, and a purse with an
    excess promises nothing more.
    """

    cap: int
    spent: int = 0
    reserved: int = 0
    excess: int = 0

    @property
    def left(self) -> int:
        """What can still be promised."""
        return max(0, self.cap - self.spent - self.reserved)

    def reserve(self, nano: int) -> "Purse | None":
        """The purse with a promise more; None where it would pass the cap, or where a bill has passed its promise."""
        if nano > self.left or self.excess:
            return None
        return Purse(self.cap, self.spent, self.reserved + nano, self.excess)

    def settle(self, reserved: int, cost: int) -> "Purse":
        """A promise becomes what it cost."""
        over = max(0, cost - reserved)
        return Purse(self.cap, self.spent + cost, self.reserved - reserved, self.excess + over)
