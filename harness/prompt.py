"""Messages and tools -> the ids of the prompt that the model reads, with what speaks against paying for it.

Each stretch of text is encoded by itself and control ids are put in by id, so no text can become a control id. The
K2.5 form is held against whole reference prompts; the K2 and K2-Thinking forms are checked by real prompt bills only.
Where hosts disagree (marker text, foreign call ids, ...) one way is rendered, and a finding keeps the prompt out of
paid runs.

Knows nothing of providers, tokenizers or files.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from harness.declare import declaration
from harness.errors import ProviderError, SetupError
from harness.formats import Format
from harness.messages import Message, check_messages, content_text, reasoning_text, string, tool_calls
from harness.types import Encode, Finding
from harness.vocab import CONTROL_IDS

OPENERS: Mapping[str, str] = MappingProxyType(
    {"system": "<|im_system|>", "user": "<|im_user|>", "assistant": "<|im_assistant|>", "tool": "<|im_system|>"}
)
"""The control token that opens a message of each role."""

SHORT_CHARS = 80
"""Of a stretch of text whose ids are kept: the words of the template, and what answers of tools begin with."""
_MARKER_STARTS = tuple({name[0] for name in CONTROL_IDS})

_Piece = int | tuple[str, str]
"""A control id, or (where, text)."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads before its first token.

    Attributes:
        ids: Prompt ids [P].
        findings: Why a host may read other ids: `prompt-marker-text`, `foreign-tool-id`, `reasoning-thinking-off`,
            `assistant-last`; `where` is the message or tool and the field. Never fatal: they say nothing of an answer.
    """

    ids: list[int]
    findings: tuple[Finding, ...] = ()

    @property
    def payable(self) -> bool:
        """Whether the prompt may be sent in a paid run: nothing speaks against it."""
        return not self.findings


def render(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    format: Format,
    thinking: bool | None,
    encode: Encode,
) -> Prompt:
    """The prompt of a chat request.

    Args:
        messages: As in the request; earlier reasoning as `reasoning`, `reasoning_content` or `reasoning_details`.
        tools: As in the request; None or [] declares nothing.
        format: The model family's format. For a host that adds no default system message, give it with
            `default_system=None`.
        thinking: The request's switch. Must be said where the format has both modes: a wrong guess moves every id of
            the answer. None means the only mode where there is one.
        encode: Ordinary text -> ids, cut at the official seams (`encoder.encode_prompt_text`).

    Raises:
        SetupError: A message, part or field that is not known how to render; says where, and what to do.
    """
    ids = render_ids(messages, tools, format=format, thinking=thinking, encode=encode)
    findings = (
        *_marker_findings(messages, tools or ()),
        *_id_findings(messages, format),
        *_mode_findings(messages, _loop_start(messages), _mode(format, thinking), format),
    )
    return Prompt(ids, findings)


def render_ids(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]] | None,
    *,
    format: Format,
    thinking: bool | None,
    encode: Encode,
) -> list[int]:
    """The ids of `render`, shape [P], where nobody asks what speaks against them."""
    mode = _mode(format, thinking)
    check_messages(messages)
    loop = _loop_start(messages)
    pieces: list[_Piece] = []
    if tools:
        pieces += _block("system", ("tools", "tool_declare"), [("tools", declaration(tools, format.tool_declaration))])
    if format.default_system is not None and messages[0]["role"] != "system":
        pieces += _block("system", ("default_system", "system"), [("default_system", format.default_system)])
    for k, message in enumerate(messages):
        pieces += _message(f"messages[{k}]", message, format, keeps_reasoning=k >= loop)
    pieces += [CONTROL_IDS.get(part, ("prompt_end", part)) for part in format.prompt_end[mode]]
    return _encode(pieces, encode)


def _mode(format: Format, thinking: bool | None) -> bool:
    """The thinking mode, said or the only one."""
    modes = format.thinking_modes
    if thinking is None and len(modes) == 1:
        return modes[0]
    if thinking not in modes:
        raise SetupError(
            f"thinking is {thinking} for format {format.name}, expected one of {[*modes]}; the prompt's last ids "
            "depend on it: take it from the request"
        )
    return bool(thinking)


def _loop_start(messages: Sequence[Message]) -> int:
    """Where the running tool loop begins: after the last assistant turn without tool calls."""
    ended = [k for k, m in enumerate(messages) if m["role"] == "assistant" and not m.get("tool_calls")]
    return ended[-1] + 1 if ended else 0


def _block(role: str, word: tuple[str, str], body: Sequence[_Piece]) -> list[_Piece]:
    """One message: its opener, WORD, `<|im_middle|>`, BODY, `<|im_end|>`."""
    return [CONTROL_IDS[OPENERS[role]], word, CONTROL_IDS["<|im_middle|>"], *body, CONTROL_IDS["<|im_end|>"]]


def _message(where: str, message: Message, format: Format, *, keeps_reasoning: bool) -> list[_Piece]:
    role, text = message["role"], content_text(message, where)
    if role == "tool":
        text = f"## Return of {string(message, 'tool_call_id', where)}\n{text}"
    body: list[_Piece] = [(f"{where}.content", text)]
    if role == "assistant":
        body += _section(where, message, format)
        if format.history_think:
            kept = reasoning_text(message, where) if keeps_reasoning else ""
            body = [format.think_open, (f"{where}.reasoning", kept), format.think_close, *body]
    word = string(message, "name", where) if message.get("name") else role
    return _block(role, (f"{where}.name", word), body)


def _section(where: str, message: Message, format: Format) -> Iterator[_Piece]:
    """The tool section of an earlier turn: a call is written by its id, the name beside it is not rendered."""
    calls = tool_calls(message, where)
    if calls:
        yield format.section_begin
    for place, call in calls:
        yield from (format.call_begin, (f"{place}.id", call["id"]), format.argument_begin)
        yield from ((f"{place}.function.arguments", call["function"]["arguments"]), format.call_end)
    if calls:
        yield format.section_end


def _encode(pieces: Sequence[_Piece], encode: Encode) -> list[int]:
    """Ids of all pieces, each text by itself."""
    ids: list[int] = []
    for piece in pieces:
        if isinstance(piece, int):
            ids.append(piece)
            continue
        where, text = piece
        try:
            ids += encode(text) if len(text) > SHORT_CHARS else _short(text, encode)
        except ProviderError as error:  # what an encoder raises for text of an answer; here the text is ours
            raise SetupError(f"{where} cannot be encoded: {error}") from None
    return ids


@lru_cache(maxsize=256)  # what comes again is used again before it would have to go
def _short(text: str, encode: Encode) -> tuple[int, ...]:
    """Ids of a text that stands in many prompts, such as a role's name."""
    return tuple(encode(text))


def _marker_findings(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Names of control tokens in any text of the request, rendered or not: some hosts make control ids of them."""
    parted = ((k, m) for k, m in enumerate(messages) if not isinstance(m.get("content"), str))
    joined = ((f"messages[{k}].content", content_text(m, f"messages[{k}]")) for k, m in parted)
    seen = set()
    for where, text in (*_strings("messages", messages), *_strings("tools", tools), *joined):
        found = [name for name in CONTROL_IDS if name in text] if any(c in text for c in _MARKER_STARTS) else []
        for name in found:
            if (where, name) not in seen:
                seen.add((where, name))
                said = f"holds {name}, rendered as plain text; some hosts make a control id of it"
                yield _finding("prompt-marker-text", where, said)


def _strings(where: str, value: Any) -> Iterator[tuple[str, str]]:
    """Every string of a JSON value with its place, keys included, in order; a stack, so that no depth is too much."""
    stack = [(where, value)]
    while stack:
        place, item = stack.pop()
        if isinstance(item, str):
            yield place, item
        elif isinstance(item, Mapping):
            inner = [pair for key, x in item.items() for pair in ((place, str(key)), (f"{place}.{key}", x))]
            stack += reversed(inner)
        elif isinstance(item, Sequence):
            stack += reversed([(f"{place}[{i}]", x) for i, x in enumerate(item)])


def _id_findings(messages: Sequence[Message], format: Format) -> Iterator[Finding]:
    """Call ids that the model would not write: some hosts rewrite them, and after them it tends to end its turn."""
    for k, message in enumerate(messages):
        ids = []
        if message["role"] == "assistant":
            calls = tool_calls(message, f"messages[{k}]")
            ids = [(f"{place}.id", c["id"], re.escape(str(c["function"].get("name")))) for place, c in calls]
        elif message["role"] == "tool":
            ids = [(f"messages[{k}].tool_call_id", message["tool_call_id"], ".+")]
        for where, call_id, name in ids:
            if not re.fullmatch(f"{re.escape(format.id_prefix)}{name}:[0-9]+", call_id, re.DOTALL):
                text = f"{call_id[:80]!r} is not {format.id_prefix}NAME:IDX of its call, as the model writes it"
                yield _finding("foreign-tool-id", where, text)


def _mode_findings(messages: Sequence[Message], loop: int, mode: bool, format: Format) -> Iterator[Finding]:
    """What hosts render in two ways: reasoning of the running loop with thinking off, an answer at the end."""
    for k, message in enumerate(messages):
        disputed = not mode and format.history_think and k >= loop and message["role"] == "assistant"
        if disputed and reasoning_text(message, f"messages[{k}]"):
            text = "kept although thinking is off, as one public renderer does; others empty it"
            yield _finding("reasoning-thinking-off", f"messages[{k}].reasoning", text)
    if messages[-1]["role"] == "assistant":
        text = "the prompt opens a new turn after it; some hosts continue it instead"
        yield _finding("assistant-last", f"messages[{len(messages) - 1}]", text)


def _finding(code: str, where: str, text: str) -> Finding:
    return Finding(code, where, text, fatal=False)
