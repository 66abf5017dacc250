"""records.py: JSON with limits, and every fault as a ProviderError that says what it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import records
from harness.errors import ProviderError

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_loads_reads_what_json_writes(value: Any) -> None:
    """Any value that the standard library writes, with or without escapes, is read back equal to what it reads."""
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        try:
            data = text.encode()
        except UnicodeEncodeError:
            continue
        try:
            assert records.loads(data) == json.loads(text)
        except ProviderError:
            assert "\\ud" in text  # a lone surrogate escape


@given(st.binary(max_size=40))
def test_loads_raises_nothing_else(data: bytes) -> None:
    """Random bytes give what the standard library gives, or a ProviderError."""
    try:
        value = records.loads(data)
    except ProviderError:
        return
    assert value == json.loads(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no JSON: Input data was truncated"),
        (b'{"a": 1', "no JSON: Input data was truncated"),
        (b'{"a": 1} x', "trailing characters"),
        (b"NaN", "invalid character"),
        (b'"\xff"', "Invalid UTF-8"),
        (rb'"\ud83d"', "lone surrogate"),
        (rb'"\ud83d x"', "lone surrogate"),
        (rb'"\ude00 x"', "surrogate"),
        (b"[" * 100_000 + b"]" * 100_000, "nested deeper than Python's recursion limit"),
        (b'{"a":' * 100_000, "nested deeper than Python's recursion limit"),
    ],
)
def test_what_is_no_json_is_said(data: bytes, words: str) -> None:
    """Truncated, trailing, NaN, broken UTF-8, a lone surrogate, deep nesting: a ProviderError, never RecursionError."""
    with pytest.raises(ProviderError, match=words):
        records.loads(data)


def test_a_pair_of_surrogates_is_one_character() -> None:
    """An escaped pair is the character that it stands for; the last of two equal keys counts."""
    assert records.loads(rb'{"a": 1, "a": "\ud83d\ude00"}') == {"a": "😀"}


def test_a_body_of_more_than_256_mib_is_refused() -> None:
    """The length is looked at before anything is read."""
    with pytest.raises(ProviderError, match="268,435,457 bytes; at most 268,435,456"):
        records.loads(bytes(256 * 2**20 + 1))


@pytest.mark.parametrize("read", [lambda value: records.decode(json.dumps(value).encode()), records.convert])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"choices": "x"}, r"Expected `array | null`, got `str` - at `\$.choices`"),
        ({"choices": [{"message": {"content": 5}}]}, r"got `int` - at `\$.choices\[0\].message.content`"),
        (
            {"usage": {"completion_tokens": "21"}},
            r"Expected `int \| null`, got `str` - at `\$.usage.completion_tokens`",
        ),
        ({"usage": {"completion_tokens": True}}, r"got `bool`"),
        ({"usage": {"completion_tokens": 1.5}}, r"got `float`"),
        ({"choices": [{"token_ids": [5, -1]}]}, r"Expected `int` >= 0 - at `\$.choices\[0\].token_ids\[1\]`"),
        ({"choices": [{"logprobs": {"content": [{"bytes": [256]}]}}]}, r"Expected `int` <= 255"),
        ([], r"Expected `object`, got `array`"),
        (5, r"Expected `object`, got `int`"),
    ],
)
def test_a_wrong_type_names_the_field(read: Any, value: Any, words: str) -> None:
    """The error says which field, what came and what was expected, the same for bytes and for parsed values."""
    with pytest.raises(ProviderError, match=words):
        read(value)


@pytest.mark.parametrize("read", [lambda value: records.decode(json.dumps(value).encode()), records.convert])
def test_an_error_is_worth_more_than_a_wrong_type(read: Any) -> None:
    """A body whose other fields have wrong types still says which error it is."""
    answer = read({"error": {"code": 502}, "choices": "none", "provider": "ProviderX", "usage": []})

    assert (answer.error, answer.provider, answer.choices) == ({"code": 502}, "ProviderX", None)
    assert read({"error": "down", "choices": "none", "provider": 7}).provider is None


def test_compact_says_what_cannot_be_written() -> None:
    """Compact JSON of a value; deep nesting and lone surrogates are a ProviderError."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    assert records.compact({"a": [1, "é"]}) == '{"a":[1,"é"]}'
    with pytest.raises(ProviderError, match="nested too deeply"):
        records.compact(deep)
    with pytest.raises(ProviderError, match="surrogates not allowed"):
        records.compact("\ud800")


def test_foreign_text_is_shown_short_and_printable() -> None:
    """At most as many characters as asked; what has no UTF-8 form becomes an escape."""
    assert records.shown("a\ud800b" * 10, 3) == "a\\ud800b"
    assert records.shown_bytes(b"\xffok" + b"x" * 1_000) == "\\xffok" + "x" * 497


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"id":"gen-1","usage":{"cost":0.5},"choices":3}', ("gen-1", 0.5)),
        (b'\n  {"id":"gen-1","error":{}}', ("gen-1", None)),
        (b'{"id":7,"usage":{"cost":1}}', (None, 1.0)),
        (b'{"id":"","usage":[]}', (None, None)),
        (b'{"usage":{"cost":"0.5"}}', (None, None)),
        (b'{"usage":{"cost":true}}', (None, None)),
        (b'{"usage":{"cost":-1}}', (None, None)),
        (b'{"usage":{"cost":1e999}}', (None, None)),
        (b'{"id":"gen-1","usage":{"cost', ("gen-1", None)),
        (b'data: {"id":"gen-1","provider":"Chu', ("gen-1", None)),
        (b'{"id":"gen-1', (None, None)),
        (b'{"provider":"x","id":"gen-1","usage', (None, None)),
        (b"[1]", (None, None)),
        (b"", (None, None)),
    ],
)
def test_a_receipt_says_id_and_cost_and_never_fails(body: bytes, said: tuple[str | None, float | None]) -> None:
    """Whatever else a body is; what is no id and no amount of money is not said."""
    assert records.receipt(body) == said
