"""The end of a model from its checkpoint: final norm and lm_head, without the layers between.

Enough to turn last hidden states into logits, and far less than the model: two tensors. Only the norm of model types
that are known is applied; of any other nothing is guessed. Knows nothing of samples and shards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from runners.model_folder import EXPECTED, read_model_folder, read_weights
from runners.states import LastNorm
from runners.tensor_files import Info, read_infos, read_tensor
from runners.tensors import Tensor
from runners.tensors import dtype as dtype_of

PLAIN = frozenset(
    {
        *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
        *("deepseek_v2", "deepseek_v3", "kimi_k2", "kimi_k25"),
    }
)
"""Model types whose logits are lm_head(RMSNorm(x)): weight * x / sqrt(mean(x^2) + eps), no bias, no scale."""
RESHAPED = ("final_logit_softcapping", "logits_scaling", "logit_scale")
"""Keys of a config.json that change logits after lm_head."""
FLOATS = frozenset({"F64", "F32", "BF16", "F16"})
HEAD, EMBEDDING, NORM = ".lm_head.weight", ".embed_tokens.weight", ".model.norm.weight"


@dataclass(frozen=True, slots=True)
class Head:
    """What turns last states into logits.

    Attributes:
        rows: lm_head, shape (V, H).
        norm: Weight of the final norm, shape (H,); None where the states are behind it already.
        eps: Of that norm.
        names: The tensors of the checkpoint that these are.
    """

    rows: Tensor
    norm: Tensor | None
    eps: float
    names: tuple[str, ...]

    def normed(self, states: Tensor) -> Tensor:
        """States (n, H) as lm_head takes them, in the dtype of the states; the mean is taken in fp32, as models do."""
        if self.norm is None:
            return states
        wide = states.float()
        scaled = wide * (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return self.norm * scaled.to(states.dtype)

    def demand_finite(self) -> None:
        """With a NaN or an infinity in it no agreement is a number.

        Raises:
            SetupError: There is one; names the tensor.
        """
        for name, tensor in zip(self.names, (self.rows, self.norm), strict=False):  # no norm, no name of one
            if tensor is not None and not tensor.isfinite().all():
                raise SetupError(
                    f"lm_head is not finite: {name} holds NaN or infinity in {tensor.dtype}; look for damaged weights, "
                    "or try another dtype (fp16 overflows where bf16 does not)"
                )


def load_head(folder: Path, norm: LastNorm, width: int, *, dtype: str = "fp32", device: str = "cpu") -> Head:
    """The head of a checkpoint for states of this dtype, `width` (H) wide, on a device of its own.

    Args:
        folder: A model folder: config.json, and safetensors in one file or with an index. A multimodal config's
            `text_config` counts; lm_head may be tied to the embedding.
        norm: Where the states stand that will go in.

    Raises:
        SetupError: There is none, or none that is known to give this model's logits; says why.
    """
    config = _config(folder)
    files = _files(folder)
    names = [_head_name(files, config, folder)] + ([_one(files, NORM, folder)] if norm == "pre" else [])
    kind, tensors = dtype_of(dtype), []
    for name in names:
        info = files[name]
        if info.dtype not in FLOATS:
            raise SetupError(f"{folder}: {name} is {info.dtype}, quantised; expected one of {sorted(FLOATS)}")
        tensors.append(read_tensor(info.path, name).to(dtype=kind, device=device))
    rows = tensors[0]
    if rows.ndim != 2 or any(tensor.shape[-1] != width for tensor in tensors):
        raise SetupError(f"{folder}: {names[0]} has shape {tuple(rows.shape)}; expected (vocabulary, {width})")
    eps = config.get("rms_norm_eps") if norm == "pre" else 0.0
    if not isinstance(eps, int | float):
        raise SetupError(f"{folder}: config.json says rms_norm_eps {eps!r}; expected a number")
    return Head(rows, tensors[1] if norm == "pre" else None, float(eps), tuple(names))


def _config(folder: Path) -> Mapping[str, Any]:
    config = read_model_folder(folder).config
    kind = config.get("model_type")
    if kind not in PLAIN:
        raise SetupError(f"{folder}: nothing is known of the logits of model_type {kind!r}; known: {sorted(PLAIN)}")
    if odd := [key for key in RESHAPED if config.get(key) not in (None, 1)]:
        raise SetupError(f"{folder}: config.json has {odd[0]}, so that logits are not lm_head(norm(x)) alone")
    return config


def _files(folder: Path) -> dict[str, Info]:
    """Tensor name -> where it is, of those that can be a head; the index is believed, then checked."""
    weights = read_weights(folder)
    if not weights.index:
        files = [path for path in weights.files if path.suffix == ".safetensors"]
        return {info.name: info for path in files for info in read_infos(path)}
    wanted = {name: file for name, file in weights.index.items() if f".{name}".endswith((HEAD, EMBEDDING, NORM))}
    files = [path for path in weights.files if path.name in wanted.values() and path.suffix == ".safetensors"]
    infos = [info for path in files for info in read_infos(path)]
    found = {info.name: info for info in infos if wanted.get(info.name) == info.path.name}
    if missing := sorted(wanted.keys() - found.keys()):
        raise SetupError(f"{folder}: {missing[0]} is not in {wanted[missing[0]]}, as the index says; {EXPECTED}")
    return found


def _head_name(files: Mapping[str, Info], config: Mapping[str, Any], folder: Path) -> str:
    """lm_head, or the embedding that it is tied to; where both are stored they must be the same."""
    if not config.get("tie_word_embeddings"):
        return _one(files, HEAD, folder)
    embedding = _one(files, EMBEDDING, folder)
    if any(f".{name}".endswith(HEAD) for name in files):
        head = _one(files, HEAD, folder)
        if not read_tensor(files[head].path, head).equal(read_tensor(files[embedding].path, embedding)):
            raise SetupError(f"{folder}: config.json ties {head} to {embedding}, but they differ; which one counts?")
    return embedding


def _one(files: Mapping[str, Info], ending: str, folder: Path) -> str:
    names = [name for name in files if f".{name}".endswith(ending)]
    if len(names) != 1:
        what = f"{len(names)} tensors ({', '.join(sorted(names)[:3])})" if names else "no tensor"
        raise SetupError(f"{folder}: {what} named *{ending.removeprefix('.')}; expected one; {EXPECTED}")
    return names[0]
