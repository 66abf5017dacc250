"""A chat request as the emulator reads it: what is wrong with it, and which prompt it asks. Pure."""

from collections.abc import Mapping
from typing import Any

_KINDS: Mapping[str, tuple[type, ...]] = {
    "messages": (list,),
    "tools": (list, type(None)),
    "provider": (dict, type(None)),
    "max_tokens": (int, type(None)),
    "max_completion_tokens": (int, type(None)),
}


def wrong(request: Any) -> str:
    """What is wrong with a request, "" for nothing."""
    if not isinstance(request, dict):
        return f"the request must be an object, got {type(request).__name__}"
    for name, kinds in _KINDS.items():
        if not isinstance(request.get(name), kinds):
            return f"`{name}` must be {kinds[0].__name__}, got {type(request.get(name)).__name__}"
    lists_of = [item for name in ("messages", "tools") for item in request.get(name) or ()]
    return "" if all(isinstance(item, dict) for item in lists_of) else "`messages` and `tools` must hold objects"


def prompt_text(request: Mapping[str, Any]) -> str:
    """The text of the last user message, "" where there is none."""
    users = [m for m in request.get("messages") or () if isinstance(m, dict) and m.get("role") == "user"]
    content = users[-1].get("content") if users else ""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
