"""The plan: figures that are known, figures that come true, and a disk that is too small."""

from array import array
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners import extract_plan
from runners.extract import Limits
from runners.extract_job import Job, run_job
from runners.extract_plan import ExtractPlan, Survey, demand_room, free_bytes, state_bytes, survey
from runners.states import Sample
from tests.runners.states_kit import FACTS, Arithmetic, drawn, samples_file

KIMI = 4 * 7168 * 2


def samples(n: int, n_ids: int) -> list[Sample]:
    """Samples of one length, all of the same ids."""
    ids = array("q", range(n_ids))
    return [Sample(f"s{k}", ids, bytes(n_ids // 2) + b"\1" * (n_ids - n_ids // 2), n_ids // 2) for k in range(n)]


def limits(max_length: int | None = None, shard_bytes: int = 1 << 30) -> Limits:
    """Limits of K2.5's states."""
    return Limits(max_length, "drop", shard_bytes, KIMI + 9)


def test_the_whole_run_for_kimi_is_eight_terabytes() -> None:
    """Four layers of K2.5 in bf16 are 56 KiB a token; 138 M tokens are 7.9 TB, in shards of 1 GiB."""
    told = survey(samples(138_000, 1000), limits(), {})
    plan = ExtractPlan(told, state_bytes(3, 7168, "bf16"), tokens_per_s=20_000)

    assert plan.state_bytes_per_token == 56 * 1024
    assert told.tokens == 138_000_000
    assert told.tokens * plan.state_bytes_per_token == 7_913_472_000_000
    assert round(plan.n_bytes / 1e12, 1) == 7.9
    assert plan.files == 2 * 7667 + 1  # 18 samples of 57,353,000 bytes are a shard
    assert plan.hours == pytest.approx(138_000_000 / 20_000 / 3600)


def test_without_a_rate_nobody_knows_the_hours() -> None:
    """No rate, no hours: none is made up."""
    assert ExtractPlan(Survey(1, 10), KIMI).hours is None


def test_what_stands_there_and_what_is_too_long_is_left_out() -> None:
    """Done samples are not computed again, over-long ones are dropped and counted."""
    some = [*samples(3, 10), *(Sample(f"long{k}", array("q", range(90)), bytes([1]) * 90, 0) for k in range(2))]
    done = {"s1": (some[1].ids_sha256, some[1].mask_sha256)}

    assert survey(some, limits(50), done) == Survey(
        samples=2, tokens=20, longest=10, shards=1, name_bytes=4, done=1, over_long=2, dropped=2
    )


def test_the_plan_comes_true(tmp_path: Path) -> None:
    """What was written is what was planned, never more, and less by names and headers alone."""
    job = Job(samples_file(tmp_path / "s.parquet", drawn(200)), tmp_path / "out", shard_bytes=40_000)
    seen: list[Survey] = []

    def start(told: Survey):  # type: ignore[no-untyped-def]
        seen.append(told)
        return lambda _: None

    run_job(job, Arithmetic(), start=start)

    plan = ExtractPlan(seen[0], state_bytes(3, FACTS.hidden_size, FACTS.dtype))
    files = [path for path in job.out.iterdir() if not path.name.startswith(".")]
    written = sum(path.stat().st_size for path in files)
    assert plan.files == len(files)
    assert plan.n_bytes >= written
    assert plan.n_bytes - written < 200 * 640 + plan.survey.shards * 8192


def test_a_disk_that_is_too_small_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says what is free, what is needed and what to do; one byte less is enough to refuse, and nothing is
    computed."""
    needed = ExtractPlan(survey(samples(100, 1000), limits(), {}), KIMI)
    tight, enough = (replace(needed, free_bytes=needed.n_bytes - less) for less in (1, 0))

    assert (tight.fits, enough.fits, needed.fits) == (False, True, True)
    demand_room(enough, Path("out"))
    with pytest.raises(SetupError, match=r"out has 5\.7 GB free, 5\.7 GB will be written \(100,000 tokens\); choose"):
        demand_room(tight, Path("out"))

    monkeypatch.setattr(extract_plan.shutil, "disk_usage", lambda _: namedtuple("Usage", "free")(1000))
    backend = Arithmetic()
    with pytest.raises(SetupError, match=r"0\.0 GB free"):
        run_job(Job(samples_file(tmp_path / "s.parquet", drawn(20)), tmp_path / "out"), backend)
    assert backend.asked == []


def test_free_room_is_asked_where_the_folder_will_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is not there yet is on the disk of the nearest one that is; a disk that does not tell is None."""
    asked = []

    def usage(place: Path) -> object:
        asked.append(place)
        if not place.exists():
            raise FileNotFoundError
        return namedtuple("Usage", "free")(7)

    monkeypatch.setattr(extract_plan.shutil, "disk_usage", usage)

    assert free_bytes(tmp_path / "a" / "b") == 7
    assert asked == [tmp_path / "a" / "b", tmp_path / "a", tmp_path]
    monkeypatch.setattr(extract_plan.shutil, "disk_usage", lambda _: (_ for _ in ()).throw(PermissionError()))
    assert free_bytes(tmp_path) is None


def test_an_unknown_layout_is_refused() -> None:
    """The message lists those that there are."""
    with pytest.raises(SetupError, match=r"'numpy' is none of \['native', 'specforge', 'speculators'\]"):
        _ = ExtractPlan(Survey(), KIMI, layout="numpy").n_bytes


def test_nothing_to_do_needs_nothing() -> None:
    """An empty plan fits a full disk."""
    nothing = ExtractPlan(survey([], limits(), {}), KIMI, free_bytes=0)

    assert (nothing.n_bytes, nothing.files, nothing.fits) == (0, 0, True)
