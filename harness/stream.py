"""Where a stream was cut, against where ids end: chunks of a channel laid over the segments of a reading.

Knows nothing of bills and providers but which chunks may be trusted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from harness.types import Encode, Reading, Segment, Turn
from harness.vocab import CONTROL_NAMES, N_RANKS

Bound = tuple[int, int]
"""First and last byte offset at which a token may end, for one boundary between two chunks."""


@dataclass(frozen=True, slots=True)
class Laid:
    """The chunk boundaries within one text segment, as byte offsets in its text.

    Attributes:
        at: Its place in the reading.
        bounds: Boundaries that must be token boundaries.
        seams: All boundaries, those that say nothing included.
    """

    at: int
    segment: Segment
    bounds: tuple[Bound, ...]
    seams: tuple[int, ...]


def trusted(channel: str, traits: Mapping[str, str]) -> bool:
    """Whether chunks of this channel are known to end where tokens end."""
    return traits.get("chunks_arguments" if channel.startswith("call:") else "chunks") == "tokens"


MIN_PIECES = 3  # one piece behind the other's end: a host that must see the whole first sends one, or two


def arguments_seen(turn: Turn, traits: Mapping[str, str]) -> bool:
    """Whether the arguments of every call came token by token: then nobody waited for their end to write them anew."""
    pieces = [(turn.chunks or {}).get(f"call:{k}", ()) for k in range(len(turn.tool_calls))]
    return trusted("call:", traits) and bool(pieces) and all(len(row) >= MIN_PIECES for row in pieces)


def laid(reading: Reading, turn: Turn, traits: Mapping[str, str]) -> Iterator[Laid]:
    """Each text segment of the reading that stands in a stream's chunks as it is, where those may be trusted."""
    rows: dict[str, list[int]] = {}
    for k, segment in enumerate(reading.segments):
        if segment.channel:
            rows.setdefault(segment.channel, []).append(k)
    for channel, places in rows.items():
        pieces = (turn.chunks or {}).get(channel, ())
        wire = [_wire(reading.segments[k]) for k in places]
        if not trusted(channel, traits) or b"".join(wire) != _bytes("".join(pieces)):
            continue
        bounds = chunk_bounds(pieces, closers=channel.startswith("call:"), markers=_at_markers(traits))
        seams = tuple(accumulate(len(_bytes(p)) for p in pieces))
        for k, end, size in zip(places, accumulate(map(len, wire)), map(len, wire), strict=True):
            segment, start = reading.segments[k], end - size
            if segment.control < 0:
                inner = tuple((a - start, min(b, end) - start) for a, b in bounds if start < a < end)
                yield Laid(k, segment, inner, tuple(s - start for s in seams if start < s < end))


def _at_markers(traits: Mapping[str, str]) -> bool:
    return traits.get("chunks_at_markers") == "tokens"


def _wire(segment: Segment) -> bytes:
    return _bytes(segment.text if segment.control < 0 else CONTROL_NAMES[segment.control - N_RANKS])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def chunk_bounds(pieces: Sequence[str], *, closers: bool, markers: bool) -> list[Bound]:
    """Where tokens must end, for each boundary between two chunks that says so.

    A boundary may lie anywhere within the blanks that follow it: parsers hold blanks back. Next to what may begin the
    name of a control id it says nothing unless `markers`: parsers hold that back. With `closers`, neither does one with
    nothing but closing brackets behind it: parsers hold the end of a call back (vLLM 0.32.0 does all three).
    """
    text = "".join(pieces)
    n_last = len(_bytes(text.rstrip(" \n\r\t}]") if closers else text))
    bounds = []
    for (left, right), at in zip(pairwise(pieces), accumulate(len(_bytes(p)) for p in pieces), strict=False):
        held = not markers and (_begins_name(left) or right[0] in "<[|")
        if held or at >= n_last or "\ufffd" in (left[-1], right[0]):
            continue
        bounds.append((at, at + len(_bytes(right)) - len(_bytes(right.lstrip()))))
    return bounds


def _begins_name(text: str) -> bool:
    """Whether a text ends in what may be the begin of a control id's name."""
    at = max(text.rfind("<"), text.rfind("["))
    return at >= 0 and any(name.startswith(text[at:]) for name in CONTROL_NAMES)


def seams_in(turn: Turn, channel: str, text: str, traits: Mapping[str, str]) -> frozenset[int]:
    """Where a stream was cut, as character offsets of a channel's whole text; empty where nothing may be trusted."""
    pieces = (turn.chunks or {}).get(channel, ())
    if not trusted(channel, traits) or "".join(pieces) != text:
        return frozenset()
    return frozenset(accumulate(map(len, pieces[:-1])))


def ends(segment: Segment, encode: Encode, ranks: Sequence[bytes]) -> list[int]:
    """Byte offsets in the segment's text at which its ids end."""
    pieces = segment.chunks or (segment.text,)
    return list(accumulate(len(ranks[i]) for piece in pieces for i in encode(piece)))


def violated(row: Laid, encode: Encode, ranks: Sequence[bytes]) -> list[int]:
    """Boundaries (byte offsets) at which no id of the segment ends.

    Within an id that ends in mid-character a boundary is no fault: detokenizers show the words before it early.
    """
    stops = set(ends(row.segment, encode, ranks))
    return [
        first for first, last in _telling(row, encode, ranks) if not any(k in stops for k in range(first, last + 1))
    ]


def _telling(row: Laid, encode: Encode, ranks: Sequence[bytes]) -> list[Bound]:
    """The bounds without those within an id that ends in mid-character."""
    data = _bytes(row.segment.text)
    stops = [0, *ends(row.segment, encode, ranks)]
    excused = [(a, b) for a, b in pairwise(stops) if b < len(data) and data[b] & 0xC0 == 0x80]
    return [bound for bound in row.bounds if not any(a < bound[0] < b for a, b in excused)]


def chunkwise(
    reading: Reading, turn: Turn, traits: Mapping[str, str], encode: Encode, ranks: Sequence[bytes]
) -> Reading | None:
    """The reading with each text cut at its trusted chunks where one of them ended inside an id; None for none."""
    segments, names = list(reading.segments), list(reading.assumptions)
    for row in laid(reading, turn, traits):
        broken = violated(row, encode, ranks)
        if broken:
            certain = {first for first, last in _telling(row, encode, ranks) if first == last}
            chunks = _cut(row.segment.text, sorted(certain | set(broken)))
            # a chunk cut elsewhere on its way looks the same where the plain split has as many ids
            alike = (*row.segment.lookalikes, row.segment.text)
            segments[row.at] = replace(row.segment, chunks=chunks, lookalikes=alike)
            names.append(f"split-as-streamed {row.segment.channel}")
    if len(names) == len(reading.assumptions):
        return None
    # a chunk that ends inside a marker proves that the marker was spelled, not sampled as one id
    witness = ("chunks", "no-rival") if reading.rival == "spelled" else ("chunks",)
    rival = "" if reading.rival == "spelled" else reading.rival
    told, cut = tuple(dict.fromkeys(names)), tuple(segments)
    return replace(reading, segments=cut, rank=1, assumptions=told, own_witness=witness, rival=rival)


def _cut(text: str, at_bytes: list[int]) -> tuple[str, ...]:
    data = _bytes(text)
    edges = [0, *at_bytes, len(data)]
    return tuple(data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(edges))


def singly(reading: Reading, turn: Turn, traits: Mapping[str, str], encode: Encode, ranks: Sequence[bytes]) -> bool:
    """Whether each id of each text came in a chunk of its own, so that no split can hide behind the count."""
    n_texts = sum(1 for s in reading.segments if s.control < 0)
    rows = list(laid(reading, turn, traits)) if turn.chunks else []
    return (
        bool(rows) and len(rows) == n_texts and all(tuple(ends(r.segment, encode, ranks)[:-1]) == r.seams for r in rows)
    )
