"""Ids of a reading against what the host said: each witness supports, contradicts or is silent, and says why.

A witness speaks only where the provider's habits say what its words mean. Knows nothing of how readings are made.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harness import stream
from harness.formats import Format
from harness.types import Encode, Ids, Reading, Testimony, Turn

YES = {"yes": 1, "no": 0}
MAX_FEWEST_BYTES = 20_000
MAX_TOKEN_BYTES = 256


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
    find: Callable[[bytes], int | None] | None = None


def billed_offset(traits: Mapping[str, str], fmt: Format, thinking: bool, *, cut: bool) -> int | None:
    """completion_tokens - len(ids without the terminator); None where the equation is not known."""
    if not traits:
        return None  # of a host of which nothing is known, not even a cut answer's bill is
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


def n_before_end(ids: Sequence[int], fmt: Format) -> int:
    """The number of ids without the terminator that ended them."""
    return len(ids) - (bool(ids) and ids[-1] == fmt.terminator)


def bill(scene: Scene) -> Testimony:
    """usage.completion_tokens against the number of ids, through the provider's equation."""
    if scene.completion_tokens is None:
        return Testimony("bill", "silent", "no completion_tokens in the answer")
    cut = scene.turn.finish_reason == "length"
    offset = billed_offset(scene.traits, scene.fmt, scene.thinking, cut=cut)
    if offset is None:
        return Testimony("bill", "silent", "what this provider bills is not known")
    n = n_before_end(scene.ids.ids, scene.fmt)
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
    if way == "ids+1" and told == 0 and not scene.turn.reasoning:
        return Testimony(name, "silent", "told 0 of no reasoning: whether `</think>` alone would count is not known")
    if way == "undercount" and told < n and not scene.turn.reasoning.isascii():
        return Testimony(name, "silent", f"told {told} of {n}: split characters are counted once here")
    return Testimony(name, "supports" if told == n else "contradicts", f"{n} ids of reasoning, told {told}")


def _n_reasoning(scene: Scene, *, through_close: bool) -> int:
    """Ids before `</think>`, or through it; with none, before the tool section; with neither, all.

    How vLLM 0.32.0 (before) and SGLang 0.5.23 (through; the terminator too where nothing closes) count.
    """
    ids, fmt = scene.ids.ids, scene.fmt
    for stop, past in ((fmt.think_close, int(through_close)), (fmt.section_begin, 0)):
        with suppress(ValueError):
            return ids.index(stop) + past
    ended = bool(ids) and ids[-1] == fmt.terminator
    return len(ids) - int(ended and not through_close)


def chunks(scene: Scene) -> Testimony:
    """Boundaries of a stream's chunks against the boundaries of the ids."""
    if not scene.turn.chunks:
        return Testimony("chunks", "silent", "no stream")
    spoke, cut = 0, []
    for row in stream.laid(scene.reading, scene.turn, scene.traits):
        spoke += len(row.bounds)
        cut += [f"{row.segment.channel}:{at}" for at in stream.violated(row, scene.encode, scene.ranks)]
    if not spoke:
        return Testimony("chunks", "silent", "no chunk boundary that may be trusted")
    if cut:
        return Testimony("chunks", "contradicts", f"chunks end inside ids at {', '.join(cut[:3])}")
    return Testimony("chunks", "supports", f"{spoke} chunk boundaries lie on id boundaries")


def singly(scene: Scene) -> Testimony:
    """Whether each id of each text came in a chunk of its own."""
    if stream.singly(scene.reading, scene.turn, scene.traits, scene.encode, scene.ranks):
        return Testimony("singly", "supports", "each id of each text came in a chunk of its own")
    return Testimony("singly", "silent", "not each id came in a chunk of its own")


def fewest(text: str, find: Callable[[bytes], int | None]) -> int | None:
    """The smallest number of ids that spell a text; None where it is too long to tell.

    The canonical split is not always the shortest: ` I'` is one id, and no text ever gives it.
    """
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > MAX_FEWEST_BYTES:
        return None
    best = [0, *[len(data) + 1] * len(data)]
    for start in range(len(data)):
        for end in range(start + 1, min(len(data), start + MAX_TOKEN_BYTES) + 1):
            if best[start] + 1 < best[end] and find(data[start:end]) is not None:
                best[end] = best[start] + 1
    return best[-1]


def shortest(scene: Scene) -> Testimony:
    """Whether no text of the reading can be spelled in fewer ids; heard only where a reading asks for it.

    A reading that is one id short of the plain one could as well be a text that was sampled in one id fewer.
    """
    if "shortest" not in scene.reading.own_witness or scene.find is None:
        return Testimony("shortest", "silent", "not asked")
    texts = [s.text for s in scene.reading.segments if s.control < 0]
    longer = [t for t in texts if fewest(t, scene.find) != len(scene.encode(t))]
    if longer:
        return Testimony(
            "shortest", "silent", f"{longer[0][:40]!r} can be spelled in fewer ids, or is too long to tell"
        )
    return Testimony("shortest", "supports", "no text can be spelled in fewer ids")


WITNESSES: Mapping[str, Callable[[Scene], Testimony]] = {
    "bill": bill,
    "reasoning_tokens": reasoning_tokens,
    "chunks": chunks,
    "singly": singly,
    "shortest": shortest,
}


def hear(scene: Scene) -> tuple[Testimony, ...]:
    """What each witness says of one reading."""
    return tuple(witness(scene) for witness in WITNESSES.values())
