"""Sequences of true ids drawn from the format's grammar, each with the deviations that it holds, by name.

A draw is a plain answer (slots with texts and control ids) and a set of deviations, each of which edits one slot and can
be left out by itself, so that a wrong verdict can be traced to the deviations that it needs. Deterministic from the
`random.Random` given. Knows nothing of hosts, habits and judging.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from random import Random
from typing import Any

from harness.encoder import encode_ordinary, load_vocab
from harness.vocab import CONTROL_IDS, N_RANKS
from tests import grammar_texts as texts

TH, TE = CONTROL_IDS["<think>"], CONTROL_IDS["</think>"]
SB, SE = CONTROL_IDS["<|tool_calls_section_begin|>"], CONTROL_IDS["<|tool_calls_section_end|>"]
CB, CA, CE = (CONTROL_IDS[f"<|tool_call_{n}|>"] for n in ("begin", "argument_begin", "end"))
END = CONTROL_IDS["<|im_end|>"]

Part = str | int
"""Text, encoded canonically with the text around it, or one id."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """One thing that the model did and the plain answer does not do.

    Attributes:
        name: What reports call it; does not tell where in a text it stands.
        slot: The slot that it edits.
        edit: "before", "after" or "inside" (parts are put there), "instead" (parts replace the slot), "split" (ids of
            the slot are cut or joined in another way; `parts` is () and `way` tells how).
        at: Where inside, as a share of the slot.
    """

    name: str
    slot: str
    edit: str
    parts: tuple[Part, ...] = ()
    at: float = 0.0
    way: str = ""


@dataclass(frozen=True, slots=True)
class Draw:
    """A plain answer, its deviations, and the request that it answers.

    Attributes:
        thinking: Whether the prompt opened a `<think>`, or the model opens one itself (`samples_think`).
        slots: Name -> text, or control id, in the order of the answer.
        told_thinking: Whether the switch is told with the answer.
    """

    model: str
    thinking: bool
    slots: Mapping[str, Part]
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


# --- slots and deviations -> ids ------------------------------------------------------------------------------------


def render(slots: Mapping[str, Part], deviations: Sequence[Deviation]) -> list[int]:
    """The ids of the slots with all deviations applied."""
    rows = {name: _edited(part, [d for d in deviations if d.slot == name]) for name, part in slots.items()}
    flat = [(name, part) for name, row in rows.items() for part in row if part != ""]
    ids: list[int] = []
    spans: dict[str, tuple[int, int]] = {}  # slot -> its ids, whole or in part
    start = 0
    while start < len(flat):
        stop = start + 1
        if isinstance(flat[start][1], str):
            while stop < len(flat) and isinstance(flat[stop][1], str):
                stop += 1
            run = encode_ordinary("".join(str(part) for _, part in flat[start:stop]))
            _note_spans(flat[start:stop], run, len(ids), spans)
            ids += run
        else:
            ids.append(int(flat[start][1]))
        start = stop
    splits = [d for d in deviations if d.edit == "split" and d.slot in spans]
    for deviation in sorted(splits, key=lambda d: spans[d.slot], reverse=True):
        first, last = spans[deviation.slot]
        ids[first:last] = resplit(ids[first:last], deviation.way, deviation.at)
    return ids


def _note_spans(run: Sequence[tuple[str, Part]], ids: Sequence[int], at: int, spans: dict[str, tuple[int, int]]) -> None:
    """Which ids hold each slot's text; of two slots in one run the ids that both touch belong to the first."""
    ends = list(accumulate(len(load_vocab().ranks[i]) for i in ids))
    done = 0
    for name, part in run:
        first = sum(end <= done for end in ends)
        done += len(str(part).encode())
        last = sum(end < done for end in ends) + 1
        taken = max((stop for start, stop in spans.values() if start >= at), default=at)
        if max(at + first, taken) < at + last:
            spans.setdefault(name, (max(at + first, taken), at + last))


def _edited(part: Part, deviations: Sequence[Deviation]) -> list[Part]:
    core: list[Part] = [part]
    for d in deviations:
        if d.edit == "instead":
            core = list(d.parts)
    for d in sorted((d for d in deviations if d.edit == "inside"), key=lambda d: d.at, reverse=True):
        core = _inserted(core, d)
    before = [p for d in deviations if d.edit == "before" for p in d.parts]
    after = [p for d in deviations if d.edit == "after" for p in d.parts]
    return [*before, *core, *after]


def _inserted(core: list[Part], deviation: Deviation) -> list[Part]:
    """Parts put into the first text of a slot. Later places come first, so that earlier ones stay where they are."""
    if not core or not isinstance(core[0], str):
        return [*core, *deviation.parts]
    cut = round(len(core[0]) * deviation.at)
    return [core[0][:cut], *deviation.parts, core[0][cut:], *core[1:]]


def resplit(ids: list[int], way: str, at: float) -> list[int]:
    """The same bytes in other ids, changed at the first place from `at` on (from the start, if none) where it can be."""
    start = int(len(ids) * at)
    for k in [*range(start, len(ids)), *range(start)]:
        made = SPLITS[way](ids, k)
        if made is not None and made != ids:
            return made
    return ids


def _cut(ids: list[int], k: int, pick: Callable[[bytes], list[int]]) -> list[int] | None:
    ranks, find = load_vocab().ranks, load_vocab().find
    token = ranks[ids[k]] if ids[k] < N_RANKS else b""
    for cut in pick(token):
        left, right = find(token[:cut]), find(token[cut:])
        if left is not None and right is not None:
            return [*ids[:k], left, right, *ids[k + 1 :]]
    return None


def _whole_characters(token: bytes) -> list[int]:
    return [c for c in range(1, len(token)) if token[c] & 0xC0 != 0x80]


def _in_characters(token: bytes) -> list[int]:
    return [c for c in range(1, len(token)) if token[c] & 0xC0 == 0x80]


def _moved(ids: list[int], k: int) -> list[int] | None:
    """Two ids with their boundary moved."""
    if k + 1 >= len(ids) or max(ids[k : k + 2]) >= N_RANKS:
        return None
    ranks, find = load_vocab().ranks, load_vocab().find
    both, was = ranks[ids[k]] + ranks[ids[k + 1]], len(ranks[ids[k]])
    for cut in _whole_characters(both):
        left, right = find(both[:cut]), find(both[cut:])
        if cut != was and left is not None and right is not None:
            return [*ids[:k], left, right, *ids[k + 2 :]]
    return None


def _joined(ids: list[int], k: int) -> list[int] | None:
    """Two or three ids as one that the canonical encoding does not choose there."""
    for n in (2, 3):
        if len(ids[k : k + n]) == n and max(ids[k : k + n]) < N_RANKS:
            found = load_vocab().find(b"".join(load_vocab().ranks[i] for i in ids[k : k + n]))
            if found is not None:
                return [*ids[:k], found, *ids[k + n :]]
    return None


SPLITS: Mapping[str, Callable[[list[int], int], list[int] | None]] = {
    "one more": lambda ids, k: _cut(ids, k, _whole_characters),
    "one more, in a character": lambda ids, k: _cut(ids, k, _in_characters),
    "as many": _moved,
    "fewer": _joined,
}


@cache
def unreachable() -> tuple[int, ...]:
    """Ids of whole characters that the canonical encoding of their own text never gives."""
    found = []
    for i, token in enumerate(load_vocab().ranks):
        try:
            if encode_ordinary(token.decode()) != [i]:
                found.append(i)
        except UnicodeDecodeError:
            continue
    return tuple(found)


# --- a draw ---------------------------------------------------------------------------------------------------------


def draw(rng: Random, *, model: str, thinking: bool, samples_think: bool = False, size: int | None = None) -> Draw:
    """One draw: a plain answer and, most often, one deviation.

    Args:
        size: Fragments of each text; None draws it, with long answers now and then.
    """
    wanted = size if size is not None else texts.size(rng)
    slots: dict[str, Part] = {"open": TH} if samples_think else {}
    if thinking:
        slots |= {"reasoning": texts.text(rng, wanted), "close": TE}
    slots["content"] = texts.text(rng, texts.size(rng) if rng.random() < 0.3 else wanted)
    history = rng.choice((0, 0, 0, 1, 9, 120))
    for k in range(rng.choice((0, 0, 0, 1, 1, 1, 2, 3))):
        slots |= {} if k else {"section": SB}
        slots |= {
            f"call:{k}": CB,
            f"header:{k}": f"functions.{rng.choice(texts.TOOL_NAMES)}:{history + k}",
            f"middle:{k}": CA,
            f"arguments:{k}": texts.arguments(rng),
            f"call_end:{k}": CE,
        }
    slots |= ({"section_end": SE} if "section" in slots else {}) | {"end": END}
    request = texts.request(rng, history, called="section" in slots)
    drawn = Draw(model, thinking, slots, (), request, told_thinking=rng.random() < 0.8)
    n = rng.choice((0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 3))
    return replace(drawn, deviations=_deviations(rng, drawn, n))


def _deviations(rng: Random, plain: Draw, n: int) -> tuple[Deviation, ...]:
    """Up to `n` deviations that fit the draw, no two of one kind in one slot."""
    found: dict[tuple[str, str, str], Deviation] = {}
    for _ in range(n):
        kind = KINDS[rng.randrange(len(KINDS))]
        made = kind(rng, plain.slots)
        if made is not None:
            found.setdefault((made.slot, made.edit, made.name), made)
    return tuple(found.values())


from tests.grammar_kinds import KINDS  # noqa: E402  (placed here for the quick version)
