"""OpenRouter's other answers, read: a model's endpoints, one generation, the key; and which pin means which provider.

A pin is an endpoint's tag (`siliconflow/int4`) or its slug; an answer names a display name (`SiliconFlow`). The map is
read from the endpoints listing, never guessed. Fields as OpenRouter's public documentation and SDK name them. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from harness.errors import ProviderError, SetupError
from harness.records import MAX_USD
from harness.response import loads

Json = dict[str, Any]
MAX_PRICE = Decimal(1000)
"""USD of a token or a request: a million times and more of what any has cost."""
MAX_AMOUNT = Decimal(MAX_USD)
MIN_AMOUNT = Decimal("1e-18")
"""USD: a smaller one counts as this, so that no float makes 0 of it."""
MAX_DIGITS = 100  # with point and exponent, of an amount
BILLED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "prompt": ("prompt", "input_cache_write", "input_cache_read"),
        "completion": ("completion", "internal_reasoning"),
        "request": ("request",),
    }
)
"""Kind of price -> members of `pricing` at which one such unit may be billed, the stated one first."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One provider's offer of a model.

    Attributes:
        tag: The slug with its variant.
        provider_name: What answers call it.
        prompt_usd, completion_usd: The most that one token can cost, request_usd one request. A model may think in all
            of its tokens, and a prompt may go through a cache: where a token costs more so, that price stands here.
        max_completion_tokens, max_prompt_tokens: None where not said.
    """

    tag: str
    provider_name: str
    quantization: str
    prompt_usd: Decimal
    completion_usd: Decimal
    request_usd: Decimal = Decimal(0)
    context_length: int | None = None
    max_completion_tokens: int | None = None
    max_prompt_tokens: int | None = None
    supported_parameters: frozenset[str] = frozenset()

    @property
    def slug(self) -> str:
        """The tag without its variant."""
        return self.tag.partition("/")[0]

    def answers_to(self, pin: str) -> bool:
        """Whether a pin means this endpoint."""
        return pin.lower() in (self.tag.lower(), self.slug.lower())


@dataclass(frozen=True, slots=True)
class Generation:
    """What GET /generation says of one answer; None: not said."""

    id: str
    provider_name: str | None
    total_cost: Decimal | None
    native_tokens_prompt: int | None
    native_tokens_completion: int | None
    finish_reason: str | None


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What GET /key says: USD; None: no limit."""

    limit: Decimal | None
    limit_remaining: Decimal | None
    usage: Decimal


def endpoints_of(body: bytes) -> tuple[Endpoint, ...]:
    """GET /models/{author}/{slug}/endpoints -> its endpoints.

    Raises:
        ProviderError: For anything else than such a listing, or a price that is no number.
    """
    listed = _data(body, "an endpoints listing").get("endpoints")
    if not isinstance(listed, list) or not all(isinstance(e, dict) for e in listed):
        raise ProviderError("no endpoints listing: `data.endpoints` is no list of objects")
    return tuple(map(_endpoint, listed))


def generation_of(body: bytes) -> Generation:
    """GET /generation -> what it says of the answer."""
    data = _data(body, "a generation")
    return Generation(
        _text(data, "id"),
        _text(data, "provider_name") or None,
        _money(data.get("total_cost")),
        _count(data.get("native_tokens_prompt")),
        _count(data.get("native_tokens_completion")),
        _text(data, "finish_reason") or None,
    )


def key_of(body: bytes) -> KeyInfo:
    """GET /key -> what is left of it."""
    data = _data(body, "a key's state")
    return KeyInfo(
        _money(data.get("limit")), _money(data.get("limit_remaining")), _money(data.get("usage")) or Decimal(0)
    )


def pinned(
    pins: Sequence[str], endpoints: Iterable[Endpoint], quantizations: Sequence[str] = ()
) -> tuple[Endpoint, ...]:
    """The endpoints that pins mean, in the order of the pins.

    Raises:
        SetupError: For a pin that no endpoint answers to: an unknown slug is never taken for a match.
    """
    offers = tuple(endpoints)
    found = []
    for pin in pins:
        fits = [e for e in offers if e.answers_to(pin) and (not quantizations or e.quantization in quantizations)]
        if not fits:
            wanted = f" in {', '.join(quantizations)}" if quantizations else ""
            known = ", ".join(sorted(f"{e.tag} ({e.quantization})" for e in offers)) or "none at all"
            raise SetupError(f"no endpoint answers to {pin!r}{wanted}; the listing has {known}")
        found += [e for e in fits if e not in found]
    return tuple(found)


def provider_block(pins: Sequence[str], quantizations: Sequence[str] = ()) -> Json:
    """A request's `provider` that admits these endpoints and no other; `order` alone would be a wish only."""
    block: Json = {"only": list(pins), "allow_fallbacks": False, "require_parameters": True}
    return block | ({"quantizations": list(quantizations)} if quantizations else {})


def _endpoint(fields: Json) -> Endpoint:
    tag, pricing = _text(fields, "tag"), fields.get("pricing")
    if not tag or not _text(fields, "provider_name"):
        raise ProviderError("no endpoints listing: an endpoint without `tag` or `provider_name`")
    prices = pricing if isinstance(pricing, dict) else {}
    if prices.get("prompt") is None or prices.get("completion") is None:
        raise ProviderError(f"the endpoint {tag:.100} states no price of a prompt or completion token")
    prompt, completion, request = (max(_price(tag, prices, name) for name in names) for names in BILLED.values())
    parameters = fields.get("supported_parameters")
    return Endpoint(
        tag,
        _text(fields, "provider_name"),
        _text(fields, "quantization") or "unknown",
        prompt,
        completion,
        request,
        _count(fields.get("context_length")),
        _count(fields.get("max_completion_tokens")),
        _count(fields.get("max_prompt_tokens")),
        frozenset(p for p in parameters if isinstance(p, str)) if isinstance(parameters, list) else frozenset(),
    )


def _data(body: bytes, what: str) -> Json:
    value = loads(body)
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, dict):
        raise ProviderError(f"not {what}: `data` is no object; it begins {body[:60]!r}")
    return data


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _price(tag: str, prices: Json, name: str) -> Decimal:
    try:
        return _money(prices.get(name), MAX_PRICE) or Decimal(0)
    except ProviderError as error:
        raise ProviderError(f"the endpoint {tag:.100}, pricing.{name}: {error}") from None


def _money(value: Any, most: Decimal = MAX_AMOUNT) -> Decimal | None:
    """USD as told, in digits or as a number; None where nothing was told.

    Raises:
        ProviderError: For what is no amount from 0 to `most`: a negative price would lift every cap.
    """
    if value is None:
        return None
    amount = Decimal("NaN")
    try:
        if (
            isinstance(value, str | int | float)
            and not isinstance(value, bool)
            and len(text := str(value)) <= MAX_DIGITS
        ):
            amount = Decimal(text)
    except (ArithmeticError, ValueError):  # no number; one of thousands of digits
        pass
    if not amount.is_finite() or not 0 <= amount <= most:
        raise ProviderError(f"an amount of money that is none: {_shown(value)}; expected USD, at most {most:,f}")
    return amount if not amount or amount > MIN_AMOUNT else MIN_AMOUNT


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.60}"
    except (ValueError, RecursionError):
        return "a number of thousands of digits, or lists in lists"
