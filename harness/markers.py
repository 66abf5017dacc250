"""Names of control ids that stand in a text: each may be the control id, or the same letters in ordinary ids.

Part of `readings`. Knows nothing of what the markers mean.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from re import Match
from typing import Literal

from harness.calls import Option, is_open
from harness.formats import Format
from harness.stream import seams_in
from harness.types import Segment, Turn
from harness.vocab import CONTROL_IDS, control_pattern

MAX_FREE_MARKERS = 6  # markers that may each be control or text; of more, none, one or all are text
HINTS = ("<|", "think>", "[BOS]", "[EOS]", "[EOT]", "[UNK]", "[PAD]")


def marker_names(text: str) -> list[str]:
    """Names of control tokens that stand in a text, in order, doubles kept."""
    return [match[0] for match in _matches(text)]


def _matches(text: str) -> list[Match[str]]:
    if "<" not in text and "[" not in text:  # one character is found many times faster than seven hints
        return []
    if not any(hint in text for hint in HINTS):
        return []
    return list(control_pattern().finditer(text))


def marked(
    text: str,
    channel: str,
    turn: Turn,
    fmt: Format,
    traits: Mapping[str, str],
    rare: bool,
    literal: tuple[str, ...] = (),
) -> list[Option]:
    """A text with its markers as control ids, or, rarer, some of them spelled in ordinary ids.

    Spelled ones can have the very count of control ids (`4.</think>The` does), so without `rare` they are listed too,
    as rivals. Where a stream was cut within a marker it was spelled: an id comes in one piece.
    """
    found = _matches(text)
    if not found:
        lead, trail = is_open(f"{channel}_start", fmt, traits), is_open(f"{channel}_end", fmt, traits)
        return [Option((Segment(text=text, channel=channel, lead=lead, trail=trail),))]
    seams = seams_in(turn, channel, text, traits)
    forced = {k for k, m in enumerate(found) if _is_text(m, fmt, traits, literal) or _within(m, seams)}
    free = [k for k in range(len(found)) if k not in forced]
    options = []
    for spelled in _subsets(free):
        names = dict.fromkeys(f"spelled {found[k][0]}" for k in spelled)
        told = (*(("markers-as-control",) if len(spelled) < len(free) else ()), *names)
        kept = [m for k, m in enumerate(found) if k not in forced and k not in spelled]
        rank = int(bool(spelled) and rare)
        rival: Literal["", "spelled"] = "spelled" if spelled and not rare else ""
        options.append(
            Option(_split(text, channel, kept, fmt, traits), told, rank, ("no-rival",) if rank else (), rival)
        )
    return options


def _is_text(match: Match[str], fmt: Format, traits: Mapping[str, str], literal: tuple[str, ...]) -> bool:
    """A real terminator ends the turn; and some stacks never show a real tool marker."""
    control = CONTROL_IDS[match[0]]
    tool = control in fmt.markers.values() and control not in (fmt.think_open, fmt.think_close)
    return control == fmt.terminator or match[0] in literal or (tool and traits.get("raw_sections") == "never")


def _within(match: Match[str], seams: frozenset[int]) -> bool:
    return any(match.start() < seam < match.end() for seam in seams)


def _subsets(free: list[int]) -> Iterator[tuple[int, ...]]:
    sizes = range(len(free) + 1) if len(free) <= MAX_FREE_MARKERS else (0, 1, len(free))
    for size in sizes:
        yield from combinations(free, size)


def _split(
    text: str, channel: str, kept: list[Match[str]], fmt: Format, traits: Mapping[str, str]
) -> tuple[Segment, ...]:
    row: list[Segment] = []
    start = 0
    for match in kept:
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
