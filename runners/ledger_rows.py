"""What the ledger gives: its schema, and the frozen values that its rows become.

Knows nothing of files and of who writes.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from harness.errors import SetupError
from runners.jobs import request_bytes
from runners.ledger_sums import PARTS, wrong
from runners.tables import unsqueezed

State = Literal["reserved", "answered", "failed", "unknown"]
"""Of an attempt: perhaps sent; a whole answer came; surely without one; perhaps billed, and nobody will ever know."""
ANSWERED = "answered"
"""How a prompt ends that was answered; the other ends are those of `backoff.ENDS`."""

DAMAGED = "the file is damaged: restore it from a copy, or begin the run again in another output folder"

NO_LONGER, AS_SENT, OTHERWISE = 0, 1, 2
"""Of a job: the data sets of the run do not have it any more; they have it; it is answered, and they have its prompt
with another max_tokens or other sampling now."""

STAMP = (0x746F6B70, 3)  # application_id "tokp" and user_version of a ledger of today; older ones: OLDER
MARK = f"PRAGMA application_id = {STAMP[0]}; PRAGMA user_version = {STAMP[1]};"
SETUP = (
    "page_size = 8192",  # of a new file: of answers of 1,000 tokens, which take 3 KB, 4 KiB hold one
    *("journal_mode = WAL", "synchronous = FULL"),
    "wal_autocheckpoint = 250",  # pages: a commit that has to do it takes 5 ms, not 20
)
SCHEMA = (
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER) STRICT;
CREATE TABLE amendment (at REAL NOT NULL, run_sha256 TEXT NOT NULL, reason TEXT NOT NULL, crc INTEGER) STRICT;
CREATE TABLE dataset (ds INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, place INTEGER, crc INTEGER) STRICT;
CREATE TABLE block (block INTEGER PRIMARY KEY, json BLOB NOT NULL UNIQUE, crc INTEGER) STRICT;
CREATE TABLE job (
  job INTEGER PRIMARY KEY, ds INTEGER NOT NULL REFERENCES dataset, prompt_id TEXT NOT NULL, idx INTEGER NOT NULL,
  request BLOB NOT NULL, sha256 BLOB NOT NULL, n_prompt INTEGER NOT NULL, max_tokens INTEGER NOT NULL,
  end TEXT, note TEXT, asked INTEGER NOT NULL DEFAULT 1, crc INTEGER, place_crc INTEGER, end_crc INTEGER,
  UNIQUE (ds, prompt_id)) STRICT;
CREATE INDEX job_order ON job (ds, idx);
CREATE TABLE attempt (
  attempt INTEGER PRIMARY KEY, job INTEGER NOT NULL REFERENCES job, block INTEGER NOT NULL REFERENCES block,
  state TEXT NOT NULL, reserved_nano INTEGER NOT NULL, settled_nano INTEGER, settled_by TEXT, reserved_at REAL NOT NULL,
  ended_at REAL, status INTEGER, failure TEXT, note TEXT, provider TEXT, generation TEXT,
  crc INTEGER, came_crc INTEGER, bill_crc INTEGER) STRICT;
CREATE INDEX attempt_job ON attempt (job);
CREATE TABLE answer (
  job INTEGER PRIMARY KEY REFERENCES job, attempt INTEGER NOT NULL REFERENCES attempt, body BLOB NOT NULL,
  sha256 BLOB NOT NULL, n_tokens INTEGER, crc INTEGER) STRICT;
CREATE TABLE fragment (attempt INTEGER PRIMARY KEY REFERENCES attempt, body BLOB NOT NULL) STRICT;
CREATE TABLE verdict (
  job INTEGER PRIMARY KEY REFERENCES answer, name TEXT NOT NULL, packed BLOB NOT NULL, crc INTEGER) STRICT;
"""
    + MARK
)
OLDER = frozenset({1, 2})
"""Versions that are read too: 1 has neither places of data sets nor jobs that are no longer asked, and both have no
checksums and cannot unpack what is written today."""
SUMS = {table: dict.fromkeys(parts, ("INTEGER", "NULL")) for table, parts in PARTS.items()}
ADDED: Mapping[str, Mapping[str, tuple[str, str]]] = MappingProxyType(
    SUMS
    | {
        "dataset": {"place": ("INTEGER", "NULL"), **SUMS["dataset"]},
        "job": {"asked": ("INTEGER NOT NULL DEFAULT 1", "1"), **SUMS["job"]},
    }
)
"""Table -> a column that older versions may lack -> what it is, and the value that their rows have."""
SELECT = f"""
SELECT d.name, j.prompt_id, j.idx, j.asked, j.request, j.n_prompt, j.max_tokens, j.end, j.note, j.job,
       (SELECT count(*) FROM attempt a WHERE a.job = j.job),
       (SELECT coalesce(sum(coalesce(a.settled_nano, a.reserved_nano)), 0) FROM attempt a WHERE a.job = j.job),
       w.body, w.sha256, w.n_tokens, t.attempt, t.ended_at, t.status, t.failure, t.provider, t.generation, v.name,
       v.packed, {wrong("verdict", "v")}, {wrong("job", "j")} OR {wrong("dataset", "d")},
       {wrong("answer", "w")} OR w.job IS NOT NULL AND t.job IS NOT j.job,
       {wrong("block", "b")} OR t.job IS NOT NULL AND b.block IS NULL
       OR (SELECT max({wrong("attempt", "a")}) FROM attempt a WHERE a.job = j.job), j.sha256, b.json
FROM job j JOIN dataset d USING (ds) LEFT JOIN answer w USING (job) LEFT JOIN verdict v USING (job)
LEFT JOIN attempt t ON t.attempt = coalesce(w.attempt, (SELECT max(a.attempt) FROM attempt a WHERE a.job = j.job))
LEFT JOIN block b USING (block)
"""


@dataclass(frozen=True, slots=True)
class Row:
    """All that the ledger knows of one prompt.

    Attributes:
        index: Its place in the data set, or the last one that it had.
        asked: NO_LONGER, AS_SENT or OTHERWISE.
        request: The bytes that were sent, with the provider block of the attempt that was answered (else the last).
        end: "answered", a name of `backoff.ENDS`, or None while it is open.
        cost_nano: Of all its attempts together; a reservation that is not settled counts whole.
        ended_at: Unix time in seconds at which the answer (or the last failure) came.
        n_tokens: Completion tokens of the answer as billed, None where not said.
        failure: Kind of the last failure where there is no answer.
        answer: The raw bytes, None where none came.
        verdict: What `verdicts.pack` made, None where nothing was judged; verdict_name says it in a word.
    """

    dataset: str
    id: str
    index: int
    asked: int
    request: bytes
    n_prompt: int
    max_tokens: int
    end: str | None
    note: str | None
    job: int
    n_attempts: int
    cost_nano: int
    answer: bytes | None
    answer_sha256: str | None
    n_tokens: int | None
    attempt: int | None
    ended_at: float | None
    status: int | None
    failure: str | None
    provider: str | None
    generation: str | None
    verdict_name: str | None
    verdict: bytes | None

    @property
    def request_sha256(self) -> str:
        """Of the bytes that were sent."""
        return hashlib.sha256(self.request).hexdigest()


UNREADABLE = b""
"""A verdict that is not what was written: `verdicts.unpack` refuses it, and `rejudge` makes another."""
_FIELDS = tuple(
    member.name for member in fields(Row)
)  # SELECT gives them in this order, then what is wrong, a hash and the block


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the whole ledger.

    Attributes:
        reserved_nano: Reservations that are not settled.
        ends: Per data set, jobs by their end; "open" where there is none. Here and below those that are still asked.
        verdicts: Per data set, answers by their verdict; "unjudged" where there is none.
        n_tokens: Per data set, completion tokens of all answers as billed.
    """

    spent_nano: int = 0
    reserved_nano: int = 0
    n_attempts: int = 0
    n_unknown: int = 0
    ends: Mapping[str, Counter[str]] = field(default_factory=dict)
    verdicts: Mapping[str, Counter[str]] = field(default_factory=dict)
    n_tokens: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """What a resumed run needs to know of a prompt that was tried before."""

    job: int
    end: str | None
    sha256: bytes


def row_of(path: Path, values: tuple[Any, ...]) -> Row:
    """A row of SELECT from the ledger at `path`.

    Raises:
        SetupError: Its prompt or its answer is not what was written.
    """
    *plain, verdict_is_wrong, job_is, answer_is, attempt_is, body_sha256, block = values
    known = dict(zip(_FIELDS, plain, strict=True))
    packed, digest = known["answer"], known["answer_sha256"]
    name = f"{path}: {known['dataset']}/{known['id']}"
    for what, is_wrong in (("what was asked", job_is), ("the answer", answer_is), ("an attempt", attempt_is)):
        if is_wrong:
            raise SetupError(f"{name}: {what} is not what was written: its checksum is another one; {DAMAGED}")
    if (known["end"] == ANSWERED) != (packed is not None):
        said = "is answered, and the answer is not there" if packed is None else "has an answer, and is not answered"
        raise SetupError(f"{name} {said}; {DAMAGED}")
    known["request"] = request_bytes(whole(known["request"], body_sha256, f"{name}: the prompt"), block or b"")
    known["answer"] = None if packed is None else whole(packed, digest, f"{name}: the answer")
    known["answer_sha256"] = None if digest is None else digest.hex()
    if verdict_is_wrong:
        known["verdict"] = UNREADABLE
    return Row(**known)


def whole(packed: bytes, digest: bytes, what: str) -> bytes:
    """The bytes that were stored, held against their sha256.

    Raises:
        SetupError: They are other ones.
    """
    try:
        found = unsqueezed(packed)
    except SetupError as error:
        raise SetupError(f"{what}: {error}; {DAMAGED}") from error
    if hashlib.sha256(found).digest() != digest:
        raise SetupError(f"{what} is not what was written: its sha256 is another one; {DAMAGED}")
    return found
