"""SGLang 0.5.23 with the flags that Kimi ships and both kimi_k2 parsers: what it makes of sampled ids.

All markers are found in the text, in streams too. Where a comment says "not recorded" the rule is what the public code
of neighbouring versions does. Pure.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.stacks import (
    ARGUMENTS,
    CALL,
    CALL_END,
    SECTION,
    SECTION_END,
    THINK,
    THINK_END,
    TOOL_MARKERS,
    CallDelta,
    Sampled,
    Spoken,
    Step,
    TokenBytes,
    control_name,
    fold,
    n_before_close,
    spell_words,
)
from harness.types import ToolCall

# The control tokens that Kimi flags as special: skip_special_tokens drops these and no others.
SPECIAL = frozenset(
    {"[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|start_header_id|>", "<|end_header_id|>"}
    | {"[EOT]", "<|im_system|>", "<|im_middle|>", "[UNK]", "[PAD]"}
)
_CALL = re.compile(
    rf"{re.escape(CALL)}\s*([^\s<|]+)\s*{re.escape(ARGUMENTS)}\s*(\{{.*?\}})\s*{re.escape(CALL_END)}", re.DOTALL
)
_CALL_ID = re.compile(r"(?:functions\.)?([\w.\-]+):\d+")
_ANY_MARKER = re.compile("|".join(map(re.escape, TOOL_MARKERS)))
_HELD = (THINK, THINK_END, SECTION)


def speak(sampled: Sampled, token_bytes: TokenBytes) -> Spoken:
    """The answer that SGLang 0.5.23 gives for these ids."""
    # Tool calls need their markers, so tools in the request keep every control token in the text.
    skip = sampled.skip_special and not sampled.wants_calls
    pieces = sampled.pieces(token_bytes)
    if skip:
        pieces = [b"" if control_name(i) in SPECIAL else p for i, p in zip(sampled.ids, pieces, strict=True)]
    return (_stream if sampled.stream else _whole)(sampled, spell_words(pieces))


def _n_reasoning(sampled: Sampled) -> int | None:
    if not sampled.thinking:
        return None
    n, closed = n_before_close(sampled.ids)
    return n + closed


def _whole(sampled: Sampled, texts: Sequence[str]) -> Spoken:
    reasoning, content = "", "".join(texts)
    if sampled.separate_reasoning:
        reasoning, content = _split_reasoning(content, sampled.thinking)
    calls: tuple[ToolCall, ...] = ()
    if sampled.wants_calls and SECTION in content:
        calls = _parse_calls(content, sampled)
        content = content[: content.index(SECTION)]
    return Spoken(reasoning, content, calls, sampled.finish(bool(calls)), _n_reasoning(sampled))


def _split_reasoning(text: str, thinking: bool) -> tuple[str, str]:
    if not thinking and THINK not in text:
        return "", text
    while text.startswith(THINK):
        text = text[len(THINK) :]
    reasoning, closed, content = text.partition(THINK_END)
    if closed:
        return reasoning, content
    at = text.find(SECTION)
    return (text, "") if at < 0 else (text[:at], text[at:])


def _parse_calls(text: str, sampled: Sampled) -> tuple[ToolCall, ...]:
    """Calls that are whole and whose arguments look like an object; all others vanish."""
    named = ((_name(header, arguments, sampled.tools), arguments) for header, arguments in _CALL.findall(text))
    kept = [(name, arguments) for name, arguments in named if name]
    return tuple(ToolCall(_call_id(name, k, sampled), name, arguments) for k, (name, arguments) in enumerate(kept))


def _call_id(name: str, index: int, sampled: Sampled) -> str:
    """Never the model's own: the place of the call in the conversation (recorded without a history)."""
    return f"functions.{name}:{sampled.history_calls + index}"


def _name(header: str, arguments: str, tools: Sequence[Mapping[str, Any]]) -> str:
    found = _CALL_ID.fullmatch(header)
    if found:
        return found.group(1)
    return _guess_name(arguments, tools) if header.isdecimal() else ""


def _guess_name(arguments: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """The tool whose parameters fit best, for a call that has a bare counter for an id."""
    if len(tools) == 1:
        return str(tools[0].get("name") or "")
    try:
        keys = set(json.loads(arguments))
    except (ValueError, RecursionError, TypeError):
        return ""
    declared = {str(t.get("name")): set((t.get("parameters") or {}).get("properties") or ()) for t in tools}
    scores = {name: len(keys & own) - len(keys - own) for name, own in declared.items() if own}
    best = max(scores, key=lambda name: scores[name], default="")
    return best if scores.get(best, -1) >= 0 else ""


def _stream(sampled: Sampled, texts: Sequence[str]) -> Spoken:
    steps = tuple(_steps(sampled, texts))
    reasoning, content, calls = fold(steps)
    return Spoken(reasoning, content, calls, sampled.finish(bool(calls)), _n_reasoning(sampled), steps)


def _steps(sampled: Sampled, texts: Sequence[str]) -> Iterator[Step]:
    thought = _Thought(sampled.thinking)
    calls = _Calls(sampled)
    for token_id, text in zip(sampled.ids, texts, strict=True):
        reasoning, rest = thought.feed(text) if sampled.separate_reasoning else ("", text)
        content, deltas = calls.feed(rest) if sampled.wants_calls else (rest, ())
        yield Step(reasoning, content, deltas, (token_id,))


@dataclass(slots=True)
class _Thought:
    """Tells reasoning from the rest; holds a text that may begin a marker, also in content."""

    inside: bool
    opened: bool = False
    held: str = ""

    def feed(self, text: str) -> tuple[str, str]:
        text = self.held + text
        self.held = ""
        if any(marker.startswith(text) and marker != text for marker in _HELD):
            self.held = text
            return "", ""
        if not self.opened and THINK in text:
            text = text.replace(THINK, "", 1)
            self.opened = self.inside = True
        if not self.inside:
            return "", text
        reasoning, closed, rest = text.partition(THINK_END)
        if not closed and SECTION in text:
            at = text.index(SECTION)
            reasoning, closed, rest = text[:at], SECTION, text[at:]
        self.inside = not closed
        return reasoning, rest


@dataclass(slots=True)
class _Calls:
    """Tells calls from content, with or without a section; sends arguments as they come, white space and all."""

    sampled: Sampled
    state: str = "content"
    buffer: str = ""
    index: int = -1

    def feed(self, text: str) -> tuple[str, tuple[CallDelta, ...]]:
        content: list[str] = []
        deltas: list[CallDelta] = []
        self.buffer += text
        # Each state eats what it can and says whether the next one may go on.
        while self.buffer and _EATERS[self.state](self, content, deltas):
            pass
        return "".join(content), tuple(deltas)

    def _content(self, content: list[str], _: list[CallDelta]) -> bool:
        before, found, self.buffer = self.buffer.partition(CALL)
        content.append(_ANY_MARKER.sub("", before))
        self.state = "header" if found else "content"
        return bool(found)

    def _header(self, _: list[str], deltas: list[CallDelta]) -> bool:
        header, found, rest = self.buffer.partition(ARGUMENTS)
        if not found:
            return False
        header, self.buffer = header.strip(), rest
        name = _CALL_ID.fullmatch(header)
        self.state = "arguments" if name else "counter" if header.isdecimal() else "lost"
        if name:
            self._open(name.group(1), "", deltas)
        return True

    def _arguments(self, _: list[str], deltas: list[CallDelta]) -> bool:
        arguments, ended = self._until_end()
        if arguments:
            deltas.append(CallDelta(self.index, arguments))
        return ended

    def _counter(self, _: list[str], deltas: list[CallDelta]) -> bool:
        if CALL_END not in self.buffer:
            return False
        arguments, _ended = self._until_end()
        name = _guess_name(arguments, self.sampled.tools)
        if name:
            self._open(name, arguments, deltas)
        return True

    def _lost(self, _: list[str], __: list[CallDelta]) -> bool:
        return self._until_end()[1]  # not recorded

    def _until_end(self) -> tuple[str, bool]:
        ends = [at for marker in (CALL_END, SECTION_END) if (at := self.buffer.find(marker)) >= 0]
        if not ends:
            text, self.buffer = self.buffer, ""
            return text, False
        text, self.buffer = self.buffer[: min(ends)], self.buffer[min(ends) :]
        self.state = "content"
        return text, True

    def _open(self, name: str, arguments: str, deltas: list[CallDelta]) -> None:
        self.index += 1
        deltas.append(CallDelta(self.index, arguments, _call_id(name, self.index, self.sampled), name))


_EATERS = {
    "content": _Calls._content,
    "header": _Calls._header,
    "arguments": _Calls._arguments,
    "counter": _Calls._counter,
    "lost": _Calls._lost,
}
