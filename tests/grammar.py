"""Draws from the format's grammar: a plain answer and, most often, one deviation. Deterministic from a `random.Random`.

Knows nothing of hosts, habits and judging.
"""

from dataclasses import replace
from random import Random

from tests import grammar_texts as texts
from tests.grammar_kinds import KINDS
from tests.grammar_parts import CA, CB, CE, END, SB, SE, TE, TH, Deviation, Draw, Part, Slots

__all__ = ["Deviation", "Draw", "draw"]

N_DEVIATIONS = (0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 3)
N_CALLS = (0, 0, 0, 1, 1, 1, 2, 3)
N_CALLS_BEFORE = (0, 0, 0, 1, 9, 120)
"""Calls of the conversation so far, from which the calls of the answer are numbered on."""


def draw(rng: Random, *, model: str, thinking: bool, samples_think: bool = False, size: int | None = None) -> Draw:
    """One draw.

    Args:
        samples_think: Whether the model opens its `<think>` itself.
        size: Fragments of each text, at most; None draws it, with long answers now and then.
    """
    slots: dict[str, Part] = {"open": TH} if samples_think else {}
    if thinking:
        slots |= {"reasoning": texts.text(rng, texts.size(rng, size)), "close": TE}
    slots["content"] = texts.text(rng, texts.size(rng, size))
    before, n_calls = rng.choice(N_CALLS_BEFORE), rng.choice(N_CALLS)
    for k in range(n_calls):
        slots |= _call(rng, k, before + k)
    slots |= ({"section_end": SE} if n_calls else {}) | {"end": END}
    if rng.random() < 0.002:
        slots = {}  # nothing sampled at all
    request = texts.request(rng, before, called=bool(n_calls))
    told = rng.random() < 0.8
    return Draw(model, thinking, slots, _deviations(rng, slots, rng.choice(N_DEVIATIONS)), request, told)


def _call(rng: Random, k: int, index: int) -> dict[str, Part]:
    return {
        **({} if k else {"section": SB}),
        f"call:{k}": CB,
        f"header:{k}": f"functions.{rng.choice(texts.TOOL_NAMES)}:{index}",
        f"middle:{k}": CA,
        f"arguments:{k}": texts.arguments(rng),
        f"call_end:{k}": CE,
    }


def _deviations(rng: Random, slots: Slots, n: int) -> tuple[Deviation, ...]:
    """Up to `n` deviations that fit, no two of one name in one slot."""
    found: dict[tuple[str, str], Deviation] = {}
    for _ in range(n if slots else 0):
        made = rng.choice(KINDS)(rng, slots)
        if made is not None:
            found.setdefault((made.slot, made.name), made)
    return tuple(found.values())


def plain(drawn: Draw) -> Draw:
    """The draw without deviations."""
    return replace(drawn, deviations=())
