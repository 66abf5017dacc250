"""Evidence of many answers -> the equation of a provider's bill, or why none is proven.

An equation is a way to write what was sampled and an excess: completion_tokens = ids without the terminator + excess.
Knows nothing of keys and habits.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
        told_edges: Edges at which white space arrived; "content_end" also where lost white space would have changed
            the count.
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


class Vote(NamedTuple):
    """Who speaks for a value, and who against it."""

    value: str
    n_for: int
    n_against: int

    @property
    def carries(self) -> bool:
        return self.n_for >= MIN_FOR and self.n_for >= MIN_SHARE * (self.n_for + self.n_against)


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


def no_equation(found: Sequence[Equation], group: Sequence[Evidence]) -> str:
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
    if not offset_traits(best.excess, group[0]):
        return f"+{best.excess} is no sum of a terminator and a <think>"
    carrying = [q for q in found if Vote("", q.n, n_told - q.n).carries and offset_traits(q.excess, group[0])]
    if len({q.excess for q in carrying}) > 1:
        return "several equations fit: " + ", ".join(f"{'/'.join(q.way)} +{q.excess}" for q in carrying)
    return ""


def offset_traits(excess: int, e: Evidence) -> dict[str, str]:
    """The count traits whose sum is the excess; `offset` where one token could be either."""
    if e.finish == "length":
        return {"think_billed": "yes" if excess else "no"} if e.thinks_in_prompt and excess in (0, 1) else {}
    if not e.thinks_in_prompt:
        return {"terminator_billed": "yes" if excess else "no"} if excess in (0, 1) else {}
    both = {0: ("no", "no"), 2: ("yes", "yes")}.get(excess)
    if both:
        return {"terminator_billed": both[0], "think_billed": both[1]}
    return {"offset": "1"} if excess == 1 else {}


def style_vote(trait: str, found: Sequence[Equation], group: Sequence[Evidence]) -> Vote:
    """Answers that the first equation's value of one style fits, against those that it does not.

    Nobody speaks where no answer tells the value from another one, or where an equation with another one carries the
    vote too: then the two ways differ in two styles whose counts cancel, or the answers are all alike.
    """
    way, excess, _ = found[0]
    value = getattr(way, trait)
    if value == "minted":  # an invented id can be read in this way only: those answers alone speak
        return _fit(way, excess, [e for e in group if e.excess and all(w.call_id == "minted" for w in e.excess)])
    others = {v: way._replace(**{trait: v}) for v in {getattr(w, trait) for e in group for w in e.excess} - {value}}
    told = {v for v, other in others.items() if _tells(way, other, group)}
    own = _fit(way, excess, group)
    rivals = [q for q in found if getattr(q.way, trait) in told and q.excess == excess]
    if not told or any(Vote("", q.n, own.n_for + own.n_against - q.n).carries for q in rivals):
        return Vote(value, 0, 0)
    return Vote(value, own.n_for, own.n_against)


def _fit(way: Way, excess: int, group: Sequence[Evidence]) -> Vote:
    counted = [e.excess.get(way) == excess for e in group if e.excess]
    return Vote(way.call_id, sum(counted), len(counted) - sum(counted))


def _tells(way: Way, other: Way, group: Sequence[Evidence]) -> bool:
    """Whether some answer has another count under the other way, or cannot be read in it."""
    return any(e.excess.get(way) != e.excess.get(other) for e in group if way in e.excess)
