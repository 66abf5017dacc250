"""Readings with their ids and what the witnesses said of them -> a verdict.

Accepts only what is left when every reading that the witnesses allow has one length and agrees on all ids but the
inferred ones, at most a quarter. Knows nothing of texts, providers and how ids were made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.types import Finding, Ids, Origin, Reading, Testimony, VerdictName

MAX_INFERRED_SHARE = 0.25
INFERRED = int(Origin.INFERRED)


@dataclass(frozen=True, slots=True)
class Trial:
    """One reading, its ids, and what each witness said of it."""

    reading: Reading
    ids: Ids
    testimony: tuple[Testimony, ...]

    @property
    def contradicted(self) -> bool:
        return any(t.says == "contradicts" for t in self.testimony)

    @property
    def contradicted_beside_bill(self) -> bool:
        """Whether another witness than the bill speaks against it."""
        return any(t.says == "contradicts" for t in self.testimony if t.witness != "bill")

    @property
    def supported(self) -> bool:
        """Whether the bill speaks for it. Chunks and reasoning_tokens alone cannot see what is hidden at the edges."""
        return self.says("bill") == "supports"

    def says(self, witness: str) -> str:
        """What one witness said; silent where it was not heard."""
        return next((t.says for t in self.testimony if t.witness == witness), "silent")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The name of the verdict, the trial that stands for it, and why not, where it does not."""

    name: VerdictName
    ids: Ids
    trial: Trial | None
    findings: tuple[Finding, ...] = ()


NOTHING = Ids([], b"")


def decide(common: Sequence[Trial], rare: Callable[[], Sequence[Trial]], *, lost_text: bool) -> Outcome:
    """The outcome of all trials.

    Args:
        common: Trials of rank 0.
        rare: Makes the trials of rank 1; asked only where no common reading stands.
        lost_text: Whether this stack may drop whole stretches, so that a larger bill proves no rare reading.
    """
    unsure = next((t for t in common if t.ids.ambiguous and not t.contradicted), None)
    if unsure is not None and unsure.says("bill") != "silent":
        return Outcome("rejected", NOTHING, unsure, (Finding("ambiguous", "usage", unsure.ids.ambiguous),))
    heard = [t for t in common if t.reading.rival in ("", "trait") and not t.contradicted_beside_bill]
    lengths = sorted({len(t.ids.ids) for t in heard})
    if len(lengths) > 1 and any(t.says("bill") != "silent" for t in heard):
        # the bill would pick one of them, and any single thing that nobody saw would make it pick another
        text = f"unknown traits give readings of {', '.join(map(str, lengths))} ids: {_names(heard)}"
        return Outcome("rejected", NOTHING, heard[0], (Finding("ambiguous", "usage", text),))
    standing = [t for t in common if not t.contradicted]
    plain = [t for t in standing if not t.reading.rival]
    if any(t.supported for t in plain):
        return _agreed(standing)
    if plain:
        finding = Finding("no-witness", "usage", _first_reason(plain[0]), fatal=False)
        return Outcome("unverified", NOTHING, plain[0], (finding,))
    return _rare(common, [*rare(), *standing], lost_text)


def _rare(common: Sequence[Trial], trials: Sequence[Trial], lost_text: bool) -> Outcome:
    standing = [t for t in trials if not t.contradicted and t.supported]
    plain = common[0] if common else None
    if any(_has_own_witness(t, plain, lost_text) for t in standing):
        return _agreed(standing)
    names = sorted({t.reading.assumptions[-1] for t in standing if t.reading.assumptions})
    text = _first_reason(plain) if plain else "no reading is possible"
    if names:
        text += f"; would fit, unproven: {', '.join(names)}"
    return Outcome("rejected", NOTHING, plain, (Finding("bill-mismatch", "usage", text),))


def _has_own_witness(trial: Trial, plain: Trial | None, lost_text: bool) -> bool:
    if trial.reading.rival or not trial.reading.own_witness:
        return False
    longer = plain is not None and len(trial.ids.ids) > len(plain.ids.ids)
    return all(
        not (longer and lost_text) if witness == "no-rival" else trial.says(witness) == "supports"
        for witness in trial.reading.own_witness
    )


def _agreed(standing: Sequence[Trial]) -> Outcome:
    lengths = sorted({len(t.ids.ids) for t in standing})
    first = min(standing, key=lambda t: len(t.reading.assumptions))
    if len(lengths) > 1:
        text = f"readings of {', '.join(map(str, lengths))} ids all fit: {_names(standing)}"
        return Outcome("rejected", NOTHING, first, (Finding("ambiguous", "usage", text),))
    unsure = next((t for t in standing if t.ids.ambiguous), None)
    if unsure is not None:
        return Outcome("rejected", NOTHING, unsure, (Finding("ambiguous", "usage", unsure.ids.ambiguous),))
    ids = merged([t.ids for t in standing]) if len(standing) > 1 else first.ids
    n_inferred = ids.origins.count(INFERRED)
    if n_inferred > MAX_INFERRED_SHARE * len(ids.ids):
        text = f"{n_inferred} of {len(ids.ids)} ids would be masked, at most a quarter may: {_names(standing)}"
        return Outcome("rejected", NOTHING, first, (Finding("too-many-masked", "ids", text),))
    return Outcome("verified", ids, first)


def _names(standing: Sequence[Trial]) -> str:
    return " | ".join(sorted({"+".join(t.reading.assumptions) or "plain" for t in standing})[:4])


def merged(rows: Sequence[Ids]) -> Ids:
    """Rows of one length as one: where they differ, or one of them is inferred, the id is INFERRED."""
    first = rows[0]
    origins = bytearray(first.origins)
    for row in rows[1:]:
        for k, (a, b) in enumerate(zip(first.ids, row.ids, strict=True)):
            if a != b or row.origins[k] == INFERRED:
                origins[k] = INFERRED
    return Ids(first.ids, bytes(origins))


def _first_reason(trial: Trial) -> str:
    told = [t for t in trial.testimony if t.says == "contradicts"] or list(trial.testimony)
    return "; ".join(f"{t.witness}: {t.reason}" for t in told)


def certified(ids: Ids) -> Ids:
    """What is certain of a cut answer: its ids up to the last one that is not INFERRED."""
    kept = len(ids.origins.rstrip(bytes([INFERRED])))
    return Ids(ids.ids[:kept], ids.origins[:kept])
