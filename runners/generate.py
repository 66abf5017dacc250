"""Live bulk generation: prompts in, a ledger out; never a paid answer lost, never a dollar above the cap.

    run = Run(orders, ledger, reader, prompts, judges, outside, watch)
    stop = await run.run()        # run.interrupt() drains it, a second one ends it

The one loop that decides what is sent next and when. What an attempt is stands in `attempts`, what is known in `desk`.
"""

import asyncio
import gc
import heapq
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import cache, partial
from itertools import count

from harness.errors import SetupError
from runners import ledger_writes as w
from runners.assess import Assess
from runners.attempts import Attempts, Outside
from runners.backoff import Act, Failure
from runners.budget import NANO, worst_case
from runners.commits import Commits
from runners.desk import Desk, Orders
from runners.feed import Feed, Task
from runners.jobs import Prompt
from runners.judging import Judges
from runners.ledger import Ledger
from runners.progress import Progress, Stop, Watch
from runners.recovery import dropped, recover

WATCH_S = 0.25
RECHECK_S = 600.0  # of endpoints and prices: an answer does not say which variant gave it
LONGEST_WAIT_S = 1.0  # after which the loop looks again, whatever happened
GAVE_UP = "gave-up"


class Run:
    """One run, or the next part of one; make it in a running loop.

    Args:
        ledger: The one that may be written.
        reader: The same one, open for reading alone.
        prompts: All prompts of the run in their order; done ones are passed over.

    Attributes:
        recheck: Asked every RECHECK_S: why the run may not go on, None where it may.
    """

    recheck: Callable[[], Awaitable[str | None]] | None = None

    def __init__(
        self,
        orders: Orders,
        ledger: Ledger,
        reader: Ledger,
        prompts: Iterator[Prompt],
        judges: Judges,
        outside: Outside,
        watch: Watch,
    ) -> None:
        self._reader, self._outside, self._watch = reader, outside, watch
        self._owed = recover(ledger, outside.now())
        self.desk = Desk(orders, ledger.totals(), dropped(ledger), outside.clock)
        self.desk.dropped_why = ledger.meta().get("dropped_why", "")
        self.commits = Commits(ledger, outside.clock)
        self._assess = Assess(self.desk, judges, self.commits)
        first, blocks = ledger.numbers("attempt") + 1, cache(partial(ledger.named, "block"))
        self._attempts = Attempts(self.desk, self.commits, self._assess, outside, first, blocks)
        numbers = {name: ledger.named("dataset", name) for name in orders.datasets}
        self._feed = Feed(prompts, reader, numbers, next_job=ledger.numbers("job") + 1, amended=orders.amended)
        self._asking: set[asyncio.Task[None]] = set()
        self._ready: deque[Task] = deque()
        self._retries: list[tuple[float, int, Task]] = []
        self._order = count()
        self._bug: BaseException | None = None

    async def run(self) -> Stop:
        """Until everything is done, or something stops it; all that came is in the ledger then.

        Raises:
            Exception: A bug of ours, after everything under way has come in.
        """
        beside = [asyncio.create_task(work) for work in (self._tick(), self._check())]
        gc.freeze()  # a vocabulary and all that else was there before: looked through again and again for nothing
        try:
            self._assess.begin(self._reader)
            for owed in self._owed:
                self._attempts.settle_later(owed.number, owed.dataset, owed.reserved, owed.generation)
            await self._send_all()
        except SetupError as error:
            self.desk.stop("input", str(error))
        finally:
            while self._asking:
                await asyncio.wait(self._asking)
            await self._attempts.finish()
            await self._assess.finish()
            await self.commits.close()
            for task in beside:
                task.cancel()
            gc.unfreeze()
        if self._bug is not None:
            raise self._bug
        stop = self.desk.stopped
        assert stop is not None, "nothing else ends the loop"
        if self.desk.n_lost:
            text = (
                f"{stop.text}; {self.desk.n_lost} requests could not be written down: perhaps paid, asked again later"
            )
            stop = self.desk.stopped = Stop(stop.why, text)
        self._watch(self.progress())
        return stop

    def interrupt(self) -> None:
        """Ctrl-C: once, nothing more is sent and what is under way comes in; again, that is given up too."""
        if self.desk.stopped is None:
            text = "nothing more is sent; what is under way still comes in (Ctrl-C again gives it up, perhaps paid)"
            self.desk.stop("interrupted", text)
            return
        self._attempts.give_up()

    def progress(self) -> Progress:
        """The run at this moment."""
        return self.desk.progress(len(self._retries) + len(self._ready), self._assess.n_waiting)

    # --- what is sent next -----------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        desk = self.desk
        while desk.stopped is None:
            if closed_s := self._closed_s():
                await self._pause(closed_s)
                continue
            task = await self._next()
            if task is None and not self._asking and not self._retries:
                done = "data-set" if desk.broken else "done"
                desk.stop(done, "; ".join(f"{name}: {desk.sets[name].stopped}" for name in sorted(desk.broken)))
            elif task is None:
                await self._pause(self._retries[0][0] - self._outside.clock() if self._retries else LONGEST_WAIT_S)
            elif task.prompt.dataset not in desk.skipped and desk.stopped is None and not self._send(task):
                self._ready.append(task)
                if self._asking or desk.settling:
                    await self._pause(LONGEST_WAIT_S)
                else:
                    left, cap = desk.purse.left / NANO, desk.purse.cap / NANO
                    text = f"{left:.4f} of {cap:.2f} USD are left: less than the next prompt can cost"
                    desk.stop("budget", f"{text}; raise budget_usd, with --amend")

    def _closed_s(self) -> float:
        """For how long nothing may be sent, as far as one can tell; 0 where something may."""
        held = self.desk.hold_until - self._outside.clock()
        if held > 0:
            return held
        return 0.0 if self.desk.pace.room(self.desk.in_flight) and not self._assess.full else LONGEST_WAIT_S

    async def _next(self) -> Task | None:
        """A prompt whose money did not suffice, else one whose wait is over, else a fresh one; None: nothing yet."""
        if self._ready:
            return self._ready.popleft()
        if self._retries and self._retries[0][0] <= self._outside.clock():
            return heapq.heappop(self._retries)[2]
        if len(self._retries) >= 4 * self.desk.orders.concurrency:  # prompts that wait are in memory
            return None
        return await self._feed.next(self.desk.skipped, lambda: self.desk.stopped is not None)

    def _send(self, task: Task) -> bool:
        """Start an attempt; False where its worst case does not fit under the cap now."""
        prompt, desk = task.prompt, self.desk
        nano = worst_case(prompt.n_prompt, prompt.max_tokens, desk.orders.price)
        purse = desk.purse.reserve(nano)
        if purse is None:
            return False
        desk.purse = purse
        desk.in_flight += 1
        if task.was is not None and not task.failures:
            desk.reopened(prompt.dataset, task.was)
        asking = asyncio.create_task(self._ask(task, nano))
        self._asking.add(asking)
        asking.add_done_callback(self._asked)
        return True

    async def _ask(self, task: Task, nano: int) -> None:
        failure = await self._attempts.ask(task, nano)
        if failure is not None:
            await self._follow(task, failure)

    def _asked(self, asking: "asyncio.Task[None]") -> None:
        self._asking.discard(asking)
        self.desk.in_flight -= 1
        error = None if asking.cancelled() else asking.exception()
        if error is not None:
            self.desk.failed(error)
            self.desk.n_lost += isinstance(error, SetupError)
            self._bug = self._bug or (None if isinstance(error, SetupError) else error)
        self.desk.changed.set()

    # --- what a failure means --------------------------------------------------------------------------------------

    async def _follow(self, task: Task, failure: Failure) -> None:
        kind, desk, prompt = failure.kind, self.desk, task.prompt
        desk.failures[kind.name] += 1
        task.failures[kind.name] += 1
        n = task.failures[kind.name]
        if kind.slows:
            desk.pace.slow_down(self._outside.clock())
        act, end = kind.act, kind.name
        if act in (Act.RETRY, Act.HOLD) and n >= kind.max_tries:
            act, end = kind.exhausted, GAVE_UP
        said = f"data set {prompt.dataset}, prompt {prompt.id!r}: {kind.name}: {failure.text}"
        if act is Act.STOP_RUN:
            desk.stop(kind.name, f"{said}; {kind.remedy}")
        elif act is Act.STOP_DATASET:
            desk.stop_set(prompt.dataset, f"{said}; {kind.remedy}")
        elif act is Act.END:
            await self.commits.put(w.ended(task.job, end, f"{kind.name}: {failure.text}"))
            desk.ended(prompt.dataset, end, as_before=end == task.was != GAVE_UP)
        else:
            self._again(task, failure, n)

    def _again(self, task: Task, failure: Failure, n: int) -> None:
        """Try the prompt later; what concerns everybody holds everybody, for longer the more often nothing came."""
        desk, draw, wait_s = self.desk, self._outside.draw(), self._outside.wait_s
        own_s = wait_s(failure, n, draw)
        if failure.kind.act is Act.HOLD:
            desk.n_holds += self._outside.clock() >= desk.hold_until  # those under way tell of the same trouble
            own_s = wait_s(failure, desk.n_holds, draw)
            desk.hold(own_s)
        elif failure.retry_after_s is not None and len({e.provider_name for e in desk.endpoints}) == 1:
            desk.hold(wait_s(failure, 0, draw))  # with others to answer, this prompt alone would wait
        heapq.heappush(self._retries, (self._outside.clock() + own_s, next(self._order), task))

    # --- waiting ---------------------------------------------------------------------------------------------------

    async def _pause(self, seconds: float) -> None:
        """Until something changes, at most so long."""
        changed = self.desk.changed
        changed.clear()
        late = asyncio.get_running_loop().call_later(min(max(seconds, 0.0), LONGEST_WAIT_S), changed.set)
        await changed.wait()
        late.cancel()

    async def _tick(self) -> None:
        while True:
            self._watch(self.progress())
            await asyncio.sleep(WATCH_S)

    async def _check(self) -> None:
        while self.recheck is not None and self.desk.stopped is None:
            await self._outside.sleep(RECHECK_S)
            if reason := await self.recheck():
                self.desk.stop("price-list", reason)
