"""Separate against whole: an output is encoded segment by segment, between control ids, never in one string."""

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from harness.encoder import encode_ordinary, load_vocab, tiktoken_encoding
from harness.vocab import CONTROL_IDS

DIFFERENT = [
    # Two texts, their ids apart, their ids as one text.
    pytest.param("The ans", "wer is", [1008, 23497, 11531, 387], [1008, 7574, 387], id="word"),
    pytest.param("hel", "lo", [5816, 773], [22931], id="short-word"),
    pytest.param("It", "'s", [1744, 1048], [15881], id="contraction"),
    pytest.param("中", "国", [435, 549], [1199], id="han"),
    pytest.param("wait\n", "\nDone", [17651, 198, 198, 25702], [17651, 382, 25702], id="newlines"),
    pytest.param("word ", "word", [2906, 220, 2906], [2906, 6268], id="space"),
    pytest.param("1234", "5", [6694, 19, 20], [6694, 2899], id="digits"),
    pytest.param("f(", "x)", [69, 7, 87, 8], [69, 3940, 8], id="code"),
]
SAME = [
    pytest.param("I should greet.", "Hello there!", [40, 1765, 29936, 13, 19180, 1459, 0], id="sentence-and-word"),
    pytest.param("2+2 is ", "4", [17, 10, 17, 387, 220, 19], id="space-and-digit"),
    pytest.param("x = ", "1", [87, 327, 220, 16], id="assignment"),
    pytest.param("def", "\n    f", [1166, 198, 274, 285], id="line-break"),
    pytest.param("123", "456", [6694, 12972], id="digit-groups"),
]


@pytest.mark.parametrize(("first", "second", "apart", "whole"), DIFFERENT)
def test_apart_is_not_whole(first: str, second: str, apart: list[int], whole: list[int]) -> None:
    """The same text has other ids in one piece than in two; both decode to it, so no roundtrip can tell them apart."""
    vocab = load_vocab()

    assert encode_ordinary(first) + encode_ordinary(second) == apart
    assert encode_ordinary(first + second) == whole
    assert vocab.decode_text(apart) == vocab.decode_text(whole) == first + second


@pytest.mark.parametrize(("first", "second", "ids"), SAME)
def test_apart_is_whole_by_luck(first: str, second: str, ids: list[int]) -> None:
    """Often the two agree, which is why an encoder that glues segments passes casual tests."""
    assert encode_ordinary(first) + encode_ordinary(second) == ids
    assert encode_ordinary(first + second) == ids


# Reasoning and content; the ids of the turn; the number of ids of the text with the mark spelled out.
TURNS = [
    pytest.param(
        "The sum is 4.",
        "The answer is 4.",
        [1008, 5547, 387, 220, 19, 13, 163607, 1008, 7574, 387, 220, 19, 13],
        13,  # as many: `.</` and `>The` are tokens, so a count does not show which of the two was sampled
        id="sentences",
    ),
    pytest.param("The ans", "wer is 4.", [1008, 23497, 163607, 11531, 387, 220, 19, 13], 10, id="word-over-the-mark"),
    pytest.param("wait\n", "\nDone", [17651, 198, 163607, 198, 25702], 6, id="newlines-at-the-mark"),
    pytest.param("", "Hello", [163607, 19180], 4, id="nothing-before"),
    pytest.param("中", "", [435, 163607], 4, id="nothing-behind"),
    pytest.param("", "", [163607], 3, id="the-mark-alone"),
]


@pytest.mark.parametrize(("reasoning", "content", "ids", "n_spelled"), TURNS)
def test_a_turn_is_encoded_by_segments(reasoning: str, content: str, ids: list[int], n_spelled: int) -> None:
    """Segments with the id between them are what a tokenizer that knows the mark finds in the whole text."""
    whole = f"{reasoning}</think>{content}"

    assert [*encode_ordinary(reasoning), 163607, *encode_ordinary(content)] == ids
    assert tiktoken_encoding().encode(whole, allowed_special="all") == ids
    assert len(encode_ordinary(whole)) == n_spelled
    assert load_vocab().decode_text(ids) == whole


CONTROLS = st.sampled_from(sorted(CONTROL_IDS))
EDGES = st.sampled_from(
    [" ", "\n", "\t", "\r\n", "'", "'s", "1", "12", "{", "}", "<", "|", "世", "🙂", "\u0301", "a", ""]
)
TEXTS = st.lists(EDGES | st.text(max_size=5), max_size=6).map("".join)


@given(st.lists(st.tuples(TEXTS, CONTROLS), max_size=5), TEXTS)
@settings(max_examples=300, deadline=None)
@example([("a<|", "<|im_end|>"), ("|>", "<think>")], ">")
def test_segments_are_what_a_marked_text_holds(pairs: list[tuple[str, str]], last: str) -> None:
    """For any texts around any control ids, encoding segment by segment equals the reference on the marked text."""
    texts = [*(text for text, _ in pairs), last]
    assume(not any(name in text for text in texts for name in CONTROL_IDS))
    ids = [i for text, name in pairs for i in (*encode_ordinary(text), CONTROL_IDS[name])] + encode_ordinary(last)
    marked = "".join(text + name for text, name in pairs) + last

    assert tiktoken_encoding().encode(marked, allowed_special="all") == ids
    assert load_vocab().decode_text(ids) == marked


@given(TEXTS, st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_chunks_decode_to_the_text_and_need_not_be_its_ids(text: str, cut: int) -> None:
    """Encoded in two chunks a text still decodes to itself: the text alone never proves where the tokens ended."""
    ids = encode_ordinary(text[:cut]) + encode_ordinary(text[cut:])

    assert load_vocab().decode_text(ids) == text
