"""Ids of a reading against what the host said: each witness supports, contradicts or is silent, and says why.

A witness speaks only where the provider's habits say what its words mean. Knows nothing of how readings are made.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from harness.formats import Format
from harness.types import Encode, Ids, Reading, Segment, Testimony, Turn

YES = {"yes": 1, "no": 0}


@dataclass(frozen=True, slots=True)
class Scene:
    """What every witness looks at: one reading of one answer."""

    reading: Reading
    ids: Ids
    turn: Turn
    fmt: Format
    traits: Mapping[str, str]
    thinking: bool
    completion_tokens: int | None
    encode: Encode
    ranks: Sequence[bytes]


def billed_offset(traits: Mapping[str, str], fmt: Format, thinking: bool, *, cut: bool) -> int | None:
    """completion_tokens - len(ids without the terminator); None where the equation is not known."""
    think = YES.get(traits.get("think_billed", ""))
    if fmt.think != "prompt" or not thinking:
        think = 0  # there is no <think> at the prompt's end that could be billed
    if cut:
        return think
    terminator = YES.get(traits.get("terminator_billed", ""))
    if terminator is not None and think is not None:
        return terminator + think
    total = traits.get("offset")
    return int(total) if total is not None else None


def bill(scene: Scene) -> Testimony:
    """usage.completion_tokens against the number of ids, through the provider's equation."""
    if scene.completion_tokens is None:
        return Testimony("bill", "silent", "no completion_tokens in the answer")
    cut = scene.turn.finish_reason == "length"
    offset = billed_offset(scene.traits, scene.fmt, scene.thinking, cut=cut)
    if offset is None:
        return Testimony("bill", "silent", "what this provider bills is not known")
    ids = scene.ids.ids
    n = len(ids) - (bool(ids) and ids[-1] == scene.fmt.terminator)
    reason = f"{n} ids before the end + {offset} = {n + offset}, billed {scene.completion_tokens}"
    return Testimony("bill", "supports" if n + offset == scene.completion_tokens else "contradicts", reason)


def reasoning_tokens(scene: Scene) -> Testimony:
    """usage's reasoning_tokens against the ids of the reasoning, where the host counts them by id."""
    name = "reasoning_tokens"
    told = scene.turn.usage.reasoning_tokens if scene.turn.usage else None
    way = scene.traits.get(name)
    if told is None or way in (None, "estimate") or not scene.thinking:
        return Testimony(name, "silent", "not told, or not counted by id at this provider")
    n = _n_reasoning(scene, through_close=way == "ids+1")
    if way == "undercount" and told < n and not scene.turn.reasoning.isascii():
        return Testimony(name, "silent", f"told {told} of {n}: split characters are counted once here")
    return Testimony(name, "supports" if told == n else "contradicts", f"{n} ids of reasoning, told {told}")


def _n_reasoning(scene: Scene, *, through_close: bool) -> int:
    """Ids before `</think>`, or through it; with none, before the tool section; with neither, all.

    How vLLM 0.32.0 (before) and SGLang 0.5.23 (through; the terminator too where nothing closes) count.
    """
    ids, fmt = scene.ids.ids, scene.fmt
    for stop, past in ((fmt.think_close, int(through_close)), (fmt.section_begin, 0)):
        if stop in ids:
            return ids.index(stop) + past
    ended = bool(ids) and ids[-1] == fmt.terminator
    return len(ids) - int(ended and not through_close)


def chunks(scene: Scene) -> Testimony:
    """Boundaries of a stream's chunks against the boundaries of the ids."""
    if not scene.turn.chunks:
        return Testimony("chunks", "silent", "no stream")
    spoke, cut = 0, []
    for channel, segment in channel_segments(scene.reading.segments):
        if not trusted(channel, scene.traits):
            continue
        bounds = chunk_bounds(scene.turn.chunks.get(channel, ()), segment.text)
        if bounds is None:
            continue
        spoke += len(bounds)
        cut += [
            f"{channel}:{b}" for b in violated(segment.chunks or (segment.text,), bounds, scene.encode, scene.ranks)
        ]
    if not spoke:
        return Testimony("chunks", "silent", "no chunk boundary that may be trusted")
    if cut:
        return Testimony("chunks", "contradicts", f"chunks end inside ids at {', '.join(cut[:3])}")
    return Testimony("chunks", "supports", f"{spoke} chunk boundaries lie on id boundaries")


def trusted(channel: str, traits: Mapping[str, str]) -> bool:
    """Whether chunks of this channel are known to end where tokens end."""
    return traits.get("chunks_arguments" if channel.startswith("call:") else "chunks") == "tokens"


def channel_segments(segments: Iterable[Segment]) -> list[tuple[str, Segment]]:
    """Channels whose whole text is one segment of the reading."""
    found: dict[str, list[Segment]] = {}
    for segment in segments:
        if segment.channel and segment.control < 0:
            found.setdefault(segment.channel, []).append(segment)
    return [(channel, rows[0]) for channel, rows in found.items() if len(rows) == 1]


def chunk_bounds(pieces: tuple[str, ...], text: str) -> list[tuple[int, int]] | None:
    """Where tokens must end: (first, last) byte offset in the text, for each boundary between two chunks.

    A boundary may lie anywhere within the blanks that follow it: parsers hold blanks back. Boundaries next to a "<", or
    with nothing but closing brackets behind them, say nothing: parsers hold the start of a marker and the end of a call
    back (vLLM 0.32.0 does both). None where the chunks are not this text.
    """
    if "".join(pieces) != text:
        return None
    n_last = len(text.rstrip(" \n\r\t}]").encode("utf-8", "surrogatepass"))
    offsets = accumulate(len(p.encode("utf-8", "surrogatepass")) for p in pieces)
    bounds = []
    for left, right, at in zip(pieces, pieces[1:], offsets, strict=False):
        held = "<" in left[-2:] or right.startswith(("<", "|")) or at >= n_last
        if held or "\ufffd" in (left[-1], right[0]):
            continue
        bounds.append((at, at + len(right) - len(right.lstrip())))
    return bounds


def violated(
    pieces: tuple[str, ...], bounds: list[tuple[int, int]], encode: Encode, ranks: Sequence[bytes]
) -> list[int]:
    """Boundaries of chunks (byte offsets) at which no id ends, with the text encoded piece by piece."""
    ends = set(accumulate(len(ranks[i]) for piece in pieces for i in encode(piece)))
    return [first for first, last in bounds if not any(at in ends for at in range(first, last + 1))]


def chunkwise(
    reading: Reading, turn: Turn, traits: Mapping[str, str], encode: Encode, ranks: Sequence[bytes]
) -> Reading | None:
    """The reading with each text cut where a trusted chunk ended inside an id; None where none did."""
    if not turn.chunks:
        return None
    swapped: dict[str, Segment] = {}
    for channel, segment in channel_segments(reading.segments):
        bounds = chunk_bounds(turn.chunks.get(channel, ()), segment.text) if trusted(channel, traits) else None
        cuts = violated((segment.text,), bounds, encode, ranks) if bounds else []
        if cuts:
            swapped[channel] = replace(segment, chunks=_cut(segment.text, cuts))
    if not swapped:
        return None
    segments = tuple(swapped.get(s.channel, s) if s.control < 0 else s for s in reading.segments)
    names = (*reading.assumptions, *(f"split-as-streamed {c}" for c in swapped))
    return Reading(segments, 1, names, "chunks")


def _cut(text: str, at_bytes: list[int]) -> tuple[str, ...]:
    data = text.encode("utf-8", "surrogatepass")
    edges = [0, *at_bytes, len(data)]
    return tuple(data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(edges))


WITNESSES: Mapping[str, Callable[[Scene], Testimony]] = {
    "bill": bill,
    "reasoning_tokens": reasoning_tokens,
    "chunks": chunks,
}


def hear(scene: Scene) -> tuple[Testimony, ...]:
    """What each witness says of one reading."""
    return tuple(witness(scene) for witness in WITNESSES.values())


def seen_singly(
    reading: Reading, turn: Turn, traits: Mapping[str, str], encode: Encode, ranks: Sequence[bytes]
) -> bool:
    """Whether each id of each text came in a chunk of its own, so that no split can hide behind the count."""
    if not turn.chunks or any(s.inferred or s.channel.startswith("header") for s in reading.segments):
        return False
    for channel, segment in channel_segments(reading.segments):
        pieces = turn.chunks.get(channel, ())
        whole = "".join(pieces) == segment.text and trusted(channel, traits)
        if not whole or [len(p.encode()) for p in pieces] != [len(ranks[i]) for i in encode(segment.text)]:
            return False
    return True
