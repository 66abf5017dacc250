"""Words within which a control id that the host does not show may have been sampled without any count telling.

A hidden id makes the bill one id larger than the text, so it is noticed; unless the two parts of a word beside it are
spelled in one id fewer than the word as a whole (`[Janet` is three ids, `[J` and `anet` are one each). There the two
errors cancel, and the ids that differ are INFERRED. Works on ids alone; knows nothing of bills.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from operator import itemgetter

from harness.errors import ProviderError
from harness.ids import SEAM
from harness.types import Encode, Ids, Origin
from harness.vocab import CONTROL_IDS, N_IDS, N_RANKS, Vocab

NEAR, LONG_WORD = 32, 256
"""Of a word of more than LONG_WORD characters only NEAR on each side of a cut are looked at: letters further away are
spelled the same. Runs of other characters are spelled by their length, so there all of a long one is INFERRED."""
LONG_RUN = re.compile(r"[\W_]{33,}")
MORE_SEAMS = re.compile(
    r"(?<=[\r\n])(?=\S)|(?<=[\u4e00-\u9fff])(?=[，。！？；：、])|(?<=[，。！？；：、])(?=[\u4e00-\u9fff])"
)
"""Where an id always ends, beyond what SEAM tells: at the end of a line, and beside a run of Han characters."""

SPACE, MARK, OTHER, BLANK = range(4)  # how a token begins: BLANK is white space but a space; MARK is ASCII punctuation
LETTER, WHITE, LINE, REST = range(
    4
)  # how it ends: a letter, digit or Han; white space or within a character; a line end
CONTROL, CALL, UNKNOWN = 16, 17, 255  # kinds of ids beside 4 * begins + ends; CALL: a part of a call stands behind it
MARKS = frozenset(b'!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~')  # as SEAM has them


BEGUN = bytes(1 << (kind >> 2) if kind < CONTROL else 0 for kind in range(256))
"""Kind -> a bit for how it begins."""
GOES_ON = {
    LETTER: 1 << OTHER | 1 << BLANK,
    WHITE: 1 << SPACE | 1 << MARK | 1 << OTHER | 1 << BLANK,
    LINE: 1 << BLANK,
    REST: 1 << MARK | 1 << OTHER | 1 << BLANK,
}
"""How an id ends -> bits of the beginnings that go on with its word.

A space begins a word after anything but white space, punctuation after a letter or a digit, and all but white space
after the end of a line; nothing goes on behind a control id.
"""
ENDED = bytes(GOES_ON[kind & 3] if kind < CONTROL else 0 for kind in range(256))
ONES = bytes(min(k, 1) for k in range(256))
LETTERS = re.compile("[A-Za-z0-9\u4e00-\u9fff]")
MAX_KEPT = 16384
IN_CALL = frozenset(CONTROL_IDS[name] for name in ("<|tool_call_begin|>", "<|tool_call_argument_begin|>"))
SHOWS_ALL = {"control_ids": "shown", "swallows_think": "no", "raw_sections": "shown"}


def masked(row: Ids, traits: Mapping[str, str], vocab: Vocab, encode: Encode) -> Ids:
    """The ids with those INFERRED that would be others if a control id had been sampled within their word.

    A host that shows all of them hides none; one that shows those in texts hides none within calls, which it cut out of
    the text.
    """
    if len(row.ids) < 3 or all(traits.get(trait) == value for trait, value in SHOWS_ALL.items()):
        return row
    kept, found = _kept(vocab, encode), list[int]()
    for start, stop in _words(row.ids, vocab, in_calls=traits.get("control_ids") != "shown"):
        word = tuple(row.ids[start:stop])
        places = kept.get(word)
        if places is None:
            if len(kept) >= MAX_KEPT:
                kept.clear()
            places = kept[word] = _open(word, vocab, encode)
        found += [start + k for k in places]
    if not found:
        return row
    origins = bytearray(row.origins)
    for place in found:
        origins[place] = Origin.INFERRED
    return Ids(row.ids, bytes(origins), row.ambiguous)


@cache
def _kinds(vocab: Vocab) -> bytearray:
    """How each id stands to those beside it, UNKNOWN until it is asked for; shape [163840]."""
    return bytearray([UNKNOWN]) * N_IDS


def _kind(vocab: Vocab, token_id: int) -> int:
    if token_id >= N_RANKS:
        return CALL if token_id in IN_CALL else CONTROL
    token = vocab.token_bytes(token_id)
    begins = SPACE if token[:1] == b" " else MARK if token[0] in MARKS else OTHER
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return 4 * BLANK + WHITE  # which characters its parts belong to is not known here: nothing parts it from others
    if begins == OTHER and text[0].isspace():
        begins = BLANK
    if text[-1] in "\r\n":
        return 4 * begins + LINE
    if text[-1].isspace():
        return 4 * begins + WHITE
    return 4 * begins + (LETTER if LETTERS.fullmatch(text[-1]) else REST)


@cache
def _kept(vocab: Vocab, encode: Encode) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Words that were looked at: most come again."""
    return {}


def _words(ids: Sequence[int], vocab: Vocab, *, in_calls: bool) -> Iterator[tuple[int, int]]:
    """(start, stop) of stretches of three ids and more that may be one word; two ids have no shorter spelling."""
    known, look = _kinds(vocab), itemgetter(*ids)
    kinds = bytes(look(known))
    if UNKNOWN in kinds:
        for token_id in set(ids):
            known[token_id] = _kind(vocab, token_id)
        kinds = bytes(look(known))
    row, inner = _joined(kinds)
    n = len(ids)
    calls, at = CALL in kinds and not in_calls, inner.find(1)
    while at >= 0:
        start, stop = at - 1, row.find(0, at)
        stop = n if stop < 0 else stop
        if not (calls and kinds.rfind(CALL, 0, start) > kinds.rfind(CONTROL, 0, start)):
            yield start, stop
        at = inner.find(1, stop)


def _joined(kinds: bytes) -> tuple[bytes, bytes]:
    """A byte an id, 1 where the id is not known to begin a word; and 1 where neither it nor the next one is.

    As numbers of a byte an id (little endian), since a loop in Python takes as long as all else that judging does.
    """
    n = len(kinds)
    begun, ended = int.from_bytes(kinds.translate(BEGUN), "little"), int.from_bytes(kinds.translate(ENDED), "little")
    row = (begun & ended << 8).to_bytes(n, "little").translate(ONES)
    joined = int.from_bytes(row, "little")
    return row, (joined & joined >> 8).to_bytes(n, "little")


def _open(ids: tuple[int, ...], vocab: Vocab, encode: Encode) -> tuple[int, ...]:
    """Places among the ids of a run that another spelling of one of its words would change."""
    try:
        text = vocab.decode_text(ids)
    except ProviderError:
        return tuple(range(len(ids)))  # it begins or ends within a character: no text that could be spelled anew
    edges = _edges(text, [len(vocab.token_bytes(i)) for i in ids])
    seams = {m.start() for seam in (SEAM, MORE_SEAMS) for m in seam.finditer(text)} & edges.keys()
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
    long = stop - start > LONG_WORD
    for run in LONG_RUN.finditer(text, start, stop) if long else ():
        first, last = bisect_right(at_edge, run.start()) - 1, bisect_left(at_edge, run.end())
        yield from range(edges[at_edge[first]], edges[at_edge[last]])
    for cut in range(start + 1, stop):
        low, high = start, stop
        if long:
            low = at_edge[max(bisect_right(at_edge, cut - NEAR) - 1, 0)]
            high = at_edge[min(bisect_left(at_edge, cut + NEAR), len(at_edge) - 1)]
        first, base = edges[low], list(ids[edges[low] : edges[high]])
        if long and encode(text[low:high]) != base:
            yield from range(first, edges[high])  # what is far away matters here: nobody can tell
            continue
        parts = [*encode(text[low:cut]), -1, *encode(text[cut:high])]
        if len(parts) == len(base):
            yield from (first + k for k, (a, b) in enumerate(zip(base, parts, strict=True)) if a != b)
