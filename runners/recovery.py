"""What an earlier part of a run left behind: requests under way, answers without a cost, providers that were dropped.

Knows nothing of HTTP.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.catalog import Endpoint
from harness.errors import SetupError
from runners import ledger_meta
from runners import ledger_writes as w
from runners.ledger import Ledger

LEFT = "the run ended while it was under way; perhaps it was answered and billed"


@dataclass(frozen=True, slots=True)
class Owed:
    """An attempt whose cost can still be asked for."""

    number: int
    dataset: str
    reserved: int
    generation: str


def recover(ledger: Ledger, now: float) -> list[Owed]:
    """Books what nobody can be asked about as the whole reservation, and gives the rest."""
    owed, writes = [], list[w.Write]()
    for number, dataset, state, reserved, generation in ledger.unsettled():
        if state == "reserved":
            writes.append(w.failed(number, now, "left", LEFT, state="unknown"))
        elif generation:
            owed.append(Owed(number, dataset, reserved, generation))
            continue
        writes.append(w.settled(number, reserved, "reservation"))
    ledger.commit(writes)
    return owed


def dropped(ledger: Ledger) -> set[str]:
    """Display names of providers that an earlier part of the run has dropped."""
    return set(ledger_meta.dropped(ledger))


def refuse_dropped(ledger: Ledger, endpoints: Sequence[Endpoint]) -> None:
    """A run whose providers were all dropped does not start.

    Raises:
        SetupError: None is left of those that may answer.
    """
    gone = dropped(ledger)
    if not {e.provider_name for e in endpoints} <= gone:
        return
    why = ledger.meta().get("dropped_why")
    raise SetupError(
        f"an earlier part of this run dropped {', '.join(sorted(e.tag for e in endpoints))}"
        f"{f' ({why})' if why else ''}, and nobody else may answer; name another provider in `only` (with --amend), or "
        "choose another output folder; the run does not start, nothing was asked"
    )
