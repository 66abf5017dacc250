"""What a request asked for, against what the answer says of it: the thinking switch, whether the prompt was read as it
was sent, and whether the host that was pinned answered.

On the level of `flow`: it renders prompts. Knows nothing of output ids.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from harness.errors import HarnessError
from harness.formats import Format
from harness.prompt import render_ids
from harness.types import Encode, Exchange, Finding, Turn

Status = Literal["verified", "unverified", "contradicted"]


def asked_thinking(request: Mapping[str, Any]) -> bool | None:
    """The switch in a request, in any of the three places where hosts read it; None where it is not set."""
    template, own, effort = (request.get(k) for k in ("chat_template_kwargs", "thinking", "reasoning"))
    candidates = (
        template.get("thinking") if isinstance(template, Mapping) else None,
        own.get("type") != "disabled" if isinstance(own, Mapping) and "type" in own else own,
        effort.get("enabled") if isinstance(effort, Mapping) else None,
    )
    return next((c for c in candidates if isinstance(c, bool)), None)


def offers_tools(request: Mapping[str, Any]) -> bool:
    """Whether the model may call one: engines that look for calls keep control ids in the text, and only then."""
    return bool(request.get("tools")) and request.get("tool_choice") != "none"


def thinking_of(exchange: Exchange) -> bool | None:
    """The switch as the line says it, else as its request does."""
    return exchange.thinking if exchange.thinking is not None else asked_thinking(exchange.request)


def prompt_status(
    request: Mapping[str, Any],
    turn: Turn,
    fmt: Format,
    thinking: bool | None,
    traits: Mapping[str, str],
    encode: Encode | None,
) -> tuple[Status, Finding | None]:
    """Whether the host read the prompt that we render.

    The ids that it sent back say so, else the bill after the provider's known prompt offset. Without either, or where
    the request is not whole, it is unverified. `encode` cuts text at the official seams; None renders nothing.
    """
    told = turn.reported.prompt_ids if turn.reported else None
    billed = turn.usage.prompt_tokens if turn.usage else None
    offset = traits.get("prompt_offset")
    if encode is None or (told is None and (billed is None or offset is None)):
        return "unverified", None
    ids = _rendered(request, fmt, thinking, traits, encode)
    if ids is None:
        return "unverified", None
    if told is not None:
        return _compared(list(told) == ids, f"{len(told)} prompt ids sent back, {len(ids)} rendered, or others")
    expected = len(ids) + int(offset or 0)
    return _compared(billed == expected, f"{billed} prompt tokens billed, {expected} expected of the render")


def _rendered(
    request: Mapping[str, Any], fmt: Format, thinking: bool | None, traits: Mapping[str, str], encode: Encode
) -> list[int] | None:
    messages, tools = request.get("messages"), request.get("tools") or None
    if not isinstance(messages, list) or not messages:
        return None
    if traits.get("default_system") == "none":
        fmt = replace(fmt, default_system=None)
    try:
        return render_ids(messages, tools, format=fmt, thinking=thinking, encode=encode)
    except (HarnessError, TypeError, AttributeError):
        return None  # a request that cannot be rendered (images, parts left out) proves nothing either way


def _compared(same: bool, text: str) -> tuple[Status, Finding | None]:
    return ("verified", None) if same else ("contradicted", Finding("prompt-mismatch", "request", text, fatal=False))


def same_provider(pin: str, answered: str) -> bool:
    """Whether a slug such as `siliconflow/int4` names the provider whose display name is `SiliconFlow`."""
    bare = pin.split("/", 1)[0]
    return _letters(bare) == _letters(answered)


@lru_cache(maxsize=1024)
def _letters(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
