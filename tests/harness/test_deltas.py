"""deltas.py: texts, calls, chunks and their order, from messages and from deltas."""

from typing import Any

import pytest

from harness.errors import ProviderError
from harness.response import parse
from harness.types import ToolCall
from tests.harness.answers import body, chunk, encoded, framed, piece

row = pytest.param

TEXT = {"type": "reasoning.text", "text": "Ab.", "format": "unknown", "index": 0}
SUMMARY = {"type": "reasoning.summary", "summary": "It thought.", "text": "It thought."}
SEALED = {"type": "reasoning.encrypted", "data": "b64"}

MESSAGES = [
    row({}, "", "4", False, id="no-reasoning"),
    row({"content": None}, "", "", False, id="null"),
    row({"content": "", "reasoning": None}, "", "", False, id="empty"),
    row({"reasoning": "Ab."}, "Ab.", "4", False, id="reasoning"),
    row({"reasoning_content": "Ab."}, "Ab.", "4", False, id="reasoning_content"),
    row({"reasoning_details": [TEXT]}, "Ab.", "4", False, id="details"),
    row({"reasoning_details": [TEXT, TEXT]}, "Ab.Ab.", "4", False, id="details-are-joined"),
    row({"reasoning_details": [{"type": "reasoning.text", "signature": "s"}]}, "", "4", False, id="signature"),
    row({"reasoning": "Ab.", "reasoning_details": [TEXT]}, "Ab.", "4", False, id="twice-is-once"),
    row({"reasoning": "Ab.", "reasoning_content": "Ab.", "reasoning_details": [TEXT]}, "Ab.", "4", False, id="thrice"),
    row({"reasoning": "Ab", "reasoning_details": [TEXT]}, "Ab", "4", True, id="differ-reasoning-first"),
    row({"reasoning_content": "Ab", "reasoning_details": [TEXT]}, "Ab", "4", True, id="differ-content-first"),
    row({"reasoning": "Ab", "reasoning_content": "Ac"}, "Ab", "4", True, id="differ-two-strings"),
    row({"reasoning_details": [SUMMARY]}, "", "4", True, id="summary"),
    row({"reasoning": "It thought.", "reasoning_details": [SUMMARY]}, "It thought.", "4", True, id="summary-twice"),
    row({"reasoning": "Ab.", "reasoning_details": [TEXT, SEALED]}, "Ab.", "4", True, id="encrypted"),
    row({"reasoning_details": [{"type": "reasoning.new", "text": "Ab."}]}, "", "4", True, id="unknown-detail"),
    row({"reasoning_details": [{"text": "Ab."}]}, "", "4", True, id="detail-without-type"),
    row({"content": [{"type": "text", "text": "4"}]}, "", "4", False, id="parts"),
    row({"content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]}, "", "42", False, id="two-parts"),
    row({"content": [{"type": "text", "text": "4"}, {"type": "image_url"}]}, "", "4", True, id="other-part"),
    row({"content": []}, "", "", False, id="no-parts"),
    row({"refusal": "No."}, "", "4", True, id="refusal"),
    row({"content": "a\u2028b\u0085 \r\n\t"}, "", "a\u2028b\u0085 \r\n\t", False, id="odd-characters"),
]


@pytest.mark.required
@pytest.mark.parametrize(("message", "reasoning", "content", "sealed"), MESSAGES)
def test_texts_of_a_message_and_of_a_delta(message: dict[str, Any], reasoning: str, content: str, sealed: bool) -> None:
    """Both channels, once each; what was not sampled as it stands is sealed; the same in a body and as one delta."""
    whole = body(message)
    delta = chunk({"content": "4"} | message, finish="stop")

    for turn in (parse(whole), parse(encoded(whole)), parse([delta]), parse(framed([delta]))):
        assert (turn.reasoning, turn.content, turn.sealed) == (reasoning, content, sealed)
        assert turn.tool_calls == ()


def call(id: Any = "functions.f:0", name: Any = "f", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    """An entry of tool_calls in a body."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}} | more


BODY_CALLS = [
    row([call()], [ToolCall("functions.f:0", "f", "{}")], False, id="one"),
    row([call(arguments=' {"a": 1}\n')], [ToolCall("functions.f:0", "f", ' {"a": 1}\n')], False, id="byte-for-byte"),
    row([call(id=None)], [ToolCall("", "f", "{}")], False, id="null-id"),
    row([call(arguments=None)], [ToolCall("functions.f:0", "f", "")], False, id="null-arguments"),
    row([call(arguments={"a": [1, "é"]})], [ToolCall("functions.f:0", "f", '{"a":[1,"é"]}')], True, id="object"),
    row([call(arguments=[])], [ToolCall("functions.f:0", "f", "[]")], True, id="list"),
    row([call(arguments=7)], [ToolCall("functions.f:0", "f", "7")], True, id="number"),
    row([call(name=None)], [ToolCall("functions.f:0", "", "{}")], True, id="no-name"),
    row([{"id": "a", "type": "custom"}], [ToolCall("a", "", "")], True, id="no-function"),
    row([call("a"), call("b")], [ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")], False, id="no-index"),
    row(
        [call("a", index=1), call("b", index=0)],
        [ToolCall("b", "f", "{}"), ToolCall("a", "f", "{}")],
        False,
        id="by-index",
    ),
    row([call("a", index=0), call("a", index=0)], [ToolCall("a", "f", "{}")] * 2, False, id="never-merged"),
    row([call("a", index=1), call("b")], [ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")], False, id="some-index"),
]


@pytest.mark.required
@pytest.mark.parametrize(("entries", "expected", "sealed"), BODY_CALLS)
def test_calls_of_a_body(entries: list[dict[str, Any]], expected: list[ToolCall], sealed: bool) -> None:
    """Every entry is a call of its own, its arguments byte for byte; what had to be written anew is sealed."""
    answer = body({"content": None, "tool_calls": entries}, choice={"finish_reason": "tool_calls"})

    for turn in (parse(answer), parse(encoded(answer))):
        assert (list(turn.tool_calls), turn.sealed, turn.chunks, turn.order) == (expected, sealed, None, ())


@pytest.mark.required
def test_a_legacy_function_call_is_a_call() -> None:
    """function_call counts where tool_calls is absent, in a body and in pieces."""
    expected = (ToolCall("", "f", '{"a":1}'),)
    pieces = [{"name": "f", "arguments": '{"a"'}, {"arguments": ":1}"}]

    assert parse(body({"function_call": {"name": "f", "arguments": '{"a":1}'}})).tool_calls == expected
    assert parse([chunk({"function_call": p}) for p in pieces]).tool_calls == expected
    assert parse(body({"function_call": {"name": "f"}, "tool_calls": [call("a")]})).tool_calls == (
        ToolCall("a", "f", "{}"),
    )


A, B = ToolCall("a", "f", "12"), ToolCall("b", "g", "34")
DELTA_CALLS = [
    row([piece(0, "a", "f", ""), piece(0, arguments="1"), piece(0, arguments="2")], [A], id="in-pieces"),
    row([piece(0, "a", "f", "1"), piece(0, "a", arguments="2")], [A], id="id-repeated"),
    row([piece(0, "a", "f", "1"), piece(0, "a", "f", "2")], [A], id="name-repeated-whole"),
    row([piece(0, "a"), piece(0, name="f"), piece(0, arguments="12")], [A], id="a-field-a-piece"),
    row([piece(0, name="f"), piece(0, "a", arguments="12")], [A], id="id-late"),
    row([piece(None, "a", "f", "1"), piece(arguments="2")], [A], id="no-index"),
    row([piece(None, "a", "f", "1"), piece(None, "a", arguments="2")], [A], id="no-index-id-repeated"),
    row([piece(0, "a", "f", "12"), piece(1, "b", "g", "34")], [A, B], id="two"),
    row([piece(1, "b", "g", "34"), piece(0, "a", "f", "12")], [A, B], id="index-out-of-order"),
    row([piece(3, "a", "f", "12"), piece(7, "b", "g", "34")], [A, B], id="index-with-gaps"),
    row(
        [piece(0, "a", "f", "1"), piece(1, "b", "g", "3"), piece(0, arguments="2"), piece(1, arguments="4")],
        [A, B],
        id="interleaved",
    ),
    row(
        [piece(0, "a", "f", "1"), piece(0, arguments="2"), piece(0, "b", "g", "3"), piece(0, arguments="4")],
        [A, B],
        id="index-0-for-all",
    ),
    row([piece(None, "a", "f", "12"), piece(None, "b", "g", "34")], [A, B], id="no-index-two"),
    row(
        [piece(0, "a", "f", "1"), piece(0, "b", "g", "3"), piece(0, "a", arguments="2"), piece(0, "b", arguments="4")],
        [A, B],
        id="index-0-for-all-interleaved",
    ),
    row(
        [piece(name="f", arguments="12"), piece(name="g", arguments="34")],
        [ToolCall("", "f", "12"), ToolCall("", "g", "34")],
        id="neither-index-nor-id",
    ),
    row([piece(0, "a", "get_"), piece(0, name="weather")], [ToolCall("a", "get_weather", "")], id="name-in-pieces"),
    row(
        [
            piece(0, "a", "f", "12"),
            {"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": None}}]},
        ],
        [A],
        id="nulls",
    ),
]


@pytest.mark.required
@pytest.mark.parametrize(("deltas", "expected"), DELTA_CALLS)
def test_calls_in_deltas(deltas: list[dict[str, Any]], expected: list[ToolCall]) -> None:
    """Pieces find their call by index, by id, or by coming next; the calls come out in the order of their index."""
    events = [*map(chunk, deltas), chunk(finish="tool_calls")]

    for turn in (parse(events), parse(framed(events))):
        assert (list(turn.tool_calls), turn.order, turn.sealed) == (expected, ("call",), False)
        joined = ["".join((turn.chunks or {}).get(f"call:{k}", ())) for k in range(len(expected))]
        assert joined == [c.arguments for c in expected]


@pytest.mark.required
def test_two_entries_in_one_delta_are_two_calls() -> None:
    """Entries of one delta are taken one after another."""
    delta = {"tool_calls": piece(0, "a", "f", "12")["tool_calls"] + piece(1, "b", "g", "34")["tool_calls"]}

    assert parse([chunk(delta)]).tool_calls == (A, B)


@pytest.mark.required
@pytest.mark.parametrize(
    ("deltas", "name"),
    [
        ([piece(0, "a", "get"), piece(0, name="get_weather")], "getget_weather"),
        ([piece(0, "a", "get"), piece(0, name="get"), piece(0, name="x")], "getgetx"),
        ([piece(0, "a", arguments="{}")], ""),
    ],
)
def test_a_name_that_can_be_read_in_two_ways_is_sealed(deltas: list[dict[str, Any]], name: str) -> None:
    """Grown or repeated, one name or pieces: nobody can tell. A call without a name lost it."""
    turn = parse([*map(chunk, deltas)])

    assert (turn.tool_calls[0].name, turn.sealed) == (name, True)


@pytest.mark.required
def test_an_object_among_the_argument_pieces_is_sealed() -> None:
    """What is no string was written by a host's JSON writer, and now by ours."""
    turn = parse([chunk(piece(0, "a", "f", {"a": 1}))])

    assert (turn.tool_calls, turn.sealed) == ((ToolCall("a", "f", '{"a":1}'),), True)


@pytest.mark.required
def test_arguments_nested_without_end_are_an_error() -> None:
    """An object too deep to be written is a ProviderError, never a RecursionError."""
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}

    with pytest.raises(ProviderError, match="nested too deeply"):
        parse(body({"tool_calls": [call(arguments=deep)]}))


@pytest.mark.required
def test_chunks_keep_the_pieces_of_each_channel() -> None:
    """Non-empty texts a channel, as they came, once each although two fields carry them."""
    events = [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"reasoning": text, "reasoning_details": [TEXT | {"text": text}]}) for text in ("Th", "", "ink", ".")),
        *(chunk({"content": text}) for text in ("A", "\n\n", "B")),
        *map(
            chunk, [piece(1, "b", "g", "3"), piece(0, "a", "f", ""), piece(0, arguments="12"), piece(1, arguments="4")]
        ),
        chunk({"content": "", "reasoning": None}, finish="tool_calls"),
    ]

    turn = parse(events)

    assert turn.chunks == {
        "reasoning": ("Th", "ink", "."),
        "content": ("A", "\n\n", "B"),
        "call:0": ("12",),
        "call:1": ("3", "4"),
    }
    assert turn.order == ("reasoning", "content", "call")
    assert (turn.reasoning, turn.content, turn.tool_calls, turn.sealed) == ("Think.", "A\n\nB", (A, B), False)


@pytest.mark.required
def test_order_names_a_channel_each_time_it_is_entered() -> None:
    """A channel that is left and entered again stands there twice; a call counts from its first piece, without text."""
    events = [
        chunk({"reasoning": "a"}),
        chunk({"content": "b"}),
        chunk(piece(0, "a", "f")),
        chunk({"content": "c"}),
        chunk({"reasoning": "d"}),
    ]

    turn = parse(events)

    assert turn.order == ("reasoning", "content", "call", "content", "reasoning")
    assert turn.chunks == {"reasoning": ("a", "d"), "content": ("b", "c")}


@pytest.mark.required
def test_interludes_are_the_content_after_each_call() -> None:
    """A text a call; content ends with them; where no content followed a call there are none."""
    calls = [chunk(piece(0, "a", "f", "12")), chunk(piece(1, "b", "g", "34"))]
    said = [chunk({"content": text}) for text in ("x", "y", "z")]

    between = parse([said[0], calls[0], said[1], calls[1]])
    behind = parse([calls[0], calls[1], said[1], said[2]])

    assert (between.content, between.interludes, between.sealed) == ("xy", ("y", ""), False)
    assert (behind.content, behind.interludes, behind.sealed) == ("yz", ("", "yz"), False)
    assert parse([said[0], *calls]).interludes == ()
    assert parse(body({"content": "x", "tool_calls": [call()]})).interludes == ()


@pytest.mark.required
def test_content_that_has_no_place_among_the_calls_is_sealed() -> None:
    """Content inside arguments, between calls that came in another order than their index, before a call goes on."""
    first, second = chunk(piece(0, "a", "f", "1")), chunk(piece(1, "b", "g", "34"))
    said = chunk({"content": "y"})

    inside = parse([first, said, chunk(piece(0, arguments="2"))])
    moved = parse([second, said, first])

    again = parse([first, second, said, chunk(piece(0, "a")), chunk({"content": "x"})])

    assert (inside.tool_calls, inside.interludes, inside.sealed) == ((A,), (), True)
    assert (again.interludes, again.content, again.sealed) == ((), "yx", True)
    assert (moved.interludes, moved.content, moved.sealed) == ((), "y", True)
