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
from harness.inputs import golden_text
from harness.response import loads
from runners.examining import Examiner
from runners.extract import Limits, Summary, extract, wanted, windows
from runners.extract_job import (
    Job,
    Resuming,
    about_of,
    contents_of,
    demand_all,
    limits_of,
    read_again,
    resuming,
    run_of,
)
from runners.extract_plan import Survey
from runners.manifests import Manifest, manifest_text, read_manifest, run_differences
from runners.out_place import held, put_apart, put_contents
from runners.places import Place
from runners.scale import Cluster, Row, connected, spread
from runners.shards import NAME, About, Kept, problems, write_shard
from runners.standing import Done, count_in, pair
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


def standing_at(
    place: Place, run: Mapping[str, Any], complain: Callable[[str], None]
) -> tuple[Done, list[Manifest], int]:
    """As `standing.standing`, a shard at a time fetched: (done, whole shards, number of the next one).

    Raises:
        SetupError: Shards of another run stand there, or one sample in two.
    """
    done: Done = {}
    whole: list[Manifest] = []
    names = set(place.names())
    numbers = sorted((int(match[1]), name) for name in names if (match := NAME.fullmatch(name)))
    for _, name in numbers:
        with TemporaryDirectory() as folder:
            for part in pair(Path(folder) / name):
                if part.name in names:
                    place.fetch(part.name, Path(folder))
            manifest, found = problems(Path(folder) / name)
        if manifest is None or found:
            complain(f"{name}: {found[0]}; kept as *.broken, and computed again")
            put_apart(place, name)
            continue
        count_in(done, manifest, run, place.uri)
        whole.append(manifest)
    return done, whole, numbers[-1][0] + 1 if numbers else 0


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

    A worker is asked first what its model is, so a model is loaded once more than there are workers. The folder is
    locked, and looked through for files of others, as far as its file system allows: see `out_place`.

    Raises:
        SetupError: Something does not allow it; what is whole stays, and the same job goes on from there.
    """
    if job.layout != "native":
        raise SetupError(f"--ray writes native shards, not --layout {job.layout}: its files are numbered one by one")
    with connected(cluster):
        place = Place(out)
        with held(place, job.layout, complain) as claim:
            facts, examined = _asked(cluster, make_backend, make_examiner)
            task = Task(job, out, make_backend, make_examiner, about_of(job, facts, examined))
            _, whole, number = standing_at(place, task.about.run, complain)
            here = replace(job, out=place.local or job.out)
            put_away = partial(put_apart, place, word="old")
            ours = resuming(here, facts, whole, complain, put_away, local=place.local is not None)
            tick = start(ours.survey)
            claim.claim()
            put_contents(place, contents_of(job, task.about, ours.survey))
            ours.survey.listed.clear()  # a line a sample, and needed no more
            told = ours.survey
            summary = Summary(done_before=told.done, over_long=told.over_long, dropped=told.dropped)
            for manifest in _spread(cluster, task, facts, ours, number):
                summary.add(manifest)
                tick(manifest)
            demand_all(job, summary, told)
            return summary.resumed(ours.changed, ours.vanished)


def _asked(
    cluster: Cluster, make_backend: Callable[[], Backend], make_examiner: Callable[[Backend], Examiner]
) -> tuple[Facts, Mapping[str, Any]]:
    """What a worker's back end and examiner say of themselves."""
    (answer,) = spread(cluster, [{"ask": 1}], partial(Asker, make_backend, make_examiner))
    told = loads(answer["told"].encode())
    return Facts(**told["facts"] | {"aux_layers": tuple(told["facts"]["aux_layers"])}), told["examiner"]


def _spread(cluster: Cluster, task: Task, facts: Facts, ours: Resuming, number: int) -> Iterator[Manifest]:
    """The shards that the workers write, as they come."""
    per_row = max(1, min(MAX_SHARDS_A_ROW, ours.survey.shards // (cluster.workers * ROWS_A_WORKER)))
    samples = read_again(task.job, facts, task.about)
    rows = list(rows_of(samples, limits_of(task.job, facts), ours.done, number, per_row))
    for found in spread(cluster, rows, partial(ShardWorker, task)) if rows else ():
        yield from map(_parsed, found["manifests"])


def _parsed(text: str) -> Manifest:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "manifest.json"
        path.write_text(text, encoding="utf-8")
        return read_manifest(path)
