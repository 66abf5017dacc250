"""Scenarios asked of pinned providers, each answer a cassette: whole, scrubbed, and of the provider that was asked.

One request at a time: vcrpy stands in for every client of the process. An existing cassette is kept, so a run that was
broken off is taken up by the same call and pays nothing twice. Knows nothing of verdicts.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from harness.cassette import load_recording
from harness.cassette_files import cassette_path, read_recording
from harness.cassette_text import cassette_text
from harness.catalog import Endpoint, endpoints_of
from harness.errors import HarnessError, ProviderError, SetupError
from harness.formats import same_model
from harness.matching import Sent, nearest, same, sent
from harness.recording import Interaction, Kind, Provenance, Recording, pair_of
from harness.records import receipt
from harness.response import parse
from harness.scenarios import Scenario
from harness.scrub import leaks
from harness.spending import Meter, OverBudgetError, cost_of, usd, worst_case
from harness.store import MAX_BYTES, write_atomic
from harness.tape import Gate, Tape, taking
from harness.transport import Call, NotSentError, Target, Transport

CHAT = "/chat/completions"
GOOD = frozenset({"recorded", "kept", "not-offered"})
"""Statuses after which nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Job:
    """One cassette to be: a scenario at an endpoint."""

    scenario: Scenario
    endpoint: Endpoint

    @property
    def name(self) -> str:
        """`provider/scenario`."""
        return f"{self.endpoint.slug}/{self.scenario.name}"


@dataclass(frozen=True, slots=True)
class Plan:
    """What holds for every job.

    Attributes:
        rewrite: Record again what exists.
        keep_errors: Write refusals of the provider too, as cassettes.
        now: UTC.
        timeout_s: Longest silence; longest_s: longest answer, since a stream may never end.
    """

    target: Target
    model: str
    folder: Path
    now: Callable[[], datetime]
    rewrite: bool = False
    keep_errors: bool = False
    timeout_s: float = 600.0
    longest_s: float = 1800.0


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one job.

    Attributes:
        status: recorded, kept, not-offered; stale, refused, failed, unpaid where something is left to do.
        cost: USD that were counted against the budget.
        before: Text of the cassette that was replaced, b"" where there was none.
    """

    name: str
    status: str
    path: str
    cost: Decimal = Decimal(0)
    reason: str = ""
    before: bytes = field(default=b"", repr=False)


async def offers(transport: Transport, model: str) -> tuple[Endpoint, ...]:
    """The endpoints of a model, with their prices.

    Raises:
        SetupError: Nobody answers there, or not with such a listing.
    """
    try:
        reply = await transport.send(Call("GET", f"/models/{model}/endpoints", read_timeout_s=60))
        if reply.status != 200:
            raise ProviderError(f"HTTP {reply.status}: {reply.body[:200].decode('utf-8', 'replace')}")
        return endpoints_of(reply.body)
    except HarnessError as error:
        raise SetupError(f"no prices and endpoints of {model}: {error}") from error


def to_ask(plan: Plan, jobs: Iterable[Job]) -> tuple[Job, ...]:
    """Those jobs that need a call."""
    return tuple(job for job in jobs if _standing(plan, job) is None)


def bound(plan: Plan, jobs: Iterable[Job]) -> Decimal:
    """The most that these jobs can cost, USD."""
    return sum((worst_case(_body(plan, job), job.endpoint) for job in jobs), Decimal(0))


async def record(plan: Plan, jobs: Iterable[Job], transport: Transport, meter: Meter) -> AsyncIterator[Row]:
    """A row a job, in order; each cassette is on disk before its row comes."""
    stopped = ""
    for job in jobs:
        row = _standing(plan, job)
        if row is None and stopped:
            row = Row(job.name, "unpaid", str(_path(plan, job)), reason=stopped)
        if row is None:
            row = await _recorded(plan, job, transport, meter)
        stopped = stopped or (row.reason if row.status == "unpaid" else "")
        yield row


def gate(meter: Meter, endpoint_of: Callable[[Sent], Endpoint]) -> Gate:
    """Lets a chat request out only where the budget has room for the most that it can cost."""

    def admit(token: int, asked: Sent) -> None:
        if asked.method.upper() == "POST":
            meter.reserve(token, worst_case(asked.body, endpoint_of(asked)))

    def settle(token: int, asked: Sent, reply: Interaction) -> None:
        if asked.method.upper() == "POST":
            refused = 400 <= reply.status < 500
            told = Decimal(str(receipt(reply.body)[1] or 0))
            meter.settle(token, told if refused else cost_of(reply.body, endpoint_of(asked)))

    return Gate(admit, settle)


def wrong_answer(body: bytes, endpoint: Endpoint, model: str) -> str:
    """Why an answer is not this endpoint's answer by this model, "" where it is.

    Raises:
        ProviderError: It is no answer.
    """
    turn = parse(body)
    if turn.provider != endpoint.provider_name:
        return f"{turn.provider!r} answered in the place of {endpoint.provider_name!r}, which was pinned"
    if not turn.model or not same_model(model, turn.model):
        return f"the model {turn.model!r} answered, {model!r} was asked"
    return ""


def kind_of(target: Target) -> Kind:
    """What a recording at this target is: on loopback never a live one."""
    return "emulator" if target.is_loopback else "live"


def keep(path: Path, tape: Tape, provenance: Provenance, known: Collection[str]) -> None:
    """Write what a tape took, all or nothing.

    Raises:
        SetupError: A secret is left in it, it is too long, or it cannot be written.
    """
    pairs = tuple(pair_of(one, gone) for one, gone in zip(tape.taken, tape.removed, strict=True))
    made = Recording(str(path), tuple(tape.taken), replace(provenance, pairs=pairs))
    left = [place for one in made.interactions for place in leaks(one, known)]
    text = cassette_text(made)
    if left or any(secret.lower().encode() in text.lower() for secret in known if secret):
        raise SetupError(f"{path}: not written, a secret is left in it ({', '.join(left) or 'the key'})")
    if len(text) > MAX_BYTES:
        raise SetupError(f"{path}: not written, it has more than {MAX_BYTES >> 20} MiB")
    if load_recording(str(path), text) != made:
        raise SetupError(f"{path}: not written, it would not read as it was recorded; please report this")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"{path.parent} cannot be made: {error.strerror or error}") from error
    write_atomic(path, text)


def _standing(plan: Plan, job: Job) -> Row | None:
    """The row of a job that needs no call, None where it is to be recorded."""
    path = _path(plan, job)
    if lacking := job.scenario.lacking(job.endpoint):
        return Row(job.name, "not-offered", str(path), reason=f"without {', '.join(lacking)}")
    if not path.exists():
        return None
    try:
        found = read_recording(path)
    except SetupError as error:
        return None if plan.rewrite else Row(job.name, "stale", str(path), reason=str(error))
    if found.provenance.is_live and plan.target.is_loopback:
        reason = "recorded live; what answers on loopback never replaces that, choose another --out"
        return Row(job.name, "refused", str(path), reason=reason)
    if plan.rewrite:
        return None
    asked = Sent("POST", plan.target.base_url + CHAT, _body(plan, job))
    known = [sent(one) for one in found.interactions]
    if any(same(one, asked) for one in known):
        return Row(job.name, "kept", str(path), reason=found.provenance.kind)
    near = nearest(asked, known)
    differs = f" in {near[1]}" if near else ""
    reason = f"what stands there ({found.provenance.kind}) differs{differs}; --rewrite records it anew"
    return Row(job.name, "stale", str(path), reason=reason)


async def _recorded(plan: Plan, job: Job, transport: Transport, meter: Meter) -> Row:
    path, known = _path(plan, job), _known(plan.target)
    before = meter.committed
    with taking(known, gate(meter, lambda _: job.endpoint)) as tape:
        try:
            async with asyncio.timeout(plan.longest_s):
                reply = await transport.send(Call("POST", CHAT, _body(plan, job), plan.timeout_s))
        except TimeoutError:
            reason = f"no end after {plan.longest_s:.0f} s; it may have been billed"
            return Row(job.name, "failed", str(path), meter.committed - before, reason)
        except OverBudgetError as error:
            return Row(job.name, "unpaid", str(path), reason=str(error))
        except NotSentError as error:
            meter.drop_open()
            return Row(job.name, "failed", str(path), reason=str(error))
        except HarnessError as error:
            return Row(job.name, "failed", str(path), meter.committed - before, str(error))
    cost = meter.committed - before
    try:
        wrong = wrong_answer(reply.body, job.endpoint, plan.model)
        if reply.status != 200:
            raise ProviderError(f"HTTP {reply.status}")
    except ProviderError as error:
        if not plan.keep_errors or error.retryable:
            return Row(job.name, "failed", str(path), cost, f"{error} {error.raw or ''}".strip())
        wrong = ""
    if wrong:
        return Row(job.name, "refused", str(path), cost, f"{wrong}; not written")
    if len(tape.taken) != 1:
        return Row(job.name, "failed", str(path), cost, "the transport slipped past vcrpy; nothing was recorded")
    old = path.read_bytes() if path.exists() else b""
    keep(path, tape, _provenance(plan, job, cost), known)
    return Row(job.name, "recorded", str(path), cost, f"${usd(cost)}", old)


def _provenance(plan: Plan, job: Job, cost: Decimal) -> Provenance:
    at = plan.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    end = job.endpoint
    return Provenance(
        kind_of(plan.target), at, plan.target.base_url, plan.model, job.scenario.name,
        end.tag, end.provider_name, end.quantization, f"{cost:f}",
    )  # fmt: skip


def _path(plan: Plan, job: Job) -> Path:
    return cassette_path(plan.folder, job.name)


def _body(plan: Plan, job: Job) -> bytes:
    return job.scenario.body(plan.model, job.endpoint)


def _known(target: Target) -> tuple[str, ...]:
    return (target.key,) if target.key else ()


def row_json(row: Row) -> str:
    """A row for a machine."""
    fields = {"name": row.name, "status": row.status, "path": row.path, "cost_usd": f"{row.cost:f}"}
    return json.dumps(fields | {"reason": row.reason}, ensure_ascii=False)
