"""What is behind a wrong verdict: one deviation (a fault), or a breach of the one premise; told from the truth.

A breach is a split that keeps the count, or two deviations and more of which none alone gets through.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from harness.encoder import load_vocab
from harness.types import Verdict
from harness.vocab import N_RANKS
from tests.grammar import Deviation
from tests.trials import Judged, Trial, ended, run

Kind = Literal["fault", "split", "cancel"]


@dataclass(frozen=True, slots=True)
class Breach:
    """A wrong verdict in its smallest form: no deviation can be left out."""

    kind: Kind
    trial: Trial
    judged: Judged

    @property
    def names(self) -> tuple[str, ...]:
        """The deviations that it needs."""
        return tuple(sorted(d.name for d in self.trial.draw.deviations))


def explain(trial: Trial, judged: Judged) -> Breach:
    """Why an accepted answer has wrong ids."""
    if is_resplit(judged.verdict, judged.answer.ids) and judged.verdict.premise == "count":
        return Breach("split", trial, judged)
    trial, judged = reduced(trial, judged)
    if is_resplit(judged.verdict, judged.answer.ids) and judged.verdict.premise == "count":
        return Breach("split", trial, judged)
    causes = len(trial.draw.deviations) + hidden_by_cut(judged)
    cancels = causes > 1 and judged.verdict.premise == "count" and all(_counts(trial, d) for d in trial.draw.deviations)
    return Breach("cancel" if cancels else "fault", trial, judged)


def hidden_by_cut(judged: Judged) -> bool:
    """Whether max_tokens fell just behind a control id: it changes the count and shows nothing."""
    return judged.answer.finish_reason == "length" and judged.answer.ids[-1] >= N_RANKS


def reduced(trial: Trial, judged: Judged) -> tuple[Trial, Judged]:
    """The trial without every deviation that its wrong verdict does not need."""
    for deviation in trial.draw.deviations:
        smaller = replace(trial, draw=trial.draw.without(deviation))
        again = run(smaller) if smaller.draw.ids else judged
        if again.fault and smaller.draw.ids:
            return reduced(smaller, again)
    return trial, judged


def _text(ids: Sequence[int]) -> bytes | None:
    """The bytes of ordinary ids; None where a control id is among them."""
    return None if any(i >= N_RANKS for i in ids) else b"".join(load_vocab().ranks[i] for i in ids)


def is_resplit(verdict: Verdict, truth: tuple[int, ...]) -> bool:
    """Whether each stretch of wrong ids spells the bytes that were sampled there, in as many ids."""
    said = ended(verdict, truth)
    rows = list(zip(said.ids.ids, truth, said.loss_mask, strict=False))
    if not said.truncated and len(said.ids.ids) != len(truth):
        return False
    for differs, run_of in groupby(rows, lambda row: row[0] != row[1]):
        stretch = list(run_of)
        if not differs or not any(mask for _, _, mask in stretch):
            continue
        mine, theirs = _text([a for a, _, _ in stretch]), _text([b for _, b, _ in stretch])
        if mine is None or mine != theirs:
            return False
    return True


def _counts(trial: Trial, deviation: Deviation) -> bool:
    """Whether a deviation changes the count, by itself or in the judge's eyes, or is a split.

    One that does not, and is accepted alone, needs no other that cancels it: then a second one has opened a door.
    """
    draw = trial.draw
    if deviation.edit == "split" or len(draw.without(deviation).ids) != len(draw.ids):
        return True
    return not run(replace(trial, draw=replace(draw, deviations=(deviation,)))).verdict.accepted
