"""A model's folder as files: its configuration, and which weights lie there. Loads no model, needs no torch."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any

from harness.errors import HarnessError, SetupError
from harness.response import loads

MAX_CONFIG_BYTES = 64 << 20
MAX_INDEX_BYTES = 256 << 20
WEIGHTS = (
    *("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json"),
    *("*.safetensors", "*.bin"),
)
"""The first of these that there is counts: transformers looks for the names in this order, and for no other. Where none
is there transformers refuses the folder, and other engines take whatever has the ending."""
EXPECTED = "expected a folder with config.json and safetensors files"
BOUNDS: Mapping[str, int] = {
    **dict.fromkeys(("num_hidden_layers", "num_nextn_predict_layers", "n_layer", "num_layers"), 1 << 10),
    **dict.fromkeys(("hidden_size", "n_embd"), 1 << 17),
    **dict.fromkeys(("intermediate_size", "moe_intermediate_size"), 1 << 19),
    **dict.fromkeys(("num_attention_heads", "num_key_value_heads"), 1 << 12),
    **dict.fromkeys(("head_dim", "v_head_dim", "qk_nope_head_dim", "qk_rope_head_dim"), 1 << 14),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 1 << 16),
    **dict.fromkeys(("n_routed_experts", "num_experts", "num_local_experts", "n_shared_experts"), 1 << 13),
    "vocab_size": 1 << 22,
}
"""What no model comes near (K2.5: 61 layers, 7,168 wide, 384 experts, 163,840 ids). What is built of a number beyond it
fills the memory, or never ends."""
ROPE_BY_LENGTH = ("dynamic", "longrope")
"""Rotary embeddings that transformers chooses by the longest row of a batch, and keeps from batch to batch."""
N_HASHING = 8  # files at a time: hashing is slower than the disks that models of a terabyte lie on
SNAPSHOT = re.compile(r"models--(?P<owner>.+?)--(?P<name>[^/]+)/snapshots/(?P<revision>[0-9a-f]{7,64})/?$")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What the files say.

    Attributes:
        name: `owner/name` of a Hugging Face cache, else the folder's own name.
        revision: Of a Hugging Face cache; None elsewhere.
        config: The values of the text model: `text_config` where the model has more than one part.
        code_elsewhere: Code of another repository that config.json names, in `auto_map`; None for none.
    """

    path: Path
    name: str
    revision: str | None
    architecture: str
    config: Mapping[str, Any]
    config_sha256: str
    code_elsewhere: str | None = None

    def number(self, key: str) -> int:
        """A positive whole number of the configuration.

        Raises:
            SetupError: It is not there.
        """
        value = self.config.get(key)
        if type(value) is not int or value < 1:
            raise SetupError(f"{self.path}/config.json: {key} is {value!r:.60}; expected a whole number above 0")
        return value

    @property
    def max_length(self) -> int | None:
        """The longest sequence that the positions are made for; None where the configuration names none."""
        return self.number("max_position_embeddings") if "max_position_embeddings" in self.config else None


@dataclass(frozen=True, slots=True)
class Weights:
    """The files that are loaded, whatever else lies beside them.

    Attributes:
        files: By name; empty where no weights lie there.
        index: Tensor name -> file name, as the index says; empty where there is no index.
    """

    files: tuple[Path, ...]
    index: Mapping[str, str]


def read_model_folder(folder: str | Path) -> ModelFolder:
    """The folder of a model, weights or not.

    Raises:
        SetupError: It holds no configuration of a model.
    """
    path = Path(folder)
    file = path / "config.json"
    try:
        if not S_ISREG(file.stat().st_mode):  # to read a named pipe would never end
            raise SetupError(f"{file} is no file; expected the folder of a local model")
        with file.open("rb") as stream:
            data = stream.read(MAX_CONFIG_BYTES + 1)
        if len(data) > MAX_CONFIG_BYTES:
            raise SetupError(
                f"{file} has more than {MAX_CONFIG_BYTES >> 20} MiB; expected the configuration of a model, a few "
                "KB: copy it again"
            )
        value = loads(data)
    except SetupError:
        raise
    except (OSError, HarnessError) as error:
        raise SetupError(f"{file} cannot be read ({error!s:.200}); expected the folder of a local model") from error
    if not isinstance(value, dict):
        raise SetupError(f"{file} is no JSON object; expected the folder of a local model")
    _demand_bounds(file, "", value)
    if other := value.get("transformers_weights"):
        raise SetupError(f"{file}: transformers_weights names {other!r:.60}; expected weights under their usual names")
    text = value.get("text_config")
    config = text if isinstance(text, dict) else value
    named = value.get("architectures") or config.get("architectures") or [value.get("model_type")]
    cached = SNAPSHOT.search(path.absolute().as_posix())
    return ModelFolder(
        path,
        f"{cached['owner']}/{cached['name']}" if cached else path.resolve().name,
        cached["revision"] if cached else None,
        str(named[0] if isinstance(named, list) and named else named),
        config,
        hashlib.sha256(data).hexdigest(),
        next((name for name in _texts(value.get("auto_map")) if "--" in name), None),
    )


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)


def _demand_bounds(file: Path, where: str, config: Mapping[str, Any]) -> None:
    """Before anything is built of the numbers, in any part of the model."""
    for key, value in config.items():
        if isinstance(value, dict):
            _demand_bounds(file, f"{where}{key}.", value)
        elif key in BOUNDS and isinstance(value, int | float) and not abs(value) <= BOUNDS[key]:
            raise SetupError(
                f"{file}: {where}{key} is {value!r:.40}; expected {BOUNDS[key]:,} at most, as every known model has: "
                "copy the file again"
            )


def demand_fixed_rope(config: Mapping[str, Any]) -> None:
    """States must not change with what is computed together, nor with what was computed before.

    Raises:
        SetupError: They would, for transformers chooses the positions by the batch.
    """
    for key in ("rope_parameters", "rope_scaling"):
        found = config.get(key)
        values = [found, *found.values()] if isinstance(found, dict) else []  # one for all layers, or by kind of layer
        kinds = {str(v.get("rope_type") or v.get("type")) for v in values if isinstance(v, dict)}
        if odd := sorted(kind for kind in kinds if any(part in kind for part in ROPE_BY_LENGTH)):
            raise SetupError(
                f"config.json: {key} has rope_type {odd[0]!r}: in transformers the states of a sample would depend on "
                "the length of the batch that it is computed in; this model is not supported"
            )


def read_weights(folder: Path) -> Weights:
    """The weights of a model folder, as transformers chooses them; see WEIGHTS.

    Raises:
        SetupError: There is an index that counts, and it cannot be believed.
    """
    kinds = (sorted(path for path in folder.glob(kind) if path.is_file()) for kind in WEIGHTS)
    files = next((found for found in kinds if found), [])
    if not files or files[0].suffix != ".json":
        return Weights(tuple(files), {})
    index = _weight_map(files[0])
    if odd := [file for file in index.values() if not isinstance(file, str) or Path(file).name != file]:
        raise SetupError(f"{files[0]}: {odd[0]!r} is no file of this folder")
    return Weights(tuple(folder / name for name in sorted(set(index.values()))), index)


def _weight_map(index: Path) -> Mapping[str, Any]:
    try:
        if index.stat().st_size > MAX_INDEX_BYTES:
            raise SetupError(f"{index}: more than {MAX_INDEX_BYTES >> 20} MiB; {EXPECTED}")
        value = loads(index.read_bytes())
    except OSError as error:
        raise SetupError(f"{index}: cannot be read: {error.strerror or error}; {EXPECTED}") from error
    except HarnessError as error:
        raise SetupError(f"{index}: {error}; {EXPECTED}") from error
    found = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(found, dict):
        raise SetupError(f"{index}: no `weight_map`; expected tensor names with their files")
    return found


def weights_sha256(folder: Path) -> str | None:
    """One hash of the weights: of the lines `sha256  name` of the files, by name. None where no weights lie there.

    Raises:
        SetupError: As `read_weights`, or a file cannot be read.
    """
    return _files_sha256(folder, read_weights(folder).files)


def code_told(about: ModelFolder, *, trusted: bool) -> dict[str, Any]:
    """What a run says of code in the model's folder: whether it may run, and which it is.

    Raises:
        SetupError: A file cannot be read, or code of another repository would run, which nobody looks at here.
    """
    if not trusted:
        return {"trust_remote_code": False}
    if about.code_elsewhere:
        raise SetupError(
            f"{about.path}/config.json: auto_map names {about.code_elsewhere!r:.100}, code that is not in the folder; "
            "put its files there and take the repository off the name, or leave --trust-remote-code out"
        )
    return {"trust_remote_code": True, "code_sha256": code_sha256(about.path)}


def code_sha256(folder: Path) -> str | None:
    """The same of the Python files in a folder, which run where remote code may; None where there are none.

    Raises:
        SetupError: A file cannot be read.
    """
    return _files_sha256(folder, sorted(path for path in folder.rglob("*.py") if path.is_file()))


def _files_sha256(folder: Path, files: Sequence[Path]) -> str | None:
    if not files:
        return None
    try:
        with ThreadPoolExecutor(N_HASHING) as pool:
            digests = list(pool.map(file_sha256, files))
    except OSError as error:
        raise SetupError(f"{error.filename} cannot be read: {error.strerror or error}") from error
    names = (file.relative_to(folder).as_posix() for file in files)
    lines = "".join(f"{digest}  {name}\n" for digest, name in zip(digests, names, strict=True))
    return hashlib.sha256(lines.encode()).hexdigest()


def file_sha256(file: Path) -> str:
    """Of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
