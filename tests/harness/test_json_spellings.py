"""json_spellings.py: other JSON texts that say the same."""

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.encoder import encode_ordinary
from harness.json_spellings import MAX_CHARS, spellings, too_many

pytestmark = pytest.mark.required

row = pytest.param

SAMPLED = [
    # what was sampled, what a host made of it: as many ids
    row('{"price": 19.90}', '{"price": 19.9}', id="a-zero-at-the-end"),
    row('{"x": 1.00}', '{"x": 1.0}', id="zeros-alone"),
    row('{"x": -0}', '{"x": 0}', id="minus-nought"),
    row('{"x": 1e-7}', '{"x": 1e-07}', id="a-digit-of-the-exponent"),
    row('{"x": 0.00001}', '{"x": 1e-05}', id="an-exponent-in-the-place-of-zeros"),
    row('{"x": 1e2}', '{"x": 100.0}', id="zeros-in-the-place-of-an-exponent"),
    row('{"x": 1e6}', '{"x": 1000000}', id="an-integer-with-an-exponent"),
    row('{"x": 12345678901234567890}', '{"x": 12345678901234567168}', id="more-digits-than-a-float-has"),
    row('{"x": 1.23456789012345678}', '{"x": 1.2345678901234568}', id="more-digits-behind-the-point"),
    row('{"x": [1.50, 2]}', '{"x": [1.5, 2]}', id="in-a-list"),
    row('{"u": "https:\\/\\/x.org"}', '{"u": "https://x.org"}', id="escaped-slashes"),
    row('{"a": 1 }', '{"a": 1}', id="a-blank-before-a-brace"),
    row('{"a":true}', '{"a": true}', id="no-blank-behind-a-colon"),
]


@pytest.mark.parametrize(("sampled", "wire"), SAMPLED)
def test_what_was_sampled_is_masked(sampled: str, wire: str) -> None:
    """Where a dump has as many ids as what was sampled, every id that differs differs in a spelling too."""
    true, seen = encode_ordinary(sampled), encode_ordinary(wire)
    assert len(true) == len(seen)
    found = spellings(wire)
    assert found is not None
    alike = [ids for ids in map(encode_ordinary, found) if len(ids) == len(seen)]
    masked = {k for ids in alike for k, (a, b) in enumerate(zip(ids, seen, strict=True)) if a != b}
    assert {k for k, (a, b) in enumerate(zip(true, seen, strict=True)) if a != b} <= masked


def test_the_places_of_blanks() -> None:
    """Behind colons and commas; behind every other token only where that is asked for."""
    assert spellings('{"a": 1}', anywhere=False) == ('{"a":1}',)
    assert spellings('{"a":1}', anywhere=False) == ('{"a": 1}',)
    assert spellings('{"a":1}') == ('{ "a":1}', '{"a" :1}', '{"a": 1}', '{"a":1 }')


def test_an_integer_has_one_spelling() -> None:
    """Digits that every host keeps are not doubted."""
    assert spellings('{"a": 123456789012345}', anywhere=False) == ('{"a":123456789012345}',)


def test_too_much_is_said() -> None:
    """A text with more spellings than can be tried is no text without spellings."""
    members = ", ".join(f'"k{k}": {k}.5' for k in range(2000))
    assert len(members) ** 2 > MAX_CHARS
    assert spellings("{" + members + "}") is None
    assert too_many("{" + members + "}")


@given(st.lists(st.sampled_from(["/", "0.5", "[", "]", ",", ":", " ", '"a/b/c"', "1000000"]), min_size=1, max_size=200))
def test_a_short_text_never_has_too_many(pieces: list[str]) -> None:
    """What is told without trying is what trying tells, whatever the text is made of."""
    text = "".join(pieces)
    assert too_many(text) == (spellings(text) is None)


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**6), max_value=10**6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_blanks_and_escapes_change_nothing_of_what_is_said(value: object) -> None:
    """Without numbers every spelling is the same value."""
    wire = json.dumps({"v": value}, ensure_ascii=False)
    assert [text for text in spellings(wire) or () if json.loads(text) != {"v": value}] == []


@given(NUMBERS)
def test_a_decimal_is_among_the_spellings_of_its_dump(value: Decimal) -> None:
    """Zeros at the end are lost in a dump, and the text with them is listed or differs where digits are doubted."""
    wire = json.dumps(float(value))
    found = spellings(wire)
    assert found is not None
    assert any(text != wire and float(text) == float(wire) for text in found)
