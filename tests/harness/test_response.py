"""response.py: a Turn from any framing, the same however the bytes came."""

import json
from typing import Any

import pytest

from harness.response import parse
from harness.types import ToolCall, Turn, Usage
from tests.harness.answers import body, chunk, encoded, framed

row = pytest.param

HEAD = {"provider": "ProviderX", "model": "moonshotai/kimi-k2.5", "created": 1795991987}


@pytest.mark.required
def test_a_body_gives_every_field() -> None:
    """All members that the harness reads, from bytes and from a parsed body; what it does not know is ignored."""
    answer = body(
        {"content": "4", "reasoning": "Sum.", "annotations": [{"x": [1]}], "audio": None},
        choice={"native_finish_reason": "eos", "logprobs": None, "matched_stop": 163586},
        usage={
            "prompt_tokens": 13,
            "completion_tokens": 6,
            "total_tokens": 19,
            "cost": 0.00002,
            "is_byok": False,
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        system_fingerprint="x",
        **HEAD,
    )
    expected = Turn(
        reasoning="Sum.",
        content="4",
        tool_calls=(),
        finish_reason="stop",
        native_finish_reason="eos",
        usage=Usage(13, 6, 19, 2, 0.00002),
        provider="ProviderX",
        model="moonshotai/kimi-k2.5",
        created=1795991987,
        id="gen-1",
    )

    assert parse(answer) == expected
    assert parse(encoded(answer)) == expected
    assert parse(json.dumps(answer).encode()) == expected


LEADS = [b"\n         \n", b"\r\n\t ", b"\xef\xbb\xbf", b": OPENROUTER PROCESSING\n\n: x\n", b"\xef\xbb\xbf \n:x\r\n"]


@pytest.mark.required
@pytest.mark.parametrize("lead", LEADS)
def test_keep_alive_bytes_before_a_body_are_passed_over(lead: bytes) -> None:
    """Blanks, a byte order mark and stream comments before JSON or SSE; blanks behind."""
    events = [chunk({"content": "4"}, "stop")]

    assert parse(lead + encoded(body()) + b"\n ") == parse(body())
    assert parse(lead + framed(events)) == parse(events)


@pytest.mark.required
def test_a_long_run_of_keep_alive_blanks_costs_nothing() -> None:
    """A million blanks or comment lines before a body are no trouble for the search."""
    assert parse(b" \n" * 1_000_000 + encoded(body())).content == "4"
    assert parse(b": x\n\n" * 200_000 + encoded(body())).content == "4"


@pytest.mark.required
def test_comments_of_a_stream_are_ignored() -> None:
    """Keep-alive comments before the first event: the text is `Hi`, the end is stop."""
    turn = parse(
        b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n"
        b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )

    assert (turn.content, turn.finish_reason, turn.chunks, turn.order) == (
        "Hi",
        "stop",
        {"content": ("Hi",)},
        ("content",),
    )


@pytest.mark.required
def test_a_line_separator_in_a_text_splits_nothing() -> None:
    """U+2028, U+2029 and U+0085 stand unescaped in the data of one event; no end came, so there is no finish reason."""
    for odd in "\u2028\u2029\u0085":
        event = f'{{"choices":[{{"index":0,"delta":{{"content":"a{odd}b"}},"finish_reason":null}}]}}'
        turn = parse(f"data: {event}\n\ndata: [DONE]\n\n".encode())
        assert (turn.content, turn.finish_reason, turn.chunks) == (f"a{odd}b", None, {"content": (f"a{odd}b",)})


@pytest.mark.required
@pytest.mark.parametrize(
    ("choice", "content", "calls"),
    [
        ({"finish_reason": "stop", "native_finish_reason": "stop"}, None, 1),
        ({"finish_reason": None, "native_finish_reason": None}, "Half an ans", 0),
        ({"finish_reason": "tool_calls", "native_finish_reason": "tool_calls"}, "Ok.", 0),
        ({"finish_reason": "eos_token", "native_finish_reason": "eos"}, "Ok.", 0),
        ({"finish_reason": "", "native_finish_reason": ""}, "Ok.", 0),
    ],
)
def test_finish_reasons_come_as_sent(choice: dict[str, Any], content: str | None, calls: int) -> None:
    """stop beside calls, null, tool_calls without calls, an unknown one: this module judges none; "" is none."""
    call = {
        "id": "functions.get_weather:0",
        "index": 0,
        "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
    }
    turn = parse(encoded(body({"content": content, "tool_calls": [call] * calls or None}, choice=choice)))

    assert turn.finish_reason == (choice["finish_reason"] or None)
    assert turn.native_finish_reason == (choice["native_finish_reason"] or None)
    assert turn.content == (content or "")
    assert turn.tool_calls == (ToolCall("functions.get_weather:0", "get_weather", '{"city": "Oslo"}'),) * calls


@pytest.mark.required
@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([], None),
        ([None, None], None),
        (["", "stop"], "stop"),
        (["stop", None], "stop"),
        (["tool_calls", "tool_calls"], "tool_calls"),
        (["length", "stop"], "length|stop"),
    ],
)
def test_finish_reason_of_a_stream(reasons: list[str | None], expected: str | None) -> None:
    """The one that came, once; two different ones are shown as both, which no table knows."""
    events = [chunk({"content": "a"}), *(chunk(finish=reason) for reason in reasons)]

    assert parse(events).finish_reason == expected


@pytest.mark.required
def test_the_last_native_finish_reason_wins() -> None:
    """Hosts have been seen to send tool_calls and then stop."""
    events = [chunk(finish="stop", native_finish_reason=word) for word in ("tool_calls", "stop", None)]

    assert parse(events).native_finish_reason == "stop"


USAGES = [
    row(None, None, id="null"),
    row({}, Usage(), id="empty"),
    row({"completion_tokens": 6}, Usage(completion_tokens=6), id="one-number"),
    row({"reasoning_tokens": 9}, Usage(reasoning_tokens=9), id="top-level-reasoning"),
    row(
        {"reasoning_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}},
        Usage(reasoning_tokens=7),
        id="details-before-top-level",
    ),
    row({"reasoning_tokens": 9, "completion_tokens_details": None}, Usage(reasoning_tokens=9), id="null-details"),
    row(
        {"reasoning_tokens": 9, "completion_tokens_details": {"audio_tokens": 1}},
        Usage(reasoning_tokens=9),
        id="other-details",
    ),
    row(
        {"completion_tokens_details": {"reasoning_tokens": 0}, "reasoning_tokens": 9},
        Usage(reasoning_tokens=0),
        id="zero",
    ),
    row(
        {
            "prompt_tokens": 100,
            "completion_tokens": 293,
            "total_tokens": 714,
            "completion_tokens_details": {"reasoning_tokens": 321},
        },
        Usage(100, 293, 714, 321),
        id="totals-that-disagree-come-as-sent",
    ),
    row({"cost": 1}, Usage(cost=1.0), id="whole-cost"),
    row({"cost": "0.01"}, Usage(), id="cost-as-text"),
    row({"cost": True}, Usage(), id="cost-that-is-no-number"),
    row({"cost": float("nan")}, Usage(), id="cost-nan"),
]


@pytest.mark.required
@pytest.mark.parametrize(("usage", "expected"), USAGES)
def test_usage_comes_as_sent(usage: dict[str, Any] | None, expected: Usage | None) -> None:
    """In a body, in the last chunk with choices, without, and inside a choice."""
    text, end = chunk({"content": "4"}), chunk(finish="stop")

    assert parse(body(usage=usage)).usage == expected
    assert parse([text, end | {"usage": usage}]).usage == expected
    assert parse([text, end, {"choices": [], "usage": usage}]).usage == expected
    assert parse([text, chunk(finish="stop", usage=usage)]).usage == expected


@pytest.mark.required
@pytest.mark.parametrize("count", [2**31, 10**18, 2**63, 2**70, -(2**63)])
def test_a_count_that_no_model_can_sample_is_not_said(count: int) -> None:
    """It would pass what a ledger can hold; the other counts and the cost of the answer stand."""
    told = {"prompt_tokens": 13, "completion_tokens": 6, "total_tokens": 19, "reasoning_tokens": 2, "cost": 0.5}
    for name in ("prompt_tokens", "completion_tokens", "total_tokens", "reasoning_tokens"):
        found = parse(body(usage={**told, name: count})).usage
        assert found == Usage(**{**told, name: None})
    details = {"completion_tokens_details": {"reasoning_tokens": count}}
    assert parse(body(usage={**told, **details})).usage == Usage(13, 6, 19, None, 0.5)
    assert parse(body(usage={**told, "completion_tokens": 2**31 - 1})).usage == Usage(13, 2**31 - 1, 19, 2, 0.5)


def test_a_usage_chunk_after_the_end_is_read() -> None:
    """The final event has no choices and carries the bill; the text is `4`, the cost is booked."""
    turn = parse(
        b'data: {"choices":[{"index":0,"delta":{"content":"4"},"finish_reason":"stop"}]}\n\n'
        b'data: {"choices":[],"usage":{"prompt_tokens":13,"completion_tokens":6,"total_tokens":19,"cost":0.00002}}\n\n'
        b"data: [DONE]\n\n"
    )

    assert (turn.content, turn.finish_reason, turn.usage) == ("4", "stop", Usage(13, 6, 19, None, 0.00002))


@pytest.mark.required
def test_the_last_usage_of_a_stream_wins() -> None:
    """A running bill in every chunk, a null behind it."""
    events = [chunk({"content": "a"}) | {"usage": {"completion_tokens": n}} for n in (1, 2, 3)]

    assert parse([*events, chunk(finish="stop") | {"usage": None}]).usage == Usage(completion_tokens=3)


@pytest.mark.required
def test_the_head_of_a_stream_is_read_wherever_it_stands() -> None:
    """Provider, model and time come from the first event that has them; events without choices pass."""
    events = [
        {"choices": [], "prompt_filter_results": []},
        chunk({"content": "4"}) | HEAD,
        {"type": "ping"},
        chunk(finish="stop"),
    ]
    turn = parse(events)

    assert {"provider": turn.provider, "model": turn.model, "created": turn.created} == HEAD
    assert (turn.content, turn.finish_reason) == ("4", "stop")


@pytest.mark.required
def test_a_stream_that_is_cut_has_no_finish_reason() -> None:
    """Cut between events, inside one, inside a character: a Turn of what came, whose finish_reason is None."""
    whole = framed([chunk({"content": "ab"}), chunk({"content": "é"}), chunk(finish="stop")])
    first, second, third = whole.split(b"\n\n")[:3]

    assert (parse(first + b"\n\n").content, parse(first + b"\n\n").finish_reason) == ("ab", None)
    for cut in range(len(b"data: ") + 1, len(second)):
        turn = parse(first + b"\n\n" + second[:cut])
        assert (turn.content, turn.finish_reason) == ("ab", None)
    turn = parse(first + b"\n\n" + second)
    assert (turn.content, turn.finish_reason) == ("abé", None)
    turn = parse(first + b"\n\n" + second + b"\n\n" + third)
    assert (turn.content, turn.finish_reason) == ("abé", "stop")


@pytest.mark.required
def test_a_cut_after_the_end_may_have_hidden_an_error() -> None:
    """The finish reason came, and then an event that is cut: nobody knows what it said, so there is no end."""
    stream = framed([chunk({"content": "a"}, "stop")], end=b'data: {"error":{"co')

    assert (parse(stream).content, parse(stream).finish_reason) == ("a", None)
    assert parse(stream.removesuffix(b'data: {"error":{"co')).finish_reason == "stop"


@pytest.mark.required
def test_a_json_list_in_bytes_is_a_list_of_events() -> None:
    """The same as the parsed list."""
    events = [chunk({"content": "4"}, "stop")]

    assert parse(encoded(events)) == parse(events)
