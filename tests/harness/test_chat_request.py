"""harness.chat_request: a request of any shape is read or refused with what came and what was expected."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.chat_request import FIELDS, REQUIRED, prompt_text, wrong
from harness.preset_table import PRESETS
from tests.emulator_kit import MODEL, TOOLS, asked, chat, emulator, events, parsed

PLAIN = st.none() | st.booleans() | st.integers(-3, 40) | st.sampled_from([2**70, 0.5, -1.5, math.inf, math.nan])
TEXTS = st.sampled_from(["", "hi", "call", "none", "auto", "int4", "groq", "assistant", "user", "text", "\ud800"])
JSON = st.recursive(
    PLAIN | TEXTS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS | st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
KINDS = [5, "five", [5], {"five": 5}, True, 1.5, -1]
CALL = {"id": "functions.save:0", "type": "function", "function": {"name": "save", "arguments": "{}"}}
FULL = asked(
    "call",
    provider={
        "only": ["chutes"],
        "order": ["chutes", "groq"],
        "ignore": ["nowhere"],
        "quantizations": ["int4"],
        "allow_fallbacks": True,
        "require_parameters": False,
        "data_collection": "deny",
        "sort": "price",
        "max_price": {"prompt": 1},
        "zdr": False,
        "enforce_distillable_text": False,
    },
    tools=TOOLS,
    tool_choice="auto",
    stream=False,
    stream_options={"include_usage": True},
    usage={"include": True},
    max_tokens=500,
    max_completion_tokens=500,
    n=1,
    temperature=0.7,
    top_p=1,
    seed=-7,
    stop=["never"],
    logprobs=True,
    top_logprobs=0,
    response_format={"type": "text"},
    reasoning={"enabled": True},
    thinking={"type": "enabled"},
    chat_template_kwargs={"thinking": True},
    skip_special_tokens=True,
    separate_reasoning=True,
    return_token_ids=True,
    return_output_ids_in_sglext=True,
)
"""A request that says much, all of it right."""
FULL["messages"] = [
    {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
    {"role": "assistant", "content": None, "reasoning": "So.", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "functions.save:0", "content": "ok"},
    *FULL["messages"],
]


def put(holder: Any, path: list[str | int], value: Any) -> Any:
    """A copy of `holder` with another value at a path."""
    if not path:
        return value
    key, *rest = path
    made = list(holder) if isinstance(holder, list) else dict(holder)
    made[key] = put(holder[key], rest, value) if rest else value
    return made


def paths(holder: Any, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Every place of a value of JSON."""
    inner = holder.items() if isinstance(holder, dict) else enumerate(holder) if isinstance(holder, list) else ()
    return [here, *(path for key, value in inner for path in paths(value, (*here, key)))]


PLACES = [list(path) for path in paths(FULL)]
PROVIDERS = sorted({name.partition("/")[0] for name in PRESETS})


def test_a_request_that_is_right_is_answered() -> None:
    """The full request is answered by every preset, whole and streamed."""
    for provider in PROVIDERS:
        request = put(FULL, ["provider", "only"], [provider])
        assert wrong(request) == ""
        body = parsed(chat(emulator(), request))
        assert body["choices"][0]["finish_reason"] == "tool_calls", provider
        assert events(chat(emulator(), request | {"stream": True}))[-1]["usage"]["completion_tokens"] > 0, provider


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"provider": {"only": 5}}, "`provider.only` must be a list, got 5"),
        ({"provider": {"order": [5]}}, "`provider.order[0]` must be a string, got 5"),
        ({"provider": {"ignore": ["a", None]}}, "`provider.ignore[1]` must be a string, got null"),
        ({"provider": {"quantizations": 5}}, "`provider.quantizations` must be a list, got 5"),
        ({"provider": {"allow_fallbacks": "no"}}, '`provider.allow_fallbacks` must be true or false, got "no"'),
        ({"provider": "chutes"}, '`provider` must be an object, got "chutes"'),
        (
            {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": 5}]},
            "`messages[1].tool_calls` must be a list, got 5",
        ),
        ({"messages": []}, "`messages` must be a list of messages, at least one, got a list"),
        ({"messages": ["hi"]}, '`messages[0]` must be an object, got "hi"'),
        ({"messages": [{"content": "hi"}]}, "`messages[0].role` must be one of system, developer, user, "),
        ({"messages": [{"role": "user", "content": 5}]}, "`messages[0].content` must be a string or a list, got 5"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]},
            "`messages[0].content[0].text` must be a string, got 5",
        ),
        ({"max_tokens": -1}, "`max_tokens` must be an integer of at least 1, got -1"),
        ({"max_tokens": 0}, "`max_tokens` must be an integer of at least 1, got 0"),
        ({"max_tokens": True}, "`max_tokens` must be an integer of at least 1, got true"),
        ({"max_completion_tokens": 1.0}, "`max_completion_tokens` must be an integer of at least 1, got 1.0"),
        ({"stream": "no"}, '`stream` must be true or false, got "no"'),
        ({"stream": 0}, "`stream` must be true or false, got 0"),
        ({"n": 2}, "`n` must be 1, since one answer comes, got 2"),
        ({"n": True}, "`n` must be 1, since one answer comes, got true"),
        ({"response_format": 5}, "`response_format` must be an object, got 5"),
        ({"temperature": math.nan}, "`temperature` must be a number from 0 to 2, got NaN"),
        ({"top_logprobs": 21}, "`top_logprobs` must be an integer from 0 to 20, got 21"),
        ({"tools": ["f"]}, '`tools[0]` must be an object, got "f"'),
        ({"tools": [{"type": "function"}]}, "`tools[0].function` must be an object, got null"),
        (
            {"tools": [{"function": {"name": ""}}]},
            '`tools[0].function.name` must be a string that is not empty, got ""',
        ),
        (
            {"tools": [TOOLS[0], {"function": {"name": "f", "parameters": {"properties": [[]]}}}]},
            "`tools[1].function.parameters.properties` must be an object, got a list",
        ),
        ({"tool_choice": "maybe"}, '`tool_choice` must be one of none, auto, required or an object, got "maybe"'),
        ({"stop": [1]}, "`stop[0]` must be a string, got 1"),
        ({"user": ["x" * 200]}, "`user` must be a string, got a list"),
        ({"model": 5}, "`model` must be a string that is not empty, got 5"),
        ({"seed": "x" * 200}, f'`seed` must be an integer, got "{"x" * 59}…'),
    ],
)
def test_what_came_and_what_was_expected(fields: dict[str, Any], message: str) -> None:
    """The first field that is wrong is named with its place, and the answer is 400."""
    app = emulator()
    reply = chat(app, asked() | fields)
    assert reply.status == 400
    assert parsed(reply)["error"]["message"].startswith(message)
    assert app.requests == []


@pytest.mark.parametrize("path", FIELDS)
def test_every_row_of_the_table_is_held(path: str) -> None:
    """A value of another kind at a row's place is refused by that very row; each row has some."""
    expected = f"`{path.replace('[]', '[0]')}` must be {FIELDS[path].words}, got "
    refused = [wrong(_standing(path, value)).startswith(expected) for value in KINDS]
    assert refused == [not FIELDS[path].holds(value) for value in KINDS]
    assert any(refused)


@pytest.mark.parametrize("path", FIELDS)
def test_null_is_a_field_that_was_not_sent(path: str) -> None:
    """Except where a field is required, and as an item of a list."""
    needed = path in REQUIRED or path.endswith("[]")
    place = path.replace("[]", "[0]")
    assert wrong(_standing(path, None)).startswith(f"`{place}` must be ") is needed


def _standing(path: str, value: Any) -> dict[str, Any]:
    """A request that is right, with this value at a path of the table."""
    request = asked(tools=[{"function": {"name": "f"}}])
    holder: Any = request
    *above, last = path.split(".")
    for name in above:
        holder = _inner(holder, name)
    if last.endswith("[]"):
        holder[last[:-2]] = [value]
    else:
        holder[last] = value
    return request


def _inner(holder: dict[str, Any], name: str) -> dict[str, Any]:
    key = name.removesuffix("[]")
    kept = holder.get(key)
    if name != key:
        listed = kept if isinstance(kept, list) else [{}]
        holder[key] = listed
        return listed[0]  # type: ignore[no-any-return] - a request is any JSON
    kept = kept if isinstance(kept, dict) else {}
    holder[key] = kept
    return kept


@given(JSON, st.dictionaries(TEXTS | st.sampled_from(sorted(FULL)), JSON, max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_json_is_answered_or_refused(value: Any, fields: dict[str, Any]) -> None:
    """Whatever JSON comes, there is a reply: what is no request is 400, never an exception."""
    app = emulator()
    assert chat(app, value).status == 400
    reply = chat(app, asked() | fields)
    assert reply.status in (200, 400, 404)
    assert (reply.status == 400) or wrong(asked() | fields) == ""


@pytest.mark.parametrize("value", [*KINDS, None, [[]], [{}], {"type": 5}, {"properties": 5}], ids=ascii)
def test_one_odd_value_anywhere_is_answered_or_refused(value: Any) -> None:
    """The value at every place of a full request, in front of a preset of each engine: never an exception."""
    app = emulator()
    for path in PLACES:
        for provider in ("chutes", "vllm-0.32", "sglang-0.5.23"):
            reply = chat(app, put(put(FULL, ["provider", "only"], [provider]), path, value))
            assert reply.status in (200, 400, 404), path


@given(st.lists(st.tuples(st.sampled_from(PLACES), JSON), min_size=1, max_size=3), st.sampled_from(PROVIDERS))
@settings(max_examples=100, deadline=None)
def test_a_request_that_is_nearly_right_is_answered_or_refused(changes: Any, provider: str) -> None:
    """Any value at any place of a full request: an answer, or an error that says why; streamed ones too."""
    request: Any = put(FULL, ["provider", "only"], [provider])
    for path, value in changes:
        try:
            request = put(request, path, value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took the place away
    reply = chat(emulator(), request)
    said = list(reply.parts)
    assert reply.status in (200, 400, 404)
    if reply.status == 400:
        assert json.loads(b"".join(p for p in said if isinstance(p, bytes)))["error"]["message"]


def test_the_prompt_is_the_text_of_the_last_user_message() -> None:
    """Parts are joined; a request without one has the empty prompt."""
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    users = [{"role": "user", "content": "no"}, {"role": "user", "content": parts}]
    assert prompt_text({"model": MODEL, "messages": users}) == "ab"
    assert prompt_text({"messages": [{"role": "system", "content": "x"}]}) == ""
