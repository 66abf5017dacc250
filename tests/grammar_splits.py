"""The same bytes in other ids: splits that a model may sample and an encoder never gives. Knows nothing of formats."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from harness.encoder import encode_ordinary, load_vocab


def resplit(ids: list[int], way: str, at: float) -> list[int]:
    """Ordinary ids changed at the first place from `at` on that allows it, else from the start."""
    start = int(len(ids) * at)
    for k in [*range(start, len(ids)), *range(start)]:
        made = SPLITS[way](ids, k)
        if made is not None:
            return made
    return ids


def _bytes(ids: Iterable[int]) -> bytes:
    return b"".join(load_vocab().ranks[i] for i in ids)


def _in_two(ids: list[int], k: int, n: int, cuts: Callable[[bytes], list[int]]) -> list[int] | None:
    """The `n` ids from `k` on as two others."""
    find, old = load_vocab().find, ids[k : k + n]
    data = _bytes(old)
    for cut in cuts(data) if len(old) == n else ():
        left, right = find(data[:cut]), find(data[cut:])
        if left is not None and right is not None and [left, right] != old:
            return [*ids[:k], left, right, *ids[k + n :]]
    return None


def _between_characters(data: bytes) -> list[int]:
    return [c for c in range(1, len(data)) if data[c] & 0xC0 != 0x80]


def _in_characters(data: bytes) -> list[int]:
    return [c for c in range(1, len(data)) if data[c] & 0xC0 == 0x80]


def _fewer(ids: list[int], k: int) -> list[int] | None:
    """Two or three ids as one, or three as two."""
    for n in (2, 3):
        joined = load_vocab().find(_bytes(ids[k : k + n])) if len(ids) >= k + n else None
        if joined is not None:
            return [*ids[:k], joined, *ids[k + n :]]
    return _in_two(ids, k, 3, _between_characters)


SPLITS: Mapping[str, Callable[[list[int], int], list[int] | None]] = {
    "one more": lambda ids, k: _in_two(ids, k, 1, _between_characters),
    "one more, in a character": lambda ids, k: _in_two(ids, k, 1, _in_characters),
    "as many": lambda ids, k: _in_two(ids, k, 2, _between_characters),
    "fewer": _fewer,
}


@cache
def unreachable() -> tuple[int, ...]:
    """Ids of whole characters that the canonical encoding of their own text never gives."""
    texts = ((i, token.decode("utf-8", "replace")) for i, token in enumerate(load_vocab().ranks))
    return tuple(i for i, text in texts if "\ufffd" not in text and encode_ordinary(text) != [i])
