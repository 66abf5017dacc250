"""ProviderX, an invented host whose habits a test chooses, and answers of it whose ids a test knows."""

from collections.abc import Mapping
from typing import Any

from harness.encoder import encode_ordinary, load_vocab
from harness.flow import Kit, judge
from harness.formats import formats
from harness.habits import Habit, Habits
from harness.types import Exchange, Origin, Verdict
from harness.vocab import CONTROL_IDS

MODEL = "moonshotai/kimi-k2.5"
OFFSET = {"terminator_sampled": "yes", "terminator_billed": "yes", "think_billed": "no"}
"""completion_tokens = ids, the terminator among them."""
EDGES = ("reasoning_start", "reasoning_end", "content_start", "content_end", "argument_edges", "header_edges")
AS_SENT = {
    **dict.fromkeys(EDGES, "kept"),
    "spaces": "none",
    "call_id": "as-sent",
    "arguments": "as-sent",
    "argument_keys": "kept",
    "argument_types": "kept",
}
"""A host that hands out what was sampled."""
UNKNOWN: dict[str, str] = {}


def kit(traits: Mapping[str, str] = UNKNOWN) -> Kit:
    """What judging needs, with these traits of ProviderX and no other habit."""
    lines = tuple(Habit("ProviderX", trait, value, format="kimi-k2.5") for trait, value in traits.items())
    return Kit(load_vocab(), encode_ordinary, formats(), Habits(lines))


def answer(
    message: Mapping[str, Any], billed: int | None = None, finish: str | None = "stop", **usage: Any
) -> dict[str, Any]:
    """A body of ProviderX with one choice."""
    body: dict[str, Any] = {
        "id": "gen-1",
        "model": MODEL,
        "provider": "ProviderX",
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}],
    }
    if billed is not None:
        body["usage"] = {"completion_tokens": billed, **usage}
    return body


def call(name: str, arguments: str, call_id: str | None = None) -> dict[str, Any]:
    """A parsed tool call, with its native id unless another is given."""
    native = f"functions.{name}:0"
    return {"id": native if call_id is None else call_id, "function": {"name": name, "arguments": arguments}}


def judged(
    response: Any,
    traits: Mapping[str, str] = UNKNOWN,
    request: Mapping[str, Any] | None = None,
    *,
    thinking: bool | None = None,
    **how: Any,
) -> Verdict:
    """The verdict on a response of ProviderX."""
    return judge(Exchange("case", response, request or {}, thinking=thinking), kit(traits), **how)


def ids(*parts: str) -> list[int]:
    """Ids of texts, encoded one by one, and of control ids by their names."""
    out: list[int] = []
    for part in parts:
        out += [CONTROL_IDS[part]] if part in CONTROL_IDS else encode_ordinary(part)
    return out


def section(name: str, arguments: str, index: int = 0) -> list[int]:
    """Ids of a tool section with one call."""
    return ids(
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        f"functions.{name}:{index}",
        "<|tool_call_argument_begin|>",
        arguments,
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    )


def codes(verdict: Verdict) -> list[str]:
    """Codes of the findings, in order."""
    return [finding.code for finding in verdict.findings]


def masked(verdict: Verdict) -> list[int]:
    """Ids with loss mask 0, in order."""
    return [i for i, origin in zip(verdict.ids.ids, verdict.ids.origins, strict=True) if origin == Origin.INFERRED]
