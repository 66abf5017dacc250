"""Turns that several tests put into requests, and a rendering that can be read back as text."""

from collections.abc import Mapping, Sequence
from typing import Any

from harness.encoder import encode_prompt_text
from harness.formats import Format, formats
from harness.prompt import Prompt, render
from harness.vocab import CONTROL_NAMES, N_RANKS

FORMATS = {f.name: f for f in formats()}
K25, K2, K2_THINKING = (FORMATS[name] for name in ("kimi-k2.5", "kimi-k2", "kimi-k2-thinking"))
DEFAULT = "<|im_system|>system<|im_middle|>You are Kimi, an AI assistant created by Moonshot AI.<|im_end|>"
OPEN = "<|im_assistant|>assistant<|im_middle|>"
USER: dict[str, Any] = {"role": "user", "content": "Hi"}
SHOWN = "<|im_user|>user<|im_middle|>Hi<|im_end|>"
PING = {"type": "function", "function": {"name": "ping"}}

Messages = Sequence[Mapping[str, Any]]


def call(call_id: str = "functions.ping:0", name: str = "ping", arguments: Any = "{}") -> dict[str, Any]:
    """A tool call of an earlier turn."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(**fields: Any) -> dict[str, Any]:
    """An earlier turn that calls one tool."""
    return {"role": "assistant", "content": "", "tool_calls": [call()], **fields}


def result(**fields: Any) -> dict[str, Any]:
    """The result of that call."""
    return {"role": "tool", "tool_call_id": "functions.ping:0", "content": "pong", **fields}


SECTION = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
    "<|tool_calls_section_end|>"
)


def points(text: str) -> list[int]:
    """An encoder whose ids are code points, so that a prompt can be read back; never a control id."""
    ids = [ord(c) for c in text]
    assert all(i < N_RANKS for i in ids)
    return ids


def rendered(
    messages: Messages,
    tools: Messages | None = None,
    *,
    format: Format = K25,
    thinking: bool | None = True,
) -> Prompt:
    """The prompt, with code points for text."""
    return render(messages, tools, format=format, thinking=thinking, encode=points)


def shown(
    messages: Messages, tools: Messages | None = None, *, format: Format = K25, thinking: bool | None = True
) -> str:
    """The prompt as text, control ids by name."""
    ids = rendered(messages, tools, format=format, thinking=thinking).ids
    return "".join(chr(i) if i < N_RANKS else CONTROL_NAMES[i - N_RANKS] for i in ids)


def real_ids(messages: Messages, *, thinking: bool = True) -> list[int]:
    """The ids of a K2.5 prompt."""
    return render(messages, None, format=K25, thinking=thinking, encode=encode_prompt_text).ids
