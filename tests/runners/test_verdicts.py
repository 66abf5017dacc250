"""runners.verdicts: a verdict survives its bytes."""

import pytest

from harness import types
from harness.errors import SetupError
from harness.types import Finding, Ids, Verdict
from runners.verdicts import Facts, pack, unpack

FACTS = Facts("c" * 64, "v" * 64, "f" * 64, "h" * 64, ungated='said "no" ü')
FULL = Verdict(
    "verified",
    ids=Ids([0, 163_839, 2**32 - 1], bytes([0, 3, 4]), "two lengths"),
    assumptions=("a", "b"),
    witnesses=(types.Testimony("bill", "supports", "3 ids · 3"),),
    findings=(Finding("tag", "content", "x", fatal=False),),
    premise="count",
    truncated=True,
    format="kimi-k2.5",
    thinking=True,
    provider="Chutes",
    model="m",
    completion_tokens=3,
    prompt="verified",
    n_readings=2,
)


@pytest.mark.parametrize("verdict", [FULL, Verdict("rejected")], ids=["full", "bare"])
def test_a_verdict_comes_back(verdict: Verdict) -> None:
    """Every member, of its own type, and the facts; the same verdict always gives the same bytes."""
    assert unpack(pack(verdict, FACTS)) == (verdict, FACTS)
    assert pack(*unpack(pack(verdict, FACTS))) == pack(verdict, FACTS)


def test_bytes_that_are_no_verdict() -> None:
    """A damaged one is an error that says what to do."""
    for data in (b"", b"x", pack(FULL, FACTS)[:-3]):
        with pytest.raises(SetupError, match="rejudge"):
            unpack(data)
