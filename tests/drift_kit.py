"""What the trials of drift share: 24 requests with what is sampled for them, recordings over the emulator, and hosts
that change underneath.

Changes that a preset has a trait for are made in the preset; the others are made to the answer before it is sent, as a
host would. Knows nothing of how a change is found.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.emulator import Emulator, Truth
from harness.encoder import load_vocab
from harness.faults import Reply
from harness.openrouter_lists import Endpoint
from harness.preset_table import PRESETS, Preset
from harness.presets import Answer
from harness.stacks import Step
from harness.types import Exchange, ToolCall
from harness.wire import dump, events
from tests import emulator_kit
from tests.emulator_kit import END, MODEL, TE, TOOLS, ids, parsed, section

Json = dict[str, Any]
WORDS = (
    *("The answer follows from what was asked", "First look at the numbers", "Nobody said which city is meant"),
    *("A call with both letters does it", "So the forecast has to be fetched", "That is a question of taste"),
    *("Es regnet in Oslo, also nimm den Schirm mit", "答案是四十二", "Two and two are four", "Ok"),
)
HISTORY = [
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "functions.get_weather:0", "type": "function",
         "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]},
    {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "rain"},
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scenario:
    """One request; `calls` is how many calls are sampled for it."""

    name: str
    thinking: bool = True
    calls: int = 0
    history: bool = False
    fields: Mapping[str, Any] | None = None

    def request(self, pin: str) -> Json:
        """The body that is sent."""
        messages: list[Json] = [{"role": "user", "content": self.name}]
        body: Json = {"model": MODEL, "messages": messages, "provider": {"only": [pin], "allow_fallbacks": False}}
        if self.history:
            messages += [*HISTORY, {"role": "user", "content": self.name}]
        if self.calls:
            body["tools"] = TOOLS
        if not self.thinking:
            body["reasoning"] = {"enabled": False}
        return {**body, **(self.fields or {})}


STREAM = {"stream": True}
SCENARIOS = (
    *(Scenario(f"plain {k}") for k in range(5)),
    *(Scenario(f"plain streamed {k}", fields=STREAM) for k in range(4)),
    *(Scenario(f"thinking off {k}", thinking=False) for k in range(2)),
    Scenario("thinking off streamed", thinking=False, fields=STREAM),
    *(Scenario(f"one call {k}", calls=1) for k in range(3)),
    *(Scenario(f"one call streamed {k}", calls=1, fields=STREAM) for k in range(2)),
    Scenario("two calls", calls=2),
    Scenario("two calls streamed", calls=2, fields=STREAM),
    Scenario("second turn", calls=1, history=True),
    Scenario("call without thinking", thinking=False, calls=1),
    Scenario("cut in reasoning", fields={"max_tokens": 5}),
    Scenario("cut in content", thinking=False, fields={"max_tokens": 4}),
    Scenario("cut streamed", fields={"max_tokens": 6, **STREAM}),
)


def sampled(scenario: Scenario, rng: random.Random) -> Truth:
    """What a model may sample for it: edges, key orders and indexes as models write them."""

    def text() -> str:
        return ". ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4))) + "."

    thought = [text() + rng.choice(("", "", "\n")), TE] if scenario.thinking else []
    said = ids(*thought, text() + rng.choice(("", "", "\n")))
    start = rng.choice((0, 1, 2)) + scenario.history
    calls = []
    for k in range(scenario.calls):
        members = [f'"city": "{rng.choice(("Oslo", "Rom"))}"', f'"b": {rng.randint(1, 9)}']
        rng.shuffle(members)
        calls.append((f"functions.get_weather:{start + k}", "{" + ", ".join(members) + "}"))
    return Truth([*said, *(section(*calls) if calls else []), END], scenario.thinking, prompt_tokens=30)


Twist = Callable[[Answer], Answer]
Rewrite = Callable[[Json], Json]


@dataclass(frozen=True, slots=True)
class Host:
    """A preset, and what its answers go through before they are sent; `parses` False leaves tool sections as text."""

    preset: Preset
    twist: Twist = lambda said: said
    rewrite: Rewrite = lambda value: value
    parses: bool = True


def record(host: Host, seed: int, nonce: int = 0, scenarios: Sequence[Scenario] = SCENARIOS) -> dict[str, Exchange]:
    """A recording of each scenario; equal seeds sample the same, `nonce` is what ids of answers are made from."""
    tag = f"{host.preset.name}/int4"
    truths = {s.name: sampled(s, random.Random(f"{seed} {s.name}")) for s in scenarios}
    app = ChangingEmulator(
        answers=lambda request: truths[request["messages"][-1]["content"]],
        token_bytes=load_vocab().token_bytes,
        clock=lambda: 1_800_000_000.0 + nonce,
        rng=random.Random(nonce),
        endpoints=[Endpoint(tag, host.preset)],
    )
    app.host = host
    made = {}
    for scenario in scenarios:
        request = scenario.request(tag)
        reply = emulator_kit.chat(app, request)
        key = f"{host.preset.name}/{scenario.name.replace(' ', '-')}"
        made[key] = Exchange(key, emulator_kit.whole(reply), request)
    return made


class ChangingEmulator(Emulator):
    """The emulator with a host's twist and rewriting between answer and wire."""

    host: Host

    def _answer(self, request: Mapping[str, Any], offer: Any, truth: Truth, fault: Any) -> Reply:
        asked = request if self.host.parses else {k: v for k, v in request.items() if k != "tools"}
        reply = super()._answer(asked, offer, truth, replace(fault, said=self.host.twist))
        return _rewritten(reply, self.host.rewrite)


def _rewritten(reply: Reply, rewrite: Rewrite) -> Reply:
    if reply.headers["content-type"].startswith("application/json"):
        return replace(reply, parts=(dump(rewrite(parsed(reply))),))
    return replace(reply, parts=events([rewrite(event) for event in emulator_kit.events(reply)]))


# --- what hosts change ----------------------------------------------------------------------------------------------


def renumbered(said: Answer) -> Answer:
    """Call ids counted within the answer, whatever index was sampled."""

    def anew(call_id: str, k: int) -> str:
        return f"{call_id.rpartition(':')[0]}:{k}"

    calls = tuple(replace(c, id=anew(c.id, k)) for k, c in enumerate(said.calls))

    def step(s: Step) -> Step:
        return replace(s, calls=tuple(replace(d, id=anew(d.id, d.index) if d.id else d.id) for d in s.calls))

    return replace(said, calls=calls, steps=tuple(map(step, said.steps)))


def stripped(said: Answer) -> Answer:
    """White space before `</think>` gone."""
    steps = list(said.steps)
    last = max((k for k, s in enumerate(steps) if s.reasoning), default=-1)
    if last >= 0:
        steps[last] = replace(steps[last], reasoning=steps[last].reasoning.rstrip())
    return replace(said, reasoning=said.reasoning.rstrip(), steps=tuple(steps))


def leaking(said: Answer) -> Answer:
    """The terminator as text at the end of the content."""
    if said.finish_reason != "stop":
        return said
    end = Step(content="<|im_end|>")
    return replace(said, content=said.content + "<|im_end|>", steps=(*said.steps, end) if said.steps else ())


def reasoning_renamed(value: Json) -> Json:
    """`reasoning` comes as `reasoning_content`, in messages and in deltas."""
    for choice in value["choices"]:
        for part in ("message", "delta"):
            if "reasoning" in choice.get(part, {}):
                choice[part]["reasoning_content"] = choice[part].pop("reasoning")
    return value


def reasoning_lost(value: Json) -> Json:
    """`reasoning` comes under a name that nobody knows."""
    for choice in value["choices"]:
        for part in ("message", "delta"):
            choice.get(part, {}).pop("reasoning_details", None)
            if "reasoning" in choice.get(part, {}):
                choice[part]["thoughts"] = choice[part].pop("reasoning")
    return value


def _preset(**changes: Any) -> Callable[[Host], Host]:
    return lambda host: replace(host, preset=replace(host.preset, **changes))


def _host(**changes: Any) -> Callable[[Host], Host]:
    return lambda host: replace(host, **changes)


PLANTS: Mapping[str, tuple[str, str, Callable[[Host], Host], frozenset[str]]] = {
    # what changed: (aspect, the new value that has to be told, the change, presets that always did it)
    "ids minted": ("call_id", "minted", _preset(call_id="minted"), frozenset({"together"})),
    "call index rewritten": ("call_index", "", _host(twist=renumbered), frozenset({"together"})),
    "arguments re-serialised": (
        "arguments",
        "compact",
        _preset(arguments="compact"),
        frozenset({"together", "siliconflow"}),
    ),
    "terminator no longer billed": (
        "terminator_billed",
        "no",
        _preset(terminator_billed=False),
        frozenset({"siliconflow"}),
    ),
    "<think> billed": ("think_billed", "yes", _preset(think_billed=True), frozenset({"moonshotai", "atlas-cloud"})),
    "whitespace before </think> stripped": ("reasoning_end", "lost", _host(twist=stripped), frozenset()),
    "reasoning renamed": ("fields", "reasoning_content", _host(rewrite=reasoning_renamed), frozenset()),
    "tool section left raw in content": ("raw_sections", "shown", _host(parses=False), frozenset()),
    "special tokens leaking": ("control_ids", "shown: <|im_end|>", _host(twist=leaking), frozenset()),
    "chunks merged": ("chunk_size", "tokens a chunk", _preset(merge=4), frozenset({"fireworks"})),
}
"""The ten changes by their names."""
HOSTS = ("moonshotai", "fireworks", "chutes", "atlas-cloud", "together", "siliconflow")


def plain(name: str) -> Host:
    """The host of a preset as it is."""
    return Host(PRESETS[name])


__all__ = ["HOSTS", "PLANTS", "SCENARIOS", "Host", "ToolCall", "plain", "record"]
