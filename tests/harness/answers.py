"""Small answers for the tests of response.py and its neighbours: each builder takes only what a test is about."""

import json
from collections.abc import Iterable
from typing import Any


def body(message: dict[str, Any] | None = None, *, choice: dict[str, Any] | None = None, **top: Any) -> dict[str, Any]:
    """A body of one choice; `choice` and `top` add members there."""
    row = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "4"} | (message or {})}
    return {"id": "gen-1", "object": "chat.completion", "choices": [row | (choice or {})]} | top


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **choice: Any) -> dict[str, Any]:
    """A stream event of one delta."""
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish} | choice]}


def piece(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    """A delta that holds one entry of tool_calls, of which None members are left out."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return {"tool_calls": [entry | {"type": "function", "function": function}]}


def encoded(value: Any) -> bytes:
    """A value as JSON text."""
    return json.dumps(value, ensure_ascii=False).encode()


def framed(events: Iterable[Any], *, end: bytes = b"data: [DONE]\n\n") -> bytes:
    """Events as SSE."""
    return b"".join(b"data: " + encoded(event) + b"\n\n" for event in events) + end
