"""`make storm`: a storm of failures ends with every prompt answered or in a named end, and throughput comes back.

Over loopback sockets: the emulator behind uvicorn, answers after half a second, concurrency 64, the runner's own waits.
Calm until the rate is known, then a storm (30% 429 of three kinds, 5% 5xx, 2% hangs, 2% half bodies, 2% errors of
status 200), then calm again. Throughput is answers a second over the last 5 s; after the storm it must be back at 90%
of what it was before, within 60 s. Hangs are given up after 5 s, and a Retry-After is 2 s, so that much is asked.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from harness.client_bulk import AiohttpTransport, run
from harness.transport import Target
from runners.attempts import Outside
from runners.backoff import ENDS, wait_s
from runners.generate import Run
from runners.jobs import Prompt
from runners.judging import Judges
from runners.ledger import open_ledger, read_ledger
from runners.progress import Progress
from tests.bulk_kit import RECIPE, host, ledger_path, orders, prompt
from tests.served import Served

CONCURRENCY, ANSWER_S, RETRY_AFTER_S, READ_S = 64, 0.5, 2, 5.0
WINDOW_S, BACK_S, SHARE = 5.0, 60.0, 0.9
STORM = {
    # fault of the emulator -> share of the requests
    "429": 0.24,
    "429-gateway": 0.03,
    "429-retry-after": 0.03,
    "500": 0.02,
    "502": 0.02,
    "503": 0.01,
    "hang": 0.02,
    "half-body": 0.02,
    "200-error": 0.02,
}


class Weather:
    """The emulator, with the faults of a storm while `stormy`."""

    def __init__(self, rng: random.Random, answer_s: float) -> None:
        self.app, self.rng, self.answer_s = host(), rng, answer_s
        self.stormy = False
        self.faults: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One connection of ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        fault = self._fault()
        if fault:
            self.faults[fault] += 1
            scope = {**scope, "headers": [*scope["headers"], (b"x-emulator-fault", fault.encode())]}
        await asyncio.sleep(self.answer_s * self.rng.uniform(0.8, 1.2))

        async def sooner(message: Any) -> None:
            if message["type"] == "http.response.start":
                after = str(RETRY_AFTER_S).encode()
                headers = [(k, after if k == b"retry-after" else v) for k, v in message["headers"]]
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, receive, sooner)
        self.app.requests.clear()
        return None

    def _fault(self) -> str:
        drawn = self.rng.random() if self.stormy else 1.0
        for name, share in STORM.items():
            drawn -= share
            if drawn < 0:
                return name
        return ""


@dataclass
class Gauge:
    """Answers a second over the last window, from what a run says of itself."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)
    n_answers: int = 0

    def __call__(self, now: Progress) -> None:
        """One moment."""
        self.n_answers = now.sets["a"].n_ended.get("answered", 0)
        self.seen.append((now.at_s, self.n_answers))
        while self.seen[-1][0] - self.seen[0][0] > WINDOW_S:
            self.seen.popleft()

    @property
    def rate(self) -> float:
        """Answers a second."""
        (then, before), (now, after) = self.seen[0], self.seen[-1]
        return (after - before) / (now - then) if now > then else 0.0


@dataclass
class Course:
    """What happened when: rates in answers a second."""

    calm: float = 0.0
    storm: float = 0.0
    back_after_s: float | None = None
    after: float = 0.0
    over: bool = False

    async def go(self, weather: Weather, gauge: Gauge, calm_s: float, storm_s: float) -> None:
        """Calm, storm, calm until the rate is back; then no more prompts come."""
        await asyncio.sleep(calm_s)
        self.calm, before = gauge.rate, gauge.n_answers
        weather.stormy = True
        await asyncio.sleep(storm_s)
        weather.stormy = False
        self.storm, began = (gauge.n_answers - before) / storm_s, time.monotonic()
        while time.monotonic() - began < BACK_S + WINDOW_S and self.back_after_s is None:
            await asyncio.sleep(0.25)
            self.after = gauge.rate
            if self.after >= SHARE * self.calm:
                self.back_after_s = time.monotonic() - began
        self.over = True

    def prompts(self) -> Iterator[Prompt]:
        """One after the other until all is over."""
        for n in count():
            if self.over:
                return
            yield prompt(n)


async def storm(
    url: str, weather: Weather, folder: Path, calm_s: float, storm_s: float, scale: float
) -> dict[str, Any]:
    """One run through a storm; `scale` shortens the runner's waits."""
    gauge, course = Gauge(), Course()
    transport, judges = AiohttpTransport(Target(url)), Judges(RECIPE, 1)
    outside = Outside(
        *(transport, time.monotonic, time.time, asyncio.sleep, random.Random(3).random),
        wait_s=lambda failure, n, draw: wait_s(failure, n, draw) * scale,
    )
    what = orders(concurrency=CONCURRENCY, read_timeout_s=READ_S, cap_nano=10**15)
    with open_ledger(ledger_path(folder)) as ledger, read_ledger(ledger_path(folder)) as reader:
        made = Run(what, ledger, reader, course.prompts(), judges, outside, gauge)
        going = asyncio.create_task(course.go(weather, gauge, calm_s, storm_s))
        stop = await made.run()
        await going
        judges.close()
        await transport.close()
        totals, progress = reader.totals(), made.progress()
    ends = dict(totals.ends["a"])
    return {
        "stop": stop.why,
        "ends": ends,
        "verdicts": dict(totals.verdicts["a"]),
        "requests": progress.n_requests,
        "faults": dict(weather.faults),
        "failures": dict(progress.failures),
        "calm_per_s": round(course.calm, 1),
        "storm_per_s": round(course.storm, 1),
        "after_per_s": round(course.after, 1),
        "back_after_s": None if course.back_after_s is None else round(course.back_after_s, 1),
        "reserved_nano": totals.reserved_nano,
        "holds": stop.good
        and set(ends) <= {"answered", *ENDS}
        and totals.reserved_nano == 0
        and course.back_after_s is not None
        and course.back_after_s <= BACK_S,
    }


def main() -> int:
    """1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calm", type=float, default=25.0, help="Seconds before the storm.")
    parser.add_argument("--storm", type=float, default=40.0, help="Seconds of the storm.")
    given = parser.parse_args()
    weather = Weather(random.Random(1), ANSWER_S)
    with tempfile.TemporaryDirectory() as folder, Served(weather) as url:
        told = run(storm(url, weather, Path(folder), given.calm, given.storm, 1.0))
    print(json.dumps(told))
    return 0 if told["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
