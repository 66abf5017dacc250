"""A reading and an encoder -> ids, each with its origin.

Knows nothing of providers or bills. What it knows is where a lost blank can hide: white space that was stripped at an
edge changes the ids next to it, and where it does so without changing their number, no count can tell. Those ids are
INFERRED.
"""

from collections.abc import Callable

from harness.types import Encode, Ids, Origin, Reading, Segment

LEADS = (" ", "\n", "\n\n", "\t", "\n ", " \n", "\n\n ", "  ")
TRAILS = ("\n", "\n\n", "\n\n\n", "\r\n", " ", " \n", "\n ", "  ")
WINDOW_CHARS = 24

TEMPLATE, CANONICAL, INFERRED = bytes([Origin.TEMPLATE]), bytes([Origin.CANONICAL]), bytes([Origin.INFERRED])


def build(reading: Reading, encode: Encode) -> Ids:
    """The ids of a reading, shape [T], with one origin byte an id."""
    ids: list[int] = []
    origins: list[bytes] = []
    for segment in reading.segments:
        if segment.control >= 0:
            ids.append(segment.control)
            origins.append(INFERRED if segment.inferred else TEMPLATE)
        else:
            piece = _encode(segment, encode)
            ids += piece
            origins.append(_origins(segment, len(piece), encode))
    return Ids(ids, b"".join(origins))


def _encode(segment: Segment, encode: Encode) -> list[int]:
    if segment.chunks is None:
        return encode(segment.text)
    return [i for chunk in segment.chunks for i in encode(chunk)]


def _origins(segment: Segment, n_ids: int, encode: Encode) -> bytes:
    if segment.inferred:
        return INFERRED * n_ids
    if not (segment.lead or segment.trail or segment.masked_tail):
        return CANONICAL * n_ids
    n_lead = open_lead(segment.text, encode) if segment.lead else 0
    n_trail = max(open_trail(segment.text, encode) if segment.trail else 0, segment.masked_tail)
    n_lead = min(n_lead, n_ids)
    n_trail = min(n_trail, n_ids - n_lead)
    return INFERRED * n_lead + CANONICAL * (n_ids - n_lead - n_trail) + INFERRED * n_trail


def open_lead(text: str, encode: Encode) -> int:
    """How many ids at the start of `text` white space stripped before it may have changed, the number kept.

    `The` and ` The` are one id each (1); before a digit or a Han character white space is always an id more (0).
    """
    if not text or text[0].isdigit() or "\u4e00" <= text[0] <= "\u9fff":
        return 0
    return _n_open(text, LEADS, encode, lambda blank, window: blank + window, at_start=True)


def open_trail(text: str, encode: Encode) -> int:
    """How many ids at the end of `text` white space stripped after it may have changed, the number kept.

    `.` and `.\\n` are one id each (1); after a letter or a digit white space is always an id more (0).
    """
    if not text or text[-1].isalnum():
        return 0
    return _n_open(text, TRAILS, encode, lambda blank, window: window + blank, at_start=False)


def _n_open(
    text: str, blanks: tuple[str, ...], encode: Encode, joined: Callable[[str, str], str], *, at_start: bool
) -> int:
    size = WINDOW_CHARS
    while True:
        window = text[:size] if at_start else text[-size:]
        base = encode(window)
        n_open = max((_n_changed(base, encode(joined(b, window)), at_start) for b in blanks), default=0)
        if size >= len(text) or n_open < len(base) - 1:
            return n_open
        size *= 4  # the change reached the far end of the window: look further


def _n_changed(base: list[int], other: list[int], at_start: bool) -> int:
    """How far from the edge two rows of the same length differ; 0 where the length differs: the count would tell."""
    if len(base) != len(other):
        return 0
    differing = [i for i, (a, b) in enumerate(zip(base, other, strict=True)) if a != b]
    if not differing:
        return 0
    return differing[-1] + 1 if at_start else len(base) - differing[0]
