"""One extraction from file to folder."""

from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.extract_job import Job, limits_of, run_job
from runners.extract_plan import Survey
from runners.manifests import read_manifest
from runners.model_folder import file_sha256
from tests.runners.states_kit import FACTS, Arithmetic, drawn, facts, samples_file


def test_from_file_to_folder_and_again(tmp_path: Path) -> None:
    """The survey comes before, a tick after each shard; a second run has nothing to do."""
    samples = drawn(30)
    job = Job(samples_file(tmp_path / "s.parquet", samples), tmp_path / "out", shard_bytes=9000)
    begun: list[Survey] = []
    ticks: list[int] = []

    def start(survey: Survey):  # type: ignore[no-untyped-def]
        begun.append(survey)
        return lambda manifest: ticks.append(len(manifest.samples))

    summary = run_job(job, Arithmetic(), start=start)
    again = run_job(job, Arithmetic(), start=start)

    told = [(one.samples, one.tokens, one.shards, one.done) for one in begun]
    assert told == [(30, summary.tokens, summary.shards, 0), (0, 0, 0, 30)]
    assert (sum(ticks), len(ticks)) == (30, summary.shards)
    assert (again.samples, again.done_before) == (0, 30)
    manifest = read_manifest(tmp_path / "out/shard-000000.json")
    assert manifest.samples_file == {"name": "s.parquet", "sha256": file_sha256(job.samples)}
    assert (manifest.run["backend"], manifest.run["max_length"]) == ("arithmetic", 64)


def test_a_grown_file_adds_samples(tmp_path: Path) -> None:
    """Its hash is another; what stands there stays."""
    samples = drawn(9)
    for n in (4, 9):
        job = Job(samples_file(tmp_path / "s.parquet", samples[:n]), tmp_path / "out")
        summary = run_job(job, Arithmetic())
    assert (summary.samples, summary.done_before) == (5, 4)


def test_a_bad_row_is_told_before_the_first_forward(tmp_path: Path) -> None:
    """An id that the model has not, in the last row."""
    samples = [*drawn(5), drawn(1)[0]]
    job = Job(samples_file(tmp_path / "s.parquet", samples), tmp_path / "out")
    backend = Arithmetic()
    with pytest.raises(SetupError, match="two samples have the id 's0'"):
        run_job(job, backend)
    assert backend.asked == []


def test_limits() -> None:
    """The model's positions, unless fewer are asked for; more are refused. Bytes of K2.5: 56 KiB and 17 a token."""
    job = Job(Path("s"), Path("o"))
    k25 = facts(hidden_size=7168, dtype="bf16", max_length=262_144)

    assert limits_of(job, FACTS).max_length == 64
    assert limits_of(Job(Path("s"), Path("o"), max_length=9), FACTS).max_length == 9
    assert limits_of(job, facts(max_length=None)).max_length is None
    assert limits_of(job, k25).bytes_per_token == 56 * 1024 + 17
    with pytest.raises(SetupError, match="--max-length 65: none is made for 64 positions"):
        limits_of(Job(Path("s"), Path("o"), max_length=65), FACTS)
