"""A model's folder as files."""

import hashlib
import json
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.model_folder import read_model_folder, weights_sha256

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
