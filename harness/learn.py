"""Evidence from answers -> habits: what is set, for which key, and what stays unknown.

A trait is set when at least MIN_FOR answers speak for it and at least MIN_SHARE of those that can speak agree. Knows
nothing of how an answer was read; `flow.evidence` makes one Evidence an answer.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from harness.habits import Habit

MIN_FOR = 5
MIN_SHARE = 0.9


class Way(NamedTuple):
    """How the sampled text is made from the wire; one value each of two style traits."""

    arguments: str
    call_id: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one answer can say about its provider.

    Attributes:
        finish: stop, tool_calls or length.
        thinks_in_prompt: Whether the prompt ended in `<think>`, so that a host may bill it.
        excess: For each way, completion_tokens - ids without the terminator. Where a stream showed another split than
            the canonical one, that split was counted.
        split: Whether a chunk ended inside a canonical id, by kind of channel ("chunks", "chunks_arguments"); missing
            where no boundary can speak.
        told_edges: Edges at which lost white space would change the count ("content_end"), or where some arrived.
        reasoning_excess: reasoning_tokens - ids of the reasoning; None where not told.
        keys_unsorted: Whether some arguments have keys out of order; None without two keys.
        wire: How the arguments came (spaced, compact, mixed), "" where nothing tells.
        edge_spaces: Whether each text that touches a control id has a space there; None where none does.
    """

    provider: str
    model: str
    format: str
    thinking: bool
    finish: str
    date: str
    thinks_in_prompt: bool = False
    excess: Mapping[Way, int] = field(default_factory=dict)
    split: Mapping[str, bool] = field(default_factory=dict)
    told_edges: frozenset[str] = frozenset()
    reasoning_excess: int | None = None
    keys_unsorted: bool | None = None
    edge_spaces: bool | None = None
    wire: str = ""


class Unknown(NamedTuple):
    """A trait that the evidence does not show, and why."""

    provider: str
    key: str
    trait: str
    why: str


class Vote(NamedTuple):
    """Who speaks for a value, and who against it."""

    value: str
    n_for: int
    n_against: int

    @property
    def carries(self) -> bool:
        return self.n_for >= MIN_FOR and self.n_for >= MIN_SHARE * (self.n_for + self.n_against)


Key = tuple[str, str, Literal["on", "off"] | str, str]


def learn(evidence: Iterable[Evidence]) -> tuple[list[Habit], list[Unknown]]:
    """Habits at the narrowest key that has the numbers, and what stays unknown."""
    rows = list(evidence)
    habits: list[Habit] = []
    unknown: list[Unknown] = []
    for level in ("model", "format"):
        for key, group in _groups(rows, lambda e, by=level: (e.provider, getattr(e, by), e.thinking, e.finish)):  # type: ignore[misc]
            made, missing = _counted(key, group, level)
            made = made or _by_wire(group, level)
            covered = level == "format" and _covered(group, habits)
            habits += [] if covered else made
            unknown += missing if level == "format" and not covered else []
    for key, group in _groups(rows, lambda e: (e.provider, e.finish)):
        made, missing = _styled(key, group, habits)
        habits += made
        unknown += missing
    return habits, unknown


def _by_wire(group: Sequence[Evidence], level: str) -> list[Habit]:
    """Two back ends behind one name may each write arguments in a way of their own: so each way is a key of its own."""
    rows = _groups(
        [e for e in group if e.wire], lambda e: (e.provider, getattr(e, level), e.thinking, e.finish, e.wire)
    )
    return [replace(habit, wire=part[0].wire) for key, part in rows for habit in _counted(key[:4], part, level)[0]]


def _groups(
    rows: Iterable[Evidence], key: Callable[[Evidence], tuple[object, ...]]
) -> Iterator[tuple[tuple[object, ...], list[Evidence]]]:
    groups: dict[tuple[object, ...], list[Evidence]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    yield from groups.items()


def _covered(group: Sequence[Evidence], habits: Sequence[Habit]) -> bool:
    """Whether every model of the group has lines of its own already."""
    told = {(h.provider, h.model, h.thinking, h.finish) for h in habits if h.model}
    return all((e.provider, e.model, _mode(e), e.finish) in told for e in group)


def _mode(e: Evidence) -> Literal["on", "off"]:
    return "on" if e.thinking else "off"


# --- traits of the count, and the styles that the count tells apart -------------------------------------------------


class Equation(NamedTuple):
    """completion_tokens = ids without the terminator, written in one way, + excess; and the answers it fits."""

    way: Way
    excess: int
    n: int


PLAIN = Way("as-sent", "as-sent")


def equations(group: Sequence[Evidence]) -> list[Equation]:
    """Every equation that fits some answer, the one that fits most first."""
    fits: Counter[tuple[Way, int]] = Counter()
    for e in group:
        fits.update((way, excess) for way, excess in e.excess.items())
    rows = [Equation(way, excess, n) for (way, excess), n in fits.items()]
    return sorted(rows, key=lambda q: (-q.n, q.way != PLAIN, abs(q.excess - 1)))


def _counted(key: tuple[object, ...], group: Sequence[Evidence], level: str) -> tuple[list[Habit], list[Unknown]]:
    provider, name, _, finish = (str(k) for k in key)
    found = equations(group)
    why = _no_equation(found, group)
    if why:
        where = f"{name}, thinking {_mode(group[0])}, {finish}"
        return [], [Unknown(provider, where, "terminator_billed", why)]
    way, excess, n = found[0]
    vote = Vote(str(excess), n, sum(1 for e in group if e.excess) - n)
    values = _offset_traits(excess, group[0])
    lines = [_line(group, level, trait, Vote(value, vote.n_for, vote.n_against)) for trait, value in values.items()]
    styles = [(trait, _style_vote(trait, way, excess, group)) for trait in Way._fields]
    return [*lines, *(_line(group, level, trait, style) for trait, style in styles if style.carries)], []


def _no_equation(found: Sequence[Equation], group: Sequence[Evidence]) -> str:
    """Why no equation is proven; "" where one is.

    Answers that are all alike (one call each, say) fit several: `NAME:0` with a terminator has the count of
    `functions.NAME:0` without one. Such answers prove neither.
    """
    if not found:
        return "no answer says what was billed"
    n_told = sum(1 for e in group if e.excess)
    best = found[0]
    if not Vote("", best.n, n_told - best.n).carries:
        return f"best equation (+{best.excess}) fits {best.n} of {n_told} answers"
    if not _offset_traits(best.excess, group[0]):
        return f"+{best.excess} is no sum of a terminator and a <think>"
    carrying = [q for q in found if Vote("", q.n, n_told - q.n).carries and _offset_traits(q.excess, group[0])]
    if len({q.excess for q in carrying}) > 1:
        return "several equations fit: " + ", ".join(f"{'/'.join(q.way)} +{q.excess}" for q in carrying)
    return ""


def _offset_traits(excess: int, e: Evidence) -> dict[str, str]:
    """The count traits whose sum is the excess; `offset` where one token could be either."""
    if e.finish == "length":
        return {"think_billed": "yes" if excess else "no"} if e.thinks_in_prompt and excess in (0, 1) else {}
    if not e.thinks_in_prompt:
        return {"terminator_billed": "yes" if excess else "no"} if excess in (0, 1) else {}
    both = {0: ("no", "no"), 2: ("yes", "yes")}.get(excess)
    if both:
        return {"terminator_billed": both[0], "think_billed": both[1]}
    return {"offset": "1"} if excess == 1 else {}


def _style_vote(trait: str, way: Way, excess: int, group: Sequence[Evidence]) -> Vote:
    """Answers that this value of one style fits, against those that it does not.

    Nobody speaks where no answer tells the value from another one, or where another one would carry the vote too.
    """
    own = _fit(way, excess, group)
    rivals = [way._replace(**{trait: v}) for v in {getattr(w, trait) for e in group for w in e.excess}]
    told = [r for r in rivals if r != way and _tells(way, r, group)]
    if getattr(way, trait) == "minted":  # an invented id can be read in this way only: those answers alone speak
        alone = [e for e in group if e.excess and all(w.call_id == "minted" for w in e.excess)]
        return _fit(way, excess, alone)
    if not told or any(_fit(rival, excess, group).carries for rival in told):
        return Vote(own.value, 0, 0)
    return Vote(getattr(way, trait), own.n_for, own.n_against)


def _fit(way: Way, excess: int, group: Sequence[Evidence]) -> Vote:
    counted = [e.excess.get(way) == excess for e in group if e.excess]
    return Vote(way.call_id, sum(counted), len(counted) - sum(counted))


def _tells(way: Way, other: Way, group: Sequence[Evidence]) -> bool:
    """Whether some answer has another count under the other way, or cannot be read in it."""
    return any(e.excess.get(way) != e.excess.get(other) for e in group if way in e.excess)


def _line(group: Sequence[Evidence], level: str, trait: str, vote: Vote) -> Habit:
    e = group[0]
    dates = sorted(d for d in (e.date for e in group) if d) or [""]
    return Habit(
        e.provider,
        trait,
        vote.value,
        model=e.model if level == "model" else "",
        format=e.format if level == "format" else "",
        thinking=_mode(e) if level in ("model", "format") else "",
        finish=e.finish,
        n_for=vote.n_for,
        n_against=vote.n_against,
        first=dates[0],
        last=dates[-1],
    )


# --- traits that hold for a provider and a finish, whatever the model -----------------------------------------------

EDGES = ("reasoning_start", "reasoning_end", "content_start", "content_end")


def _styled(
    key: tuple[object, ...], group: Sequence[Evidence], habits: Sequence[Habit]
) -> tuple[list[Habit], list[Unknown]]:
    provider, finish = (str(k) for k in key)
    fitting = [e for e in group if _fits(e, habits)]
    votes = [*_chunk_votes(group, fitting), *_edge_votes(group, fitting), *_other_votes(group)]
    lines = [_line(group, "", trait, vote) for trait, vote in votes if vote.carries]
    unknown = [
        Unknown(provider, finish, trait, f"{vote.n_for} answers for {vote.value!r}, {vote.n_against} against")
        for trait, vote in votes
        if not vote.carries
    ]
    return lines, unknown


def _fits(e: Evidence, habits: Sequence[Habit]) -> bool:
    """Whether the equation learned for its key explains this answer in some way."""
    lines = [h for h in habits if _matches(h, e)]
    table = {h.trait: h.value for h in lines}
    if not table:
        return False
    excess = int(table.get("offset", 0)) + sum(table.get(t) == "yes" for t in ("terminator_billed", "think_billed"))
    return excess in e.excess.values()


def _matches(h: Habit, e: Evidence) -> bool:
    asked = {"model": e.model, "format": e.format, "thinking": _mode(e), "finish": e.finish, "wire": e.wire}
    return h.provider == e.provider and all(getattr(h, k) in ("", v) for k, v in asked.items())


def _chunk_votes(group: Sequence[Evidence], fitting: Sequence[Evidence]) -> Iterator[tuple[str, Vote]]:
    """Text chunks speak by lying on canonical boundaries; arguments also by a bill that only their split explains."""
    for trait in ("chunks", "chunks_arguments"):
        spoke = [e for e in group if trait in e.split]
        good = sum(1 for e in spoke if not e.split[trait] or (trait == "chunks_arguments" and e in fitting))
        yield trait, Vote("tokens", good, len(spoke) - good)


def _edge_votes(group: Sequence[Evidence], fitting: Sequence[Evidence]) -> Iterator[tuple[str, Vote]]:
    """White space lost at an edge shows in the count unless it merged: an answer speaks where it could not merge."""
    for edge in EDGES:
        spoke = [e for e in group if edge in e.told_edges]
        good = sum(1 for e in spoke if e in fitting)
        yield edge, Vote("kept", good, len(spoke) - good)


def _other_votes(group: Sequence[Evidence]) -> Iterator[tuple[str, Vote]]:
    counted = [e.reasoning_excess for e in group if e.reasoning_excess is not None]
    for value, excess in (("ids", 0), ("ids+1", 1)):
        n = counted.count(excess)
        if n >= MIN_SHARE * max(len(counted), 1) or excess == 0:
            yield "reasoning_tokens", Vote(value, n, len(counted) - n)
            break
    spaced = [e.edge_spaces for e in group if e.edge_spaces is not None]
    if spaced:
        told = "inserted" if 2 * sum(spaced) > len(spaced) else "none"
        n = spaced.count(told == "inserted")
        yield "spaces", Vote(told, n, len(spaced) - n)
    keys = [e.keys_unsorted for e in group if e.keys_unsorted is not None]
    if keys:  # a sorted row speaks for nothing: many orders are sorted by nature
        yield "argument_keys", Vote("kept", keys.count(True), 0)
