"""readings.py: an answer to every way in which it can have been sampled."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.encoder import encode_ordinary, load_vocab
from harness.formats import Format
from harness.habits import TRAITS
from harness.ids import build
from harness.readings import MAX_MARKERS, MAX_READINGS, SearchBound, modes, readings
from harness.types import Segment, ToolCall, Turn
from tests.harness.chat import K2, K2_THINKING, K25
from tests.harness.segments import shown, told

row = pytest.param

Traits = dict[str, str]
KNOWN = {
    "spaces": "none",
    "terminator_sampled": "yes",
    "call_id": "as-sent",
    "arguments": "as-sent",
    "section_text": "dropped",
    "unclosed_calls": "vanish",
}
CALL = ToolCall("functions.f:0", "f", "{}")
CALLED = ("id-as-sent", "arguments-as-sent")
SECTION = "<calls_section_begin><call_begin>functions.f:0<call_argument_begin>{}<call_end><calls_section_end>"
END = "<im_end>"


def answer(reasoning: str = "", content: str = "", *calls: ToolCall, finish: str = "stop", **fields: Any) -> Turn:
    """A turn of these texts."""
    return Turn(reasoning, content, calls, finish, **fields)


def listed(
    turn: Turn, traits: Traits | None = None, *, fmt: Format = K25, mode: bool = True, rare: bool = False
) -> list[tuple[str, tuple[str, ...], str]]:
    """(text, assumptions, rival) of each reading, with the traits KNOWN beside the given ones."""
    rows = readings(turn, fmt, mode, KNOWN | (traits or {}), rare=rare)
    assert {r.rank for r in rows} <= {int(rare)}
    return told(rows)


MODES = [
    row(K25, None, "", (True, False), id="unknown"),
    row(K25, None, "Hm.", (True,), id="reasoning-came"),
    row(K25, True, "", (True,), id="asked-on"),
    row(K25, False, "", (False,), id="asked-off"),
    row(K25, False, "Hm.", (False,), id="asked-off-though-reasoning-came"),
    row(K2, None, "", (False,), id="a-family-that-never-thinks"),
    row(K2, True, "", (False,), id="whatever-was-asked"),
    row(K2_THINKING, None, "", (True,), id="a-family-that-always-thinks"),
    row(K2_THINKING, False, "", (True,), id="that-neither"),
]


@pytest.mark.parametrize(("fmt", "thinking", "reasoning", "expected"), MODES)
def test_modes(fmt: Format, thinking: bool | None, reasoning: str, expected: tuple[bool, ...]) -> None:
    """What the family has, then what was asked, then what came; else both."""
    assert set(modes(answer(reasoning), fmt, thinking)) == set(expected)


PLAIN = [
    # turn, format, mode, text, assumptions
    row(answer("Hm.", "Yes."), K25, True, f"Hm.</think>Yes.{END}", (), id="reasoning-and-content"),
    row(answer("", "Yes."), K25, True, f"</think>Yes.{END}", ("empty-reasoning",), id="empty-reasoning"),
    row(answer("", "Yes."), K25, False, f"Yes.{END}", (), id="thinking-off"),
    row(answer("", "Yes."), K2, False, f"Yes.{END}", (), id="no-thinking"),
    row(answer("Hm.", "Yes."), K2_THINKING, True, f"<think>Hm.</think>Yes.{END}", (), id="think-is-sampled"),
    row(answer("Hm.", "", CALL), K25, True, f"Hm.</think>{SECTION}{END}", CALLED, id="call"),
    row(answer("Hm.", "So:", CALL), K25, True, f"Hm.</think>So:{SECTION}{END}", CALLED, id="content-and-call"),
    row(answer("Hm."), K25, True, f"Hm.</think>{END}", (), id="all-reasoning"),
    row(answer("Hm.", "Ye", finish="length"), K25, True, "Hm.</think>Ye", ("cut",), id="cut"),
    row(answer("Hm", finish="length"), K25, True, "Hm", ("cut-in-reasoning", "cut"), id="cut-in-reasoning"),
    row(answer("", "Ye", finish="length"), K25, False, "Ye", ("cut",), id="cut-with-thinking-off"),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "fmt", "mode", "text", "assumptions"), PLAIN)
def test_known_traits_give_one_reading(
    turn: Turn, fmt: Format, mode: bool, text: str, assumptions: tuple[str, ...]
) -> None:
    """The grammar of the format, and no guess."""
    assert [r for r in listed(turn, fmt=fmt, mode=mode) if not r[2]] == [(text, assumptions, "")]


def test_the_seven_controls_of_a_call() -> None:
    """The ids of a whole answer with a call, as the format numbers them."""
    [reading] = readings(answer("Hm.", "", CALL), K25, True, KNOWN)

    controls = [s.control for s in reading.segments if s.control >= 0]
    assert controls == [163607, 163595, 163597, 163598, 163599, 163596, 163586]


SAMPLED, INFERRED = Segment(control=K25.terminator), Segment(control=K25.terminator, inferred=True)

ENDINGS = [
    # traits, turn, the terminator, last assumption
    row({"terminator_sampled": "yes"}, answer("", "Hi"), SAMPLED, "empty-reasoning", id="sampled"),
    row({"terminator_sampled": "no"}, answer("", "Hi"), None, "terminator-not-sampled", id="not-sampled"),
    row({}, answer("", "Hi"), SAMPLED, "empty-reasoning", id="a-text-ends-by-itself"),
    row({"terminator_billed": "yes"}, answer("", "", CALL), SAMPLED, "arguments-as-sent", id="billed"),
    row({"terminator_billed": "no"}, answer("", "", CALL), INFERRED, "terminator-inferred", id="not-billed"),
    row({}, answer("", "", CALL), INFERRED, "terminator-inferred", id="unknown-behind-a-call"),
    row({}, answer("", "<|tool_calls_section_begin|>"), INFERRED, "terminator-inferred", id="unknown-behind-a-marker"),
    row({"terminator_sampled": "yes"}, answer("", "Hi", finish="length"), None, "cut", id="cut"),
]


@pytest.mark.parametrize(("traits", "turn", "end", "assumption"), ENDINGS)
def test_the_terminator(traits: Traits, turn: Turn, end: Segment | None, assumption: str) -> None:
    """Sampled, not sampled, or masked where hosts differ: some stop at a section's end."""
    known = {k: v for k, v in KNOWN.items() if k != "terminator_sampled"} | traits
    plain = readings(turn, K25, True, known)[0]

    assert [s for s in plain.segments if s.control == K25.terminator] == ([end] if end else [])
    assert end is None or plain.segments[-1] == end
    assert plain.assumptions[-1] == assumption


def test_a_close_in_content_may_be_the_end_of_the_reasoning() -> None:
    """A host without a reasoning parser leaves all in content: its `</think>` is the one, and none stands first."""
    assert listed(answer("", "foo</think>bar")) == [
        (f"</think>foo</think>bar{END}", ("empty-reasoning", "markers-as-control"), ""),
        (f"</think>foo</think>bar{END}", ("empty-reasoning", "spelled </think>"), "spelled"),
        (f"foo</think>bar{END}", ("close-in-content", "markers-as-control"), ""),
    ]


def test_a_close_that_the_model_spelled_may_have_parted_the_answer() -> None:
    """A stack that looks for the text `</think>` parts at a spelled one; then the real one stands in content."""
    rows = listed(answer("Say", "it.</think>Done"))

    assert [r[1:] for r in rows] == [
        (("markers-as-control",), ""),
        (("spelled </think>",), "spelled"),
        (("first-close-spelled",), ""),
    ]
    *_, last = readings(answer("Say", "it.</think>Done"), K25, True, KNOWN)
    assert [s.text or s.control for s in last.segments] == ["Say</think>it.", 163607, "Done", 163586]


def test_a_section_that_came_as_reasoning_ends_the_answer() -> None:
    """Without a tool parser a section in all-reasoning text has no `</think>` behind it."""
    turn = answer("<|tool_calls_section_begin|><|tool_calls_section_end|>")

    rows = listed(turn)

    assert rows[0] == (
        f"<calls_section_begin><calls_section_end>{END}",
        ("markers-as-control", "section-in-reasoning"),
        "",
    )
    assert [r[2] for r in rows[1:]] == ["spelled"] * 3


MERGED = [
    # section_text, streamed, format, whether content and the section's begin are masked
    row("merged", False, K25, True, id="known"),
    row("dropped", True, K25, False, id="known-not"),
    row(None, True, K25, True, id="unknown-stream"),
    row(None, False, K25, False, id="unknown-body"),
    row(None, True, K2, "section_text" not in K2.blank_free, id="a-family-by-its-table"),
]


@pytest.mark.parametrize(("trait", "streamed", "fmt", "masked"), MERGED)
def test_content_before_a_call_may_have_stood_within_the_section(
    trait: str | None, streamed: bool, fmt: Format, masked: bool
) -> None:
    """Some streams merge the two: then neither the text nor the begin of the section has a certain place."""
    traits = {k: v for k, v in KNOWN.items() if k != "section_text"} | ({"section_text": trait} if trait else {})
    turn = answer("", "So:", CALL, chunks={"content": ("So:",)} if streamed else None)

    [reading] = readings(turn, fmt, False, traits)

    tilde = "~" if masked else ""
    assert shown(reading.segments) == f"{tilde}So:{tilde}{SECTION}{END}"
    [alone] = readings(answer("", "", CALL, chunks=turn.chunks), fmt, False, traits)
    assert shown(alone.segments) == f"{SECTION}{END}"


SPACES = [
    # trait, texts of the readings
    row("none", [f" Hm. </think> Yes {END}"], id="kept"),
    row("inserted", [f"Hm.</think>Yes {END}"], id="inserted"),
    row(None, [f" Hm. </think> Yes {END}", f"Hm.</think>Yes {END}"], id="unknown"),
]


@pytest.mark.parametrize(("trait", "texts"), SPACES)
def test_spaces_beside_control_ids(trait: str | None, texts: list[str]) -> None:
    """One space at each side of a control id may be the detokenizer's; at the end none is, for no id follows there."""
    traits = {k: v for k, v in KNOWN.items() if k != "spaces"} | ({"spaces": trait} if trait else {})

    rows = readings(answer(" Hm. ", " Yes "), K25, True, traits)

    assert [shown(r.segments) for r in rows] == texts
    assert [("detokenizer-spaces" in r.assumptions) for r in rows] == [t.startswith("Hm") for t in texts]


UNSPACED = [
    row(answer("", "Yes."), False, f"Yes.{END}", id="no-space-there"),
    row(answer(" ", " "), True, f" </think> {END}", id="a-space-alone-is-text"),
    row(answer("", "  a"), False, f" a{END}", id="one-of-two"),
    row(answer("", " a ", CALL), False, f"a{SECTION}{END}", id="before-a-section"),
    row(answer("", " a ", finish="length"), False, "a ", id="a-cut-end-has-no-space"),
]


@pytest.mark.parametrize(("turn", "mode", "text"), UNSPACED)
def test_inserted_spaces_go_one_by_one(turn: Turn, mode: bool, text: str) -> None:
    """One space at each side that has a control id, and no more."""
    assert [r[0] for r in listed(turn, {"spaces": "inserted"}, mode=mode)] == [text]


def test_readings_of_the_same_ids_are_one() -> None:
    """Two ways to the same segments count once."""
    turn = answer("", "", ToolCall("functions.f:0", "f", "{}"), ToolCall("f:1", "f", "{}"))

    rows = readings(turn, K25, False, KNOWN | {"call_id": "prefixed"})

    assert len(rows) == len({r.segments for r in rows}) == 1


def test_the_search_is_bounded() -> None:
    """Past the bound there is no verdict by listing: said at once, not after the listing."""
    with pytest.raises(SearchBound, match=f"more than {MAX_READINGS} readings"):
        readings(answer("<think>a" * 30, "<think>a" * 30), K25, True, KNOWN)
    with pytest.raises(SearchBound, match=f"more than {MAX_MARKERS} names of control ids in the text"):
        readings(answer("", "<think>" * 200_000), K25, True, KNOWN)
    assert len(readings(answer("", "[EOS]" * MAX_MARKERS), K25, False, KNOWN)) == MAX_MARKERS + 2
    spaced = {k: v for k, v in KNOWN.items() if k != "spaces"}
    with pytest.raises(SearchBound, match=f"more than {MAX_READINGS} readings"):
        readings(answer(" <think>a" * 18, " <think>a" * 18), K25, True, spaced)


some_traits = st.fixed_dictionaries({}, optional={t: st.sampled_from(v) for t, v in TRAITS.items()})
words = st.lists(st.sampled_from((" ", "Hm.", "<think>", "</think>", "[EOS]", "a b", "\n", "好")), max_size=4).map(
    "".join
)
calls = st.lists(st.sampled_from((CALL, ToolCall("f:1", "f", '{"a":1}'), ToolCall("call_x", "f", "{}"))), max_size=2)


@given(words, words, calls, some_traits, st.booleans(), st.sampled_from(("stop", "length")))
def test_every_plain_reading_decodes_to_what_came(
    reasoning: str, content: str, called: list[ToolCall], traits: Traits, mode: bool, finish: str
) -> None:
    """Of any answer with any traits: reasoning and content stand in the decoded ids, in order, but for spaces."""
    turn = answer(reasoning, content, *called, finish=finish)

    for reading in readings(turn, K25, mode, traits):
        decoded = load_vocab().decode(build(reading, encode_ordinary).ids).decode()
        whole = "".join(decoded.split())
        at = whole.find("".join(reasoning.split())) if mode else 0
        assert at >= 0
        assert whole.find("".join(content.split()), at) >= 0
