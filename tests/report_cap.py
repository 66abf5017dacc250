"""`make cap`: the cap holds at concurrency 512, and a bill above its reservation ends the sending.

Over loopback sockets: the emulator behind uvicorn, with a bill of its own for each answer. In `--runs` runs each bill
is drawn up to the reservation, one answer in ten has no usage (every second of them is unknown to the generation
endpoint too), and every second run is broken off and resumed. The host itself adds up what it has billed and the worst
case of what it is asked at that moment: that sum is held against the cap at each request. In `--over` more runs one
bill in 1,000 is above its reservation: nothing may be sent after it has come, and what is spent above the cap is at
most what such bills were above theirs. Verdicts are stubs: this is about money.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.client_bulk import AiohttpTransport, run
from harness.emulator import Truth
from harness.transport import Call, Reply, Target
from harness.types import Verdict
from runners.budget import NANO, nano_of, worst_case
from runners.generate import Run
from runners.judging import Answer, Judged
from runners.ledger import open_ledger, read_ledger
from runners.verdicts import pack
from tests.bulk_kit import FACTS, PRICE, host, ledger_path, orders, outside, prompts, truth
from tests.served import Served

PACKED = pack(Verdict("exact"), FACTS)
ONE_IN_OVER, ONE_IN_MISSING = 1000, 10  # answers


class Stubs:
    """Judges who find everything good."""

    n_batches = 2

    async def judge(self, batch: Sequence[Answer]) -> list[Judged]:
        """The same for each."""
        return [Judged("exact", True, 1, (), PACKED) for _ in batch]

    def against(self, verdict: Verdict) -> tuple[str, ...]:
        """Nothing."""
        return ()


class Billing:
    """The emulator behind bills of our own.

    Attributes:
        over: One bill in so many is above its reservation; 0 for none.
        billed, asked: Nano-dollars: of all answers so far; the worst case of what is being asked now.
        most: The highest sum of both so far.
        excess: What bills were above their reservations.
    """

    def __init__(self, rng: random.Random, *, over: int) -> None:
        self.rng, self.over = rng, over
        same = truth({"messages": [{"content": "x"}]}, 4)
        self.app = host(answers=lambda request: Truth(same.ids, prompt_ids=[0] * 9), rng=rng, clock=time.time)
        self.known: dict[str, int] = {}
        self.billed = self.asked = self.most = self.excess = self.n = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One connection of ASGI."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        data, more = b"", True
        while more:
            message = await receive()
            data, more = data + message.get("body", b""), message.get("more_body", False)
        status, value = await self._chat(data) if scope["method"] == "POST" else self._generation(scope)
        body = json.dumps(value).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _chat(self, data: bytes) -> tuple[int, Any]:
        worst = worst_case(9, json.loads(data)["max_tokens"], PRICE)
        self.asked += worst
        self.most, self.n = max(self.most, self.billed + self.asked), self.n + 1
        await asyncio.sleep(self.rng.random() * 0.02)
        reply = self.app.reply("POST", "/api/v1/chat/completions", {}, "", data)
        value = json.loads(b"".join(part for part in reply.parts if isinstance(part, bytes)))
        bill = round(worst * self.rng.random())
        if self.over and self.rng.randrange(self.over) == 0:
            bill = round(worst * self.rng.uniform(1.1, 3.0))
        self.excess += max(0, bill - worst)
        self.asked -= worst
        self.billed += bill
        if not self.over and self.rng.randrange(ONE_IN_MISSING) == 0:
            del value["usage"]
            if self.rng.random() < 0.5:
                self.known[value["id"]] = bill
        else:
            value["usage"]["cost"] = bill / NANO
        return 200, value

    def _generation(self, scope: Any) -> tuple[int, Any]:
        name = scope["query_string"].decode().removeprefix("id=")
        if name not in self.known:
            return 404, {"error": {"code": 404, "message": "not found"}}
        return 200, {"data": {"id": name, "total_cost": self.known[name] / NANO}}


class Listening(AiohttpTransport):
    """Notes what is sent after a bill above its reservation has come."""

    over_came, n_after = False, 0

    async def send(self, call: Call) -> Reply:
        """As the real one."""
        self.n_after += bool(self.over_came and call.body)
        reply = await super().send(call)
        if call.body:
            cost = json.loads(reply.body).get("usage", {}).get("cost", 0.0)
            worst = worst_case(9, json.loads(call.body)["max_tokens"], PRICE)
            self.over_came = self.over_came or nano_of(cost) > worst
        return reply


@dataclass
class Trial:
    """One run with all its resumes, seen from both sides; nano-dollars."""

    cap: int
    billed: int
    most: int
    excess: int
    spent: int
    reserved: int
    n_asked: int
    n_after: int
    stops: list[str]


def trial(seed: int, *, over: int, n_prompts: int, concurrency: int) -> Trial:
    """One run of prompts that would cost about twice the cap, which has room for a whole concurrency of them."""
    rng = random.Random(seed)
    billing = Billing(rng, over=over)
    worst = worst_case(9, 4000, PRICE)
    cap = n_prompts * worst * (30 if over else 25) // 100
    with tempfile.TemporaryDirectory() as folder, Served(billing) as url:
        stops, n_after, spent, reserved = [], 0, 0, 0
        while not stops or stops[-1] == "interrupted":
            stop_after = rng.uniform(0.1, 0.6) if seed % 2 and not over and len(stops) < 3 else None
            made = _part(url, Path(folder), cap, n_prompts, concurrency, stop_after)
            stop, after, spent, reserved = run(made)
            stops, n_after = [*stops, stop], n_after + after
    return Trial(cap, billing.billed, billing.most, billing.excess, spent, reserved, billing.n, n_after, stops)


async def _part(
    url: str, folder: Path, cap: int, n_prompts: int, concurrency: int, stop_after: float | None
) -> tuple[str, int, int, int]:
    """One part of a run, broken off after a while where that is given."""
    what = orders(cap_nano=cap, concurrency=concurrency)
    transport = Listening(Target(url))
    with open_ledger(ledger_path(folder)) as ledger, read_ledger(ledger_path(folder)) as reader:
        asked = (replace_ids(one) for one in prompts(n_prompts))
        made = Run(what, ledger, reader, asked, Stubs(), outside(transport), lambda _: None)  # type: ignore[arg-type]
        made.desk.pace.limit = float(concurrency)
        if stop_after is not None:
            asyncio.get_running_loop().call_later(stop_after, made.interrupt)
            asyncio.get_running_loop().call_later(stop_after + 0.01, made.interrupt)
        stop = await made.run()
        await transport.close()
        totals = ledger.totals()
    return stop.why, transport.n_after, totals.spent_nano, totals.reserved_nano


def replace_ids(one: Any) -> Any:
    """The prompt as one of nine ids, so that host and runner reckon alike."""
    return replace(one, n_prompt=9)


def holds(trials: list[Trial], overs: list[Trial]) -> bool:
    """Whether what this report claims is so."""
    under = all(t.most <= t.cap and t.spent + t.reserved <= t.cap and t.billed <= t.spent + t.reserved for t in trials)
    busy = all(t.spent + t.reserved > 0.9 * t.cap and t.stops[-1] == "budget" for t in trials)
    after = all(t.n_after == 0 and t.billed - t.cap <= t.excess for t in overs)
    stopped = all((t.stops == ["bill"]) == (t.excess > 0) for t in overs)
    return under and busy and after and stopped


def summary(trials: list[Trial], overs: list[Trial]) -> dict[str, Any]:
    """The last line."""
    return {
        "runs": len(trials),
        "overruns": sum(t.most > t.cap or t.spent + t.reserved > t.cap for t in trials),
        "resumes": sum(len(t.stops) - 1 for t in trials),
        "requests": sum(t.n_asked for t in trials),
        "fullest": max(t.most / t.cap for t in trials),
        "runs_with_bills_above": sum(t.excess > 0 for t in overs),
        "sent_after_such_a_bill": sum(t.n_after for t in overs),
        "overrun_usd": [round(max(0, t.billed - t.cap) / NANO, 6) for t in overs],
        "excess_usd": [round(t.excess / NANO, 6) for t in overs],
        "holds": holds(trials, overs),
    }


def main() -> int:
    """All runs; 1 where the cap does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--over", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=512)
    parser.add_argument("--prompts", type=int, default=2400)
    given = parser.parse_args()
    trials, overs = [], []
    for k in range(given.runs):
        trials.append(trial(k, over=0, n_prompts=given.prompts, concurrency=given.concurrency))
        print(f"run {k}: {trials[-1]}", flush=True)
    for k in range(given.over):
        overs.append(trial(10_000 + k, over=ONE_IN_OVER, n_prompts=given.prompts, concurrency=given.concurrency))
        print(f"bills above, run {k}: {overs[-1]}", flush=True)
    told = summary(trials, overs)
    print(json.dumps(told))
    return 0 if told["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
