"""The data set beside the states, read as speculators reads it."""

from dataclasses import replace
from pathlib import Path

import datasets
import pytest
import torch
from safetensors.torch import load_file

from harness.errors import SetupError
from runners.extract_job import run_job
from runners.layout_speculators import write_data_set
from tests.runners.states_kit import drawn
from tests.runners.test_state_layouts import arithmetic_for, job


def test_rows_are_those_of_the_files(tmp_path: Path) -> None:
    """By index, as torch tensors: token_ids of hs_{row} equal input_ids of row, mask and length beside them."""
    run_job(job(tmp_path, "speculators"), arithmetic_for("speculators"))

    data = datasets.load_from_disk(str(tmp_path / "out"))

    assert len(data) == 12
    assert list(data.with_format(None)["seq_len"]) == [len(one.ids) for one in drawn(12)]
    for row, one in enumerate(drawn(12)):
        states = load_file(tmp_path / f"out/hidden_states/hs_{row}.safetensors")
        assert torch.equal(states["token_ids"], data[row]["input_ids"])
        assert bytes(data[row]["loss_mask"].tolist()) == one.loss_mask


def test_a_longer_run_makes_it_anew(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Old rows stay where they are, new ones behind; no left-over, and nothing said on the way."""
    for n in (5, 12):
        run_job(job(tmp_path, "speculators", n), arithmetic_for("speculators"))

    data = datasets.load_from_disk(str(tmp_path / "out"))

    assert [row["input_ids"].tolist() for row in data] == [list(one.ids) for one in drawn(12)]
    assert not (tmp_path / "out/.data-set").exists()
    assert len(list((tmp_path / "out").glob("data-*.arrow"))) == 1
    assert capfd.readouterr() == ("", "")


def test_without_a_sample_there_is_no_data_set(tmp_path: Path) -> None:
    """Every sample over-long: a run with nothing to keep ends as any other."""
    summary = run_job(replace(job(tmp_path, "speculators"), max_length=1), arithmetic_for("speculators"))
    assert (summary.samples, summary.over_long) == (0, 12)
    assert not (tmp_path / "out/state.json").exists()


def test_a_data_set_that_is_not_that_of_the_files_is_noticed(tmp_path: Path) -> None:
    """A group is gone: the rows behind it would belong to other files."""
    run_job(job(tmp_path, "speculators"), arithmetic_for("speculators"))
    (tmp_path / "out/shard-000000.json").unlink()
    with pytest.raises(SetupError, match="rows in the data set"):
        write_data_set(tmp_path / "out")
