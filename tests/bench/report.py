"""Ratios of costs taken in one run: `make bench`. These machines are noisy, so only ratios are printed, never asserted.

judge_over_encode: from JSON bytes to verdict, over raw `encode_ordinary` of the same texts with the same warm cache.
two_processes: answers judged a second by two processes, over those of one.
cold_check: `tokenproof check` on one answer, over a Python process that only loads and verifies the vocabulary.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness.flow import judge
from harness.types import Exchange
from tests.conftest import shared_folder
from tests.corpus import kit, lines

NEAR_TOKENS = (500, 2000)
ROUNDS = 30
LOAD_ONLY = "from harness.encoder import load_vocab; load_vocab()"


class Sample(NamedTuple):
    """One answer as bytes, and the texts in it."""

    body: bytes
    texts: tuple[str, ...]


def made_up() -> list[Sample]:
    """Hand-made answers of about 1,000 tokens, for where the optional folder is absent."""
    out = []
    for k in range(12):
        reasoning = " ".join(
            f"Step {i}: compare item {i * 7 + k} with the one before it, then go on." for i in range(40)
        )
        content = "\n".join(f"- item {i}: `value_{i * 3 + k}` is kept." for i in range(35))
        message = {"role": "assistant", "reasoning": reasoning, "content": content}
        n = len(kit().encode(reasoning)) + len(kit().encode(content)) + 3
        usage = {"prompt_tokens": 9, "completion_tokens": n, "total_tokens": n + 9}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": "gen-1", "model": "moonshotai/kimi-k2-thinking", "provider": "Fireworks", "choices": [choice]}
        out.append(Sample(json.dumps(body | {"usage": usage}).encode(), (reasoning, content)))
    return out


def samples() -> list[Sample]:
    """Real answers of 500 to 2,000 tokens where the optional folder is there."""
    shared = shared_folder()
    if shared is None:
        return made_up()
    out = []
    for row in lines(shared / "real" / "long_responses.jsonl.gz"):
        body = row["response"]
        tokens = (body.get("usage") or {}).get("completion_tokens") or 0
        if str(body.get("id", "")).startswith("gen-") and NEAR_TOKENS[0] <= tokens <= NEAR_TOKENS[1]:
            message = body["choices"][0]["message"]
            out.append(
                Sample(json.dumps(body).encode(), (message.get("reasoning") or "", message.get("content") or ""))
            )
    return out


def median_s(work: Callable[[], object]) -> float:
    """Median seconds of one call, over ROUNDS calls."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def judge_over_encode(chosen: Sequence[Sample]) -> float:
    """Median over the answers of the cost of judging one, over the cost of encoding its texts."""
    ratios = []
    for sample in chosen:
        exchange = Exchange("bench", sample.body)
        judge(exchange, kit())  # both sides meet a warm word cache
        judged = median_s(partial(judge, exchange, kit()))
        ratios.append(judged / median_s(partial(encode_all, sample)))
    return statistics.median(ratios)


def encode_all(sample: Sample) -> list[list[int]]:
    """The ids of its texts, raw."""
    encode = kit().encode
    return [encode(text) for text in sample.texts]


def judge_many(bodies: list[bytes], seconds: float) -> int:
    """Answers judged in so many seconds."""
    end, n = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        judge(Exchange("bench", bodies[n % len(bodies)]), kit())
        n += 1
    return n


def two_processes(chosen: Sequence[Sample], seconds: float = 3.0) -> float:
    """Rate of two processes over the rate of one, taken in turns so that both meet the same noise."""
    bodies = [s.body for s in chosen]
    ratios = []
    with ProcessPoolExecutor(2) as pool:
        list(pool.map(judge_many, [bodies] * 2, [0.5] * 2))  # both load their vocabulary first
        for _ in range(3):
            one = pool.submit(judge_many, bodies, seconds).result()
            both = sum(pool.map(judge_many, [bodies] * 2, [seconds] * 2))
            ratios.append(both / one)
    return statistics.median(ratios)


def cold_check(chosen: Sequence[Sample]) -> float:
    """Median wall time of a cold `tokenproof check` on one answer, over that of loading the vocabulary alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answer.json"
        path.write_bytes(chosen[0].body)
        command = [str(Path(sys.executable).with_name("tokenproof")), "check", str(path)]
        load = [sys.executable, "-c", LOAD_ONLY]
        pairs = [(wall_s(command), wall_s(load)) for _ in range(9)]
    return statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs)


def wall_s(command: list[str]) -> float:
    """Wall seconds of one process."""
    start = time.perf_counter()
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    chosen = samples()
    figures = {
        "judge_over_encode": round(judge_over_encode(chosen), 2),
        "two_processes": round(two_processes(chosen), 2),
        "cold_check": round(cold_check(chosen), 2),
        "answers": len(chosen),
        "real": shared_folder() is not None,
    }
    for name, value in figures.items():
        print(f"{name:20} {value}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
