"""Prompts: what each message becomes, to the id."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.formats import Format
from harness.prompt import OPENERS, render
from harness.vocab import CONTROL_IDS
from tests.harness.chat import (
    DEFAULT,
    K2,
    K2_THINKING,
    K25,
    OPEN,
    PING,
    SECTION,
    SHOWN,
    USER,
    call,
    calling,
    real_ids,
    rendered,
    result,
    shown,
)

ENDS = [
    pytest.param(K25, True, "", f"{OPEN}<think>", id="k2.5-on"),
    pytest.param(K25, False, "", f"{OPEN}<think></think>", id="k2.5-off"),
    pytest.param(K2_THINKING, True, "", OPEN, id="k2-thinking-samples-think-itself"),
    pytest.param(K2_THINKING, None, "", OPEN, id="k2-thinking-has-one-mode"),
    pytest.param(K2, None, DEFAULT, OPEN, id="k2-has-one-mode-and-a-default-system"),
]


@pytest.mark.required
@pytest.mark.parametrize(("format", "thinking", "start", "end"), ENDS)
def test_a_prompt_of_each_format(format: Format, thinking: bool | None, start: str, end: str) -> None:
    """Each format begins and ends a prompt in its own way."""
    assert shown([USER], format=format, thinking=thinking) == f"{start}{SHOWN}{end}"


@pytest.mark.required
@pytest.mark.parametrize(
    ("format", "thinking"), [(K25, None), (K2, True), (K2_THINKING, False)], ids=["unsaid", "k2-on", "k2-thinking-off"]
)
def test_mode_that_a_format_lacks_or_that_was_not_said(format: Format, thinking: bool | None) -> None:
    """The thinking mode is never guessed."""
    with pytest.raises(SetupError, match=r"thinking is .* expected one of"):
        rendered([USER], format=format, thinking=thinking)


@pytest.mark.required
def test_known_ids_of_a_beginning() -> None:
    """The public reference ids of a system and a user message."""
    messages = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": ""}]
    begin = [163594, 14062, 163601, 3900, 554, 261, 13205, 26626, 13, 163586, 163587, 2482, 163601]

    assert real_ids(messages) == [*begin, 163586, 163588, 69702, 163601, 163606]


@pytest.mark.required
@pytest.mark.parametrize(("thinking", "tail"), [(True, [163606]), (False, [163606, 163607])])
def test_prompt_tail_holds_the_thinking_switch(thinking: bool, tail: list[int]) -> None:
    """With thinking on a prompt ends in `<think>`, with thinking off in the closed pair."""
    assert real_ids([USER], thinking=thinking)[-len(tail) - 3 :] == [163588, 69702, 163601, *tail]


@pytest.mark.required
def test_default_system_only_where_none_is_sent() -> None:
    """K2 adds its system message to a request without one; a host that adds none is the format without it."""
    system = {"role": "system", "content": "S"}

    assert (
        shown([system, USER], format=K2, thinking=None) == f"<|im_system|>system<|im_middle|>S<|im_end|>{SHOWN}{OPEN}"
    )
    assert shown([USER], format=replace(K2, default_system=None), thinking=None) == f"{SHOWN}{OPEN}"


@pytest.mark.required
def test_roles_have_openers() -> None:
    """Every role that a message may have is opened by its control token, under its own name or the message's."""
    openers = {
        role: shown([{**result(), "role": role, "content": ""}, USER]).split("<|im_middle|>")[0] for role in OPENERS
    }

    assert openers == {
        "system": "<|im_system|>system",
        "user": "<|im_user|>user",
        "assistant": "<|im_assistant|>assistant",
        "tool": "<|im_system|>tool",
    }
    assert shown([{**USER, "name": "ann"}]).startswith("<|im_user|>ann<|im_middle|>Hi")
    assert shown([{**USER, "name": ""}]).startswith("<|im_user|>user<|im_middle|>Hi")


EMPTY = [pytest.param(c, id=str(c)) for c in ("", None, [], [{"type": "text", "text": ""}])]


@pytest.mark.required
@pytest.mark.parametrize("content", EMPTY)
def test_empty_content_is_nothing(content: object) -> None:
    """Nothing stands between the think pair and the section of a turn that only calls, however emptiness is written."""
    text = shown([USER, calling(content=content), result(content=content)], [PING])

    assert f"<|im_middle|><think></think>{SECTION}<|im_end|>" in text
    assert "<|im_system|>tool<|im_middle|>## Return of functions.ping:0\n<|im_end|>" in text
    assert shown([{"role": "user", "content": content}]) == f"<|im_user|>user<|im_middle|><|im_end|>{OPEN}<think>"


@pytest.mark.required
def test_tool_loop() -> None:
    """Declaration, call and result each in their place, arguments byte for byte, the name of the result as given."""
    arguments = '{ "b":1,"a" : "é" }'
    turn = calling(content="One moment.", tool_calls=[call(arguments=arguments), call("functions.ping:1")])
    text = shown([USER, turn, result(name="ping"), result(tool_call_id="functions.ping:1")], [PING])

    declared = "# Tools\n\n## functions\nnamespace functions {\ntype ping = (_: {}) => any;\n}\n"
    assert text == (
        f"<|im_system|>tool_declare<|im_middle|>{declared}<|im_end|>{SHOWN}{OPEN}<think></think>One moment."
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{arguments}"
        "<|tool_call_end|><|tool_call_begin|>functions.ping:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
        "<|tool_calls_section_end|><|im_end|>"
        "<|im_system|>ping<|im_middle|>## Return of functions.ping:0\npong<|im_end|>"
        "<|im_system|>tool<|im_middle|>## Return of functions.ping:1\npong<|im_end|>"
        f"{OPEN}<think>"
    )


@pytest.mark.required
def test_k2_declares_in_json_and_has_no_think_pair() -> None:
    """K2 writes tools as JSON before its default system message, and earlier turns without think marks."""
    text = shown([USER, calling(reasoning="R"), result()], [PING], format=K2, thinking=None)

    declared = '[{"function":{"name":"ping"},"type":"function"}]'
    assert text == (
        f"<|im_system|>tool_declare<|im_middle|>{declared}<|im_end|>{DEFAULT}{SHOWN}{OPEN}{SECTION}<|im_end|>"
        f"<|im_system|>tool<|im_middle|>## Return of functions.ping:0\npong<|im_end|>{OPEN}"
    )


@pytest.mark.required
@pytest.mark.parametrize("format", [K25, K2_THINKING], ids=lambda f: f.name)
def test_earlier_thinking_is_emptied_and_kept_in_the_running_loop_alone(format: Format) -> None:
    """Reasoning up to the last turn without calls is rendered as the empty pair; after it, it stays."""
    first = [USER, {"role": "assistant", "content": "0", "reasoning": "R0"}]
    done = [
        *first,
        USER,
        calling(reasoning="R1"),
        result(),
        {"role": "assistant", "content": "4", "reasoning": "R2"},
        USER,
    ]
    text = shown([*done, calling(reasoning="R3"), result()], format=format)

    assert [r for r in ("R0", "R1", "R2", "R3") if r in text] == ["R3"]
    assert f"{OPEN}<think></think>4<|im_end|>" in text
    assert f"{OPEN}<think>R3</think>{SECTION}<|im_end|>" in text


@pytest.mark.required
def test_sample_is_one_turn() -> None:
    """The prompt of a second turn holds the first one with the pair 163606, 163607 and none of its reasoning."""
    messages = [
        {"role": "user", "content": "5+1?"},
        {"role": "assistant", "reasoning": "Tiny sum.", "content": "6"},
        {"role": "user", "content": "7+1?"},
    ]

    assert real_ids(messages) == [
        *(163587, 2482, 163601, *encode_prompt_text("5+1?"), 163586),
        *(163588, 69702, 163601, 163606, 163607, *encode_prompt_text("6"), 163586),
        *(163587, 2482, 163601, *encode_prompt_text("7+1?"), 163586),
        *(163588, 69702, 163601, 163606),
    ]


@pytest.mark.required
def test_each_text_is_encoded_by_itself() -> None:
    """The encoder sees every stretch between control ids whole, once where it is short, and nothing else."""
    texts: list[str] = []

    def spy(text: str) -> list[int]:
        texts.append(text)
        return []

    prompt = render(
        [USER, calling(content="C", reasoning="R"), result()], [PING], format=K25, thinking=True, encode=spy
    )

    assert [t for t in texts if t][2:] == [
        *("user", "Hi", "assistant", "R", "C", "functions.ping:0", "{}"),
        *("tool", "## Return of functions.ping:0\npong"),
    ]
    assert all(i in CONTROL_IDS.values() for i in prompt.ids)


@pytest.mark.required
def test_lone_surrogate_is_refused_with_its_place() -> None:
    """Text that has no bytes is our input's fault and named."""
    with pytest.raises(SetupError, match=r"messages\[1\]\.content cannot be encoded"):
        real_ids([USER, {"role": "user", "content": "a\ud800"}])


@pytest.mark.shared
def test_every_reference_prompt(shared: Path) -> None:
    """All 36 reference prompts are rendered to the id."""
    lines = [json.loads(x) for x in (shared / "kimi-k2.5/prompts.jsonl").read_text("utf-8").splitlines()]

    got = [
        render(x["messages"], x["tools"], format=K25, thinking=x["thinking"], encode=encode_prompt_text).ids
        for x in lines
    ]

    assert len(lines) == 36
    assert got == [x["prompt_ids"] for x in lines]
