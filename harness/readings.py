"""Turn + format + traits -> readings: every way in which the answer can have been sampled.

Traits that are unknown give a reading each, all of rank 0. What the model may have done once in a while has rank 1, at
most one such thing a reading, and a witness of its own. Knows nothing of ids and counts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from harness.calls import NOTHING, Option, sections
from harness.errors import HarnessError
from harness.formats import Format
from harness.markers import marked, marker_names
from harness.types import Reading, Segment, Turn

MAX_READINGS = 512
MAX_MARKERS = 128  # names of control ids in the texts of one answer: each is a reading more


class SearchBound(HarnessError):
    """More readings than MAX_READINGS: no verdict by listing them."""


def readings(
    turn: Turn, fmt: Format, mode: bool, traits: Mapping[str, str], *, rare: bool = False
) -> tuple[Reading, ...]:
    """The readings of an answer in one mode (thinking on or off): rank 0, or, with `rare`, rank 1.

    Raises:
        SearchBound: There are more than MAX_READINGS, or would be.
    """
    if len(marker_names(turn.reasoning)) + len(marker_names(turn.content)) > MAX_MARKERS:
        raise SearchBound(f"more than {MAX_MARKERS} names of control ids in the text")
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
        yield Reading(_sure(row, fmt), row.rank, row.assumptions, row.own_witness, row.rival)


def _sure(row: Option, fmt: Format) -> tuple[Segment, ...]:
    """The segments, with what stands at the end and cannot be known INFERRED.

    Behind reasoning alone that was never closed, the terminator: a host that bills one id too few may have kept back a
    `</think>` there. At the end of a cut answer, blanks: the last one begins the next word, and splits off the others.
    """
    *before, end = row.segments or (Segment(),)
    if "close-skipped" in row.assumptions and all(s.control != fmt.section_begin for s in before):
        return (*before, replace(end, inferred=True)) if end.control == fmt.terminator else row.segments
    n_blanks = len(end.text) - len(end.text.rstrip())
    if "cut" in row.assumptions and n_blanks > 1:
        return (*before, replace(end, masked_tail=max(end.masked_tail, n_blanks)))
    return row.segments


# --- reasoning and content ------------------------------------------------------------------------------------------


def _talk(turn: Turn, fmt: Format, mode: bool, traits: Mapping[str, str], rare: bool) -> list[Option]:
    before_calls = turn.content[: len(turn.content) - sum(map(len, turn.interludes))]
    after = _content(before_calls, turn, fmt, traits, rare)
    if before_calls and _merged(turn, fmt, traits):
        after = [replace(o, segments=tuple(replace(s, inferred=True) for s in o.segments)) for o in after]
    if not mode:
        return after
    before = _thought(turn, fmt, traits, rare)
    rows = [a + b for a in before for b in after if a.rank + b.rank <= 1]
    closed = [any(s.control == fmt.think_close for s in r.segments) for r in rows]
    rows = [r for r, ends in zip(rows, closed, strict=True) if ends or "close-in-content" not in r.assumptions]
    if turn.reasoning and "</think>" in turn.content:
        rows += _literal_close(turn, fmt, traits, rare)
    return rows


def _merged(turn: Turn, fmt: Format, traits: Mapping[str, str]) -> bool:
    """Whether content before the calls may have been sampled within their section: some streams merge the two."""
    if not (turn.tool_calls and turn.content):
        return False
    known = traits.get("section_text")
    return known == "merged" or (known is None and turn.chunks is not None and "section_text" not in fmt.blank_free)


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
    for text in marked(turn.reasoning, "reasoning", turn, fmt, traits, rare):
        rows.append(_closed(text, turn, bare, fmt))
        if rare and text.rank == 0 and not turn.content:
            rows.append(text + _skipped(turn, fmt, traits))
        if rare and text.rank == 0 and traits.get("swallows_think") != "no":
            rows.append(_again(fmt) + _closed(text, turn, bare, fmt))
    return rows


def _skipped(turn: Turn, fmt: Format, traits: Mapping[str, str]) -> Option:
    """No `</think>` was sampled. Before a section one count tells it: the one that would count `</think>` too.

    Where the model samples `<think>` as well, that one may be what was skipped.
    """
    skipped = Option((), ("close-skipped",), 1, ("reasoning_tokens", "shortest"))
    section = turn.tool_calls or turn.shows_section
    told = fmt.think != "sampled" and (not section or traits.get("reasoning_tokens") == "ids+1")
    return skipped if told else replace(skipped, rival="malformed")


def _again(fmt: Format) -> Option:
    """A `<think>` sampled again, which some stacks swallow wherever it stands: its place is gone, so never believed."""
    return Option((Segment(control=fmt.think_open),), ("think-again",), 1, rival="malformed")


def _closed(text: Option, turn: Turn, bare: bool, fmt: Format) -> Option:
    """Reasoning and its end: `</think>`, or what stands for it where nothing but reasoning came.

    Of a cut answer only what came is believed: what is hidden behind it could be anything.
    """
    if bare and turn.finish_reason == "length":
        return text + Option((), ("cut-in-reasoning",))
    if bare and any(s.control == fmt.section_begin for s in text.segments):
        return text + Option((), ("section-in-reasoning",))
    return text + Option((Segment(control=fmt.think_close),))


def _content(content: str, turn: Turn, fmt: Format, traits: Mapping[str, str], rare: bool) -> list[Option]:
    return marked(content, "content", turn, fmt, traits, rare) if content else [NOTHING]


def _literal_close(turn: Turn, fmt: Format, traits: Mapping[str, str], rare: bool) -> list[Option]:
    """The stack took a `</think>` that the model spelled in reasoning for the real one, which stands in content."""
    head, _, tail = turn.content.partition("</think>")
    close = Option((Segment(control=fmt.think_close),), ("first-close-spelled",))
    before = marked(f"{turn.reasoning}</think>{head}", "reasoning", turn, fmt, traits, rare, literal=("</think>",))
    after = _content(tail, turn, fmt, traits, rare)
    return [a + close + b for a in before for b in after if a.rank + b.rank <= 1]


# --- tool calls and the end -----------------------------------------------------------------------------------------


def _calls(turn: Turn, fmt: Format, traits: Mapping[str, str], rare: bool) -> list[Option]:
    if not turn.tool_calls:
        return [NOTHING]
    n_before = len(turn.content) - sum(map(len, turn.interludes))
    open_begin = n_before > 0 and _merged(turn, fmt, traits)
    return sections(turn.tool_calls, fmt, traits, rare=rare, open_begin=open_begin, between=turn.interludes)


def _ending(turn: Turn, fmt: Format, traits: Mapping[str, str]) -> list[Option]:
    """The terminator: sampled, not sampled, or, where nobody knows, an id that is context only."""
    if turn.finish_reason == "length":
        return [Option((), ("cut",))]
    sampled = traits.get("terminator_sampled")
    section = turn.tool_calls or turn.shows_section
    if sampled is None and (traits.get("terminator_billed") == "yes" or not section):
        sampled = "yes"  # some hosts stop at a section's end, none at a text's
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
    return [without] if trait == "inserted" else [reading, replace(without, rival="trait")]


def _unspaced(segment: Segment, *, trail: bool) -> Segment:
    if segment.control >= 0 or not segment.text or segment.text.isspace():
        return segment
    text = segment.text.removeprefix(" ")
    text = text.removesuffix(" ") if trail else text
    return replace(segment, text=text) if text != segment.text else segment
