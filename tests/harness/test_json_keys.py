"""json_keys.py: JSON text that is never parsed and dumped: its blanks, its keys, and the orders they may have had."""

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.json_keys import (
    JSON_TOKENS,
    MAX_KEYS,
    MAX_VALUES,
    balanced,
    is_json,
    key_orders,
    key_rows,
    keys_sorted,
    loads_once,
    other_values,
    restyle,
    wire_style,
)

row = pytest.param

RESTYLED = [
    # text, spaced, compact
    row('{"a":1,"b":[1,2]}', '{"a": 1, "b": [1, 2]}', '{"a":1,"b":[1,2]}', id="compact"),
    row('{"a": 1, "b": [1, 2]}', '{"a": 1, "b": [1, 2]}', '{"a":1,"b":[1,2]}', id="spaced"),
    row('{\n  "a" : 1 ,\t"b":2\r\n}', '{"a": 1, "b": 2}', '{"a":1,"b":2}', id="any-blanks"),
    row('{"a: b,c":"d:  e, f"}', '{"a: b,c": "d:  e, f"}', '{"a: b,c":"d:  e, f"}', id="strings-stay"),
    row('{"a":"\\" : \\\\"}', '{"a": "\\" : \\\\"}', '{"a":"\\" : \\\\"}', id="escapes-stay"),
    row('{"a":"x\ny  z"}', '{"a": "x\ny  z"}', '{"a":"x\ny  z"}', id="a-line-within-a-string-stays"),
    row('{"a":1.50,"b":-0e+1}', '{"a": 1.50, "b": -0e+1}', '{"a":1.50,"b":-0e+1}', id="numbers-stay"),
    row(" {} ", "{}", "{}", id="edges-go"),
    row("", "", "", id="empty"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "spaced", "compact"), RESTYLED)
def test_restyle(text: str, spaced: str, compact: str) -> None:
    """Only the blanks between tokens change."""
    assert (restyle(text, "spaced"), restyle(text, "compact")) == (spaced, compact)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=6), json_values, max_size=4), st.booleans(), st.sampled_from((None, 0, 2)))
def test_restyle_is_what_a_dump_writes(value: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """Of any layout of any object, both styles are the dumps of that style, strings byte for byte."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    assert restyle(text, "spaced") == json.dumps(value, ensure_ascii=ascii_only)
    assert restyle(text, "compact") == json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))


@given(st.text(alphabet='{}[]",: \n\\a1é', max_size=20), st.sampled_from(("spaced", "compact")))
def test_restyle_keeps_each_string_byte_for_byte(text: str, style: str) -> None:
    """In broken JSON too, what stands in quotes comes out as it went in."""

    def strings(t: str) -> list[str]:
        return [p for p in JSON_TOKENS.findall(t) if p.startswith('"')]

    if text.count('"') == sum(s.count('"') for s in strings(text)):  # each quote opens or closes a string
        assert strings(restyle(text, style)) == strings(text)


KEYS = [
    row('{"a": 1, "b": 2}', [["a", "b"]], True, id="in-order"),
    row('{"b": 1, "a": 2}', [["b", "a"]], False, id="not-in-order"),
    row('{"a": 1}', [["a"]], None, id="one-key"),
    row("{}", [[]], None, id="none"),
    row("", [], None, id="empty"),
    row('{"b": {"d": 1, "c": 2}}', [["b"], ["d", "c"]], False, id="an-inner-object"),
    row('{"a": {"x": 1, "y": 2}, "b": 1}', [["a", "b"], ["x", "y"]], True, id="all-in-order"),
    row('{"z": [{"a": 1, "b": 2}]}', [["z"], [], ["a", "b"]], True, id="within-an-array"),
    row('{"a": "b: c", "d": "{"}', [["a", "d"]], True, id="values-that-look-like-keys"),
    row('{"\\u0062": 1, "a": 2}', [["b", "a"]], False, id="keys-compare-unescaped"),
    row('{"\\q": 1, "a": 2}', [["\\q", "a"]], True, id="a-key-that-is-no-json"),
    row('{"a": 1, "b', [["a"]], None, id="cut"),
    row('"a": 1', [], None, id="no-object"),
    row("}}{", [[]], None, id="closed-before-it-opens"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "rows", "in_order"), KEYS)
def test_keys(text: str, rows: list[list[str]], in_order: bool | None) -> None:
    """The keys of each object in the order of the text; sorted only where all objects are, unknown without two keys."""
    assert key_rows(text) == rows
    assert keys_sorted(text) is in_order


ORDERS = [
    row('{"a": 1, "b": 2}', ('{"b": 2, "a": 1}',), id="two"),
    row('{"a":1,"b":2}', ('{"b":2,"a":1}',), id="compact"),
    row('{ "a": 1, "b": 2 }', ('{ "b": 2, "a": 1 }',), id="blanks-keep-their-places"),
    row('{\n  "a": 1,\n  "b": 2\n}', ('{\n  "b": 2,\n  "a": 1\n}',), id="lines-too"),
    row('{"a": 1}', (), id="one"),
    row("{}", (), id="none"),
    row('{"a": {"x": 1}, "b": [2]}', ('{"b": [2], "a": {"x": 1}}',), id="small-inner-values"),
    row('{"a": "x, {y", "b": "}"}', ('{"b": "}", "a": "x, {y"}',), id="strings-with-marks"),
    row('{"a": 1, "a": 1}', (), id="the-same-member-twice"),
    row('{"a": [1, 2], "b": 1}', None, id="an-inner-array-of-two"),
    row('{"a": {"x": 1, "y": 2}}', None, id="an-inner-object-of-two"),
    row('{"a": 1, "b": 2, "c": 3, "d": 4}', None, id="too-many"),
    row("[1, 2]", None, id="an-array"),
    row('{"a": 1', None, id="cut"),
    row("", None, id="empty"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "others"), ORDERS)
def test_key_orders(text: str, others: tuple[str, ...] | None) -> None:
    """The other orders of a flat object, each with the blanks where they were; None where they cannot be listed."""
    assert key_orders(text) == others


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=MAX_KEYS), st.booleans())
def test_key_orders_are_the_dumps_of_every_order(value: dict[str, Any], compact: bool) -> None:
    """A slow reference: the object dumped in every order of its keys."""
    separators = (",", ":") if compact else (", ", ": ")
    dumps = {json.dumps(dict(order), separators=separators) for order in permutations(value.items())}
    text = json.dumps(value, separators=separators)

    assert {text, *(key_orders(text) or ())} == dumps


STYLES = [
    row(['{"a": 1}'], "spaced", id="spaced"),
    row(['{"a":1}', '{"b":"x, y"}'], "compact", id="compact"),
    row(['{"a": 1}', '{"a":1}'], "mixed", id="two-styles"),
    row(['{"a" : 1}'], "mixed", id="neither"),
    row(['{"a": 1}', "{}"], "spaced", id="one-tells"),
    row(["{}", "[]", ""], "", id="none-tells"),
    row([], "", id="no-texts"),
]


@pytest.mark.required
@pytest.mark.parametrize(("texts", "style"), STYLES)
def test_wire_style(texts: list[str], style: str) -> None:
    """One style for all texts that can tell, or mixed."""
    assert wire_style(texts) == style


SHAPES = [
    # text, is_json, balanced
    row("{}", True, True, id="empty-object"),
    row('{"a": 1}', True, True, id="an-object"),
    row("[1]", True, False, id="an-array"),
    row("1", True, False, id="a-number"),
    row("", False, False, id="nothing"),
    row('{"a": ', False, False, id="cut"),
    row('{"a": "}"', False, False, id="closed-in-a-string-alone"),
    row('{"a": [}]', False, True, id="crossed-but-balanced"),
    row("[" * 100_000, False, False, id="too-deep"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "parses", "closes"), SHAPES)
def test_shapes(text: str, parses: bool, closes: bool) -> None:
    """Whether a host could have parsed it, and whether it closes what it opens."""
    assert (is_json(text), balanced(text)) == (parses, closes)


RETYPED = [
    # text, what a host that fits values to their declared types may have made it of
    row('{"a": "x"}', (), id="text-stays-text"),
    row('{"a": 5}', ('{"a": "5"}',), id="a-number-may-have-been-text"),
    row('{"a": "5"}', ('{"a": 5}',), id="text-may-have-been-a-number"),
    row('{"5": "x", "b": "-1.5e3"}', ('{"5": "x", "b": -1.5e3}',), id="a-key-stays"),
    row('{"a": "NaN"}', ('{"a": NaN}',), id="what-python-takes-for-a-number"),
    row(
        '{"a": true}',
        ('{"a": "true"}', '{"a": "True"}', '{"a": "TRUE"}', '{"a": "1"}', '{"a": 1}'),
        id="a-word-may-have-been-text-or-a-digit",
    ),
    row('{"a": "None"}', ('{"a": null}',), id="text-may-have-been-a-word"),
    row('{"a": "1"}', ('{"a": true}', '{"a": 1}'), id="a-digit-may-have-been-a-word"),
    row(
        '{"a": [1, "x"]}',
        ('{"a": ["1", "x"]}', '{"a": "[1, \\"x\\"]"}', '{"a": "[1,\\"x\\"]"}'),
        id="a-list-and-what-is-in-it",
    ),
    row(
        '{"a": {"b": 5}}', ('{"a": {"b": "5"}}', '{"a": "{\\"b\\": 5}"}', '{"a": "{\\"b\\":5}"}'), id="an-object-in-it"
    ),
    row('{"a": "[1, 2]"}', ('{"a": [1, 2]}', '{"a": [1,2]}'), id="text-may-have-been-a-list"),
    row('{"a": "[x]"}', (), id="text-that-is-no-list"),
    row('{"a": "he said \\"5\\", 6"}', (), id="quotes-and-commas-within-a-text"),
    row('{"a":1}', (), id="no-dump-is-compact"),
    row('{"a": "\\u00e9"}', (), id="no-dump-escapes"),
    row('{"a": 5.50}', (), id="no-dump-keeps-zeros"),
    row("[5]", (), id="no-object"),
    row('{"a": 5', (), id="broken"),
    row("{}", (), id="nothing-in-it"),
    row('{"a": ' * 100_000, None, id="too-deep"),
    row('{"a": [' + ", ".join("1" * (MAX_VALUES + 1)) + "]}", None, id="too-many"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "others"), RETYPED)
def test_values_in_other_types(text: str, others: tuple[str, ...] | None) -> None:
    """Each text that differs in the type of one value and whose dump is this text; () where no dump is."""
    assert other_values(text) == others


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


@given(ANY)
def test_json_without_a_key_twice_is_read_as_ever(value: Any) -> None:
    """Text and bytes of any of JSON's encodings give what `json.loads` gives."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert loads_once(text) == json.loads(text)
        for encoding in ("utf-8", "utf-16", "utf-32"):
            data = text.encode(encoding, "surrogatepass")
            assert loads_once(data) == json.loads(data)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"a": 1, "a": 1}', "a"),
        ('{"a": 1, "\\u0061": 2}', "a"),
        ('[0, {"x": {"b": [], "c": 1, "b": {}}}]', "b"),
        ('{"": 0, "": 0}', ""),
        ("{" + ", ".join(f'"{k}": 0' for k in [*range(200_000), 7]) + "}", "7"),
    ],
    ids=["flat", "escaped", "deep", "empty", "many"],
)
def test_a_key_that_comes_twice_is_named(text: str, key: str) -> None:
    """At any depth and however it is spelt; the time is that of one pass."""
    for given_text in (text, text.encode()):
        with pytest.raises(ValueError, match=f"^a member comes twice: '{key}'$"):
            loads_once(given_text)
    with pytest.raises(ValueError, match="Expecting"):
        loads_once("{")
