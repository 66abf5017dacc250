"""stream.py: where a stream was cut, against where ids end."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import stream
from harness.encoder import encode_ordinary, load_vocab
from harness.types import Reading, Segment, ToolCall, Turn
from tests.harness.chat import K25

row = pytest.param

RANKS = load_vocab().ranks
TOKENS = {"chunks": "tokens", "chunks_arguments": "tokens"}
CLOSE = Segment(control=K25.think_close)


def streamed(**chunks: tuple[str, ...]) -> Turn:
    """A turn of a stream; `call_0` stands for the channel `call:0`."""
    named = {name.replace("_", ":"): pieces for name, pieces in chunks.items()}
    return Turn(
        "".join(named.get("reasoning", ())), "".join(named.get("content", ())), (), "stop", chunks=named or None
    )


def text(words: str, channel: str = "content", chunks: tuple[str, ...] | None = None) -> Segment:
    """A text segment."""
    return Segment(text=words, channel=channel, chunks=chunks)


def control(control_id: int, channel: str = "content") -> Segment:
    """A control id whose name stands in a channel's text."""
    return Segment(control=control_id, channel=channel)


BOUNDS = [
    # pieces, closers, markers, bounds
    row(("The", " cat"), False, False, [(3, 4)], id="a-blank-may-belong-to-either"),
    row(("The ", "cat"), False, False, [(4, 4)], id="a-word"),
    row(("The", "\n\n  cat"), False, False, [(3, 7)], id="four-blanks"),
    row(("好", "\u3000第"), False, False, [(3, 6)], id="offsets-are-bytes"),
    row(("One",), False, False, [], id="one-chunk"),
    row((), False, False, [], id="no-chunk"),
    row(("a", "b", "c"), False, False, [(1, 1), (2, 2)], id="three"),
    row(("a <", "b"), False, False, [], id="a-bracket-that-may-begin-a-marker"),
    row(("a <", "b"), False, True, [(3, 3)], id="the-same-where-nothing-is-held-back"),
    row(("a", "<b"), False, False, [], id="a-bracket-behind-it"),
    row(("a", "|b"), False, False, [], id="a-bar-behind-it"),
    row(("a", "[b"), False, False, [], id="a-square-bracket-behind-it"),
    row(("a </thi", "s"), False, False, [], id="half-a-marker"),
    row(("a </this", "s"), False, False, [(8, 8)], id="no-marker-begins-so"),
    row(("a <b> c", "d"), False, False, [(7, 7)], id="a-bracket-farther-back"),
    row(("x[BO", "B"), False, False, [], id="half-a-square-marker"),
    row(("a\ufffd", "b"), False, False, [], id="lost-bytes-before"),
    row(("a", "\ufffdb"), False, False, [], id="lost-bytes-behind"),
    row(('{"a":1', "}"), True, False, [], id="the-end-of-a-call-is-held-back"),
    row(('{"a"', ":1", "}"), True, False, [(4, 4)], id="what-stands-before-it-is-not"),
    row(("{1", "}"), False, False, [(2, 2)], id="content-may-end-in-brackets"),
]


@pytest.mark.required
@pytest.mark.parametrize(("pieces", "closers", "markers", "bounds"), BOUNDS)
def test_chunk_bounds(pieces: tuple[str, ...], closers: bool, markers: bool, bounds: list[tuple[int, int]]) -> None:
    """(first, last) byte at which a token may end, for each boundary that parsers do not move."""
    assert stream.chunk_bounds(pieces, closers=closers, markers=markers) == bounds


TRUSTED = [
    row("content", {"chunks": "tokens"}, True, id="content"),
    row("content", {"chunks": "merged"}, False, id="content-merged"),
    row("content", {}, False, id="content-unknown"),
    row("content", {"chunks_arguments": "tokens"}, False, id="arguments-say-nothing-of-content"),
    row("call:0", {"chunks_arguments": "tokens"}, True, id="arguments"),
    row("call:0", {"chunks": "tokens"}, False, id="content-says-nothing-of-arguments"),
]


@pytest.mark.required
@pytest.mark.parametrize(("channel", "traits", "expected"), TRUSTED)
def test_trusted(channel: str, traits: dict[str, str], expected: bool) -> None:
    """Chunks are evidence only where the host is known to cut at tokens."""
    assert stream.trusted(channel, traits) is expected


PIECES = {"call:0": ('{"', "a", '": 5}')}
SEEN = [
    row(PIECES, TOKENS, 1, True, id="token-by-token"),
    row(PIECES, {}, 1, False, id="chunks-not-trusted"),
    row({"call:0": ('{"a"', ": 5}")}, TOKENS, 1, False, id="two-pieces"),
    row(PIECES, TOKENS, 2, False, id="a-second-call-came-whole"),
    row({**PIECES, "call:1": ("{", '"b"', ": 5}")}, TOKENS, 2, True, id="both-calls"),
    row(PIECES, TOKENS, 0, False, id="no-call"),
    row(None, TOKENS, 1, False, id="a-whole-body"),
]


@pytest.mark.required
@pytest.mark.parametrize(("chunks", "traits", "n_calls", "expected"), SEEN)
def test_arguments_seen(
    chunks: dict[str, tuple[str, ...]] | None, traits: dict[str, str], n_calls: int, expected: bool
) -> None:
    """Arguments that came token by token were not waited for and written anew."""
    calls = tuple(ToolCall("functions.f:0", "f", '{"a": 5}') for _ in range(n_calls))
    assert stream.arguments_seen(Turn("", "", calls, "tool_calls", chunks=chunks), traits) is expected


LAID = [
    row((text("The cat"),), {"content": ("The", " cat")}, [(0, ((3, 4),), (3,))], id="one-text"),
    row((CLOSE, text("The cat")), {"content": ("The", " cat")}, [(1, ((3, 4),), (3,))], id="behind-a-control-id"),
    row((text("The cat"),), {"content": ("The", " dog")}, [], id="another-text"),
    row((text("The cat"),), {}, [], id="no-chunks"),
    row((text("The cat", "header:0"),), {"content": ("The cat",)}, [], id="a-channel-that-is-not-streamed"),
    row(
        (text("ab"), control(K25.think_open), text("cd")),
        {"content": ("a", "b<think>c", "d")},
        [(0, ((1, 1),), (1,)), (2, ((1, 1),), (1,))],
        id="a-control-id-in-the-text",
    ),
    row(
        (text("ab"), control(K25.think_open), text("cd")),
        {"content": ("ab", "<think>", "cd")},
        [(0, (), ()), (2, (), ())],
        id="cut-at-the-edges-of-a-control-id",
    ),
    row(
        (text("ab", "reasoning"), CLOSE, text("cd")),
        {"reasoning": ("a", "b"), "content": ("c", "d")},
        [(0, ((1, 1),), (1,)), (2, ((1, 1),), (1,))],
        id="two-channels",
    ),
    row((text("{1}", "call:0"),), {"call_0": ("{1", "}")}, [(0, (), (2,))], id="a-seam-that-says-nothing"),
]


@pytest.mark.required
@pytest.mark.parametrize(("segments", "chunks", "expected"), LAID)
def test_laid(
    segments: tuple[Segment, ...],
    chunks: dict[str, tuple[str, ...]],
    expected: list[tuple[int, tuple[stream.Bound, ...], tuple[int, ...]]],
) -> None:
    """Each text of the reading that stands in the chunks as it is, with the boundaries within it, in its own bytes."""
    rows = stream.laid(Reading(segments), streamed(**chunks), TOKENS)

    assert [(r.at, r.bounds, r.seams) for r in rows] == expected
    assert not list(stream.laid(Reading(segments), streamed(**chunks), {}))


SPLITS = [
    # chunks, canonical ends that they break, the pieces of the chunkwise reading
    row(("The", " cat", " sat."), [], None, id="canonical"),
    row(("The cat", " sat."), [], None, id="two-tokens-in-a-chunk"),
    row(("S", "aman", "tha"), [], None, id="canonical-pieces-of-a-word"),
    row(("Sam", "antha"), [3], ("Sam", "antha"), id="another-spelling"),
    row(("foo", "bar baz"), [3], ("foo", "bar baz"), id="within-a-word"),
    row(("fo", "obar ", "baz"), [2, 7], ("fo", "obar ", "baz"), id="a-space-apart"),
    row(("The", " foo", "bar", " x"), [7], ("The foo", "bar x"), id="cut-where-it-must-be"),
    row(("foo", "bar", "x", "1"), [3], ("foo", "bar", "x", "1"), id="and-at-each-other-chunk"),
    row(("fo", "obar", " ", "🏻"), [2], ("fo", "obar 🏻"), id="never-within-an-id-that-ends-in-mid-character"),
    row(("fo", "obar", "👩"), [2], ("fo", "obar", "👩"), id="but-before-one"),
    row(("See", " ", "👩"), [], None, id="a-space-shown-early"),
    row((" ", "👩"), [], None, id="at-the-start-too"),
]


@pytest.mark.required
@pytest.mark.parametrize(("chunks", "broken", "pieces"), SPLITS)
def test_a_chunk_that_ends_within_an_id_proves_another_split(
    chunks: tuple[str, ...], broken: list[int], pieces: tuple[str, ...] | None
) -> None:
    """The canonical ids break at the chunk's end; the chunkwise reading has no id over it."""
    turn, reading = streamed(content=chunks), Reading((CLOSE, text("".join(chunks))))

    [laid] = stream.laid(reading, turn, TOKENS)
    assert stream.violated(laid, encode_ordinary, RANKS) == broken
    other = stream.chunkwise(reading, turn, TOKENS, encode_ordinary, RANKS)
    if pieces is None:
        assert other is None
        return
    whole = "".join(chunks)
    cut = replace(text(whole, chunks=pieces), lookalikes=(whole,))  # the plain split, where it has as many ids
    assert other == Reading((CLOSE, cut), 1, ("split-as-streamed content",), ("chunks",))
    [again] = stream.laid(other, turn, TOKENS)
    assert stream.violated(again, encode_ordinary, RANKS) == []


@pytest.mark.required
def test_chunkwise_keeps_what_the_reading_assumes() -> None:
    """A rival stays a rival, its assumptions stay told, and texts that no chunk breaks stay whole."""
    segments = (text("foobar", "reasoning"), CLOSE, text("The cat"), text("foobar", "header:0"))
    turn = streamed(reasoning=("foo", "bar"), content=("The", " cat"))

    other = stream.chunkwise(Reading(segments, 0, ("x",), rival="trait"), turn, TOKENS, encode_ordinary, RANKS)

    assert other == Reading(
        (replace(text("foobar", "reasoning", ("foo", "bar")), lookalikes=("foobar",)), *segments[1:]),
        1,
        ("x", "split-as-streamed reasoning"),
        ("chunks",),
        "trait",
    )


@pytest.mark.required
def test_a_marker_that_came_in_pieces_may_be_believed() -> None:
    """A reading that spells a marker is no rival where chunks show its split; it may still have none of its count."""
    turn = streamed(content=("foo", "bar<think>"))

    other = stream.chunkwise(Reading((text("foobar<think>"),), rival="spelled"), turn, TOKENS, encode_ordinary, RANKS)

    assert other is not None
    assert (other.rival, other.own_witness) == ("", ("chunks", "no-rival"))


SINGLY = [
    row((text("The cat sat."),), {"content": ("The", " cat", " sat", ".")}, True, id="an-id-a-chunk"),
    row((text("The cat sat."),), {"content": ("The", " cat", " sat.")}, False, id="two-in-one"),
    row((text("foobar"),), {"content": ("foo", "bar")}, False, id="another-split"),
    row((text("foobar", chunks=("foo", "bar")),), {"content": ("foo", "bar")}, True, id="the-split-that-was-shown"),
    row((text("cat"),), {"content": ("cat",)}, True, id="one-id"),
    row((text("🙂"),), {"content": ("🙂",)}, False, id="a-character-of-two-ids"),
    row((text("a", "reasoning"), text("b")), {"content": ("b",)}, False, id="one-channel-is-not-enough"),
    row((text("a", "reasoning"), text("b")), {"reasoning": ("a",), "content": ("b",)}, True, id="both-channels"),
    row((text("a"), control(K25.think_open), text("b")), {"content": ("a", "<think>", "b")}, True, id="two-texts"),
    row((text("a"), text("functions.f:0", "header:0")), {"content": ("a",)}, False, id="a-header-is-never-seen"),
    row((CLOSE,), {"content": ("x",)}, False, id="no-text"),
    row((text("a"),), {}, False, id="no-stream"),
]


@pytest.mark.required
@pytest.mark.parametrize(("segments", "chunks", "expected"), SINGLY)
def test_singly(segments: tuple[Segment, ...], chunks: dict[str, tuple[str, ...]], expected: bool) -> None:
    """True where no other split of any text could have come in these chunks."""
    turn = streamed(**chunks)

    assert stream.singly(Reading(segments), turn, TOKENS, encode_ordinary, RANKS) is expected
    assert not stream.singly(Reading(segments), turn, {}, encode_ordinary, RANKS)


SEAMS = [
    row(TOKENS, "abcd", {1, 3}, id="characters-not-bytes"),
    row({}, "好bcd", set(), id="not-trusted"),
    row(TOKENS, "好bcx", set(), id="another-text"),
]


@pytest.mark.required
@pytest.mark.parametrize(("traits", "whole", "expected"), SEAMS)
def test_seams_in(traits: dict[str, str], whole: str, expected: set[int]) -> None:
    """Where a channel was cut, in characters of its text."""
    turn = streamed(content=("好" if "好" in whole else "a", "bc", "d"))

    assert stream.seams_in(turn, "content", whole, traits) == expected
    assert stream.seams_in(turn, "reasoning", whole, traits) == set()


@st.composite
def canonical_chunks(draw: st.DrawFn) -> tuple[str, ...]:
    """A text cut at some of its canonical id boundaries, never within a character."""
    whole = draw(st.text(st.characters(codec="utf-8", exclude_characters="\ufffd"), max_size=20))
    ids, pieces, held = encode_ordinary(whole), [], b""
    for i in ids:
        held += RANKS[i]
        try:
            piece = held.decode()
        except UnicodeDecodeError:
            continue
        if draw(st.booleans()):
            pieces.append(piece)
            held = b""
    return (*pieces, *([held.decode()] if held else []))


@given(canonical_chunks(), st.booleans())
def test_canonical_boundaries_are_never_violated(pieces: tuple[str, ...], markers: bool) -> None:
    """However a stream is cut at the boundaries of canonical ids, no boundary contradicts them."""
    traits = TOKENS | {"chunks_at_markers": "tokens" if markers else "merged"}
    turn, reading = streamed(content=pieces), Reading((text("".join(pieces)),))

    for laid in stream.laid(reading, turn, traits):
        assert stream.violated(laid, encode_ordinary, RANKS) == []
    assert stream.chunkwise(reading, turn, traits, encode_ordinary, RANKS) is None


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), max_size=6).map(tuple))
def test_a_chunkwise_reading_keeps_the_text(pieces: tuple[str, ...]) -> None:
    """Wherever a stream is cut, the pieces of the chunkwise reading join to the text."""
    turn, reading = streamed(content=pieces), Reading((text("".join(pieces)),))

    other = stream.chunkwise(reading, turn, TOKENS, encode_ordinary, RANKS)

    for segment in other.segments if other else ():
        assert "".join(segment.chunks or ()) == segment.text == "".join(pieces)
