"""runners.row_faults: the first faults are told, the others counted."""

import pytest

from harness.errors import SetupError
from runners.row_faults import MAX_TOLD, Faults


def test_the_first_are_told_and_the_others_counted() -> None:
    """A line a fault with its place, in their order; none is no error."""
    faults = Faults()
    faults.end()
    for n in range(MAX_TOLD + 3):
        faults.add(f"a.jsonl:{n}", ValueError("no object"))

    with pytest.raises(SetupError) as caught:
        faults.end()
    lines = str(caught.value).splitlines()
    assert (faults.n, len(lines)) == (MAX_TOLD + 3, MAX_TOLD + 1)
    assert (lines[0], lines[-1]) == ("a.jsonl:0: no object", "and 3 faults more")
