"""One trial of the judge: a draw through a host, judged, and what its verdict is worth.

Knows the truth: the ids, the deviations, and the host's true habits. Knows nothing of how the judge works.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from harness.encoder import encode_ordinary, load_vocab
from harness.flow import Kit, judge
from harness.formats import formats
from harness.habits import Habit, Habits
from harness.preset_table import PRESETS, Preset
from harness.presets import Answer, answer
from harness.types import Exchange, Ids, Verdict
from harness.vocab import N_RANKS
from harness.wire import Head, body, chunks, report, report_chunks
from tests import corpus, grammar
from tests.grammar import Draw
from tests.made_hosts import Twist, draw_twist, settled, twisted
from tests.made_hosts import traits as twist_traits

MODELS = {
    "kimi-k2.5": "moonshotai/kimi-k2.5",
    "kimi-k2": "moonshotai/kimi-k2-0905",
    "kimi-k2-thinking": "moonshotai/kimi-k2-thinking",
}
STACKS_RECORDED = ("vllm-0.32", "sglang-0.5.23")
# Preset -> the formats that its row of the table speaks of; any other preset serves all three.
FORMATS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(STACKS_RECORDED, ("kimi-k2.5",)),
    "moonshotai": ("kimi-k2.5", "kimi-k2"),
    "atlas-cloud": ("kimi-k2.5",),
    "atlas-cloud-k2": ("kimi-k2",),
}


@dataclass(frozen=True, slots=True)
class Trial:
    """A draw and all that decides what becomes of it.

    Attributes:
        limit: max_tokens of the request.
        habits: "shipped", "told" (all that is true of the host), "unknown", or the name of another provider, whose
            habits are wrong here.
        untold: Traits that "told" leaves out.
        witness: Field of the request that asks for ids or logprobs, "" for none; with one the judge is not blind.
        twist: What a made-up host does to the answer of its preset.
    """

    draw: Draw
    preset: Preset
    stream: bool = False
    limit: int | None = None
    habits: str = "shipped"
    untold: frozenset[str] = frozenset()
    witness: str = ""
    twist: Twist | None = None

    @property
    def format(self) -> str:
        """The format that the model belongs to."""
        return next(name for name, model in MODELS.items() if model == self.draw.model)

    @property
    def request(self) -> dict[str, Any]:
        """The body of the request."""
        asked = {"stream": self.stream, "max_tokens": self.limit, **WITNESSES[self.witness]}
        return {**self.draw.request, **{k: v for k, v in asked.items() if v}}


@dataclass(frozen=True, slots=True)
class Judged:
    """A trial's answer and verdict; `fault` says how unmasked ids differ from the truth, "" where they do not."""

    answer: Answer
    exchange: Exchange
    verdict: Verdict
    fault: str = field(default="")


WITNESSES: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "ids": {"return_token_ids": True, "return_output_ids_in_sglext": True},
    "logprobs": {"logprobs": True},
    "token_id:N": {"logprobs": True, "return_tokens_as_token_ids": True},
}


# Edge of a format's `blank_free` -> where a draw would put a blank there: (edit, kind of slot).
EDGES: Mapping[str, frozenset[tuple[str, str]]] = {
    "content_start": frozenset({("before", "content")}),
    "header_edges": frozenset({("after", "call"), ("before", "header"), ("after", "header"), ("before", "middle")}),
    "argument_edges": frozenset(
        {("after", "middle"), ("before", "arguments"), ("after", "arguments"), ("before", "call_end")}
    ),
}


def in_grammar(drawn: Draw, format_name: str) -> Draw:
    """The draw without blanks at edges at which its family writes none: that is a measured part of the grammar."""
    blank_free = next(f.blank_free for f in formats() if f.name == format_name)
    barred = {place for edge in blank_free for place in EDGES.get(edge, ())}
    kept = tuple(
        d
        for d in drawn.deviations
        if (d.edit, d.slot.partition(":")[0]) not in barred
        or not all(isinstance(p, str) and p.isspace() for p in d.parts)
    )
    return replace(drawn, deviations=kept)


MADE_UP = "made-up"
"""Stands for a preset's name where the host is drawn too."""


def draw_trial(rng: Random, preset_name: str, *, size: int | None = None) -> Trial:
    """A trial at this host, with shipped habits."""
    preset = PRESETS["wandb" if preset_name == MADE_UP else preset_name]
    known = FORMATS.get(preset_name, tuple(MODELS))
    fmt = rng.choice(known)
    thinking = {"kimi-k2": False, "kimi-k2-thinking": True}.get(fmt, rng.random() < 0.75)
    if preset.think_billed and preset.name == "atlas-cloud":
        thinking = True  # its row was measured with thinking on
    drawn = grammar.draw(rng, model=MODELS[fmt], thinking=thinking, samples_think=fmt == "kimi-k2-thinking", size=size)
    drawn = in_grammar(drawn, fmt)
    stream = rng.random() < 0.5
    preset = replace(preset, merge=rng.choice((preset.merge, preset.merge, 2, 5)))
    limit = rng.randrange(1, len(drawn.ids) + 1) if drawn.ids and rng.random() < 0.08 else None
    if preset_name == MADE_UP:
        preset = replace(preset, name=MADE_UP, provider=MADE_UP, terminator_billed=rng.random() < 0.8)
        return Trial(drawn, preset, stream, limit, "told", twist=draw_twist(rng))
    return Trial(drawn, preset, stream, limit)


def run(trial: Trial) -> Judged:
    """Ask the host, judge what it says, hold the verdict against the truth."""
    said = speak(trial)
    if trial.twist:
        trial = replace(trial, twist=settled(said, trial.twist))
        said = twisted(said, trial.twist or Twist())
    exchange = Exchange(
        trial.draw.model,
        _response(trial, said),
        trial.request,
        provider=trial.preset.provider,
        model=trial.draw.model,
        thinking=trial.draw.thinking if trial.draw.told_thinking else None,
    )
    as_provider = trial.preset.provider if trial.habits in ("shipped", "told") else trial.habits
    verdict = judge(exchange, kit_of(trial), model=trial.draw.model, provider=as_provider, blind=not trial.witness)
    return Judged(said, exchange, verdict, corpus.differs(ended(verdict, said.ids), list(said.ids)))


def speak(trial: Trial) -> Answer:
    """What the preset makes of the true ids."""
    spell = load_vocab().token_bytes
    return answer(trial.draw.ids, trial.request, trial.draw.thinking, trial.preset, spell, prompt_tokens=20, nonce="n")


def _response(trial: Trial, said: Answer) -> Any:
    head = Head("gen-1", 1_764_000_000, trial.draw.model, trial.preset.provider)
    rest = (said, trial.request, trial.preset.reports, load_vocab().token_bytes)
    if not trial.stream:
        return report(body(said, head), *rest)
    return report_chunks(list(chunks(said, head, empty=bool(trial.witness))), *rest)


def ended(verdict: Verdict, truth: tuple[int, ...]) -> Verdict:
    """The verdict without the masked control ids at its end where others were sampled: they say that nobody knows it.

    A host that ends at the section's end shows neither that end nor a terminator that stood in its place; and one that
    bills an id too few may have kept back `</think>` before it.
    """
    ids, n = verdict.ids.ids, len(verdict.ids.ids)
    while n and ids[n - 1] >= N_RANKS and not verdict.loss_mask[n - 1]:
        n -= 1
    if n == len(ids) or n > len(truth) or len(truth) == len(ids):
        return verdict
    return replace(verdict, ids=Ids(ids[:n], verdict.ids.origins[:n]), truncated=True)


# --- habits ---------------------------------------------------------------------------------------------------------


def kit_of(trial: Trial) -> Kit:
    """The judge's kit with the habits that the trial tells."""
    if trial.habits != "told":
        return corpus.kit()
    return Kit(load_vocab(), encode_ordinary, formats(), Habits(tuple(_true_habits(trial)), {}, IMPLIES))


IMPLIES = dict.fromkeys(STACKS_RECORDED, "kimi-k2.5")
YES_NO = {True: "yes", False: "no"}


def _true_habits(trial: Trial) -> list[Habit]:
    """All that is true of the host, without what the trial leaves untold."""
    preset = trial.preset
    if preset.name in STACKS_RECORDED:
        lines = [h for h in corpus.shipped_habits().lines if h.provider == preset.provider]
    else:
        stops = {"tool_calls": preset.call_terminator, "stop": True, "length": True}
        lines = [
            Habit(preset.provider, trait, value, format=trial.format, finish=finish)
            for finish, terminated in stops.items()
            for trait, value in (
                _traits(preset, terminated) | (twist_traits(trial.twist) if trial.twist else {})
            ).items()
        ]
    return [h for h in lines if h.trait not in trial.untold]


def _traits(preset: Preset, terminated: bool) -> dict[str, str]:
    rewritten = preset.arguments != "as-sampled"
    edges = ("reasoning_start", "reasoning_end", "content_start", "content_end")
    return {
        "terminator_sampled": YES_NO[terminated],
        "terminator_billed": YES_NO[terminated and preset.terminator_billed],
        "think_billed": YES_NO[preset.think_billed],
        "call_id": {"native": "as-sent", "short": "prefixed", "minted": "minted"}[preset.call_id],
        "call_index": "kept",
        "header_edges": "lost",
        "arguments": "spaced" if rewritten else "as-sent",
        "argument_keys": "sorted" if preset.arguments == "sorted" else "kept",
        "argument_types": "kept",
        "argument_edges": "lost" if rewritten else "kept",
        **dict.fromkeys(edges, "kept"),
        "spaces": "none",
        "raw_sections": "shown",
        "section_text": "dropped",
        "unclosed_calls": "shown",
        "lost_text": "yes",
        "swallows_think": "no",
        "control_ids": "shown",
        "chunks": "tokens",
        "chunks_at_markers": "tokens",
        "chunks_arguments": "merged" if rewritten else "tokens",
        "reasoning_tokens": {"stack": "ids", "through-close": "ids+1"}.get(preset.reasoning_tokens, "estimate"),
    }


COUNTED = frozenset({"terminator_billed", "think_billed", "offset"})


def untold(rng: Random, trial: Trial) -> frozenset[str]:
    """Some of the host's traits, never those without which the bill says nothing."""
    names = sorted({h.trait for h in _true_habits(trial)} - COUNTED)
    share = rng.choice((0.1, 0.3, 0.6))
    return frozenset(name for name in names if rng.random() < share)
