"""Words within which a control id that the host does not show may have been sampled without any count telling.

A hidden id makes the bill one id larger than the text, so it is noticed; unless the two parts of a word beside it are
spelled in one id fewer than the word as a whole (`Samantha` is three ids, `S` + `amantha` two). There the two errors
cancel, and the ids that differ are INFERRED. Headers and arguments of calls are left out: to cut them out of the text,
a host must have had the control ids in it. Works on ids alone; knows nothing of bills.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter

from harness.errors import ProviderError
from harness.ids import SEAM
from harness.types import Encode, Ids, Origin
from harness.vocab import CONTROL_IDS, N_IDS, N_RANKS, Vocab

NEAR = 32
"""Characters on each side of a cut in a word of more than LONG_WORD: what is further away is spelled the same."""
LONG_WORD = 64
HAN_SEAM = re.compile("(?<=[\u4e00-\u9fff])(?=[，。！？；：、])|(?<=[，。！？；：、])(?=[\u4e00-\u9fff])")
"""Where an id always ends beside a run of Han characters, beyond what SEAM tells."""

OPENS, JOINS, LEAVES_OPEN, CONTROL, UNKNOWN = 0, 1, 2, 3, 255
PAIR = re.compile(rb"[\x01\x02](?:[\x01\x02]|(?<=\x02)\x00)")
"""Two ids that both may stand within a word: the quick way to words of three ids; two have no shorter spelling."""

IN_CALL = frozenset(CONTROL_IDS[name] for name in ("<|tool_call_begin|>", "<|tool_call_argument_begin|>"))
SHOWS_ALL = {"control_ids": "shown", "swallows_think": "no", "raw_sections": "shown"}


def may_hide(traits: Mapping[str, str]) -> bool:
    """Whether a host with these traits may keep back a control id that was sampled in the middle of a text."""
    return any(traits.get(trait) != value for trait, value in SHOWS_ALL.items())


@cache
def _kinds(vocab: Vocab) -> list[int]:
    """How each id stands to those beside it, UNKNOWN until it is asked for; shape [163840]."""
    return [UNKNOWN] * N_IDS


def _kind(vocab: Vocab, token_id: int) -> int:
    """OPENS where a word begins with it after anything but LEAVES_OPEN: white space, or a part of a character."""
    if token_id >= N_RANKS:
        return CONTROL
    token = vocab.token_bytes(token_id)
    try:
        if token.decode()[-1:].isspace():
            return LEAVES_OPEN
    except UnicodeDecodeError:
        return LEAVES_OPEN
    return OPENS if token[:1] == b" " else JOINS


def masked(row: Ids, vocab: Vocab, encode: Encode) -> Ids:
    """The ids with those INFERRED that would be others if a control id had been sampled within their word."""
    if len(row.ids) < 3:
        return row
    known, look = _kinds(vocab), itemgetter(*row.ids)
    kinds = bytes(look(known))
    if UNKNOWN in kinds:
        for token_id in set(row.ids):
            known[token_id] = _kind(vocab, token_id)
        kinds = bytes(look(known))
    origins = None
    for start, stop in _words(kinds):
        before = kinds.rfind(CONTROL, 0, start)
        if before >= 0 and row.ids[before] in IN_CALL:
            continue
        for k in _open(tuple(row.ids[start:stop]), vocab, encode):
            origins = origins or bytearray(row.origins)
            origins[start + k] = Origin.INFERRED
    return Ids(row.ids, bytes(origins), row.ambiguous) if origins else row


def _words(kinds: bytes) -> Iterator[tuple[int, int]]:
    """(start, stop) of the runs of ids of which no inner one is known to begin a word, where they may be three."""
    stop = 0
    for pair in PAIR.finditer(kinds):
        if pair.start() < stop:
            continue
        start, stop = pair.span()
        while start and _joined(kinds[start - 1], kinds[start]):
            start -= 1
        while stop < len(kinds) and _joined(kinds[stop - 1], kinds[stop]):
            stop += 1
        if stop - start > 2:
            yield start, stop


def _joined(before: int, kind: int) -> bool:
    return before != CONTROL and (kind in (JOINS, LEAVES_OPEN) or (kind == OPENS and before == LEAVES_OPEN))


@lru_cache(maxsize=16384)
def _open(ids: tuple[int, ...], vocab: Vocab, encode: Encode) -> tuple[int, ...]:
    """Places among the ids of a run that another spelling of one of its words would change."""
    try:
        text = vocab.decode_text(ids)
    except ProviderError:
        return tuple(range(len(ids)))  # it begins or ends within a character: no text that could be spelled anew
    edges = _edges(text, [len(vocab.token_bytes(i)) for i in ids])
    seams = {m.start() for seam in (SEAM, HAN_SEAM) for m in seam.finditer(text)} & edges.keys()
    found: set[int] = set()
    for start, stop in pairwise(sorted({0, len(text), *seams})):
        if edges[stop] - edges[start] >= 3:
            found.update(_changed(text, ids, start, stop, edges, encode))
    return tuple(sorted(found))


def _edges(text: str, sizes: Iterable[int]) -> dict[int, int]:
    """Character -> id, of the ids (sizes in bytes) that begin with a whole character, and of the end."""
    numbers = {at: k for k, at in enumerate(accumulate(sizes, initial=0))}
    places = enumerate(accumulate((len(c.encode()) for c in text), initial=0))
    return {char: numbers[at] for char, at in places if at in numbers}


def _changed(
    text: str, ids: Sequence[int], start: int, stop: int, edges: Mapping[int, int], encode: Encode
) -> Iterator[int]:
    """Places of ids that a cut anywhere within the word `text[start:stop]` would change and no count would tell."""
    at_edge = sorted(char for char in edges if start <= char <= stop)
    for cut in range(start + 1, stop):
        low, high = start, stop
        if stop - start > LONG_WORD:
            low = at_edge[max(bisect_right(at_edge, cut - NEAR) - 1, 0)]
            high = at_edge[min(bisect_left(at_edge, cut + NEAR), len(at_edge) - 1)]
        first, base = edges[low], list(ids[edges[low] : edges[high]])
        if stop - start > LONG_WORD and encode(text[low:high]) != base:
            yield from range(first, edges[high])  # what is far away matters here: nobody can tell
            continue
        parts = [*encode(text[low:cut]), -1, *encode(text[cut:high])]
        if len(parts) == len(base):
            yield from (first + k for k, (a, b) in enumerate(zip(base, parts, strict=True)) if a != b)
