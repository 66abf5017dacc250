"""What a request can cost before it is sent, what it did cost, and a budget that stops the next one.

Amounts are Decimal USD. A request's price has a bound only where its answer has one. Pure but for a running sum.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from harness.catalog import Endpoint
from harness.errors import HarnessError, SetupError
from harness.response import loads, parse
from harness.types import Usage

MESSAGE_IDS = 16
"""Ids that a template puts around one message, at most."""
TEMPLATE_IDS = 64
DECLARED = 2
"""A tool's declaration is written anew for the prompt, at most this much longer."""

MAX_BUDGET = 1_000_000


class OverBudgetError(SetupError):
    """The next request could cost more than is left: it was not sent."""


def worst_case(body: bytes, endpoint: Endpoint) -> Decimal:
    """The most that a chat request can cost at this endpoint: every byte of it a token, the answer as long as allowed.

    Raises:
        SetupError: Nothing bounds it.
    """
    try:
        request = loads(body)
    except HarnessError as error:
        raise SetupError(f"a request whose price nobody can tell: {error}") from error
    if not isinstance(request, dict):
        raise SetupError("a request whose price nobody can tell: no JSON object")
    longest = _longest(request, endpoint)
    messages = request.get("messages")
    n_messages = len(messages) if isinstance(messages, list) else 0
    if any(not _is_text(m) for m in (messages if isinstance(messages, list) else ())):
        raise SetupError("a request with other parts than text has no price that the endpoints listing tells")
    prompt = len(body) * (DECLARED if request.get("tools") else 1) + MESSAGE_IDS * n_messages + TEMPLATE_IDS
    n = request.get("n")
    choices = n if isinstance(n, int) and n > 1 else 1
    return endpoint.request_usd + prompt * endpoint.prompt_usd + choices * longest * endpoint.completion_usd


def _longest(request: Mapping[str, Any], endpoint: Endpoint) -> int:
    for limit in (request.get("max_completion_tokens"), request.get("max_tokens"), endpoint.max_completion_tokens):
        if isinstance(limit, int) and limit > 0:
            return limit
    if endpoint.context_length:
        return endpoint.context_length
    raise SetupError("nothing bounds the answer's length; state max_tokens")


def _is_text(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    parts = content if isinstance(content, list) else ()
    return all(isinstance(part, dict) and part.get("type") == "text" for part in parts)


def cost_of(body: bytes, endpoint: Endpoint) -> Decimal | None:
    """What an answer cost: as it says, else its bill at the listed price; None where it tells neither."""
    try:
        usage = parse(body).usage or Usage()
    except HarnessError:
        return None
    if usage.cost is not None and usage.cost >= 0:
        return Decimal(str(usage.cost))
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    tokens = usage.prompt_tokens * endpoint.prompt_usd + usage.completion_tokens * endpoint.completion_usd
    return endpoint.request_usd + tokens


@dataclass(slots=True)
class Meter:
    """A budget in USD. What was sent and not settled counts as its worst case: it may have been billed."""

    budget: Decimal
    spent: Decimal = Decimal(0)
    _open: dict[object, Decimal] = field(default_factory=dict)

    @property
    def committed(self) -> Decimal:
        """Spent, and what requests without a reply may cost."""
        return self.spent + sum(self._open.values(), Decimal(0))

    def reserve(self, token: object, most: Decimal) -> None:
        """Before a request is sent; the same token reserves once.

        Raises:
            OverBudgetError: It does not fit.
        """
        if token in self._open:
            return
        if self.committed + most > self.budget:
            left = self.budget - self.committed
            raise OverBudgetError(
                f"the next request can cost ${usd(most)}, and ${usd(left)} of ${usd(self.budget)} is left; "
                "it was not sent: raise --budget or ask for less"
            )
        self._open[token] = most

    def settle(self, token: object, cost: Decimal | None) -> Decimal:
        """After its reply; where nobody told the cost the worst case stands. Gives what was counted."""
        most = self._open.pop(token, Decimal(0))
        counted = most if cost is None else cost
        self.spent += counted
        return counted

    def drop_open(self) -> None:
        """Where it is known that nothing that is open ever left us."""
        self._open.clear()


def budget_of(text: str) -> Decimal:
    """A budget as typed.

    Raises:
        SetupError: It is no amount from 0 to MAX_BUDGET.
    """
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except ArithmeticError:
        amount = Decimal("NaN")
    if not amount.is_finite() or not 0 <= amount <= MAX_BUDGET:
        raise SetupError(f"--budget {text!r:.40}; expected an amount in USD such as 0.50")
    return amount


def usd(amount: Decimal) -> str:
    """Digits for a person: cents, and as many more as a small amount needs."""
    return f"{amount:.2f}" if amount == 0 or amount >= 1 else f"{amount:.6f}"
