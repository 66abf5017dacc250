"""One extraction from file to folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupError
from runners.extract import Summary
from runners.extract_job import Job, demand_all, limits_of, run_job
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


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        pytest.param(drawn(3, seed=9), "was replaced or changed while the run was at work", id="others"),
        pytest.param(drawn(2), "was replaced or changed while the run was at work", id="fewer"),
        pytest.param(None, "cannot be read: No such file", id="gone"),
    ],
)
def test_a_file_replaced_after_the_survey_is_refused(tmp_path: Path, samples: Any, said: str) -> None:
    """What was surveyed is what is computed: nothing is written of another file, and the run does not end well."""
    job = Job(samples_file(tmp_path / "s.parquet", drawn(3)), tmp_path / "out")

    def replace_it(_: Any) -> Any:
        samples_file(job.samples, samples) if samples else job.samples.unlink()
        return lambda _: None

    with pytest.raises(SetupError, match=said):
        run_job(job, Arithmetic(), start=replace_it)
    assert list((tmp_path / "out").glob("shard-*")) == []


def test_a_file_changed_while_it_is_read_is_told(tmp_path: Path) -> None:
    """After the last sample was read."""
    job = Job(samples_file(tmp_path / "s.parquet", drawn(3)), tmp_path / "out")

    def change_it(found: Any) -> Any:
        samples_file(job.samples, drawn(2))
        return found

    with pytest.raises(SetupError, match="was replaced or changed while"):
        run_job(replace(job, shard_bytes=1), Arithmetic(wrong=change_it))


def test_fewer_samples_than_surveyed_are_no_good_end(tmp_path: Path) -> None:
    """Whatever the reason: the count is held against the survey."""
    job = Job(samples_file(tmp_path / "s.parquet", drawn(3)), tmp_path / "out")
    with pytest.raises(SetupError, match="3 samples were to be computed, 2 were"):
        demand_all(job, Summary(samples=1, set_aside=1), Survey(samples=3))
    demand_all(job, Summary(samples=2, set_aside=1), Survey(samples=3))
