"""What recordings say of providers, for a terminal and for machines: drift, and the scoreboard.

Knows nothing of how it was found out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

from harness.drift import Comparison
from harness.habits import Habits
from harness.report import plain_table, printable
from harness.scoreboard import Score, habits_of
from harness.ticket import utc_text

SHOWN = 3


def drift_lines(found: Comparison) -> Iterator[str]:
    """A line a change, then what was compared."""
    heads, rows = drift_table(found)
    if rows:
        yield from (*plain_table(heads, [[*map(printable, row)] for row in rows]), "")
    n_touching = sum(d.touches_ids for d in found.drifts)
    yield f"{found.n_pairs} pairs compared; {len(rows)} changes, {n_touching} of them touch ids"
    for name, keys in (("before", found.only_old), ("now", found.only_new)):
        if keys:
            yield printable(f"only {name}: {_some(keys)}")
    if found.other_requests:
        told = tuple(f"{key} ({', '.join(names)})" for key, names in found.other_requests.items())
        yield printable(f"{len(told)} pairs asked otherwise, so that changes may be the requests' doing: {_some(told)}")


def drift_table(found: Comparison) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """(heads, rows), a row a change."""
    rows: list[tuple[str, ...]] = [
        (d.provider, d.aspect, d.old, d.new, "yes" if d.touches_ids else "no", f"{_some(d.shown_by)}: {d.why}")
        for d in found.drifts
    ]
    return ("provider", "what", "before", "now", "touches ids", "shown by"), rows


def drift_object(found: Comparison) -> dict[str, Any]:
    """The same for machines."""
    return {
        "pairs": found.n_pairs,
        "touches_ids": found.touches_ids,
        "drifts": [asdict(d) for d in found.drifts],
        "only_old": list(found.only_old),
        "only_new": list(found.only_new),
        "other_requests": {key: list(names) for key, names in found.other_requests.items()},
    }


def _some(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + more


VERDICTS = ("exact", "verified", "unverified", "rejected")
SCORE_HEADS = ("provider", "endpoint", "model", "answers", *VERDICTS, "evidence", "age", "rejected by", "habits")
SHOWN_HABITS = ("terminator_billed", "think_billed", "offset", "call_id", "arguments", "argument_keys", "spaces")
"""What decides most; --json tells all."""


def score_table(scores: Sequence[Score], habits: Habits, now: datetime) -> tuple[tuple[str, ...], list[list[str]]]:
    """(heads, rows), a row an endpoint and model."""
    rows = []
    for s in scores:
        known = habits_of(s, habits)
        shown = "; ".join(f"{trait} {known[trait]}" for trait in SHOWN_HABITS if trait in known)
        by = ", ".join(f"{code} {n}" for code, n in s.findings.most_common(SHOWN)) or "-"
        numbers = [str(s.answers), *(str(s.verdicts[name]) for name in VERDICTS), f"{s.good} of {s.speaking}"]
        rows.append([s.provider, s.tag or "?", s.model, *numbers, _age(s.newest, now), by, shown or "none known"])
    return SCORE_HEADS, rows


def score_lines(scores: Sequence[Score], habits: Habits, now: datetime) -> Iterator[str]:
    """The same as lines."""
    heads, rows = score_table(scores, habits, now)
    yield from plain_table(heads, [[*map(printable, row)] for row in rows])


def _age(newest: datetime | None, now: datetime) -> str:
    if newest is None:
        return "?"
    days = (now - newest) / timedelta(days=1)
    return f"{days:.1f} d" if days < 10 else f"{days:.0f} d"


def score_object(score: Score, habits: Habits) -> dict[str, Any]:
    """One row for machines."""
    return {
        "provider": score.provider,
        "tag": score.tag or None,
        "model": score.model,
        "quantization": score.quantization or None,
        "answers": score.answers,
        "verdicts": {name: score.verdicts[name] for name in VERDICTS},
        "rejected_by": dict(score.findings.most_common()),
        "kinds": dict(sorted(score.kinds.items())),
        "evidence": score.speaking,
        "good": score.good,
        "oldest": utc_text(min(score.at)) if score.at else None,
        "newest": utc_text(max(score.at)) if score.at else None,
        "habits": habits_of(score, habits),
    }
