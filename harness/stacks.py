"""What every serving stack does to sampled ids: the values that go in and out, and the two ways to spell ids as text.

Pure. Knows nothing of HTTP, of JSON bodies or of providers; the stacks themselves are `stack_vllm`, `stack_sglang` and
`stack_plain`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from harness.types import ToolCall
from harness.vocab import CONTROL_IDS, CONTROL_NAMES, N_RANKS

TokenBytes = Callable[[int], bytes]
"""Bytes of one id; of a control id, the bytes of its name (`Vocab.token_bytes`)."""

THINK, THINK_END = "<think>", "</think>"
SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENTS, CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
TOOL_MARKERS = (SECTION, SECTION_END, CALL, ARGUMENTS, CALL_END)
TERMINATOR = CONTROL_IDS["<|im_end|>"]
_CLOSERS = frozenset({CONTROL_IDS[THINK_END], CONTROL_IDS[SECTION]})
_REPLACEMENT = "�"


@dataclass(frozen=True, slots=True)
class CallDelta:
    """A piece of a tool call in a stream; `id` and `name` come with the first piece of a call only."""

    index: int
    arguments: str = ""
    id: str | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a stream shows for some sampled ids; all texts are "" where nothing is shown."""

    reasoning: str = ""
    content: str = ""
    calls: tuple[CallDelta, ...] = ()
    ids: tuple[int, ...] = ()

    @property
    def shows(self) -> bool:
        """True where the step has something to show."""
        return bool(self.reasoning or self.content or self.calls)


@dataclass(frozen=True, slots=True)
class Sampled:
    """Sampled ids with all that a stack looks at to make an answer of them.

    Attributes:
        ids: Output ids, shape [T], the terminator included where it was sampled.
        cut: True where max_tokens ended the answer.
        tools: The `function` objects that the request declares.
        tool_choice: As sent; None where not sent.
        skip_special: The request's skip_special_tokens.
        history_calls: Tool calls in the messages of the request.
        nonce: What minted ids are made from.
    """

    ids: tuple[int, ...]
    thinking: bool = True
    cut: bool = False
    stream: bool = False
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: Any = None
    skip_special: bool = True
    separate_reasoning: bool = True
    include_reasoning: bool = True
    history_calls: int = 0
    nonce: str = ""

    @property
    def text_ids(self) -> tuple[int, ...]:
        """The ids without the terminator that ended them, which no stack shows."""
        return self.ids[:-1] if self.stopped else self.ids

    def pieces(self, token_bytes: TokenBytes) -> list[bytes]:
        """The bytes that each id adds to the text; none for the terminator."""
        return [token_bytes(i) for i in self.text_ids] + [b""] * self.stopped

    @property
    def stopped(self) -> bool:
        """True where the last id is the terminator."""
        return self.ids[-1:] == (TERMINATOR,)

    @property
    def wants_calls(self) -> bool:
        """True where the request lets the stack parse tool calls."""
        return bool(self.tools) and self.tool_choice != "none"

    def finish(self, called: bool) -> str:
        """The finish reason of an answer that stopped, or was cut, with or without tool calls."""
        return "length" if self.cut else "tool_calls" if called else "stop"

    def mint(self, index: int, length: int) -> str:
        """Hex digits for an id that the host makes up."""
        return sha256(f"{self.nonce}/{index}".encode()).hexdigest()[:length]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What a stack makes of sampled ids; `steps` is () for a whole body."""

    reasoning: str
    content: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    reasoning_tokens: int | None = None
    steps: tuple[Step, ...] = ()


Stack = Callable[[Sampled, TokenBytes], Spoken]


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)


def fold(steps: Iterable[Step]) -> tuple[str, str, tuple[ToolCall, ...]]:
    """Reasoning, content and calls of a stream, as a client puts them together."""
    reasoning, content, calls = [], [], dict[int, _Call]()
    for step in steps:
        reasoning.append(step.reasoning)
        content.append(step.content)
        for delta in step.calls:
            call = calls.setdefault(delta.index, _Call())
            call.id, call.name = delta.id or call.id, delta.name or call.name
            call.arguments.append(delta.arguments)
    made = (ToolCall(c.id, c.name, "".join(c.arguments)) for _, c in sorted(calls.items()))
    return "".join(reasoning), "".join(content), tuple(made)


def control_name(token_id: int) -> str:
    """The name of a control id, "" for any other id."""
    return CONTROL_NAMES[token_id - N_RANKS] if token_id >= N_RANKS else ""


def n_before_close(ids: Sequence[int]) -> tuple[int, bool]:
    """Ids in front of the first `</think>` or tool section, and whether it is `</think>`; all of them where none is."""
    at = next((k for k, i in enumerate(ids) if i in _CLOSERS), None)
    return (len(ids), False) if at is None else (at, ids[at] == CONTROL_IDS[THINK_END])


def spell_whole(pieces: Sequence[bytes]) -> list[str]:
    """The text that each token adds where nothing is shown before it is whole; what never gets whole is never shown.

    Shape [T] in, [T] out. Bytes that are no UTF-8 become U+FFFD once a token follows that ends well.
    """
    texts, held = [], b""
    for piece in pieces:
        held += piece
        text = held.decode("utf-8", "replace")
        whole = not text.endswith(_REPLACEMENT)
        texts.append(text if whole else "")
        held = b"" if whole else held
    return texts


def spell_words(pieces: Sequence[bytes]) -> list[str]:
    """The same where text in front of the last space is shown early, and all that is left is shown at the end."""
    texts, held, shown = [], b"", 0
    for k, piece in enumerate(pieces):
        held += piece
        text = held.decode("utf-8", "replace")
        whole = k == len(pieces) - 1 or not text.endswith(_REPLACEMENT)
        upto = len(text) if whole else max(shown, _printable(text))
        texts.append(text[shown:upto])
        held, shown = (b"", 0) if whole else (held, upto)
    return texts


def _printable(text: str) -> int:
    """Characters of an unfinished text that can be shown: before a cut one after a Han character, else whole words."""
    if len(text) > 1 and "一" <= text[-2] <= "鿿":
        return len(text) - 1
    return text.rfind(" ") + 1
