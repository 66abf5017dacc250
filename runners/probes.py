"""Does a running engine have the pinned tokenizer? Texts whose ids differ where it has not, and what to say then.

Three kinds: names of control tokens (transformers 5 closes the gaps between them), texts that the o200k pattern splits
otherwise, and pieces from the whole range of ranks. Over HTTP no probe can prove every rank; these tell all near misses
that were met.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.encoder import PATTERN_PROBES
from harness.errors import SetupError
from harness.types import Encode
from harness.vocab import NAMED_CONTROL_IDS, Vocab
from runners.engine_http import Server
from runners.engines import Told, tokenized

N_PIECES = 256
REMEDY = (
    "serve it with the original tiktoken.model and tokenizer_config.json of the model's repository, never with a "
    "tokenizer that AutoTokenizer converted"
)
PATTERN_TEXTS = (
    *PATTERN_PROBES,
    "  Привет,\r\n\t12345 Ünï—code 「かな」e\u0301 ",
)


@dataclass(frozen=True, slots=True)
class Probe:
    """A text and the ids that the pinned tokenizer makes of it."""

    kind: str
    text: str
    ids: list[int]


def probes(vocab: Vocab, encode: Encode) -> Iterator[Probe]:
    """All probes, the likeliest to fail first."""
    yield Probe("control table", "".join(NAMED_CONTROL_IDS), list(NAMED_CONTROL_IDS.values()))
    for text in PATTERN_TEXTS:
        yield Probe("split pattern", text, encode(text))
    pieces = "\n".join(_spread(vocab, encode))
    yield Probe("ranks", pieces, encode(pieces))


def _spread(vocab: Vocab, encode: Encode) -> Iterator[str]:
    """Texts of ranks from the whole range, each the one token of its text."""
    step = len(vocab.ranks) // N_PIECES
    for start in range(0, len(vocab.ranks), step):
        for rank in range(start, min(start + step, len(vocab.ranks))):
            text = vocab.ranks[rank].decode("utf-8", "ignore")
            if text.isalnum() and text.encode() == vocab.ranks[rank] and encode(text) == [rank]:
                yield text
                break


def check_tokenizer(server: Server, told: Told, vocab: Vocab, encode: Encode) -> None:
    """Refuse a server that makes other ids of a probe, or that cannot be asked.

    Raises:
        SetupError: Names the first id that differs.
    """
    for probe in probes(vocab, encode):
        got = tokenized(server, told, probe.text)
        if got is None:
            raise SetupError(
                f"{server.url} cannot be asked for the ids of a text: neither /tokenize nor an echo of the prompt gave "
                f"any, so its tokenizer stays unproven; use SGLang 0.5.3 or vLLM 0.10.2 or newer, with its tokenizer on"
            )
        if got != probe.ids:
            raise SetupError(
                f"{server.url} has another tokenizer ({probe.kind}): {_difference(probe, got, vocab)}; {REMEDY}"
            )


def _difference(probe: Probe, got: list[int], vocab: Vocab) -> str:
    pairs = zip(probe.ids, got, strict=False)
    at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(got), len(probe.ids)))
    if at >= len(probe.ids):
        return f"{len(got)} ids came for {probe.text[:40]!r}, expected {len(probe.ids)}"
    piece = vocab.token_bytes(probe.ids[at]).decode("utf-8", "backslashreplace")
    came = got[at] if at < len(got) else "nothing"
    return f"{piece!r} in {probe.text[:40]!r} is {came}, expected {probe.ids[at]}"
