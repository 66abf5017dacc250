"""The ledger: one SQLite file that says what was asked, what was paid, what came and what it is worth.

The single source of truth of a bulk run, and the owner of sqlite. Writes are statements in groups, a transaction a
group (`ledger_writes` makes them); reads are rows in the order of the input, one at a time. Knows nothing of HTTP and
judges nothing.

    dataset, block   names, and the `provider` blocks that were sent
    job              a prompt that was tried: its request without the block, how it ended (NULL: open), and whether the
                     data sets still have it
    attempt          a request: reserved before it is sent; its cost is `settled_nano`, and while that is NULL the whole
                     reservation counts as spent
    answer           the raw bytes that came, one a job
    fragment         bytes that came and are no answer: cut bodies, errors of status 200, another provider's answer
    verdict          what the judge makes of them; can be computed anew
    meta, amendment  what the run is; that its file was changed, and why

Money is in nano-dollars, whole numbers.
"""

import sqlite3
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from harness.errors import SetupError
from runners.ledger_file import reader, told, writer
from runners.ledger_rows import ANSWERED, DAMAGED, SELECT, Known, Row, State, Totals, row_of, whole
from runners.ledger_sums import row_sum, wrong

__all__ = ["Ledger", "Row", "Totals", "open_ledger", "read_ledger"]

Statement = tuple[str, tuple[object, ...]]
Write = Iterable[Statement]
"""Statements that belong together; a generator is run by the thread that commits, so packing costs no one else time."""


class Ledger:
    """An open ledger; made by `open_ledger` (the one writer) or `read_ledger`. Close it, or use it in a `with`."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: IO[str] | None = None) -> None:
        self.path, self._db, self._lock = path, connection, lock
        self._turn = threading.RLock()  # a thread commits while the loop may look something up

    def __enter__(self) -> "Ledger":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of file and lock."""
        with told(self.path):
            self._db.close()
        if self._lock is not None:
            self._lock.close()

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, writes: Iterable[Write]) -> None:
        """All of them in one transaction, or none; when it returns they are on the disk.

        Raises:
            SetupError: Nothing was written: a full disk, a file that is damaged. What was committed before stays.
        """
        with told(self.path), self._turn:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for write in writes:
                    for sql, values in write:
                        self._db.execute(sql, values)
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    # --- reading ---------------------------------------------------------------------------------------------------

    def check(self, table: str | None = None) -> None:
        """Has SQLite look through the file or a table: every page, every row, its place in each index, whose it is.

        The whole of 20,000 answers of 3 KB, 250 MB, takes 0.25 s where the file is in memory; reading its rows 0.7 s.

        Raises:
            SetupError: Something is not where it belongs.
        """
        found = self._one(f"PRAGMA integrity_check({table or 1})")[0]
        if found != "ok":
            raise SetupError(f"{self.path}: {found!s:.200}; {DAMAGED}")
        orphan = None if table else self._one("PRAGMA foreign_key_check")
        if orphan is not None:
            raise SetupError(f"{self.path}: the {orphan[2]} of a row of {orphan[0]} is not there; {DAMAGED}")

    def rows(self, dataset: str | None = None) -> Iterator[Row]:
        """Every prompt that was tried, data sets in their order, prompts in the order of the input; one in memory."""
        chosen = "SELECT ds FROM dataset WHERE ?1 IS NULL OR name = ?1 ORDER BY place IS NULL, place, ds"
        with told(self.path):
            n_left = 0 if dataset else self._one("SELECT count(*) FROM job NOT INDEXED")[0]
            for (ds,) in self._db.execute(chosen, (dataset,)).fetchall():
                for row in self._where(f"j.ds = {ds:d}", "j.idx, j.job"):
                    n_left -= 1
                    yield row
        if n_left > 0:
            raise SetupError(f"{self.path}: {n_left:,} prompts are not where their order says; {DAMAGED}")

    def unjudged(self) -> Iterator[Row]:
        """Answers without a verdict."""
        return self._where("w.job IS NOT NULL AND v.job IS NULL")

    def unbilled(self, dataset: int) -> Iterator[Row]:
        """Answers of a data set, by its number, that are still asked and do not say how many tokens they have."""
        return self._where(f"coalesce(w.n_tokens, 0) < 1 AND w.job IS NOT NULL AND j.asked > 0 AND j.ds = {dataset:d}")

    def datasets(self) -> dict[str, int]:
        """Data set -> its number."""
        with told(self.path):
            return dict(self._db.execute("SELECT name, ds FROM dataset"))

    def known(self, dataset: int, prompt_ids: Sequence[str]) -> dict[str, Known]:
        """What is known of prompts by the number of their data set and their ids, few at a time.

        Raises:
            SetupError: Of one of them it is not what was written, or there is an answer where none is said to be.
        """
        marks = ",".join("?" * len(prompt_ids))
        sql = (
            f"SELECT prompt_id, {wrong('job', 'j')} OR j.end IS NOT '{ANSWERED}' AND EXISTS "
            "(SELECT 1 FROM answer w WHERE w.job = j.job), job, end, sha256 "
            f"FROM job j WHERE ds = ? AND prompt_id IN ({marks})"
        )
        with told(self.path), self._turn:
            rows = self._db.execute(sql, (dataset, *prompt_ids)).fetchall()
        for name, is_wrong, *_ in rows:
            if is_wrong:
                raise SetupError(
                    f"{self.path}: what it says of prompt {name!r:.100} is not what was written; {DAMAGED}"
                )
        return {name: Known(*found) for name, _, *found in rows}

    def body(self, job: int) -> bytes:
        """What is asked, without the provider block."""
        packed, digest = self._one("SELECT request, sha256 FROM job WHERE job = ?", job)
        return whole(packed, digest, f"{self.path}: the prompt of job {job}")

    def meta(self) -> dict[str, str]:
        """What the run is, as it was written."""
        return dict(self._checked("meta", "key, value", "key"))

    def amendments(self) -> list[tuple[float, str, str]]:
        """(unix time, sha256 of the run file, reason) of each change."""
        return self._checked("amendment", "at, run_sha256, reason", "at")

    def totals(self) -> Totals:
        """Sums over everything; reads each index once, checks both tables and holds every attempt against its sums.

        Raises:
            SetupError: Jobs or attempts are not what was written: nobody knows what was asked, or what was spent.
        """
        for table in ("job", "attempt"):
            self.check(table)
        self._refuse("attempt", self._one(f"SELECT 1 FROM attempt t WHERE {wrong('attempt', 't')} LIMIT 1") is not None)
        money = self._one(
            "SELECT coalesce(sum(settled_nano), 0), count(*), coalesce(sum(state = 'unknown'), 0), "
            "coalesce(sum(reserved_nano) FILTER (WHERE settled_nano IS NULL), 0) FROM attempt"
        )
        spent, n_attempts, n_unknown, reserved = money or (0, 0, 0, 0)
        ends = "SELECT name, coalesce(j.end, 'open'), sum(asked > 0) FROM job j JOIN dataset USING (ds) GROUP BY 1, 2"
        verdicts = (
            "SELECT d.name, coalesce(v.name, 'unjudged'), sum(j.asked > 0) FROM answer w JOIN job j USING (job) "
            "JOIN dataset d USING (ds) LEFT JOIN verdict v USING (job) GROUP BY 1, 2"
        )
        tokens = (
            "SELECT d.name, 'all', sum((j.asked > 0) * coalesce(max(w.n_tokens, 0), 0)) "
            "FROM answer w JOIN job j USING (job) JOIN dataset d USING (ds) GROUP BY 1"
        )
        n_tokens = {name: found["all"] for name, found in self._counted(tokens).items()}
        return Totals(spent, reserved, n_attempts, n_unknown, self._counted(ends), self._counted(verdicts), n_tokens)

    def numbers(self, table: Literal["job", "attempt"]) -> int:
        """The highest number given so far, 0 where there is none."""
        return int(self._one(f"SELECT coalesce(max({table}), 0) FROM {table}")[0])

    def unsettled(self) -> list[tuple[int, str, State, int, str | None]]:
        """(attempt, data set, state, reserved_nano, generation) where the cost is open; few: those under way."""
        columns = f"{wrong('attempt', 't')}, t.attempt, d.name, t.state, t.reserved_nano, t.generation"
        joined = "attempt t JOIN job USING (job) JOIN dataset d USING (ds)"
        with told(self.path):
            sql = f"SELECT {columns} FROM {joined} WHERE t.settled_nano IS NULL ORDER BY t.attempt"
            rows = self._db.execute(sql).fetchall()
        self._refuse("attempt", any(is_wrong for is_wrong, *_ in rows))  # whoever settles them writes new sums
        return [tuple(row) for _, *row in rows]

    def latest_verdicts(self, n: int) -> list[tuple[str, str, bytes]]:
        """(provider, verdict name, packed) of the last n verdicts, oldest first."""
        sql = (
            "SELECT coalesce(t.provider, ''), v.name, v.packed FROM answer w JOIN verdict v USING (job) "
            "JOIN attempt t ON t.attempt = w.attempt ORDER BY w.attempt DESC LIMIT ?"
        )
        with told(self.path):
            return self._db.execute(sql, (n,)).fetchall()[::-1]

    def lengths(self, n: int) -> list[tuple[str, int, float]]:
        """(data set, completion tokens, seconds under way) of the last n answers of each data set that have a bill."""
        sql = (
            "SELECT name, n_tokens, seconds FROM (SELECT d.name, w.n_tokens, t.ended_at - t.reserved_at AS seconds, "
            "row_number() OVER (PARTITION BY j.ds ORDER BY w.attempt DESC) AS place FROM answer w "
            "JOIN attempt t ON t.attempt = w.attempt JOIN job j ON j.job = w.job JOIN dataset d USING (ds) "
            "WHERE w.n_tokens > 0) WHERE place <= ?"
        )
        with told(self.path):
            return self._db.execute(sql, (n,)).fetchall()

    def named(self, table: Literal["dataset", "block"], value: str | bytes) -> int:
        """The number of a data set or block; writes it where it is new."""
        key, column = {"dataset": ("ds", "name"), "block": ("block", "json")}[table]
        summed = row_sum(0, *((value, None) if table == "dataset" else (value,)))
        self.commit([[(f"INSERT OR IGNORE INTO {table} ({column}, crc) VALUES (?, ?)", (value, summed))]])
        return int(self._one(f"SELECT {key} FROM {table} WHERE {column} = ?", value)[0])

    def _checked(self, table: str, columns: str, order: str) -> list[Any]:
        """The rows of a small table, held against their sums."""
        sql = f"SELECT {wrong(table, 't')}, {columns} FROM {table} t ORDER BY {order}"
        with told(self.path), self._turn:
            rows = self._db.execute(sql).fetchall()
        self._refuse(table, any(is_wrong for is_wrong, *_ in rows))
        return [tuple(row) for _, *row in rows]

    def _refuse(self, table: str, is_wrong: bool) -> None:
        if is_wrong:
            raise SetupError(f"{self.path}: the table {table} is not what was written; {DAMAGED}")

    def _where(self, fits: str, order: str = "j.job") -> Iterator[Row]:
        with told(self.path):
            yield from (row_of(self.path, row) for row in self._db.execute(f"{SELECT} WHERE {fits} ORDER BY {order}"))

    def _one(self, sql: str, *values: object) -> Any:
        with told(self.path), self._turn:
            return self._db.execute(sql, values).fetchone()

    def _counted(self, sql: str) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = {}
        with told(self.path):
            for dataset, what, n in self._db.execute(sql):
                found.setdefault(dataset, Counter())[what] = n
        return found


def open_ledger(path: Path) -> Ledger:
    """The ledger at `path` for the one process that may write it; made where there is none.

    Raises:
        SetupError: Another process holds it, the file is damaged or no ledger, or the folder cannot be written.
    """
    return Ledger(path, *writer(path))


def read_ledger(path: Path) -> Ledger:
    """The ledger at `path` for reading, also while another process writes it; nothing of it changes.

    Raises:
        SetupError: There is none, or the file is damaged or no ledger.
    """
    return Ledger(path, reader(path))
