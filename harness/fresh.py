"""A few fresh answers of each provider for the gate: asked now, within a budget, and kept as cassettes below build/.

Asks through `record`; what the answers prove is for `proof`. The clock is an argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from harness.catalog import pinned
from harness.drift import compare
from harness.errors import HarnessError, SetupError
from harness.evidence import Filed
from harness.flow import Kit
from harness.record import GOOD, Job, Plan, offers, record
from harness.scenarios import Scenario, Scenarios
from harness.spending import Meter, usd
from harness.transport import Transport

PROBES = ("plain-short", "plain-short-stream", "thinking-off", "tool-call")
"""What is asked where nobody names other scenarios: text and a call, a body and a stream, with thinking and without."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """What came of it.

    Attributes:
        folder: Where the cassettes lie.
        reasons: A line for each answer that did not come as asked.
    """

    folder: Path
    cost: Decimal
    reasons: tuple[str, ...]


def probes(known: Scenarios, names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, else those of PROBES that there are.

    Raises:
        SetupError: A name that none has, or none of PROBES in a file of others.
    """
    there = {s.name for s in known.scenarios}
    picked = tuple(names) or tuple(name for name in PROBES if name in there)
    if not picked:
        raise SetupError(f"none of {', '.join(PROBES)} is among the scenarios; name others with --probe")
    return known.picked(picked)


async def ask(
    plan: Plan, transport: Transport, pins: Sequence[str], scenarios: Sequence[Scenario], budget: Decimal
) -> Fresh:
    """Asks every scenario of every provider; nothing is sent that the budget could not pay."""
    try:
        endpoints = pinned(pins, await offers(transport, plan.model))
    except HarnessError as error:
        return Fresh(plan.folder, Decimal(0), (f"live: {error}",))
    cost, reasons = Decimal(0), []
    async for row in record(plan, [Job(s, e) for e in endpoints for s in scenarios], transport, Meter(budget)):
        cost += row.cost
        if row.status not in GOOD:
            reasons.append(f"live: {row.name} {row.status}: {row.reason}")
    return Fresh(plan.folder, cost, tuple(reasons))


def changed(recorded: Sequence[Filed], fresh: Sequence[Filed], kit: Kit) -> tuple[str, ...]:
    """What the providers changed since their cassettes were recorded, where it touches ids."""
    old, new = (
        {f.recording.name: f.exchanges[0] for f in side if f.recording and f.exchanges} for side in (recorded, fresh)
    )
    return tuple(
        f"{d.provider} has changed since it was recorded: {d.aspect} {d.old} -> {d.new} ({', '.join(d.shown_by[:3])}); "
        "look at `tokenproof drift`, and record again"
        for d in compare(old, new, kit).drifts
        if d.touches_ids
    )


def told(fresh: Fresh, n_cassettes: int) -> str:
    """A line for a person."""
    return f"{n_cassettes} fresh answers for ${usd(fresh.cost)}, in {fresh.folder}"
