"""Messages and deltas -> the texts, calls and chunks that they add up to.

Knows nothing of bytes, errors or bills.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness import records
from harness.types import ToolCall

REASONING_FIELDS = ("reasoning", "reasoning_content", "reasoning_details")  # where texts differ, the first one is taken
SAMPLED_DETAIL = "reasoning.text"  # summaries, encrypted parts and unknown ones are not what was sampled
NO_FUNCTION = records.Function()


class Texts(NamedTuple):
    """What a message says, in the fields of Turn; a NamedTuple, because building one costs a third of a dataclass."""

    reasoning: str
    content: str
    tool_calls: tuple[ToolCall, ...]
    sealed: bool
    chunks: dict[str, tuple[str, ...]] | None = None
    order: tuple[str, ...] = ()
    interludes: tuple[str, ...] = ()


def whole_message(message: records.Message) -> Texts:
    """A message of a body."""
    content, odd_parts = content_text(message.content)
    details, odd_details = details_text(message.reasoning_details)
    fields = [text for text in (message.reasoning, message.reasoning_content, details) if text]
    entries = message.tool_calls or legacy_calls(message)
    calls, odd_calls = _whole_calls(entries) if entries else ((), False)
    return Texts(
        reasoning=fields[0] if fields else "",
        content=content,
        tool_calls=calls,
        sealed=odd_parts or odd_details or odd_calls or _differ(fields) or bool(message.refusal),
    )


def _differ(texts: list[str]) -> bool:
    return any(text != texts[0] for text in texts[1:])  # a set would hash every text: 1 us a KB


def _whole_calls(entries: list[records.Call]) -> tuple[tuple[ToolCall, ...], bool]:
    """Calls by index where all have one, else as listed; True where arguments were written by us or a name is lost."""
    if all(entry.index is not None for entry in entries):
        entries = sorted(entries, key=lambda entry: entry.index or 0)
    functions = [entry.function or NO_FUNCTION for entry in entries]
    arguments = [arguments_text(function.arguments) for function in functions]
    calls = (
        ToolCall(entry.id or "", function.name or "", text)
        for entry, function, (text, _) in zip(entries, functions, arguments, strict=True)
    )
    return tuple(calls), any(by_us for _, by_us in arguments) or not all(function.name for function in functions)


def content_text(content: str | list[records.Part] | None) -> tuple[str, bool]:
    """A string, or the joined text parts of a list; True where it has other parts, whose place in the text is lost."""
    if isinstance(content, str):
        return content, False
    parts = content or ()
    return "".join(p.text or "" for p in parts if p.type == "text"), any(p.type != "text" for p in parts)


def details_text(details: list[records.Part] | None) -> tuple[str, bool]:
    """The sampled text of reasoning_details; True where a part is a summary, is encrypted or is unknown."""
    if not details:
        return "", False
    text = "".join(d.text or "" for d in details if d.type == SAMPLED_DETAIL)
    return text, any(d.type != SAMPLED_DETAIL for d in details)


def arguments_text(arguments: Any) -> tuple[str, bool]:
    """Arguments byte for byte; what is no string is written compactly, and True says that nobody sampled that text."""
    if isinstance(arguments, str):
        return arguments, False
    return ("", False) if arguments is None else (records.compact(arguments), True)


def legacy_calls(message: records.Message) -> list[records.Call]:
    """`function_call`, of which there is one at most, as tool_calls."""
    return [] if message.function_call is None else [records.Call(index=0, function=message.function_call)]


@dataclass(slots=True)
class _Call:
    """A call under way; `index` is its place among the calls, `after` the content that came behind it."""

    index: int
    id: str = ""
    names: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


class Deltas:
    """The sum of a stream's deltas."""

    __slots__ = ("_calls", "_last", "_misplaced", "_order", "_pieces", "_sealed")

    def __init__(self) -> None:
        self._pieces: dict[str, list[str]] = {name: [] for name in (*REASONING_FIELDS, "content")}
        self._order: list[str] = []
        self._sealed = False
        self._misplaced = False  # a call went on after content had followed it: that content has no place to stand
        self._calls: list[_Call] = []
        self._last: _Call | None = None

    def add(self, delta: records.Message) -> bool:
        """Take one delta; True where it carried text or a call."""
        content, odd_parts = content_text(delta.content)
        details, odd_details = details_text(delta.reasoning_details)
        texts = (delta.reasoning, delta.reasoning_content, details)
        for name, text in zip(REASONING_FIELDS, texts, strict=True):
            if text:
                self._pieces[name].append(text)
                self._enter("reasoning")
        if content:
            self._pieces["content"].append(content)
            self._enter("content")
            if self._last is not None:
                self._last.after.append(content)
        entries = delta.tool_calls or legacy_calls(delta)
        for entry in entries:
            self._enter("call")
            self._add_call(entry)
        self._sealed |= odd_parts or odd_details or bool(delta.refusal)
        return bool(content or entries or any(texts))

    def total(self) -> Texts:
        """The sum."""
        calls = sorted(self._calls, key=lambda call: call.index)
        names = [_name(call.names) for call in calls]
        fields = [self._pieces[name] for name in REASONING_FIELDS if self._pieces[name]]
        differ = _differ(["".join(pieces) for pieces in fields])
        rows = {"reasoning": fields[0] if fields else [], "content": self._pieces["content"]}
        rows |= {f"call:{k}": call.arguments for k, call in enumerate(calls)}
        between = tuple("".join(call.after) for call in self._calls)
        misplaced = self._misplaced or (any(between) and calls != self._calls)
        return Texts(
            reasoning="".join(rows["reasoning"]),
            content="".join(rows["content"]),
            tool_calls=tuple(
                ToolCall(call.id, name, "".join(call.arguments)) for call, (name, _) in zip(calls, names, strict=True)
            ),
            chunks={channel: tuple(texts) for channel, texts in rows.items() if texts},
            order=tuple(self._order),
            interludes=between if any(between) and not misplaced else (),
            sealed=self._sealed or differ or misplaced or any(unsure for _, unsure in names),
        )

    def _enter(self, channel: str) -> None:
        if not self._order or self._order[-1] != channel:
            self._order.append(channel)

    def _add_call(self, entry: records.Call) -> None:
        function = entry.function or NO_FUNCTION
        arguments, by_us = arguments_text(function.arguments)
        call = self._last = self._find(entry, function)
        place = next(k for k, known in enumerate(self._calls) if known is call)
        self._misplaced |= any(later.after for later in self._calls[place:])
        call.id = call.id or entry.id or ""
        if function.name:
            call.names.append(function.name)
        if arguments:
            call.arguments.append(arguments)
        self._sealed |= by_us

    def _find(self, entry: records.Call, function: records.Function) -> _Call:
        """The call that an entry goes on with, or a new one.

        An id that differs from the one at that index begins a call of its own: hosts have been seen to send index 0 for
        all. Without index and id a name begins one, where the last call has arguments already.
        """
        if entry.id:
            found = [c for c in self._calls if c.id == entry.id and entry.index in (None, c.index)]
            found = found or [c for c in self._calls if not c.id and c.index == entry.index]
        elif entry.index is not None:
            found = [c for c in self._calls if c.index == entry.index]
        else:
            found = [] if function.name and self._last and self._last.arguments else self._calls
            found = [c for c in found if c is self._last]
        if found:
            return found[-1]
        index = max((c.index for c in self._calls), default=-1) + 1 if entry.index is None else entry.index
        self._calls.append(_Call(index))
        return self._calls[-1]


def _name(names: list[str]) -> tuple[str, bool]:
    """A name repeated whole is one name, pieces are joined; True where it could be either or where none came."""
    if len(set(names)) <= 1:
        return ("", True) if not names else (names[0], False)
    joined, unsure = names[0], False
    for name in names[1:]:
        unsure |= name.startswith(joined)
        joined += name
    return joined, unsure
