"""witnesses.py: what the bill, reasoning_tokens and chunks say of the ids of one reading, and when they are silent."""

from dataclasses import replace
from typing import Any

import pytest

from harness.encoder import encode_ordinary, load_vocab
from harness.formats import Format
from harness.ids import build
from harness.types import Reading, Segment, Turn, Usage
from harness.witnesses import (
    WITNESSES,
    Scene,
    bill,
    billed_offset,
    chunks,
    fewest,
    hear,
    reasoning_tokens,
    shortest,
    singly,
)
from tests.harness.chat import K2, K2_THINKING, K25

row = pytest.param

RANKS = load_vocab().ranks
CLOSE, BEGIN, END = (Segment(control=i) for i in (K25.think_close, K25.section_begin, K25.terminator))
REASONING = Segment(text="One two three", channel="reasoning")  # 3 ids
CONTENT = Segment(text="The cat sat.", channel="content")  # 4 ids
WHOLE = (REASONING, CLOSE, CONTENT, END)

YES_NO = {"terminator_billed": "yes", "think_billed": "no"}

OFFSETS = [
    # traits, format, thinking, cut, offset
    row(YES_NO, K25, True, False, 1, id="terminator"),
    row({"terminator_billed": "no", "think_billed": "no"}, K25, True, False, 0, id="nothing"),
    row({"terminator_billed": "yes", "think_billed": "yes"}, K25, True, False, 2, id="terminator-and-think"),
    row({"terminator_billed": "no", "think_billed": "yes"}, K25, True, False, 1, id="think"),
    row({"terminator_billed": "yes"}, K25, True, False, None, id="think-unknown"),
    row({"think_billed": "yes"}, K25, True, False, None, id="terminator-unknown"),
    row({}, K25, True, False, None, id="both-unknown"),
    row({"terminator_billed": "yes"}, K25, False, False, 1, id="thinking-off-leaves-no-think-to-bill"),
    row({"terminator_billed": "yes", "think_billed": "yes"}, K25, False, False, 1, id="nor-with-the-trait-known"),
    row({"terminator_billed": "yes", "think_billed": "yes"}, K2_THINKING, True, False, 1, id="think-is-sampled"),
    row({"terminator_billed": "yes"}, K2, False, False, 1, id="no-think"),
    row({"offset": "2"}, K25, True, False, 2, id="the-sum-alone"),
    row({"offset": "0"}, K25, True, False, 0, id="a-sum-of-none"),
    row({"offset": "2", **YES_NO}, K25, True, False, 1, id="the-parts-go-before-the-sum"),
    row({"offset": "2", "think_billed": "yes"}, K25, True, False, 2, id="one-part-is-not-enough"),
    row(YES_NO, K25, True, True, 0, id="cut"),
    row({"think_billed": "yes"}, K25, True, True, 1, id="cut-with-think"),
    row({"terminator_billed": "yes"}, K25, True, True, None, id="cut-and-think-unknown"),
    row({"offset": "2"}, K25, True, True, None, id="a-sum-says-nothing-of-a-cut-answer"),
    row({"spaces": "none"}, K25, False, True, 0, id="cut-with-thinking-off"),
    row({"spaces": "none"}, K2, False, True, 0, id="cut-and-no-think"),
    row({}, K2, False, True, None, id="cut-at-a-host-of-which-nothing-is-known"),
]


@pytest.mark.parametrize(("traits", "fmt", "thinking", "cut", "offset"), OFFSETS)
def test_billed_offset(traits: dict[str, str], fmt: Format, thinking: bool, cut: bool, offset: int | None) -> None:
    """What is billed beyond the ids before the terminator: known in whole, or not at all."""
    assert billed_offset(traits, fmt, thinking, cut=cut) == offset


def scene(
    *segments: Segment,
    traits: dict[str, str] | None = None,
    billed: int | None = None,
    reasoning_billed: int | None = None,
    thinking: bool = True,
    finish: str = "stop",
    chunked: Any = None,
    reasoning: str = "One two three",
) -> Scene:
    """A reading of an answer of K2.5, and what its host said."""
    reading = Reading(segments)
    usage = Usage(completion_tokens=billed, reasoning_tokens=reasoning_billed)
    turn = Turn(reasoning, "The cat sat.", (), finish, usage=usage, chunks=chunked)
    ids = build(reading, encode_ordinary)
    return Scene(reading, ids, turn, K25, traits or {}, thinking, billed, encode_ordinary, RANKS)


BILLS = [
    row(WHOLE, YES_NO, 9, "stop", "supports", "8 ids before the end + 1 = 9, billed 9", id="fits"),
    row(WHOLE, YES_NO, 8, "stop", "contradicts", "8 ids before the end + 1 = 9, billed 8", id="one-less"),
    row(WHOLE, YES_NO, 10, "stop", "contradicts", "8 ids before the end + 1 = 9, billed 10", id="one-more"),
    row(WHOLE[:-1], YES_NO, 9, "stop", "supports", "8 ids before the end + 1 = 9, billed 9", id="no-terminator"),
    row(WHOLE[:-1], YES_NO, 8, "length", "supports", "8 ids before the end + 0 = 8, billed 8", id="cut"),
    row((), YES_NO, 1, "stop", "supports", "0 ids before the end + 1 = 1, billed 1", id="no-ids"),
    row(WHOLE, YES_NO, None, "stop", "silent", "no completion_tokens in the answer", id="no-bill"),
    row(WHOLE, {}, 9, "stop", "silent", "what this provider bills is not known", id="no-equation"),
]


@pytest.mark.parametrize(("segments", "traits", "billed", "finish", "says", "reason"), BILLS)
def test_bill(
    segments: tuple[Segment, ...], traits: dict[str, str], billed: int | None, finish: str, says: str, reason: str
) -> None:
    """The number of ids through the provider's equation, exactly, or not at all."""
    testimony = bill(scene(*segments, traits=traits, billed=billed, finish=finish))

    assert (testimony.witness, testimony.says, testimony.reason) == ("bill", says, reason)


SKIPPED = (REASONING, BEGIN, CONTENT, END)
BARE = (REASONING, END)
EMPTY = (CLOSE, CONTENT, END)
UNTOLD = "told 0 of no reasoning: whether `</think>` alone would count is not known"

REASONINGS = [
    # segments, way, told, says, reason
    row(WHOLE, "ids", 3, "supports", "3 ids of reasoning, told 3", id="before-its-end"),
    row(WHOLE, "ids", 4, "contradicts", "3 ids of reasoning, told 4", id="one-more"),
    row(WHOLE, "ids", 2, "contradicts", "3 ids of reasoning, told 2", id="one-less"),
    row(WHOLE, "ids+1", 4, "supports", "4 ids of reasoning, told 4", id="through-its-end"),
    row(WHOLE, "ids+1", 3, "contradicts", "4 ids of reasoning, told 3", id="through-its-end-one-less"),
    row(SKIPPED, "ids", 3, "supports", "3 ids of reasoning, told 3", id="no-end-before-a-section"),
    row(SKIPPED, "ids+1", 3, "supports", "3 ids of reasoning, told 3", id="nothing-to-count-through"),
    row(BARE, "ids", 3, "supports", "3 ids of reasoning, told 3", id="all-is-reasoning"),
    row(BARE, "ids+1", 4, "supports", "4 ids of reasoning, told 4", id="all-is-reasoning-and-the-terminator"),
    row(BARE[:-1], "ids+1", 3, "supports", "3 ids of reasoning, told 3", id="all-is-reasoning-and-cut"),
    row((), "ids", 0, "supports", "0 ids of reasoning, told 0", id="no-ids"),
    row(EMPTY, "ids", 0, "supports", "0 ids of reasoning, told 0", id="empty-and-none-told"),
    row(EMPTY, "ids+1", 0, "silent", UNTOLD, id="empty-and-its-end-perhaps-not-counted"),
    row(EMPTY, "ids+1", 1, "supports", "1 ids of reasoning, told 1", id="empty-and-its-end-counted"),
    row(EMPTY, "ids+1", 2, "contradicts", "1 ids of reasoning, told 2", id="empty-and-more-counted"),
    row(WHOLE, "undercount", 3, "supports", "3 ids of reasoning, told 3", id="undercount-exact"),
    row(WHOLE, "undercount", 2, "contradicts", "3 ids of reasoning, told 2", id="nothing-to-undercount-in-ascii"),
    row(WHOLE, "undercount", 4, "contradicts", "3 ids of reasoning, told 4", id="undercount-is-never-more"),
    row(WHOLE, "estimate", 3, "silent", "not told, or not counted by id at this provider", id="estimate"),
    row(WHOLE, None, 3, "silent", "not told, or not counted by id at this provider", id="unknown"),
    row(WHOLE, "ids", None, "silent", "not told, or not counted by id at this provider", id="not-told"),
]


@pytest.mark.parametrize(("segments", "way", "told", "says", "reason"), REASONINGS)
def test_reasoning_tokens(
    segments: tuple[Segment, ...], way: str | None, told: int | None, says: str, reason: str
) -> None:
    """The ids of the reasoning as this host counts them; an estimate says nothing."""
    traits = {"reasoning_tokens": way} if way else {}
    text = "".join(s.text for s in segments if s.channel == "reasoning")
    testimony = reasoning_tokens(scene(*segments, traits=traits, reasoning_billed=told, reasoning=text))

    assert (testimony.witness, testimony.says, testimony.reason) == ("reasoning_tokens", says, reason)


def test_reasoning_tokens_of_split_characters() -> None:
    """A host that counts a split character once may tell fewer; that neither supports nor contradicts."""
    segments = (Segment(text="👩", channel="reasoning"), CLOSE, END)

    said = reasoning_tokens(
        scene(*segments, traits={"reasoning_tokens": "undercount"}, reasoning_billed=1, reasoning="👩")
    )

    assert (said.says, said.reason) == ("silent", "told 1 of 2: split characters are counted once here")


def test_reasoning_tokens_without_thinking() -> None:
    """With thinking off nothing is reasoning, whatever is told; without usage nothing is told."""
    traits = {"reasoning_tokens": "ids"}
    off = scene(CONTENT, END, traits=traits, reasoning_billed=0, thinking=False)
    assert reasoning_tokens(off).says == "silent"
    turn = Turn("One", "", (), "stop")
    bare = Scene(off.reading, off.ids, turn, K25, traits, True, None, encode_ordinary, RANKS)
    assert reasoning_tokens(bare).says == "silent"


TOKENS = {"chunks": "tokens"}
IN_WORDS = {"reasoning": ("One", " two", " three"), "content": ("The", " cat", " sat", ".")}

CHUNKS = [
    row(None, TOKENS, "silent", "no stream", id="body"),
    row({}, TOKENS, "silent", "no stream", id="empty-stream"),
    row(IN_WORDS, TOKENS, "supports", "5 chunk boundaries lie on id boundaries", id="words"),
    row(IN_WORDS, {}, "silent", "no chunk boundary that may be trusted", id="unknown-chunks"),
    row(IN_WORDS, {"chunks": "merged"}, "silent", "no chunk boundary that may be trusted", id="merged-chunks"),
    row(
        {"reasoning": ("One two three",), "content": ("The cat sat.",)},
        TOKENS,
        "silent",
        "no chunk boundary that may be trusted",
        id="one-chunk-each",
    ),
    row(
        {"reasoning": ("On", "e two three"), "content": ("The", " c", "at", " s", "a", "t", ".")},
        TOKENS,
        "contradicts",
        "chunks end inside ids at reasoning:2, content:5, content:9",
        id="cut-in-words",
    ),
    row(
        {"reasoning": ("O", "n", "e", " two th", "ree")},
        TOKENS,
        "contradicts",
        "chunks end inside ids at reasoning:1, reasoning:2, reasoning:10",
        id="cut-in-words-of-one-channel",
    ),
    row(
        {"reasoning": ("T", "w", "o", " th", "ree"), "content": ("The", " cat", " sat.")},
        TOKENS,
        "supports",
        "2 chunk boundaries lie on id boundaries",
        id="a-channel-of-another-text-says-nothing",
    ),
]


@pytest.mark.parametrize(("chunked", "traits", "says", "reason"), CHUNKS)
def test_chunks(chunked: dict[str, tuple[str, ...]] | None, traits: dict[str, str], says: str, reason: str) -> None:
    """Boundaries of trusted chunks lie on boundaries of ids, or the ids are others; the first three are named."""
    testimony = chunks(scene(*WHOLE, traits=traits, chunked=chunked))

    assert (testimony.witness, testimony.says, testimony.reason) == ("chunks", says, reason)


def test_singly() -> None:
    """It supports where each id of each text had a chunk of its own, and never contradicts."""
    seen = singly(scene(*WHOLE, traits=TOKENS, chunked=IN_WORDS))
    assert (seen.says, seen.reason) == ("supports", "each id of each text came in a chunk of its own")
    merged = singly(scene(*WHOLE, traits=TOKENS, chunked=IN_WORDS | {"content": ("The cat", " sat", ".")}))
    assert (merged.says, merged.reason) == ("silent", "not each id came in a chunk of its own")


def test_hear() -> None:
    """Each witness is heard once, under its own name."""
    said = hear(
        scene(
            *WHOLE, traits=TOKENS | YES_NO | {"reasoning_tokens": "ids"}, billed=9, reasoning_billed=2, chunked=IN_WORDS
        )
    )

    assert [(t.witness, t.says) for t in said] == [
        ("bill", "supports"),
        ("reasoning_tokens", "contradicts"),
        ("chunks", "supports"),
        ("singly", "supports"),
        ("shortest", "silent"),
    ]
    assert [t.witness for t in said] == list(WITNESSES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("I keep thinking and stop.", 6, id="plain-text-is-shortest"),
        pytest.param(" I'", 1, id="an-id-that-no-text-gives"),
        pytest.param("⭐️⭐️", 1, id="the-other-one"),
        pytest.param("x" * 20_001, None, id="too-long-to-tell"),
    ],
)
def test_the_fewest_ids_of_a_text(text: str, expected: int | None) -> None:
    """Two ids stand for texts that are never encoded to them: a model may sample them all the same."""
    assert fewest(text, load_vocab().find) == expected


def test_shortest_speaks_only_where_it_is_asked() -> None:
    """A reading one id short of the plain one asks whether its texts could have been sampled in fewer ids."""
    asked = replace(scene(*WHOLE), find=load_vocab().find)
    assert shortest(asked).says == "silent"
    reading = replace(asked.reading, own_witness=("reasoning_tokens", "shortest"))
    assert shortest(replace(asked, reading=reading)).says == "supports"
    fewer = replace(reading, segments=(Segment(text=" I'", channel="reasoning"),))
    assert shortest(replace(asked, reading=fewer)).says == "silent"
