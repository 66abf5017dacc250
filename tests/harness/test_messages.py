"""Messages are read strictly: emptiness is nothing, the same text twice is one, and nothing is dropped silently."""

from typing import Any

import pytest

from harness.errors import SetupError
from harness.messages import content_text, reasoning_text, tool_calls
from tests.harness.chat import USER, call, calling, rendered

REASONING = [
    pytest.param({"reasoning": "R"}, id="reasoning"),
    pytest.param({"reasoning_content": "R"}, id="reasoning_content"),
    pytest.param({"reasoning": "R", "reasoning_content": "R", "reasoning_details": None}, id="the-same-twice"),
    pytest.param({"reasoning_details": [{"type": "reasoning.text", "text": "R"}]}, id="details"),
    pytest.param({"reasoning": "AB", "reasoning_details": [{"text": "A"}, {"text": "B"}]}, id="details-joined"),
]


@pytest.mark.parametrize("fields", REASONING)
def test_reasoning_under_any_of_its_names(fields: dict[str, Any]) -> None:
    """The three fields in which hosts take earlier reasoning are one text."""
    assert reasoning_text(fields, "m") == fields.get("reasoning", "R")


def test_nothing_given_is_nothing() -> None:
    """A message without content, reasoning or calls has none of them."""
    assert (content_text({}, "m"), reasoning_text({}, "m"), tool_calls({"tool_calls": None}, "m")) == ("", "", [])


def test_parts_are_joined_with_nothing_between() -> None:
    """Text parts are one text."""
    parts = [{"type": "text", "text": " a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b\n"}]

    assert content_text({"content": parts}, "m") == " ab\n"


def test_calls_come_with_their_place() -> None:
    """Each call stands beside the place that errors and findings name."""
    assert tool_calls({"tool_calls": [call(), call("x")]}, "messages[4]") == [
        ("messages[4].tool_calls[0]", call()),
        ("messages[4].tool_calls[1]", call("x")),
    ]


BAD: list[Any] = [
    pytest.param([], "messages is empty", id="no-messages"),
    pytest.param(["Hi"], r"messages\[0\] is 'Hi'", id="message-no-object"),
    pytest.param([{"role": "developer", "content": "x"}], r"role of \['system'", id="unknown-role"),
    pytest.param([{"content": "x"}], r"messages\[0\] is", id="no-role"),
    pytest.param([{**USER, "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
                 r"messages\[0\]\.content\[0\] is a part of type 'image_url'", id="image"),
    pytest.param([{**USER, "content": ["x"]}], r"content\[0\] is a part of type None", id="part-no-object"),
    pytest.param([{**USER, "content": {"text": "x"}}], "expected text, null or a list", id="content-an-object"),
    pytest.param([{**USER, "content": 5}], "expected text, null or a list", id="content-a-number"),
    pytest.param([{**USER, "name": 5}], r"messages\[0\]\.name is '5'", id="name-no-string"),
    pytest.param([{"role": "tool", "content": "x"}], r"messages\[0\]\.tool_call_id is 'None'", id="result-without-id"),
    pytest.param([{"role": "assistant", "tool_calls": {}, "function_call": {"name": "f"}}], "as tool_calls",
                 id="function_call"),
    pytest.param([USER, {"role": "assistant", "content": "x", "partial": True}], "no beginning", id="partial"),
    pytest.param([USER, calling(tool_calls="x")], r"tool_calls is 'x', expected a list", id="calls-no-list"),
    pytest.param([USER, calling(tool_calls=["x"])], r"tool_calls\[0\] is 'x'", id="call-no-object"),
    pytest.param([USER, calling(tool_calls=[{"id": "x"}])], r"tool_calls\[0\] is", id="call-without-function"),
    pytest.param([USER, calling(tool_calls=[call(None)])], r"\[0\]\.id is 'None'", id="call-without-id"),  # type: ignore[arg-type]
    pytest.param([USER, calling(tool_calls=[call(arguments={"a": 1})])], r"arguments is .*exactly as",
                 id="arguments-parsed"),
    pytest.param([USER, calling(reasoning="a", reasoning_content="b")], "reasoning fields that differ",
                 id="two-reasonings"),
    pytest.param([USER, calling(reasoning={"a": 1})], "one that is no string", id="reasoning-no-string"),
    pytest.param([USER, calling(reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}])],
                 "sealed parts cannot be rendered", id="sealed-reasoning"),
    pytest.param([USER, calling(reasoning_details=[{"type": "reasoning.summary", "text": "x"}])],
                 "summaries and sealed", id="summarised-reasoning"),
]  # fmt: skip


@pytest.mark.parametrize(("messages", "said"), BAD)
def test_what_cannot_be_rendered_is_refused_with_its_place(messages: Any, said: str) -> None:
    """No part of a request is dropped or made into text silently."""
    with pytest.raises(SetupError, match=said):
        rendered(messages)
