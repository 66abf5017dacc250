"""What a bulk run writes into its ledger: one function an event, giving the statements that belong together.

Generators: they run in the thread that commits, so that packing and hashing keep no one waiting. Pure otherwise.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

from runners.jobs import Prompt
from runners.ledger import Statement, Write
from runners.ledger_rows import ANSWERED, NO_LONGER
from runners.tables import squeezed

__all__ = ["Write"]

NOTE_CHARS = 4000


def meta(**values: str) -> Iterator[Statement]:
    """Facts about the run; a new value replaces the old one."""
    for key, value in values.items():
        yield "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)


def amended(at: float, run_sha256: str, reason: str) -> Iterator[Statement]:
    """The run file was changed."""
    yield "INSERT INTO amendment VALUES (?, ?, ?)", (at, run_sha256, reason)


def datasets(names: Sequence[str]) -> Iterator[Statement]:
    """The data sets of the run in their order; others come after them."""
    yield "UPDATE dataset SET place = NULL", ()
    for k, name in enumerate(names):
        sql = "INSERT INTO dataset (name, place) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET place = excluded.place"
        yield sql, (name, k)


def placed(found: Iterable[tuple[int, int, int]]) -> Iterator[Statement]:
    """(job, its place in its data set, AS_SENT or OTHERWISE) of each job that is still asked; no other one is."""
    yield "CREATE TEMP TABLE found (job INTEGER PRIMARY KEY)", ()  # on disk where it is large
    for job, index, asked in found:
        yield "INSERT INTO found VALUES (?)", (job,)
        sql = "UPDATE job SET idx = ?2, asked = ?3 WHERE job = ?1 AND (idx <> ?2 OR asked <> ?3)"
        yield sql, (job, index, asked)
    yield "UPDATE job SET asked = ? WHERE job NOT IN (SELECT job FROM found)", (NO_LONGER,)
    yield "DROP TABLE found", ()


def job(number: int, dataset: int, prompt: Prompt) -> Iterator[Statement]:
    """A prompt is tried for the first time, or for the first time with this request."""
    packed, digest = squeezed(prompt.body), sha256(prompt.body).digest()
    values = (number, dataset, prompt.id, prompt.index, packed, digest, prompt.n_prompt, prompt.max_tokens)
    yield (
        "INSERT INTO job (job, ds, prompt_id, idx, request, sha256, n_prompt, max_tokens)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (job) DO UPDATE SET idx = excluded.idx, request = excluded.request, sha256 = excluded.sha256,"
        " n_prompt = excluded.n_prompt, max_tokens = excluded.max_tokens, end = NULL, note = NULL",
        values,
    )


def reserved(attempt: int, job: int, block: int, nano: int, at: float) -> Iterator[Statement]:
    """A request is about to be sent."""
    yield (
        "INSERT INTO attempt (attempt, job, block, state, reserved_nano, reserved_at)"
        " VALUES (?, ?, ?, 'reserved', ?, ?)",
        (attempt, job, block, nano, at),
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
    yield (
        "UPDATE attempt SET state = 'answered', ended_at = ?, status = 200, provider = ?, generation = ?, "
        "settled_nano = ?, settled_by = ? WHERE attempt = ?",
        (at, provider, generation, cost, None if cost is None else "usage", attempt),
    )
    packed, digest = squeezed(body), sha256(body).digest()
    yield "INSERT INTO answer VALUES (?, ?, ?, ?, ?)", (job, attempt, packed, digest, n_tokens)
    yield "UPDATE job SET end = ?, note = NULL WHERE job = ?", (ANSWERED, job)


def settled(attempt: int, nano: int, by: str) -> Iterator[Statement]:
    """What an attempt cost, and who said so: "usage", "generation", "reservation" (nobody), "none" (not billed)."""
    yield "UPDATE attempt SET settled_nano = ?, settled_by = ? WHERE attempt = ?", (nano, by, attempt)


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
    yield (
        "UPDATE attempt SET state = ?, ended_at = ?, failure = ?, note = ?, status = ?, provider = ?, generation = ? "
        "WHERE attempt = ?",
        (state, at, failure, note[:NOTE_CHARS], status, provider, generation, attempt),
    )


def fragment(attempt: int, body: bytes) -> Iterator[Statement]:
    """Bytes that came and are no answer, kept since they may have been paid for; none, no row."""
    if body:
        yield "INSERT INTO fragment VALUES (?, ?)", (attempt, squeezed(body))


def ended(job: int, end: str, note: str) -> Iterator[Statement]:
    """A prompt ends without an answer."""
    yield "UPDATE job SET end = ?, note = ? WHERE job = ?", (end, note[:NOTE_CHARS], job)


def judged(job: int, name: str, packed: bytes) -> Iterator[Statement]:
    """A verdict; a new one replaces the old one."""
    yield (
        "INSERT INTO verdict VALUES (?, ?, ?) ON CONFLICT (job) DO UPDATE SET name = excluded.name,"
        " packed = excluded.packed",
        (job, name, packed),
    )
