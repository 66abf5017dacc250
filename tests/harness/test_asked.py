"""What a request asked for: the thinking switch in its three places, and the prompt against what was billed for it."""

from typing import Any

import pytest

from harness.asked import asked_thinking, offers_tools, prompt_status
from harness.encoder import encode_prompt_text
from harness.formats import Format, formats
from harness.types import Reported, Turn, Usage

pytestmark = pytest.mark.required

MESSAGES = [{"role": "user", "content": "2+2?"}]
# <|im_user|>user<|im_middle|> 2 + 2 ? <|im_end|><|im_assistant|>assistant<|im_middle|><think>
PROMPT_IDS = (163587, 2482, 163601, 17, 10, 17, 30, 163586, 163588, 69702, 163601, 163606)


def kimi_k25() -> Format:
    return next(f for f in formats() if f.name == "kimi-k2.5")


def turn(prompt_tokens: int | None = None, prompt_ids: tuple[int, ...] | None = None) -> Turn:
    reported = Reported(prompt_ids=prompt_ids) if prompt_ids is not None else None
    return Turn("Ok.", "4", (), "stop", usage=Usage(prompt_tokens=prompt_tokens), reported=reported)


@pytest.mark.parametrize(
    ("request_body", "expected"),
    [
        pytest.param({}, None, id="nothing-said"),
        pytest.param({"chat_template_kwargs": {"thinking": False}}, False, id="template"),
        pytest.param({"thinking": True}, True, id="own-flag"),
        pytest.param({"thinking": {"type": "enabled"}}, True, id="own-object-on"),
        pytest.param({"thinking": {"type": "disabled"}}, False, id="own-object-off"),
        pytest.param({"reasoning": {"enabled": False}}, False, id="openrouter"),
        pytest.param({"reasoning": {"effort": "high"}}, None, id="effort-is-no-switch"),
        pytest.param({"thinking": "false"}, None, id="a-string-is-no-switch"),
        pytest.param(
            {"chat_template_kwargs": {"thinking": False}, "reasoning": {"enabled": True}}, False, id="template-first"
        ),
    ],
)
def test_the_switch_is_read_where_hosts_read_it(request_body: dict[str, Any], expected: bool | None) -> None:
    """Only a boolean (or enabled / disabled) is a switch; the template's own flag goes first."""
    assert asked_thinking(request_body) is expected


@pytest.mark.parametrize(
    ("answer", "traits", "expected"),
    [
        pytest.param(turn(12), {"prompt_offset": "0"}, "verified", id="bill-fits"),
        pytest.param(turn(11), {"prompt_offset": "-1"}, "verified", id="bill-fits-with-offset"),
        pytest.param(turn(11), {"prompt_offset": "0"}, "contradicted", id="one-token-less"),
        pytest.param(turn(12), {}, "unverified", id="offset-unknown"),
        pytest.param(turn(None), {"prompt_offset": "0"}, "unverified", id="no-bill"),
        pytest.param(turn(99, PROMPT_IDS), {"prompt_offset": "0"}, "verified", id="ids-go-before-the-bill"),
        pytest.param(turn(12, (*PROMPT_IDS[:-1], 163607)), {"prompt_offset": "0"}, "contradicted", id="other-ids"),
        pytest.param(turn(12, ()), {"prompt_offset": "0"}, "contradicted", id="no-ids-is-not-the-prompt"),
    ],
)
def test_the_prompt_is_what_ids_or_the_bill_say(answer: Turn, traits: dict[str, str], expected: str) -> None:
    """12 ids are rendered; the host's own ids decide, else the bill after the known offset."""
    status, finding = prompt_status({"messages": MESSAGES}, answer, kimi_k25(), True, traits, encode_prompt_text)

    assert status == expected
    assert (finding.code if finding else None) == ("prompt-mismatch" if expected == "contradicted" else None)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no-messages"),
        pytest.param({"messages": "[omitted: 3 messages]"}, id="messages-left-out"),
        pytest.param({"messages": MESSAGES, "tools": ["bash"]}, id="bare-tool-names"),
        pytest.param({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, id="an-image"),
    ],
)
def test_a_request_that_cannot_be_rendered_proves_nothing(body: dict[str, Any]) -> None:
    """Neither verified nor contradicted, whatever was billed."""
    assert prompt_status(body, turn(12), kimi_k25(), True, {"prompt_offset": "0"}, encode_prompt_text) == (
        "unverified",
        None,
    )


def test_without_an_encoder_for_prompts_every_prompt_is_unverified() -> None:
    """Judging output ids does not need the prompt."""
    status, finding = prompt_status({"messages": MESSAGES}, turn(12), kimi_k25(), True, {"prompt_offset": "0"}, None)

    assert (status, finding) == ("unverified", None)


@pytest.mark.required
def test_tools_that_may_not_be_called_are_none() -> None:
    """With tool_choice none an engine looks for no calls, as if no tools were there."""
    tools = [{"type": "function", "function": {"name": "ping"}}]
    assert offers_tools({"tools": tools})
    assert offers_tools({"tools": tools, "tool_choice": "auto"})
    assert not offers_tools({"tools": tools, "tool_choice": "none"})
    assert not offers_tools({"tools": []})
