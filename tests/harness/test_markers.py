"""markers.py: names of control ids in a text, each the control id or the same letters in ordinary ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.markers import MAX_FREE_MARKERS, marked, marker_names
from harness.types import Turn
from harness.vocab import CONTROL_NAMES
from tests.harness.chat import K2, K25
from tests.harness.segments import shown

row = pytest.param

Traits = dict[str, str]
NAMES = [
    row("", [], id="empty"),
    row("a < b, a | b, [B] and think>", [], id="no-name"),
    row("<think>a</think>", ["<think>", "</think>"], id="think"),
    row("<think><think>", ["<think>", "<think>"], id="doubles-are-kept"),
    row("[BOS][EOS] [EOT][UNK][PAD]", ["[BOS]", "[EOS]", "[EOT]", "[UNK]", "[PAD]"], id="square-ones"),
    row("<|reserved_token_163600|>", ["<|reserved_token_163600|>"], id="reserved"),
    row("<|reserved_token_163586|>", [], id="a-reserved-name-that-is-none"),
    row("<|tool_call_section_begin|>", [], id="singular"),
    row("<|im_end|", [], id="cut"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "names"), NAMES)
def test_marker_names(text: str, names: list[str]) -> None:
    """The names of the 256 control ids that stand in a text, in order."""
    assert marker_names(text) == names


@pytest.mark.required
def test_every_control_id_is_found() -> None:
    """No name is missed by the quick look for hints."""
    assert [marker_names(f"a{name}b") for name in CONTROL_NAMES] == [[name] for name in CONTROL_NAMES]


PLAIN = Turn("", "", (), "stop")


def rows(
    text: str,
    traits: Traits | None = None,
    *,
    rare: bool = False,
    literal: tuple[str, ...] = (),
    turn: Turn = PLAIN,
    fmt: object = K25,
) -> list[tuple[str, tuple[str, ...], int, str]]:
    """(text, assumptions, rank, rival) of each option; a spelled marker is shown by its whole name."""
    options = marked(text, "content", turn, fmt, traits or {}, rare, literal)  # type: ignore[arg-type]
    assert all(o.own_witness == (("no-rival",) if o.rank else ()) for o in options)
    return [(shown(o.segments), o.assumptions, o.rank, o.rival) for o in options]


AS_CONTROL = "markers-as-control"


@pytest.mark.required
def test_a_text_without_markers_is_one_text() -> None:
    """Nothing is assumed, nothing is spelled."""
    assert rows("The cat.") == [("The cat.", (), 0, "")]


@pytest.mark.required
def test_a_marker_is_the_control_id_and_its_letters_a_rival() -> None:
    """By default the control id is believed; the spelled one stands against it, since both can have one count."""
    assert rows("4.</think>The") == [
        ("4.</think>The", (AS_CONTROL,), 0, ""),
        ("4.</think>The", ("spelled </think>",), 0, "spelled"),
    ]
    control, spelled = (o.segments for o in marked("4.</think>The", "content", PLAIN, K25, {}, False))
    assert [s.control for s in control] == [-1, K25.think_close, -1]
    assert [s.control for s in spelled] == [-1]
    assert {s.channel for s in (*control, *spelled)} == {"content"}


@pytest.mark.required
def test_a_spelled_marker_is_rare() -> None:
    """With `rare` it may be believed, where nothing else has its count."""
    assert rows("4.</think>The", rare=True) == [
        ("4.</think>The", (AS_CONTROL,), 0, ""),
        ("4.</think>The", ("spelled </think>",), 1, ""),
    ]


@pytest.mark.required
def test_each_of_two_markers_may_be_spelled() -> None:
    """Two of one name are two: one may be the control id, the other its letters."""
    options = marked("a<think>b<think>c", "content", PLAIN, K25, {}, False)

    assert [[s.text or s.control for s in o.segments] for o in options] == [
        ["a", K25.think_open, "b", K25.think_open, "c"],
        ["a<think>b", K25.think_open, "c"],
        ["a", K25.think_open, "b<think>c"],
        ["a<think>b<think>c"],
    ]
    assert [o.assumptions for o in options] == [
        (AS_CONTROL,),
        (AS_CONTROL, "spelled <think>"),
        (AS_CONTROL, "spelled <think>"),
        ("spelled <think>",),
    ]


@pytest.mark.required
def test_many_markers_are_spelled_one_by_one_or_all() -> None:
    """Past the bound the subsets are too many: none, each alone, all."""
    n = MAX_FREE_MARKERS + 1

    assert len(rows("<think>" * MAX_FREE_MARKERS)) == 2**MAX_FREE_MARKERS
    assert len(rows("<think>" * n)) == 1 + n + 1


FORCED = [
    # text, traits, literal, number of readings
    row("a<|im_end|>", {}, (), 1, id="a-real-terminator-ends-the-turn"),
    row("a</think>b", {}, ("</think>",), 1, id="said-to-be-literal"),
    row("<|tool_call_begin|>", {"raw_sections": "never"}, (), 1, id="a-stack-that-never-shows-tool-markers"),
    row("<|tool_call_begin|>", {"raw_sections": "shown"}, (), 2, id="a-stack-that-shows-them"),
    row("<think>", {"raw_sections": "never"}, (), 2, id="think-marks-are-no-tool-markers"),
    row("[EOS]", {"raw_sections": "never"}, (), 2, id="other-control-ids-neither"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "traits", "literal", "n"), FORCED)
def test_what_cannot_be_a_control_id_is_text(text: str, traits: Traits, literal: tuple[str, ...], n: int) -> None:
    """Where a marker can only be text it is no assumption; elsewhere both ways are listed."""
    options = rows(text, traits, literal=literal)

    assert len(options) == n
    if n == 1:
        assert options == [(text, (), 0, "")]


SEAMS = [
    row(("a</thi", "nk>b"), {"chunks": "tokens"}, 1, id="cut-within"),
    row(("a<", "/think>b"), {"chunks": "tokens"}, 1, id="cut-behind-its-first-letter"),
    row(("a", "</think>", "b"), {"chunks": "tokens"}, 2, id="cut-at-its-edges"),
    row(("a</think>b",), {"chunks": "tokens"}, 2, id="in-one-piece"),
    row(("a</thi", "nk>b"), {}, 2, id="chunks-that-say-nothing"),
    row(("a</thi", "nk>c"), {"chunks": "tokens"}, 2, id="chunks-of-another-text"),
]


@pytest.mark.required
@pytest.mark.parametrize(("pieces", "traits", "n"), SEAMS)
def test_a_marker_that_came_in_pieces_was_spelled(pieces: tuple[str, ...], traits: Traits, n: int) -> None:
    """A control id comes in one piece; where chunks are tokens, one that was cut is text."""
    turn = Turn("", "".join(pieces), (), "stop", chunks={"content": pieces})

    options = rows("a</think>b", traits, turn=turn)

    assert len(options) == n
    assert (options[0] == ("a</think>b", (), 0, "")) is (n == 1)


EDGES = [
    # text, traits, format, (lead, trail) of each text of the first option
    row("ab", {}, K25, [(True, True)], id="nothing-known"),
    row("ab", {}, K2, [(False, True)], id="a-family-that-writes-no-blank-at-the-start"),
    row("ab", {"content_start": "kept", "content_end": "kept"}, K25, [(False, False)], id="kept"),
    row("ab", {"content_start": "lost", "content_end": "kept"}, K2, [(True, False)], id="lost"),
    row("a<think>b", {}, K25, [(True, False), (False, True)], id="not-beside-a-marker-within"),
    row("<think>b", {}, K25, [(False, True)], id="not-behind-a-marker-at-the-start"),
    row("a<think>", {}, K25, [(True, False)], id="not-before-a-marker-at-the-end"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "traits", "fmt", "edges"), EDGES)
def test_only_the_outer_edges_may_have_lost_blanks(
    text: str, traits: Traits, fmt: object, edges: list[tuple[bool, bool]]
) -> None:
    """A host strips a whole text: its first and last edge, where nothing says that it does not."""
    option = marked(text, "content", PLAIN, fmt, traits, False)[0]  # type: ignore[arg-type]

    assert [(s.lead, s.trail) for s in option.segments if s.control < 0] == edges


pieces = st.lists(st.sampled_from(("<think>", "</think>", "<|im_end|>", "[EOS]", "a", " b.", "<", "|>")), max_size=7)


@given(pieces.map("".join), st.booleans())
def test_every_option_spells_the_text(text: str, rare: bool) -> None:
    """Whatever is control and whatever is text, the names join to what came; the first option has the most controls."""
    options = marked(text, "content", PLAIN, K25, {}, rare)

    names = [[s.text if s.control < 0 else CONTROL_NAMES[s.control - 163_584] for s in o.segments] for o in options]
    assert {"".join(parts) for parts in names} == {text}
    n_control = [sum(s.control >= 0 for s in o.segments) for o in options]
    assert n_control[0] == max(n_control)
    assert len({o.segments for o in options}) == len(options)
