"""The head of a checkpoint: found where it stands, refused where it is not known to be the model's."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from harness.errors import SetupError
from runners.checkpoint import load_head
from runners.tiny import make_tiny

WIDTH = 32


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny Llama of 50 ids."""
    return make_tiny(tmp_path / "model", vocab_size=50)


def edit(folder: Path, **changes: Any) -> None:
    """Change values of config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def rename(folder: Path, **names: str) -> None:
    """Name the tensors of the one file anew; "" drops one."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    for old, new in names.items():
        tensor = tensors.pop(old.replace("__", "."))
        if new:
            tensors[new] = tensor
    save_file(tensors, file)


def own(folder: Path) -> tuple[torch.Tensor, torch.Tensor]:
    """lm_head and final norm of the loaded model."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model.lm_head.weight, model.model.norm.weight


@pytest.mark.parametrize("shard_size", ["1GB", "20KB"], ids=["one-file", "sharded"])
def test_the_head_is_the_models_own(shard_size: str, folder: Path) -> None:
    """lm_head and norm are those of the loaded model, in one file or in many with an index."""
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    torch.nn.init.uniform_(model.model.norm.weight)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size=shard_size)
    assert (len(list(folder.glob("*.safetensors"))) > 1) == (shard_size == "20KB")

    head = load_head(folder, "pre", WIDTH)

    assert head.rows.equal(model.lm_head.weight)
    assert head.norm is not None
    assert head.norm.equal(model.model.norm.weight)
    assert head.eps == 1e-6
    assert head.names == ("lm_head.weight", "model.norm.weight")


def test_states_behind_the_norm_need_none(folder: Path) -> None:
    """Post-norm states are taken as they are."""
    head = load_head(folder, "post", WIDTH)
    states = torch.randn(3, 32)

    assert head.norm is None
    assert head.normed(states) is states


def test_a_tied_head_is_the_embedding(folder: Path, tmp_path: Path) -> None:
    """Where the configuration ties them, the embedding's rows are lm_head."""
    tied = make_tiny(tmp_path / "tied", vocab_size=50, tie_word_embeddings=True)
    assert "lm_head.weight" not in load_file(tied / "model.safetensors")

    head = load_head(tied, "post", WIDTH)

    assert head.names == ("model.embed_tokens.weight",)
    assert head.rows.equal(own(tied)[0])
    edit(folder, tie_word_embeddings=True)
    with pytest.raises(SetupError, match=r"ties lm_head\.weight to model\.embed_tokens\.weight, but they differ"):
        load_head(folder, "post", WIDTH)


def test_a_multimodal_models_names_are_found(folder: Path) -> None:
    """Kimi K2.5 keeps its text model below `language_model` and its values in `text_config`."""
    rows, norm = own(folder)
    names = {
        "lm_head__weight": "language_model.lm_head.weight",
        "model__norm__weight": "language_model.model.norm.weight",
    }
    rename(folder, **names)
    text = json.loads((folder / "config.json").read_text()) | {"model_type": "kimi_k2"}
    (folder / "config.json").write_text(json.dumps({"model_type": "kimi_k25", "text_config": text}))

    head = load_head(folder, "pre", WIDTH)

    assert head.names == ("language_model.lm_head.weight", "language_model.model.norm.weight")
    assert head.rows.equal(rows)
    assert head.norm is not None
    assert head.norm.equal(norm)


def test_the_head_takes_the_dtype_of_the_states(folder: Path) -> None:
    """States in bf16 meet lm_head in bf16, as in the model."""
    assert load_head(folder, "pre", WIDTH, dtype="bf16").rows.dtype is torch.bfloat16


ODD: list[Any] = [
    pytest.param({"model_type": "gemma2"}, r"nothing is known of the logits of model_type 'gemma2'", id="other-norm"),
    pytest.param({"final_logit_softcapping": 30.0}, "config.json has final_logit_softcapping", id="soft-cap"),
    pytest.param({"rms_norm_eps": None}, "rms_norm_eps None; expected a number", id="no-eps"),
]


@pytest.mark.parametrize(("changes", "said"), ODD)
def test_a_head_that_is_not_known_is_refused(changes: dict[str, Any], said: str, folder: Path) -> None:
    """Where logits may be something else than lm_head(norm(x)), nothing is guessed."""
    edit(folder, **changes)
    with pytest.raises(SetupError, match=said):
        load_head(folder, "pre", WIDTH)


def test_what_is_missing_is_named(folder: Path) -> None:
    """No lm_head, two of them, another width, quantised rows: each refused with what was found."""
    with pytest.raises(SetupError, match=r"lm_head\.weight has shape \(50, 32\); expected \(vocabulary, 31\)"):
        load_head(folder, "post", 31)
    rename(folder, lm_head__weight="")
    with pytest.raises(SetupError, match=r"no tensor named \*lm_head\.weight; expected one"):
        load_head(folder, "post", WIDTH)
    save_file({f"{part}.lm_head.weight": torch.zeros(2, 32) for part in "ab"}, folder / "model.safetensors")
    with pytest.raises(SetupError, match=r"2 tensors \(a\.lm_head\.weight, b\.lm_head\.weight\)"):
        load_head(folder, "post", WIDTH)
    save_file({"lm_head.weight": torch.zeros(50, 32, dtype=torch.int8)}, folder / "model.safetensors")
    with pytest.raises(SetupError, match=r"lm_head\.weight is I8, quantised"):
        load_head(folder, "post", WIDTH)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ("[", "expected a folder with config.json and safetensors files"),
        ('{"metadata": {}}', "no `weight_map`"),
        ('{"weight_map": {"lm_head.weight": "../model.safetensors"}}', "is no file of this folder"),
        ('{"weight_map": {"lm_head.weight": 7}}', "is no file of this folder"),
        ('{"weight_map": {"lm_head.weight": "gone.safetensors"}}', "gone.safetensors: no whole safetensors file"),
        ('{"weight_map": {"lm_head.weight": "part.safetensors"}}', "lm_head.weight is not in part.safetensors"),
    ],
    ids=["no-json", "no-map", "outside", "no-name", "gone", "elsewhere"],
)
def test_an_index_that_lies_is_refused(index: str, said: str, folder: Path) -> None:
    """An index may name no file outside the folder, and its tensors must be where it says."""
    save_file({"other": torch.zeros(1)}, folder / "part.safetensors")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(SetupError, match=said):
        load_head(folder, "post", WIDTH)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    """The message says what was expected."""
    with pytest.raises(SetupError, match="expected the folder of a local model"):
        load_head(tmp_path, "post", WIDTH)


def test_the_head_is_in_the_files_that_are_loaded(folder: Path) -> None:
    """One whole file wins over an index beside it; a file that nobody loads holds no head."""
    rows = own(folder)[0].detach()
    save_file({"lm_head.weight": torch.zeros(50, 32)}, folder / "old.safetensors")
    index = folder / "model.safetensors.index.json"
    index.write_text('{"weight_map": {"lm_head.weight": "old.safetensors"}}')
    assert own(folder)[0].equal(rows)
    assert load_head(folder, "post", WIDTH).rows.equal(rows)

    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    index.unlink()
    with pytest.raises(SetupError, match=r"no tensor named \*lm_head\.weight"):
        load_head(folder, "post", WIDTH)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.norm.weight"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_a_head_with_a_value_that_is_no_number_is_told(name: str, value: float, folder: Path) -> None:
    """One value is enough, in either tensor."""
    held = load_file(folder / "model.safetensors")
    load_head(folder, "pre", WIDTH).demand_finite()
    held[name].view(-1)[-1] = value
    save_file(held, folder / "model.safetensors")

    with pytest.raises(SetupError, match=rf"lm_head is not finite: {name} holds NaN or infinity"):
        load_head(folder, "pre", WIDTH).demand_finite()
