"""Extraction on a cluster: the parts without Ray, then two workers of which one is killed."""

import os
import signal
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.examining import Examiner
from runners.extract import Limits
from runners.extract_job import Job, about_of, limits_of, run_job
from runners.manifests import read_manifest
from runners.places import Place
from runners.scale import Cluster
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
from tests.runners.states_kit import FACTS, Arithmetic, drawn, facts, samples_file

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
    """Every file of the shards."""
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

    done, number = standing_at(Place(str(asked.out)), run, said.append)

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
    assert [problems(path)[1] for path in manifests(out)] == [[] for _ in manifests(asked.out)]
    assert (summary.samples, sum(ticks), summary.shards) == (60, 60, len(manifests(out)))
