"""One extraction from file to folder: what stands there, what is left to do, and doing it.

The order of it all; the parts are in `extract`, `shards` and the back ends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from runners.contents import AGAIN, Contents, named, way_out, write_contents
from runners.examining import Examiner
from runners.extract import Limits, OverLong, Summary, extract
from runners.extract_plan import ExtractPlan, Survey, demand_room, free_bytes, state_bytes, survey
from runners.manifests import Manifest, run_block
from runners.model_folder import file_sha256
from runners.out_folder import locked
from runners.sample_rows import read_samples
from runners.shards import About, sample_bytes, set_apart
from runners.standing import Done, done_of, outdated, outdated_text, pair, standing, vanished_text
from runners.state_layouts import check_layout, data_set_of, refuse_foreign, sink_for
from runners.states import Backend, Facts, Sample

WITHOUT_HEAD = Examiner()


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
    size = state_bytes(len(facts.aux_layers), facts.hidden_size, facts.dtype)
    if job.max_length and facts.max_length and job.max_length > facts.max_length:
        raise SetupError(f"--max-length {job.max_length}: {facts.model} is made for {facts.max_length} positions")
    return Limits(job.max_length or facts.max_length, job.over_long, job.shard_bytes, sample_bytes(1, size))


def run_of(job: Job, facts: Facts, told: Mapping[str, Any]) -> dict[str, Any]:
    """What every shard of the job says of it; `told` is what the examiner says of itself."""
    limits = limits_of(job, facts)
    block = run_block(facts, layout=job.layout, max_length=limits.max_length, over_long=job.over_long)
    return block | {"agreement": dict(told)}


def about_of(job: Job, facts: Facts, told: Mapping[str, Any]) -> About:
    """The same, with the file that the samples came from."""
    return About(run_of(job, facts, told), {"name": job.samples.name, "sha256": file_sha256(job.samples)})


def surveyed(job: Job, facts: Facts, done: Done, *, local: bool = True) -> Survey:
    """What there is to do, every sample read and checked.

    Raises:
        SetupError: Something is wrong with a sample, or the disk does not hold the states.
    """
    told = survey(read_samples(job.samples, facts.vocab_size), limits_of(job, facts), done)
    size = state_bytes(len(facts.aux_layers), facts.hidden_size, facts.dtype)
    room = free_bytes(job.out) if local else None
    demand_room(ExtractPlan(told, size, job.layout, free_bytes=room), job.out)
    return told


def run_job(
    job: Job,
    backend: Backend,
    *,
    examiner: Examiner = WITHOUT_HEAD,
    complain: Callable[[str], None] = lambda _: None,
    start: Callable[[Survey], Callable[[Manifest], Any]] = lambda _: lambda _: None,
) -> Summary:
    """Extract what is not done; `start` is told what there is to do, and gives what is called after each shard.

    Raises:
        SetupError: Something does not allow it; what is whole stays, and the same job goes on from there.
    """
    facts = backend.facts
    limits = limits_of(job, facts)

    check_layout(job.layout, facts)
    with locked(job.out, job.layout) as held:
        if not held.known:
            refuse_foreign(job.layout, job.out)
        about = about_of(job, facts, examiner.told())
        _, whole, number = standing(job.out, about.run, complain)
        ours = resuming(job, facts, whole, complain, lambda shard: set_apart(pair(job.out / shard), "old"))
        sink = sink_for(job.layout, job.out, number, about, ours.whole)
        tick = start(ours.survey)
        samples = read_again(job, facts, about)
        held.claim()
        write_contents(job.out, contents_of(job, about, ours.survey))
        ours.survey.listed.clear()  # a line a sample: not to be held while states are
        summary = extract(samples, backend, sink, limits, ours.done, examine=examiner, tick=tick)
        demand_all(job, summary, ours.survey)
        return summary.resumed(ours.changed, ours.vanished)


def read_again(job: Job, facts: Facts, about: About) -> Iterator[Sample]:
    """The samples that were surveyed.

    Raises:
        SetupError: The file is another one than `about` tells of, before or after it is read.
    """
    _demand_same_file(job, about)
    yield from read_samples(job.samples, facts.vocab_size)
    _demand_same_file(job, about)


def _demand_same_file(job: Job, about: About) -> None:
    try:
        same = file_sha256(job.samples) == about.samples_file["sha256"]
    except OSError as error:
        raise SetupError(f"{job.samples} cannot be read: {error.strerror or error}") from error
    if not same:
        raise SetupError(f"{job.samples} was replaced or changed while the run was at work; {AGAIN}")


def demand_all(job: Job, summary: Summary, told: Survey) -> None:
    """SetupError where a run did not do what the survey said."""
    n = summary.samples + summary.set_aside
    if n != told.samples:
        raise SetupError(f"{job.samples}: {told.samples} samples were to be computed, {n} were; {AGAIN}")


def contents_of(job: Job, about: About, told: Survey) -> Contents:
    """What the folder must hold in the end."""
    return Contents(job.layout, about.samples_file, told.listed, data_set_of(job.layout))


@dataclass(frozen=True, slots=True)
class Resuming:
    """What a run finds, held against the samples as they are now.

    Attributes:
        done, whole: What counts of it.
        survey: What there is to do.
        changed: Samples that stood there with other ids or another mask: their shards count no more.
        vanished: Samples that stand there, and that are to be extracted no more.
    """

    done: Done
    whole: Sequence[Manifest]
    survey: Survey
    changed: Sequence[str]
    vanished: Sequence[str]


def resuming(
    job: Job,
    facts: Facts,
    whole: Sequence[Manifest],
    complain: Callable[[str], None],
    put_away: Callable[[str], None],
    *,
    local: bool = True,
) -> Resuming:
    """Hold what stands there against the samples; `put_away` is given the name of each manifest that counts no more.

    Raises:
        SetupError: As `surveyed`, or a sample has changed where rows may not move.
    """
    told = surveyed(job, facts, done_of(whole), local=local)
    changed = told.changed
    refuse_moving(job, changed)
    whole, go = outdated(whole, changed)
    if go:
        told = surveyed(job, facts, done_of(whole), local=local)  # all of it said before anything is touched
    for manifest in go:
        complain(outdated_text(manifest, changed))
        put_away(manifest.file.replace(".safetensors", ".json"))
    done = done_of(whole)
    vanished = [name for name in done if name not in told.listed]
    if vanished:
        complain(vanished_text(vanished, whole, job.samples.name, way_out(data_set_of(job.layout))))
    return Resuming(done, whole, told, changed, vanished)


def refuse_moving(job: Job, changed: Sequence[str]) -> None:
    """SetupError where samples have changed and rows may not move."""
    if changed and data_set_of(job.layout) is not None:
        raise SetupError(
            f"{job.out}: other ids or another loss_mask than in {job.samples.name} now, {named(changed)}; rows of "
            f"--layout {job.layout} may not move: begin anew in another --out"
        )
