"""A bulk run for `make demo`: 200 prompts to an emulator that misbehaves now and then, killed in the middle, taken up;
and the hidden states of its samples.

Everything is as in a paid run but the host, which is the emulator on a loopback socket. The last line is one JSON
object; the status is 1 where an answer was lost, more was asked twice than was under way, or states are not whole.
"""

import asyncio
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from harness.emulator import Emulator
from harness.encoder import load_vocab
from runners.samples import COLUMNS
from runners.shard_reading import verify
from runners.tables import read_rows
from runners.tiny import make_tiny
from tests.bulk_kit import truth
from tests.conftest import ROOT
from tests.served import Served

COMMAND = [sys.executable, "-m", "harness.cli", "generate", "--judges", "0"]
CONCURRENCY, DELAY_S = 16, 0.04
SIZES = {"chat": 120, "code": 80}
FAULTS = {20: "429", 45: "500", 60: "wrong-usage", 90: "missing-usage", 130: "wrong-usage", 150: "502"}
"""By the number of the request."""
RUN = f"""\
model = "moonshotai/kimi-k2.5"
thinking = true
max_tokens = 4000
budget_usd = 5.0
out = "out"
concurrency = {CONCURRENCY}
base_url = "URL"

[sampling]
temperature = 1.0

[provider]
only = ["chutes/int4"]
allow_fallbacks = false

[[data]]
path = "chat.jsonl"

[[data]]
path = "code.jsonl"
"""


class Slow:
    """An emulator that takes its time over a chat answer."""

    def __init__(self) -> None:
        faults = (FAULTS.get(k, "") for k in range(10**6))
        bytes_of = load_vocab().token_bytes
        self.app = Emulator(truth, bytes_of, clock=time.time, rng=random.Random(5), faults=faults)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(DELAY_S if scope.get("method") == "POST" else 0)
        await self.app(scope, receive, send)

    @property
    def asked(self) -> Counter[str]:
        """How often each prompt was sent."""
        return Counter(request["messages"][-1]["content"] for request in self.app.requests)


def files(folder: Path, url: str) -> Path:
    """The run file and its data sets."""
    for name, n in SIZES.items():
        rows = ({"id": f"{name}-{k}", "prompt": f"Question {k} of {name}"} for k in range(n))
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run.toml").write_text(RUN.replace("URL", url))
    return folder / "run.toml"


def killed(path: Path, host: Slow, after: int) -> int:
    """Start the run and kill it without a warning once so many requests came; gives how many had come."""
    with subprocess.Popen([*COMMAND, str(path), "--ungated", "a demo"], cwd=ROOT) as process:
        while len(host.app.requests) < after and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    if sys.stderr.isatty():
        print("\x1b[?25h", end="", file=sys.stderr)  # it had no time to give the cursor back
    return len(host.app.requests)


def shown(row: dict[str, Any]) -> str:
    """A sample's row, long lists cut."""
    short = {k: f"{v[:6]} ... {len(v)} in all" if isinstance(v, list) and len(v) > 6 else v for k, v in row.items()}
    return "\n".join(f"  {key:<16} {value}" for key, value in short.items())


def states_of(folder: Path) -> dict[str, Any]:
    """Hidden states of the samples from a tiny random target, kept and verified; how many, and the commands' ends."""
    target = make_tiny(folder / "tiny-target")
    ends = []
    for args in (
        ("extract", "out/samples.parquet", "--model", target.name, "--out", "states", "--dtype", "fp32"),
        ("shards", "verify", "states"),
    ):
        print(f"\n$ tokenproof {' '.join(args)}", flush=True)
        done = subprocess.run([sys.executable, "-m", "harness.cli", *args], cwd=folder, check=False)
        ends.append(done.returncode)
    n_kept = sum(len(manifest.samples) for _, manifest, _ in verify(folder / "states") if manifest)
    return {"samples_with_states": n_kept, "states_good": ends == [0, 0]}


def main() -> int:
    """The demo."""
    host, began = Slow(), time.monotonic()
    with tempfile.TemporaryDirectory() as name, Served(host) as url:
        folder = Path(name)
        path = files(folder, url)
        print(f"$ tokenproof generate run.toml --ungated 'a demo'      # {sum(SIZES.values())} prompts", flush=True)
        n = killed(path, host, 80)
        print(f"\n... kill -9 after {n} requests; the same command takes the run up:\n", flush=True)
        done = subprocess.run([*COMMAND, str(path), "--ungated", "a demo"], cwd=ROOT, check=False).returncode
        rows = {n: list(read_rows(folder / "out" / n, tuple(COLUMNS))) for n in ("samples.parquet", "rejected.parquet")}
        summary = json.loads((folder / "out" / "summary.json").read_bytes())
        states = states_of(folder)
    kept, left = rows["samples.parquet"], rows["rejected.parquet"]
    print(f"\none of {len(kept)} rows of samples.parquet:\n{shown(kept[0])}")
    print(f"\n{len(left)} rows of rejected.parquet:")
    for row in left:
        print(f"  {row['id']}: {row['left_out']}, {', '.join(f['code'] for f in row['findings'])}")
    again = sum(n - 1 for n in host.asked.values()) - sum(fault[0] in "45" for fault in FAULTS.values())
    told = {
        "prompts": sum(SIZES.values()),
        "samples": len(kept),
        "left_out": len(left),
        "lost": sum(SIZES.values()) - len(kept) - len(left),
        "asked_twice": again,
        "under_way_at_most": CONCURRENCY,
        "spent_usd": summary["spent_usd"],
        "ids_minus_bill": summary["bill"]["difference"],
        **states,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(told))
    whole = states["states_good"] and states["samples_with_states"] == len(kept)
    return int(
        not whole or done != 0 or told["lost"] != 0 or not 0 <= again <= CONCURRENCY or told["ids_minus_bill"] != 0
    )


if __name__ == "__main__":
    sys.exit(main())
