"""runners.verdicts: a verdict survives its bytes."""

import zlib

import pytest

from harness import types
from harness.errors import SetupError
from harness.types import Finding, Ids, Verdict
from runners.tables import unsqueezed
from runners.verdicts import CHECKED, HEAD, SUM, Facts, pack, unpack

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


ODD = Verdict("rejected", findings=(Finding("provider-error", "response", "half a character: \ud83d, \x00"),))


@pytest.mark.parametrize("verdict", [FULL, Verdict("rejected"), ODD], ids=["full", "bare", "no text"])
def test_a_verdict_comes_back(verdict: Verdict) -> None:
    """Every member, of its own type, and the facts; the same verdict always gives the same bytes."""
    assert unpack(pack(verdict, FACTS)) == (verdict, FACTS)
    assert pack(*unpack(pack(verdict, FACTS))) == pack(verdict, FACTS)


def test_bytes_that_are_no_verdict() -> None:
    """A damaged one is an error that says what to do."""
    for data in (b"", b"x", pack(FULL, FACTS)[:-3]):
        with pytest.raises(SetupError, match="rejudge"):
            unpack(data)


@pytest.mark.parametrize("bit", range(8))
def test_every_bit_of_a_stored_verdict_counts(bit: int) -> None:
    """Whichever one flips, nothing is read: ids, origins, header, head and checksum."""
    data = pack(FULL, FACTS)
    for k in range(len(data)):
        with pytest.raises(SetupError, match="rejudge"):
            unpack(data[:k] + bytes([data[k] ^ 1 << bit]) + data[k + 1 :])


def test_a_verdict_without_a_checksum_is_read() -> None:
    """As earlier releases wrote it: the head without its bit, and no sum."""
    data = pack(FULL, FACTS)
    old = data[:8] + bytes([data[8] & 0x7F]) + data[13:]

    assert unpack(old) == (FULL, FACTS)


def test_a_verdict_that_zlib_packed_is_read() -> None:
    """As earlier releases wrote it, with and without the checksum."""
    data = pack(FULL, FACTS)
    n_packed, n_ids, _ = HEAD.unpack_from(data)
    packed, planes = zlib.compress(unsqueezed(data[13 : 13 + n_packed])), data[13 + n_packed :]
    for flags in (4, 4 | CHECKED):
        head = HEAD.pack(len(packed), n_ids, flags)
        checksum = SUM.pack(zlib.crc32(packed + planes, zlib.crc32(head))) if flags & CHECKED else b""
        assert unpack(head + checksum + packed + planes) == (FULL, FACTS)
