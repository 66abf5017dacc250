"""Extraction on a Ray cluster: the survey, the windows and the loop of one machine, in workers; shards to any place.

A row of the cluster's work is the samples of a few shards with the number of the first, so that a row which is done
twice writes the same names. Knows nothing of Ray itself.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.errors import SetupError
from harness.response import loads
from harness.store import golden_text
from runners.examining import Examiner
from runners.extract import Done, Limits, Summary, count_in, extract, wanted, windows
from runners.extract_job import Job, about_of, limits_of, run_of, surveyed
from runners.extract_plan import Survey
from runners.manifests import Manifest, manifest_text, read_manifest, run_differences
from runners.places import Place
from runners.sample_rows import read_samples
from runners.scale import Cluster, Row, connected, spread
from runners.shards import NAME, About, Kept, problems, write_shard
from runners.states import Backend, Facts, Sample

MAX_SHARDS_A_ROW, ROWS_A_WORKER = 8, 4


@dataclass(frozen=True, slots=True)
class Task:
    """What every worker is told; all of it can be sent to another machine.

    Attributes:
        make_backend, make_examiner: Called in the worker.
        out: A folder or URI that every worker can write to.
        about: What every shard says; a worker whose own run differs does nothing.
    """

    job: Job
    out: str
    make_backend: Callable[[], Backend]
    make_examiner: Callable[[Backend], Examiner]
    about: About


class PlaceSink:
    """Shards written to a temporary folder, then put in their place: the tensors first, the manifest last."""

    def __init__(self, place: Place, number: int, about: About) -> None:
        self._place, self._number, self._about = place, number, about

    def write(self, kept: Sequence[Kept], set_aside: Sequence[Mapping[str, Any]]) -> Manifest:
        """One shard more; see `shards.write_shard`."""
        with TemporaryDirectory() as name:
            folder = Path(name)
            manifest = write_shard(folder, self._number, kept, replace(self._about, set_aside=set_aside))
            file = folder / manifest.file
            self._place.put(file)
            self._place.put(file.with_suffix(".json"))
        self._number += 1
        return manifest

    def finish(self) -> None:
        """Nothing is left to do."""


class ShardWorker:
    """One worker: a model, loaded once, and the shards of one row after the other."""

    def __init__(self, task: Task) -> None:
        self._backend = task.make_backend()
        self._examiner = task.make_examiner(self._backend)
        facts = self._backend.facts
        if parted := run_differences(task.about.run, run_of(task.job, facts, self._examiner.told())):
            said = "the machines of this cluster differ; give all of them the same model and code:"
            raise SetupError("\n".join((said, *parted)))
        self._task, self._limits, self._place = task, limits_of(task.job, facts), Place(task.out)

    def __call__(self, row: Row) -> Row:
        sink, written = PlaceSink(self._place, row["first"], self._task.about), list[Manifest]()
        extract(unpacked(row), self._backend, sink, self._limits, {}, examine=self._examiner, tick=written.append)
        return {"manifests": [manifest_text(manifest) for manifest in written]}


class Asker:
    """A worker that says what its back end and examiner are."""

    def __init__(self, make_backend: Callable[[], Backend], make_examiner: Callable[[Backend], Examiner]) -> None:
        backend = make_backend()
        self._told = golden_text({"facts": asdict(backend.facts), "examiner": make_examiner(backend).told()})

    def __call__(self, row: Row) -> Row:
        return {"told": self._told}


def packed(first: int, samples: Sequence[Sample]) -> Row:
    """Samples as a row: bytes, texts and numbers."""
    return {
        "first": first,
        "names": [sample.id for sample in samples],
        "ids": [sample.ids.tobytes() for sample in samples],
        "masks": [sample.loss_mask for sample in samples],
        "n_prompts": [sample.n_prompt for sample in samples],
    }


def unpacked(row: Row) -> Iterator[Sample]:
    """What was packed."""
    for name, ids, mask, n_prompt in zip(row["names"], row["ids"], row["masks"], row["n_prompts"], strict=True):
        yield Sample(str(name), array("q", bytes(ids)), bytes(mask), int(n_prompt))


def rows_of(samples: Iterable[Sample], limits: Limits, done: Done, number: int, per_row: int) -> Iterator[Row]:
    """Rows of so many shards each; the shards are those that one machine would write."""
    groups = windows(wanted(samples, limits, done, Summary()), limits)
    while part := list(islice(groups, per_row)):
        yield packed(number, list(chain.from_iterable(part)))
        number += len(part)


def standing_at(place: Place, run: Mapping[str, Any], complain: Callable[[str], None]) -> tuple[Done, int]:
    """As `extract.standing`, a shard at a time fetched: (done, number of the next shard).

    Raises:
        SetupError: Shards of another run stand there, or one sample in two.
    """
    done: Done = {}
    names = set(place.names())
    numbers = sorted((int(match[1]), name) for name in names if (match := NAME.fullmatch(name)))
    for _, name in numbers:
        pair = [part for part in (name.replace(".json", ".safetensors"), name) if part in names]
        with TemporaryDirectory() as folder:
            paths = [place.fetch(part, Path(folder)) for part in pair]
            manifest, found = problems(paths[-1])
        if manifest is None or found:
            complain(f"{name}: {found[0]}; kept as *.broken, and computed again")
            for part in pair:
                place.rename(part, f"{part}.broken")
            continue
        count_in(done, manifest, run, place.uri)
    return done, numbers[-1][0] + 1 if numbers else 0


def run_on_cluster(
    job: Job,
    out: str,
    cluster: Cluster,
    make_backend: Callable[[], Backend],
    make_examiner: Callable[[Backend], Examiner],
    *,
    complain: Callable[[str], None] = lambda _: None,
    start: Callable[[Survey], Callable[[Manifest], Any]] = lambda _: lambda _: None,
) -> Summary:
    """As `extract_job.run_job`, by the workers of a cluster, to a folder or URI that all of them reach.

    A worker is asked first what its model is, so a model is loaded once more than there are workers.

    Raises:
        SetupError: Something does not allow it; what is whole stays, and the same job goes on from there.
    """
    if job.layout != "native":
        raise SetupError(f"--ray writes native shards, not --layout {job.layout}: its files are numbered one by one")
    with connected(cluster):
        (answer,) = spread(cluster, [{"ask": 1}], partial(Asker, make_backend, make_examiner))
        told = loads(answer["told"].encode())
        facts = Facts(**told["facts"] | {"aux_layers": tuple(told["facts"]["aux_layers"])})
        task = Task(job, out, make_backend, make_examiner, about_of(job, facts, told["examiner"]))
        done, number = standing_at(Place(out), task.about.run, complain)
        survey = surveyed(job, facts, done, local="://" not in out)
        tick, summary = start(survey), Summary(done_before=survey.done, over_long=survey.over_long)
        per_row = max(1, min(MAX_SHARDS_A_ROW, survey.shards // (cluster.workers * ROWS_A_WORKER)))
        samples = read_samples(job.samples, facts.vocab_size)
        rows = list(rows_of(samples, limits_of(job, facts), done, number, per_row))
        for found in spread(cluster, rows, partial(ShardWorker, task)) if rows else ():
            for text in found["manifests"]:
                manifest = _parsed(text)
                summary.add(manifest)
                tick(manifest)
        return summary


def _parsed(text: str) -> Manifest:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.json"
        path.write_text(text, encoding="utf-8")
        return read_manifest(path)
