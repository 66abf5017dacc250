"""Spot checks: stored states against the sample computed alone, from the bytes on the disk."""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.backend_transformers import Loading, TransformersBackend
from runners.extract_job import Job, run_job
from runners.out_folder import locked
from runners.spot_check import spot_check
from runners.states import States
from tests.runners.states_kit import Arithmetic, drawn, facts, faults, samples_file, tiny


def stored(folder: Path, n: int = 20) -> Path:
    """Shards of samples by chance, computed by arithmetic."""
    job = Job(samples_file(folder / "s.parquet", drawn(n)), folder / "out", shard_bytes=9000)
    run_job(job, Arithmetic())
    return job.out


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_what_a_batch_stored_is_what_each_sample_gives_alone(dtype: str, tmp_path: Path) -> None:
    """A real model, padded batches, the bytes of the shards, batch size 1: all hold."""
    backend = TransformersBackend(tiny("llama"), Loading(dtype=dtype))
    job = Job(samples_file(tmp_path / "s.parquet", drawn(12)), tmp_path / "out")
    run_job(job, backend)

    spots = spot_check(job.out, backend, 5).spots

    assert [one.holds for one in spots] == [True] * 5
    assert len({one.id for one in spots}) == 5


def test_every_sample_is_taken_where_fewer_are_there(tmp_path: Path) -> None:
    """In the order of the folder, exact where states are."""
    backend = Arithmetic()

    spots = spot_check(stored(tmp_path), backend, 100).spots

    assert [one.id for one in spots] == [f"s{k}" for k in range(20)]
    assert {one.worst for one in spots} == {0.0}
    assert backend.asked == [1] * 20


def test_states_of_the_neighbour_do_not_hold(tmp_path: Path) -> None:
    """A run that mixed up two samples of one length is found, though every checksum fits."""

    def swapped(found: list[States]) -> list[States]:
        lengths = [len(states.last) for states in found]
        a, b = next((a, b) for b in range(len(found)) for a in range(b) if lengths[a] == lengths[b])
        found[a], found[b] = found[b], found[a]
        return found

    job = Job(samples_file(tmp_path / "s.parquet", drawn(40)), tmp_path / "out")
    run_job(job, Arithmetic(wrong=swapped))

    said: list[str] = []
    before = {path.name: path.read_bytes() for path in job.out.glob("shard-*")}

    found = spot_check(job.out, Arithmetic(), 40, said.append)

    failed = [one for one in found.spots if not one.holds]
    assert len(failed) == 2
    assert all(one.worst > 0.01 for one in failed)
    assert len(found.set_apart) == len(said) == 1
    assert f"{found.set_apart[0]}.json: sample '{failed[0].id}' has other states alone" in said[0]
    moved = {f"{found.set_apart[0]}.{ending}" for ending in ("json", "safetensors")}
    after = {path.name: path.read_bytes() for path in job.out.glob("shard-*")}
    assert after == {f"{name}.broken" if name in moved else name: data for name, data in before.items()}
    assert "in no shard: " in faults(job.out)[0]

    assert run_job(job, Arithmetic()).samples > 1
    assert faults(job.out) == []
    assert spot_check(job.out, Arithmetic(), 40).set_apart == []


def test_what_was_found_before_an_error_is_set_apart(tmp_path: Path) -> None:
    """The first sample does not hold, at the second the server goes away: the first one's shard is good no more."""

    class Leaving(Arithmetic):
        def states(self, batch: "Sequence[array[int]]") -> list[States]:
            if self.asked:
                raise SetupError("the server went away")
            return [replace(one, last=one.last + 1) for one in super().states(batch)]

    folder = stored(tmp_path)
    with pytest.raises(SetupError, match="the server went away"):
        spot_check(folder, Leaving(), 100)
    assert {path.name for path in folder.glob("*.broken")} == {
        f"shard-000000.{ending}.broken" for ending in ("json", "safetensors")
    }


def test_a_folder_in_which_a_run_is_at_work_is_not_touched(tmp_path: Path) -> None:
    """Its shards may come and go."""
    folder = stored(tmp_path)
    with locked(folder, "native"), pytest.raises(SetupError, match="another run is at work"):
        spot_check(folder, Arithmetic(), 1)


def test_another_model_is_not_compared(tmp_path: Path) -> None:
    """The weights' hash of the manifest must be that of the back end; nothing is computed."""
    folder, other = stored(tmp_path), Arithmetic(facts=facts(weights_sha256="v" * 64))
    with pytest.raises(
        SetupError, match=r'shard-00000.\.json holds states of another run.*:\nweights_sha256 is "w{64}" there'
    ):
        spot_check(folder, other, 1)
    assert other.asked == []


def test_a_back_end_that_forgets_rows_is_refused(tmp_path: Path) -> None:
    """Too few rows at batch size 1 are an error and not a small difference."""

    class Short(Arithmetic):
        def states(self, batch: "Sequence[array[int]]") -> list[States]:
            return [replace(one, aux=one.aux[1:], last=one.last[1:]) for one in super().states(batch)]

    with pytest.raises(SetupError, match="stored as"):
        spot_check(stored(tmp_path), Short(), 1)
