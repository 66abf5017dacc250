"""harness.sightings and harness.aspects: what one recorded answer shows of its provider."""

import json
from functools import cache
from typing import Any

import pytest

from harness.aspects import ASPECTS
from harness.cli_base import judging
from harness.flow import Kit
from harness.sightings import Pair, Sighting, sighting
from harness.types import Exchange

MODEL = "moonshotai/kimi-k2.5"
Json = dict[str, Any]


@cache
def kit() -> Kit:
    """The shipped kit."""
    return judging(None, None, False, None).kit


def call(call_id: str, arguments: str = '{"city": "Oslo"}', name: str = "get_weather") -> Json:
    """A parsed call."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def body(finish: str = "stop", tokens: int = 9, **message: Any) -> Json:
    """An answer of Chutes."""
    usage = {"prompt_tokens": 30, "completion_tokens": tokens, "total_tokens": 30 + tokens}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"provider": "Chutes", "model": MODEL, "choices": [choice], "usage": usage}


def seen(answer: Any, **request: Any) -> Sighting:
    """The sighting of an answer; by default to a request that thinks."""
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], **request}
    return sighting("k", Exchange("k", answer, asked), kit())


def value(aspect: str, answer: Any, **request: Any) -> str | None:
    """What an answer shows of one aspect."""
    return ASPECTS[aspect].value(seen(answer, **request))


HISTORY = [{"role": "assistant", "content": "", "tool_calls": [call("functions.get_weather:0")]}]
CALLS: list[Any] = [
    pytest.param(["functions.get_weather:0"], "native", "counted", id="native"),
    pytest.param(["functions.get_weather:2"], "native", "kept", id="not-counted"),
    pytest.param(["functions.get_weather:0", "functions.get_weather:1"], "native", "counted", id="two"),
    pytest.param(["functions.get_weather:1", "functions.get_weather:1"], "native", "kept", id="twice"),
    pytest.param(["get_weather:0"], "short", "counted", id="short"),
    pytest.param(["call_0a1b2c"], "minted", None, id="minted"),
    pytest.param(["functions.get_weather:0", "call_7"], "minted+native", None, id="mixed"),
]


@pytest.mark.parametrize(("ids", "style", "index"), CALLS)
def test_call_ids_and_indexes(ids: list[str], style: str, index: str | None) -> None:
    """The style of the ids; and whether an index proves that it came through, which an invented id never does."""
    answer = body("tool_calls", content="", tool_calls=[call(i) for i in ids])
    assert (value("call_id", answer), value("call_index", answer)) == (style, index)


def test_an_index_may_count_on_over_the_history() -> None:
    """With one call in the history both 0 and 1 may be a host's counting, and 2 cannot."""
    told = []
    for k in (0, 1, 2):
        answer = body("tool_calls", content="", tool_calls=[call(f"functions.get_weather:{k}")])
        told.append(value("call_index", answer, messages=HISTORY))
    assert told == ["counted", "counted", "kept"]


SHOWN: list[Any] = [
    ("arguments", {"tool_calls": [call("a", '{"a": 1, "b": 2}')]}, "spaced"),
    ("arguments", {"tool_calls": [call("a", '{"a":1,"b":2}')]}, "compact"),
    ("arguments", {"tool_calls": [call("a", "{}")]}, None),
    ("argument_keys", {"tool_calls": [call("a", '{"b": 1, "a": 2}')]}, "kept"),
    ("argument_keys", {"tool_calls": [call("a", '{"a": 1, "b": 2}')]}, "sorted"),
    ("argument_keys", {"tool_calls": [call("a", '{"a": 1}')]}, None),
    ("reasoning_end", {"reasoning": "Hm.\n", "content": "Hi"}, "kept"),
    ("reasoning_end", {"reasoning": "Hm.", "content": "Hi"}, "lost"),
    ("reasoning_end", {"content": "Hi"}, None),
    ("reasoning_start", {"reasoning": " Hm.", "content": "Hi"}, "kept"),
    ("content_start", {"content": "\nHi"}, "kept"),
    ("content_end", {"content": "Hi "}, "kept"),
    ("content_end", {"content": "Hi <|im_end|>"}, "kept"),
    ("content_end", {"content": "Hi.<|tool_calls_section_begin|>"}, None),
    ("raw_sections", {"content": "<|tool_calls_section_begin|>x"}, "shown"),
    ("raw_sections", {"content": "", "tool_calls": [call("a")]}, "parsed"),
    ("raw_sections", {"content": "Hi"}, None),
    ("control_ids", {"content": "Hi"}, "none"),
    ("control_ids", {"content": "Hi<|im_end|>[EOS]"}, "shown: <|im_end|> [EOS]"),
    ("control_ids", {"content": "<|tool_calls_section_begin|><|tool_call_begin|>"}, "none"),
    ("finish_of_calls", {"content": "", "tool_calls": [call("a")]}, "stop"),
    ("finish_of_calls", {"content": "Hi"}, None),
    ("provider", {"content": "Hi"}, "Chutes"),
    ("model", {"content": "Hi"}, MODEL),
    ("answered", {"content": "Hi"}, "answer"),
]


@pytest.mark.parametrize(("aspect", "message", "expected"), SHOWN)
def test_what_an_answer_shows(aspect: str, message: Json, expected: str | None) -> None:
    """Each aspect in the words of habits; None where the answer cannot tell."""
    assert value(aspect, body(**message)) == expected


def test_every_aspect_is_tried() -> None:
    """The tables above and below leave no aspect out."""
    elsewhere = {"call_id", "call_index", "reasoning_tokens", "spaces", "chunks", "chunks_arguments"}
    assert {row[0] for row in SHOWN} | elsewhere == set(ASPECTS)


def test_a_quoted_marker_is_no_leak() -> None:
    """What the request itself spells an answer may quote."""
    messages = [{"role": "user", "content": "What does <|im_end|> mean?"}]
    assert value("control_ids", body(content="<|im_end|> ends a turn."), messages=messages) == "none"


def stream(channel: str, *pieces: str) -> bytes:
    """A stream of these pieces of content or reasoning."""
    events = [{"choices": [{"index": 0, "delta": {channel: piece}}]} for piece in pieces]
    events.append({**body(), "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n\n"


def test_chunks() -> None:
    """Whether chunks end where tokens end, and how many tokens a chunk has; a body shows neither."""
    even = seen(stream("content", "Hello", " there", " my", " friend"), thinking=False)
    odd = seen(stream("content", "Hel", "lo there my", " friend"), thinking=False)
    assert (ASPECTS["chunks"].value(even), even.tokens_a_chunk) == ("tokens", (4, 4))
    assert (ASPECTS["chunks"].value(odd), odd.tokens_a_chunk) == ("within tokens", (4, 3))
    whole = seen(body(content="Hello there my friend"))
    assert (ASPECTS["chunks"].value(whole), whole.tokens_a_chunk) == (None, None)


@pytest.mark.parametrize(("told", "expected"), [(4, "ids"), (5, "ids+1"), (9, "other"), (None, None)])
def test_reasoning_tokens(told: int | None, expected: str | None) -> None:
    """reasoning_tokens against the ids of the reasoning, of which this one has four."""
    answer = body(reasoning="Hello there my friend", content="Hi")
    answer["usage"]["completion_tokens_details"] = {"reasoning_tokens": told}
    assert value("reasoning_tokens", answer) == expected


def test_spaces() -> None:
    """A detokenizer that puts a space at each side of control ids shows it at every edge that touches one."""
    assert value("spaces", body(reasoning="Hm. ", content=" Hi")) == "none"  # the start has none
    assert value("spaces", body(reasoning=" Hm. ", content=" Hi")) == "inserted"


def test_words_are_what_no_host_changes() -> None:
    """Blanks, markers, ids, index and the order of keys leave the words alone; another word does not."""
    parsed = seen(
        body(reasoning="Look.\n", content="", tool_calls=[call("functions.get_weather:3", '{"a": 1, "b": "é"}')])
    )
    minted = seen(body(reasoning="Look.", content=" ", tool_calls=[call("call_9f", '{"b":"\\u00e9","a":1}')]))
    raw = seen(
        body(
            reasoning="Look.",
            content="<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
            '<|tool_call_argument_begin|>{"a": 1, "b": "é"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>',
        )
    )
    other = seen(body(reasoning="Look.", content="", tool_calls=[call("functions.get_weather:3", '{"a": 2}')]))
    assert parsed.words == ("1", "Look", "a", "b", "get_weather", "é")
    assert (Pair(parsed, minted).alike, Pair(parsed, raw).alike, Pair(parsed, other).alike) == (True, True, False)


def test_fields() -> None:
    """Paths of all members, list indexes left out, streams and bodies alike; arguments are the model's own words."""
    answer = body(content="Hi", tool_calls=[call("a", '{"x": {"y": 1}}')])
    answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = {"x": {"y": 1}}
    fields = seen(answer).fields
    assert "choices[].message.tool_calls[].function.arguments" in fields
    assert not any("arguments." in path for path in fields)
    assert {"usage", "usage.total_tokens", "provider", "choices[].finish_reason"} <= fields
    streamed = seen(stream("content", "Hi")).fields
    assert {"choices[].delta.content", "choices[].finish_reason", "usage.prompt_tokens"} <= streamed
    assert seen(json.dumps(body(content="Hi")).encode()).fields == seen(body(content="Hi")).fields


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ({"error": {"code": 429, "message": "slow down"}}, "error 429"),
        (b"<html>busy</html>", "no answer"),
        (b"data: {", "no answer"),
        (b"", "no answer"),
    ],
)
def test_an_error_shows_that_it_is_one(answer: Any, trouble: str) -> None:
    """No turn, no words, and what came instead."""
    found = seen(answer)
    assert (found.turn, found.trouble, found.words, ASPECTS["answered"].value(found)) == (None, trouble, (), trouble)
    silent = set(ASPECTS) - {"answered", "provider", "model"}
    assert {ASPECTS[name].value(found) for name in silent} == {None}


def test_odd_requests_break_nothing() -> None:
    """A request that is no request of ours is compared as it is."""
    found = sighting("k", Exchange("k", body(content="Hi"), {"messages": "x", "model": 3}), kit())
    assert (found.model, found.history_calls, found.provider) == (MODEL, 0, "Chutes")
