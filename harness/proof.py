"""What the cassettes of a provider prove for a run, or every reason why they prove nothing.

Knows nothing of files, tests and tickets' other members. The judge and the time are arguments.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from harness.errors import ProviderError
from harness.evidence import Filed, means, speaks
from harness.formats import same_model
from harness.recording import complaints
from harness.response import parse
from harness.scoreboard import is_good
from harness.ticket import TicketCassette, TicketProvider, utc_text
from harness.transport import Target
from harness.types import Exchange, Verdict

MIN_VERIFIED = 0.5
"""Share of a provider's recorded answers that must be exact or verified; scenarios ask for hard ones on purpose."""
SHOWN = 3
Judge = Callable[[Exchange], Verdict]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What evidence is asked for.

    Attributes:
        max_age: Older recordings prove nothing.
        min_verified: Share of a provider's answers that must be accepted.
    """

    target: Target
    model: str
    now: datetime
    max_age: timedelta
    min_verified: float = MIN_VERIFIED


@dataclass(frozen=True, slots=True)
class Proof:
    """What cassettes prove of one pin; `provider` is None and `reasons` say why where they prove nothing."""

    pin: str
    provider: TicketProvider | None
    cassettes: tuple[TicketCassette, ...] = ()
    reasons: tuple[str, ...] = ()


def prove(pin: str, tapes: Sequence[Filed], wanted: Wanted, judge: Judge) -> Proof:
    """What the cassettes prove of the provider that a pin means; every reason against it is told."""
    named = [t for t in tapes if means(pin, t.provenance.provider)]
    own = [t for t in named if speaks(t.provenance, wanted.target) and t.provenance.model == wanted.model]
    reasons = [t.trouble for t in tapes if t.recording is None and _lies_with(pin, t.path)]
    if not own:
        return Proof(pin, None, reasons=(*reasons, _nothing(pin, named, wanted)))
    providers = {TicketProvider(p.provider, p.provider_name, p.quantization) for p in (t.provenance for t in own)}
    if len(providers) > 1:
        shown = ", ".join(sorted(f"{p.slug} = {p.name} ({p.quantization})" for p in providers))
        reasons.append(f"{pin}: its cassettes are of several endpoints ({shown}); name one tag")
    provider = min(providers, key=lambda p: (p.slug, p.name, p.quantization))
    if not (provider.name and provider.quantization):
        reasons.append(f"{pin}: its cassettes do not say the provider's name and quantization; record them again")
    reasons += [
        *_untrue(own),
        *_strangers(own, wanted),
        *_ages(pin, own, wanted),
        *_judged(pin, own, wanted, judge),
    ]
    if reasons:
        return Proof(pin, None, reasons=tuple(reasons))
    dated = ((t, t.provenance.at) for t in own)
    return Proof(pin, provider, tuple(TicketCassette(t.path, t.sha256, utc_text(at)) for t, at in dated if at))


def some(names: Sequence[str]) -> str:
    """The first few of many."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _lies_with(pin: str, path: str) -> bool:
    return pin.lower().partition("/")[0] in Path(path).parts


def _nothing(pin: str, named: Sequence[Filed], wanted: Wanted) -> str:
    kinds = Counter((p.kind, p.model, p.base_url) for p in (t.provenance for t in named))
    shown = (
        f"{n} {kind} of {model or 'no model'} at {url or 'no URL'}" for (kind, model, url), n in sorted(kinds.items())
    )
    found = ", ".join(shown) or "none at all"
    return f"{pin}: no recording of {wanted.model} at {wanted.target.base_url} speaks for it (found {found})"


def _untrue(own: Sequence[Filed]) -> Iterator[str]:
    """Bytes that are not those that were recorded, or that stand in two places."""
    seen: dict[str, str] = {}
    for tape in own:
        assert tape.recording is not None
        yield from (f"{tape.path}: {complaint}" for complaint in complaints(tape.recording))
        for pair in tape.provenance.pairs:
            first = seen.setdefault(pair.response_sha256, tape.path)
            if first != tape.path:
                yield f"{tape.path}: the same reply stands in {first}; two requests never have one answer"


def _strangers(own: Sequence[Filed], wanted: Wanted) -> Iterator[str]:
    """Requests that were sent elsewhere, or not pinned; answers of somebody else."""
    for tape in own:
        assert tape.recording is not None
        p = tape.provenance
        if not tape.exchanges:
            yield f"{tape.path}: holds no answer"
        for one in tape.recording.interactions:
            if not one.uri.startswith(f"{wanted.target.base_url}/"):
                yield f"{tape.path}: asked {one.uri:.80}, not {wanted.target.base_url}"
        for exchange in tape.exchanges:
            block = exchange.request.get("provider")
            only = block.get("only") if isinstance(block, dict) else None
            if not only or not all(isinstance(pin, str) and means(pin, p.provider) for pin in only):
                yield f"{tape.path}: its request does not pin {p.provider} with `only`; anybody may have answered"
            yield from (f"{tape.path}: {reason}" for reason in _other_answer(exchange, p.provider_name, wanted.model))


def _other_answer(exchange: Exchange, provider: str, model: str) -> Iterator[str]:
    """An answer of another provider or another model; an error is nobody's answer."""
    try:
        turn = parse(exchange.response)
    except ProviderError:
        return
    if turn.provider != provider:
        yield f"evidence of another provider: {turn.provider or 'nobody that it names'} answered, not {provider}"
    if not turn.model or not same_model(model, turn.model):
        yield f"evidence of another model: {turn.model} answered, not {model}"


def _ages(pin: str, own: Sequence[Filed], wanted: Wanted) -> Iterator[str]:
    """What is too old, from the future, or without a date."""
    groups: dict[str, list[str]] = defaultdict(list)
    days = wanted.max_age / timedelta(days=1)
    for tape in own:
        at = tape.provenance.at
        if at is None:
            groups["do not say when they were made"].append(tape.path)
        elif at > wanted.now:
            groups["were made in the future; look at the clock"].append(tape.path)
        elif at < wanted.now - wanted.max_age:
            groups[f"are older than {days:g} days; record them again"].append(tape.path)
    for what, paths in groups.items():
        yield f"{pin}: {len(paths)} cassettes {what}: {some(paths)}"


def _judged(pin: str, own: Sequence[Filed], wanted: Wanted, judge: Judge) -> Iterator[str]:
    """Too few good answers; and answers whose bill is of another prompt than their request's.

    Hosts render tools and calls of the history in ways of their own; a plain prompt of known offset has one bill.
    """
    rows = [(tape.path, exchange, judge(exchange)) for tape in own for exchange in tape.exchanges]
    for path, exchange, verdict in rows:
        if verdict.prompt == "contradicted" and _is_plain(exchange):
            yield f"{path}: billed another prompt than its request's; answers may have been exchanged"
    n_good = sum(is_good(verdict) for _, _, verdict in rows)
    if not n_good or n_good < wanted.min_verified * len(rows):
        of = f"{n_good} of {len(rows)} recorded answers are exact or verified"
        yield f"{pin}: unverified: {of}, expected {wanted.min_verified:.0%} at least"


def _is_plain(exchange: Exchange) -> bool:
    messages = exchange.request.get("messages")
    roles = [m.get("role") for m in messages if isinstance(m, dict)] if isinstance(messages, list) else []
    return not exchange.request.get("tools") and "tool" not in roles and "assistant" not in roles
