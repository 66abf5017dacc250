"""The parser of vLLM 0.32.0 for Kimi's markers: text and markers go in one by one, channels come out.

Where a comment says "not recorded" the rule follows from how the recorded parts work. Pure. Knows nothing of tokens.
"""

import re
from dataclasses import dataclass, field

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
)

# (state, marker) -> (state, what happens to the call at hand). A marker without a line is text of the state it is in.
TRANSITIONS = {
    ("reasoning", THINK): ("reasoning", ""),  # not recorded
    ("reasoning", THINK_END): ("content", ""),
    ("content", THINK_END): ("content", ""),
    ("reasoning", SECTION): ("section", ""),
    ("content", SECTION): ("section", ""),
    ("section", CALL): ("header", "begin"),
    ("header", ARGUMENTS): ("arguments", ""),
    ("arguments", CALL_END): ("between", "end"),
    ("arguments", SECTION_END): ("section", "end"),  # not recorded
    ("between", CALL): ("header", "begin"),
    # The section never ends: what follows it is lost, and a second section joins the first.
    ("section", SECTION_END): ("section", ""),
    ("between", SECTION_END): ("section", ""),
}
TOOL_STATES = frozenset({"section", "header", "arguments", "between"})
# Tokens that the tokenizer names as its own: deleted wherever they count as markers. Only <|im_end|> is recorded.
DELETED = ("[BOS]", "<|im_end|>", "[UNK]", "[PAD]")
_CALL_ID = re.compile(r".+:\d+")
_NAME_IN_ARGUMENTS = re.compile(r'"name"\s*:\s*"([^"]*)"')


def literals(thinking: bool) -> tuple[str, ...]:
    """The texts that count as markers."""
    return (*((THINK, THINK_END) if thinking else ()), *TOOL_MARKERS, *DELETED)


@dataclass(slots=True)
class Lexer:
    """Cuts text at marker literals, and holds back an end that may become one."""

    literals: tuple[str, ...]
    held: str = ""
    _cut: re.Pattern[str] = field(init=False)
    _starts: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._cut = re.compile("(" + "|".join(map(re.escape, self.literals)) + ")")
        self._starts = frozenset(lit[:k] for lit in self.literals for k in range(1, len(lit)))

    def feed(self, text: str) -> list[str]:
        """Texts and markers in turn, beginning with a text."""
        if not self.held and "<" not in text and "[" not in text:
            return [text]
        parts = self._cut.split(self.held + text)
        tail = parts[-1]
        longest = range(max(0, len(tail) - max(map(len, self.literals))), len(tail))
        at = next((k for k in longest if tail[k:] in self._starts), len(tail))
        parts[-1], self.held = tail[:at], tail[at:]
        return parts

    def flush(self) -> str:
        """What was held, which can become no marker any more."""
        text, self.held = self.held, ""
        return text


@dataclass(slots=True)
class Slot:
    """One call as it grows."""

    id: str = ""
    name: str = ""
    arguments: str = ""
    sent: bool = False


@dataclass(slots=True)
class Machine:
    """The state machine; who reads a stream empties `reasoning`, `content` and `deltas` after every token."""

    sampled: Sampled
    state: str
    slots: list[Slot] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    deltas: list[CallDelta] = field(default_factory=list)
    _held: str = ""
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False

    @property
    def _suppressed(self) -> bool:
        # With tool_choice none calls are not even begun; without tools they are, and the server loses them later.
        return bool(self.sampled.tools) and not self.sampled.wants_calls

    def text(self, text: str) -> None:
        """Text in the state at hand; between calls and after them it is lost."""
        if not text:
            return
        if self.state == "reasoning":
            self.reasoning.append(text)
        elif self.state == "content":
            self.content.append(text)
        elif self.state == "header" and not self._suppressed:
            self.slots[-1].name += text
        elif self.state == "arguments":
            self._argument(self._release(text))

    def marker(self, name: str) -> None:
        """A marker: a step of the machine, or text of its state."""
        found = TRANSITIONS.get((self.state, name))
        if found is None:
            if name not in DELETED:
                self.text(name)
            return
        if self.state == "arguments":
            self._flush()
        self.state, event = found
        self._depth, self._in_string, self._escaped = 0, False, False
        if event == "begin" and not self._suppressed:
            self.slots.append(Slot())
        elif event == "end":
            self._end()

    def finish(self) -> None:
        """No more ids: what was held is shown, an open call ends."""
        self._flush()
        if self.state in TOOL_STATES:
            self._end()

    def _flush(self) -> None:
        text, self._held = self._held, ""
        self._argument(text)

    def _release(self, text: str) -> str:
        # Brackets at the end that close the outermost level are held: the model may go on.
        buffer = self._held + text
        open_ends = [k for k, char in enumerate(text, len(self._held) + 1) if not self._closes(char)]
        safe = open_ends[-1] if open_ends else 0
        self._held = buffer[safe:]
        return buffer[:safe]

    def _closes(self, char: str) -> bool:
        if self._in_string:
            escaped, self._escaped = self._escaped, not self._escaped and char == "\\"
            self._in_string = escaped or char != '"'
            return False
        if char in "}]":
            self._depth = max(0, self._depth - 1)
            return self._depth == 0
        self._depth += char in "{["
        self._in_string = char == '"'
        return False

    def _argument(self, text: str) -> None:
        if self._suppressed or not text:
            return
        slot = self.slots[-1]
        slot.arguments += text
        if slot.sent:
            self.deltas.append(CallDelta(len(self.slots) - 1, text))
            return
        # A header without an index is forgotten at the first argument.
        slot.id, slot.name = _identify(slot.name or _name_in(slot.arguments))
        if slot.name:
            self._send(text)

    def _end(self) -> None:
        if self._suppressed or not self.slots or self.slots[-1].sent:
            return
        slot = self.slots[-1]
        call_id, name = _identify(slot.name)
        slot.id, slot.name = (call_id, name) if name else ("", slot.name or _name_in(slot.arguments))
        if slot.name:
            self._send("")

    def _send(self, arguments: str) -> None:
        index, slot = len(self.slots) - 1, self.slots[-1]
        slot.sent = True
        slot.id = slot.id or f"chatcmpl-tool-{self.sampled.mint(index, 16)}"
        self.deltas.append(CallDelta(index, arguments, slot.id, slot.name))


def _identify(header: str) -> tuple[str, str]:
    """The id and the name in a call's header; both "" where it has no index."""
    found = _CALL_ID.match(header.strip())
    if not found:
        return "", ""
    call_id = found.group().strip()
    return call_id, call_id.split(":")[0].removeprefix("functions.")


def _name_in(arguments: str) -> str:
    found = _NAME_IN_ARGUMENTS.search(arguments)
    return found.group(1) if found else ""
