"""`make bench-extract`: extraction against a bare forward of the same model over the same batches; memory.

The tiny Llama, fp32, CPU, in one run. Bare: a padded batched forward of the causal LM, lm_head included, nothing kept
and nothing written. Ours: the whole of `run_job` after the model is loaded: reading Parquet, survey, forward,
agreement by lm_head at unmasked ids, checks, hashing and writing to disk, fsync included. Beside it agreement off,
against the same model without lm_head. The parts of a round take turns, and the best of each counts. Peak memory, from
the moment that the model is loaded, is read in processes of their own, for few and for many samples (Linux; null
elsewhere). A table, then one JSON line; 1 where the claim does not hold.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from runners.backend_transformers import Loading, TransformersBackend, buckets
from runners.examining import Examiner, examiner
from runners.extract import windows
from runners.extract_job import Job, limits_of, run_job
from runners.sample_rows import read_samples
from runners.states import Sample
from runners.tensors import padded
from runners.tiny import make_tiny
from tests.runners.states_kit import samples_file

BATCH_TOKENS, SHARD_BYTES = 1024, 2 << 20
MIN_RATIO, MAX_GROWTH = 0.9, 1.1
FEW, MANY = 200, 2000


def made(n: int, seed: int = 0) -> list[Sample]:
    """Samples as a run has them: a prompt of 30 to 250 ids, an answer of 50 to 450."""
    rng = random.Random(seed)
    found = []
    for k in range(n):
        prompt, output = rng.randrange(30, 250), rng.randrange(50, 450)
        ids = array("q", (rng.randrange(163_584) for _ in range(prompt + output)))
        found.append(Sample(f"set/{k}", ids, bytes(prompt) + b"\1" * output, prompt))
    return found


@dataclass(frozen=True)
class Run:
    """What every part shares."""

    place: Path
    model: Path
    samples: Path
    backend: TransformersBackend

    def job(self, name: str) -> Job:
        """Into a folder of its own."""
        return Job(self.samples, self.place / name, shard_bytes=SHARD_BYTES)

    def batches(self) -> list[list["array[int]"]]:
        """The batches that `run_job` computes."""
        found = []
        limits = limits_of(self.job("x"), self.backend.facts)
        for group in windows(read_samples(self.samples, self.backend.facts.vocab_size), limits):
            rows = [sample.ids for sample in group]
            found += [[rows[k] for k in part] for part in buckets([len(ids) for ids in rows], BATCH_TOKENS)]
        return found


def bare(model: Any, batches: Sequence[Sequence["array[int]"]]) -> None:
    """A loop that anyone would write: forward after forward, results dropped."""
    with torch.inference_mode():
        for batch in batches:
            ids, mask = padded(batch, "cpu")
            model(input_ids=ids, attention_mask=mask, use_cache=False)


def best(parts: dict[str, Callable[[int], None]], rounds: int) -> dict[str, float]:
    """Shortest seconds of each part over so many rounds in which they take turns."""
    shortest = dict.fromkeys(parts, float("inf"))
    for k in range(rounds):
        for name, part in parts.items():
            started = time.perf_counter()
            part(k)
            shortest[name] = min(shortest[name], time.perf_counter() - started)
    return shortest


def speed(place: Path, n: int, rounds: int) -> dict[str, float]:
    """Tokens a second of each part."""
    samples = made(n)
    model = make_tiny(place / "model")
    backend = TransformersBackend(model, Loading(dtype="fp32", batch_tokens=BATCH_TOKENS))
    run = Run(place, model, samples_file(place / "samples.parquet", samples), backend)
    whole = backend._model  # the very weights: two copies would compete for the caches
    batches, judge = run.batches(), examiner(model, backend.facts, None)
    seconds = best(
        {
            "bare": lambda _: bare(whole, batches),
            "extract": lambda k: done(run, f"with{k}", judge),
            "bare_without_lm_head": lambda _: bare(whole.model, batches),
            "extract_without_agreement": lambda k: done(run, f"without{k}", Examiner()),
        },
        rounds,
    )
    n_tokens = sum(len(sample.ids) for sample in samples)
    return {name: n_tokens / value for name, value in seconds.items()}


def done(run: Run, name: str, judge: Examiner) -> None:
    """One extraction from file to folder."""
    run_job(run.job(name), run.backend, examiner=judge)


def peak_mib(n: int) -> float | None:
    """Peak memory of a process while it extracts n samples; None where the system does not tell."""
    if not Path("/proc/self/clear_refs").exists():
        return None
    command = [sys.executable, "-m", "tests.report_bench_extract", "--memory", str(n)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def memory(n: int) -> float:
    """In this process: the peak in MiB from the moment that the model is loaded."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        write = f"from tests.report_bench_extract import *; prepare(Path({name!r}), {n})"
        subprocess.run([sys.executable, "-c", write], check=True)
        backend = TransformersBackend(place / "model", Loading(dtype="fp32", batch_tokens=BATCH_TOKENS))
        job = Job(place / "s.parquet", place / "out", shard_bytes=SHARD_BYTES)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        run_job(job, backend)
        told = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in told.splitlines() if line.startswith("VmHWM"))) / 1024


def prepare(place: Path, n: int) -> None:
    """Model and samples, in a process whose memory does not count."""
    make_tiny(place / "model", vocab_size=163_840)
    samples_file(place / "s.parquet", made(n))


def main(arguments: Sequence[str]) -> int:
    """Prints the table and the JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args(arguments)
    torch.set_num_threads(asked.threads)  # of so small a model more threads wait for each other on busy cores
    if asked.memory:
        print(memory(asked.memory))
        return 0
    with tempfile.TemporaryDirectory() as name:
        rates = speed(Path(name), asked.samples, asked.rounds)
    for part, rate in rates.items():
        print(f"{part}: {rate:,.0f} tokens/s", flush=True)
    few, many = peak_mib(FEW), peak_mib(MANY)
    figures = {
        "over_bare": round(rates["extract"] / rates["bare"], 3),
        "without_agreement_over_bare_without_lm_head": round(
            rates["extract_without_agreement"] / rates["bare_without_lm_head"], 3
        ),
        **{f"{name}_tokens_per_s": round(rate) for name, rate in rates.items()},
        f"peak_mib_{FEW}_samples": few and round(few),
        f"peak_mib_{MANY}_samples": many and round(many),
        "torch_threads": torch.get_num_threads(),
    }
    print(json.dumps(figures))
    grows = few is not None and many is not None and many > few * MAX_GROWTH
    return int(rates["extract"] < MIN_RATIO * rates["bare"] or grows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
