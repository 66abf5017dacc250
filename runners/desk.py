"""The state of a bulk run: its orders, its money, who may answer, what has come, and why it stops.

One event loop works on it, so nothing here waits. Knows nothing of requests, ledgers and terminals.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.catalog import Endpoint
from harness.errors import SetupError
from runners.budget import MOST, NANO, Price, Purse
from runners.judging import Judged
from runners.ledger_rows import ANSWERED, Totals
from runners.pacing import Pace
from runners.progress import Progress, ProviderProgress, SetProgress, Stop
from runners.quality import Quality

BILL = "bill"  # above its reservation: what a person must see before more is spent
IN_A_ROW = 25
"""Prompts of a data set that may end without an answer, one after the other: then it is not the prompts."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a run is to do.

    Attributes:
        model: The id that requests ask for.
        datasets: Names in the order of the run file.
        endpoints: Who may answer.
        block: The request's `provider`; `only` is made anew where a provider is dropped.
        price: The dearest of the endpoints.
        cap_nano: Over all resumes.
        targets: Data set -> completion tokens after which nothing more is asked of it.
        max_rejected, window: As in `quality.Quality`.
        amended: Whether requests may differ from those that the ledger knows.
    """

    model: str
    datasets: tuple[str, ...]
    endpoints: tuple[Endpoint, ...]
    block: Mapping[str, Any]
    price: Price
    cap_nano: int
    concurrency: int
    targets: Mapping[str, int] = field(default_factory=dict)
    max_rejected: float = 0.05
    window: int = 200
    read_timeout_s: float = 600.0
    amended: bool = False


@dataclass(slots=True)
class SetState:
    """One data set so far; see SetProgress."""

    ended: Counter[str]
    verdicts: Counter[str]
    n_tokens: int
    cost_nano: int = 0
    in_a_row: int = 0
    stopped: str = ""


class Desk:
    """What everybody who works on a run looks at.

    Attributes:
        purse, pace: Money and requests under way.
        in_flight: Attempts from their reservation until they are in the ledger.
        settling: Answers whose cost is being asked for.
        stopped: Why nothing more is sent; None while the run goes on.
        changed: Set whenever something did.
        endpoints, block: Who may answer now, and the `provider` of a request that says so.
        broken: Data sets that were stopped by a failure.
        hold_until, n_holds: When something may be sent again; how often nothing could be since the last answer.
        n_lost: Requests whose course the ledger could not be told.
    """

    def __init__(self, orders: Orders, totals: Totals, dropped: set[str], clock: Callable[[], float]) -> None:
        self.orders, self.clock = orders, clock
        self.purse = Purse(orders.cap_nano, totals.spent_nano, totals.reserved_nano)
        self.pace = Pace(orders.concurrency)
        self.quality = Quality(orders.max_rejected, orders.window)
        self.endpoints = tuple(e for e in orders.endpoints if e.provider_name not in dropped)
        self.dropped, self.dropped_why = dropped, ""
        self.block = _block(orders.block, self.endpoints if dropped else None)
        names = dict.fromkeys((*orders.datasets, *totals.ends))  # those that a run file no longer has count too
        self.sets = {name: _set_state(name, totals) for name in names}
        self.broken: set[str] = set()
        self.in_flight = self.settling = self.n_requests = self.n_lost = 0
        self.failures, self.findings = Counter[str](), Counter[str]()
        self.answers: dict[str, Counter[str]] = {}
        self.hold_until, self.n_holds = float("-inf"), 0
        self.stopped: Stop | None = None
        self.changed = asyncio.Event()

    # --- stopping --------------------------------------------------------------------------------------------------

    def stop(self, why: str, text: str) -> None:
        """Nothing more is sent. The first reason counts, unless it was that all is done; a bill is told in any case."""
        before = self.stopped
        if before is None or before.good:
            self.stopped = Stop(why, text)
        elif why == BILL and before.why != BILL:
            self.stopped = Stop(BILL, f"{text}; before that: {before.text}")
        self.changed.set()

    def failed(self, error: BaseException) -> None:
        """Work beside the requests ended in an error: of the ledger, or one that nobody foresaw."""
        told = isinstance(error, SetupError)
        self.stop("ledger" if told else "bug", str(error) if told else f"please report it: {error!r:.300}")

    def stop_set(self, dataset: str, text: str) -> None:
        """Nothing more is sent of one data set, although prompts are open."""
        self.broken.add(dataset)
        self.sets[dataset].stopped = self.sets[dataset].stopped or text
        self.changed.set()

    @property
    def skipped(self) -> set[str]:
        """Data sets of which nothing more is asked."""
        for name, target in self.orders.targets.items():
            if self.sets[name].n_tokens >= target:
                self.sets[name].stopped = self.sets[name].stopped or f"its {target:,} tokens are reached"
        return {name for name, state in self.sets.items() if state.stopped}

    def hold(self, seconds: float) -> None:
        """Nothing is sent for so long."""
        self.hold_until = max(self.hold_until, self.clock() + seconds)

    # --- who may answer --------------------------------------------------------------------------------------------

    def drop(self, provider: str) -> bool:
        """Ask this provider no more; False where nobody would be left."""
        left = tuple(e for e in self.endpoints if e.provider_name != provider)
        if not left:
            return False
        self.endpoints, self.dropped = left, self.dropped | {provider}
        self.block = _block(self.orders.block, self.endpoints)
        return True

    # --- what came -------------------------------------------------------------------------------------------------

    def settle(self, dataset: str, reserved: int, cost: int) -> None:
        """A reservation became a bill; one that is above it stops the run at once."""
        before = self.purse.excess
        self.purse = self.purse.settle(reserved, cost)
        self.sets[dataset].cost_nano += cost
        if self.purse.excess > before:
            least = "at least " if cost >= MOST else ""
            self.stop(
                BILL,
                f"data set {dataset}: a request was billed {least}{cost / NANO:.6f} USD, more than the worst case of "
                f"{reserved / NANO:.6f} USD; compare the price list with the bill before you go on",
            )
        self.changed.set()

    def ended(self, dataset: str, end: str, n_tokens: int = 0, *, as_before: bool = False) -> None:
        """A prompt ended; `as_before`: as in an earlier part of the run, and for nothing, which says nothing new."""
        state = self.sets[dataset]
        state.ended[end] += 1
        if as_before:
            return
        state.n_tokens += n_tokens
        state.in_a_row = 0 if end == ANSWERED else state.in_a_row + 1
        self.n_holds = 0 if end == ANSWERED else self.n_holds
        if state.in_a_row >= IN_A_ROW:
            text = f"{IN_A_ROW} prompts in a row ended without an answer, the last one {end}; see what they have alike"
            self.stop_set(dataset, text)

    def reopened(self, dataset: str, end: str) -> None:
        """A prompt that ended in an earlier run is asked again."""
        self.sets[dataset].ended[end] -= 1

    def judged(self, dataset: str, provider: str, found: Judged, n_tokens: int) -> bool:
        """An answer was judged; True where its provider has now failed."""
        self.sets[dataset].verdicts[found.name] += 1
        told = self.answers.setdefault(provider, Counter())
        told["answers"] += 1
        told["tokens"] += n_tokens
        if not found.good:
            told["rejected"] += 1
            self.findings.update(found.findings)
        return self.quality.add(provider, found.good) and provider not in self.dropped

    # --- for whoever watches ---------------------------------------------------------------------------------------

    def progress(self, waiting: int, unjudged: int) -> Progress:
        """The run at this moment."""
        now = self.clock()
        sets = {
            name: SetProgress(dict(s.ended), dict(s.verdicts), s.n_tokens, s.cost_nano, s.stopped)
            for name, s in self.sets.items()
        }
        providers = {
            name: ProviderProgress(told["answers"], told["rejected"], told["tokens"], name in self.dropped)
            for name, told in self.answers.items()
        }
        return Progress(
            at_s=now,
            sets=sets,
            spent_nano=self.purse.spent,
            reserved_nano=self.purse.reserved,
            cap_nano=self.purse.cap,
            in_flight=self.in_flight,
            limit=int(self.pace.limit),
            ceiling=self.pace.ceiling,
            waiting=waiting,
            unjudged=unjudged,
            held_s=max(0.0, self.hold_until - now),
            n_requests=self.n_requests,
            failures=dict(self.failures),
            findings=dict(self.findings),
            dropped_why=self.dropped_why,
            settling=self.settling,
            providers=providers,
            stop=self.stopped,
        )


def _block(block: Mapping[str, Any], left: Iterable[Endpoint] | None) -> bytes:
    """The provider block as it is sent; where providers were dropped, it admits those that are left and no other.

    Raises:
        SetupError: None is left: an empty `only` pins nothing, and anybody might answer.
    """
    if left is not None:
        block = {key: value for key, value in block.items() if key != "order"} | {"only": [e.tag for e in left]}
    if block.get("only") == []:
        raise SetupError("`only` of the provider block is empty: anybody might answer; name a provider that may")
    return json.dumps(block, separators=(",", ":"), sort_keys=True).encode()


def _set_state(name: str, totals: Totals) -> SetState:
    ended = Counter({end: n for end, n in totals.ends.get(name, Counter()).items() if end != "open"})
    verdicts = Counter({v: n for v, n in totals.verdicts.get(name, Counter()).items() if v != "unjudged"})
    return SetState(ended, verdicts, totals.n_tokens.get(name, 0))
