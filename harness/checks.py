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
from harness.json_keys import balanced, is_json, key_orders, keys_sorted, other_values
from harness.json_spellings import too_many
from harness.types import Finding, Turn
from harness.vocab import control_pattern

FINISHES = frozenset({"stop", "tool_calls", "length"})
SINGULAR = re.compile(r"<\|tool_call_section_(?:begin|end)\|>")
RUN = re.compile(r"\S+|\s+")
LONG_RUN_CHARS = 25_000
EDITING = ("transforms", "plugins", "preset")


@dataclass(frozen=True, slots=True)
class Case:
    """What a check looks at.

    Attributes:
        thinking: What was asked for.
        provider: The display name that answered.
        completion_tokens: What was billed for the whole answer, reasoning included.
    """

    turn: Turn
    fmt: Format
    thinking: bool | None
    traits: Mapping[str, str]
    request: Mapping[str, Any]
    provider: str | None
    same_provider: Callable[[str, str], bool | None]
    completion_tokens: int | None = None


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
    billed = case.completion_tokens
    if case.turn.finish_reason != "length" and isinstance(limit, int) and billed is not None and billed >= limit:
        yield Finding("cut-unsaid", "finish_reason", f"{billed} tokens billed of max_tokens {limit}, and no `length`")


def stop_strings(case: Case) -> Iterator[Finding]:
    if case.request.get("stop") and case.turn.finish_reason == "stop":
        yield Finding("stop-strings", "request.stop", "the request has stop strings: what ended the answer is unknown")


def lost_calls(case: Case) -> Iterator[Finding]:
    turn = case.turn
    shown = "<|tool_call_begin|>" in turn.content or "<|tool_call_begin|>" in turn.reasoning
    if turn.finish_reason == "tool_calls" and not turn.tool_calls and not shown:
        yield Finding("calls-lost", "tool_calls", "finish_reason is tool_calls and no call came")


def thinking_switch(case: Case) -> Iterator[Finding]:
    if case.thinking is False and case.turn.reasoning:
        yield Finding("thinks-although-off", "reasoning", "thinking was off in the request and reasoning came")
    swallowed = case.traits.get("swallows_think") == "yes" and len(case.fmt.thinking_modes) > 1
    if case.thinking is None and case.turn.reasoning and swallowed:
        yield Finding("thinking-not-told", "reasoning", "its <think> may stand in the prompt or have been swallowed")


def closed(case: Case) -> Iterator[Finding]:
    """All reasoning and a plain stop: `</think>` may have been removed, and its place is gone with it.

    A host that counts reasoning by id can still prove where it ended; that is for its witness.
    """
    turn = case.turn
    if turn.finish_reason != "stop" or not turn.reasoning or turn.content or turn.tool_calls:
        return
    if turn.shows_section:
        return
    told = turn.usage.reasoning_tokens if turn.usage else None
    exact = ("ids", "ids+1", *(("undercount",) if turn.reasoning.isascii() else ()))
    if told is None or case.traits.get("reasoning_tokens") not in exact:
        yield Finding("all-reasoning", "content", "reasoning, a stop and nothing else: </think> may have been removed")


def parted(case: Case) -> Iterator[Finding]:
    """Thinking was on and none of it came: all of it may stand in the content, with `</think>` removed in between.

    A host is known to part the two where white space at the reasoning's end is known to be kept or lost. Where nothing
    is known of it no bill can speak, and the answer stays unverified.
    """
    turn, thinks = case.turn, case.thinking or case.fmt.thinking_modes == (True,)
    if not thinks or turn.reasoning or not turn.content or "</think>" in turn.content:
        return
    if case.traits and "reasoning_end" not in case.traits:
        yield Finding("no-reasoning", "reasoning", "thinking was on and no reasoning came: it may stand in the content")


def lost_bytes(case: Case) -> Iterator[Finding]:
    for where, text in texts(case.turn):
        if "\ufffd" in text:
            yield Finding("replacement-character", where, "U+FFFD stands for bytes that are lost")


def leaks(case: Case) -> Iterator[Finding]:
    """Marker text where no parser would have left it: bytes were lost or glued."""
    for where, text in texts(case.turn):
        in_call = where.startswith("tool_calls")
        angled = "<" in text and ("<|" in text or "think>" in text)  # one character is found many times faster
        if not angled and not (in_call and "[" in text):
            continue
        names = sorted({m for m in control_pattern().findall(text) if in_call or m[0] == "<"})
        if names and in_call:
            yield Finding("marker-in-call", where, f"{', '.join(names)} inside a parsed call")
        elif names:
            yield Finding("marker-in-text", where, f"{', '.join(names)} as text", fatal=False)
        if SINGULAR.search(text):
            yield Finding("singular-marker", where, "a singular section marker is text, not a token", fatal=False)


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
        if case.traits.get("arguments") != "as-sent" and is_json(call.arguments) and too_many(call.arguments):
            yield Finding("arguments-too-long", where, "may have been written anew, in more ways than can be tried")
        if not call.arguments.strip():
            yield Finding("empty-arguments", where, "none came: what stood there is gone")
        if order != "kept" and keys_sorted(call.arguments) and key_orders(call.arguments) is None:
            text = "and this provider sorts them" if order else "and whether this provider sorts is not known"
            yield Finding("keys-sorted" if order else "keys-maybe-sorted", where, f"keys came in order, {text}")
        types, others = case.traits.get("argument_types"), other_values(call.arguments)
        if (types == "coerced" and others != ()) or (types is None and others is None):
            yield Finding("value-maybe-coerced", where, "a value may have been sampled in another type")


def think_shown(case: Case) -> Iterator[Finding]:
    """Where the model writes `<think>` itself, one in the text may be the opening or a second one."""
    if case.fmt.think == "sampled" and any("<think>" in t for t in (case.turn.reasoning, case.turn.content)):
        yield Finding("think-shown", "reasoning", "<think> stands in the text: the opening, or one more")


def invalid_json(case: Case) -> Iterator[Finding]:
    """Not a reason to reject: what was sampled is what counts."""
    for k, call in enumerate(case.turn.tool_calls):
        if not balanced(call.arguments):
            yield Finding("invalid-json", f"tool_calls[{k}].arguments", "the arguments are no JSON object", fatal=False)


INDEX = re.compile(r":\d+$")


def offered(case: Case) -> Iterator[Finding]:
    """A section in raw text counts only for tools that were offered: prose may explain the format.

    And the name of a call that holds an offered one and more lost what stood between the two.
    """
    tools = case.request.get("tools")
    if not isinstance(tools, list) or not tools:
        return
    names = {_tool_name(t) for t in tools} - {""}
    for k, call in enumerate(case.turn.tool_calls):
        if call.name not in names and any(name in call.name for name in names):
            yield Finding("tool-not-offered", f"tool_calls[{k}].name", f"{call.name[:60]!r} is more than a tool's name")
    for where, text in (("reasoning", case.turn.reasoning), ("content", case.turn.content)):
        for part in text.split("<|tool_call_begin|>")[1:]:
            header, shaped, _ = part.partition("<|tool_call_argument_begin|>")
            called = INDEX.sub("", header.strip()).removeprefix(case.fmt.id_prefix)
            if shaped and called not in names:
                yield Finding("tool-not-offered", where, f"{called[:60]!r} is not among the tools of the request")


def _tool_name(tool: Any) -> str:
    if isinstance(tool, Mapping):
        function = tool.get("function", tool)
        return str(function.get("name", "")) if isinstance(function, Mapping) else ""
    return str(tool)


def long_runs(case: Case) -> Iterator[Finding]:
    for where, text in texts(case.turn):
        if len(text) > LONG_RUN_CHARS and any(len(run[0]) > LONG_RUN_CHARS for run in RUN.finditer(text)):
            yield Finding("long-run", where, "a run of over 25,000 characters: tokenizers cut those differently")


def sealed(case: Case) -> Iterator[Finding]:
    if case.turn.sealed:
        yield Finding("sealed", "message", "summarised, encrypted or contradictory parts: not the sampled text")


def order(case: Case) -> Iterator[Finding]:
    """Channels of a stream: reasoning, then content, then calls. Text behind a call may stand within its section."""
    seen = case.turn.order
    if "reasoning" in seen[1:]:
        yield Finding("channels-interleaved", "choices", "reasoning came again after another channel")
    *inner, last = case.turn.interludes or ("",)
    known = case.traits.get("section_text") == "merged" and not any("<" in text or "[" in text for text in inner)
    if last or (any(inner) and not known):
        yield Finding("text-behind-calls", "content", "content came after a tool call: its place is not known")


def blank_text(case: Case) -> Iterator[Finding]:
    """A text of blanks alone: which of them were sampled and which a detokenizer put there, nobody can tell."""
    for where, text in (("reasoning", case.turn.reasoning), ("content", case.turn.content)):
        if text.isspace() and case.traits and case.traits.get("spaces") != "none":
            yield Finding("blank-text", where, "blanks alone, and this host may have put one of them there")


def nothing_visible(case: Case) -> Iterator[Finding]:
    turn = case.turn
    if not turn.reasoning and not turn.content and not turn.tool_calls:
        yield Finding("nothing-visible", "message", "no text and no call came: what was sampled is not shown")


def zero_bill(case: Case) -> Iterator[Finding]:
    if case.completion_tokens == 0:
        yield Finding("zero-bill", "usage", "0 tokens billed for an answer: a cached copy or a failure")


def edited(case: Case) -> Iterator[Finding]:
    for key in EDITING:
        if case.request.get(key):
            yield Finding("gateway-edits", f"request.{key}", f"{key} lets the gateway change prompts or answers")
    if "@preset/" in str(case.request.get("model")):
        yield Finding("gateway-edits", "request.model", "a preset lets the gateway change prompts or answers")


def pinned(case: Case) -> Iterator[Finding]:
    """A provider that was not asked for: `order` alone pins nothing, so what answered is compared."""
    block = case.request.get("provider")
    if not isinstance(block, Mapping) or case.provider is None:
        return
    pins, barred = _names(block.get("only") or block.get("order")), _names(block.get("ignore"))
    wrong = pins and not any(case.same_provider(pin, case.provider) for pin in pins)
    if wrong or any(case.same_provider(name, case.provider) for name in barred):
        asked = f"asked for {pins}" if wrong else f"asked for any but {barred}"
        yield Finding("wrong-provider", "provider", f"{asked}, {case.provider!r} answered")


def _names(told: Any) -> list[str]:
    return [str(name) for name in (told if isinstance(told, list | tuple) else [told] if told else [])]


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    *(finish, cut_unsaid, stop_strings, lost_calls),
    *(thinking_switch, closed, parted),
    lost_bytes,
    leaks,
    call_ids,
    rewritten_arguments,
    think_shown,
    invalid_json,
    offered,
    long_runs,
    sealed,
    zero_bill,
    order,
    blank_text,
    nothing_visible,
    edited,
    pinned,
)


def check(case: Case) -> tuple[Finding, ...]:
    """What every check sees, in the order of the table."""
    return tuple(finding for one in CHECKS for finding in one(case))
