"""What a bulk run writes into its ledger: one function an event, giving the statements that belong together.

Generators: they run in the thread that commits, so that packing and hashing keep no one waiting. Pure otherwise.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from zlib import crc32

from runners.jobs import Prompt
from runners.ledger import Statement, Write
from runners.ledger_rows import ANSWERED, AS_SENT, NO_LONGER
from runners.ledger_sums import HEAD_BYTES, constant, row_sum
from runners.tables import squeezed

__all__ = ["Write"]

NOTE_CHARS = 4000
_OPEN, _ANSWERED, _UNBILLED = constant(None, None), constant(ANSWERED, None), constant(None, None)
_RESERVED = constant("reserved", None, None, None, None, None, None)
_JOB = (
    "INSERT INTO job (job, ds, prompt_id, idx, request, sha256, n_prompt, max_tokens, crc, place_crc, end_crc)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (job) DO UPDATE SET idx = excluded.idx, request = excluded.request, sha256 = excluded.sha256,"
    " n_prompt = excluded.n_prompt, max_tokens = excluded.max_tokens, end = NULL, note = NULL, crc = excluded.crc,"
    " place_crc = excluded.place_crc, end_crc = excluded.end_crc, asked = excluded.asked"
)


def meta(**values: str) -> Iterator[Statement]:
    """Facts about the run; a new value replaces the old one."""
    for key, value in values.items():
        sql = "INSERT INTO meta (key, value, crc) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
        yield f"{sql} value = excluded.value, crc = excluded.crc", (key, value, row_sum(0, key, value))


def amended(at: float, run_sha256: str, reason: str) -> Iterator[Statement]:
    """The run file was changed."""
    values = (float(at), run_sha256, reason)
    yield "INSERT INTO amendment (at, run_sha256, reason, crc) VALUES (?, ?, ?, ?)", (*values, row_sum(0, *values))


def datasets(names: Sequence[str]) -> Iterator[Statement]:
    """The data sets of the run in their order; others come after them."""
    yield "UPDATE dataset SET place = NULL, crc = row_sum(0, name, NULL)", ()
    for k, name in enumerate(names):
        sql = "INSERT INTO dataset (name, place, crc) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET"
        yield f"{sql} place = excluded.place, crc = excluded.crc", (name, k, row_sum(0, name, k))


def placed(found: Iterable[tuple[int, int, int]]) -> Iterator[Statement]:
    """(job, its place in its data set, AS_SENT or OTHERWISE) of each job that is still asked; no other one is."""
    yield "CREATE TEMP TABLE found (job INTEGER PRIMARY KEY)", ()  # on disk where it is large
    for job, index, asked in found:
        yield "INSERT INTO found VALUES (?)", (job,)
        sql = "UPDATE job SET idx = ?2, asked = ?3, place_crc = ?4 WHERE job = ?1 AND (idx <> ?2 OR asked <> ?3)"
        yield sql, (job, index, asked, row_sum(job, index, asked))
    sql = (
        "UPDATE job SET asked = ?1, place_crc = CASE WHEN place_crc = row_sum(job, idx, asked)"
        " THEN row_sum(job, idx, ?1) ELSE place_crc END"  # a wrong sum stays wrong
        " WHERE asked <> ?1 AND job NOT IN (SELECT job FROM found)"
    )
    yield sql, (NO_LONGER,)
    yield "DROP TABLE found", ()


def job(number: int, dataset: int, prompt: Prompt) -> Iterator[Statement]:
    """A prompt is tried for the first time, or for the first time with this request."""
    packed, digest = squeezed(prompt.body), sha256(prompt.body).digest()
    yield (
        _JOB,
        (
            *(number, dataset, prompt.id, prompt.index, packed, digest, prompt.n_prompt, prompt.max_tokens),
            row_sum(number, dataset, prompt.id, prompt.n_prompt, prompt.max_tokens, digest),
            row_sum(number, prompt.index, AS_SENT),
            crc32(_OPEN, number),
        ),
    )


def reserved(attempt: int, job: int, block: int, nano: int, at: float) -> Iterator[Statement]:
    """A request is about to be sent."""
    sums = row_sum(attempt, job, block, nano, float(at)), crc32(_RESERVED, attempt), crc32(_UNBILLED, attempt)
    yield (
        "INSERT INTO attempt (attempt, job, block, state, reserved_nano, reserved_at, crc, came_crc, bill_crc)"
        " VALUES (?, ?, ?, 'reserved', ?, ?, ?, ?, ?)",
        (attempt, job, block, nano, float(at), *sums),
    )


def answered(
    attempt: int,
    job: int,
    body: bytes,
    at: float,
    *,
    provider: str | None,
    generation: str | None,
    n_tokens: int | None = None,
    cost: int | None = None,
) -> Iterator[Statement]:
    """A whole answer came; None as its cost: `settled` writes it, once it is known."""
    by, at = None if cost is None else "usage", float(at)
    came = row_sum(attempt, "answered", at, 200, None, None, provider, generation)
    yield (
        "UPDATE attempt SET state = 'answered', ended_at = ?, status = 200, provider = ?, generation = ?, "
        "settled_nano = ?, settled_by = ?, came_crc = ?, bill_crc = ? WHERE attempt = ?",
        (at, provider, generation, cost, by, came, row_sum(attempt, cost, by), attempt),
    )
    packed, digest = squeezed(body), sha256(body).digest()
    values = (job, attempt, packed, digest, n_tokens, row_sum(job, attempt, digest, n_tokens))
    yield "INSERT INTO answer (job, attempt, body, sha256, n_tokens, crc) VALUES (?, ?, ?, ?, ?, ?)", values
    yield "UPDATE job SET end = ?, note = NULL, end_crc = ? WHERE job = ?", (ANSWERED, crc32(_ANSWERED, job), job)


def settled(attempt: int, nano: int, by: str) -> Iterator[Statement]:
    """What an attempt cost, and who said so: "usage", "generation", "reservation" (nobody), "none" (not billed)."""
    sql = "UPDATE attempt SET settled_nano = ?, settled_by = ?, bill_crc = ? WHERE attempt = ?"
    yield sql, (nano, by, row_sum(attempt, nano, by), attempt)


def failed(
    attempt: int,
    at: float,
    failure: str,
    note: str,
    *,
    state: str = "failed",
    status: int | None = None,
    provider: str | None = None,
    generation: str | None = None,
) -> Iterator[Statement]:
    """No answer came; `state` is "unknown" where it may have been billed. `note` is the host's own words."""
    values = (state, float(at), status, failure, note[:NOTE_CHARS], provider, generation)
    yield (
        "UPDATE attempt SET state = ?, ended_at = ?, status = ?, failure = ?, note = ?, provider = ?, generation = ?, "
        "came_crc = ? WHERE attempt = ?",
        (*values, row_sum(attempt, *values), attempt),
    )


def fragment(attempt: int, body: bytes) -> Iterator[Statement]:
    """Bytes that came and are no answer, kept since they may have been paid for; none, no row."""
    if body:
        yield "INSERT INTO fragment VALUES (?, ?)", (attempt, squeezed(body))


def ended(job: int, end: str, note: str) -> Iterator[Statement]:
    """A prompt ends without an answer."""
    values = (end, note[:NOTE_CHARS])
    yield "UPDATE job SET end = ?, note = ?, end_crc = ? WHERE job = ?", (*values, row_sum(job, *values), job)


def judged(job: int, name: str, packed: bytes) -> Iterator[Statement]:
    """A verdict; a new one replaces the old one."""
    yield (
        "INSERT INTO verdict (job, name, packed, crc) VALUES (?, ?, ?, ?) ON CONFLICT (job) DO UPDATE SET"
        " name = excluded.name, packed = excluded.packed, crc = excluded.crc",
        (job, name, packed, row_sum(job, name, packed[:HEAD_BYTES])),
    )
