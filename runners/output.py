"""All that is written from a ledger: the samples, what was left out, and summary.json with the hashes of both.

Knows nothing of how the ledger was filled.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from harness.flow import Kit
from harness.store import write_atomic
from harness.ticket import Hashes
from runners import ledger_meta
from runners.ledger import Ledger
from runners.model_folder import file_sha256
from runners.samples import FILES, Taken, write
from runners.summary import Summary

LEDGER, SUMMARY, LOG = "ledger.sqlite3", "summary.json", "run.log"


def is_own(path: Path, folder: Path) -> bool:
    """Whether a run with this output folder writes a file of this path, there yet or not: ledger, samples, log."""
    target = path.resolve()
    named = target.name in (*FILES, SUMMARY, LOG) or target.name.startswith(LEDGER)  # with -wal, -shm and .lock
    return named and target.parent == folder.resolve()


def write_output(
    ledger: Ledger,
    kit: Kit,
    out: Path,
    *,
    used: Hashes | None = None,
    allow_unverified_prompt: bool = False,
    tick: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Write samples.parquet, samples.jsonl, rejected.parquet and, last, summary.json; gives what that says.

    The same ledger gives the same bytes. `used` as in `samples.all_taken`; `tick` is called once a row.

    Raises:
        SetupError: They cannot be written, or an answer is not judged yet.
    """
    meta = ledger.meta()
    summary = Summary(ledger_meta.asked(ledger))

    def seen(taken: Taken) -> None:
        tick()
        summary.add(taken)

    write(ledger, kit, out, used=used, allow_unverified_prompt=allow_unverified_prompt, seen=seen)
    told = summary.as_json(
        run_sha256=meta.get("run_sha256"),
        ticket_id=meta.get("ticket_id") or None,
        ungated="; ".join(sorted({*filter(None, [meta.get("ungated")]), *summary.ungated})) or None,
        dropped=ledger_meta.dropped(ledger),
        dropped_why=meta.get("dropped_why"),
        amendments=[{"at": at, "run_sha256": sha, "reason": why} for at, sha, why in ledger.amendments()],
        allow_unverified_prompt=allow_unverified_prompt,
        files={name: _file(out / name) for name in FILES},
    )
    write_atomic(out / SUMMARY, json.dumps(told, indent=1, ensure_ascii=False).encode() + b"\n")
    return told


def _file(path: Path) -> dict[str, Any]:
    try:
        return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
    except OSError as error:
        raise SetupError(f"{path}: just written, and cannot be read: {error.strerror or error}") from error
