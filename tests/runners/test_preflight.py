"""runners.preflight: what the plan of a run says and refuses, held against the run."""

from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.backend_transformers import Loading, TransformersBackend
from runners.extract_job import Job, run_job
from runners.preflight import LATER, facts_before, listed, plan_job, refuse_early
from tests.runners.states_kit import drawn, samples_file, tiny


def test_what_is_known_before_is_what_the_back_end_says() -> None:
    """But for what only a loaded model can tell."""
    loaded = TransformersBackend(tiny("llama"), Loading("1,3", "pre", "fp32", revision="r9")).facts
    before = facts_before(tiny("llama"), "transformers", "1,3", "fp32", "pre", "r9")
    known = [name for name in before.__slots__ if name not in LATER or name == "max_length"]
    assert {name: getattr(before, name) for name in known} == {name: getattr(loaded, name) for name in known}


@pytest.mark.parametrize(
    ("job", "dtype", "said"),
    [
        ({}, "bf16", 'dtype is "fp32" there and "bf16" now'),
        ({"over_long": "cut"}, "fp32", 'over_long is "drop" there and "cut" now'),
    ],
)
def test_shards_of_another_run_are_told_by_their_manifests(
    tmp_path: Path, job: dict[str, str], dtype: str, said: str
) -> None:
    """The run that wrote them is taken; another one is not, with the same words as the run's own."""
    file = samples_file(tmp_path / "s.parquet", drawn(3))
    same = Job(file, tmp_path / "out")
    backend = TransformersBackend(tiny("llama"), Loading(dtype="fp32"))
    run_job(same, backend)
    assert len(listed(tmp_path / "out")) == 1
    assert plan_job(same, facts_before(tiny("llama"), "transformers", "eagle3", "fp32", "post"), None).survey.done == 3

    other = Job(file, tmp_path / "out", **job)  # type: ignore[arg-type]
    with pytest.raises(SetupError, match=f"shards of another run.*\n{said}"):
        refuse_early(other, facts_before(tiny("llama"), "transformers", "eagle3", dtype, "post"))
