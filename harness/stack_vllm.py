"""vLLM 0.32.0 with the fast tokenizer and both kimi_k2 parsers: what it makes of sampled ids.

A stream finds markers by id; a whole body finds them in the text, so that marker text in ordinary tokens counts there.
Characters cut in two at the end are lost in both. Pure.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from harness.coercion import coerce_arguments
from harness.stacks import (
    Sampled,
    Spoken,
    Step,
    TokenBytes,
    control_name,
    fold,
    n_before_close,
    spell_whole,
)
from harness.types import ToolCall
from harness.vllm_machine import Lexer, Machine, Slot, literals


def speak(sampled: Sampled, token_bytes: TokenBytes) -> Spoken:
    """The answer that vLLM 0.32.0 gives for these ids."""
    return (_stream if sampled.stream else _whole)(sampled, token_bytes)


def _begin(sampled: Sampled) -> tuple[Machine, Lexer]:
    return Machine(sampled, "reasoning" if sampled.thinking else "content"), Lexer(literals(sampled.thinking))


def _whole(sampled: Sampled, token_bytes: TokenBytes) -> Spoken:
    machine, lexer = _begin(sampled)
    text = "".join(spell_whole(sampled.pieces(token_bytes)))
    for k, part in enumerate(lexer.feed(text)):
        (machine.marker if k % 2 else machine.text)(part)
    machine.text(lexer.flush())
    machine.finish()
    made = (_made(k, slot, sampled) for k, slot in enumerate(machine.slots))
    calls = tuple(call for call in made if call) if sampled.wants_calls else ()
    content = "".join(machine.content)
    n, _ = n_before_close(sampled.text_ids)
    return Spoken(
        "".join(machine.reasoning).rstrip() if sampled.include_reasoning else "",
        "" if machine.slots and not content.strip() else content,
        calls,
        # A call makes the reason even of a cut answer; a call that was asked for by name does not.
        "tool_calls" if calls and not isinstance(sampled.tool_choice, dict) else sampled.finish(called=False),
        n if sampled.thinking else 0,
    )


def _made(index: int, slot: Slot, sampled: Sampled) -> ToolCall | None:
    """The call of a whole body; None where it has no name: it vanishes."""
    name, arguments = slot.name.strip(), slot.arguments.strip()
    if not name and arguments:
        name, arguments = _name_and_arguments(arguments)
    if not name:
        return None
    call_id = slot.id or f"chatcmpl-tool-{sampled.mint(index, 16)}"
    return ToolCall(call_id, name, coerce_arguments(arguments or "{}", name, sampled.tools))


def _name_and_arguments(arguments: str) -> tuple[str, str]:
    """A call that names itself in its arguments."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return "", arguments
    name = parsed.get("name") if isinstance(parsed, dict) else None
    if not isinstance(name, str):
        return "", arguments
    rest = {k: v for k, v in parsed.items() if k != "name"}
    inner = next((parsed[k] for k in ("arguments", "parameters") if k in parsed), rest)
    return name, inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)


def _stream(sampled: Sampled, token_bytes: TokenBytes) -> Spoken:
    n_reasoning, steps = 0, []
    for thought, step in _steps(sampled, token_bytes):
        n_reasoning += thought
        steps.append(step)
    reasoning, content, calls = fold(steps)
    return Spoken(reasoning, content, calls, sampled.finish(bool(calls)), n_reasoning, tuple(steps))


def _steps(sampled: Sampled, token_bytes: TokenBytes) -> Iterator[tuple[bool, Step]]:
    """Each token's step, and whether the server counts it as reasoning: only where it showed text there."""
    machine, lexer = _begin(sampled)
    markers, keeper = frozenset(lexer.literals), _Keeper(sampled)
    texts = spell_whole(sampled.pieces(token_bytes))
    for k, (token_id, text) in enumerate(zip(sampled.ids, texts, strict=True), 1):
        name = control_name(token_id)
        if name in markers:
            machine.text("".join(lexer.feed(text.removesuffix(name))) + lexer.flush())
            machine.marker(name)
        else:
            machine.text("".join(lexer.feed(text)))
        if k == len(texts):
            machine.text(lexer.flush())
            machine.finish()
        yield bool(machine.reasoning), keeper.take(machine, token_id, done=k == len(texts))


@dataclass(slots=True)
class _Keeper:
    """White space that a stream keeps back until it knows what comes next."""

    sampled: Sampled
    reasoning: str = ""
    content: str = ""
    begun: bool = False

    def take(self, machine: Machine, token_id: int, done: bool) -> Step:
        """All that the machine has to show after this token."""
        step = Step(
            self._reasoning(machine) if self.sampled.include_reasoning else "",
            self._content(machine, done),
            tuple(machine.deltas) if self.sampled.wants_calls else (),
            (token_id,),
        )
        machine.reasoning.clear()
        machine.content.clear()
        machine.deltas.clear()
        return step

    def _reasoning(self, machine: Machine) -> str:
        # White space at the very end of the reasoning is never shown.
        if not machine.reasoning:
            return ""
        text = self.reasoning + "".join(machine.reasoning)
        shown = text.rstrip()
        self.reasoning = text[len(shown) :]
        return shown

    def _content(self, machine: Machine, done: bool) -> str:
        text = self.content + "".join(machine.content)
        self.content = ""
        self.begun = self.begun or bool(text.strip())
        if self.begun:
            return text
        if machine.slots:
            return ""
        self.content = "" if done else text
        return text if done else ""
