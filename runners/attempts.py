"""One attempt at one prompt: reserved, sent, told apart, written down, settled.

What came is told apart and is in the ledger before it is judged. Knows nothing of which prompt comes next.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import HarnessError, ProviderError
from harness.formats import same_model
from harness.records import receipt
from harness.response import parse
from harness.scrub import REMOVED, Scrubber
from harness.transport import Call, Reply, Transport, UnansweredError
from harness.types import Turn
from runners import ledger_writes as w
from runners.assess import Assess, Came
from runners.backoff import KINDS, Act, Charge, Failure, of_answer, of_error, of_reply
from runners.bills import cost_of, length_of
from runners.budget import nano_of
from runners.commits import Commits
from runners.desk import Desk
from runners.feed import Task
from runners.jobs import request_bytes
from runners.judging import Answer
from runners.ledger_rows import ANSWERED

PATH = "/chat/completions"
SCRUB = Scrubber()  # for what names accounts and keys other than ours, which the transport removes


@dataclass(frozen=True, slots=True)
class Outside:
    """What a run touches beside its ledger: the host, the clocks, chance.

    Attributes:
        clock: Seconds that only grow.
        now: Unix time in seconds.
        draw: A number in [0, 1).
        wait_s: (failure, how many of its kind, draw) -> seconds; as `backoff.wait_s`.
    """

    transport: Transport
    clock: Callable[[], float]
    now: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]
    draw: Callable[[], float]
    wait_s: Callable[[Failure, int, float], float]


@dataclass(frozen=True, slots=True)
class Sent:
    """A request under way.

    Attributes:
        number: Of the attempt in the ledger.
        reserved: Nano-dollars.
        request: The bytes that are sent.
        providers: Display names of those who may answer.
    """

    task: Task
    number: int
    reserved: int
    request: bytes
    providers: frozenset[str]


class Attempts:
    """Makes attempts; `ask` is one. Costs that have to be asked for are settled beside the requests.

    Args:
        next_number: Of the first attempt.
        block_number: Provider block -> its number in the ledger.
    """

    def __init__(
        self,
        desk: Desk,
        commits: Commits,
        assess: Assess,
        outside: Outside,
        next_number: int,
        block_number: Callable[[bytes], int],
    ) -> None:
        self._desk, self._commits, self._assess, self._outside = desk, commits, assess, outside
        self._next_number, self._block_number = next_number, block_number
        self._sending, self._settling = set[asyncio.Task[Any]](), set[asyncio.Task[None]]()

    async def ask(self, task: Task, reserved: int) -> Failure | None:
        """Send a prompt whose money is reserved; None where it is answered, or where nothing was sent any more.

        Raises:
            SetupError: The ledger cannot be written.
        """
        desk, number = self._desk, self._next_number
        self._next_number += 1
        block = self._block_number(desk.block)
        request = request_bytes(task.prompt.body, desk.block)
        sent = Sent(task, number, reserved, request, frozenset(e.provider_name for e in desk.endpoints))
        new = (w.job(task.job, task.dataset, task.prompt),) if task.new else ()
        await self._commits.put(*new, w.reserved(number, task.job, block, reserved, self._outside.now()))
        task.new = False
        if desk.stopped is not None:  # while we waited
            await self._failed(sent, Failure(KINDS["not-sent"], "the run stopped before it was sent", Charge.NOTHING))
            return None
        desk.n_requests += 1
        began = self._outside.clock()
        try:
            reply = await self._reply(Call("POST", PATH, request, desk.orders.read_timeout_s))
        except HarnessError as error:
            partial = error.partial if isinstance(error, UnansweredError) else b""
            return await self._failed(sent, of_error(error), partial)
        return await self._came(sent, reply, self._outside.clock() - began)

    async def _reply(self, call: Call) -> Reply:
        """The one part of an attempt that may be given up: what has come must reach the ledger and the judges."""
        asking = asyncio.current_task()
        assert asking is not None, "each attempt is a task"
        self._sending.add(asking)
        try:
            return await self._outside.transport.send(call)
        finally:
            self._sending.discard(asking)

    async def _came(self, sent: Sent, reply: Reply, took_s: float) -> Failure | None:
        now = self._outside.now()
        if reply.status != 200:
            return await self._failed(sent, of_reply(reply.status, reply.headers, reply.body, now), reply.body)
        try:
            turn = parse(reply.body)
        except ProviderError as error:
            return await self._failed(sent, of_answer(error, reply.headers, now), reply.body)
        if reply.echoed and _says(turn, REMOVED):
            kind = KINDS["key-echoed"]
            text = "the host put the API key into the text of an answer; it was removed, so nobody can judge the text"
            return await self._failed(sent, Failure(kind, text, kind.charge, turn.provider, 200), reply.body)
        if another := self._another(turn, sent):
            return await self._failed(sent, another, reply.body)
        await self._answered(sent, reply.body, turn, took_s)
        return None

    def _another(self, turn: Turn, sent: Sent) -> Failure | None:
        """An answer of somebody else than was asked."""
        asked, kind = self._desk.orders.model, None
        if turn.provider not in sent.providers:
            expected = " or ".join(sorted(sent.providers))
            kind, text = KINDS["wrong-provider"], f"{turn.provider!r} answered, expected {expected}"
        elif turn.model and not same_model(asked, turn.model):
            kind, text = KINDS["wrong-model"], f"the model {turn.model!r:.200} answered, {asked!r} was asked"
        return Failure(kind, text, kind.charge, turn.provider, 200) if kind else None

    async def _answered(self, sent: Sent, body: bytes, turn: Turn, took_s: float) -> None:
        """Into the ledger, and then to the judges."""
        desk, prompt = self._desk, sent.task.prompt
        usage, generation = turn.usage, turn.id and SCRUB.said(turn.id)
        cost = self._believed(usage.cost if usage else None)
        said, n_tokens = usage.completion_tokens if usage else None, length_of(turn)
        provider = turn.provider or ""
        if cost is not None:
            desk.settle(prompt.dataset, sent.reserved, cost)
        desk.pace.answered(self._outside.clock(), took_s, desk.in_flight)
        at = self._outside.now()
        await self._commits.put(
            w.answered(
                *(sent.number, sent.task.job, body, at),
                provider=provider,
                generation=generation,
                n_tokens=None if said is None or said < 0 else said,
                cost=cost,
            )
        )
        desk.ended(prompt.dataset, ANSWERED, n_tokens)
        answer = Answer(f"{prompt.dataset}/{prompt.id}", sent.request, body)
        self._assess.add(Came(sent.task.job, prompt.dataset, provider, n_tokens, answer))
        if cost is None:
            self.settle_later(sent.number, prompt.dataset, sent.reserved, generation)

    async def _failed(self, sent: Sent, failure: Failure, body: bytes = b"") -> Failure:
        """Into the ledger, with the words of the host and what is booked."""
        desk, dataset = self._desk, sent.task.prompt.dataset
        failure = replace(
            failure, text=SCRUB.said(failure.text), provider=failure.provider and SCRUB.said(failure.provider)
        )
        body = SCRUB.body(body, "", [])
        generation, usd = receipt(body)
        cost = self._believed(usd)
        paid, by = booked(failure.charge, sent.reserved, cost, generation)
        state = "unknown" if by == "reservation" else "failed"
        writes = [
            w.failed(
                *(sent.number, self._outside.now(), failure.kind.name, failure.text),
                state=state,
                status=failure.status,
                provider=failure.provider,
                generation=generation,
            )
        ]
        if failure.status in (None, 200):
            writes.append(w.fragment(sent.number, body))
        if paid is not None:
            desk.settle(dataset, sent.reserved, paid)
            writes.append(w.settled(sent.number, paid, by))
        await self._commits.put(*writes)
        wasted = failure.kind.name == "no-answer" or bool(cost)
        if failure.status == 200 and wasted and failure.kind.act not in (Act.STOP_RUN, Act.STOP_DATASET):
            self._assess.no_answer(failure.provider, sent.providers)
        if paid is None:
            self.settle_later(sent.number, dataset, sent.reserved, generation)
        return failure

    def _believed(self, usd: float | None) -> int | None:
        """A cost as told; one of nothing at a host that has prices is not believed, but asked for."""
        price = self._desk.orders.price
        if usd is None or not 0 <= usd < float("inf") or (usd == 0 and price.prompt + price.completion > 0):
            return None
        return nano_of(usd)

    # --- costs that are not told -----------------------------------------------------------------------------------

    def settle_later(self, number: int, dataset: str, reserved: int, generation: str | None) -> None:
        """Ask for a cost while the run goes on; the whole reservation stays booked until it is known."""
        task = asyncio.create_task(self._settle(number, dataset, reserved, generation))
        self._settling.add(task)
        self._desk.settling += 1
        task.add_done_callback(self._settled)

    async def _settle(self, number: int, dataset: str, reserved: int, generation: str | None) -> None:
        cost = await cost_of(self._outside.transport, generation, self._outside.sleep) if generation else None
        paid, by = (reserved, "reservation") if cost is None else (cost, "generation")
        self._desk.settle(dataset, reserved, paid)
        await self._commits.put(w.settled(number, paid, by))

    def _settled(self, task: "asyncio.Task[None]") -> None:
        self._settling.discard(task)
        self._desk.settling -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            self._desk.failed(error)
        self._desk.changed.set()

    async def finish(self) -> None:
        """Until every cost is settled."""
        while self._settling:
            await asyncio.wait(self._settling)

    def give_up(self) -> None:
        """Wait for no reply any more, and ask for no cost; the next run will."""
        for task in (*self._sending, *self._settling):
            task.cancel()


def booked(charge: Charge, reserved: int, cost: int | None, generation: str | None) -> tuple[int | None, str]:
    """What an attempt without an answer costs, in nano-dollars, and who says so, as `ledger_writes.settled` has it.

    None: its generation will be asked, and until then its whole reservation counts.
    """
    if charge is Charge.NOTHING:
        return cost or 0, "usage" if cost else "none"
    if cost is not None:
        whole = charge is Charge.WHOLE and cost < reserved  # of what broke off, what it says may be a part
        return (reserved, "reservation") if whole else (cost, "usage")
    return (None, "generation") if generation else (reserved, "reservation")


def _says(turn: Turn, text: str) -> bool:
    """Whether it stands in what was sampled."""
    calls = (part for call in turn.tool_calls for part in (call.id, call.name, call.arguments))
    return any(text in (part or "") for part in (turn.reasoning, turn.content, *calls))
