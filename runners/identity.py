"""What makes a run the run that it is: one canonical text, its sha256, and how two of them differ.

A resumed run must be the one that was begun. Where things lie (the output folder, the ticket's path) is no part of it.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from runners.data_sets import Surveyed, canonical
from runners.runfile import RunFile


def canonical_run(run: RunFile, surveyed: Sequence[Surveyed]) -> str:
    """The run as canonical JSON; of each data set what would be sent, not how its file is written."""
    rows = {
        data.name: {"path": data.shown, "limit": data.limit, "tokens": data.tokens, "order": k, "requests": told.sha256}
        for k, (data, told) in enumerate(zip(run.data_sets, surveyed, strict=True))
    }
    whole = {
        "model": run.model,
        "thinking": run.thinking,
        "sampling": dict(run.sampling),
        "provider": dict(run.provider),
        "data": rows,
        "max_tokens": run.max_tokens,
        "concurrency": run.concurrency,
        "budget_usd": run.budget_usd,
        "base_url": run.base_url,
        "quality": {"max_rejected": run.max_rejected, "window": run.window},
    }
    return canonical(whole).decode()


def run_sha256(canonical_text: str) -> str:
    """The name of a run."""
    return hashlib.sha256(canonical_text.encode()).hexdigest()


def changes(old: str, new: str) -> tuple[str, ...]:
    """A line for each member in which two canonical runs differ; () where they are one run."""
    before, after = (dict(_members("", json.loads(text))) for text in (old, new))
    keys = sorted(set(before) | set(after))
    return tuple(
        f"{key}: {_said(before, key)} -> {_said(after, key)}" for key in keys if _said(before, key) != _said(after, key)
    )


def _members(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        yield where, value
        return
    for key, item in value.items():
        yield from _members(f"{where}.{key}" if where else key, item)


def _said(members: dict[str, Any], key: str) -> str:
    return json.dumps(members[key], ensure_ascii=False)[:80] if key in members else "absent"
