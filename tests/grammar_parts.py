"""A draw: a plain answer in slots, and deviations that each edit one slot -> the true ids.

Each deviation can be left out by itself, so that a wrong verdict can be traced to those that it needs. Knows nothing of
hosts and judging, and not which deviations there are.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from typing import Any, Literal

from harness.encoder import encode_ordinary, load_vocab
from harness.vocab import CONTROL_IDS
from tests.grammar_splits import resplit

TH, TE = CONTROL_IDS["<think>"], CONTROL_IDS["</think>"]
SB, SE = CONTROL_IDS["<|tool_calls_section_begin|>"], CONTROL_IDS["<|tool_calls_section_end|>"]
CB, CA, CE = (CONTROL_IDS[f"<|tool_call_{n}|>"] for n in ("begin", "argument_begin", "end"))
END = CONTROL_IDS["<|im_end|>"]

Part = str | int
"""Text, encoded canonically with the text around it, or one id."""
Slots = Mapping[str, Part]
"""Name -> text or control id, in the order of the answer; "header:1" is the header of the second call."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One thing that the model did and the plain answer does not do.

    Attributes:
        name: What reports call it; does not tell where in a text it stands.
        edit: `parts` are put before, after or inside the slot, or stand instead of it; or the slot's ids are split in
            another way, named by `way`.
        at: Where inside, as a share of the slot.
    """

    name: str
    slot: str
    edit: Literal["before", "after", "inside", "instead", "split"]
    parts: tuple[Part, ...] = ()
    at: float = 0.0
    way: str = ""


@dataclass(frozen=True, slots=True)
class Draw:
    """A plain answer, its deviations, and the request that it answers.

    Attributes:
        thinking: Whether the prompt opens a `<think>`, or the model does.
        told_thinking: Whether the switch is told with the answer.
    """

    model: str
    thinking: bool
    slots: Slots
    deviations: tuple[Deviation, ...] = ()
    request: Mapping[str, Any] = field(default_factory=dict)
    told_thinking: bool = True

    @property
    def ids(self) -> list[int]:
        """The true ids, if nothing ends the answer early."""
        return render(self.slots, self.deviations)

    def without(self, deviation: Deviation) -> "Draw":
        """The same draw without one of its deviations."""
        return replace(self, deviations=tuple(d for d in self.deviations if d is not deviation))


def render(slots: Slots, deviations: Sequence[Deviation]) -> list[int]:
    """The ids of the slots with all deviations applied. Neighbouring texts are encoded as one."""
    placed = [(name, part) for name, plain in slots.items() for part in _edited(name, plain, deviations) if part != ""]
    ids: list[int] = []
    spans: dict[str, tuple[int, int]] = {}  # slot -> its ids, those of its first text
    for is_text, run in groupby(placed, lambda row: isinstance(row[1], str)):
        if is_text:
            ids += _encoded([(name, str(text)) for name, text in run], len(ids), spans)
        else:
            ids += [int(part) for _, part in run]
    for slot, (first, last) in sorted(spans.items(), key=lambda row: row[1], reverse=True):
        for d in deviations:
            if (d.edit, d.slot) == ("split", slot):
                made = resplit(ids[first:last], d.way, d.at)
                ids[first:last], last = made, first + len(made)
    return ids


def _encoded(run: Sequence[tuple[str, str]], at: int, spans: dict[str, tuple[int, int]]) -> list[int]:
    """The canonical ids of a run of texts; an id belongs to the slot in which it begins."""
    ids = encode_ordinary("".join(text for _, text in run))
    ranks = load_vocab().ranks
    starts = list(accumulate((len(ranks[i]) for i in ids), initial=0))[:-1]
    done = 0
    for name, text in run:
        first, done = bisect_left(starts, done), done + len(text.encode())
        spans.setdefault(name, (at + first, at + bisect_left(starts, done)))
    return ids


def _edited(name: str, plain: Part, deviations: Sequence[Deviation]) -> list[Part]:
    mine = [d for d in deviations if d.slot == name]
    core: list[Part] = [plain]
    for d in mine:
        core = list(d.parts) if d.edit == "instead" else core
    for d in sorted((d for d in mine if d.edit == "inside"), key=lambda d: d.at, reverse=True):
        core = _inserted(core, d)
    before = [part for d in mine if d.edit == "before" for part in d.parts]
    return [*before, *core, *(part for d in mine if d.edit == "after" for part in d.parts)]


def _inserted(core: list[Part], deviation: Deviation) -> list[Part]:
    """Parts put into the first text of a slot; later places come first, so that earlier ones stay where they are."""
    if not core or not isinstance(core[0], str):
        return [*core, *deviation.parts]
    cut = round(len(core[0]) * deviation.at)
    return [core[0][:cut], *deviation.parts, core[0][cut:], *core[1:]]
