"""A model's folder as files."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupError
from runners.model_folder import (
    BOUNDS,
    MAX_CONFIG_BYTES,
    code_sha256,
    code_told,
    read_model_folder,
    read_weights,
    weights_sha256,
)

K25 = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": {"model_type": "kimi_k2", "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 163840},
}


def folder_of(path: Path, config: object) -> Path:
    """A folder with this configuration."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return path


def test_a_model_of_several_parts_is_its_text_model(tmp_path: Path) -> None:
    """K2.5 keeps depth and width in text_config."""
    about = read_model_folder(folder_of(tmp_path / "K2.5", K25))

    assert about.number("num_hidden_layers") == 61
    assert about.architecture == "KimiK25ForConditionalGeneration"
    assert (about.name, about.revision, about.max_length) == ("K2.5", None, None)


def test_a_hugging_face_cache_tells_name_and_revision(tmp_path: Path) -> None:
    """From the path, as its own tools lay it out."""
    path = folder_of(tmp_path / "hub/models--moonshotai--Kimi-K2.5/snapshots" / ("a1" * 20), K25)

    about = read_model_folder(path)

    assert (about.name, about.revision) == ("moonshotai/Kimi-K2.5", "a1" * 20)


@pytest.mark.parametrize("config", ["[1]", "{", '"x"'])
def test_no_configuration_is_refused(tmp_path: Path, config: str) -> None:
    """Neither half a file nor JSON of another kind."""
    with pytest.raises(SetupError, match="expected the folder of a local model"):
        read_model_folder(folder_of(tmp_path, config))


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_configuration_that_is_no_file_is_refused(tmp_path: Path, make: Any) -> None:
    """A named pipe, which nobody need write to, or a folder."""
    make(tmp_path / "config.json")
    with pytest.raises(SetupError, match=r"config\.json is no file; expected the folder of a local model"):
        read_model_folder(tmp_path)


def test_a_configuration_that_is_too_large_says_so(tmp_path: Path) -> None:
    """A file of 64 MiB and more is no configuration: its size is told, not what its bytes are not."""
    folder_of(tmp_path, "{}")
    with (tmp_path / "config.json").open("r+b") as file:
        file.truncate(MAX_CONFIG_BYTES + 1)
    with pytest.raises(SetupError, match=r"config\.json has more than 64 MiB; expected the configuration of a model"):
        read_model_folder(tmp_path)


@pytest.mark.parametrize("key", sorted(BOUNDS))
def test_a_number_beyond_every_model_is_refused(tmp_path: Path, key: str) -> None:
    """In any part of the configuration, and before anything is built: it would fill the memory, or never end."""
    for part in ("", "text_config", "vision_config"):
        for value in (10**9, 1e30, 10**400, -(10**9)):
            folder_of(tmp_path, {**K25, part: {key: value}} if part else {**K25, key: value})
            where = f"{part}.{key}" if part else key
            with pytest.raises(SetupError, match=rf"config\.json: {where} is .*; expected [\d,]+ at most"):
                read_model_folder(tmp_path)


def test_the_largest_known_models_are_within_the_bounds() -> None:
    """K2.5, Llama 405B and others have an eighth of each bound at most."""
    known = {"num_hidden_layers": 126, "hidden_size": 16_384, "intermediate_size": 53_248, "vocab_size": 262_208}
    known |= {"num_attention_heads": 128, "n_routed_experts": 512, "num_experts": 512, "num_nextn_predict_layers": 3}
    assert {key for key, value in known.items() if value * 8 > BOUNDS[key]} == set()


@pytest.mark.parametrize("value", [0, -1, "61", True, None])
def test_a_number_that_is_none_is_refused(tmp_path: Path, value: object) -> None:
    """Depth and width are whole numbers above 0."""
    about = read_model_folder(folder_of(tmp_path, {"num_hidden_layers": value}))
    with pytest.raises(SetupError, match=r"num_hidden_layers is .*; expected a whole number"):
        about.number("num_hidden_layers")


def test_the_hash_of_weights_is_of_names_and_bytes(tmp_path: Path) -> None:
    """Like `sha256sum *.safetensors | sha256sum`; none where there are no weights."""
    assert weights_sha256(tmp_path) is None
    lines = []
    for name in ("b.safetensors", "a.safetensors"):
        (tmp_path / name).write_bytes(name.encode())
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()}  {name}\n")
    (tmp_path / "c.bin").write_bytes(b"beside safetensors, other formats are not loaded")

    assert weights_sha256(tmp_path) == hashlib.sha256("".join(sorted(lines, key=lambda s: s[66:])).encode()).hexdigest()


def test_the_hash_of_code_is_of_every_python_file(tmp_path: Path) -> None:
    """As that of the weights, with the folders of the names; none where there is no code."""
    assert code_sha256(tmp_path) is None
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts/norm.py").write_bytes(b"1")
    (tmp_path / "modeling.py").write_bytes(b"2")
    (tmp_path / "notes.txt").write_bytes(b"3")

    lines = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name}\n"
        for name, data in (("modeling.py", b"2"), ("parts/norm.py", b"1"))
    )
    assert code_sha256(tmp_path) == hashlib.sha256(lines.encode()).hexdigest()


def test_code_of_another_repository_is_refused_where_code_may_run(tmp_path: Path) -> None:
    """It lies in a cache, and no hash of the folder tells of it; where no code may run, the name does not matter."""
    auto_map = {"AutoConfig": "configuration.C", "AutoModelForCausalLM": ["owner/other--modeling.M", None]}
    about = read_model_folder(folder_of(tmp_path, {"auto_map": auto_map}))
    assert code_told(about, trusted=False) == {"trust_remote_code": False}
    with pytest.raises(SetupError, match=r"auto_map names 'owner/other--modeling\.M', code that is not in the folder"):
        code_told(about, trusted=True)


INDEX = '{"weight_map": {"a": "m-2.safetensors", "b": "m-1.safetensors", "c": "m-2.safetensors"}}'
BIN_INDEX = '{"weight_map": {"a": "p-1.bin"}}'
CHOICES: list[Any] = [
    pytest.param(["model.safetensors", "m-1.safetensors", "extra.safetensors"], ["model.safetensors"], id="one-file"),
    pytest.param(["m-1.safetensors", "m-2.safetensors", "extra.safetensors"], ["m-1.safetensors", "m-2.safetensors"],
                 id="index"),
    pytest.param(["pytorch_model.bin", "extra.safetensors", "training_args.bin"], ["pytorch_model.bin"], id="bin"),
    pytest.param(["p-1.bin", "p-2.bin"], ["p-1.bin"], id="bin-index"),
    pytest.param(["b.safetensors", "a.safetensors", "x.bin"], ["a.safetensors", "b.safetensors"], id="other-engines"),
    pytest.param([], [], id="none"),
]  # fmt: skip


@pytest.mark.parametrize(("there", "loaded"), CHOICES)
def test_weights_are_the_files_that_are_loaded(there: list[str], loaded: list[str], tmp_path: Path) -> None:
    """In transformers' order, and the hash is of exactly these, whatever lies beside them."""
    for name in there:
        (tmp_path / name).write_text(name)
    if "model.safetensors" in there or "m-2.safetensors" in there:
        (tmp_path / "model.safetensors.index.json").write_text(INDEX)
    if "p-1.bin" in there:
        (tmp_path / "pytorch_model.bin.index.json").write_text(BIN_INDEX)

    assert [path.name for path in read_weights(tmp_path).files] == loaded
    before = weights_sha256(tmp_path)
    for name in there:
        (tmp_path / name).write_text("changed")
        assert (weights_sha256(tmp_path) != before) == (name in loaded)
        (tmp_path / name).write_text(name)


def test_weights_under_a_name_of_the_configurations_own_are_refused(tmp_path: Path) -> None:
    """transformers would load that file, and none that is looked at here."""
    with pytest.raises(SetupError, match=r"transformers_weights names 'other.safetensors'"):
        read_model_folder(folder_of(tmp_path, {**K25, "transformers_weights": "other.safetensors"}))
