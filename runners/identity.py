"""What makes a run the run that it is: one canonical text, its sha256, and how two of them differ.

A resumed run must be the one that was begun. Where things lie (the output folder, the ticket's path) is no part of it.
"""

import hashlib
import json
from collections.abc import Sequence

from runners.data_sets import Surveyed, canonical
from runners.differences import differences
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
    told = differences(json.loads(old), json.loads(new))
    return tuple(f"{name}: {was} -> {now}" for name, was, now in told)
