"""Two recordings of the same requests -> what changed in what is billed, told apart by thinking and by finish.

Part of `drift`. The terminator is billed at the end of every whole answer, the prompt's `<think>` in every answer that
thinks, cut ones among them: so the kinds of answers whose bill moved tell which of the two it was.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from harness.equations import MIN_SHARE, Evidence, equations, no_equation
from harness.sightings import Change, Pair, Sighting

Group = tuple[bool, str]
"""Whether the answer thinks; stop, tool_calls or length."""
FINISHES = ("stop", "tool_calls")


def bill_drifts(pairs: Sequence[Pair]) -> Iterator[Change]:
    """Each part of the bill that changed."""
    groups: dict[Group, list[Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.old.turn and pair.new.turn and _group(pair.old) == _group(pair.new):
            groups[_group(pair.old)].append(pair)
    moved = {group: _moved(rows) for group, rows in groups.items()}
    prompts = {pair.key: d for pair in pairs if (d := _prompt_moved(pair)) is not None}
    think = _think_moved(moved, groups, prompts)
    yield from _named(moved, think, groups)
    yield from _prompt_drifts(prompts, think, groups)


def _group(s: Sighting) -> Group:
    assert s.turn is not None
    thinks = s.thinking if s.thinking is not None else s.evidence.thinking if s.evidence else bool(s.turn.reasoning)
    calls = bool(s.turn.tool_calls) or s.turn.shows_section
    return thinks, "length" if s.turn.finish_reason == "length" else "tool_calls" if calls else "stop"


def _billed(s: Sighting) -> int | None:
    return s.turn.usage.completion_tokens if s.turn and s.turn.usage else None


def _moved(pairs: Sequence[Pair]) -> int | None:
    """By how much the bill of one kind of answer moved; None where nothing tells.

    Answers that say the same tell it; else what the old and the new ones are explained by, where that is one equation.
    """
    told = [(pair, _billed(pair.old), _billed(pair.new)) for pair in pairs if pair.alike]
    found = Counter(new - old for _, old, new in told if old is not None and new is not None)
    by, n = found.most_common(1)[0] if found else (0, 0)
    if not n or n < MIN_SHARE * found.total():
        old, new = (_excess([s.evidence for s in side if s.evidence]) for side in _sides(pairs))
        return None if old is None or new is None else new - old
    # One pair proves a move only where nothing else differs: the model may have split its words in another way.
    return by if by == 0 or n > 1 or all(_same(pair) for pair, _, _ in told) else None


def _sides(pairs: Sequence[Pair]) -> tuple[list[Sighting], list[Sighting]]:
    return [pair.old for pair in pairs], [pair.new for pair in pairs]


def _excess(evidence: Sequence[Evidence]) -> int | None:
    """What is billed beside the ids, where the answers prove one equation."""
    found = equations(evidence)
    return found[0].excess if evidence and not no_equation(found, evidence) else None


def _same(pair: Pair) -> bool:
    old, new = pair.old.turn, pair.new.turn
    return old is not None and new is not None and (old.reasoning, old.content) == (new.reasoning, new.content)


def _prompt_moved(pair: Pair) -> int | None:
    """By how much the bill of one and the same prompt moved; None where it is not told."""
    usages = [s.turn.usage if s.turn else None for s in (pair.old, pair.new)]
    old, new = (u.prompt_tokens if u else None for u in usages)
    return None if not pair.old.request or pair.old.request != pair.new.request or not old or not new else new - old


# --- names ----------------------------------------------------------------------------------------------------------


def _think_moved(
    moved: Mapping[Group, int | None], groups: Mapping[Group, Sequence[Pair]], prompts: Mapping[str, int]
) -> int | None:
    """By how much the bill for the prompt's `<think>` moved; None where no kind of answer tells."""
    cut, told = moved.get((True, "length")), set()
    if cut is not None:
        told.add(cut)
    for finish in FINISHES:
        on, off = moved.get((True, finish)), moved.get((False, finish))
        told |= {on - off} if on is not None and off is not None else set()
    if not told:  # hosts that bill it with the answer bill it with the prompt no more
        told = {-prompts[p.key] for (thinks, _), rows in groups.items() if thinks for p in rows if p.key in prompts}
    return told.pop() if len(told) == 1 else None


def _named(
    moved: Mapping[Group, int | None], think: int | None, groups: Mapping[Group, Sequence[Pair]]
) -> Iterator[Change]:
    keys = {group: tuple(pair.key for pair in rows) for group, rows in groups.items()}
    if think:
        shown = [k for (thinks, _), listed in keys.items() if thinks for k in listed]
        yield _change("think_billed", think, shown, "all answers that think")
    rest: dict[tuple[str, int], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (thinks, finish), by in moved.items():
        of_think = think if thinks else 0
        if by is None or (finish == "length" and of_think is not None):
            continue
        left = by - (of_think or 0)
        trait = "terminator_billed" if of_think is not None else "offset"
        if left:
            rest[trait, left][finish] += keys[thinks, finish]
    for (trait, left), finishes in rest.items():
        shown = [key for listed in finishes.values() for key in listed]
        yield _change(trait, left, shown, f"finish {', '.join(sorted(finishes))}")


def _change(trait: str, by: int, keys: Sequence[str], where: str) -> Change:
    why = f"completion_tokens {by:+d} for the same ids ({where})"
    shown = tuple(sorted(keys))
    if abs(by) > 1 or trait == "offset":
        return Change("offset" if abs(by) == 1 else "completion_tokens", "as before", f"{by:+d}", True, shown, why)
    old, new = ("no", "yes") if by > 0 else ("yes", "no")
    return Change(trait, old, new, True, shown, why)


def _prompt_drifts(
    prompts: Mapping[str, int], think: int | None, groups: Mapping[Group, Sequence[Pair]]
) -> Iterator[Change]:
    """One prompt, two bills; a `<think>` that moved to the bill of the answer is told once."""
    thinking = {pair.key for (thinks, _), rows in groups.items() if thinks for pair in rows}
    by_move: dict[int, list[str]] = defaultdict(list)
    for key, by in prompts.items():
        left = by + (think or 0) if key in thinking and think and by == -think else by
        if left:
            by_move[left].append(key)
    for by, keys in sorted(by_move.items()):
        yield Change("prompt_tokens", "as before", f"{by:+d}", True, tuple(keys), f"{len(keys)} prompts sent twice")
