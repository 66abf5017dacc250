"""Group commit: what an event loop writes at about the same time becomes one transaction of the ledger.

A thread commits; while it does, the next group gathers. A write is on the disk when its awaitable returns. Knows
nothing of what is written.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from harness.errors import SetupError
from runners.ledger import Ledger, Write

LINGER_S = 0.002
"""Between two commits: groups grow, and nothing waits as long as 50 ms."""
LATE_S = 0.05
Waiting = tuple[Sequence[Write], "asyncio.Future[None]", float]


class Commits:
    """The one way of a running loop into its ledger; make it in the loop, and close it.

    Attributes:
        longest_s: From a write's arrival to its commit, at most so far.
        n_groups, n_late: Transactions so far; those whose first write waited longer than LATE_S.
    """

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self._ledger, self._clock = ledger, clock
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Waiting] = deque()  # of which one thread appends and one takes: no lock is needed
        self._wake = threading.Event()
        self._closing = False
        self._error: SetupError | None = None
        self.longest_s, self.n_groups, self.n_late = 0.0, 0, 0
        self._thread = threading.Thread(target=self._work, name="ledger", daemon=True)
        self._thread.start()

    def put(self, *writes: Write) -> "asyncio.Future[None]":
        """Commits these together; await it to know that they are on the disk.

        The awaitable raises SetupError where they could not be written; so does every later one, and one after `close`.
        """
        done = self._loop.create_future()
        if self._error is not None or self._closing:
            done.set_exception(self._error or SetupError("nothing was written: no more writes are taken"))
            return done
        self._waiting.append((writes, done, self._clock()))
        if not self._wake.is_set():
            self._wake.set()
        return done

    async def close(self) -> None:
        """Write what waits, and end the thread."""
        self._closing = True
        self._wake.set()
        await self._loop.run_in_executor(None, self._thread.join)

    def _work(self) -> None:
        pause = threading.Event()
        while group := self._group():
            error = self._error
            try:
                if error is None:
                    self._ledger.commit(write for writes, _, _ in group for write in writes)
            except SetupError as failed:
                error = failed
            except Exception as bug:  # a thread that dies in silence would leave everybody waiting
                error = SetupError(f"a bug of tokenproof, please report it: {bug!r:.300}")
            self.n_groups += 1
            lag_s = self._clock() - group[0][2]
            self.longest_s, self.n_late = max(self.longest_s, lag_s), self.n_late + (lag_s > LATE_S)
            self._loop.call_soon_threadsafe(self._tell, group, error)
            pause.wait(LINGER_S)

    def _group(self) -> list[Waiting]:
        """What waits; [] when closing and nothing does."""
        while not self._waiting and not self._closing:
            self._wake.wait()
            self._wake.clear()
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def _tell(self, group: list[Waiting], error: SetupError | None) -> None:
        self._error = self._error or error
        for _, done, _ in group:
            if done.cancelled():
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)
