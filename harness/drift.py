"""Two recordings of the same requests -> what the providers changed in between.

A change is told where two answers that say the same differ in it, where no model could have made it, or where chance
cannot explain the numbers; what another sample can explain is none. Pure; on the level of `flow`. What bills tell is
`drift_bills`' business.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

from harness.aspects import ASPECTS, Aspect
from harness.drift_bills import bill_drifts
from harness.flow import Kit
from harness.sightings import Change, Pair, sighting
from harness.types import Exchange

MAX_CHANCE = 0.003
"""Six answers of one kind against six of another are less likely than that to be one host's."""
MERGED = 1.5
"""Tokens a chunk that have grown or shrunk by this factor are another way of streaming."""
READ_FIELDS = frozenset(
    {
        *("choices", "message", "delta", "content", "reasoning", "reasoning_content", "reasoning_details"),
        *("tool_calls", "finish_reason", "provider", "model", "logprobs", "sglext"),
        *("token_ids", "prompt_token_ids", "response_token_ids"),
        *("usage", "prompt_tokens", "completion_tokens", "total_tokens"),
        *("completion_tokens_details", "reasoning_tokens"),
    }
)
"""Fields that a verdict is made of."""
READ_WHOLE = ("tool_calls", "logprobs", "sglext")


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that changed at one provider.

    Attributes:
        aspect: A trait of habits, a name of ASPECTS, "fields", "chunk_size", "prompt_tokens" or "completion_tokens".
        touches_ids: Whether it can change which ids an answer stands for.
        shown_by: Keys of the recordings that show it.
        why: What was seen, in words.
    """

    provider: str
    model: str
    aspect: str
    old: str
    new: str
    touches_ids: bool
    shown_by: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """All drifts, how many recordings were compared, and the keys of those that have no counterpart.

    Attributes:
        other_requests: Key -> members in which the requests of a pair differ: what changed may be their doing.
    """

    drifts: tuple[Drift, ...]
    n_pairs: int
    only_old: tuple[str, ...] = ()
    only_new: tuple[str, ...] = ()
    other_requests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def touches_ids(self) -> bool:
        """Whether any drift does."""
        return any(d.touches_ids for d in self.drifts)


def compare(old: Mapping[str, Exchange], new: Mapping[str, Exchange], kit: Kit) -> Comparison:
    """What changed from the old recordings to the new ones; equal keys are recordings of one request."""
    groups: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for key in sorted(old.keys() & new.keys()):
        pair = Pair(sighting(key, old[key], kit), sighting(key, new[key], kit))
        groups[pair.old.provider or pair.new.provider or "?", pair.old.model or pair.new.model or "?"].append(pair)
    drifts = []
    for (provider, model), pairs in sorted(groups.items()):
        found = [*aspect_drifts(pairs), *field_drifts(pairs), *chunk_drifts(pairs), *bill_drifts(pairs)]
        drifts += [Drift(provider, model, *change) for change in found]
    return Comparison(
        tuple(drifts),
        sum(map(len, groups.values())),
        tuple(sorted(old.keys() - new.keys())),
        tuple(sorted(new.keys() - old.keys())),
        {key: names for key in sorted(old.keys() & new.keys()) if (names := _differ(old[key], new[key]))},
    )


def _differ(old: Exchange, new: Exchange) -> tuple[str, ...]:
    """Members in which two requests differ; () where one of them is not known."""
    if not (old.request and new.request):
        return ()
    names = sorted(old.request.keys() | new.request.keys())
    return tuple(name for name in names if old.request.get(name) != new.request.get(name))


# --- what answers show ----------------------------------------------------------------------------------------------


def aspect_drifts(pairs: Sequence[Pair]) -> Iterator[Change]:
    """Each aspect that changed."""
    for name, aspect in ASPECTS.items():
        rows = [(pair, aspect.value(pair.old), aspect.value(pair.new)) for pair in pairs]
        seen = _Seen(Counter(o for _, o, _ in rows if o), Counter(n for _, _, n in rows if n))
        if not (seen.old and seen.new):
            continue
        found = _by_twins(aspect, rows, seen) or _by_proof(aspect, rows, seen) or _by_numbers(rows, seen)
        if found:
            old, new, keys, why = found
            yield Change(name, old, new, aspect.touches_ids, keys, why)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Values that the old and the new answers showed, with their numbers."""

    old: Counter[str]
    new: Counter[str]


Row = tuple[Pair, str | None, str | None]
Found = tuple[str, str, tuple[str, ...], str]


def _by_twins(aspect: Aspect, rows: Sequence[Row], seen: _Seen) -> Found | None:
    """Answers that say the same and differ in this.

    A host that went on mixing two values changed nothing, nor did one that always mixed values which only hosts make.
    """
    exact = aspect.exact or aspect.value
    moves: dict[tuple[str, str], list[str]] = defaultdict(list)
    for pair, old, new in rows:
        told = exact(pair.old), exact(pair.new)
        if pair.alike and old and new and None not in told and told[0] != told[1]:
            moves[(old, new) if old != new else (str(told[0]), str(told[1]))].append(pair.key)
    moves = {m: keys for m, keys in moves.items() if m[::-1] not in moves}
    moves = {
        m: keys for m, keys in moves.items() if m[1] not in seen.old or (m[0] not in seen.new and not aspect.proofs)
    }
    if not moves:
        return None
    (old_value, new_value), _ = max(moves.items(), key=lambda move: len(move[1]))
    keys = sorted({key for listed in moves.values() for key in listed})
    return old_value, new_value, tuple(keys), f"{len(keys)} answers that say the same"


def _by_proof(aspect: Aspect, rows: Sequence[Row], seen: _Seen) -> Found | None:
    for value in sorted(seen.new):
        if aspect.proofs and value.startswith(aspect.proofs) and value not in seen.old:
            keys = tuple(pair.key for pair, _, new in rows if new == value)
            return _common(seen.old), value, keys, f"seen in {len(keys)} answers, never before in {seen.old.total()}"
    return None


def _by_numbers(rows: Sequence[Row], seen: _Seen) -> Found | None:
    """The value whose share moved least likely by chance."""
    n_old, n_new = seen.old.total(), seen.new.total()
    chances = {v: chance(seen.old[v], n_old, seen.new[v], n_new) for v in seen.old | seen.new}
    value = min(sorted(chances), key=chances.__getitem__)
    if chances[value] > MAX_CHANCE:
        return None
    old, new = _common(seen.old), _common(seen.new)
    why = f"{value}: {seen.old[value]} of {n_old} before, {seen.new[value]} of {n_new} now"
    keys = tuple(pair.key for pair, _, now in rows if now is not None and (now == value) == (value != old))
    return old, new, keys, why


def _common(values: Counter[str]) -> str:
    return min(values, key=lambda value: (-values[value], value))


def chance(k_old: int, n_old: int, k_new: int, n_new: int) -> float:
    """Fisher's exact test, two-sided: how likely shares that differ that much are where nothing changed.

    >>> round(chance(6, 6, 0, 6), 5)
    0.00216
    """
    k, n = k_old + k_new, n_old + n_new
    ways = {i: comb(n_old, i) * comb(n_new, k - i) for i in range(max(0, k - n_new), min(k, n_old) + 1)}
    return sum(w for w in ways.values() if w <= ways[k_old]) / comb(n, k)


# --- fields ---------------------------------------------------------------------------------------------------------


def field_drifts(pairs: Sequence[Pair]) -> Iterator[Change]:
    """Fields that came, went, or came under another name."""
    both = [pair for pair in pairs if pair.same_kind]
    old = {path for pair in pairs for path in pair.old.fields}
    new = {path for pair in pairs for path in pair.new.fields}
    went = _outermost({path: keys for path in old - new if (keys := _shown(path, both, new=False))})
    came = _outermost({path: keys for path in new - old if (keys := _shown(path, both, new=True))})
    for path, keys in sorted(went.items()):
        twin = next((p for p in came if _parent(p) == _parent(path) and came[p] == keys), None)
        why = f"in {len(keys)} answers"
        if twin is None:
            yield Change("fields", path, "gone", _is_read(path), keys, why)
        else:
            del came[twin]
            yield Change("fields", path, twin, _is_read(path) or _is_read(twin), keys, why)
    for path, keys in sorted(came.items()):
        yield Change("fields", "absent", path, _is_read(path), keys, f"in {len(keys)} answers")


def _shown(path: str, pairs: Sequence[Pair], *, new: bool) -> tuple[str, ...]:
    """Keys of the pairs that show a field on one side; () where another sample could have had it or not."""
    keys = tuple(pair.key for pair in pairs if path in (pair.new if new else pair.old).fields)
    proven = any(pair.alike for pair in pairs if pair.key in keys)
    return keys if proven or chance(len(keys), len(pairs), 0, len(pairs)) <= MAX_CHANCE else ()


def _outermost(paths: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Without the members of what is listed itself."""
    return {p: keys for p, keys in paths.items() if not any(p.startswith((f"{q}.", f"{q}[")) for q in paths)}


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _is_read(path: str) -> bool:
    names = path.replace("[]", "").split(".")
    return names[-1] in READ_FIELDS or any(name in READ_WHOLE for name in names)


# --- chunks ---------------------------------------------------------------------------------------------------------


def chunk_drifts(pairs: Iterable[Pair]) -> Iterator[Change]:
    """Whether streams come in larger or smaller pieces."""
    told = [(p.key, p.old.tokens_a_chunk, p.new.tokens_a_chunk) for p in pairs]
    rows = [(key, old[0] / old[1], new[0] / new[1]) for key, old, new in told if old and new]
    moved = [(key, old, new) for key, old, new in rows if max(old / new, new / old) >= MERGED]
    if 2 * len(moved) > len(rows):
        keys, *sizes = zip(*moved, strict=True)
        old_size, new_size = (f"{sum(size) / len(size):.1f} tokens a chunk" for size in sizes)
        yield Change("chunk_size", old_size, new_size, False, keys, f"in {len(moved)} streams")
