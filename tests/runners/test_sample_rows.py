"""Samples from Parquet: in order, and nothing that no forward should see."""

from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.vocab import VOCAB_SHA256
from runners.sample_rows import NEEDED, OPTIONAL, read_samples
from runners.samples import COLUMNS
from runners.tables import table_file
from tests.runners.states_kit import KINDS, VOCAB, drawn, sample, samples_file


def test_samples_come_as_they_were_written(tmp_path: Path) -> None:
    """Ids, masks and order; more than one batch of rows."""
    expected = drawn(600)
    path = samples_file(tmp_path / "s.parquet", expected, verdict=("text", "verified"), cost=("number", 0.1))

    assert list(read_samples(path, VOCAB)) == expected


@pytest.mark.parametrize(
    ("row", "said"),
    [
        pytest.param({"output_ids": [1, 500]}, r"ids from 1 to 500; the model has 0\.\.499", id="outside"),
        pytest.param({"prompt_ids": [-1]}, r"ids from -1 to 4", id="negative"),
        pytest.param({"loss_mask": [1]}, "2 output_ids with a loss_mask of 1", id="short-mask"),
        pytest.param({"loss_mask": [1, 2]}, "a loss_mask with 2; expected 0 and 1", id="mask-2"),
        pytest.param({"output_ids": [], "loss_mask": []}, "0 output_ids", id="no-output"),
        pytest.param({"output_ids": [None, 1]}, "row 1", id="null-id"),
        pytest.param({"loss_mask": None}, "row 1", id="null-mask"),
        pytest.param({"id": ""}, "an id of a sample is text", id="no-id"),
        pytest.param({"verdict": "rejected"}, "its verdict is 'rejected'", id="rejected"),
        pytest.param({"verdict": None}, "its verdict is None", id="no-verdict"),
        pytest.param({"left_out": "prompt-contradicted"}, "it was left out of the samples", id="left-out"),
        pytest.param({"vocab_sha256": "0" * 64}, f"expected {VOCAB_SHA256}", id="other-vocabulary"),
    ],
)
def test_a_row_that_may_not_be_used_names_itself(tmp_path: Path, row: dict[str, object], said: str) -> None:
    """The row before it comes; then row number, id and reason."""
    good = {"id": "g", "prompt_ids": [3], "output_ids": [4, 4], "loss_mask": [1, 0], "verdict": "exact",
            "vocab_sha256": VOCAB_SHA256, "left_out": None}  # fmt: skip
    path = tmp_path / "s.parquet"
    with table_file(path, {**KINDS, "verdict": "text", "vocab_sha256": "text", "left_out": "text"}) as table:
        table.add(good)
        table.add({**good, "id": "bad", **row})

    rows = read_samples(path, VOCAB)
    assert next(rows) == sample("g", [3], [4, 4], [1, 0])
    with pytest.raises(SetupError, match=said) as caught:
        next(rows)
    assert "row 1" in str(caught.value)


def test_ids_are_told_apart_by_their_data_set(tmp_path: Path) -> None:
    """Two data sets may each have an id `1`."""
    path = tmp_path / "s.parquet"
    with table_file(path, {**KINDS, "data_set": "text"}) as table:
        for name in ("chat", "code"):
            table.add({"id": "1", "prompt_ids": [1], "output_ids": [2], "loss_mask": [1], "data_set": name})

    assert [one.id for one in read_samples(path, VOCAB)] == ["chat/1", "code/1"]


def test_the_columns_of_a_run_are_the_ones_that_are_read() -> None:
    """samples.parquet as `generate` writes it has every column that is looked at."""
    assert {*NEEDED, *OPTIONAL} <= {*COLUMNS}


def test_a_file_without_masks_is_refused(tmp_path: Path) -> None:
    """The message says which column is missed."""
    path = tmp_path / "s.parquet"
    with table_file(path, {"id": "text", "prompt_ids": ("id",), "output_ids": ("id",)}) as table:
        table.add({"id": "a", "prompt_ids": [], "output_ids": [1]})

    with pytest.raises(SetupError, match="no column 'loss_mask'"):
        next(read_samples(path, VOCAB))
