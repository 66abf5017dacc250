"""A chat request as the emulator reads it: what is wrong with it, and which prompt it asks. Pure.

The table holds what OpenRouter documents of its chat request, what Kimi adds to it, and the recorded engines' own
fields; a field that is not in it may be anything. Null stands for a field that was not sent.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field must be: in words, and as a test of a value of JSON."""

    words: str
    holds: Callable[[Any], bool]


def _whole(low: int, high: float = math.inf) -> Kind:
    upto = f"of at least {low}" if high == math.inf else f"from {low} to {high}"
    return Kind(f"an integer {upto}", lambda v: type(v) is int and low <= v <= high)


def _number(low: float, high: float) -> Kind:
    return Kind(f"a number from {low:g} to {high:g}", lambda v: type(v) in (int, float) and low <= v <= high)


def _one_of(*words: str) -> Kind:
    return Kind(f"one of {', '.join(words)}", lambda v: isinstance(v, str) and v in words)


def _either(*kinds: Kind) -> Kind:
    return Kind(" or ".join(kind.words for kind in kinds), lambda v: any(kind.holds(v) for kind in kinds))


_FLAG = Kind("true or false", lambda v: isinstance(v, bool))
_TEXT = Kind("a string", lambda v: isinstance(v, str))
_NAME = Kind("a string that is not empty", lambda v: isinstance(v, str) and v != "")
_OBJECT = Kind("an object", lambda v: isinstance(v, dict))
_LIST = Kind("a list", lambda v: isinstance(v, list))

REQUIRED = ("model", "messages", "messages[].role", "tools[].function", "tools[].function.name")
FIELDS: Mapping[str, Kind] = {
    "model": _NAME,
    "models": _LIST,
    "models[]": _TEXT,
    "messages": Kind("a list of messages, at least one", lambda v: isinstance(v, list) and v != []),
    "messages[]": _OBJECT,
    "messages[].role": _one_of("system", "developer", "user", "assistant", "tool"),
    "messages[].content": _either(_TEXT, _LIST),
    "messages[].content[]": _OBJECT,
    "messages[].content[].text": _TEXT,
    "messages[].name": _TEXT,
    "messages[].reasoning": _TEXT,
    "messages[].reasoning_content": _TEXT,
    "messages[].reasoning_details": _LIST,
    "messages[].reasoning_details[]": _OBJECT,
    "messages[].tool_call_id": _TEXT,
    "messages[].tool_calls": _LIST,
    "messages[].tool_calls[]": _OBJECT,
    "messages[].tool_calls[].id": _TEXT,
    "messages[].tool_calls[].function": _OBJECT,
    "messages[].tool_calls[].function.name": _TEXT,
    "messages[].tool_calls[].function.arguments": _TEXT,
    "tools": _LIST,
    "tools[]": _OBJECT,
    "tools[].type": _TEXT,
    "tools[].function": _OBJECT,
    "tools[].function.name": _NAME,
    "tools[].function.description": _TEXT,
    "tools[].function.strict": _FLAG,
    "tools[].function.parameters": _OBJECT,
    "tools[].function.parameters.properties": _OBJECT,
    "tool_choice": _either(_one_of("none", "auto", "required"), _OBJECT),
    "parallel_tool_calls": _FLAG,
    "provider": _OBJECT,
    "provider.only": _LIST,
    "provider.only[]": _TEXT,
    "provider.order": _LIST,
    "provider.order[]": _TEXT,
    "provider.ignore": _LIST,
    "provider.ignore[]": _TEXT,
    "provider.quantizations": _LIST,
    "provider.quantizations[]": _TEXT,
    "provider.allow_fallbacks": _FLAG,
    "provider.require_parameters": _FLAG,
    "provider.enforce_distillable_text": _FLAG,
    "provider.zdr": _FLAG,
    "provider.data_collection": _one_of("allow", "deny"),
    "provider.sort": _either(_TEXT, _OBJECT),
    "provider.max_price": _OBJECT,
    "stream": _FLAG,
    "stream_options": _OBJECT,
    "stream_options.include_usage": _FLAG,
    "usage": _OBJECT,
    "usage.include": _FLAG,
    "max_tokens": _whole(1),
    "max_completion_tokens": _whole(1),
    "n": Kind("1, since one answer comes", lambda v: type(v) is int and v == 1),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "top_a": _number(0, 1),
    "min_p": _number(0, 1),
    "top_k": _whole(0),
    "presence_penalty": _number(-2, 2),
    "frequency_penalty": _number(-2, 2),
    "repetition_penalty": _number(0, 2),
    "seed": Kind("an integer", lambda v: type(v) is int),
    "stop": _either(_TEXT, _LIST),
    "stop[]": _TEXT,
    "logit_bias": _OBJECT,
    "logprobs": _FLAG,
    "top_logprobs": _whole(0, 20),
    "response_format": _OBJECT,
    "response_format.type": _NAME,
    "reasoning": _OBJECT,
    "include_reasoning": _FLAG,
    "thinking": _either(_FLAG, _OBJECT),
    "chat_template_kwargs": _OBJECT,
    "user": _TEXT,
    "transforms": _LIST,
    "transforms[]": _TEXT,
    "plugins": _LIST,
    "plugins[]": _OBJECT,
    "skip_special_tokens": _FLAG,
    "separate_reasoning": _FLAG,
    "return_token_ids": _FLAG,
    "return_tokens_as_token_ids": _FLAG,
    "return_input_ids_in_sglext": _FLAG,
    "return_output_ids_in_sglext": _FLAG,
}
"""Path -> what stands there; `[]` is each item of a list. A parent stands in front of what it holds."""


def wrong(request: Any) -> str:
    """What is wrong with a request: what came and what was expected; "" for nothing."""
    if not isinstance(request, dict):
        return f"the request must be an object, got {_shown(request)}"
    for path, kind in FIELDS.items():
        for where, value in _at(request, path):
            if not kind.holds(value) and (value is not None or path in REQUIRED or path.endswith("[]")):
                return f"`{where}` must be {kind.words}, got {_shown(value)}"
    return ""


def _at(holder: Any, path: str, where: str = "") -> Iterator[tuple[str, Any]]:
    """(place, value) of each value at a path; None for one that was not sent. Nothing below what holds nothing."""
    if not isinstance(holder, dict):
        return
    name, _, rest = path.partition(".")
    key = name.removesuffix("[]")
    value, where = holder.get(key), f"{where}{key}"
    found = [(where, value)]
    if name != key:
        found = [(f"{where}[{k}]", item) for k, item in enumerate(value)] if isinstance(value, list) else []
    for place, item in found:
        yield from _at(item, rest, f"{place}.") if rest else [(place, item)]


def _shown(value: Any) -> str:
    """A value in a few words, as JSON spells it."""
    text = "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else json.dumps(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def prompt_text(request: Mapping[str, Any]) -> str:
    """The text of the last user message, "" where there is none."""
    users = [m for m in request.get("messages") or () if isinstance(m, dict) and m.get("role") == "user"]
    content = users[-1].get("content") if users else ""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
