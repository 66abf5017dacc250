"""Turn + format + traits -> readings: every way in which the answer can have been sampled, fewest assumptions first.

Traits that are unknown give a reading each, all of rank 0. What the model may have done once in a while has rank 1, at
most one such thing a reading, and a witness of its own. Knows nothing of ids and counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import Literal

from harness.calls import Option, is_open, sections
from harness.errors import HarnessError
from harness.formats import Format
from harness.types import Reading, Segment, Turn
from harness.vocab import CONTROL_IDS, control_pattern

MAX_READINGS = 512
MAX_FREE_MARKERS = 6  # distinct marker names that may each be control or text; more are all one or all the other
SECTION = "<|tool_calls_section_begin|>"
HINTS = ("<|", "think>", "[BOS]", "[EOS]", "[EOT]", "[UNK]", "[PAD]")


class SearchBound(HarnessError):
    """More readings than MAX_READINGS: no verdict by listing them."""


def marker_names(text: str) -> list[str]:
    """Names of control tokens that stand in a text, in order, doubles kept."""
    if not any(hint in text for hint in HINTS):
        return []
    return control_pattern().findall(text)


def readings(
    turn: Turn, fmt: Format, mode: bool, traits: Mapping[str, str], *, rare: bool = False
) -> tuple[Reading, ...]:
    """The readings of an answer in one mode (thinking on or off): rank 0, or, with `rare`, rank 1.

    Raises:
        SearchBound: There are more than MAX_READINGS.
    """
    out: dict[tuple[Segment, ...], Reading] = {}
    places = [_talk(turn, fmt, mode, traits, rare), _calls(turn, fmt, traits, rare), _ending(turn, fmt, traits)]
    for reading in _combined(places, mode, fmt):
        if reading.rank != int(rare):
            continue
        for variant in _spaced(reading, fmt, traits):
            out.setdefault(variant.segments, variant)
            if len(out) > MAX_READINGS:
                raise SearchBound(f"more than {MAX_READINGS} readings")
    return tuple(out.values())


def modes(turn: Turn, fmt: Format, thinking: bool | None) -> tuple[bool, ...]:
    """Thinking on or off: what was asked, else what the text shows, else each mode that the format has."""
    if len(fmt.thinking_modes) == 1:
        return fmt.thinking_modes
    if thinking is not None:
        return (thinking,)
    return (True,) if turn.reasoning else fmt.thinking_modes


def _combined(places: list[list[Option]], mode: bool, fmt: Format) -> Iterator[Reading]:
    opening = (Segment(control=fmt.think_open),) if mode and fmt.think == "sampled" else ()
    rows = [Option(opening)]
    for place in places:
        rows = [a + b for a in rows for b in place if a.rank + b.rank <= 1]
        if len(rows) > MAX_READINGS:
            raise SearchBound(f"more than {MAX_READINGS} readings")
    for row in rows:
        yield Reading(row.segments, row.rank, row.assumptions, row.own_witness, row.rival)


# --- reasoning and content ------------------------------------------------------------------------------------------


def _talk(turn: Turn, fmt: Format, mode: bool, traits: Mapping[str, str], rare: bool) -> list[Option]:
    after = _content(turn.content, fmt, traits, rare)
    if _merged(turn, traits):
        after = [replace(o, segments=tuple(replace(s, inferred=True) for s in o.segments)) for o in after]
    if not mode:
        return after
    before = _thought(turn, fmt, traits, rare)
    rows = [a + b for a in before for b in after if a.rank + b.rank <= 1]
    close = Segment(control=fmt.think_close)
    rows = [r for r in rows if "close-in-content" not in r.assumptions or close in r.segments]
    if turn.reasoning and "</think>" in turn.content:
        rows += _literal_close(turn, fmt, traits, rare)
    return rows


def _merged(turn: Turn, traits: Mapping[str, str]) -> bool:
    """Whether content before the calls may have been sampled within their section: this stack merges the two."""
    return bool(turn.tool_calls and turn.content) and traits.get("section_text") == "merged"


def _thought(turn: Turn, fmt: Format, traits: Mapping[str, str], rare: bool) -> list[Option]:
    close = Option((Segment(control=fmt.think_close),))
    if not turn.reasoning:
        rows = [close + Option((), ("empty-reasoning",))]
        if "</think>" in turn.content:
            rows.append(Option((), ("close-in-content",)))
        if rare and traits.get("reasoning_end") == "lost":
            blank = Segment(text="\n\n", inferred=True, channel="reasoning")
            rows.append(Option((blank,), ("blank-reasoning",), 1, ("reasoning_tokens",)) + close)
        return rows
    bare = not turn.content and not turn.tool_calls
    rows = []
    for text in _marked(turn.reasoning, "reasoning", fmt, traits, rare):
        rows.append(_closed(text, turn, bare, fmt))
        if rare and text.rank == 0 and (turn.tool_calls or bare):
            rows.append(text + Option((), ("close-skipped",), 1, ("reasoning_tokens",)))
        if rare and text.rank == 0 and (traits.get("swallows_think"), traits.get("control_ids")) == ("yes", "shown"):
            # a split or another swallowed id would look the same: the reasoning must have been seen id by id
            again = Option((Segment(control=fmt.think_open),), ("think-again",), 1, ("reasoning_tokens", "singly"))
            rows.append(again + _closed(text, turn, bare, fmt))
    return rows


def _closed(text: Option, turn: Turn, bare: bool, fmt: Format) -> Option:
    """Reasoning and its end: `</think>`, or what stands for it where nothing but reasoning came.

    Of a cut answer only what came is believed: what is hidden behind it could be anything.
    """
    if bare and turn.finish_reason == "length":
        return text + Option((), ("cut-in-reasoning",))
    if bare and any(s.control == fmt.section_begin for s in text.segments):
        return text + Option((), ("section-in-reasoning",))
    return text + Option((Segment(control=fmt.think_close),))


def _content(content: str, fmt: Format, traits: Mapping[str, str], rare: bool) -> list[Option]:
    return _marked(content, "content", fmt, traits, rare) if content else [Option(())]


def _literal_close(turn: Turn, fmt: Format, traits: Mapping[str, str], rare: bool) -> list[Option]:
    """The stack took a `</think>` that the model spelled in reasoning for the real one, which stands in content."""
    head, _, tail = turn.content.partition("</think>")
    close = Option((Segment(control=fmt.think_close),), ("first-close-spelled",))
    before = _marked(f"{turn.reasoning}</think>{head}", "reasoning", fmt, traits, rare, literal=("</think>",))
    after = _content(tail, fmt, traits, rare)
    return [a + close + b for a in before for b in after if a.rank + b.rank <= 1]


def _marked(
    text: str, channel: str, fmt: Format, traits: Mapping[str, str], rare: bool, literal: tuple[str, ...] = ()
) -> list[Option]:
    """A text with its markers as control ids, or, rarer, some of them spelled in ordinary ids.

    Spelled ones can have the very count of control ids (`4.</think>The` does), so without `rare` they are listed too,
    as rivals.
    """
    names = marker_names(text)
    if not names:
        return [Option((_edge(Segment(text=text, channel=channel), fmt, traits, first=True, last=True),))]
    forced = {n for n in names if CONTROL_IDS[n] == fmt.terminator or n in literal}  # a real terminator ends the turn
    if traits.get("raw_sections") == "never":
        forced |= {n for n in names if fmt.markers.get(n) not in (None, fmt.think_open, fmt.think_close)}
    free = sorted(set(names) - forced)
    sizes = range(len(free) + 1) if len(free) <= MAX_FREE_MARKERS else (0, len(free))
    options = []
    for size in sizes:
        for spelled in combinations(free, size):
            told = (*(("markers-as-control",) if len(spelled) < len(free) else ()), *(f"spelled {n}" for n in spelled))
            segments = _split(text, channel, forced | set(spelled), fmt, traits)
            rank = int(size > 0 and rare)
            rival: Literal["", "spelled"] = "spelled" if size and not rare else ""
            options.append(Option(segments, told, rank, ("no-rival",) if rank else (), rival))
    return options


def _split(text: str, channel: str, spelled: set[str], fmt: Format, traits: Mapping[str, str]) -> tuple[Segment, ...]:
    row: list[Segment] = []
    start = 0
    for match in control_pattern().finditer(text):
        if match[0] in spelled:
            continue
        if match.start() > start:
            row.append(Segment(text=text[start : match.start()], channel=channel))
        row.append(Segment(control=CONTROL_IDS[match[0]], channel=channel))
        start = match.end()
    if start < len(text):
        row.append(Segment(text=text[start:], channel=channel))
    last = len(row) - 1
    return tuple(_edge(s, fmt, traits, first=k == 0, last=k == last) for k, s in enumerate(row))


def _edge(segment: Segment, fmt: Format, traits: Mapping[str, str], *, first: bool, last: bool) -> Segment:
    if segment.control >= 0:
        return segment
    lead = first and is_open(f"{segment.channel}_start", fmt, traits)
    trail = last and is_open(f"{segment.channel}_end", fmt, traits)
    return replace(segment, lead=lead, trail=trail) if lead or trail else segment


# --- tool calls and the end -----------------------------------------------------------------------------------------


def _calls(turn: Turn, fmt: Format, traits: Mapping[str, str], rare: bool) -> list[Option]:
    if not turn.tool_calls:
        return [Option(())]
    return sections(turn.tool_calls, fmt, traits, rare=rare, open_begin=_merged(turn, traits))


def _ending(turn: Turn, fmt: Format, traits: Mapping[str, str]) -> list[Option]:
    """The terminator: sampled, not sampled, or, where nobody knows, an id that is context only."""
    if turn.finish_reason == "length":
        return [Option((), ("cut",))]
    sampled = traits.get("terminator_sampled")
    section = turn.tool_calls or any(SECTION in text for text in (turn.content, turn.reasoning))
    if sampled is None and (traits.get("terminator_billed") == "yes" or not section):
        sampled = (
            "yes"  # billed, or a text that stopped by itself: some hosts stop at a section's end, none at a text's
        )
    if sampled == "no":
        return [Option((), ("terminator-not-sampled",))]
    if sampled == "yes":
        return [Option((Segment(control=fmt.terminator),))]
    return [Option((Segment(control=fmt.terminator, inferred=True),), ("terminator-inferred",))]


# --- the detokenizer's spaces ---------------------------------------------------------------------------------------


def _spaced(reading: Reading, fmt: Format, traits: Mapping[str, str]) -> list[Reading]:
    """The reading, and the same without the one space that some detokenizers put at each side of a control id."""
    trait = traits.get("spaces")
    if trait == "none":
        return [reading]
    row = reading.segments
    last = len(row) - 1 - (row[-1:] == (Segment(control=fmt.terminator),))  # no space before an end that never came
    bare = tuple(_unspaced(segment, trail=k < last) for k, segment in enumerate(row))
    if bare == row:
        return [reading]
    without = replace(reading, segments=bare, assumptions=(*reading.assumptions, "detokenizer-spaces"))
    return [without] if trait == "inserted" else [reading, without]


def _unspaced(segment: Segment, *, trail: bool) -> Segment:
    if segment.control >= 0 or not segment.text or segment.text.isspace():
        return segment
    text = segment.text.removeprefix(" ")
    text = text.removesuffix(" ") if trail else text
    return replace(segment, text=text) if text != segment.text else segment
