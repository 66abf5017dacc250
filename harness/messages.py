"""What the messages of a chat request hold, read strictly: anything that is not known how to render is refused.

Knows nothing of ids, formats or providers.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from harness.errors import SetupError

Message = Mapping[str, Any]

ROLES = ("system", "user", "assistant", "tool")
_PREFIX = "send no beginning of an answer: hosts continue it in different ways"
REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "function_call": "send calls as tool_calls",
        "partial": _PREFIX,
        "prefix": _PREFIX,
        "audio": "only text can be rendered",
    }
)
"""Fields that change the prompt in a way that is not known, and what to do instead."""


def check_messages(messages: Sequence[Message]) -> None:
    """Refuse what no message may be or hold.

    Raises:
        SetupError: No messages, a message of no known role, or one with a field of REFUSED.
    """
    if not messages:
        raise SetupError("messages is empty, expected at least one message")
    for k, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in ROLES:
            raise SetupError(f"messages[{k}] is {str(message)[:80]!r}, expected an object with a role of {[*ROLES]}")
        for field, remedy in REFUSED.items():
            if message.get(field):
                raise SetupError(f"messages[{k}].{field} cannot be rendered; {remedy}")


def string(holder: Mapping[str, Any], key: str, where: str) -> str:
    """A string that the request must hold, never one made of something else."""
    value = holder.get(key)
    if not isinstance(value, str):
        raise SetupError(
            f"{where}.{key} is {str(value)[:80]!r}, expected the string exactly as it was sent or received"
        )
    return value


def content_text(message: Message, where: str) -> str:
    """The text of a message: null and [] are nothing, text parts are joined with nothing between them.

    Raises:
        SetupError: An image or another part that is no text.
    """
    content, where = message.get("content"), f"{where}.content"
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise SetupError(f"{where} is {str(content)[:80]!r}, expected text, null or a list of text parts")
    for i, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind != "text" or not isinstance(part.get("text"), str):
            raise SetupError(
                f"{where}[{i}] is a part of type {kind!r}, expected text: the ids of images and other media depend on "
                "the host's own processing; leave the part out, or the request"
            )
    return "".join(part["text"] for part in content)


def reasoning_text(message: Message, where: str) -> str:
    """The reasoning of an earlier turn; the same text under two fields is one text.

    Raises:
        SetupError: Fields that differ, or details that are no text (summaries, sealed parts).
    """
    texts = [text for field in ("reasoning", "reasoning_content") if (text := message.get(field))]
    details = message.get("reasoning_details") or []
    if not isinstance(details, list) or not all(isinstance(d, Mapping) and _is_text(d) for d in details):
        raise SetupError(
            f"{where}.reasoning_details holds more than text: summaries and sealed parts cannot be rendered"
        )
    if details:
        texts.append("".join(detail["text"] for detail in details))
    if any(not isinstance(text, str) or text != texts[0] for text in texts):
        raise SetupError(f"{where} has reasoning fields that differ, or one that is no string; keep the sampled one")
    return "".join(texts[:1])


def _is_text(detail: Mapping[str, Any]) -> bool:
    return detail.get("type", "reasoning.text") == "reasoning.text" and isinstance(detail.get("text"), str)


def tool_calls(message: Message, where: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The tool calls of a message, each with its place; the id and the arguments of each are strings.

    Raises:
        SetupError: No list, or a call without them.
    """
    calls, where = message.get("tool_calls") or [], f"{where}.tool_calls"
    if not isinstance(calls, list):
        raise SetupError(f"{where} is {str(calls)[:80]!r}, expected a list")
    for i, call in enumerate(calls):
        if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
            raise SetupError(f'{where}[{i}] is {str(call)[:80]!r}, expected {{"id": ..., "function": {{...}}}}')
        string(call, "id", f"{where}[{i}]")
        string(call["function"], "arguments", f"{where}[{i}].function")
    return [(f"{where}[{i}]", call) for i, call in enumerate(calls)]
