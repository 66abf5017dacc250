"""An answer and its verdict -> what there is to show: its ids, the readings that were tried, and where witness and
reading part.

On the level of `flow`, whose stages it asks once more; judges nothing, and what it gives is for eyes alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from harness import readings, stream
from harness.exact import reported
from harness.flow import Kit, Known, known_of, traits_of, try_readings
from harness.types import Exchange, Ids, Testimony, Verdict
from harness.verdict import NOTHING, Trial

UNREAD = "nothing came that can be read as an answer, or nobody knows its format: there are no tokens to show"
REPORTED = "the host named the tokens itself: its report decides, and readings are not asked. These are for the eye"
FOUND = "a finding rejects the answer whatever its readings are, so none was tried. These are for the eye"


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a witness and the ids part.

    Attributes:
        at: Index of the first id that the witness speaks against; None where it gives no place (a count).
    """

    witness: str
    at: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Trace:
    """What there is to show of one answer.

    Attributes:
        ids: Those that the host named, else those of the first reading; none where there is neither.
        trials: One a reading; the one that the verdict is about comes first.
        note: What a reader must know of these readings; "" where they were tried as they stand.
    """

    ids: Ids
    trials: tuple[Trial, ...]
    partings: tuple[Parting, ...]
    note: str


def trace(
    exchange: Exchange,
    verdict: Verdict,
    kit: Kit,
    model: str | None = None,
    provider: str | None = None,
    blind: bool = False,
) -> Trace:
    """What there is to show of an answer that `judge` gave this verdict on, with the same arguments."""
    known = known_of(exchange, kit, model=model, provider=provider, blind=blind)
    if isinstance(known, Verdict):
        return Trace(NOTHING, (), (), UNREAD)
    told = reported(known.turn, known.fmt, kit.vocab, None, None, None)
    trials, note = _trials(known, kit)
    if told is not None:
        return Trace(told.ids, trials, tuple(_report_partings(told.ids, trials, verdict.witnesses)), REPORTED)
    if any(f.fatal for f in verdict.findings) and not verdict.n_readings:
        note = note or FOUND
    if not trials:
        return Trace(NOTHING, (), (), note)
    partings = list(_partings(trials[0], known, kit))
    if not partings or any(f.code == "ambiguous" for f in verdict.findings):
        partings += _rivals(trials)
    return Trace(trials[0].ids, trials, tuple(partings), note)


def _trials(known: Known, kit: Kit) -> tuple[tuple[Trial, ...], str]:
    """All trials, the one that the outcome is about first; and why there is none."""
    modes = readings.modes(known.turn, known.fmt, known.thinking)
    try:
        tried = try_readings(known, kit, traits_of(known, kit, modes[0]), modes)
    except readings.SearchBound as error:
        return (), f"{error}: none was tried"
    first = tried.outcome.trial
    rest = (t for t in (*tried.common, *tried.rare) if t is not first)
    return (*((first,) if first is not None else ()), *rest), ""


def first_difference(a: Sequence[int], b: Sequence[int]) -> int | None:
    """The first index at which two rows of ids differ, the end of the shorter one included; None where they agree."""
    return next((k for k, (x, y) in enumerate(zip_longest(a, b)) if x != y), None)


def _report_partings(ids: Ids, trials: Sequence[Trial], said: Sequence[Testimony]) -> Iterator[Parting]:
    for told in said:
        if told.says == "contradicts":
            yield Parting(told.witness, None, told.reason)
    at = first_difference(ids.ids, trials[0].ids.ids) if trials else None
    if at is not None:
        yield Parting("text", at, "from here on the text, read by us, gives other ids than the host named")


def _partings(trial: Trial, known: Known, kit: Kit) -> Iterator[Parting]:
    for told in trial.testimony:
        if told.says == "contradicts":
            cuts = list(_cut_ids(trial, known, kit)) if told.witness == "chunks" else []
            yield Parting(told.witness, cuts[0] if cuts else None, told.reason)
            yield from (Parting(told.witness, at, "a chunk ends inside this id too") for at in cuts[1:])


def _rivals(trials: Sequence[Trial]) -> Iterator[Parting]:
    """Where readings that may be true as well part from the first one; the bill alone excludes none of them."""
    if trials[0].ids.ambiguous:
        yield Parting("reading", None, trials[0].ids.ambiguous)
    for other in trials[1:]:
        at = first_difference(trials[0].ids.ids, other.ids.ids)
        if at is not None and not other.contradicted_beside_bill and not other.reading.rank:
            names = "+".join(other.reading.assumptions) or "plain"
            yield Parting("reading", at, f"from here on another reading ({names}) gives other ids, and may be true too")


def _cut_ids(trial: Trial, known: Known, kit: Kit) -> Iterator[int]:
    """The ids inside which a chunk of the stream ended."""
    encode, ranks = kit.encode, kit.vocab.ranks
    modes = readings.modes(known.turn, known.fmt, known.thinking)
    rows = {row.at: row for row in stream.laid(trial.reading, known.turn, traits_of(known, kit, modes[0]))}
    start = 0
    for k, segment in enumerate(trial.reading.segments):
        ends = [] if segment.control >= 0 else stream.ends(segment, encode, ranks)
        bad = stream.violated(rows[k], encode, ranks) if k in rows else []
        yield from sorted({start + sum(end < at for end in ends) for at in bad})
        start += 1 if segment.control >= 0 else len(ends)
