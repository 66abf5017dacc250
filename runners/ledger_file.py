"""The file of a ledger: its lock, how it is opened, of which version it is, and what SQLite's errors mean.

Knows nothing of rows.
"""

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.errors import SetupError
from harness.store import path_trouble
from runners.ledger_rows import ADDED, DAMAGED, MARK, OLDER, SCHEMA, SETUP, STAMP
from runners.ledger_sums import row_sum

BUSY_S = 10.0


def writer(path: Path) -> tuple[sqlite3.Connection, IO[str]]:
    """A connection that may write, to a ledger of today: made, or brought up to date; and the lock that it holds.

    Raises:
        SetupError: Another process holds it, the file is damaged or no ledger, or the folder cannot be written.
    """
    lock = _locked(path)
    try:
        db = _connected(path, "rwc")
        with told(path):
            is_new = not db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            version = STAMP[1] if is_new else _version(path, db)  # first: of another's file nothing changes
            for pragma in SETUP:
                db.execute(f"PRAGMA {pragma}")
            if is_new:
                db.executescript(f"BEGIN; {SCHEMA} COMMIT;")
            if version in OLDER:
                added = "".join(
                    f"ALTER TABLE {table} ADD COLUMN {name} {kind};"
                    for table, _, lacking in _older_tables(db)
                    for name, (kind, _) in lacking.items()
                )
                db.executescript(f"BEGIN; {added} {MARK} COMMIT;")
    except BaseException:
        lock.close()
        raise
    return db, lock


def reader(path: Path) -> sqlite3.Connection:
    """A connection that reads only, of any version that can be read; the file stays of the version that it is.

    Raises:
        SetupError: There is none, or the file is damaged or no ledger.
    """
    if (trouble := path_trouble(path)) is not None or not path.is_file():
        what = trouble or "no ledger"
        raise SetupError(f"{path!s:.200}: {what}; expected the output folder of a `tokenproof generate`")
    db = _connected(path, "rw")  # a reader of a WAL file must be able to make its index
    with told(path):
        if _version(path, db) in OLDER:
            for table, names, lacking in _older_tables(db):
                columns = ", ".join([*names, *(f"{value} AS {name}" for name, (_, value) in lacking.items())])
                db.execute(f"CREATE TEMP VIEW {table} AS SELECT {columns} FROM main.{table}")
        db.execute("PRAGMA query_only = ON")
    return db


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    with told(path):
        uri = f"{path.resolve().as_uri()}?mode={mode}"
        # one connection for the thread that commits and the one that looks up; `Commits` keeps them apart
        db = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        db.create_function("row_sum", -1, row_sum, deterministic=True)
        return db


def _version(path: Path, db: sqlite3.Connection) -> int:
    """Of the ledger, one that can be read."""
    application, version = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("application_id", "user_version")
    )
    if application == STAMP[0] and version > STAMP[1]:
        said = f"a newer tokenproof wrote it (version {version} of ledgers, this one knows {STAMP[1]})"
        raise SetupError(f"{path}: {said}; update tokenproof")
    if application != STAMP[0] or version not in (*OLDER, STAMP[1]):
        raise SetupError(f"{path}: a database, but no ledger (stamped {application}, {version}); choose another folder")
    return version


def _older_tables(db: sqlite3.Connection) -> list[tuple[str, list[str], dict[str, tuple[str, str]]]]:
    """(table, its columns, those of ADDED that it lacks) of a ledger of an older version."""
    has = {table: [row[1] for row in db.execute(f"PRAGMA main.table_info({table})")] for table in ADDED}
    return [
        (table, names, {name: what for name, what in ADDED[table].items() if name not in names})
        for table, names in has.items()
    ]


def _locked(path: Path) -> IO[str]:
    """The lock beside the ledger; the kernel lets go of it when this process ends, however it ends."""
    try:
        lock = path.with_name(path.name + ".lock").open("a")
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}; choose an output folder that can") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise SetupError(f"{path}: another process is at work on this ledger; wait for it, or stop it first") from None
    except OSError as error:
        lock.close()
        said = f"{path} cannot be locked: {error.strerror}; choose an output folder on a disk of this machine"
        raise SetupError(said) from error
    return lock


HINTS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and run the same command again",
    sqlite3.SQLITE_IOERR: "the disk refused to read or write; see to it and run the same command again",
    sqlite3.SQLITE_READONLY: "it may not be written; choose an output folder that can",
    sqlite3.SQLITE_CANTOPEN: "it may not be opened; choose an output folder that can be written",
    sqlite3.SQLITE_NOTADB: "the file is no ledger, or its beginning is damaged; choose another output folder",
    sqlite3.SQLITE_ERROR: "the file is damaged and its tables are other ones, or it is a bug: please report that",
    sqlite3.SQLITE_BUSY: "another process holds it; wait for it, or stop it first",
}
"""What to do, by SQLite's primary result code."""
UNREADABLE = ("Could not decode to UTF-8", "user-defined function raised exception", "no such column", "cannot join")
"""How errors begin that only a damaged file gives: text that is none, read or summed; other names in the schema."""


@contextmanager
def told(path: Path) -> Iterator[None]:
    """SQLite's errors become one of ours; what was committed before stays as it is."""
    try:
        yield
    except UnicodeDecodeError as error:  # in SQLite's own message, which names what it found
        raise SetupError(f"{path}: text in it is no UTF-8; {DAMAGED}") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_CORRUPT or any(str(error).startswith(start) for start in UNREADABLE):
            raise SetupError(f"{path}: {error!s:.200}; {DAMAGED}") from error
        hint = HINTS.get(code, "a bug of tokenproof, please report it")
        raise SetupError(f"{path}: {error} ({hint}); everything committed before is safe") from error
