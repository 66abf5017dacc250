"""Samples from Parquet: in order, and nothing that no forward should see."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import SetupError
from harness.vocab import VOCAB_SHA256
from runners.contents import read_contents
from runners.extract_job import Job, run_job
from runners.sample_rows import MAX_NAME, NEEDED, OPTIONAL, read_samples
from runners.samples import COLUMNS
from runners.tables import table_file
from tests.runners.states_kit import KINDS, VOCAB, Arithmetic, drawn, sample, samples_file


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
        pytest.param(
            {"output_ids": [None, 1]},
            "column 'output_ids' has a null at place 0; expected a list of whole",
            id="null-id",
        ),
        pytest.param({"prompt_ids": None}, "column 'prompt_ids' is null; expected a list of whole", id="null-prompt"),
        pytest.param({"loss_mask": None}, "column 'loss_mask' is null; expected a list of whole", id="null-mask"),
        pytest.param({"loss_mask": [1, None]}, "column 'loss_mask' has a null at place 1", id="null-in-mask"),
        pytest.param({"id": ""}, "column 'id' is empty; expected text, and not empty", id="empty-id"),
        pytest.param({"id": None}, "column 'id' is null; expected text, and not empty", id="no-id"),
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


def test_a_bit_flipped_in_the_header_of_a_page_gives_no_other_samples(tmp_path: Path) -> None:
    """A page's checksum is not of its header, which says how many values there are: the footer is held against them."""
    path, samples = samples_file(tmp_path / "s.parquet", drawn(30)), drawn(30)
    data, found = path.read_bytes(), []
    group = pq.read_metadata(path).row_group(0)
    pages = {at for k in range(4) for at in (group.column(k).dictionary_page_offset, group.column(k).data_page_offset)}
    for at in (start + n for start in pages - {None} for n in range(24)):
        for bit in range(8):
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :])
            try:
                found.append(list(read_samples(path, VOCAB)) == samples)
            except SetupError:
                found.append(True)
    assert len(found) >= 4 * 24 * 8
    assert all(found)


@pytest.mark.parametrize("character", ["x", "\1", "\U0001f600"])
def test_a_name_that_no_list_could_hold_is_refused(tmp_path: Path, character: str) -> None:
    """The longest that is taken comes back from the contents of a folder; one more character is told at once."""
    name = character * MAX_NAME
    path = samples_file(tmp_path / "s.parquet", [sample(name, [1], [2])])
    run_job(Job(path, tmp_path / "out"), Arithmetic())
    assert list(read_contents(tmp_path / "out").samples) == [name]

    samples_file(path, [sample(f"{name}x", [1], [2])])
    with pytest.raises(SetupError, match="an id of 65,537 characters; expected 65,536 at most"):
        list(read_samples(path, VOCAB))


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


GOOD: dict[str, tuple[Any, pa.DataType]] = {
    "id": ("a", pa.string()),
    "prompt_ids": ([1], pa.list_(pa.int32())),
    "output_ids": ([2, 3], pa.list_(pa.int32())),
    "loss_mask": ([0, 1], pa.list_(pa.uint8())),
    **dict.fromkeys(("data_set", "left_out"), (None, pa.string())),
    "verdict": ("exact", pa.string()),
    "vocab_sha256": (VOCAB_SHA256, pa.string()),
}
MASK, IDS, TEXT = [0, 1], [2, 3], "exact"


def written(path: Path, **changed: tuple[Any, pa.DataType]) -> Path:
    """A file of one row with these columns in the place of good ones."""
    made = {name: pa.array([value], kind) for name, (value, kind) in {**GOOD, **changed}.items()}
    pq.write_table(pa.table(made), path)
    return path


@pytest.mark.parametrize("name", [*NEEDED, *OPTIONAL])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"bytes", pa.binary()), (True, pa.bool_()), (7, pa.int64()), (7, pa.uint64()), (0.5, pa.float64()),
        (None, pa.null()), ({"a": 1}, pa.struct([("a", pa.int64())])), ([True, False], pa.list_(pa.bool_())),
        ([1.0, 0.0], pa.list_(pa.float32())), (["1", "0"], pa.list_(pa.string())), (b"ab", pa.large_binary()),
        ([b"1", b"0"], pa.list_(pa.binary())), ([[1], [0]], pa.list_(pa.list_(pa.int64()))),
        (0, pa.timestamp("us")), (0, pa.date32()), (b"ab", pa.binary(2)), ([(1, 0)], pa.map_(pa.int64(), pa.int64())),
        (0, pa.duration("s")),
    ],
    ids=lambda v: str(v) if isinstance(v, pa.DataType) else "of",
)  # fmt: skip
def test_a_column_of_another_type_is_told_by_its_name(tmp_path: Path, name: str, value: Any, kind: pa.DataType) -> None:
    """What came, what was expected and what to do, before any row; nothing is read as what it is not."""
    path = written(tmp_path / "s.parquet", **{name: (value, kind)})
    if kind == pa.null() and name in ("data_set", "left_out"):
        assert next(read_samples(path, VOCAB)) == sample("a", [1], [2, 3], [0, 1])
        return
    if kind == pa.null() and name in OPTIONAL:
        said = "its verdict is None" if name == "verdict" else "ids of the vocabulary None"
    else:
        expected = "text" if isinstance(GOOD[name][0], str | None) else "a list of whole numbers"
        came = pq.ParquetFile(path).schema_arrow.field(name).type  # Parquet has names of its own for parts of a type
        said = (
            f"{path}: column '{name}' is of type {came}; expected {expected}: write the file with `tokenproof export`"
        )
    with pytest.raises(SetupError, match=re.escape(said)):
        next(read_samples(path, VOCAB))


@pytest.mark.parametrize(
    "changed",
    [
        {"id": ("a", pa.large_string()), "verdict": ("exact", pa.string_view())},
        {"id": ("a", pa.dictionary(pa.int8(), pa.string())), "output_ids": (IDS, pa.large_list(pa.uint64()))},
        {"loss_mask": (MASK, pa.list_(pa.int64(), 2)), "prompt_ids": ([1], pa.list_(pa.int8()))},
    ],
)
def test_other_widths_of_one_thing_are_read(tmp_path: Path, changed: dict[str, Any]) -> None:
    """As other libraries write texts, lists and whole numbers: the same sample."""
    path = written(tmp_path / "s.parquet", **changed)
    assert list(read_samples(path, VOCAB)) == [sample("a", [1], [2, 3], [0, 1])]


def test_an_id_beyond_every_integer_is_outside_the_model(tmp_path: Path) -> None:
    """2^64 - 1 fits no signed integer, and is told as any other id that the model has not."""
    path = written(tmp_path / "s.parquet", output_ids=([2, 2**64 - 1], pa.list_(pa.uint64())))
    with pytest.raises(SetupError, match="ids from 1 to 18446744073709551615; the model has"):
        next(read_samples(path, VOCAB))


def test_prompts_that_are_all_empty_may_have_no_type(tmp_path: Path) -> None:
    """Lists of nothing are lists."""
    path = written(tmp_path / "s.parquet", prompt_ids=([], pa.list_(pa.null())))
    assert next(read_samples(path, VOCAB)) == sample("a", [], [2, 3], [0, 1])


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    """Nobody can say which is meant."""
    values = [pa.array([value], kind) for value, kind in GOOD.values()]
    table = pa.table([*values, pa.array([[9, 9]], pa.list_(pa.int32()))], names=[*GOOD, "output_ids"])
    pq.write_table(table, tmp_path / "s.parquet")
    with pytest.raises(SetupError, match="2 columns are named 'output_ids'; expected one"):
        next(read_samples(tmp_path / "s.parquet", VOCAB))


def test_text_that_is_no_text_names_its_column(tmp_path: Path) -> None:
    """A column of texts whose bytes are not UTF-8."""
    bad = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    table = pa.table({name: pa.array([value], kind) for name, (value, kind) in GOOD.items()} | {"verdict": bad})
    pq.write_table(table, tmp_path / "s.parquet")
    with pytest.raises(SetupError, match="column 'verdict' holds bytes that are no UTF-8 text"):
        next(read_samples(tmp_path / "s.parquet", VOCAB))
