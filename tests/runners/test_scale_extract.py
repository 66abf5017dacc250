"""Extraction on a cluster: the parts without Ray, then two workers of which one is killed."""

import os
import shutil
import signal
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners import scale_extract
from runners.contents import NAME
from runners.examining import Examiner
from runners.extract import Limits, Summary
from runners.extract_job import Job, about_of, limits_of, run_job
from runners.manifests import read_manifest
from runners.places import Place
from runners.scale import Cluster, Row
from runners.scale_extract import (
    ShardWorker,
    Task,
    packed,
    rows_of,
    run_on_cluster,
    standing_at,
    unpacked,
)
from runners.shards import manifests, problems
from runners.states import States
from tests.runners.states_kit import FACTS, Arithmetic, drawn, facts, faults, sample, samples_file

RAY = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning", "ignore::UserWarning:ray",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)  # fmt: skip


@dataclass
class Mortal(Arithmetic):
    """A back end whose process is killed once, in the middle of its work; a file tells that it was."""

    grave: Path = Path()

    def states(self, batch: "Sequence[array[int]]") -> list[States]:
        """The states, or the end."""
        if len(self.asked) == 1 and not self.grave.exists():
            self.grave.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().states(batch)


def plain(_: object) -> Examiner:
    """No head."""
    return Examiner()


def job(folder: Path, n: int = 60) -> Job:
    """Samples by chance, in about 20 shards."""
    return Job(samples_file(folder / "s.parquet", drawn(n)), folder / "local", shard_bytes=6000)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the shards, those included that are kept under other names."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("shard-")}


def task(asked: Job, out: Path, run_facts: object = FACTS) -> Task:
    """For one worker."""
    about = about_of(asked, run_facts, Examiner().told())  # type: ignore[arg-type]
    return Task(asked, str(out), Arithmetic, plain, about)


def test_rows_make_the_shards_of_one_machine(tmp_path: Path) -> None:
    """Row by row through one worker: the same files, byte for byte, whatever a row has, done twice or not."""
    asked = job(tmp_path)
    run_job(asked, Arithmetic())
    limits = limits_of(asked, FACTS)
    for per_row in (1, 3):
        worker = ShardWorker(task(asked, out := tmp_path / f"by{per_row}"))
        rows = list(rows_of(drawn(60), limits, {}, 0, per_row))
        for row in [*rows, rows[0]]:
            worker(row)
        assert contents(out) == contents(asked.out)
        assert len(rows) == -(-len(manifests(out)) // per_row)


def test_samples_travel_unchanged() -> None:
    """Names, ids, masks and where the prompt ends."""
    assert list(unpacked(packed(0, drawn(20)))) == drawn(20)


def test_rows_begin_where_the_folder_ends() -> None:
    """Numbers go on, and what is done stays away."""
    samples = drawn(6)
    done = {one.id: (one.ids_sha256, one.mask_sha256) for one in samples[:2]}
    rows = list(rows_of(samples, Limits(None, "drop", 1, 100), done, 7, 2))
    assert [(row["first"], row["names"]) for row in rows] == [(7, ["s2", "s3"]), (9, ["s4", "s5"])]


def test_a_worker_with_another_model_does_nothing(tmp_path: Path) -> None:
    """The run that every shard names must be its own."""
    with pytest.raises(SetupError, match=r"the machines of this cluster differ; .*:\nweights_sha256"):
        ShardWorker(task(job(tmp_path), tmp_path / "out", facts(weights_sha256="v" * 64)))


def test_what_stands_somewhere_is_checked(tmp_path: Path) -> None:
    """A whole shard counts, a changed one is set aside under another name, another run is refused."""
    asked = job(tmp_path)
    run_job(asked, Arithmetic())
    run = read_manifest(asked.out / "shard-000000.json").run
    n = len(manifests(asked.out))
    hurt = asked.out / "shard-000001.safetensors"
    data = bytearray(hurt.read_bytes())
    data[-1] ^= 1
    hurt.write_bytes(data)
    lost = {line["id"] for line in read_manifest(hurt.with_suffix(".json")).samples}
    said: list[str] = []

    done, _, number = standing_at(Place(str(asked.out)), run, said.append)

    assert {one.id for one in drawn(60)} - set(done) == lost
    assert (number, len(said), "kept as *.broken" in said[0]) == (n, 1, True)
    assert len(list(asked.out.glob("*.broken"))) == 2
    with pytest.raises(SetupError, match="shards of another run; use a new --out, or the same options:\ndtype"):
        standing_at(Place(str(asked.out)), {**run, "dtype": "bf16"}, said.append)


def test_other_layouts_are_refused(tmp_path: Path) -> None:
    """Before anything is connected."""
    asked = Job(tmp_path / "s.parquet", tmp_path, layout="specforge")
    with pytest.raises(SetupError, match="--ray writes native shards, not --layout specforge"):
        run_on_cluster(asked, str(tmp_path), Cluster("local"), Arithmetic, plain)


def inline(_: Cluster, rows: Sequence[Row], make: Callable[[], Callable[[Row], Row]]) -> Iterator[Row]:
    """As `spread`, in this process."""
    worker = make()
    for row in rows:
        yield worker(row)


@pytest.mark.parametrize("where", ["local", "memory"])
def test_a_cluster_goes_on_as_one_machine_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """A shard that is gone or damaged, a sample that has changed and one that vanished: the same is said, counted and
    left as by a run without a cluster, in a local folder and elsewhere; the folder verifies."""
    monkeypatch.setattr(scale_extract, "spread", inline)
    monkeypatch.setattr(scale_extract, "connected", lambda _: nullcontext())
    asked, here = job(tmp_path), tmp_path / "copy"
    out = "memory://cluster/states" if where == "memory" else str(tmp_path / "cluster")
    place, mine, theirs = Place(out), list[str](), list[str]()

    def both() -> tuple[Summary, Summary]:
        cluster = run_on_cluster(asked, out, Cluster("local"), Arithmetic, plain, complain=theirs.append)
        return run_job(asked, Arithmetic(), complain=mine.append), cluster

    def copied() -> dict[str, bytes]:
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        return {name: place.fetch(name, here).read_bytes() for name in place.names() if not name.startswith(".")}

    alone, cluster = both()
    assert cluster == alone
    assert copied() == {**contents(asked.out), NAME: (asked.out / NAME).read_bytes()}
    assert faults(here) == []

    samples = drawn(60)
    samples_file(asked.samples, [*samples[:20], sample("s20", [1], [2]), *samples[21:-1]])
    for name in ("shard-000001.json", "shard-000001.safetensors"):
        (asked.out / name).unlink()
        place.remove(name)
    hurt = asked.out / "shard-000003.safetensors"
    hurt.write_bytes(hurt.read_bytes()[:-1])
    place.put(hurt)
    alone, cluster = both()

    assert (cluster.changed_ids, cluster.vanished_ids) == (["s20"], ["s59"])
    assert cluster == alone
    assert theirs == mine
    assert copied() == {**contents(asked.out), NAME: (asked.out / NAME).read_bytes()}
    assert {name for name in place.names() if name.endswith(".broken")} == {
        "shard-000003.json.broken", "shard-000003.safetensors.broken",
    }  # fmt: skip
    assert ["sample 's59' that the last run did not have" in text for text in faults(here)] == [True]
    place._fs.rm(place._root, recursive=True)


@RAY
def test_two_workers_one_killed_midway_give_what_one_machine_gives(tmp_path: Path) -> None:
    """A local cluster, a `kill -9` of a worker after its first shard: the same files as without a cluster, every shard
    whole, and a second run has nothing to do."""
    asked, out, grave = job(tmp_path), tmp_path / "cluster", tmp_path / "grave"
    run_job(asked, Arithmetic())
    ticks: list[int] = []

    summary = run_on_cluster(
        asked,
        str(out),
        Cluster("local", workers=2),
        partial(Mortal, grave=grave),
        plain,
        start=lambda _: lambda manifest: ticks.append(len(manifest.samples)),
    )

    assert grave.exists()
    assert contents(out) == contents(asked.out)
    assert faults(out) == []
    assert [problems(path)[1] for path in manifests(out)] == [[] for _ in manifests(asked.out)]
    assert (summary.samples, sum(ticks), summary.shards) == (60, 60, len(manifests(out)))
