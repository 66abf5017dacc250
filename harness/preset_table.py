"""The emulator's presets: what each provider and each recorded stack does, a small table of traits a line. Pure.

A provider has a preset only where its offset for answers and for tool calls, its call ids and its arguments are known:
see LEFT_OUT for the others. What the traits do is in `presets`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from harness.errors import SetupError


@dataclass(frozen=True, slots=True)
class Preset:
    """What one provider does.

    Attributes:
        name: OpenRouter's slug of the provider, or the name and version of a recorded stack.
        provider: Display name, as it stands in answers.
        stack: Key of STACKS.
        call_terminator: True where the terminator is sampled after a tool section; else sampling ends with the section.
        terminator_billed: True where a sampled terminator counts in completion_tokens.
        think_billed: True where the prompt's last `<think>` counts in completion_tokens, and not in prompt_tokens.
        call_id: Key of CALL_IDS.
        arguments: Key of ARGUMENTS.
        merge: Tokens in a stream's chunk, at most.
        reasoning_tokens: Key of REASONING_TOKENS.
        reports: Stack whose fields for token ids and logprobs are offered, "" for none.
        evidence: Where the traits come from.
    """

    name: str
    provider: str
    stack: str = "plain"
    call_terminator: bool = True
    terminator_billed: bool = True
    think_billed: bool = False
    call_id: str = "native"
    arguments: str = "as-sampled"
    merge: int = 1
    reasoning_tokens: str = "stack"
    reports: str = ""
    evidence: str = ""


_TABLE = "measured on 1,451 public answers"
_ROWS = (
    Preset(
        "vllm-0.32",
        "vllm-0.32",
        stack="vllm",
        reports="vllm",
        evidence="recorded, fast tokenizer, all control tokens flagged special, both kimi_k2 parsers",
    ),
    Preset(
        "sglang-0.5.23",
        "sglang-0.5.23",
        stack="sglang",
        reports="sglang",
        evidence="recorded, control tokens flagged as Kimi ships them, both kimi_k2 parsers",
    ),
    Preset(
        "moonshotai",
        "Moonshot AI",
        call_terminator=False,
        think_billed=True,
        call_id="short",
        reasoning_tokens="estimate",
        evidence=_TABLE,
    ),
    # "as Moonshot" is taken for the answers to K2 alone: nothing tells that it bills <think> for K2.5.
    Preset("novita", "Novita", call_terminator=False, call_id="short", reasoning_tokens="none", evidence=_TABLE),
    Preset("fireworks", "Fireworks", merge=3, reasoning_tokens="none", evidence=_TABLE),
    Preset("parasail", "Parasail", reasoning_tokens="none", evidence=_TABLE),
    Preset("wandb", "WandB", reasoning_tokens="none", evidence=_TABLE),
    Preset("baseten", "BaseTen", reasoning_tokens="none", evidence=_TABLE),
    Preset(
        "chutes",
        "Chutes",
        reasoning_tokens="through-close",
        evidence=_TABLE + "; compact arguments are how it samples them",
    ),
    Preset(
        "atlas-cloud",
        "AtlasCloud",
        call_terminator=False,
        think_billed=True,
        reasoning_tokens="estimate",
        evidence=_TABLE + "; K2.5",
    ),
    Preset("atlas-cloud-k2", "AtlasCloud", reasoning_tokens="none", evidence=_TABLE + "; K2-0905"),
    Preset(
        "together",
        "Together",
        call_id="minted",
        arguments="compact",
        reasoning_tokens="none",
        evidence=_TABLE + "; the 9 of 19 calls with minted ids, all of them compact",
    ),
    Preset("groq", "Groq", arguments="compact", reasoning_tokens="none", evidence=_TABLE),
    Preset(
        "siliconflow",
        "SiliconFlow",
        terminator_billed=False,
        arguments="sorted",
        reasoning_tokens="none",
        evidence=_TABLE + "; 32 of 33 ids native, 24 of 33 arguments compact",
    ),
)
PRESETS: Mapping[str, Preset] = MappingProxyType({row.name: row for row in _ROWS})
"""Every preset by its name."""

LEFT_OUT: Mapping[str, str] = MappingProxyType(
    {
        "DeepInfra": "offset of tool calls: -1, or unexplained",
        "Nebius": "offset of tool calls: unexplained",
        "DashScope, api.moonshot.cn": "no tool call was seen: offset, ids and arguments unknown",
        "vLLM / SGLang self-hosted, Inceptron, ModelRun, avian": "call ids and arguments unknown; versions differ",
        "opencode zen": "one model id hides two backends with different offsets",
        "Bedrock K2-Thinking": "one answer: ids, arguments and the offset of tool calls unknown",
    }
)
"""Rows of the table of providers that have no preset, and the fact that is missing."""


def find_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        SetupError: No preset has this name; lists the names and the providers that have none.
    """
    try:
        return PRESETS[name]
    except KeyError:
        missing = "; ".join(f"{row} ({why})" for row, why in LEFT_OUT.items())
        raise SetupError(f"no preset {name!r}; presets: {sorted(PRESETS)}; left out: {missing}") from None
