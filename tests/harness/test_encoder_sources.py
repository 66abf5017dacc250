"""Where a vocabulary may come from: files and folders that are accepted, and every kind that is refused."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.encoder import load_vocab
from harness.errors import SetupError
from harness.vocab import CONTROL_IDS, N_RANKS, NAMED_CONTROL_IDS, VOCAB_SHA256, tiktoken_model_text

ROOT = Path(__file__).resolve().parents[2]
SHIFTED = {name: N_RANKS + k for k, name in enumerate(NAMED_CONTROL_IDS)}


def test_loading_is_quick_and_happens_once() -> None:
    """A new process has the verified vocabulary after less than a second of work; a second call makes none."""
    script = "import time; from harness.encoder import load_vocab; load_vocab(); print(time.process_time())"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert float(out.stdout) < 1.0
    assert load_vocab() is load_vocab()


def test_heavy_libraries_come_late() -> None:
    """Importing the module loads neither splintr nor tiktoken."""
    script = "import sys, harness.encoder; print(sorted({'splintr', 'tiktoken', 'regex'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert out.stdout == "[]\n"


@pytest.fixture(scope="module")
def model_text() -> bytes:
    """The real tiktoken.model."""
    return tiktoken_model_text(load_vocab().ranks)


def byte_level(token: bytes) -> str:
    """A token as byte-level BPE writes it, made by asking what each byte's character is."""
    shown = [b for b in range(256) if chr(b).isprintable() and not chr(b).isspace() and b < 0x100 and b != 0xAD]
    hidden = [b for b in range(256) if b not in shown]
    return "".join(chr(b) if b in shown else chr(0x100 + hidden.index(b)) for b in token)


@pytest.fixture(scope="module")
def fast_vocab() -> dict[str, int]:
    """The vocabulary of a tokenizer.json."""
    char = {b: byte_level(bytes([b])) for b in range(256)}
    return {"".join(map(char.__getitem__, token)): i for i, token in enumerate(load_vocab().ranks)}


def swapped(vocab: dict[str, int], one: str, other: str) -> dict[str, int]:
    """The same with two ids swapped."""
    return vocab | {one: vocab[other], other: vocab[one]}


def added_tokens(table: dict[str, int]) -> list[dict[str, Any]]:
    """As tokenizer.json lists them."""
    return [{"id": i, "content": name, "special": "think" not in name} for name, i in table.items()]


def decoder(table: dict[str, int]) -> dict[str, Any]:
    """As tokenizer_config.json lists them."""
    return {"added_tokens_decoder": {str(i): {"content": name, "lstrip": False} for name, i in table.items()}}


def test_a_model_file_is_accepted(tmp_path: Path, model_text: bytes) -> None:
    """The written tiktoken.model loads to the same vocabulary, once a source."""
    path = tmp_path / "tiktoken.model"
    path.write_bytes(model_text)

    assert load_vocab(path).ranks == load_vocab().ranks
    assert load_vocab(path) is load_vocab(path)
    assert load_vocab(str(path)).decode([163_607]) == b"</think>"


FILES = [
    pytest.param(lambda t: t[:1_000_000] + bytes([t[1_000_000] ^ 1]) + t[1_000_001:], "sha256", id="byte-flipped"),
    pytest.param(lambda t: t[:-1], "sha256", id="cut-by-a-byte"),
    pytest.param(lambda t: t + b"\n", "sha256", id="blank-line-more"),
    pytest.param(lambda t: t.replace(b"\n", b"\r\n"), "sha256", id="crlf"),
    pytest.param(lambda t: b"", "sha256", id="empty"),
    pytest.param(lambda t: b"\x80\x04" + t, "sha256", id="binary"),
    pytest.param(lambda t: t * 4, "more than 8388608 bytes", id="too-long"),
    pytest.param(lambda t: b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull", id="lfs-pointer"),
]


@pytest.mark.parametrize(("spoil", "said"), FILES)
def test_another_model_file_is_refused(
    tmp_path: Path, model_text: bytes, spoil: Callable[[bytes], bytes], said: str
) -> None:
    """A file that differs by a byte is refused; the message names the file and, where it was read, both hashes."""
    path = tmp_path / "tiktoken.model"
    path.write_bytes(spoil(model_text))

    with pytest.raises(SetupError) as error:
        load_vocab(path)
    assert str(path) in str(error.value)
    assert said in str(error.value)
    if said == "sha256":
        for words in (hashlib.sha256(path.read_bytes()).hexdigest(), VOCAB_SHA256, "Use splintr-rs"):
            assert words in str(error.value)


def test_a_missing_source_is_refused(tmp_path: Path) -> None:
    """A path where nothing is, or an empty folder, is said so."""
    with pytest.raises(SetupError, match="cannot be read: No such file"):
        load_vocab(tmp_path / "nowhere")
    with pytest.raises(SetupError, match=r"expected tokenizer\.json, or tiktoken\.model beside"):
        load_vocab(tmp_path)


FOLDERS = [
    pytest.param(decoder(dict(NAMED_CONTROL_IDS)), id="named-ids-only"),
    pytest.param(decoder(dict(CONTROL_IDS)), id="all-256"),
]


@pytest.mark.parametrize("config", FOLDERS)
def test_a_folder_with_the_model_file_is_accepted(tmp_path: Path, model_text: bytes, config: dict[str, Any]) -> None:
    """tiktoken.model beside tokenizer_config.json loads, whether or not reserved ids are listed; no code in it runs."""
    (tmp_path / "tiktoken.model").write_bytes(model_text)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | {"auto_map": {"AutoTokenizer": ["t.T", None]}}))
    (tmp_path / "t.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')")

    assert load_vocab(tmp_path).ranks == load_vocab().ranks
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("with_added", [False, True])
def test_a_folder_with_tokenizer_json_is_accepted(tmp_path: Path, fast_vocab: dict[str, int], with_added: bool) -> None:
    """tokenizer.json alone loads, also where its vocabulary repeats the added tokens."""
    vocab = fast_vocab | dict(CONTROL_IDS) if with_added else fast_vocab
    body = {"added_tokens": added_tokens(dict(CONTROL_IDS)), "model": {"type": "BPE", "vocab": vocab, "merges": []}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(body))

    assert load_vocab(tmp_path).ranks == load_vocab().ranks


def test_byte_level_writing_is_the_known_one() -> None:
    """The helper of these tests writes bytes as the known examples do, so that the folder test means something."""
    assert byte_level(b" The\n") == "ĠTheĊ"
    assert byte_level("é".encode()) == "Ã©"
    assert byte_level(b"\x00\x7f\xad\xff") == "ĀġŃÿ"


WRONG_CONFIGS = [
    pytest.param(decoder(SHIFTED), "<|start_header_id|> is 163589, must be 163590", id="shifted-by-transformers-5"),
    pytest.param(
        decoder({n: i for n, i in NAMED_CONTROL_IDS.items() if n != "</think>"}),
        "</think> (163607) is missing",
        id="k2",
    ),
    pytest.param(decoder({**NAMED_CONTROL_IDS, "chas": 163_533}), "'chas' (163533) is unknown", id="one-more"),
    pytest.param({}, "added_tokens_decoder", id="no-table"),
    pytest.param({"added_tokens_decoder": {}}, "[BOS] (163584) is missing", id="empty-table"),
    pytest.param({"added_tokens_decoder": [1]}, "JSON object was expected", id="table-is-a-list"),
    pytest.param({"added_tokens_decoder": {"x": {"content": "[BOS]"}}}, "added token 'x'", id="id-is-no-number"),
    pytest.param({"added_tokens_decoder": {"163584": {}}}, "added token '163584'", id="no-content"),
    pytest.param({"added_tokens_decoder": {"163584": None}}, "JSON object was expected", id="entry-is-null"),
]


@pytest.mark.parametrize(("config", "said"), WRONG_CONFIGS)
def test_a_folder_with_another_table_is_refused(
    tmp_path: Path, model_text: bytes, config: dict[str, Any], said: str
) -> None:
    """The right ranks with other control ids are refused; the message names the folder's file and what is wrong."""
    (tmp_path / "tiktoken.model").write_bytes(model_text)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))

    with pytest.raises(SetupError) as error:
        load_vocab(tmp_path)
    assert said in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_the_shifted_conversion_is_refused_beside_a_sound_config(
    tmp_path: Path, fast_vocab: dict[str, int], model_text: bytes
) -> None:
    """All descriptions of a folder must agree: a shifted tokenizer.json beside sound files is refused by its name."""
    body = {"added_tokens": added_tokens(SHIFTED), "model": {"type": "BPE", "vocab": fast_vocab, "merges": []}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(body))
    (tmp_path / "tiktoken.model").write_bytes(model_text)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(decoder(dict(NAMED_CONTROL_IDS))))

    with pytest.raises(SetupError, match="transformers 5") as error:
        load_vocab(tmp_path)
    assert str(error.value).startswith(str(tmp_path / "tokenizer.json"))


WRONG_VOCABS = [
    pytest.param(lambda v: swapped(v, "chas", "ĠThe"), VOCAB_SHA256, id="two-ids-swapped"),
    pytest.param(lambda v: {**v, "ĠTheĊĠ": 163_533}, "each once", id="id-twice"),
    pytest.param(lambda v: {n: i for n, i in v.items() if i != 163_533}, VOCAB_SHA256, id="one-missing"),
    pytest.param(lambda v: {**v, "a b": 5}, "no byte is written ' '", id="not-byte-level"),
    pytest.param(lambda v: {**v, "newtoken": 163_584}, "has id 163584", id="ordinary-token-on-a-control-id"),
    pytest.param(lambda v: {**v, "newtoken": "7"}, "has id '7'", id="id-is-a-string"),
    pytest.param(lambda v: {**v, "newtoken": True}, "has id True", id="id-is-a-bool"),
    pytest.param(lambda v: {**v, "newtoken": -1}, "has id -1", id="id-is-negative"),
    pytest.param(lambda v: [["a", 0.0]], "JSON object was expected", id="unigram"),
    pytest.param(lambda v: None, "JSON object was expected", id="none"),
]


@pytest.mark.parametrize(("spoil", "said"), WRONG_VOCABS)
def test_a_tokenizer_json_with_another_vocabulary_is_refused(
    tmp_path: Path, fast_vocab: dict[str, int], spoil: Callable[[dict[str, int]], Any], said: str
) -> None:
    """The right control ids with other ranks are refused, and the message names the file."""
    body = {"added_tokens": added_tokens(dict(CONTROL_IDS)), "model": {"type": "BPE", "vocab": spoil(fast_vocab)}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(body))

    with pytest.raises(SetupError) as error:
        load_vocab(tmp_path)
    assert said in str(error.value)
    assert str(tmp_path / "tokenizer.json") in str(error.value)


JSON_TEXTS = [
    pytest.param(b"{", "is not JSON", id="cut"),
    pytest.param(b"", "is not JSON", id="empty"),
    pytest.param(b"\xff\xfe\x00", "is not JSON", id="binary"),
    pytest.param(b"[" * 200_000, "is not JSON", id="deep"),
    pytest.param(b"[]", "JSON object was expected", id="list"),
    pytest.param(b'{"added_tokens": {}, "model": {}}', "JSON object was expected", id="no-vocab"),
    pytest.param(b'{"added_tokens": [3]}', "JSON object was expected", id="entry-is-a-number"),
    pytest.param(b'{"added_tokens": [{"id": true, "content": "x"}]}', "added token True", id="id-is-a-bool"),
    pytest.param(
        b'{"added_tokens": [{"id": 1, "content": "x"}, {"id": 2, "content": "x"}]}', "has two ids, 1 and 2", id="twice"
    ),
]


@pytest.mark.parametrize(("text", "said"), JSON_TEXTS)
def test_a_broken_tokenizer_json_is_refused(tmp_path: Path, text: bytes, said: str) -> None:
    """Whatever the file holds, the answer is an error that names it."""
    (tmp_path / "tokenizer.json").write_bytes(text)

    with pytest.raises(SetupError) as error:
        load_vocab(tmp_path)
    assert said in str(error.value)
    assert str(tmp_path / "tokenizer.json") in str(error.value)
