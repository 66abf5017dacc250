"""What recordings say of providers, for a terminal: drift lines.

Knows nothing of how it was found out.
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.drift import Comparison
from harness.report import plain_table, printable

SHOWN = 3


def drift_lines(found: Comparison) -> Iterator[str]:
    """A line a change, then what was compared."""
    heads = ("provider", "what", "before", "now", "touches ids", "shown by")
    rows = []
    for d in found.drifts:
        touches = "yes" if d.touches_ids else "no"
        rows.append([*map(printable, (d.provider, d.aspect, d.old, d.new, touches, f"{_some(d.shown_by)}: {d.why}"))])
    if rows:
        yield from (*plain_table(heads, rows), "")
    n_touching = sum(d.touches_ids for d in found.drifts)
    yield f"{found.n_pairs} pairs compared; {len(rows)} changes, {n_touching} of them touch ids"
    for name, keys in (("before", found.only_old), ("now", found.only_new)):
        if keys:
            yield printable(f"only {name}: {_some(keys)}")


def drift_object(found: Comparison) -> dict[str, Any]:
    """The same for machines."""
    return {
        "pairs": found.n_pairs,
        "touches_ids": found.touches_ids,
        "drifts": [asdict(d) for d in found.drifts],
        "only_old": list(found.only_old),
        "only_new": list(found.only_new),
    }


def _some(keys: tuple[str, ...]) -> str:
    more = f" and {len(keys) - SHOWN} more" if len(keys) > SHOWN else ""
    return ", ".join(keys[:SHOWN]) + more
