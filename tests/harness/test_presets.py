"""presets, preset_table, the stacks and the coercion: ids -> answer, against hand-written values and real engines."""

from collections.abc import Mapping
from typing import Any

import pytest

from harness.coercion import coerce_arguments
from harness.encoder import encode_ordinary, load_vocab
from harness.errors import SetupError
from harness.preset_table import LEFT_OUT, PRESETS, find_preset
from harness.presets import ARGUMENTS, CALL_IDS, REASONING_TOKENS, STACKS, Answer, answer, merged
from harness.stacks import CallDelta, Step, fold, spell_whole, spell_words
from harness.types import Usage
from harness.vocab import CONTROL_IDS
from tests import report_emulator

TH, TE = CONTROL_IDS["<think>"], CONTROL_IDS["</think>"]
SB, SE = CONTROL_IDS["<|tool_calls_section_begin|>"], CONTROL_IDS["<|tool_calls_section_end|>"]
CB, CA, CE = (CONTROL_IDS[f"<|tool_call_{n}|>"] for n in ("begin", "argument_begin", "end"))
END, USER, PAD, BOS = (CONTROL_IDS[n] for n in ("<|im_end|>", "<|im_user|>", "<|media_pad|>", "[BOS]"))
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "save", "parameters": {"properties": {"a": {"type": "string"}}}}},
]
Call = tuple[str, str, str]


def ids(*parts: str | int | bytes) -> list[int]:
    """Ids of these parts: text in canonical tokens, a control id, or the bytes of one token."""
    vocab, made = load_vocab(), list[int]()
    for part in parts:
        if isinstance(part, bytes):
            found = vocab.find(part)
            assert found is not None, part
            made.append(found)
        else:
            made += [part] if isinstance(part, int) else encode_ordinary(part)
    return made


def section(*calls: tuple[str, str]) -> list[int]:
    """The ids of a whole tool section."""
    return [SB, *(i for header, arguments in calls for i in ids(CB, header, CA, arguments, CE)), SE]


def said(true_ids: list[int], preset: str, thinking: bool = True, **request: Any) -> Answer:
    """What a preset answers; `tools=True` declares two tools."""
    if request.pop("tools", False):
        request["tools"] = TOOLS
    return answer(true_ids, request, thinking, PRESETS[preset], load_vocab().token_bytes, prompt_tokens=10)


def calls(said: Answer) -> tuple[Call, ...]:
    return tuple((c.id, c.name, c.arguments) for c in said.calls)


def shown(said: Answer) -> tuple[str, str, tuple[Call, ...], str]:
    return said.reasoning, said.content, calls(said), said.finish_reason


PLAIN = ids("I think.", TE, "Hi there!", END)
CALLING = ids("Look.", TE) + section(("functions.get_weather:2", '{"city": "Oslo", "b": 1}')) + [END]
N_PLAIN, N_CALLING = len(PLAIN), len(CALLING)
NATIVE = ("functions.get_weather:2", "get_weather", '{"city": "Oslo", "b": 1}')
SHORT = ("get_weather:2", "get_weather", '{"city": "Oslo", "b": 1}')
COMPACT = ("functions.get_weather:2", "get_weather", '{"city":"Oslo","b":1}')
SORTED = ("functions.get_weather:2", "get_weather", '{"b":1,"city":"Oslo"}')
MINTED = ("call_2d2afe2a43e9d1dc1d4bbd92", "get_weather", '{"city":"Oslo","b":1}')
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
    "chutes": ((10, N_PLAIN, 3), (10, N_CALLING, 2), NATIVE),
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


BROKEN = ids("B.", TE) + section(("functions.save:0", '"text"')) + [END]
UNCLOSED = ids("B.", TE, "T ", SB, CB, "functions.save:0", CA, '{"a": "y"}', END)
TWO = ids("B.", TE, "A") + section(("functions.save:0", "{}")) + ids("mid")
TWO += section(("functions.save:1", '{"a": "2"}')) + ids("C", END)
LITERAL = ids("The tag ", b"</", b"think", b">", " ends.", TE, "Got <|im_end|>.", END)
HEADERLESS = ids("B.", TE) + section(("save", '{"a": "9"}')) + [END]
BARE = ids("B.", TE) + section(("3", '{"a": "q"}')) + [END]
SPACED = ids("\nR.\n", TE, "\n\n") + section((" functions.save:7 ", ' {"a": "1"} ')) + [END]
S0, S1 = ("functions.save:0", "save"), ("functions.save:1", "save")
# (stack, stream, ids, with tools) -> (reasoning, content, calls, finish): the table "What happens" of the recordings.
ODD: list[tuple[str, bool, list[int], bool, tuple[str, str, tuple[Call, ...], str]]] = [
    ("vllm-0.32", False, SPACED, True, ("\nR.", "", (("functions.save:7", "save", '{"a": "1"}'),), "tool_calls")),
    ("vllm-0.32", True, SPACED, True, ("\nR.", "", (("functions.save:7", "save", ' {"a": "1"} '),), "tool_calls")),
    ("sglang-0.5.23", False, SPACED, True, ("\nR.\n", "\n\n", ((*S0, '{"a": "1"}'),), "tool_calls")),
    ("sglang-0.5.23", True, SPACED, True, ("\nR.\n", "\n\n", ((*S0, ' {"a": "1"} '),), "tool_calls")),
    ("chutes", False, SPACED, True, ("\nR.\n", "\n\n", (("functions.save:7", "save", ' {"a": "1"} '),), "tool_calls")),
    ("vllm-0.32", False, ids("\n\n", TE, "X", END), True, ("", "X", (), "stop")),
    ("vllm-0.32", True, ids("\n\n", TE, "X", END), True, ("", "X", (), "stop")),
    ("vllm-0.32", False, BROKEN, True, ("B.", "", ((*S0, '"text"'),), "tool_calls")),
    ("sglang-0.5.23", False, BROKEN, True, ("B.", "", (), "stop")),
    ("sglang-0.5.23", True, BROKEN, True, ("B.", "", ((*S0, '"text"'),), "tool_calls")),
    ("sglang-0.5.23", False, UNCLOSED, True, ("B.", "T ", (), "stop")),
    ("sglang-0.5.23", True, UNCLOSED, True, ("B.", "T ", ((*S0, '{"a": "y"}'),), "tool_calls")),
    ("vllm-0.32", False, UNCLOSED, True, ("B.", "T ", ((*S0, '{"a": "y"}'),), "tool_calls")),
    ("vllm-0.32", False, TWO, True, ("B.", "A", ((*S0, "{}"), (*S1, '{"a": "2"}')), "tool_calls")),
    ("vllm-0.32", True, TWO, True, ("B.", "A", ((*S0, "{}"), (*S1, '{"a": "2"}')), "tool_calls")),
    ("sglang-0.5.23", False, TWO, True, ("B.", "A", ((*S0, "{}"), (*S1, '{"a": "2"}')), "tool_calls")),
    ("sglang-0.5.23", True, TWO, True, ("B.", "AmidC", ((*S0, "{}"), (*S1, '{"a": "2"}')), "tool_calls")),
    ("vllm-0.32", False, CALLING, False, ("Look.", "", (), "stop")),
    ("vllm-0.32", False, HEADERLESS, True, ("B.", "", (), "stop")),
    ("vllm-0.32", True, HEADERLESS, True, ("B.", "", (), "stop")),
    ("sglang-0.5.23", False, HEADERLESS, True, ("B.", "", (), "stop")),
    ("sglang-0.5.23", False, BARE, True, ("B.", "", ((*S0, '{"a": "q"}'),), "tool_calls")),
    ("sglang-0.5.23", True, BARE, True, ("B.", "", ((*S0, '{"a": "q"}'),), "tool_calls")),
    ("vllm-0.32", False, LITERAL, True, ("The tag", " ends.Got .", (), "stop")),
    ("vllm-0.32", True, LITERAL, True, ("The tag </think> ends.", "Got <|im_end|>.", (), "stop")),
    ("sglang-0.5.23", False, LITERAL, True, ("The tag ", " ends.</think>Got <|im_end|>.", (), "stop")),
    ("sglang-0.5.23", True, LITERAL, True, ("The tag ", " ends.</think>Got <|im_end|>.", (), "stop")),
    ("vllm-0.32", False, ids("R", TE, "A", TE, "B", END), True, ("R", "AB", (), "stop")),
    ("sglang-0.5.23", False, ids("R", TE, "A", TE, "B", END), True, ("R", "A</think>B", (), "stop")),
    ("sglang-0.5.23", False, ids(TH, "R", TE, "A", END), True, ("R", "A", (), "stop")),
    ("sglang-0.5.23", True, ids(TH, "R", TE, "A", END), True, ("R", "A", (), "stop")),
    ("vllm-0.32", False, ids("R", TE, "A", USER, PAD, END), True, ("R", "A<|im_user|><|media_pad|>", (), "stop")),
    ("vllm-0.32", True, ids("R", TE, "A", BOS, "B", END), True, ("R", "AB", (), "stop")),
    ("sglang-0.5.23", False, ids("R", TE, "A", USER, PAD, END), False, ("R", "A<|media_pad|>", (), "stop")),
    ("sglang-0.5.23", False, ids("R", TE, "A", USER, PAD, END), True, ("R", "A<|im_user|><|media_pad|>", (), "stop")),
    ("vllm-0.32", False, ids("R", TE, "X", b"\xff", "Z", END), True, ("R", "X�Z", (), "stop")),
    ("vllm-0.32", True, ids("R", TE, "X", b"\xff", END), True, ("R", "X", (), "stop")),
    ("sglang-0.5.23", True, ids("R", TE, "X", b"\xff", END), True, ("R", "X�", (), "stop")),
    ("vllm-0.32", False, ids("I just stop.", END), True, ("I just stop.", "", (), "stop")),
    ("vllm-0.32", False, ids("R.", *section(("functions.save:0", "{}")), END), True, ("R.", "", ((*S0, "{}"),), "tool_calls")),
    ("sglang-0.5.23", False, ids("R.", *section(("functions.save:0", "{}")), END), True, ("R.", "", ((*S0, "{}"),), "tool_calls")),
    ("sglang-0.5.23", False, ids("R", TE, CB, "functions.save:0", CA, "{}", CE, END), True, ("R", "<|tool_call_begin|>functions.save:0<|tool_call_argument_begin|>{}<|tool_call_end|>", (), "stop")),
    ("sglang-0.5.23", True, ids("R", TE, CB, "functions.save:0", CA, "{}", CE, END), True, ("R", "", ((*S0, "{}"),), "tool_calls")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "stream", "true_ids", "tools", "want"), ODD)
def test_odd_outputs_come_out_as_the_stack_makes_them(
    name: str, stream: bool, true_ids: list[int], tools: bool, want: tuple[str, str, tuple[Call, ...], str]
) -> None:
    """White space, malformed calls, second sections, literal markers, other control ids and invalid UTF-8."""
    assert shown(said(true_ids, name, tools=tools, stream=stream)) == want


def test_thinking_off_leaves_a_sampled_close_in_vllms_content() -> None:
    """With thinking off `</think>` is no marker, and no token counts as reasoning."""
    got = said(ids("A", TE, "B", END), "vllm-0.32", thinking=False)
    assert (*shown(got), got.usage.reasoning_tokens) == ("", "A</think>B", (), "stop", 0)


def test_a_cut_header_gets_an_invented_id_and_the_reason_tool_calls() -> None:
    """vLLM, whole: a call without its index is named after all that was sampled; streamed the reason is length."""
    cut = ids("R.", TE, SB, CB, "functions.get")
    whole = said(cut, "vllm-0.32", tools=True, max_tokens=len(cut))
    assert (whole.calls[0].name, whole.calls[0].arguments, whole.finish_reason) == ("functions.get", "{}", "tool_calls")
    assert whole.calls[0].id.startswith("chatcmpl-tool-")
    streamed = said(cut, "vllm-0.32", tools=True, stream=True, max_tokens=len(cut))
    assert (streamed.calls[0].arguments, streamed.finish_reason) == ("", "length")


def test_tool_choice_none_keeps_white_space_that_tools_would_drop() -> None:
    """vLLM begins no call then, so the content in front of the section stays as it is."""
    got = said(SPACED, "vllm-0.32", tools=True, tool_choice="none")
    assert shown(got) == ("\nR.", "\n\n", (), "stop")
    assert said(SPACED, "vllm-0.32").content == ""


def test_sglang_counts_the_calls_of_the_conversation() -> None:
    """The index of a call goes on from the calls in the history."""
    history = [{"role": "assistant", "tool_calls": [{}, {}]}, {"role": "user", "content": "go on"}]
    assert said(CALLING, "sglang-0.5.23", tools=True, messages=history).calls[0].id == "functions.get_weather:2"


def test_a_stream_undercounts_split_characters_and_a_body_does_not() -> None:
    """vLLM counts the tokens that showed text: of a character in three tokens, one."""
    split = ids("Hi ", b"\xf0\x9f", b"\x98", b"\x80", TE, "A", END)
    assert said(split, "vllm-0.32").usage.reasoning_tokens == 5
    assert said(split, "vllm-0.32", stream=True).usage.reasoning_tokens == 3


def test_two_ways_to_spell_split_characters() -> None:
    """One holds the whole token back, the other shows what stands in front of the last space; only one shows a rest."""
    pieces = [b"a", b" b \xf0\x9f", b"\x98\x80", b"c\xff"]
    assert spell_whole(pieces) == ["a", "", " b \U0001f600", ""]
    assert spell_words(pieces) == ["a", " b ", "\U0001f600", "c�"]
    assert spell_words(["你".encode() + b"\xe4", b"\xbd\xa0"]) == ["你", "你"]


COERCED = [
    ({"type": "string"}, '{"k": 1}', '{"k": "1"}'),
    ({"type": "string"}, '{"k":"1"}', '{"k":"1"}'),
    ({"type": "integer"}, '{"k":"3"}', '{"k": 3}'),
    ({"type": "integer"}, '{"k":"x"}', '{"k":"x"}'),
    ({"type": "number"}, '{"k":1.0}', '{"k": 1}'),
    ({"type": "number"}, '{"k":1.5}', '{"k":1.5}'),
    ({"type": "boolean"}, '{"k":"True"}', '{"k": true}'),
    ({"type": ["string", "null"]}, '{"k":null}', '{"k":null}'),
    ({"type": "bool"}, '{"k":0}', '{"k": false}'),
    ({"type": "object"}, '{"k":"{\\"a\\": 1}"}', '{"k": {"a": 1}}'),
    ({"type": "array", "items": {"type": "string"}}, '{"k":[1,"b"]}', '{"k": ["1", "b"]}'),
    ({"properties": {"x": {"type": "string"}}}, '{"k":{"x":1}}', '{"k": {"x": "1"}}'),
    ({"enum": [1, 2]}, '{"k":"2"}', '{"k": 2}'),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, '{"k":"null"}', '{"k": null}'),
    ({}, '{"k":2}', '{"k": "2"}'),
    ({"type": "string"}, '{"k": 1,,', '{"k": 1,,'),
    ({"type": "string"}, "[1]", "[1]"),
    ({"type": "string"}, '{"other":1}', '{"other":1}'),
    ({"type": "number"}, '{"k":"1e999"}', '{"k":"1e999"}'),
]


@pytest.mark.parametrize(("schema", "arguments", "want"), COERCED)
def test_arguments_are_written_anew_only_where_a_value_changes(schema: dict[str, Any], arguments: str, want: str) -> None:
    """The declared type wins where the value can be read as it; else the text stays byte for byte."""
    tools = [{"name": "f", "parameters": {"properties": {"k": schema}}}]
    assert coerce_arguments(arguments, "f", tools) == want
    assert coerce_arguments(arguments, "g", tools) == arguments


@pytest.mark.shared
@pytest.mark.parametrize("label", report_emulator.ENGINES)
def test_the_recorded_stacks_answer_as_they_were_recorded(shared: Any, label: str) -> None:
    """Fed the recorded ids and request, all recordings come out: texts, calls, finish, usage, chunk boundaries."""
    n, same, misses = report_emulator.compare(shared, label)
    assert misses == []
    assert (n, same) == {
        "vllm main": (312, 312),
        "vllm main_trunc": (594, 594),
        "sglang B_realflags": (120, 119),
    }[label]


@pytest.mark.shared
def test_parity_tells_the_stacks_apart(shared: Any) -> None:
    """Held to the other stack's recordings a preset fails most of them, so the comparison can fail."""
    records = list(report_emulator.records(shared, "vllm main"))
    agree = sum(
        not report_emulator.differences(
            report_emulator.seen(report_emulator.emulated(r, "sglang-0.5.23")), report_emulator.seen(r["response"])
        )
        for r in records
    )
    assert (len(records), agree < 100) == (312, True)
