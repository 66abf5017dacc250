"""What can be seen to be wrong with an answer before anybody counts: a table of checks -> findings.

A fatal finding rejects the answer; the others are tags that travel with the sample. Knows nothing of readings or bills,
and repairs nothing.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.calls import id_style
from harness.formats import Format
from harness.types import Finding, ToolCall, Turn
from harness.vocab import control_pattern

FINISHES = frozenset({"stop", "tool_calls", "length"})
SINGULAR = re.compile(r"<\|tool_call_section_(?:begin|end)\|>")
LONG_RUN = re.compile(r"\S{25001}|\s{25001}")
LONG_RUN_CHARS = 25_000
EDITING = ("transforms", "plugins", "preset")


@dataclass(frozen=True, slots=True)
class Case:
    """What a check looks at. `thinking` is what was asked for; `provider` the display name that answered."""

    turn: Turn
    fmt: Format
    thinking: bool | None
    traits: Mapping[str, str]
    request: Mapping[str, Any]
    provider: str | None
    same_provider: Callable[[str, str], bool | None]


def texts(turn: Turn) -> Iterator[tuple[str, str]]:
    """(where, text) of everything that the model may have written."""
    yield "reasoning", turn.reasoning
    yield "content", turn.content
    for k, call in enumerate(turn.tool_calls):
        yield f"tool_calls[{k}].arguments", call.arguments
        yield f"tool_calls[{k}].id", call.id
        yield f"tool_calls[{k}].name", call.name


def finish(case: Case) -> Iterator[Finding]:
    """Complete only by an allow-list: no finish reason is a cut stream, an unknown one is unknown."""
    said = case.turn.finish_reason
    if said is None:
        yield Finding("no-finish", "finish_reason", "the answer has no finish reason: it was cut, or never ended")
    elif said not in FINISHES:
        yield Finding("unknown-finish", "finish_reason", f"{said!r} is not one of {sorted(FINISHES)}")
    elif said == "length" and case.turn.tool_calls:
        yield Finding("cut-in-call", "tool_calls", "cut by max_tokens inside a tool call: its end cannot be known")


def cut_unsaid(case: Case) -> Iterator[Finding]:
    """max_tokens reached and another finish: some stacks say `tool_calls` for a call that was cut."""
    limit = case.request.get("max_tokens") or case.request.get("max_completion_tokens")
    billed = case.turn.usage.completion_tokens if case.turn.usage else None
    if case.turn.finish_reason != "length" and isinstance(limit, int) and billed is not None and billed >= limit:
        yield Finding("cut-unsaid", "finish_reason", f"{billed} tokens billed of max_tokens {limit}, and no `length`")


def stop_strings(case: Case) -> Iterator[Finding]:
    if case.request.get("stop") and case.turn.finish_reason == "stop":
        yield Finding(
            "stop-strings", "request.stop", "the request has stop strings: what ended the answer is not known"
        )


def lost_calls(case: Case) -> Iterator[Finding]:
    turn = case.turn
    shown = "<|tool_call_begin|>" in turn.content or "<|tool_call_begin|>" in turn.reasoning
    if turn.finish_reason == "tool_calls" and not turn.tool_calls and not shown:
        yield Finding("calls-lost", "tool_calls", "finish_reason is tool_calls and no call came")


def thinking_switch(case: Case) -> Iterator[Finding]:
    if case.thinking is False and case.turn.reasoning:
        yield Finding("thinks-although-off", "reasoning", "thinking was off in the request and reasoning came")


def closed(case: Case) -> Iterator[Finding]:
    """All reasoning and a plain stop: `</think>` may have been removed, and its place is gone with it.

    A host that counts reasoning by id can still prove where it ended; that is for its witness.
    """
    turn = case.turn
    if turn.finish_reason != "stop" or not turn.reasoning or turn.content or turn.tool_calls:
        return
    if "<|tool_calls_section_begin|>" in turn.reasoning:
        return
    told = turn.usage.reasoning_tokens if turn.usage else None
    if told is None or case.traits.get("reasoning_tokens") not in ("ids", "ids+1", "undercount"):
        yield Finding("all-reasoning", "content", "reasoning, a stop and nothing else: </think> may have been removed")


def lost_bytes(case: Case) -> Iterator[Finding]:
    for where, text in texts(case.turn):
        if "\ufffd" in text:
            yield Finding("replacement-character", where, "U+FFFD stands for bytes that are lost")


def leaks(case: Case) -> Iterator[Finding]:
    """Marker text where no parser would have left it: bytes were lost or glued."""
    for where, text in texts(case.turn):
        if "<|" not in text and "think>" not in text:
            continue
        names = sorted({m for m in control_pattern().findall(text) if m[0] == "<"})
        if names and where.startswith("tool_calls"):
            yield Finding("marker-in-call", where, f"{', '.join(names)} inside a parsed call")
        elif names:
            yield Finding("marker-in-text", where, f"{', '.join(names)} as text", fatal=False)
        if SINGULAR.search(text):
            yield Finding(
                "singular-marker", where, "a section marker in the singular is text, not a token", fatal=False
            )


def call_ids(case: Case) -> Iterator[Finding]:
    for k, call in enumerate(case.turn.tool_calls):
        where = f"tool_calls[{k}].id"
        if id_style(call) == "minted" and case.traits.get("call_id") != "minted":
            yield Finding("minted-id", where, f"{call.id!r} was made by the host: the sampled id is gone")


def rewritten_arguments(case: Case) -> Iterator[Finding]:
    """Arguments whose sampled form cannot be known: keys that may have been sorted, values that may be coerced."""
    order = case.traits.get("argument_keys")
    for k, call in enumerate(case.turn.tool_calls):
        where = f"tool_calls[{k}].arguments"
        if order != "kept" and _sorted_keys(call.arguments):
            text = "and this provider sorts them" if order else "and whether this provider sorts is not known"
            yield Finding("keys-sorted" if order else "keys-maybe-sorted", where, f"keys came in order, {text}")
        if case.traits.get("argument_types") == "coerced" and _coercible(call.arguments):
            yield Finding("value-maybe-coerced", where, "a text value may have been sampled as a number or a name")


KEY = re.compile(r'"((?:[^"\\]|\\.)*)"\s*:')
STRING_VALUE = re.compile(r':\s*"((?:[^"\\]|\\.)*)"')
OTHER_VALUE = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[\[{].*[\]}]|True|False|None", re.DOTALL)


def _sorted_keys(arguments: str) -> bool:
    keys = KEY.findall(arguments)
    return len(keys) > 1 and keys == sorted(keys)


def _coercible(arguments: str) -> bool:
    return any(OTHER_VALUE.fullmatch(v) for v in STRING_VALUE.findall(arguments))


def invalid_json(case: Case) -> Iterator[Finding]:
    """Not a reason to reject: what was sampled is what counts."""
    for k, call in enumerate(case.turn.tool_calls):
        if not _balanced(call):
            yield Finding("invalid-json", f"tool_calls[{k}].arguments", "the arguments are no JSON object", fatal=False)


def _balanced(call: ToolCall) -> bool:
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", call.arguments)
    return bare.strip().startswith("{") and bare.count("{") == bare.count("}") and bare.count("[") == bare.count("]")


def offered(case: Case) -> Iterator[Finding]:
    """A section in raw text counts only for tools that were offered: prose may explain the format."""
    tools = case.request.get("tools")
    if not isinstance(tools, list) or not tools:
        return
    names = {_tool_name(t) for t in tools}
    for where, text in (("reasoning", case.turn.reasoning), ("content", case.turn.content)):
        if "<|tool_call_begin|>" not in text:
            continue
        for called in re.findall(r"<\|tool_call_begin\|>\s*(?:functions\.)?(.+?):\d+\s*<\|tool_call_argument", text):
            if called not in names:
                yield Finding("tool-not-offered", where, f"{called!r} is not among the tools of the request")


def _tool_name(tool: Any) -> str:
    if isinstance(tool, Mapping):
        function = tool.get("function", tool)
        return str(function.get("name", "")) if isinstance(function, Mapping) else ""
    return str(tool)


def long_runs(case: Case) -> Iterator[Finding]:
    for where, text in texts(case.turn):
        if len(text) > LONG_RUN_CHARS and LONG_RUN.search(text):
            yield Finding("long-run", where, "a run of over 25,000 characters: tokenizers cut those differently")


def sealed(case: Case) -> Iterator[Finding]:
    if case.turn.sealed:
        yield Finding("sealed", "message", "summarised, encrypted or contradictory parts: not the sampled text")


def zero_bill(case: Case) -> Iterator[Finding]:
    usage = case.turn.usage
    if usage and usage.completion_tokens == 0:
        yield Finding("zero-bill", "usage", "0 tokens billed for an answer: a cached copy or a failure")


def edited(case: Case) -> Iterator[Finding]:
    for key in EDITING:
        if case.request.get(key):
            yield Finding("gateway-edits", f"request.{key}", f"{key} lets the gateway change prompts or answers")


def pinned(case: Case) -> Iterator[Finding]:
    """A pinned provider that did not answer; `order` alone pins nothing."""
    block = case.request.get("provider")
    if not isinstance(block, Mapping) or case.provider is None:
        return
    pins = [str(p) for p in (block.get("only") or block.get("order") or ())]
    answers = [case.same_provider(pin, case.provider) for pin in pins]
    if pins and not any(answers):
        yield Finding("wrong-provider", "provider", f"asked for {pins}, {case.provider!r} answered")


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    finish,
    cut_unsaid,
    stop_strings,
    lost_calls,
    thinking_switch,
    closed,
    lost_bytes,
    leaks,
    call_ids,
    rewritten_arguments,
    invalid_json,
    offered,
    long_runs,
    sealed,
    zero_bill,
    edited,
    pinned,
)


def check(case: Case) -> tuple[Finding, ...]:
    """What every check sees, in the order of the table."""
    return tuple(finding for one in CHECKS for finding in one(case))
