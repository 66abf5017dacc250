"""What is behind a wrong verdict: one deviation (a fault), or a breach of the one premise; told from the truth.

A breach is a split that keeps the count, or two deviations and more of which none alone gets through.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from harness.encoder import load_vocab
from harness.types import Verdict
from harness.vocab import N_RANKS
from tests.grammar_parts import Deviation, Slots
from tests.made_hosts import Twist
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
    causes = len(trial.draw.deviations) + hidden_by_cut(judged) + bill_is_off(trial)
    cancels = causes > 1 and judged.verdict.premise == "count" and all(_counts(trial, d) for d in trial.draw.deviations)
    return Breach("cancel" if cancels else "fault", trial, judged)


def hidden_by_cut(judged: Judged) -> bool:
    """Whether max_tokens fell just behind an id that the host does not show: it changes the count by itself."""
    answer = judged.answer
    last = load_vocab().token_bytes(answer.ids[-1]).decode("utf-8", "replace")
    shown = (answer.reasoning, answer.content, *(call.arguments for call in answer.calls[-1:]))
    return answer.finish_reason == "length" and not any(text.endswith(last) for text in shown)


def bill_is_off(trial: Trial) -> bool:
    """Whether the host has miscounted, which is a deviation like the model's."""
    return trial.twist is not None and trial.twist.bill_off != 0


def _right_bill(trial: Trial) -> Twist | None:
    return replace(trial.twist, bill_off=0) if trial.twist else None


def reduced(trial: Trial, judged: Judged) -> tuple[Trial, Judged]:
    """The trial without every deviation that its wrong verdict does not need."""
    fewer = [replace(trial, draw=trial.draw.without(d)) for d in trial.draw.deviations]
    if bill_is_off(trial):
        fewer.append(replace(trial, twist=_right_bill(trial)))
    for smaller in fewer:
        again = run(smaller) if smaller.draw.ids else None
        if again and again.fault:
            return reduced(smaller, again)
    return trial, judged


def smallest(breach: Breach, tries: int = 200) -> Breach:
    """The same kind of breach with shorter texts and fewer calls, for reading; gives up after `tries` runs."""
    for trial in _smaller(breach.trial):
        tries -= 1
        if tries < 0:
            break
        judged = run(trial)
        found = explain(trial, judged) if judged.fault else None
        if found is not None and (found.kind, found.names) == (breach.kind, breach.names):
            return smallest(found, tries)
    return breach


def _smaller(trial: Trial) -> Iterator[Trial]:
    plainer = (
        replace(trial, limit=None),
        replace(trial, stream=False),
        replace(trial, untold=frozenset()),
        replace(trial, preset=replace(trial.preset, merge=1)),
    )
    yield from (t for t in plainer if t != trial)
    slots = dict(trial.draw.slots)
    last = max((int(name.partition(":")[2]) for name in slots if name.startswith("call:")), default=None)
    if last is not None:
        gone = {f"{part}:{last}" for part in CALL_PARTS} | ({"section", "section_end"} if last == 0 else set())
        if not any(d.slot in gone for d in trial.draw.deviations):
            yield _with(trial, {name: part for name, part in slots.items() if name not in gone})
    for name, part in slots.items():
        if isinstance(part, str):
            yield from (_with(trial, slots | {name: text}) for text in _shorter(name, part) if len(text) < len(part))


def _with(trial: Trial, slots: Slots) -> Trial:
    return replace(trial, draw=replace(trial.draw, slots=slots))


CALL_PARTS = ("call", "header", "middle", "arguments", "call_end")


def _shorter(slot: str, text: str) -> list[str]:
    """Shorter texts of the slot's kind: none of them may be a deviation of its own."""
    if slot.startswith("header"):
        return [f"functions.f:{text.rpartition(':')[2]}"]
    if slot.startswith("arguments"):
        parsed = json.loads(text)
        return ["{}", *(json.dumps({k: v}, ensure_ascii=False) for k, v in parsed.items())]
    half = len(text) // 2
    return ["", "A.", *(t.strip() for t in (text[:half], text[half:], text[1:], text[:-1]))]


def traced(judged: Judged) -> bool:
    """Whether a chunk of the stream ended with a sampled id and within one that was accepted.

    Then a split has left a trace, which the judge excuses where some stacks hold text back (next to markers, blanks and
    the brackets that end a call). It is counted, since a host that holds nothing back would show it.
    """
    truth, mine = judged.answer.ids, judged.verdict.ids.ids
    at, edges = 0, set[int]()
    for step in judged.answer.steps:
        at += len(step.ids)
        shown = step.reasoning + step.content + "".join(delta.arguments for delta in step.calls)
        if shown and shown.encode() == _text(step.ids):
            edges.add(at)
    return any(
        k in edges and a != b and _text(truth[start:k]) not in {_text(mine[start:n]) for n in range(start, k + 1)}
        for start, k, a, b in _stretches(mine, truth)
    )


def _stretches(mine: Sequence[int], truth: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
    """For each place k within a stretch of differing ids: (begin of the stretch, k, the ids in front of k)."""
    start = 0
    for k, (a, b) in enumerate(zip(mine, truth, strict=False), 1):
        start = k if a == b else start
        yield start, k, a, b


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
        if mine is None or theirs is None:
            return False
        if mine != theirs and (all(mask for _, _, mask in stretch) or mine.strip() != theirs.strip()):
            return False  # beside a masked id white space may have been lost
    return True


def _counts(trial: Trial, deviation: Deviation) -> bool:
    """Whether a deviation changes the count, by itself or in the judge's eyes, or is a split.

    One that does not, and is accepted alone, needs no other that cancels it: then a second one has opened a door.
    """
    draw = trial.draw
    if deviation.edit == "split" or len(draw.without(deviation).ids) != len(draw.ids):
        return True
    alone = replace(trial, draw=replace(draw, deviations=(deviation,)), twist=_right_bill(trial))
    return not run(alone).verdict.accepted
