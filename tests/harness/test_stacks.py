"""stacks, stack_vllm, stack_sglang, stack_plain: what happens to odd outputs, the table of what was recorded."""

import pytest

from harness.stacks import spell_whole, spell_words
from tests.emulator_kit import (
    BOS,
    CA,
    CALLING,
    CB,
    CE,
    END,
    PAD,
    SB,
    SE,
    TE,
    TH,
    USER,
    Call,
    ids,
    said,
    section,
    shown,
)

BROKEN = ids("B.", TE) + section(("functions.save:0", '"text"')) + [END]
UNCLOSED = ids("B.", TE, "T ", SB, CB, "functions.save:0", CA, '{"a": "y"}', END)
TWO = ids("B.", TE, "A") + section(("functions.save:0", "{}")) + ids("mid")
TWO += section(("functions.save:1", '{"a": "2"}')) + ids("C", END)
LITERAL = ids("The tag ", b"</", b"think", b">", " ends.", TE, "Got <|im_end|>.", END)
HEADERLESS = ids("B.", TE) + section(("save", '{"a": "9"}')) + [END]
BARE = ids("B.", TE) + section(("3", '{"a": "q"}')) + [END]
SPACED = ids("\nR.\n", TE, "\n\n") + section((" functions.save:7 ", ' {"a": "1"} ')) + [END]
RUSHED = ids("R.") + section(("functions.save:0", "{}")) + [END]
BAREFOOT = ids("R", TE, CB, "functions.save:0", CA, "{}", CE, END)
RAW = "<|tool_call_begin|>functions.save:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
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
    ("vllm-0.32", False, RUSHED, True, ("R.", "", ((*S0, "{}"),), "tool_calls")),
    ("sglang-0.5.23", False, RUSHED, True, ("R.", "", ((*S0, "{}"),), "tool_calls")),
    ("sglang-0.5.23", False, BAREFOOT, True, ("R", RAW, (), "stop")),
    ("sglang-0.5.23", True, BAREFOOT, True, ("R", "", ((*S0, "{}"),), "tool_calls")),
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


def test_vllm_keeps_a_closing_bracket_until_more_comes() -> None:
    """The bracket that closes the outermost level comes with the end of the call, an inner one with its own token."""
    nested = ids(TE, SB, CB, "functions.save:0", CA, b'{"', b"a", b'":', b"{", b"}", b"}", CE, SE, END)
    steps = said(nested, "vllm-0.32", tools=True, stream=True).steps
    shown_by = [(step.ids[0], "".join(d.arguments for d in step.calls)) for step in steps if step.calls]
    inner, outer = ids(b"{", b"}")
    assert shown_by[-3:] == [(inner, "{"), (outer, "}"), (CE, "}")]


def test_vllm_shows_what_was_held_as_the_start_of_a_marker() -> None:
    """`<` may begin a marker: it comes with the next token, or with the end."""
    steps = said(ids(TE, "a", b"<", "b", b"<", END), "vllm-0.32", stream=True).steps
    assert [s.content for s in steps if s.content] == ["a", "<b", "<"]


def test_half_a_character_in_front_of_a_marker_is_replaced_before_it() -> None:
    """The replacement belongs to the text that the character began in, at every stack."""
    true_ids = ids("R", b"\xe4", TE, "A", END)
    for name in ("vllm-0.32", "sglang-0.5.23", "chutes"):
        for stream in (False, True):
            assert shown(said(true_ids, name, stream=stream))[:2] == ("R�", "A"), (name, stream)
