"""Full-output roundtrip: every id of the vocabulary, and whole outputs, from ids to text and back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.encoder import encode_ordinary, load_vocab, tiktoken_encoding
from harness.errors import ProviderError
from harness.vocab import CONTROL_NAMES, N_IDS, N_RANKS

# The only two tokens that are text and that no text encodes to: the split pattern always cuts inside them.
UNREACHABLE = {4154: [374, 6], 139611: [97686, 97686]}


def test_sweep_over_all_ids() -> None:
    """All 163,840 ids: the reference's bytes, found again by their bytes, and encoded again to themselves.

    1,172 tokens are no UTF-8 by themselves and two are never sampled from text; nothing else is an exception.
    """
    vocab, reference = load_vocab(), tiktoken_encoding()
    no_text, other, n_same = [], {}, 0
    for i in range(N_RANKS):
        token = vocab.token_bytes(i)
        assert token == reference.decode_single_token_bytes(i)
        assert vocab.find(token) == i
        try:
            ids = encode_ordinary(vocab.decode_text([i]))
        except ProviderError:
            no_text.append(i)
            continue
        assert vocab.decode(ids) == token
        if ids == [i]:
            n_same += 1
        else:
            other[i] = ids
    for i in range(N_RANKS, N_IDS):
        assert vocab.token_bytes(i) == reference.decode_single_token_bytes(i) == CONTROL_NAMES[i - N_RANKS].encode()

    assert (len(no_text), other, n_same) == (1_172, UNREACHABLE, 162_410)


def test_all_ids_at_once() -> None:
    """Decoding all ids in one call is the bytes of each, joined."""
    vocab = load_vocab()

    assert vocab.decode(range(N_IDS)) == b"".join(vocab.token_bytes(i) for i in range(N_IDS))


def test_every_character_comes_back() -> None:
    """Each of the 1,112,064 characters, between two letters, decodes to itself."""
    text = "a".join(chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)

    same = load_vocab().decode_text(encode_ordinary(text)) == text
    assert same  # a failure would print two texts of two million characters


def _ids(text: str) -> list[int]:
    return [int(word) for word in text.split()]


Output = list[int | str]  # control ids and texts, as sampled

OUTPUTS = [
    pytest.param(
        ["The user asks 2+2. That is 4.", 163607, "The answer is 4.", 163586],
        "1008 2742 32155 220 17 10 17 13 4896 387 220 19 13 163607 1008 7574 387 220 19 13 163586",
        id="plain",
    ),
    pytest.param(["The user asks 2+2."], "1008 2742 32155 220 17 10 17 13", id="cut-in-reasoning"),
    pytest.param([163607, 163586], "163607 163586", id="nothing-said"),
    pytest.param([163606, "ok", 163607, "ok"], "163606 687 163607 687", id="think-sampled"),
    pytest.param(
        ["ok", 163595, 163597, "functions.search:0", 163598, "{}", 163599, 163596],
        "687 163595 163597 41937 20329 25 15 163598 13071 163599 163596",
        id="tool-call-without-think-close",
    ),
    pytest.param(
        [163595, 163597, "functions.f:0", 163598, ' {"q": "x"}', 163599, 163597, "functions.f:1", 163598, "{}", 163599],
        "163595 163597 41937 1654 25 15 163598 9392 80 1289 414 87 16934 163599 "
        "163597 41937 1654 25 16 163598 13071 163599",
        id="two-calls",
    ),
    pytest.param(
        ["Loop.", 163607, "```py\nfor i in range(10):\n\tprint(i)  # 世界 🙂\n```\n", 163586],
        "19201 13 163607 3251 8374 198 2444 1032 306 3608 7 795 2360 17705 4775 8 220 1214 220 2243 56774 198 11512 "
        "163586",
        id="code",
    ),
    pytest.param(["say ", 163607, "</think>!", 163586], "69586 220 163607 993 39964 29 0 163586", id="marker-as-prose"),
]


@pytest.mark.parametrize(("output", "ids"), OUTPUTS)
def test_whole_outputs(output: Output, ids: str) -> None:
    """An output has these ids; they decode to its text; cut at its control ids and encoded again they are the same."""
    vocab, expected = load_vocab(), _ids(ids)
    got = [i for part in output for i in ([part] if isinstance(part, int) else encode_ordinary(part))]
    text = "".join(vocab.control_name(part) if isinstance(part, int) else part for part in output)

    assert got == expected
    assert vocab.decode_text(expected) == text
    assert again(expected) == expected


def again(ids: list[int]) -> list[int]:
    """Cut at the control ids; decode and encode each stretch."""
    vocab, done, stretch = load_vocab(), [], []
    for i in [*ids, None]:
        if i is not None and not vocab.is_control(i):
            stretch.append(i)
            continue
        done += encode_ordinary(vocab.decode_text(stretch)) + ([] if i is None else [i])
        stretch = []
    return done


def test_decoding_alone_cannot_tell_a_marker_from_its_text() -> None:
    """The control id and the spelled marker decode to one text: decode(ids) == text proves nothing about the ids."""
    vocab = load_vocab()

    assert vocab.decode([163607]) == vocab.decode([993, 39964, 29]) == b"</think>"


PARTS = st.lists(st.integers(N_RANKS, N_IDS - 1) | st.text(max_size=20), max_size=8)


@given(PARTS)
@settings(max_examples=300, deadline=None)
def test_any_output_comes_back(output: Output) -> None:
    """Any texts and control ids: the ids decode to the text, byte by byte as well, and are found again from it."""
    vocab = load_vocab()
    ids = [i for part in output for i in ([part] if isinstance(part, int) else encode_ordinary(part))]
    text = "".join(CONTROL_NAMES[part - N_RANKS] if isinstance(part, int) else part for part in output)

    assert vocab.decode_text(ids) == text
    assert b"".join(map(vocab.token_bytes, ids)) == text.encode()


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_canonical_ids_are_stable(text: str) -> None:
    """Decoding canonical ids and encoding again gives the same ids, with a control id in the middle too."""
    ids = [*encode_ordinary(text), 163607, *encode_ordinary(text)]

    assert again(ids) == ids
