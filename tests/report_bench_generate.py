"""`make bench-generate`: a bulk run against a bare aiohttp loop, and its memory from 1,000 to 100,000 prompts.

Both ask the same server process, at concurrency 256, for answers of 1,000 tokens, in turns: bare, run, bare, run, bare.
The bare loop sends the same bodies and reads the answers; the run reads its prompts from a file, renders, reserves,
keeps, judges and settles. A ratio is the median run over the median bare loop. The server is uvicorn with answers that
the emulator made beforehand (see canned_host): made anew for each request they would be all that is measured.

A commit is late where its first write waited longer than 50 ms for the disk.

Memory is the resident set of the run's own process (the judges apart) at its 1,000th answer and its highest later.
"""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

from harness.client_bulk import AiohttpTransport, run
from harness.encoder import encode_prompt_text
from harness.transport import Target
from runners.budget import NANO
from runners.data_sets import prompts
from runners.generate import Run
from runners.jobs import Prompt
from runners.judging import Answer, Judges
from runners.ledger import open_ledger, read_ledger
from runners.progress import Progress, Watch
from tests.bulk_kit import RECIPE, ledger_path, orders, outside
from tests.canned_host import canned_host
from tests.runners.run_kit import data_file, run_of, run_text

CONCURRENCY, N_TOKENS, ROUNDS = 256, 1000, 2
FIRST, FLAT = 1000, 0.10
WANTED = {50: 0.5, 500: 0.9}


def _prompts(folder: Path, n: int) -> Iterator[Prompt]:
    """n prompts of one length from a file, as a run reads them."""
    text = run_text(max_tokens="4000")
    made = run_of(folder, text=text)
    data_file(folder, *({"prompt": f"Question {100_000_000 + k} of a"} for k in range(n)))
    return prompts(made, made.data_sets[0], encode_prompt_text)


async def _bare(url: str, asked: list[Prompt]) -> float:
    """Requests a second of a loop that sends and reads."""
    left = iter(asked)

    async def work(session: aiohttp.ClientSession) -> None:
        for prompt in left:
            async with session.post(f"{url}/api/v1/chat/completions", data=prompt.body) as response:
                await response.read()

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        began = time.perf_counter()
        await asyncio.gather(*(work(session) for _ in range(CONCURRENCY)))
        return len(asked) / (time.perf_counter() - began)


async def _run(url: str, folder: Path, asked: Iterator[Prompt], judges: Judges, watch: Watch) -> dict[str, Any]:
    """A whole run, with its answers a second."""
    transport = AiohttpTransport(Target(f"{url}/api/v1"))
    what = orders(concurrency=CONCURRENCY, cap_nano=10_000 * NANO)
    with open_ledger(ledger_path(folder)) as ledger, read_ledger(ledger_path(folder)) as reader:
        made = Run(what, ledger, reader, asked, judges, outside(transport), watch)
        made.desk.pace.limit = CONCURRENCY  # the ramp at the start is not what is measured
        began = time.perf_counter()
        stop = await made.run()
        took = time.perf_counter() - began
        await transport.close()
        totals = reader.totals()
    verdicts = dict(totals.verdicts["a"])
    good = stop.good and verdicts == {"verified": totals.ends["a"]["answered"]}
    commits = made.commits
    lag = {"groups": commits.n_groups, "late": commits.n_late, "longest_ms": round(commits.longest_s * 1000, 1)}
    return {"per_s": totals.ends["a"]["answered"] / took, "good": good, "commits": lag}


class Memory:
    """Resident bytes at the 1,000th answer, and the most afterwards."""

    first = most = 0

    def __call__(self, now: Progress) -> None:
        """One moment."""
        if now.sets["a"].n_ended.get("answered", 0) < FIRST:
            return
        found = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        self.first, self.most = self.first or found, max(self.most, found)


def _speed(url: str, delay_ms: int, n: int, judges: Judges) -> dict[str, Any]:
    """Bare loops and runs in turns."""
    with urllib.request.urlopen(f"{url}/delay?ms={delay_ms}") as reply:
        reply.read()
    bare, runs = [], []
    for k in range(2 * ROUNDS + 1):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "run").mkdir()
            if k % 2:
                runs.append(run(_run(url, Path(folder) / "run", _prompts(Path(folder), n), judges, lambda _: None)))
            else:
                bare.append(run(_bare(url, list(_prompts(Path(folder), n)))))
    per_s = {"bare": median(bare), "run": median(one["per_s"] for one in runs)}
    return {
        "bare_per_s": round(per_s["bare"]),
        "run_per_s": round(per_s["run"]),
        "ratio": round(per_s["run"] / per_s["bare"], 3),
        "good": all(one["good"] for one in runs),
        "commits": [one["commits"] for one in runs],
    }


def _memory(url: str, n: int, judges: Judges) -> dict[str, Any]:
    """One long run."""
    with urllib.request.urlopen(f"{url}/delay?ms=5") as reply:
        reply.read()
    memory = Memory()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run").mkdir()
        told = run(_run(url, Path(folder) / "run", _prompts(Path(folder), n), judges, memory))
    growth = memory.most / memory.first - 1
    mib = [round(b / 2**20, 1) for b in (memory.first, memory.most)]
    return {"answers": n, "mib": mib, "growth": round(growth, 3), "good": told["good"]}


def main() -> int:
    """1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=8000, help="Of each run with answers after 50 ms.")
    parser.add_argument("--long", type=int, default=100_000, help="Answers of the run whose memory is looked at.")
    given = parser.parse_args()
    judges = Judges(RECIPE, 1)
    run(judges.judge([Answer("warm", b"{}", b"{}")]))
    with tempfile.TemporaryDirectory() as folder:
        n_prompt = next(_prompts(Path(folder), 1)).n_prompt
    with canned_host(n_prompt, N_TOKENS) as url:
        told: dict[str, Any] = {}
        for delay_ms in WANTED:
            told[f"{delay_ms}_ms"] = _speed(url, delay_ms, given.answers if delay_ms < 100 else 4000, judges)
            print(delay_ms, told[f"{delay_ms}_ms"], flush=True)
        told["memory"] = _memory(url, given.long, judges)
    judges.close()
    fast = all(told[f"{ms}_ms"]["ratio"] >= wanted and told[f"{ms}_ms"]["good"] for ms, wanted in WANTED.items())
    told["holds"] = fast and told["memory"]["good"] and told["memory"]["growth"] <= FLAT
    print(json.dumps(told))
    return 0 if told["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
