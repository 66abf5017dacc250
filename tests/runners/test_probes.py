"""runners.probes: a server with another tokenizer is refused, whichever of the known near misses it has."""

import pytest
import tiktoken
from splintr import KIMI_PATTERN

from harness.encoder import encode_ordinary, load_vocab
from harness.errors import SetupError
from harness.vocab import N_RANKS, NAMED_CONTROL_IDS
from runners.engines import Told
from runners.probes import N_PIECES, check_tokenizer, probes
from tests.runners.standin import StandIn, Tokenize, asking, pinned

TOLD = Told("sglang", "0.5.23", "kimi-k2.5", {})


def checked(tokenize: Tokenize) -> StandIn:
    """The stand-in after its tokenizer was checked."""
    engine = StandIn([], tokenize=tokenize)
    with asking(engine) as server:
        check_tokenizer(server, TOLD, load_vocab(), encode_ordinary)
    return engine


def test_the_probes_themselves() -> None:
    """All 23 named control tokens, four texts for the pattern, and pieces from the whole range of ranks."""
    control, *patterns, ranks = probes(load_vocab(), encode_ordinary)

    assert control.ids == list(NAMED_CONTROL_IDS.values())
    assert patterns[0].ids == [896, 1700, 1288]
    assert patterns[1].ids == [955, 7717, 1288]
    assert len(ranks.text.split("\n")) >= 0.95 * N_PIECES
    assert max(ranks.ids) > 0.99 * N_RANKS
    assert len({i // 1000 for i in ranks.ids}) > 150


def test_the_right_tokenizer_passes() -> None:
    """Six questions, and no answer is generated."""
    assert [path for path, _ in checked(pinned).asked] == ["/tokenize"] * 6


def shifted(text: str) -> list[int]:
    """The table that transformers 5 makes: the gaps between the control ids closed; `<|im_end|>` does not move."""
    table = {i: N_RANKS + k for k, i in enumerate(NAMED_CONTROL_IDS.values())}
    return [table.get(i, i) for i in pinned(text)]


def o200k(text: str) -> list[int]:
    """The same ranks under o200k's pattern: a slash ends a run of signs, and Han characters are letters."""
    pattern = KIMI_PATTERN.replace(r"[^\s\p{L}\p{N}]+[\r\n]*", r"[^\s\p{L}\p{N}]+[\r\n/]*")
    ranks = {token: i for i, token in enumerate(load_vocab().ranks)}
    encoding = tiktoken.Encoding("near", pat_str=pattern, mergeable_ranks=ranks, special_tokens=dict(NAMED_CONTROL_IDS))
    return encoding.encode(text, allowed_special="all")


def swapped(text: str) -> list[int]:
    """Two ranks far up in the table changed places."""
    last = list(probes(load_vocab(), encode_ordinary))[-1].ids[-1]
    return [last - 1 if i == last else i for i in pinned(text)]


@pytest.mark.parametrize(
    ("tokenize", "words"),
    [
        (shifted, r"\(control table\): '<\|start_header_id\|>' .* is 163589, expected 163590"),
        (encode_ordinary, r"\(control table\): '\[BOS\]' .* is 72706, expected 163584"),
        (o200k, r"\(split pattern\): '/\*' in '}\\n/\* x' is 14, expected 1700"),
        (swapped, r"\(ranks\): '尼姑' .* is 162944, expected 162945"),
        (lambda text: [163584, *pinned(text)], r"\(control table\): '\[EOS\]' .* is 163584, expected 163585"),
        (lambda text: pinned(text)[:-1], r"is nothing, expected 163839"),
        (lambda text: [*pinned(text), 163585], r"24 ids came for .*, expected 23"),
    ],
    ids=["shifted", "no-control", "o200k", "swapped", "bos-added", "one-less", "eos-added"],
)  # fmt: skip
def test_another_tokenizer_is_refused(tokenize: Tokenize, words: str) -> None:
    """With the probe, the first id that differs, and what to serve instead."""
    with pytest.raises(SetupError, match=words) as caught:
        checked(tokenize)

    assert "has another tokenizer" in str(caught.value)
    assert "original tiktoken.model" in str(caught.value)


def test_im_end_alone_would_prove_nothing() -> None:
    """The shifted table agrees on `<|im_end|>`: the probe has what lies above the gaps."""
    assert shifted("<|im_end|>") == [163586]
    assert shifted("</think>") == [163604]


def test_the_o200k_near_miss_is_the_real_one() -> None:
    """What the stand-in gives is what the o200k pattern is known to give."""
    assert o200k("}\n/* x") == [896, 14, 9, 1288]


def test_a_server_that_cannot_be_asked_is_refused() -> None:
    """An unproven tokenizer is no proven one."""
    faults = {"/tokenize": lambda _: (404, b""), "/generate": lambda _: (404, b"")}
    unproven = pytest.raises(SetupError, match="its tokenizer stays unproven")
    with asking(StandIn([], faults=faults)) as server, unproven:
        check_tokenizer(server, TOLD, load_vocab(), encode_ordinary)
