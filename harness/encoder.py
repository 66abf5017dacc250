"""Tokenizers: splintr by default, tiktoken as the reference of the tests, and the vocabulary files of other tools.

Owns splintr and tiktoken, and the reading of `tiktoken.model` and of local Hugging Face folders. Text of any origin
goes through splintr's `encode_ordinary` alone: `encode` and `encode_raw` turn marker text into control ids.
Knows nothing of prompts, answers or providers.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.errors import ProviderError, SetupError
from harness.vocab import (
    CONTROL_IDS,
    MAX_MODEL_BYTES,
    N_IDS,
    N_RANKS,
    NAMED_CONTROL_IDS,
    REMEDY_RANKS,
    Vocab,
    check_control,
    check_model_hash,
    parse_tiktoken_model,
)

if TYPE_CHECKING:
    import tiktoken

    from harness.types import Encode

PROMPT_WINDOW_CHARS = 400_000
"""The official encode() cuts a prompt text every so many characters,"""
PROMPT_RUN_CHARS = 25_000
"""and each run of more white space, or more of anything else, than this."""
MAX_JSON_BYTES = 64 << 20
"""Longest tokenizer.json or tokenizer_config.json that is read; the real ones have under 16 MB."""

_RUN = re.compile(rf"\s{{{PROMPT_RUN_CHARS + 1},}}|\S{{{PROMPT_RUN_CHARS + 1},}}")
# Where the split pattern differs from its near miss o200k, ids differ and text does not: no roundtrip would see it.
PATTERN_PROBES: Mapping[str, list[int]] = {
    "}\n/* x": [896, 1700, 1288],
    "}\n\n/** x": [955, 7717, 1288],
    " CAN'T wait 'til 2026.世界世界": [32330, 64833, 5161, 542, 3777, 220, 2975, 21, 13, 2243, 2243],
}


class Tokenizer(Protocol):
    """What is used of splintr."""

    def encode_ordinary(self, text: str) -> list[int]: ...
    def decode_token_bytes(self, id: int) -> bytes: ...


def verified(tokenizer: Tokenizer) -> "tuple[Encode, Vocab]":
    """The tokenizer's encoder and vocabulary, once its ranks and its split pattern have proved to be the right ones.

    Raises:
        SetupError: They are not.
    """
    vocab = Vocab.from_ranks(tuple(map(tokenizer.decode_token_bytes, range(N_RANKS))))
    for text, ids in PATTERN_PROBES.items():
        got = tokenizer.encode_ordinary(text)
        if got != ids:
            raise SetupError(f"not the split pattern of Kimi K2: {text!r} gives {got}, expected {ids}. {REMEDY_RANKS}")
    return tokenizer.encode_ordinary, vocab


@cache
def _splintr() -> "tuple[Encode, Vocab]":
    import splintr

    return verified(splintr.Tokenizer.from_pretrained("kimi_k2"))


def encode_ordinary(text: str) -> list[int]:
    """Ids of a text, whole, as sampled output is tokenized; no text can give a control id.

    Raises:
        ProviderError: The text holds a lone surrogate, so it stands for no bytes.
    """
    try:
        return _splintr()[0](text)
    except UnicodeEncodeError as error:
        raise ProviderError(f"the text holds a lone surrogate at character {error.start}: it has no bytes") from None


def encode_prompt_text(text: str) -> list[int]:
    """Ids of a stretch of prompt text, cut at the official seams first. Never for outputs: no sampler cuts them.

    Raises:
        ProviderError: The text holds a lone surrogate.
    """
    return [i for piece in prompt_pieces(text) for i in encode_ordinary(piece)]


def prompt_pieces(text: str) -> Iterator[str]:
    """The text between the official seams, in order; joined, they are the text."""
    for start in range(0, len(text), PROMPT_WINDOW_CHARS):
        window = text[start : start + PROMPT_WINDOW_CHARS]
        done = 0
        for run in _RUN.finditer(window):
            for seam in range(run.start() + PROMPT_RUN_CHARS, run.end(), PROMPT_RUN_CHARS):
                yield window[done:seam]
                done = seam
        yield window[done:]


@cache
def load_vocab(source: str | Path | None = None) -> Vocab:
    """The verified vocabulary, loaded once a process and source.

    Args:
        source: None for the ranks in splintr-rs; a `tiktoken.model` file; or a local Hugging Face folder with
            `tokenizer.json`, or with `tiktoken.model` and `tokenizer_config.json`. Nothing in it is executed, and all
            descriptions that it holds must agree with the pinned one.

    Raises:
        SetupError: The source cannot be read, or is not the pinned vocabulary; says what to do.
    """
    if source is None:
        return _splintr()[1]
    path = Path(source)
    return _vocab_of_folder(path) if path.is_dir() else _vocab_of(path, _ranks_of_model(path))


@cache
def tiktoken_encoding() -> "tiktoken.Encoding":
    """tiktoken with the same ranks and pattern: what tests hold splintr against. Needs the extra `test`."""
    import tiktoken
    from splintr import KIMI_PATTERN

    ranks = {token: i for i, token in enumerate(load_vocab().ranks)}
    return tiktoken.Encoding(
        "kimi-k2", pat_str=KIMI_PATTERN, mergeable_ranks=ranks, special_tokens=dict(CONTROL_IDS), explicit_n_vocab=N_IDS
    )


def _vocab_of_folder(folder: Path) -> Vocab:
    model, config, fast = (folder / n for n in ("tiktoken.model", "tokenizer_config.json", "tokenizer.json"))
    tables: dict[Path, dict[str, int]] = {}
    ranks: dict[Path, list[bytes]] = {}
    if config.exists() and (decoder := _read_json(config).get("added_tokens_decoder")) is not None:
        tables[config] = _control_table(config, _object(config, decoder).items())
    if fast.exists():
        body = _read_json(fast)
        added = body.get("added_tokens")
        entries = [_object(fast, entry) for entry in added] if isinstance(added, list) else []
        tables[fast] = _control_table(fast, ((entry.get("id"), entry) for entry in entries))
        ranks[fast] = _ranks_of_bpe(fast, _object(fast, body.get("model")))
    if model.exists():
        ranks[model] = _ranks_of_model(model)
    if not tables or not ranks:
        raise SetupError(
            f"{folder}: expected tokenizer.json, or tiktoken.model beside a tokenizer_config.json with "
            "added_tokens_decoder; to use the ranks alone, name the tiktoken.model file itself"
        )
    for path, table in tables.items():
        with _named(path):
            check_control(table)
    return [_vocab_of(path, tokens) for path, tokens in ranks.items()].pop()


def _vocab_of(path: Path, ranks: list[bytes]) -> Vocab:
    with _named(path):
        return Vocab.from_ranks(ranks)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Puts the file's name in front of what the pure core says of its content."""
    try:
        yield
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from None


def _ranks_of_model(path: Path) -> list[bytes]:
    data = _read(path, MAX_MODEL_BYTES)
    if data.startswith(b"version https://git-lfs"):
        raise SetupError(f"{path} is a Git LFS pointer, not the file; fetch it with `git lfs pull`")
    with _named(path):
        check_model_hash(data)  # before parsing: any other text is refused by its hash
        return parse_tiktoken_model(data)


def _ranks_of_bpe(path: Path, model: Mapping[str, Any]) -> list[bytes]:
    """Ranks of the `model` object of a tokenizer.json, whose tokens are written a character a byte."""
    ranks = [b""] * N_RANKS
    for text, i in _object(path, model.get("vocab")).items():
        if CONTROL_IDS.get(text) == i:
            continue  # some writers list the added tokens here too
        try:
            token = bytes(map(_BYTE_OF_CHAR.__getitem__, text))
        except KeyError as error:
            raise SetupError(f"{path}: token {text[:60]!r} is not byte-level BPE: no byte is written {error}") from None
        if type(i) is not int or not 0 <= i < N_RANKS or ranks[i]:
            raise SetupError(f"{path}: token {text[:60]!r} has id {i!r}; ids 0..{N_RANKS - 1} expected, each once")
        ranks[i] = token
    return ranks


def _byte_of_char() -> dict[str, int]:
    """How byte-level BPE writes bytes: a printable Latin-1 byte as itself, the others as U+0100 onwards."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + k): b for k, b in enumerate(others)}


_BYTE_OF_CHAR = _byte_of_char()


def _control_table(path: Path, entries: Iterable[tuple[Any, Any]]) -> dict[str, int]:
    """All control ids as a file names them: (id, {"content": name}) each. Reserved ids may go without an entry."""
    table: dict[str, int] = {}
    for raw_id, entry in entries:
        name = _object(path, entry).get("content")
        if not isinstance(name, str) or not re.fullmatch("[0-9]{1,9}", str(raw_id)):
            raise SetupError(f"{path}: added token {raw_id!r} is {str(entry)[:80]}, expected an id and a content")
        if table.setdefault(name, int(raw_id)) != int(raw_id):
            raise SetupError(f"{path}: added token {name!r} has two ids, {table[name]} and {raw_id}")
    reserved = {name: i for name, i in CONTROL_IDS.items() if name not in NAMED_CONTROL_IDS}
    return reserved | table


def _object(path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SetupError(
            f"{path}: {str(value)[:60]!r} where a JSON object was expected: not a tokenizer of this family"
        )
    return value


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return _object(path, json.loads(_read(path, MAX_JSON_BYTES)))
    except (ValueError, RecursionError) as error:
        raise SetupError(f"{path} is not JSON: {str(error)[:200]}") from None


def _read(path: Path, limit: int) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)  # not by its size: a pipe or a device has none
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > limit:
        raise SetupError(f"{path}: more than {limit} bytes; this is another file")
    return data
