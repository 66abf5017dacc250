"""The kinds of deviation that a draw can hold: (rng, slots of the plain answer) -> Deviation, or None where none fits."""

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from harness.vocab import CONTROL_IDS
from tests import grammar, grammar_texts as texts
from tests.grammar import CA, CB, CE, END, SB, SE, TE, TH, Deviation, Part

Slots = Mapping[str, Part]
Kind = Callable[[Random, Slots], Deviation | None]

BLANKS = (" ", "\n", "\n\n", "  ", "\t", "\r\n", "\n\n\n", " \n", "\n ", "\u3000", "\u00a0", "\u2028", "\x0b", "\x85", "\n\n\n\n", "    ", "\n    ")
OTHERS = [CONTROL_IDS[n] for n in ("[BOS]", "[EOS]", "[EOT]", "[UNK]", "[PAD]", "<|im_user|>", "<|im_assistant|>", "<|im_system|>", "<|im_middle|>", "<|media_begin|>", "<|media_pad|>", "<|start_header_id|>", "<|reserved_token_163600|>")]
MARKS = [TH, TE, SB, SE, CB, CA, CE]


def _pick(rng: Random, slots: Slots, *prefixes: str) -> str | None:
    found = [name for name in slots if name.startswith(prefixes)]
    return rng.choice(found) if found else None


def _base(slot: str) -> str:
    return slot.partition(":")[0]


def blank(rng: Random, slots: Slots) -> Deviation | None:
    """White space at an edge of a text, between markers, or behind the section."""
    slot = rng.choice(list(slots))
    edit = rng.choice(("before", "after"))
    if slot == "end":
        edit = "before"
    return Deviation(f"blank {edit} {_base(slot)}", slot, edit, (rng.choice(BLANKS),))


def edge_blank(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "reasoning", "content", "arguments")
    edit = rng.choice(("before", "after"))
    return slot and Deviation(f"blank {edit} {_base(slot)}", slot, edit, (rng.choice(BLANKS),)) or None


def only_blank(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "reasoning", "content")
    return slot and Deviation(f"only blanks for {slot}", slot, "instead", (rng.choice(BLANKS),)) or None


def spelled(rng: Random, slots: Slots) -> Deviation | None:
    """A marker spelled in ordinary ids."""
    slot = _pick(rng, slots, "reasoning", "content", "arguments", "header")
    marker = rng.choice(texts.MARKERS[:]) if rng.random() < 0.3 else rng.choice(("</think>", "<think>", "<|im_end|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"))
    return slot and Deviation(f"spelled {marker} in {_base(slot)}", slot, "inside", (marker,), rng.choice((0.0, 1.0, rng.random()))) or None


def spelled_section(rng: Random, slots: Slots) -> Deviation | None:
    """A whole call spelled in ordinary ids, as prose that explains the format does."""
    slot = _pick(rng, slots, "reasoning", "content")
    call = f"<|tool_call_begin|>functions.{rng.choice(texts.TOOL_NAMES)}:0<|tool_call_argument_begin|>{{}}<|tool_call_end|>"
    whole = f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"
    return slot and Deviation(f"spelled section in {slot}", slot, "inside", (whole,), rng.random()) or None


def control(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "reasoning", "content", "arguments", "header", "section", "call", "section_end")
    made = rng.choice(OTHERS)
    if isinstance(slots.get(slot or ""), int):
        return Deviation(f"control id after {_base(slot or '')}", slot or "", "after", (made,))
    return slot and Deviation(f"control id in {_base(slot)}", slot, "inside", (made,), rng.choice((0.0, 1.0, rng.random()))) or None


def marker(rng: Random, slots: Slots) -> Deviation | None:
    """A real marker where the grammar has none."""
    slot = _pick(rng, slots, "reasoning", "content", "arguments", "header")
    made = rng.choice(MARKS)
    name = grammar.load_vocab().control_name(made)
    return slot and Deviation(f"stray {name} in {_base(slot)}", slot, "inside", (made,), rng.choice((0.0, 1.0, rng.random()))) or None


def dropped(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "close", "section", "section_end", "call:", "middle:", "call_end:")
    return slot and Deviation(f"no {_base(slot)}", slot, "instead", ()) or None


def doubled(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "close", "section", "section_end", "call:", "middle:", "call_end:", "open")
    return slot and Deviation(f"two {_base(slot)}", slot, "after", (slots[slot],)) or None


def no_close(rng: Random, slots: Slots) -> Deviation | None:
    return Deviation("no close", "close", "instead", ()) if "close" in slots else None


def think_again(rng: Random, slots: Slots) -> Deviation | None:
    return Deviation("<think> again", "reasoning", "before", (TH,) * rng.choice((1, 1, 2))) if "reasoning" in slots else None


def think_off(rng: Random, slots: Slots) -> Deviation | None:
    """Thinking though it is off: text and `</think>` in front of the content."""
    if "reasoning" in slots:
        return None
    return Deviation("thinks though off", "content", "before", (texts.text(rng, 3), TE))


def reopened(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "call_end:")
    if slot is None:
        return None
    between = rng.choice(("", "", " ", "\n", "And now. ", "mid"))
    last = f"call_end:{int(slot.partition(':')[2]) + 1}" not in slots
    if last:
        again = (CB, f"functions.{rng.choice(texts.TOOL_NAMES)}:9", CA, "{}", CE) if rng.random() < 0.5 else ()
        return Deviation("second section" + (" with a call" if again else ", empty"), slot, "after", (SE, between, SB, *again))
    return Deviation("second section", slot, "after", (SE, between, SB))


def loose_text(rng: Random, slots: Slots) -> Deviation | None:
    """Text in front of a call, behind one, behind the section."""
    slot = _pick(rng, slots, "section", "call_end:", "section_end")
    return slot and Deviation(f"text after {_base(slot)}", slot, "after", (texts.text(rng, rng.choice((1, 1, 2, 4))) or "x",)) or None


def empty_section(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "content", "reasoning", "section_end")
    return slot and Deviation(f"empty section after {_base(slot)}", slot, "after", (SB, SE)) or None


def header(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "header:")
    if slot is None:
        return None
    was = str(slots[slot])
    name, _, index = was.removeprefix("functions.").rpartition(":")
    way, made = rng.choice((
        ("without prefix", f"{name}:{index}"), ("without index", f"functions.{name}"), ("bare name", name), ("bare index", index),
        ("index off", f"functions.{name}:{int(index) + rng.choice((1, 7, 100, 1000))}"), ("index with zeros", f"functions.{name}:0{index}"),
        ("double prefix", f"functions.functions.{name}:{index}"), ("other prefix", f"function.{name}:{index}"), ("underscored", f"{name}_{index}"),
        ("empty", ""), ("call id", "call_00_a8Xk"), ("spaced", f"functions.{name} : {index}"), ("two indices", f"functions.{name}:{index}:{index}"),
        ("Prefix", f"Functions.{name}:{index}"), ("tail", f"functions.{name}:{index}x"), ("unknown name", f"functions.nope:{index}"), ("with arguments", f"functions.{name}:{index}{{")
    ))
    return Deviation(f"header {way}", slot, "instead", (made,))


def _restyled(was: str, rng: Random) -> tuple[str, str]:
    parsed = json.loads(was)
    ways: dict[str, Callable[[], str]] = {
        "compact": lambda: json.dumps(parsed, ensure_ascii=False, separators=(",", ":")),
        "indented": lambda: json.dumps(parsed, ensure_ascii=False, indent=rng.choice((2, 4))),
        "escaped": lambda: json.dumps(parsed).replace("/", "\\/"),
        "half compact": lambda: json.dumps(parsed, ensure_ascii=False, separators=rng.choice(((", ", ":"), (",", ": ")))),
        "padded": lambda: was.replace("{", "{ ").replace("}", " }"),
        "number for text": lambda: json.dumps(parsed | {"path": rng.choice((1, True, None, 2.5, {}, []))}, ensure_ascii=False),
        "text for number": lambda: json.dumps(parsed | rng.choice(({"n": "7"}, {"ok": "true"}, {"x": "0.5"}, {"n": "7", "ok": "false"}, {"options": '{"a": 1}'}))),
        "float for integer": lambda: json.dumps(parsed | rng.choice(({"n": 7.0}, {"x": 1.0}, {"x": 3}))),
        "exponent": lambda: was[:-1] + (", " if parsed else "") + '"x": 1e5}',
        "doubled key": lambda: was[:-1] + (", " if parsed else "") + '"n": 1, "n": 2}',
        "undeclared key": lambda: json.dumps(parsed | {"z": rng.choice((1, "y", None))}, ensure_ascii=False),
        "no object": lambda: rng.choice(('"text"', "7", "[1]", "null", "true", "hello", "[]", '[{"n": 1}]')),
        "broken": lambda: rng.choice((was[:-1], was + "}", was[:-1] + ",}", "{'n': 1}", '{"n": }', was + was, "{n: 1}", was + " ok", "x" + was)),
        "empty": lambda: "",
        "only blanks": lambda: rng.choice((" ", "\n")),
        "named inside": lambda: json.dumps({"name": "run", "arguments": parsed}),
    }
    name = rng.choice(list(ways))
    return name, ways[name]()


def other_arguments(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "arguments:")
    if slot is None:
        return None
    name, made = _restyled(str(slots[slot]), rng)
    return Deviation(f"arguments {name}", slot, "instead", (made,)) if made != slots[slot] else None


def call_in_reasoning(rng: Random, slots: Slots) -> Deviation | None:
    """A section within the reasoning. Not where nothing follows `</think>`: there it is two, no close and a stray one."""
    if "reasoning" not in slots or not (slots["content"] or "section" in slots):
        return None
    call = (SB, CB, f"functions.{rng.choice(texts.TOOL_NAMES)}:0", CA, texts.arguments(rng), CE, SE)
    return Deviation("call inside reasoning", "reasoning", rng.choice(("after", "inside")), call, 0.5)


def lost_bytes(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "reasoning", "content", "arguments")
    made = grammar.load_vocab().find(rng.choice((b"\xff", b"\x80", b"\xe4", b"\xf0\x9f", b"\xc3", b"\xe4\xbd")))
    return slot and made is not None and Deviation(f"invalid bytes in {_base(slot)}", slot, "inside", (made,), rng.choice((1.0, 0.0, rng.random()))) or None


def split(rng: Random, slots: Slots) -> Deviation | None:
    slot = _pick(rng, slots, "reasoning", "content", "arguments", "header")
    way = rng.choice(list(grammar.SPLITS))
    return slot and Deviation(f"split: {way} in {_base(slot)}", slot, "split", (), rng.random(), way) or None


def odd_token(rng: Random, slots: Slots) -> Deviation | None:
    """An id that the canonical encoding never gives."""
    slot = _pick(rng, slots, "reasoning", "content", "arguments")
    return slot and Deviation(f"unreachable id in {_base(slot)}", slot, "inside", (rng.choice(grammar.unreachable()),), rng.random()) or None


KINDS: tuple[Kind, ...] = (
    blank, edge_blank, edge_blank, only_blank, spelled, spelled, spelled_section, control, marker, marker, dropped, doubled, no_close, think_again,
    think_off, reopened, reopened, loose_text, loose_text, empty_section, header, header, other_arguments, other_arguments, call_in_reasoning, lost_bytes,
    split, split, split, odd_token,
)
