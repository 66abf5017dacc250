"""A stack that reads ids and drops nothing but the markers and the text between calls: the mildest that there can be.

Providers' stacks are not public, and what they do with odd outputs is not known; their presets stand on this one. Pure.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.stacks import (
    ARGUMENTS,
    CALL,
    CALL_END,
    SECTION,
    SECTION_END,
    THINK,
    THINK_END,
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

_NEXT = {
    ("start", THINK): "reasoning",
    ("start", THINK_END): "content",
    ("reasoning", THINK_END): "content",
}
_NEXT_WITH_TOOLS = {
    **_NEXT,
    ("start", SECTION): "section",
    ("reasoning", SECTION): "section",
    ("content", SECTION): "section",
    ("section", CALL): "header",
    ("section", SECTION): "section",
    ("section", SECTION_END): "section",
    ("header", ARGUMENTS): "arguments",
    ("arguments", CALL_END): "section",
    ("arguments", SECTION_END): "section",
}


@dataclass(slots=True)
class _Reader:
    """Where the reading of one answer stands."""

    sampled: Sampled
    state: str
    index: int = -1
    header: list[str] = field(default_factory=list)

    def read(self, token_id: int, text: str) -> Step:
        table = _NEXT_WITH_TOOLS if self.sampled.wants_calls else _NEXT
        name = control_name(token_id)
        after = table.get((self.state, name)) if name else None
        if after is None:
            self.state = "reasoning" if self.state == "start" else self.state
            return self._show(text, token_id)
        # Characters that were held back come in front of the marker's own name.
        step = self._show(text.removesuffix(name), token_id)
        self.state, before = after, self.state
        return self._open(step) if (before, after) == ("header", "arguments") else step

    def _show(self, text: str, token_id: int) -> Step:
        ids = (token_id,)
        if self.state == "header":
            self.header.append(text)
        shown = {
            "reasoning": lambda: Step(reasoning=text, ids=ids),
            "content": lambda: Step(content=text, ids=ids),
            "arguments": lambda: Step(calls=(CallDelta(self.index, text),) if text else (), ids=ids),
        }
        return shown.get(self.state, lambda: Step(ids=ids))()

    def _open(self, step: Step) -> Step:
        self.index += 1
        header = "".join(self.header).strip()
        self.header.clear()
        name = header.removeprefix("functions.").rpartition(":")[0] or header
        return Step(calls=(CallDelta(self.index, "", header, name),), ids=step.ids)


def speak(sampled: Sampled, token_bytes: TokenBytes) -> Spoken:
    """The answer of a provider that shows what was sampled."""
    steps = tuple(_steps(sampled, token_bytes))
    reasoning, content, calls = fold(steps)
    n, _ = n_before_close(sampled.text_ids)
    return Spoken(reasoning, content, calls, sampled.finish(bool(calls)), n if sampled.thinking else 0, steps)


def _steps(sampled: Sampled, token_bytes: TokenBytes) -> Iterator[Step]:
    reader = _Reader(sampled, "start" if sampled.thinking else "content")
    for token_id, text in zip(sampled.ids, spell_words(sampled.pieces(token_bytes)), strict=True):
        yield reader.read(token_id, text)
