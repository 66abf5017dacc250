"""Samples from the Parquet file of a run: rows that training may use, each checked, some in memory at a time.

Knows nothing of models but the number of their ids.
"""

from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from harness.vocab import VOCAB_SHA256
from runners.states import Sample
from runners.tables import Kind, columns, mistyped, read_rows

NEEDED = ("id", "prompt_ids", "output_ids", "loss_mask")
OPTIONAL = ("data_set", "verdict", "left_out", "vocab_sha256")
LISTS = ("prompt_ids", "output_ids", "loss_mask")
KINDS: Mapping[str, Kind] = {name: ("int",) if name in LISTS else "text" for name in (*NEEDED, *OPTIONAL)}
WORDS = {name: "a list of whole numbers" if name in LISTS else "text" for name in KINDS}
ACCEPTED = frozenset({"exact", "verified"})
MAX_NAME = 1 << 16  # characters: in the list of a folder's contents each sample has one line, of bounded length
AS_EXPORTED = "write the file with `tokenproof export`, or convert the column"


def read_samples(path: Path, vocab_size: int) -> Iterator[Sample]:
    """The samples of a file, in order; each named `data_set/id`, since ids are one's own within a data set only.

    Raises:
        SetupError: No Parquet, a column that is not there, or a row that no forward should see: ids that the model has
            not, a mask of another length, an answer that was not accepted or left out, ids of another vocabulary.
    """
    wanted = _demand_columns(path)
    for number, row in enumerate(read_rows(path, wanted)):
        try:
            yield _sample(row, vocab_size)
        except SetupError as error:
            raise SetupError(f"{path}, row {number} (id {row['id']!r:.80}): {error}") from error


def _demand_columns(path: Path) -> list[str]:
    """The columns that are read, each there once and of its type."""
    there = columns(path)
    if missing := [name for name in NEEDED if name not in there]:
        raise SetupError(f"{path} has no column {missing[0]!r}; expected a samples.parquet with {', '.join(NEEDED)}")
    if twice := [name for name in KINDS if there.count(name) > 1]:
        raise SetupError(
            f"{path}: {there.count(twice[0])} columns are named {twice[0]!r}; expected one: drop the others"
        )
    for name, came in mistyped(path, KINDS):
        if came != "null" or name in NEEDED:  # where nothing is said, the type may be that of nothing
            raise SetupError(f"{path}: column {name!r} is of type {came}; expected {WORDS[name]}: {AS_EXPORTED}")
    return [name for name in KINDS if name in there]


def _sample(row: Mapping[str, Any], vocab_size: int) -> Sample:
    if row.get("verdict", "exact") not in ACCEPTED:
        raise SetupError(f"its verdict is {row['verdict']!r}; expected one of {sorted(ACCEPTED)}: nothing else is used")
    if row.get("left_out") is not None:
        raise SetupError(f"it was left out of the samples ({row['left_out']!r:.80}); take samples.parquet")
    if row.get("vocab_sha256", VOCAB_SHA256) != VOCAB_SHA256:
        raise SetupError(f"ids of the vocabulary {row['vocab_sha256']!r:.80}; expected {VOCAB_SHA256}")
    name = row["id"]
    if not name:
        raise SetupError(f"column 'id' is {'null' if name is None else 'empty'}; expected text, and not empty")
    if row.get("data_set") is not None:
        name = f"{row['data_set']}/{name}"
    if len(name) > MAX_NAME:
        raise SetupError(f"an id of {len(name):,} characters; expected {MAX_NAME:,} at most, with its data set's name")
    prompt, output, mask = (_numbers(row, key) for key in LISTS)
    if not output or len(mask) != len(output):
        raise SetupError(f"{len(output)} output_ids with a loss_mask of {len(mask)}; expected one or more, as many")
    ids = prompt + output
    if min(ids) < 0 or max(ids) >= vocab_size:
        raise SetupError(f"ids from {min(ids)} to {max(ids)}; the model has 0..{vocab_size - 1}")
    if not set(mask) <= {0, 1}:
        raise SetupError(f"a loss_mask with {sorted(set(mask) - {0, 1})[0]}; expected 0 and 1")
    return Sample(name, array("q", ids), bytes(len(prompt)) + bytes(mask), len(prompt))


def _numbers(row: Mapping[str, Any], name: str) -> list[int]:
    """A list of the row, none of whose values is null."""
    found = row[name]
    if found is None or None in found:
        what = "is null" if found is None else f"has a null at place {found.index(None)}"
        raise SetupError(f"column {name!r} {what}; expected {WORDS[name]}: {AS_EXPORTED}")
    return list(found)
