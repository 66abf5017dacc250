"""presets and preset_table: what each provider says and bills, against hand-written values and real engines."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.preset_table import LEFT_OUT, PRESETS, find_preset
from harness.presets import ARGUMENTS, CALL_IDS, REASONING_TOKENS, STACKS, merged
from harness.stacks import CallDelta, Step, fold
from harness.types import Usage
from tests import report_emulator
from tests.emulator_kit import CALLING, END, PLAIN, TE, Call, ids, said, shown

N_PLAIN, N_CALLING = len(PLAIN), len(CALLING)
NATIVE = ("functions.get_weather:2", "get_weather", '{"city": "Oslo", "b": 1}')
SHORT = ("get_weather:2", "get_weather", '{"city": "Oslo", "b": 1}')
COMPACT = ("functions.get_weather:2", "get_weather", '{"city":"Oslo","b":1}')
SORTED = ("functions.get_weather:2", "get_weather", '{"b":1,"city":"Oslo"}')
MINTED = ("call_06c901ba18e7c2418ebcfc5e", "get_weather", '{"city":"Oslo","b":1}')
# preset -> (prompt, completion and reasoning tokens of PLAIN; the same of CALLING; its call)
BILLS: Mapping[str, tuple[tuple[int, int, int | None], tuple[int, int, int | None], Call]] = {
    "vllm-0.32": ((10, N_PLAIN, 3), (10, N_CALLING, 2), NATIVE),
    "sglang-0.5.23": ((10, N_PLAIN, 4), (10, N_CALLING, 3), ("functions.get_weather:0", *NATIVE[1:])),
    "moonshotai": ((9, N_PLAIN + 1, 2), (9, N_CALLING, 1), SHORT),
    "novita": ((10, N_PLAIN, None), (10, N_CALLING - 1, None), SHORT),
    "fireworks": ((10, N_PLAIN, None), (10, N_CALLING, None), NATIVE),
    "parasail": ((10, N_PLAIN, None), (10, N_CALLING, None), NATIVE),
    "wandb": ((10, N_PLAIN, None), (10, N_CALLING, None), NATIVE),
    "baseten": ((10, N_PLAIN, None), (10, N_CALLING, None), NATIVE),
    "chutes": ((10, N_PLAIN, 4), (10, N_CALLING, 3), NATIVE),
    "atlas-cloud": ((9, N_PLAIN + 1, 2), (9, N_CALLING, 1), NATIVE),
    "atlas-cloud-k2": ((10, N_PLAIN, None), (10, N_CALLING, None), NATIVE),
    "together": ((10, N_PLAIN, None), (10, N_CALLING, None), MINTED),
    "groq": ((10, N_PLAIN, None), (10, N_CALLING, None), COMPACT),
    "siliconflow": ((10, N_PLAIN - 1, None), (10, N_CALLING - 1, None), SORTED),
}


def test_every_preset_has_a_row_here() -> None:
    """The hand-written table covers exactly the presets that ship."""
    assert set(BILLS) == set(PRESETS)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", BILLS)
def test_a_preset_bills_and_spells_as_its_row_says(name: str, stream: bool) -> None:
    """A plain answer and one with a call: text, call, finish reason and the three counts, whole and streamed."""
    plain, calling, call = BILLS[name]
    for true_ids, bill, want in (
        (PLAIN, plain, ("I think.", "Hi there!", (), "stop")),
        (CALLING, calling, ("Look.", "", (call,), "tool_calls")),
    ):
        got = said(true_ids, name, tools=True, stream=stream)
        assert shown(got) == want
        assert got.usage == Usage(bill[0], bill[1], bill[0] + bill[1], bill[2])
        assert bool(got.steps) == stream


@pytest.mark.parametrize("name", BILLS)
def test_the_steps_of_a_stream_are_the_answer(name: str) -> None:
    """Put together, the steps give the answer and their ids are the true ids, with a call and with none."""
    for true_ids in (PLAIN, CALLING):
        got = said(true_ids, name, tools=True, stream=True)
        assert fold(got.steps) == (got.reasoning, got.content, got.calls)
        assert tuple(i for step in got.steps for i in step.ids) == got.ids


@pytest.mark.parametrize("name", BILLS)
def test_sampling_ends_where_the_provider_ends_it(name: str) -> None:
    """After a tool section some providers sample no terminator; after text all do. The truth says so."""
    ends = not PRESETS[name].call_terminator
    assert list(said(CALLING, name, tools=True).ids) == (CALLING[:-1] if ends else CALLING)
    assert list(said(PLAIN, name, tools=True).ids) == PLAIN


def test_all_traits_are_known_and_the_rows_left_out_name_their_missing_fact() -> None:
    """Every trait of a preset is a key of its table; no provider is both in and out."""
    for preset in PRESETS.values():
        assert preset.stack in STACKS
        assert preset.call_id in CALL_IDS
        assert preset.arguments in ARGUMENTS
        assert preset.reasoning_tokens in REASONING_TOKENS
        assert preset.reports in ("", "vllm", "sglang")
    assert not {p.provider for p in PRESETS.values()} & set(LEFT_OUT)
    assert all(LEFT_OUT.values())


def test_an_unknown_preset_is_an_error_that_lists_the_known_and_the_missing() -> None:
    """DeepInfra has none, and the error says why."""
    with pytest.raises(SetupError, match=r"no preset 'deepinfra'.*chutes.*DeepInfra \(offset of tool calls"):
        find_preset("deepinfra")


def test_max_tokens_cuts_the_ids_and_names_length() -> None:
    """The first three ids remain; a limit that ends just behind the terminator cuts nothing."""
    got = said(PLAIN, "chutes", max_tokens=3)
    assert (list(got.ids), *shown(got)) == (PLAIN[:3], "I think.", "", (), "length")
    assert got.usage.completion_tokens == 3
    assert said(PLAIN, "chutes", max_tokens=N_PLAIN).finish_reason == "stop"
    assert said(PLAIN, "chutes", max_completion_tokens=4).finish_reason == "length"


def test_providers_show_a_section_as_text_where_no_tools_are_declared() -> None:
    """Without `tools` the raw markers come in content and tool_calls is empty."""
    got = said(CALLING, "chutes")
    assert got.content == (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:2<|tool_call_argument_begin|>"
        '{"city": "Oslo", "b": 1}<|tool_call_end|><|tool_calls_section_end|>'
    )
    assert (got.calls, got.finish_reason) == ((), "stop")


def test_rewritten_arguments_come_in_one_chunk_and_sampled_ones_token_by_token() -> None:
    """Groq dumps the arguments anew; at Chutes the chunks are the sampled tokens."""
    texts = {
        name: [d.arguments for s in said(CALLING, name, tools=True, stream=True).steps for d in s.calls]
        for name in ("groq", "chutes")
    }
    assert texts["groq"] == ["", '{"city":"Oslo","b":1}']
    assert texts["chutes"] == ["", '{"', "city", '":', ' "', "Os", "lo", '",', ' "', "b", '":', " ", "1", "}"]


def test_merged_chunks_join_neighbours_of_one_channel_only() -> None:
    """Up to three tokens a chunk, never across the end of the reasoning, and all ids are kept."""
    got = said(ids("One two three four.", TE, "Five six.", END), "fireworks", stream=True)
    assert [(s.reasoning, s.content) for s in got.steps if s.shows] == [
        ("One two three", ""),
        (" four.", ""),
        ("", "Five six."),
    ]
    steps = (Step(calls=(CallDelta(0, "a"),)), Step(calls=(CallDelta(0, "b"),)), Step(calls=(CallDelta(1, "c"),)))
    assert merged(steps, 3) == (Step(calls=(CallDelta(0, "ab"),)), Step(calls=(CallDelta(1, "c"),)))


@pytest.mark.shared
@pytest.mark.parametrize("label", report_emulator.ENGINES)
def test_the_recorded_stacks_answer_as_they_were_recorded(shared: Path, label: str) -> None:
    """Fed the recorded ids and request, all recordings come out: texts, calls, finish, usage, chunk boundaries."""
    n, same, misses = report_emulator.compare(shared, label)
    assert misses == []
    assert (n, same) == {
        "vllm main": (312, 312),
        "vllm main_trunc": (594, 594),
        "sglang B_realflags": (120, 119),
    }[label]


@pytest.mark.shared
def test_parity_tells_the_stacks_apart(shared: Path) -> None:
    """Held to the other stack's recordings a preset fails most of them, so the comparison can fail."""
    records = list(report_emulator.records(shared, "vllm main"))
    agree = sum(
        not report_emulator.differences(
            report_emulator.seen(report_emulator.emulated(r, "sglang-0.5.23")), report_emulator.seen(r["response"])
        )
        for r in records
    )
    assert (len(records), agree < 100) == (312, True)
