"""Verdicts made anew from the raw answers in a ledger: the same judge, no request, all of them or none.

Knows nothing of HTTP and of what is written from a ledger.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from harness.errors import SetupError
from harness.flow import Kit
from harness.ticket import Hashes
from runners import ledger_writes as w
from runners.judging import Answer, judged
from runners.ledger import Row, Write, open_ledger, read_ledger
from runners.verdicts import Facts, unpack

UNJUDGED = "unjudged"


def rejudge(path: Path, kit: Kit, hashes: Hashes, tick: Callable[[], None] = lambda: None) -> Counter[tuple[str, str]]:
    """Judge every answer of a ledger again; gives how many went from which verdict to which.

    What let an answer be asked for (ticket, or the reason for none) stays with it; the hashes become today's.

    Raises:
        SetupError: There is no such ledger, a run is using it, or it cannot be written; no verdict was changed then.
    """
    changes: Counter[tuple[str, str]] = Counter()
    with read_ledger(path) as reader:  # first: it makes nothing where there is no ledger
        meta = reader.meta()
        started = Facts(**asdict(hashes), ticket_id=meta.get("ticket_id") or None, ungated=meta.get("ungated") or None)

        def writes() -> Iterator[Write]:
            for row in reader.rows():  # of the moment before: a reader of its own does not see what is being written
                if row.answer is None:
                    continue
                asked = _facts(row) or started
                facts = replace(started, ticket_id=asked.ticket_id, ungated=asked.ungated)
                told = judged(Answer(f"{row.dataset}/{row.id}", row.request, row.answer), kit, facts)
                changes[row.verdict_name or UNJUDGED, told.name] += 1
                tick()
                yield w.judged(row.job, told.name, told.packed)

        with open_ledger(path) as ledger:
            ledger.commit(writes())
    return changes


def _facts(row: Row) -> Facts | None:
    """What the row's verdict was made with; None where it has none that can be read."""
    try:
        return unpack(row.verdict)[1] if row.verdict is not None else None
    except SetupError:
        return None
