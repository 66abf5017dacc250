"""Whether a paid run may start: the gate's ticket compared with the run, member by member, before anything is asked.

Knows nothing of HTTP. The time is an argument.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime

from harness.catalog import Endpoint
from harness.errors import SetupError
from harness.store import read_ticket
from harness.ticket import Hashes, Ticket, TicketProvider, verify
from runners.runfile import RunFile
from runners.verdicts import Facts

HASHES = {
    "content_hash": "code",
    "vocab_sha256": "vocabulary",
    "formats_sha256": "formats",
    "habits_sha256": "habits",
}
"""Member of `Hashes` -> what it is of, in a word."""
REMEDY = 'run `tokenproof gate` for this run, or start it with --ungated "REASON", which every row will carry'


def admit(run: RunFile, hashes: Hashes, now: datetime, ungated: str | None = None) -> tuple[Facts, Ticket | None]:
    """What every row of the run will carry, and the ticket (None without one), where the run may start.

    Args:
        hashes: Of this process.
        ungated: Why the run goes without a ticket; what the ticket says is then not looked at.

    Raises:
        SetupError: It may not: a line a reason.
    """
    if ungated is not None:
        if not ungated.strip():
            raise SetupError("--ungated needs a reason in words: every row of the run will carry it")
        return Facts(**asdict(hashes), ungated=ungated.strip()), None
    if run.ticket is None:
        raise SetupError(f"no ticket: expected `ticket = PATH` in {run.path} or --ticket PATH; {REMEDY}")
    ticket = read_ticket(run.ticket)
    reasons = (*verify(ticket, now), *differences(ticket, run, hashes))
    if reasons:
        lines = [f"{run.ticket}: {reason}" for reason in reasons]
        raise SetupError("\n".join([*lines, f"the run does not start; {REMEDY}"]))
    return Facts(**asdict(hashes), ticket_id=ticket.ticket_id), ticket


def differences(ticket: Ticket, run: RunFile, hashes: Hashes) -> tuple[str, ...]:
    """Where a ticket is not this run's, a line each; () where it fits."""
    return tuple(_differences(ticket, run, hashes))


def _differences(ticket: Ticket, run: RunFile, hashes: Hashes) -> Iterator[str]:
    for member, word in HASHES.items():
        tested, used = getattr(ticket.hashes, member), getattr(hashes, member)
        if tested != used:
            yield f"other {word} than was tested: {member} is {used[:12]} here, {tested[:12]} in the ticket"
    if ticket.base_url.rstrip("/") != run.base_url:
        yield f"it opens runs at {ticket.base_url}, this one calls {run.base_url}"
    if ticket.model != run.model:
        yield f"it is for the model {ticket.model}, this run asks {run.model}"
    quantizations = frozenset(run.provider.get("quantizations") or ())
    for pin in run.pins:
        yield from _pin(pin, quantizations, ticket.providers)


def _pin(pin: str, quantizations: frozenset[str], tested: Iterable[TicketProvider]) -> Iterator[str]:
    """Why a pin admits more than was tested."""
    known = ", ".join(f"{p.slug} ({p.quantization})" for p in tested)
    exact = {p.quantization for p in tested if p.slug.lower() == pin.lower()}
    fits = exact or {p.quantization for p in tested if p.slug.lower().partition("/")[0] == pin.lower()}
    if not fits:
        yield f"the provider {pin} was not tested; the ticket has {known}"
    elif quantizations - fits:
        others = ", ".join(sorted(quantizations - fits))
        yield f"the provider {pin} was not tested in {others}; the ticket has {known}"
    elif "/" not in pin and not quantizations:
        wanted = ", ".join(f'"{q}"' for q in sorted(fits))
        yield f"{pin} names no variant, so that any may answer; add quantizations = [{wanted}] to [provider]"


def endpoint_differences(ticket: Ticket, endpoints: Iterable[Endpoint]) -> tuple[str, ...]:
    """Of the endpoints that a run's pins mean today, those that the ticket does not know, a line each.

    A slug may come to mean another host or another quantization after the gate has run.
    """
    tested = {(p.slug.lower(), p.name, p.quantization) for p in ticket.providers}
    known = ", ".join(sorted(f"{slug} = {name} ({quantization})" for slug, name, quantization in tested))
    return tuple(
        f"{e.tag} is {e.provider_name} in {e.quantization} today, which was not tested; the ticket has {known}"
        for e in endpoints
        if (e.tag.lower(), e.provider_name, e.quantization) not in tested
    )
