"""Ids -> answer, as the provider or serving stack of a preset would give it: each trait is a key of a table here.

Pure. Knows nothing of HTTP or JSON bodies (`wire`). What stacks do to ids is in `stack_*`; the presets themselves are
in `preset_table`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from harness import stack_plain, stack_sglang, stack_vllm
from harness.preset_table import LEFT_OUT, PRESETS, Preset, find_preset
from harness.stacks import (
    SECTION_END,
    TERMINATOR,
    CallDelta,
    Sampled,
    Spoken,
    Stack,
    Step,
    TokenBytes,
    fold,
)
from harness.types import ToolCall, Usage
from harness.vocab import CONTROL_IDS

__all__ = ["LEFT_OUT", "PRESETS", "Answer", "Preset", "answer", "dumped", "find_preset", "merged"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a provider says of one sampled sequence; `steps` is () unless the request streams.

    Attributes:
        ids: The ids that the model sampled before the provider or max_tokens ended it: the truth, shape [T].
        prompt_ids: Ids of the prompt, () where not known.
    """

    ids: tuple[int, ...]
    reasoning: str
    content: str
    calls: tuple[ToolCall, ...]
    finish_reason: str
    usage: Usage
    steps: tuple[Step, ...] = ()
    prompt_ids: tuple[int, ...] = ()


STACKS: Mapping[str, Stack] = MappingProxyType(
    {"vllm": stack_vllm.speak, "sglang": stack_sglang.speak, "plain": stack_plain.speak}
)


def _short(call: ToolCall, _: str) -> str:
    return call.id.removeprefix("functions.")


# What stands in the place of a call's id: (call, hex digits) -> id.
CALL_IDS: Mapping[str, Callable[[ToolCall, str], str]] = MappingProxyType(
    {"native": lambda call, _: call.id, "short": _short, "minted": lambda _, digits: f"call_{digits}"}
)


def dumped(text: str, **how: Any) -> str:
    """Arguments parsed and written anew; what is no JSON stays."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, **how)
    except (ValueError, RecursionError):
        return text


_COMPACT = (",", ":")
# What stands in the place of a call's arguments. Any but "as-sampled" comes in one chunk.
ARGUMENTS: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "as-sampled": lambda text: text,
        "compact": lambda text: dumped(text, separators=_COMPACT),
        "sorted": lambda text: dumped(text, separators=_COMPACT, sort_keys=True),
    }
)


def _through_close(n: int | None, text: str) -> int | None:
    return None if n is None else n + bool(text)


# What usage says of reasoning: (the stack's count, the reasoning's text) -> tokens.
REASONING_TOKENS: Mapping[str, Callable[[int | None, str], int | None]] = MappingProxyType(
    {
        "stack": lambda n, _: n,
        "through-close": _through_close,
        "estimate": lambda _, text: len(text) // 4,
        "none": lambda *_: None,
    }
)


def answer(
    ids: Sequence[int],
    request: Mapping[str, Any],
    thinking: bool,
    preset: Preset,
    token_bytes: TokenBytes,
    *,
    prompt_ids: Sequence[int] = (),
    prompt_tokens: int | None = None,
    nonce: str = "",
) -> Answer:
    """What a provider answers where the model would sample these ids.

    Args:
        ids: What the model samples if nothing ends it early, the terminator included.
        request: The body of the request; tools, tool_choice, stream, max_tokens and the stacks' own fields count.
        thinking: Whether the prompt opened a `<think>`.
        prompt_tokens: Length of the prompt where its ids are not known.
        nonce: What ids that the host mints are made from.
    """
    sampled = _sample(ids, request, thinking, preset, nonce)
    spoken = _restyle(STACKS[preset.stack](sampled, token_bytes), preset, sampled)
    n_prompt = len(prompt_ids) if prompt_tokens is None else prompt_tokens
    usage = _bill(sampled, spoken, preset, n_prompt)
    steps = spoken.steps if sampled.stream else ()
    return Answer(
        sampled.ids,
        spoken.reasoning,
        spoken.content,
        spoken.calls,
        spoken.finish_reason,
        usage,
        steps,
        tuple(prompt_ids),
    )


def _sample(ids: Sequence[int], request: Mapping[str, Any], thinking: bool, preset: Preset, nonce: str) -> Sampled:
    tools = request.get("tools") or ()
    wants = bool(tools) and request.get("tool_choice") != "none"
    stops = {TERMINATOR} if preset.call_terminator or not wants else {TERMINATOR, CONTROL_IDS[SECTION_END]}
    end = next((k for k, i in enumerate(ids, 1) if i in stops), len(ids))
    limit = request.get("max_tokens") or request.get("max_completion_tokens") or end + 1
    kept = tuple(ids[: min(end, limit)])
    assistant = (m for m in request.get("messages") or () if m.get("role") == "assistant")
    return Sampled(
        ids=kept,
        thinking=thinking,
        cut=len(kept) >= limit and kept[-1:] != (TERMINATOR,) and kept[-1] not in stops,
        stream=bool(request.get("stream")),
        tools=tuple(tool.get("function") or {} for tool in tools),
        tool_choice=request.get("tool_choice"),
        skip_special=request.get("skip_special_tokens") is not False,
        separate_reasoning=request.get("separate_reasoning") is not False,
        include_reasoning=request.get("include_reasoning") is not False,
        history_calls=sum(len(m.get("tool_calls") or ()) for m in assistant),
        nonce=nonce,
    )


def _restyle(spoken: Spoken, preset: Preset, sampled: Sampled) -> Spoken:
    """The same answer with the provider's call ids, arguments and chunks."""
    name_id, rewrite = CALL_IDS[preset.call_id], ARGUMENTS[preset.arguments]
    calls = tuple(
        ToolCall(name_id(call, sampled.mint(k, 24)), call.name, rewrite(call.arguments))
        for k, call in enumerate(spoken.calls)
    )
    steps = spoken.steps
    if calls != spoken.calls:
        steps = _with_calls(steps, calls, whole=preset.arguments != "as-sampled")
    return replace(spoken, calls=calls, steps=merged(steps, preset.merge))


def _with_calls(steps: Sequence[Step], calls: Sequence[ToolCall], whole: bool) -> tuple[Step, ...]:
    """Steps that spell other calls; with `whole` a call's arguments come with its last piece."""
    last = {delta.index: k for k, step in enumerate(steps) for delta in step.calls}

    def deltas(k: int, step: Step) -> tuple[CallDelta, ...]:
        made = []
        for delta in step.calls:
            call = calls[delta.index]
            arguments = delta.arguments if not whole else call.arguments if last[delta.index] == k else ""
            made.append(replace(delta, arguments=arguments, id=call.id if delta.id is not None else None))
        return tuple(d for d in made if d.arguments or d.id is not None)

    return tuple(replace(step, calls=deltas(k, step)) for k, step in enumerate(steps))


def merged(steps: Sequence[Step], size: int) -> tuple[Step, ...]:
    """Steps with up to `size` neighbours of one channel put together; no two channels share a step."""
    groups: list[list[Step]] = []
    for step in steps:
        fits = groups and len(groups[-1]) < size and _channel(groups[-1][-1]) == _channel(step)
        (groups[-1].append if fits else lambda s: groups.append([s]))(step)
    return tuple(_joined(group) if len(group) > 1 else group[0] for group in groups)


def _channel(step: Step) -> object:
    return bool(step.reasoning), bool(step.content), tuple((d.index, d.id) for d in step.calls)


def _joined(group: Sequence[Step]) -> Step:
    reasoning, content, _ = fold(group)
    first = [d for step in group[:1] for d in step.calls]
    calls = [replace(d, arguments="".join(s.calls[k].arguments for s in group)) for k, d in enumerate(first)]
    return Step(reasoning, content, tuple(calls), tuple(i for step in group for i in step.ids))


def _bill(sampled: Sampled, spoken: Spoken, preset: Preset, n_prompt: int) -> Usage:
    think = preset.think_billed and sampled.thinking
    prompt = n_prompt - think if n_prompt else 0
    completion = len(sampled.ids) - (sampled.stopped and not preset.terminator_billed) + think
    reasoning = REASONING_TOKENS[preset.reasoning_tokens](spoken.reasoning_tokens, spoken.reasoning)
    return Usage(prompt, completion, prompt + completion, reasoning)
