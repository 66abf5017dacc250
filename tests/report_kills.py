"""`make kills`: `kill -9` at random moments of a whole `tokenproof generate`, at three concurrencies.

Over loopback sockets: the emulator behind uvicorn, which keeps a list of what it is asked. A run is killed again and
again until it is done, then the next one begins, until there were `--points` kills. After each kill the ledger is read
as it lies there. Held: every answer that was committed stays what it is; no prompt is sent again whose answer was
committed; what is sent a second time is at most what was under way, so at most the concurrency a kill; the samples are
those of a run that nobody disturbed (all columns but `cost_usd` and `attempts`, which tell what was paid twice).
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runners.ledger import read_ledger
from runners.output import LEDGER
from runners.tables import read_rows
from tests.bulk_kit import host
from tests.conftest import ROOT
from tests.runners.run_kit import data_file, run_text
from tests.served import Served

CONCURRENCIES = (4, 32, 128)
PROMPTS = {4: 200, 8: 80, 32: 600, 128: 1200}
COMMAND = (sys.executable, "-m", "harness.cli", "generate")
TOLD = ("cost_usd", "attempts")
LATEST_S = 0.6  # after the first request, at which a kill comes
EARLY = 0.1  # of the kills come at any moment, also before the first request


class Slow:
    """The emulator with answers that take a while, and what it was asked, in order."""

    def __init__(self, rng: random.Random) -> None:
        self.app, self.rng = host(), rng
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One connection of ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self.app(scope, receive, send)
        data, more = b"", True
        while more:
            message = await receive()
            data, more = data + message.get("body", b""), message.get("more_body", False)
        self.asked.append(json.loads(data)["messages"][-1]["content"])
        await asyncio.sleep(self.rng.uniform(0.005, 0.06))

        async def again() -> Any:
            return {"type": "http.request", "body": data}

        await self.app(scope, again, send)
        self.app.requests.clear()
        return None


@dataclass
class Tally:
    """What all kills together showed; the first four must stay empty."""

    lost: list[str] = field(default_factory=list)
    sent_again: list[str] = field(default_factory=list)
    too_many: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)
    kills: Counter[int] = field(default_factory=Counter)
    kills_before_a_request: int = 0
    paid_twice: int = 0
    most_paid_twice_a_kill: dict[int, int] = field(default_factory=dict)
    answers: int = 0
    runs: int = 0

    @property
    def holds(self) -> bool:
        """Whether what this report claims is so."""
        return not (self.lost or self.sent_again or self.too_many or self.different)


@dataclass
class Trial:
    """One run file in a folder, and the host that it asks."""

    folder: Path
    slow: Slow
    url: str
    concurrency: int
    committed: dict[str, str] = field(default_factory=dict)

    def start(self) -> "subprocess.Popen[bytes]":
        """The command, as a person types it."""
        command = [*COMMAND, str(self.folder / "run.toml"), "--ungated", "kills", "--base-url", self.url]
        return subprocess.Popen(
            [*command, "--judges", "0"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )

    def ledger(self) -> dict[str, str]:
        """Committed answers: prompt text -> hash of the raw answer."""
        path = self.folder / "out" / LEDGER
        if not path.is_file() or not path.stat().st_size:
            return {}
        with read_ledger(path) as ledger:
            rows = [row for row in ledger.rows() if row.answer is not None]
        return {json.loads(r.request)["messages"][-1]["content"]: r.answer_sha256 or "" for r in rows}

    def samples(self) -> list[dict[str, Any]]:
        """What the run wrote, without what tells of its course."""
        names = ("samples.parquet", "rejected.parquet")
        found = [row for name in names for row in _rows(self.folder / "out" / name)]
        return [{key: value for key, value in row.items() if key not in TOLD} for row in found]


def _rows(path: Path) -> list[dict[str, Any]]:
    from runners.tables import columns

    return list(read_rows(path, columns(path)))


def make(folder: Path, slow: Slow, url: str, concurrency: int) -> Trial:
    """A run file with its prompts."""
    folder.mkdir()
    data_file(folder, *({"prompt": f"Question {k}", "id": f"q{k}"} for k in range(PROMPTS[concurrency])))
    keys = {"concurrency": str(concurrency), "max_tokens": "500", "budget_usd": "1000.0"}
    (folder / "run.toml").write_text(run_text(**keys))
    return Trial(folder, slow, url, concurrency)


def undisturbed(trial: Trial) -> list[dict[str, Any]]:
    """The samples of a run that nobody kills."""
    process = trial.start()
    _, said = process.communicate()
    assert process.returncode == 0, said.decode()
    trial.slow.asked.clear()
    return trial.samples()


def kill_once(trial: Trial, rng: random.Random, tally: Tally) -> bool:
    """One process, killed at a random moment; True where it was done before."""
    trial.slow.asked.clear()
    process = trial.start()
    if rng.random() > EARLY:
        while not trial.slow.asked and process.poll() is None:
            time.sleep(0.002)
        wait = rng.uniform(0.0, LATEST_S)
    else:
        wait = rng.uniform(0.0, 3.0)
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        process.kill()
    _, said = process.communicate()
    if process.returncode == 0:
        _after(trial, tally, killed=False)
        return True
    assert process.returncode == -9, said.decode()
    tally.kills[trial.concurrency] += 1
    tally.kills_before_a_request += not trial.slow.asked
    _after(trial, tally, killed=True)
    return False


def _after(trial: Trial, tally: Tally, *, killed: bool) -> None:
    """What the ledger holds now, against what it held and what was asked since."""
    now, asked, name = (
        trial.ledger(),
        Counter(trial.slow.asked),
        f"{trial.folder.name} after {tally.kills.total()}",
    )
    tally.lost += [f"{name}: {p}" for p, sha256 in trial.committed.items() if now.get(p) != sha256]
    tally.sent_again += [f"{name}: {p}" for p in asked if p in trial.committed]
    n_open = sum(n for p, n in asked.items() if p not in now) + sum(n - 1 for p, n in asked.items() if p in now)
    if n_open > (trial.concurrency if killed else 0):
        tally.too_many.append(f"{name}: {n_open}")
    most = tally.most_paid_twice_a_kill
    most[trial.concurrency] = max(most.get(trial.concurrency, 0), n_open)
    tally.paid_twice += n_open
    tally.answers += len(now) - len(trial.committed)
    trial.committed = now


def kills(points: int, seed: int, folder: Path, tally: Tally, at_once: Sequence[int] = CONCURRENCIES) -> None:
    """All of them."""
    rng = random.Random(seed)
    for k, concurrency in enumerate(at_once):
        wanted = (points + k) // len(at_once)
        slow = Slow(rng)
        with Served(slow) as url:
            expected = undisturbed(make(folder / f"quiet-{concurrency}", slow, url, concurrency))
            while tally.kills[concurrency] < wanted:
                trial = make(folder / f"run-{concurrency}-{tally.runs}", slow, url, concurrency)
                while tally.kills[concurrency] < wanted and not (done := kill_once(trial, rng, tally)):
                    print(
                        f"{concurrency} at once: {tally.kills.total()} kills, {tally.paid_twice} twice",
                        flush=True,
                    )
                if not done:
                    trial.slow.asked.clear()
                    process = trial.start()
                    _, said = process.communicate()
                    assert process.returncode == 0, said.decode()
                    _after(trial, tally, killed=False)
                tally.runs += 1
                if trial.samples() != expected:
                    tally.different.append(trial.folder.name)


def main() -> int:
    """1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given, tally = parser.parse_args(), Tally()
    with tempfile.TemporaryDirectory() as folder:
        kills(given.points, given.seed, Path(folder), tally)
    told = {
        "kills": tally.kills.total(),
        "kills_by_concurrency": dict(tally.kills),
        "kills_before_a_request": tally.kills_before_a_request,
        "committed_answers_lost": len(tally.lost),
        "sent_again_though_committed": len(tally.sent_again),
        "kills_with_more_than_the_concurrency_twice": len(tally.too_many),
        "paid_twice": tally.paid_twice,
        "most_paid_twice_a_kill": tally.most_paid_twice_a_kill,
        "answers": tally.answers,
        "runs": tally.runs,
        "runs_with_other_samples": len(tally.different),
        "holds": tally.holds and tally.kills.total() >= given.points,
    }
    for line in (*tally.lost, *tally.sent_again, *tally.too_many, *tally.different):
        print(line)
    print(json.dumps(told))
    return 0 if told["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
