"""Evidence from answers -> habits: what is set, for which key, and what stays unknown.

A trait is set when at least MIN_FOR answers speak for it and at least MIN_SHARE of those that can speak agree. Knows
nothing of how an answer was read; `flow.evidence` makes one Evidence an answer.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from harness.equations import MIN_SHARE, Evidence, Vote, Way, equations, no_equation, offset_traits, style_vote
from harness.habits import Habit

__all__ = ["Evidence", "Unknown", "Vote", "Way", "learn"]


class Unknown(NamedTuple):
    """A trait that the evidence does not show, and why."""

    provider: str
    key: str
    trait: str
    why: str


def learn(evidence: Iterable[Evidence], known: Iterable[Habit] = ()) -> tuple[list[Habit], list[Unknown]]:
    """Habits at the narrowest key that has the numbers, and what stays unknown.

    `known` are habits from elsewhere: where they tell a key's equation, only ways of writing that fit it are looked at.
    """
    rows, lines = list(evidence), list(known)
    habits: list[Habit] = []
    unknown: list[Unknown] = []
    for level in ("model", "format"):
        for key, group in _groups(rows, lambda e, by=level: (e.provider, getattr(e, by), e.thinking, e.finish)):  # type: ignore[misc]
            made, missing = _counted(key, group, level, lines)
            told = {(h.trait, h.value) for h in made}
            made += [h for h in _by_wire(group, level, lines) if (h.trait, h.value) not in told]
            covered = level == "format" and _covered(group, habits)
            habits += [] if covered else made
            unknown += missing if level == "format" and not covered else []
    for key, group in _groups(rows, lambda e: (e.provider, e.finish)):
        made, missing = _styled(key, group, habits)
        habits += made
        unknown += missing
    return habits, unknown


def _by_wire(group: Sequence[Evidence], level: str, known: Sequence[Habit]) -> list[Habit]:
    """Two back ends behind one name may each write arguments in a way of their own: so each way is a key of its own."""
    if len({e.wire for e in group if e.wire}) < 2:
        return []
    rows = _groups(
        [e for e in group if e.wire], lambda e: (e.provider, getattr(e, level), e.thinking, e.finish, e.wire)
    )
    return [
        replace(habit, wire=part[0].wire) for key, part in rows for habit in _counted(key[:4], part, level, known)[0]
    ]


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


def _counted(
    key: tuple[object, ...], group: Sequence[Evidence], level: str, known: Sequence[Habit]
) -> tuple[list[Habit], list[Unknown]]:
    provider, name, _, finish = (str(k) for k in key)
    told = _known_excess(group[0], known)
    found = [q for q in equations(group) if told in (None, q.excess)]
    why = no_equation(found, group)
    if why:
        where = f"{name}, thinking {_mode(group[0])}, {finish}"
        return [], [Unknown(provider, where, "terminator_billed", why)]
    _, excess, n = found[0]
    vote = Vote(str(excess), n, sum(1 for e in group if e.excess) - n)
    values = offset_traits(excess, group[0])
    lines = [_line(group, level, trait, Vote(value, vote.n_for, vote.n_against)) for trait, value in values.items()]
    styles = [(trait, style_vote(trait, found, group)) for trait in Way._fields]
    return [*lines, *(_line(group, level, trait, style) for trait, style in styles if style.carries)], []


def _known_excess(e: Evidence, known: Sequence[Habit]) -> int | None:
    """What habits from elsewhere say of completion_tokens - ids, for this answer's key; None where they do not."""
    told = {h.trait: h.value for h in known if _matches(h, e)}
    needed = ["terminator_billed"] * (e.finish != "length") + ["think_billed"] * e.thinks_in_prompt
    if any(trait not in told for trait in needed):
        return None
    return sum(told[trait] == "yes" for trait in needed)


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
    """An answer speaks for an edge by its bill: white space arrived there, or could not have been lost unseen."""
    for edge in EDGES:
        spoke = [e for e in group if edge in e.told_edges]
        good = sum(1 for e in spoke if e in fitting)
        yield edge, Vote("kept", good, len(spoke) - good)


def _other_votes(group: Sequence[Evidence]) -> Iterator[tuple[str, Vote]]:
    counted = [e.reasoning_excess for e in group if e.reasoning_excess is not None]
    for value, excess in (("ids", 0), ("ids+1", 1)):
        n = counted.count(excess)
        if n >= MIN_SHARE * max(len(counted), 1) or excess == 1:
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
