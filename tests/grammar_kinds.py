"""The kinds of deviation that a draw can hold: (rng, slots of the plain answer) -> Deviation; None where none fits."""

from collections.abc import Callable
from random import Random
from typing import Literal

from harness.encoder import load_vocab
from harness.vocab import CONTROL_IDS
from tests import grammar_texts as texts
from tests.grammar_arguments import restyled
from tests.grammar_parts import CA, CB, CE, END, SB, SE, TE, TH, Deviation, Part, Slots
from tests.grammar_splits import SPLITS, unreachable

Kind = Callable[[Random, Slots], Deviation | None]

BLANKS = (
    *(" ", "\n", "\n\n", "\n\n\n", "\n\n\n\n", "  ", "    ", "\t", "\r\n", " \n", "\n ", "\n    "),
    *("\u3000", "\u00a0", "\u2028", "\x0b", "\x85"),
)
STRUCTURE = ("</think>", "<think>", "<|im_end|>", *(m for m in texts.MARKERS if "tool" in m))
MARKERS = (TH, TE, SB, SE, CB, CA, CE)
OTHER_CONTROLS = [CONTROL_IDS[name] for name in texts.MARKERS if CONTROL_IDS[name] not in (*MARKERS, END)] + [163600]
BROKEN = (b"\xff", b"\x80", b"\xe4", b"\xf0\x9f", b"\xc3", b"\xe4\xbd")
TEXTS = ("reasoning", "content", "arguments:", "header:")
EDGES = ("reasoning", "content", "arguments:")


def _slot(rng: Random, slots: Slots, *prefixes: str) -> str | None:
    found = [name for name in slots if name.startswith(prefixes)]
    return rng.choice(found) if found else None


def _kind_of(slot: str) -> str:
    return slot.partition(":")[0]


def _inside(rng: Random, slots: Slots, what: str, part: Part, prefixes: tuple[str, ...]) -> Deviation | None:
    """A part at an edge of a text, or anywhere in it."""
    slot = _slot(rng, slots, *prefixes)
    at = rng.choice((0.0, 1.0, rng.random()))
    return Deviation(f"{what} in {_kind_of(slot)}", slot, "inside", (part,), at) if slot else None


def blank(rng: Random, slots: Slots) -> Deviation | None:
    """White space at an edge of a text, between markers, behind the section."""
    slot = _slot(rng, slots, *(EDGES if rng.random() < 0.5 else ("",)))
    edit: Literal["before", "after"] = "before" if slot == "end" or rng.random() < 0.5 else "after"
    return Deviation(f"blank {edit} {_kind_of(slot)}", slot, edit, (rng.choice(BLANKS),)) if slot else None


def only_blank(rng: Random, slots: Slots) -> Deviation | None:
    """Nothing but white space for a text."""
    slot = _slot(rng, slots, "reasoning", "content")
    return Deviation(f"only blanks for {slot}", slot, "instead", (rng.choice(BLANKS),)) if slot else None


def spelled(rng: Random, slots: Slots) -> Deviation | None:
    """A marker spelled in ordinary ids."""
    literal = rng.choice(STRUCTURE if rng.random() < 0.7 else texts.MARKERS)
    return _inside(rng, slots, f"spelled {literal}", literal, TEXTS)


def spelled_section(rng: Random, slots: Slots) -> Deviation | None:
    """A whole section spelled in ordinary ids, as prose that explains the format does."""
    header = f"functions.{rng.choice(texts.TOOL_NAMES)}:0"
    call = f"<|tool_call_begin|>{header}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    whole = f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"
    return _inside(rng, slots, "spelled section", whole, ("reasoning", "content"))


def marker(rng: Random, slots: Slots) -> Deviation | None:
    """A real marker where the grammar has none."""
    made = rng.choice(MARKERS)
    return _inside(rng, slots, f"stray {load_vocab().control_name(made)}", made, TEXTS)


def control(rng: Random, slots: Slots) -> Deviation | None:
    """Another control id in a text, or between markers."""
    made = rng.choice(OTHER_CONTROLS)
    slot = _slot(rng, slots, "section", "call", "middle:") if rng.random() < 0.3 else None
    if slot is None:
        return _inside(rng, slots, "control id", made, TEXTS)
    return Deviation(f"control id after {_kind_of(slot)}", slot, "after", (made,))


def held_back(rng: Random, slots: Slots) -> Deviation | None:
    """A text that ends like a marker."""
    slot = _slot(rng, slots, "reasoning", "content")
    return Deviation(f"ends like a marker: {slot}", slot, "after", (rng.choice(("<", "</", "<|")),)) if slot else None


def lost_bytes(rng: Random, slots: Slots) -> Deviation | None:
    """An id whose bytes are no UTF-8."""
    made = load_vocab().find(rng.choice(BROKEN))
    return None if made is None else _inside(rng, slots, "invalid bytes", made, EDGES)


def odd_id(rng: Random, slots: Slots) -> Deviation | None:
    """An id that the canonical encoding never gives."""
    return _inside(rng, slots, "unreachable id", rng.choice(unreachable()), EDGES)


def split(rng: Random, slots: Slots) -> Deviation | None:
    """The same text in other ids."""
    slot, way = _slot(rng, slots, *TEXTS), rng.choice(list(SPLITS))
    return Deviation(f"split: {way} in {_kind_of(slot)}", slot, "split", (), rng.random(), way) if slot else None


def dropped(rng: Random, slots: Slots) -> Deviation | None:
    """A marker that the grammar wants, not sampled; `</think>` most often."""
    every = ("section", "call", "middle:", "close")
    slot = _slot(rng, slots, "close") if rng.random() < 0.4 else _slot(rng, slots, *every)
    return Deviation(f"no {_kind_of(slot)}", slot, "instead") if slot else None


def doubled(rng: Random, slots: Slots) -> Deviation | None:
    """A marker twice."""
    slot = _slot(rng, slots, "section", "call", "middle:", "close", "open")
    return Deviation(f"two {_kind_of(slot)}", slot, "after", (slots[slot],)) if slot else None


def think_again(rng: Random, slots: Slots) -> Deviation | None:
    """`<think>` at the start, though it stands in the prompt or was sampled."""
    slot = _slot(rng, slots, "reasoning")
    return Deviation("<think> again", slot, "before", (TH,) * rng.choice((1, 1, 2))) if slot else None


def thinks_though_off(rng: Random, slots: Slots) -> Deviation | None:
    """Text and `</think>` in front of the content where no thinking was asked for."""
    return (
        None if "reasoning" in slots else Deviation("thinks though off", "content", "before", (texts.text(rng, 3), TE))
    )


def loose_text(rng: Random, slots: Slots) -> Deviation | None:
    """Text within the section, or behind it."""
    slot = _slot(rng, slots, "section", "call_end:")
    made = texts.text(rng, rng.choice((1, 1, 2, 4))) or "x"
    return Deviation(f"text after {_kind_of(slot)}", slot, "after", (made,)) if slot else None


def second_section(rng: Random, slots: Slots) -> Deviation | None:
    """The section ends and begins again behind a call, with or without text between, with or without a call in it."""
    slot = _slot(rng, slots, "call_end:")
    if slot is None:
        return None
    last = f"call_end:{int(slot.partition(':')[2]) + 1}" not in slots
    again = rng.choice(((), _call(rng, "9"))) if last else ()
    name = "second section" if not last else "second section with a call" if again else "second section, empty"
    between = rng.choice(("", "", " ", "\n", "And now. ", "mid"))
    return Deviation(name, slot, "after", (SE, between, SB, *again))


def _call(rng: Random, index: str) -> tuple[Part, ...]:
    return CB, f"functions.{rng.choice(texts.TOOL_NAMES)}:{index}", CA, texts.arguments(rng), CE


def empty_section(rng: Random, slots: Slots) -> Deviation | None:
    """A section without a call."""
    slot = _slot(rng, slots, "content", "reasoning", "section_end")
    return Deviation(f"empty section after {slot}", slot, "after", (SB, SE)) if slot else None


def call_in_reasoning(rng: Random, slots: Slots) -> Deviation | None:
    """A section within the reasoning; not where nothing follows `</think>`: that is two, no close and a stray one."""
    if "reasoning" not in slots or not (slots["content"] or "section" in slots):
        return None
    where = rng.choice((0.5, 1.0))
    return Deviation("call inside reasoning", "reasoning", "inside", (SB, *_call(rng, "0"), SE), where)


HEADERS = {
    "without prefix": "{name}:{index}",
    "without index": "functions.{name}",
    "bare name": "{name}",
    "bare index": "{index}",
    "index off": "functions.{name}:{other}",
    "index with zeros": "functions.{name}:0{index}",
    "two prefixes": "functions.functions.{name}:{index}",
    "other prefix": "function.{name}:{index}",
    "capital prefix": "Functions.{name}:{index}",
    "underscored": "{name}_{index}",
    "empty": "",
    "minted": "call_00_a8Xk",
    "spaced": "functions.{name} : {index}",
    "two indices": "functions.{name}:{index}:{index}",
    "tail": "functions.{name}:{index}x",
    "unknown name": "functions.nope:{index}",
    "brace": "functions.{name}:{index}{{",
}


def header(rng: Random, slots: Slots) -> Deviation | None:
    """Another header than functions.NAME:IDX with the right IDX."""
    slot = _slot(rng, slots, "header:")
    if slot is None:
        return None
    name, _, index = str(slots[slot]).removeprefix("functions.").rpartition(":")
    way = rng.choice(list(HEADERS))
    other = int(index) + rng.choice((1, 7, 100, 1000))
    return Deviation(f"header {way}", slot, "instead", (HEADERS[way].format(name=name, index=index, other=other),))


def other_arguments(rng: Random, slots: Slots) -> Deviation | None:
    """Arguments in another style, of other types, broken, or none."""
    slot = _slot(rng, slots, "arguments:")
    if slot is None:
        return None
    way, made = restyled(rng, str(slots[slot]))
    return Deviation(f"arguments {way}", slot, "instead", (made,)) if made != slots[slot] else None


KINDS: tuple[Kind, ...] = (
    *(
        blank,
        blank,
        blank,
        only_blank,
        spelled,
        spelled,
        spelled_section,
        marker,
        marker,
        control,
        lost_bytes,
        odd_id,
        held_back,
    ),
    *(split, split, split, dropped, dropped, doubled, think_again, thinks_though_off, loose_text, loose_text),
    *(
        second_section,
        second_section,
        empty_section,
        call_in_reasoning,
        header,
        header,
        other_arguments,
        other_arguments,
    ),
)
"""A kind that stands here twice is drawn twice as often."""
