"""Verdicts made anew from the raw answers in a ledger: the same judge, no request, all of them or none.

Knows nothing of HTTP, of what is written from a ledger, and of where the judges are.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness.errors import SetupError
from harness.flow import Kit
from harness.ticket import Hashes
from runners import ledger_writes as w
from runners.judging import Answer, judged
from runners.ledger import Row, Write, open_ledger, read_ledger
from runners.verdicts import Facts, unpack

UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class Question:
    """An answer of the ledger that is to be judged.

    Attributes:
        was: Name of the verdict so far.
        facts: What the new one is packed with.
    """

    job: int
    was: str
    answer: Answer
    facts: Facts


@dataclass(frozen=True, slots=True)
class Told:
    """The new verdict on a question, by name and packed."""

    question: Question
    name: str
    packed: bytes


Judges = Callable[[Iterator[Question]], Iterator[Told]]
"""Every question told, in the order of the questions."""


def here(kit: Kit) -> Judges:
    """Judges of this process, one answer in memory at a time."""

    def tell(questions: Iterator[Question]) -> Iterator[Told]:
        for question in questions:
            found = judged(question.answer, kit, question.facts)
            yield Told(question, found.name, found.packed)

    return tell


def rejudge(path: Path, kit: Kit, hashes: Hashes, tick: Callable[[], None] = lambda: None) -> Counter[tuple[str, str]]:
    """As `rejudge_by`, by this process."""
    return rejudge_by(path, here(kit), Facts(**asdict(hashes)), tick)


def rejudge_by(
    path: Path, judges: Judges, now: Facts, tick: Callable[[], None] = lambda: None
) -> Counter[tuple[str, str]]:
    """Judge every answer of a ledger again; gives how many went from which verdict to which.

    What let an answer be asked for (ticket, or the reason for none) stays with it; the hashes become those of `now`.

    Raises:
        SetupError: There is no such ledger, a run is using it, it is damaged, or it cannot be written; no verdict was
            changed then.
    """
    changes: Counter[tuple[str, str]] = Counter()
    with read_ledger(path) as reader:  # first: it makes nothing where there is no ledger
        reader.check()
        meta = reader.meta()
        started = replace(now, ticket_id=meta.get("ticket_id") or None, ungated=meta.get("ungated") or None)

        def writes() -> Iterator[Write]:
            # rows of the moment before: a reader of its own does not see what is being written
            for told in judges(_questions(reader.rows(), started)):
                changes[told.question.was, told.name] += 1
                tick()
                yield w.judged(told.question.job, told.name, told.packed)

        with open_ledger(path) as ledger:
            ledger.commit(writes())
    return changes


def _questions(rows: Iterator[Row], started: Facts) -> Iterator[Question]:
    for row in rows:
        if row.answer is not None:
            asked = _facts(row) or started
            facts = replace(started, ticket_id=asked.ticket_id, ungated=asked.ungated)
            answer = Answer(f"{row.dataset}/{row.id}", row.request, row.answer)
            yield Question(row.job, row.verdict_name or UNJUDGED, answer, facts)


def _facts(row: Row) -> Facts | None:
    """What the row's verdict was made with; None where it has none that can be read."""
    try:
        return unpack(row.verdict)[1] if row.verdict is not None else None
    except SetupError:
        return None
