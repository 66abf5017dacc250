"""ids.py: readings to ids, each with its origin; where a lost blank can hide.

Every blank that may have been stripped is tried on the whole text by a slow reference; `ids` looks at the edge alone.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.encoder import encode_ordinary, load_vocab
from harness.ids import LEADS, SEAM, TRAILS, build, open_lead, open_trail
from harness.types import Reading, Segment

row = pytest.param

THINK_CLOSE, SECTION_BEGIN, IM_END = 163607, 163595, 163586

# Blanks that a model may write at an edge: more than `ids` tries, which takes one of each kind.
LINES = ("", "\n", "\n\n", "\n\n\n", "\r\n", " \n", "\n \n", "\n\n\n\n")
INDENTS = ("", " ", "  ", "   ", "    ", "        ", "\t", "\t\t", " \t", "\u3000")
BLANKS = sorted({line + indent for line in LINES for indent in INDENTS} - {""})

WORDS = [
    *("The cat", "foo", "foobar", "SLE", "Krypton", "Samantha", "getElementById", "x1y22", "don't", "'s", "5", "1234"),
    *("(∑", "||}", "|}", "]", "}", '{"a": 1}', ".", ",", "...", "?!", "`", "```", "**", "=>", "#", "-", "_", "/", "//"),
    *("中", "上升，", "。", "é", "ة", "և", "🙂", "\ufeff", "<think>", "</", "</think>", "\\n"),
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Texts without blanks at their edges, as a host that strips leaves them; long runs included."""
    runs = st.builds(lambda c, n: c * n, st.sampled_from("=-.!*#_~/ \n"), st.integers(1, 90))
    glue = st.sampled_from(("", "", " ", "\n", "  "))
    parts = draw(st.lists(st.tuples(st.sampled_from(WORDS) | runs | st.text(max_size=3), glue), min_size=1, max_size=6))
    text = "".join(a + b for a, b in parts).encode("utf-8", "ignore").decode()
    return text.strip("".join(INDENTS) + "\r\n \x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f") or "x"


def n_open(text: str, *, at_start: bool) -> int:
    """The reference: each blank joined to the whole text, and the farthest id that changes at an equal count."""
    base, farthest = encode_ordinary(text), 0
    for blank in BLANKS:
        other = encode_ordinary(blank + text if at_start else text + blank)
        if len(other) == len(base):
            changed = [k for k, (a, b) in enumerate(zip(base, other, strict=True)) if a != b]
            reach = [k + 1 if at_start else len(base) - k for k in changed]
            farthest = max([farthest, *reach])
    return farthest


LEAD_CASES = [
    row("", 0, id="nothing"),
    row("The cat", 1, id="word-and-spaced-word-are-one-id"),
    row("5 cats", 0, id="a-digit-never-joins-a-blank"),
    row("中文", 0, id="han-never-joins-a-blank"),
    row("foobar baz", 0, id="spaced-word-has-an-id-more"),
    row("SLE", 2, id="space-and-tab-before-capitals"),
    row("(∑", 3, id="two-ids-fewer-with-a-space-and-two-more-before-it"),
    row("!" * 25 + "上升", 3, id="a-run-of-marks-is-cut-anew"),
    row('{"a": 1}', 1, id="json"),
    row("functions.f:0", 1, id="call-id"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "n"), LEAD_CASES)
def test_open_lead(text: str, n: int) -> None:
    """The ids at the start that a stripped blank may have changed without changing their number."""
    assert open_lead(text, encode_ordinary) == n == n_open(text, at_start=True)


TRAIL_CASES = [
    row("", 0, id="nothing"),
    row("the cat", 0, id="after-a-letter-a-blank-is-an-id-more"),
    row("page 12", 0, id="after-a-digit-too"),
    row("猫", 0, id="after-han-too"),
    row("the cat.", 1, id="dot-and-dot-newline-are-one-id"),
    row("-" * 30, 2, id="a-run-of-dashes-is-cut-anew"),
    row("Title " + "-" * 30, 2, id="the-same-behind-a-space"),
    row("猫" + "." * 33, 3, id="a-run-longer-than-any-short-look"),
    row('{"a": 1}', 1, id="json"),
    row("🙂", 0, id="emoji-keeps-its-ids"),
    row("老|}", 2, id="two-ids"),
]


@pytest.mark.required
@pytest.mark.parametrize(("text", "n"), TRAIL_CASES)
def test_open_trail(text: str, n: int) -> None:
    """The ids at the end that a stripped blank may have changed without changing their number."""
    assert open_trail(text, encode_ordinary) == n == n_open(text, at_start=False)


@given(texts())
def test_edges_are_open_as_far_as_the_reference_says(text: str) -> None:
    """Looking at an edge alone never calls an id safe that some blank would change in the whole text."""
    assert open_lead(text, encode_ordinary) >= n_open(text, at_start=True)
    assert open_trail(text, encode_ordinary) >= n_open(text, at_start=False)


@given(texts())
def test_edges_are_open_no_farther_than_a_blank_reaches(text: str) -> None:
    """No id is masked without a blank that changes it: the reference tries all that `ids` tries."""
    assert {*LEADS, *TRAILS} <= {*BLANKS, "\n\n ", "\n \n "}
    assert open_lead(text, encode_ordinary) <= n_open(text, at_start=True)
    assert open_trail(text, encode_ordinary) <= n_open(text, at_start=False)


@given(st.lists(st.sampled_from((*WORDS, *" \n\t", "\u3000")) | st.characters(codec="utf-8"), max_size=12).map("".join))
def test_a_seam_is_a_wall(text: str) -> None:
    """At a seam both sides have the ids that they have alone; that is why the edge can be looked at alone."""
    whole = encode_ordinary(text)
    for seam in SEAM.finditer(text):
        at = seam.start()
        assert encode_ordinary(text[:at]) + encode_ordinary(text[at:]) == whole


@pytest.mark.required
def test_a_long_text_is_not_encoded_for_its_edges() -> None:
    """Both edges of 100,000 words cost a few characters each: `encode` never sees more than 40 at once."""
    seen: list[int] = []

    def encode(text: str) -> list[int]:
        seen.append(len(text))
        return encode_ordinary(text)

    text = "The cat sat. " * 33_334 + "Done."
    assert (open_lead(text, encode), open_trail(text, encode)) == (1, 1)
    assert max(seen) < 40


@pytest.mark.required
def test_a_seam_far_from_the_end_is_found() -> None:
    """A run longer than the first look at the end is seen whole: 300 marks behind the last word."""
    text = "Title " + "=" * 300
    assert open_trail(text, encode_ordinary) == n_open(text, at_start=False) == n_open("=" * 300, at_start=False)


BUILT = [
    row(
        (Segment(control=THINK_CLOSE), Segment(text="The cat sat."), Segment(control=IM_END)),
        [THINK_CLOSE, 1008, 10975, 6200, 13, IM_END],
        [2, 3, 3, 3, 3, 2],
        id="control-ids-are-template-and-text-canonical",
    ),
    row((), [], [], id="nothing"),
    row((Segment(text=""),), [], [], id="empty-text"),
    row(
        (Segment(control=SECTION_BEGIN, inferred=True), Segment(text="The cat", inferred=True)),
        [SECTION_BEGIN, 1008, 10975],
        [4, 4, 4],
        id="inferred",
    ),
    row((Segment(text="The cat sat.", lead=True),), [1008, 10975, 6200, 13], [4, 3, 3, 3], id="open-lead"),
    row((Segment(text="The cat sat.", trail=True),), [1008, 10975, 6200, 13], [3, 3, 3, 4], id="open-trail"),
    row((Segment(text=".", lead=True, trail=True),), [13], [4], id="both-edges-on-one-id"),
    row(
        (Segment(text="functions.get_weather:12", masked_tail=1),),
        [41937, 1150, 21055, 2800, 25, 1042],
        [3, 3, 3, 3, 3, 4],
        id="masked-tail",
    ),
    row((Segment(text="0", masked_tail=3),), [15], [4], id="masked-tail-longer-than-the-text"),
    row((Segment(text="foobar", chunks=("foo", "bar")),), [10570, 4566], [3, 3], id="chunk-by-chunk"),
    row(
        (Segment(text="foobar", chunks=("foo", "bar"), lead=True),),
        [10570, 4566],
        [4, 3],
        id="open-lead-of-the-first-chunk-though-the-whole-word-has-none",
    ),
    row(
        (Segment(text="x||}", chunks=("x|", "|}"), trail=True),),
        [87, 91, 91, 92],
        [3, 3, 4, 4],
        id="open-trail-of-the-last-chunk",
    ),
    row(
        (Segment(text='{"a": 1, "b": 2}', alternates=('{"b": 2, "a": 1}',)),),
        [8264, 64, 1289, 220, 16, 11, 414, 65, 1289, 220, 17, 92],
        [3, 4, 3, 3, 4, 3, 3, 4, 3, 3, 4, 3],
        id="where-another-order-of-keys-differs",
    ),
    row(
        (Segment(text="The cat.", trail=True, alternates=("The dog.",)),),
        [1008, 10975, 13],
        [3, 4, 4],
        id="another-text-and-an-open-edge",
    ),
]


@pytest.mark.required
@pytest.mark.parametrize(("segments", "ids", "origins"), BUILT)
def test_build(segments: tuple[Segment, ...], ids: list[int], origins: list[int]) -> None:
    """Ids, and one origin an id: 2 template, 3 canonical, 4 inferred."""
    built = build(Reading(segments), encode_ordinary)

    assert built.ids == ids
    assert list(built.origins) == origins
    assert built.ambiguous == ""


@pytest.mark.required
def test_another_order_of_another_length_makes_the_row_ambiguous() -> None:
    """Where the number of ids depends on the order of keys, the row says so: no bill may pick one."""
    built = build(Reading((Segment(text="cat", alternates=("foo bar",), channel="call:0"),)), encode_ordinary)

    assert built.ambiguous == "call:0: other orders of its keys have another number of ids"


@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=4), max_size=5), st.booleans(), st.booleans())
def test_no_reading_loses_a_byte(parts: list[str], lead: bool, trail: bool) -> None:
    """Whatever is masked, the ids decode to the texts of the segments, one behind the other."""
    texts = [p.encode("utf-8", "ignore").decode() for p in parts]
    segments = tuple(Segment(text=t, lead=lead, trail=trail, masked_tail=k) for k, t in enumerate(texts))

    built = build(Reading(segments), encode_ordinary)

    assert load_vocab().decode_text(built.ids) == "".join(texts)
    assert len(built.origins) == len(built.ids)
