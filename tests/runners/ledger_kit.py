"""What the tests of bulk generation share: prompts, and the ways of a prompt through a ledger."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from runners import ledger_writes as w
from runners.jobs import Prompt
from runners.ledger import Ledger, Statement, open_ledger
from runners.ledger_sums import PARTS, row_sum

BLOCK = b'{"only":["chutes/int4"],"allow_fallbacks":false}'


def prompt(n: int, dataset: str = "a", **fields: object) -> Prompt:
    """The n-th prompt of a data set."""
    made = {"dataset": dataset, "id": f"p{n}", "index": n, "body": b'{"n":%d}' % n, "n_prompt": 9, "max_tokens": 99}
    return Prompt(**made | fields)  # type: ignore[arg-type]


def answered(ledger: Ledger, n: int, body: bytes = b"{}", dataset: str = "a", cost: int | None = 7) -> None:
    """Prompt n is asked and answered; its job and its attempt have the number n + 1 + 1000 * the data set's."""
    ds, block = ledger.named("dataset", dataset), ledger.named("block", BLOCK)
    number = n + 1 + 1000 * (ds - 1)
    ledger.commit([w.job(number, ds, prompt(n, dataset)), w.reserved(number, number, block, 100, 1.0)])
    ledger.commit(
        [w.answered(number, number, body, 2.0, provider="Chutes", generation=f"gen-{n}", n_tokens=5, cost=cost)]
    )


def unanswered(job: int) -> Iterator[Statement]:
    """As if the answer of this job had not come."""
    yield "DELETE FROM verdict WHERE job = ?", (job,)
    yield "DELETE FROM answer WHERE job = ?", (job,)
    yield "UPDATE job SET end = NULL, end_crc = ? WHERE job = ?", (row_sum(job, None, None), job)


def as_of_version(path: Path, version: int) -> None:
    """Makes a ledger what an older version wrote: 2 had no checksums, 1 neither places nor what is no longer asked."""
    lacked = [(table, column) for table, parts in PARTS.items() for column in parts]
    lacked += [("job", "asked"), ("dataset", "place")] if version == 1 else []
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for sql in (*(f"ALTER TABLE {t} DROP COLUMN {c}" for t, c in lacked), f"PRAGMA user_version = {version}"):
            db.execute(sql)


def made(folder: Path) -> Ledger:
    """A ledger in a folder."""
    return open_ledger(folder / "ledger.sqlite3")
