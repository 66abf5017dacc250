"""What each failure means: one table, from what came to what happens next; and how long to wait.

Pure: the time and the draw are arguments. The causes are those of OpenRouter's public documentation and of public
reports: 402, 403 and 429 are several errors each, with opposite remedies. Knows nothing of sockets and ledgers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from types import MappingProxyType

from harness.errors import HarnessError, ProviderError
from harness.failures import refusal
from harness.transport import NotSentError

DOUBLINGS = 30  # 2.0 ** 1024 would overflow
LONGEST_S = 900.0  # a longer Retry-After is asked again after this
JITTER = 0.25


class Act(Enum):
    """What happens next."""

    RETRY = "this prompt again, after a wait of its own"
    HOLD = "this prompt again, and nobody sends anything before"
    END = "this prompt ends"
    STOP_DATASET = "no more prompts of its data set"
    STOP_RUN = "no more prompts at all"


class Charge(Enum):
    """What is booked for an attempt without an answer."""

    NOTHING = "it was never sent, or the host refused it before anything was sampled"
    TOLD = "what the body or the generation endpoint says, else the whole reservation"
    WHOLE = "perhaps billed, nobody can be asked: the whole reservation"


@dataclass(frozen=True, slots=True)
class Kind:
    """A line of the table.

    Attributes:
        max_tries: Attempts of one prompt that may end in this kind before it gives up.
        first_s, cap_s: Wait after the first failure, doubled with each up to the cap, in seconds, before jitter.
        slows: Whether fewer requests should be under way.
        exhausted: What happens after the last try: the prompt gives up, or where no prompt would fare better, all do.
        remedy: What a person can do, where the run or a data set stops.
    """

    name: str
    act: Act
    charge: Charge
    max_tries: int = 1
    first_s: float = 0.0
    cap_s: float = 120.0
    slows: bool = False
    exhausted: Act = Act.END
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure.

    Attributes:
        retry_after_s: As the host asked, None where it did not.
        charge: The kind's, or TOLD for an error that came in an answer of status 200.
    """

    kind: Kind
    text: str
    charge: Charge
    provider: str | None = None
    status: int | None = None
    retry_after_s: float | None = None


ENDS: Mapping[str, bool] = MappingProxyType({"refused": False, "bad-request": True, "gave-up": True})
"""How a prompt can end without an answer -> whether a later run tries it again: a host may answer 400 to everybody for
an hour, and to ask again costs nothing."""

_CREDIT = "add credit, or raise the key's limit; then run the same command again"
_KINDS = (
    Kind("not-sent", Act.HOLD, Charge.NOTHING, 20, 1.0, 60.0, exhausted=Act.STOP_RUN, remedy="see to the network"),
    Kind("unanswered", Act.RETRY, Charge.WHOLE, 3, 2.0, slows=True),
    Kind("key", Act.STOP_RUN, Charge.NOTHING, remedy="put a valid key into OPENROUTER_API_KEY"),
    Kind("credits", Act.STOP_RUN, Charge.NOTHING, remedy=_CREDIT),
    Kind("key-limit", Act.STOP_RUN, Charge.NOTHING, remedy=_CREDIT),
    Kind(
        "in-flight-budget",
        *(Act.HOLD, Charge.NOTHING, 30, 5.0),
        slows=True,
        exhausted=Act.STOP_RUN,
        remedy="lower the concurrency, or see what else spends on this key",
    ),
    Kind("payment", Act.STOP_RUN, Charge.NOTHING, remedy=_CREDIT),
    Kind("refused", Act.END, Charge.NOTHING),
    Kind("key-budget", Act.STOP_RUN, Charge.NOTHING, remedy=_CREDIT),
    Kind("forbidden", Act.STOP_RUN, Charge.NOTHING, remedy="see what the key may do"),
    Kind(
        "parameters",
        Act.STOP_DATASET,
        Charge.NOTHING,
        remedy="compare the request's parameters with the endpoint's supported_parameters; keep require_parameters on",
    ),
    Kind("no-endpoints", Act.STOP_RUN, Charge.NOTHING, remedy="see which endpoints the model has; choose other ones"),
    Kind("not-found", Act.STOP_RUN, Charge.NOTHING, remedy="check model and base URL"),
    Kind("bad-request", Act.END, Charge.NOTHING),
    Kind("timeout", Act.RETRY, Charge.WHOLE, 3, 5.0, slows=True),
    Kind(
        "rate-limit",
        *(Act.HOLD, Charge.NOTHING, 12, 5.0),
        slows=True,
        exhausted=Act.STOP_RUN,
        remedy="lower the concurrency, or see what else uses this key",
    ),
    Kind("provider-rate-limit", Act.RETRY, Charge.NOTHING, 12, 30.0, 300.0, slows=True),
    Kind("host-error", Act.RETRY, Charge.NOTHING, 8, 2.0, 60.0),
    Kind("gateway-page", Act.RETRY, Charge.WHOLE, 3, 5.0, 60.0, slows=True),
    Kind(
        "no-api",
        *(Act.STOP_RUN, Charge.NOTHING),
        remedy="the API does not answer like this: check the base URL, which ends in /api/v1 at OpenRouter",
    ),
    Kind("no-answer", Act.RETRY, Charge.TOLD, 3, 2.0, 60.0),
    Kind("key-echoed", Act.STOP_RUN, Charge.TOLD, remedy="tell the host, and change the key"),
    Kind("wrong-model", Act.STOP_RUN, Charge.TOLD, remedy="check the model id, and what routes its requests elsewhere"),
    Kind("wrong-provider", Act.STOP_RUN, Charge.TOLD, remedy="the pin was lost: check the provider block and routing"),
)
KINDS: Mapping[str, Kind] = MappingProxyType({kind.name: kind for kind in _KINDS})


def _says(*words: str) -> Callable[[ProviderError], bool]:
    return lambda error: any(word in str(error).lower() for word in words)


def _from(*sources: str) -> Callable[[ProviderError], bool]:
    return lambda error: (error.limit_source or "") in sources


def _of_provider(error: ProviderError) -> bool:
    """OpenRouter's own limit has no provider's name beside it."""
    return error.provider is not None or "provider" in (error.limit_source or "")


def _always(_: ProviderError) -> bool:
    return True


_BY_CODE: tuple[tuple[range, Callable[[ProviderError], bool], str], ...] = (
    # codes, condition, kind: the first line that fits
    (range(401, 402), _always, "key"),
    (range(402, 403), _from("openrouter_in_flight_budget"), "in-flight-budget"),
    (range(402, 403), _from("openrouter_credits"), "credits"),
    (range(402, 403), _from("openrouter_key_limit"), "key-limit"),
    (range(402, 403), _always, "payment"),
    (range(403, 404), lambda error: error.flagged, "refused"),
    (range(403, 404), _says("budget", "limit", "credit"), "key-budget"),
    (range(403, 404), _says("guardrail", "moderation", "flagged"), "refused"),
    (range(403, 404), _always, "forbidden"),
    (range(404, 405), _says("requested parameters"), "parameters"),
    (range(404, 405), _says("no endpoints found", "no allowed providers"), "no-endpoints"),
    (range(404, 405), _always, "not-found"),
    (range(408, 409), _always, "timeout"),
    (range(425, 426), _always, "host-error"),
    (range(429, 430), _of_provider, "provider-rate-limit"),
    (range(429, 430), _always, "rate-limit"),
    (range(400, 500), _always, "bad-request"),
    (range(504, 505), _always, "timeout"),
    (range(524, 525), _always, "timeout"),
    (range(500, 600), _always, "host-error"),
)


def of_reply(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Failure:
    """A reply whose status is not 200; `now` in Unix seconds, for a Retry-After that is a date."""
    if not 400 <= status < 600:  # a redirection, an empty success: nothing was sampled
        kind = KINDS["no-api"]
        to = f" to {headers['location']:.200}" if "location" in headers else ""
        return Failure(kind, f"HTTP {status}{to} in the place of an answer", kind.charge, None, status)
    error = refusal(status, body)
    page = error.raw is not None and error.limit_source is None and body.lstrip()[:1] not in (b"{", b"[")
    kind = KINDS["gateway-page"] if page and status >= 500 else _kind(error)
    return Failure(kind, str(error), kind.charge, error.provider, status, retry_after_s(headers, now))


def of_answer(error: ProviderError, headers: Mapping[str, str], now: float) -> Failure:
    """A reply of status 200 that is no answer; it may have been billed whatever it says."""
    kind = _kind(error) if error.code else KINDS["no-answer"]
    charge = Charge.TOLD if kind.charge is Charge.NOTHING else kind.charge
    packed = headers.get("content-encoding", "identity")
    said = f"{error} ({error.raw[:500]})" if error.raw else str(error)
    said = said if packed == "identity" else f"the host packed its reply ({packed:.20}), which nobody asked for: {said}"
    return Failure(kind, said, charge, error.provider, 200, retry_after_s(headers, now))


def of_error(error: HarnessError) -> Failure:
    """What a transport raised."""
    kind = KINDS["not-sent"] if isinstance(error, NotSentError) else KINDS["unanswered"]
    return Failure(kind, str(error), kind.charge)


def _kind(error: ProviderError) -> Kind:
    found = (name for codes, fits, name in _BY_CODE if error.code in codes and fits(error))
    return KINDS[next(found, "no-answer")]


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the host asks to wait, from seconds or a date; None where it does not ask or says nonsense."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        asked = float(value) if value.replace(".", "", 1).isdecimal() else _date(value) - now
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, asked), LONGEST_S)


def _date(value: str) -> float:
    when: datetime = parsedate_to_datetime(value)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def wait_s(failure: Failure, n_failures: int, draw: float) -> float:
    """Seconds to wait after the n-th failure of a kind (from 1; 0: only as long as the host asked for).

    `draw` in [0, 1) spreads those who wait together; it adds up to a quarter.
    """
    kind = failure.kind
    own = min(kind.cap_s, kind.first_s * 2.0 ** min(n_failures - 1, DOUBLINGS)) if n_failures else 0.0
    return max(own, failure.retry_after_s or 0.0) * (1.0 + JITTER * draw)
