"""One extraction from file to folder: what stands there, what is left to do, and doing it.

The order of it all; the parts are in `extract`, `shards` and the back ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from runners.extract import Examine, Limits, OverLong, Summary, Survey, extract, keep_all, locked, standing, survey
from runners.manifests import Manifest, run_block
from runners.model_folder import file_sha256
from runners.sample_rows import read_samples
from runners.shards import About, ShardSink, sample_bytes
from runners.states import Backend, Facts
from runners.tensor_bytes import ITEM_BYTES
from runners.tensors import NAMES, dtype


@dataclass(frozen=True, slots=True)
class Job:
    """What was asked.

    Attributes:
        max_length: In ids; None for what the model takes.
        shard_bytes: Size target of a shard.
        layout: `native`, or the files of a trainer.
    """

    samples: Path
    out: Path
    max_length: int | None = None
    over_long: OverLong = "drop"
    shard_bytes: int = 1 << 30
    layout: str = "native"


def limits_of(job: Job, facts: Facts) -> Limits:
    """The limits of a job on this model.

    Raises:
        SetupError: --max-length is more than the model's positions.
    """
    if job.max_length and facts.max_length and job.max_length > facts.max_length:
        raise SetupError(f"--max-length {job.max_length}: {facts.model} is made for {facts.max_length} positions")
    item_bytes = ITEM_BYTES[NAMES[dtype(facts.dtype)]]
    per_token = sample_bytes(1, len(facts.aux_layers) + 1, facts.hidden_size, item_bytes)
    return Limits(job.max_length or facts.max_length, job.over_long, job.shard_bytes, per_token)


def about_of(job: Job, facts: Facts, limits: Limits) -> About:
    """What every shard of the job says."""
    run = run_block(facts, layout=job.layout, max_length=limits.max_length, over_long=job.over_long)
    return About(run, {"name": job.samples.name, "sha256": file_sha256(job.samples)})


def run_job(
    job: Job,
    backend: Backend,
    *,
    examine: Examine = keep_all,
    complain: Callable[[str], None] = lambda _: None,
    start: Callable[[Survey], Callable[[Manifest], Any]] = lambda _: lambda _: None,
) -> Summary:
    """Extract what is not done; `start` is told what there is to do, and gives what is called after each shard.

    Raises:
        SetupError: Something does not allow it; what is whole stays, and the same job goes on from there.
    """
    facts = backend.facts
    limits = limits_of(job, facts)

    with locked(job.out):
        about = about_of(job, facts, limits)
        done, _, number = standing(job.out, about.run, complain)
        tick = start(survey(read_samples(job.samples, facts.vocab_size), limits, done))
        samples = read_samples(job.samples, facts.vocab_size)
        sink = ShardSink(job.out, number, about)
        return extract(samples, backend, sink, limits, done, examine=examine, tick=tick)
