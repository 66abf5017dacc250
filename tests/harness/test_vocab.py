"""The vocabulary: only the pinned ranks and the frozen control table, and nothing decoded by guess."""

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.encoder import load_vocab
from harness.errors import ProviderError, SetupError
from harness.vocab import (
    CONTROL_IDS,
    CONTROL_NAMES,
    CONTROL_SHA256,
    MAX_MODEL_BYTES,
    N_IDS,
    N_RANKS,
    NAMED_CONTROL_IDS,
    VOCAB_SHA256,
    Vocab,
    check_control,
    control_hash,
    parse_tiktoken_model,
    tiktoken_model_text,
)

Ranks = list[bytes]
# What transformers 5 makes: the named ids without the gaps between them.
SHIFTED = {name: N_RANKS + k for k, name in enumerate(NAMED_CONTROL_IDS)}


@pytest.fixture(scope="module")
def ranks() -> Ranks:
    """The real ranks, to be spoilt."""
    return list(load_vocab().ranks)


@pytest.mark.required
def test_pinned_figures() -> None:
    """163,584 ranks, 256 control ids behind them, 23 of them with a name; the table's own hash is pinned too."""
    assert (N_RANKS, N_IDS, len(CONTROL_NAMES), len(NAMED_CONTROL_IDS)) == (163_584, 163_840, 256, 23)
    assert list(CONTROL_IDS.values()) == list(range(163_584, 163_840))
    assert VOCAB_SHA256 == "b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103"
    assert control_hash(CONTROL_IDS) == CONTROL_SHA256


def test_the_ranks_are_the_file(ranks: Ranks) -> None:
    """Written as tiktoken.model the ranks have the pinned length and hash, and the text parses back to them."""
    text = tiktoken_model_text(ranks)

    assert len(text) == 2_795_286
    assert hashlib.sha256(text).hexdigest() == VOCAB_SHA256
    assert parse_tiktoken_model(text) == ranks


def _swap(ranks: Ranks) -> Ranks:
    return [*ranks[:1000], ranks[1001], ranks[1000], *ranks[1002:]]


def _change(ranks: Ranks) -> Ranks:
    return [*ranks[:163_533], b"chat", *ranks[163_534:]]


def _join(ranks: Ranks) -> Ranks:
    """The same bytes in all, with another border between two tokens."""
    return [*ranks[:500], ranks[500] + ranks[501][:1], ranks[501][1:] or b"x", *ranks[502:]]


SPOILT = [
    pytest.param(_swap, id="two-ids-swapped"),
    pytest.param(_change, id="one-token-changed"),
    pytest.param(_join, id="border-moved"),
    pytest.param(lambda ranks: ranks[:-1], id="last-missing"),
    pytest.param(lambda ranks: [*ranks, b"<|im_end|>"], id="one-more"),
    pytest.param(lambda ranks: [], id="empty"),
]


@pytest.mark.parametrize("spoil", SPOILT)
def test_other_ranks_are_refused(ranks: Ranks, spoil: Callable[[Ranks], Ranks]) -> None:
    """Ranks that differ anywhere are refused with both hashes and a remedy; the class cannot be built around it."""
    spoilt = spoil(ranks)
    got = hashlib.sha256(tiktoken_model_text(spoilt)).hexdigest()

    for build in (Vocab.from_ranks, lambda r: Vocab(tuple(r))):
        with pytest.raises(SetupError) as error:
            build(spoilt)
        assert got in str(error.value)
        assert VOCAB_SHA256 in str(error.value)
        assert "Use splintr-rs 0.22" in str(error.value)


def test_a_vocabulary_is_frozen() -> None:
    """Nothing can be changed after the check."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        load_vocab().ranks = ()  # type: ignore[misc]
    with pytest.raises(TypeError):
        CONTROL_IDS["<think>"] = 1  # type: ignore[index]


@pytest.mark.required
def test_the_frozen_control_table_is_accepted(ranks: Ranks) -> None:
    """A source whose own table equals the frozen one, in any order, gives the same vocabulary."""
    vocab = Vocab.from_ranks(ranks, dict(reversed(CONTROL_IDS.items())))

    assert vocab.decode([163_606, 163_533, 163_607]) == b"<think>chas</think>"


def _without(name: str) -> dict[str, int]:
    return {n: i for n, i in CONTROL_IDS.items() if n != name}


K3_NAMES = {"<|im_end|>": "<|end_of_msg|>", "<|im_user|>": "<|open|>"}
TABLES = [
    pytest.param(
        SHIFTED,
        ["<|start_header_id|> is 163589, must be 163590", "[EOT] is 163591, must be 163593", "transformers 5"],
        id="shifted-by-transformers-5",
    ),
    pytest.param(
        {**CONTROL_IDS, **SHIFTED}, ["[EOT] is 163591, must be 163593", "transformers 5"], id="shifted-with-reserved"
    ),
    pytest.param(
        {**CONTROL_IDS, "</think>": 163_604}, ["</think> is 163604, must be 163607"], id="one-moved-im-end-in-place"
    ),
    pytest.param(_without("<think>"), ["<think> (163606) is missing"], id="one-missing"),
    pytest.param({**CONTROL_IDS, "<|im_sep|>": 163_840}, ["'<|im_sep|>' (163840) is unknown"], id="one-more"),
    pytest.param(
        {K3_NAMES.get(n, n): i for n, i in CONTROL_IDS.items()}, ["<|im_end|> (163586) is missing"], id="kimi-k3"
    ),
    pytest.param({}, ["[BOS] (163584) is missing", "and 252 more"], id="empty"),
]


@pytest.mark.required
@pytest.mark.parametrize(("table", "said"), TABLES)
def test_other_control_ids_are_refused(ranks: Ranks, table: dict[str, int], said: list[str]) -> None:
    """A table that differs is refused; the message names what moved with both ids, both hashes and the remedy."""
    with pytest.raises(SetupError) as error:
        Vocab.from_ranks(ranks, table)

    for words in [*said, control_hash(table), CONTROL_SHA256, "never the fast class that AutoTokenizer makes"]:
        assert words in str(error.value)


def test_only_the_shifted_table_is_called_so() -> None:
    """The message blames transformers 5 for its own table alone."""
    with pytest.raises(SetupError) as error:
        check_control({**CONTROL_IDS, "</think>": 163_604})

    assert "transformers" not in str(error.value)


# Case 015: the ids that public reports gave for the converted tokenizer.
CASE_015 = {
    "<|im_end|>": (163586, 163586),
    "<|im_user|>": (163587, 163587),
    "<|im_assistant|>": (163588, 163588),
    "<|im_system|>": (163594, 163592),
    "<|tool_calls_section_begin|>": (163595, 163593),
    "<|tool_call_end|>": (163599, 163597),
    "<|im_middle|>": (163601, 163598),
    "<|media_pad|>": (163605, 163602),
    "<think>": (163606, 163603),
    "</think>": (163607, 163604),
    "[UNK]": (163838, 163605),
    "[PAD]": (163839, 163606),
}


@pytest.mark.required
@pytest.mark.parametrize(("name", "ids"), CASE_015.items())
def test_shifted_table_of_public_reports(name: str, ids: tuple[int, int]) -> None:
    """The frozen table has the right id of each name; the shifted one that is refused is the reported one."""
    assert (CONTROL_IDS[name], SHIFTED[name]) == ids


@pytest.mark.shared
def test_case_015_is_the_table_above(shared: Path) -> None:
    """The case file says the same as the rows above."""
    case = json.loads(next((shared / "cases").glob("015-*")).read_text())["input"]
    rows = zip(case["names"], case["canonical"], case["shifted_by_conversion"], strict=True)

    assert {name: (right, shifted) for name, right, shifted in rows} == CASE_015


BROKEN = [
    pytest.param(b"", "the last line is cut", id="empty"),
    pytest.param(b"IQ== 0\nIg== 1", "the last line is cut", id="no-newline-at-the-end"),
    pytest.param(b"IQ== 0\r\nIg== 1\r\n", "line 1 is b'IQ== 0\\r'", id="crlf"),
    pytest.param(b"IQ== 0\n\nIg== 1\n", "line 2 is b''", id="blank-line"),
    pytest.param(b"IQ== 0\nIg== 2\n", "line 2 is b'Ig== 2', expected base64, one space and 1", id="id-left-out"),
    pytest.param(b"IQ== 1\nIg== 0\n", "line 1 is b'IQ== 1'", id="another-order"),
    pytest.param(b"IQ== 00\n", "line 1 is b'IQ== 00'", id="another-spelling-of-the-id"),
    pytest.param(b"IQ==  0\n", "line 1 is b'IQ==  0'", id="two-spaces"),
    pytest.param(b"IQ 0\n", "line 1 is not base64", id="no-padding"),
    pytest.param(b"I*Q== 0\n", "line 1 is not base64", id="stray-character"),
    pytest.param(b"\xff\xfe\x00", "the last line is cut", id="binary"),
    pytest.param(b"x" * (MAX_MODEL_BYTES + 1), "8388609 bytes, at most 8388608", id="too-long"),
]


@pytest.mark.parametrize(("data", "said"), BROKEN)
def test_a_broken_model_text_is_refused(data: bytes, said: str) -> None:
    """What is not `base64 id` in order is refused, and the message says which line and what it held."""
    with pytest.raises(SetupError) as error:
        parse_tiktoken_model(data)

    assert said in str(error.value)


@pytest.mark.required
def test_a_short_model_text_is_parsed() -> None:
    """Parsing does not judge the ranks; the hash does."""
    assert parse_tiktoken_model(b"IQ== 0\nIg== 1\nw6k= 2\n") == [b"!", b'"', "é".encode()]


@pytest.mark.required
@pytest.mark.parametrize("outside", [-1, -163_840, 163_840, 163_893, 2**40])
def test_ids_outside_are_refused(outside: int) -> None:
    """An id that is none is an error that names it: -1 is not the last id, 163840 on are no ids of this family."""
    vocab = load_vocab()

    for call in (vocab.token_bytes, lambda i: vocab.decode([0, i, 5]), lambda i: vocab.decode_text([i])):
        with pytest.raises(ProviderError, match=f"id {outside} is outside the vocabulary"):
            call(outside)
    assert not vocab.is_control(outside)


@pytest.mark.required
def test_decode_joins_bytes_before_text() -> None:
    """A character spread over tokens decodes once joined; cut in two it is an error, never U+FFFD."""
    vocab = load_vocab()
    ids = [vocab.find(bytes([b])) for b in "🦜".encode()]

    assert None not in ids
    assert vocab.decode_text(ids) == "🦜"
    assert vocab.decode(ids[:2]) == "🦜".encode()[:2]
    with pytest.raises(ProviderError, match="not UTF-8"):
        vocab.decode_text(ids[:2])
    assert vocab.decode([]) == b""


@pytest.mark.required
@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (b"chas", 163_533),
        (b"!", 0),
        (b"\xf0", 172),
        (b"", None),
        (b"<think>", None),
        (b"<|im_end|>", None),
        (b"no such token", None),
    ],
)
def test_find(token: bytes, expected: int | None) -> None:
    """Bytes name at most one ordinary id; a control id is never found by its text."""
    assert load_vocab().find(token) == expected


@pytest.mark.required
@pytest.mark.parametrize("other", [0, 163_533, 163_583, 163_840, -1])
def test_control_name_of_another_id(other: int) -> None:
    """Asking for the control name of an ordinary id is a mistake of the caller, and says so."""
    with pytest.raises(KeyError, match=f"{other} is no control id"):
        load_vocab().control_name(other)
