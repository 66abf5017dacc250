"""Samples from the Parquet file of a run: rows that training may use, each checked, some in memory at a time.

Knows nothing of models but the number of their ids.
"""

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from harness.vocab import VOCAB_SHA256
from runners.states import Sample
from runners.tables import columns, read_rows

NEEDED = ("id", "prompt_ids", "output_ids", "loss_mask")
OPTIONAL = ("data_set", "verdict", "left_out", "vocab_sha256")
ACCEPTED = frozenset({"exact", "verified"})


def read_samples(path: Path, vocab_size: int) -> Iterator[Sample]:
    """The samples of a file, in order; each named `data_set/id`, since ids are one's own within a data set only.

    Raises:
        SetupError: No Parquet, a column that is not there, or a row that no forward should see: ids that the model has
            not, a mask of another length, an answer that was not accepted or left out, ids of another vocabulary.
    """
    there = columns(path)
    if missing := [name for name in NEEDED if name not in there]:
        raise SetupError(f"{path} has no column {missing[0]!r}; expected a samples.parquet with {', '.join(NEEDED)}")
    wanted = [*NEEDED, *(name for name in OPTIONAL if name in there)]
    for number, row in enumerate(read_rows(path, wanted)):
        try:
            yield _sample(row, vocab_size)
        except (SetupError, TypeError, OverflowError, ValueError) as error:
            raise SetupError(f"{path}, row {number} (id {row['id']!r:.80}): {error}") from error


def _sample(row: dict[str, Any], vocab_size: int) -> Sample:
    if row.get("verdict", "exact") not in ACCEPTED:
        raise SetupError(f"its verdict is {row['verdict']!r}; expected one of {sorted(ACCEPTED)}: nothing else is used")
    if row.get("left_out") is not None:
        raise SetupError(f"it was left out of the samples ({row['left_out']!r:.80}); take samples.parquet")
    if row.get("vocab_sha256", VOCAB_SHA256) != VOCAB_SHA256:
        raise SetupError(f"ids of the vocabulary {row['vocab_sha256']!r:.80}; expected {VOCAB_SHA256}")
    name, prompt, output, mask = (row[key] for key in NEEDED)
    if not isinstance(name, str) or not name:
        raise SetupError("an id of a sample is text, and not empty")
    if isinstance(row.get("data_set"), str):
        name = f"{row['data_set']}/{name}"
    ids = array("q", prompt + output)
    if not output or len(mask) != len(output):
        raise SetupError(f"{len(output)} output_ids with a loss_mask of {len(mask)}; expected one or more, as many")
    if min(ids) < 0 or max(ids) >= vocab_size:
        raise SetupError(f"ids from {min(ids)} to {max(ids)}; the model has 0..{vocab_size - 1}")
    if not set(mask) <= {0, 1}:
        raise SetupError(f"a loss_mask with {sorted(set(mask) - {0, 1})[0]}; expected 0 and 1")
    return Sample(name, ids, bytes(len(prompt)) + bytes(mask), len(prompt))
