"""A reading and an encoder -> ids, each with its origin.

Knows nothing of providers or bills. What it knows is where a lost blank can hide: white space that was stripped at an
edge changes the ids next to it, and where it does so without changing their number, no count can tell. Those ids are
INFERRED.
"""

import re
from functools import lru_cache

from harness.types import Encode, Ids, Origin, Reading, Segment

# One blank of each kind that the split tells apart: lines, what follows them, and the one that joins the word.
LEADS = (" ", "\t", "\n", "\n\n", "\r\n", "\n ", "\n\t", "  ", " \t", "\n  ", "\n \t", "\u3000")
TRAILS = ("\n", "\n\n", "\n\n\n", "\r\n", " ", "\t", "  ", "\n ", "\n\n ", "\n \n ")
SEAM = re.compile(
    r"(?<=\S)(?= )|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])|(?<=[A-Za-z0-9\u4e00-\u9fff])(?=[!-&(-/:-@\[-`{-~])"
)
"""Places within a text where an id always ends: both sides are encoded as if they stood alone."""

MAX_KEPT_CHARS = 64
"""Of a text at an edge whose count is kept: longer ones are rare, and come from answers."""

TEMPLATE, CANONICAL, INFERRED = bytes([Origin.TEMPLATE]), bytes([Origin.CANONICAL]), bytes([Origin.INFERRED])


def build(reading: Reading, encode: Encode) -> Ids:
    """The ids of a reading, shape [T], with one origin byte an id."""
    ids: list[int] = []
    origins: list[bytes] = []
    ambiguous = ""
    for segment in reading.segments:
        if segment.control >= 0:
            ids.append(segment.control)
            origins.append(INFERRED if segment.inferred else TEMPLATE)
            continue
        piece = _encode(segment, encode)
        marks = _origins(segment, len(piece), encode)
        if segment.alternates or segment.lookalikes:
            others = [encode(text) for text in segment.alternates]
            alike = [row for row in map(encode, segment.lookalikes) if len(row) == len(piece)]
            marks = _marked(piece, marks, [*others, *alike])
            if any(len(other) != len(piece) for other in others):
                ambiguous = f"{segment.channel}: other orders of its keys have another number of ids"
        ids += piece
        origins.append(marks)
    return Ids(ids, b"".join(origins), ambiguous)


def _encode(segment: Segment, encode: Encode) -> list[int]:
    if segment.chunks is None:
        return encode(segment.text)
    return [i for chunk in segment.chunks for i in encode(chunk)]


def _origins(segment: Segment, n_ids: int, encode: Encode) -> bytes:
    if segment.inferred:
        return INFERRED * n_ids
    if not (segment.lead or segment.trail or segment.masked_tail):
        return CANONICAL * n_ids
    pieces = segment.chunks or (segment.text,)  # each is encoded by itself, so a blank changes the outer ones alone
    n_lead = open_lead(pieces[0], encode) if segment.lead else 0
    n_trail = max(open_trail(pieces[-1], encode) if segment.trail else 0, segment.masked_tail)
    n_lead = min(n_lead, n_ids)
    n_trail = min(n_trail, n_ids - n_lead)
    return INFERRED * n_lead + CANONICAL * (n_ids - n_lead - n_trail) + INFERRED * n_trail


def _marked(piece: list[int], marks: bytes, others: list[list[int]]) -> bytes:
    """The marks with INFERRED wherever another row of ids differs."""
    out = bytearray(marks)
    for other in others:
        for k, (a, b) in enumerate(zip(piece, other, strict=False)):
            if a != b:
                out[k] = Origin.INFERRED
    return bytes(out)


def open_lead(text: str, encode: Encode) -> int:
    """How many ids at the start of `text` white space stripped before it may have changed, the number kept.

    `The` and ` The` are one id each (1); before a digit or a Han character white space is always an id more (0).
    """
    if not text or text[0].isdigit() or "\u4e00" <= text[0] <= "\u9fff":
        return 0
    seam = SEAM.search(text)
    window = text[: seam.start()] if seam else text
    return _n_open(window, encode, at_start=True)


def open_trail(text: str, encode: Encode) -> int:
    """How many ids at the end of `text` white space stripped after it may have changed, the number kept.

    `.` and `.\\n` are one id each (1); after a letter or a digit white space is always an id more (0).
    """
    if not text or text[-1].isalnum():
        return 0
    window = _behind_last_seam(text)
    return _n_open(window, encode, at_start=False)


def _behind_last_seam(text: str) -> str:
    size = 64
    while True:
        tail = text[-size:]
        seams = [seam.start() for seam in SEAM.finditer(tail)]
        if seams or size >= len(text):
            return tail[max(seams, default=0) :]
        size *= 4  # a long text is not read from its start for what stands at its end


def _n_open(window: str, encode: Encode, *, at_start: bool) -> int:
    return (_counted_once if len(window) <= MAX_KEPT_CHARS else _counted)(window, encode, at_start)


def _counted(window: str, encode: Encode, at_start: bool) -> int:
    base = encode(window)
    blanked = (blank + window for blank in LEADS) if at_start else (window + blank for blank in TRAILS)
    return max(_n_changed(base, encode(other), at_start) for other in blanked)


_counted_once = lru_cache(maxsize=8192)(_counted)  # most answers begin and end with a few words and marks


def _n_changed(base: list[int], other: list[int], at_start: bool) -> int:
    """How far from the edge two rows of the same length differ; 0 where the length differs: the count would tell."""
    if len(base) != len(other):
        return 0
    changed = (k for k, (a, b) in enumerate(zip(base, other, strict=True)) if a != b)
    return max((k + 1 if at_start else len(base) - k for k in changed), default=0)
