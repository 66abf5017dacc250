"""Single deviations that once got through, each with its kin: what a stranger found, and what looks like it.

Each is a draw at a host; no accepted answer may hold an unmasked id that was not sampled.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.flow import judge
from harness.preset_table import PRESETS
from harness.types import Exchange
from harness.vocab import CONTROL_IDS
from tests.corpus import differs, kit
from tests.grammar_parts import CA, CB, CE, END, SB, SE, TE, TH, Deviation, Draw, Part
from tests.trials import MODELS, Judged, Trial, ended, run, speak

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = tuple(
    {"type": "function", "function": {"name": name, "parameters": PARAMETERS}}
    for name in ("get_weather", "lookup_Thiruvananthapuram")
)
TALK: Mapping[str, Part] = {"reasoning": "The user says hi.", "close": TE, "content": "Hello.", "end": END}
CALL: Mapping[str, Part] = {
    **{"reasoning": "I call it now, since somebody has to.", "close": TE, "section": SB, "call:0": CB},
    **{"header:0": "functions.get_weather:0", "middle:0": CA, "arguments:0": '{"city": "Paris"}'},
    **{"call_end:0": CE, "section_end": SE, "end": END},
}
BOS, PAD = CONTROL_IDS["[BOS]"], CONTROL_IDS["[PAD]"]
STACKS = ("vllm-0.32", "sglang-0.5.23")


def at(
    preset: str,
    slots: Mapping[str, Part],
    *deviations: Deviation,
    tools: bool = False,
    asked: Mapping[str, Any] | None = None,
    model: str = "kimi-k2.5",
    **more: Any,
) -> Judged:
    """What becomes of a draw at a host."""
    request = {
        "messages": [{"role": "user", "content": "Hi"}],
        **({"tools": [*TOOLS]} if tools else {}),
        **(asked or {}),
    }
    return run(Trial(Draw(MODELS[model], True, slots, deviations, request), PRESETS[preset], **more))


def inside(slot: str, control: int, place: float) -> Deviation:
    """A control id within a slot."""
    return Deviation("stray", slot, "inside", (control,), place)


@pytest.mark.parametrize("tools", [False, True], ids=["plain", "tools"])
@pytest.mark.parametrize("preset", STACKS)
def test_a_swallowed_think_anywhere_in_reasoning(preset: str, tools: bool) -> None:
    """Streams of SGLang lose the first `<think>` wherever it stands."""
    for k in range(17):
        for stream in (False, True):
            assert at(preset, TALK, inside("reasoning", TH, k / 17), tools=tools, stream=stream).fault == "", k


@pytest.mark.parametrize(
    ("slot", "text"),
    [
        ("arguments:0", '{"city": "Samantha"}'),
        ("arguments:0", '{"city":"[Janet"}'),
        ("header:0", "functions.lookup_Thiruvananthapuram:0"),
        ("header:0", "functions.get_weather:0"),
    ],
)
@pytest.mark.parametrize("preset", STACKS)
def test_a_control_id_anywhere_in_a_call(preset: str, slot: str, text: str) -> None:
    """A stack that looks for calls id by id drops some of them there too."""
    for k in range(len(text)):
        for control in (BOS, CB) if slot == "header:0" else (BOS, PAD):
            for stream in (False, True):
                judged = at(
                    preset, {**CALL, slot: text}, inside(slot, control, k / len(text)), tools=True, stream=stream
                )
                assert judged.fault == "", (k, control)


@pytest.mark.parametrize("asked", [{}, {"tools": [*TOOLS], "tool_choice": "none"}], ids=["no-tools", "none"])
@pytest.mark.parametrize("preset", STACKS)
def test_a_control_id_in_a_section_that_came_as_text(preset: str, asked: Mapping[str, Any]) -> None:
    """A host that drops special ids drops them within a raw section as well."""
    text = '{"city": "Samantha"}'
    for k in range(len(text)):
        judged = at(preset, {**CALL, "arguments:0": text}, inside("arguments:0", BOS, k / len(text)), asked=asked)
        assert judged.fault == "", k


@pytest.mark.parametrize("sign", ["#", ".", "_", "=", "~", "/", "\\", "-*", " \t", "\r\n"])
@pytest.mark.parametrize("preset", STACKS)
def test_a_control_id_in_a_long_run_of_one_sign(preset: str, sign: str) -> None:
    """Runs are spelled by their length, so a cut changes ids that stand far away."""
    for n in (40, 68, 131, 300):
        text = (
            f"Here it is, the line that was asked for by the one who reads this, as it stands:\n# {sign * n}\nimport os"
        )
        for k in range(82, len(text) - 10, 1 + n // 20):
            assert at(preset, {**TALK, "content": text}, inside("content", TE, k / len(text))).fault == "", (n, k)


@pytest.mark.parametrize("called", [False, True], ids=["text", "call"])
def test_an_opening_that_was_left_out(called: bool) -> None:
    """Where the model samples `<think>` too, a count that lacks one id does not say which of the two it was."""
    slots: dict[str, Part] = {"open": TH, **(CALL if called else {**TALK, "content": ""})}
    for stream in (False, True):
        left_out = Deviation("no open", "open", "instead")
        judged = at("chutes", slots, left_out, tools=called, model="kimi-k2-thinking", habits="told", stream=stream)
        assert judged.fault == ""


@pytest.mark.parametrize("preset", [*STACKS, "wandb", "parasail"])
def test_a_plain_answer_cut_anywhere(preset: str) -> None:
    """max_tokens cuts between two blanks of which the second begins the next word: no deviation at all."""
    for text in ("A table: \t 2026", "x = 1\n\n    y = 2", "one  two \n three", "a\r\n \u3000 b"):
        for limit in range(1, 14):
            for stream in (False, True):
                assert at(preset, {**TALK, "content": text}, limit=limit, stream=stream, habits="told").fault == ""


def cut_elsewhere(response: Sequence[dict[str, Any]], k: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """The stream with its k-th content chunk cut at each place within."""
    chunk = response[k]
    said = chunk["choices"][0]["delta"].get("content") or ""
    made = []
    for at_ in range(1, len(said)):
        halves = [
            {**chunk, "choices": [{**chunk["choices"][0], "delta": {**chunk["choices"][0]["delta"], "content": part}}]}
            for part in (said[:at_], said[at_:])
        ]
        made.append((said, [*response[:k], *halves, *response[k + 1 :]]))
    return made


@pytest.mark.parametrize("preset", ["fireworks", "wandb", "novita", "vllm-0.32", "sglang-0.5.23"])
def test_one_chunk_that_was_cut_elsewhere_on_its_way(preset: str) -> None:
    """A gateway that splits one chunk shows a split that was never sampled; with as many ids no count tells."""
    slots: Mapping[str, Part] = {"content": "It is 2026 now, and Thiruvananthapuram waits (12345).", "end": END}
    drawn = Draw(MODELS["kimi-k2"], False, slots, (), {"messages": [{"role": "user", "content": "Hi"}]})
    model = "kimi-k2.5" if preset in STACKS else "kimi-k2"
    trial = Trial(replace(drawn, model=MODELS[model]), PRESETS[preset], stream=True)
    judged, truth, n = run(trial), speak(trial).ids, 0
    response = judged.exchange.response
    for k in range(len(response)):
        for _, bent in cut_elsewhere(response, k) if response[k].get("choices") else ():
            exchange: Exchange = replace(judged.exchange, response=bent)
            verdict = judge(exchange, kit(), model=trial.draw.model, provider=PRESETS[preset].provider, blind=True)
            assert differs(ended(verdict, truth), list(truth)) == "", bent[k]
            n += 1
    assert n > 15


@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
@pytest.mark.parametrize("called", [False, True], ids=["text", "call"])
def test_a_reported_end_that_is_none(called: bool, stream: bool) -> None:
    """Ids that vLLM reports are believed, whole and streamed; not with another id in the terminator's place."""
    judged = at("vllm-0.32", CALL if called else TALK, tools=called, witness="ids", stream=stream)
    assert (judged.verdict.name, judged.verdict.ids.ids) == ("exact", list(judged.answer.ids))

    text = json.dumps(judged.exchange.response)
    other = json.loads(text.replace(f"{END}]", f"{CONTROL_IDS['[UNK]']}]"))
    assert other != judged.exchange.response
    verdict = judge(replace(judged.exchange, response=other), kit(), model="kimi-k2.5", provider="vllm-0.32")
    assert verdict.name == "rejected"
    assert verdict.findings[-1].code == "ids-contradict-answer"
