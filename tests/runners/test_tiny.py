"""Tiny targets: what they are, and that the same arguments make the same files."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from harness.errors import SetupError
from runners.tiny import ARCHITECTURES, make_tiny

CLASSES = {"llama": "LlamaForCausalLM", "deepseek_v3": "DeepseekV3ForCausalLM"}


def digest(folder: Path) -> str:
    """Of the weights."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_a_tiny_target_is_the_real_architecture_with_the_real_vocabulary(architecture: str, tmp_path: Path) -> None:
    """It loads as its class, takes the last id of the vocabulary, and no two of its layers say the same."""
    folder = make_tiny(tmp_path / "model", architecture)

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        out = model(torch.tensor([[0, 163_839, 163_586, 99]]), output_hidden_states=True)

    assert type(model).__name__ == CLASSES[architecture]
    assert out.logits.shape == (1, 4, 163_840)
    states = [*out.hidden_states]
    assert len(states) == 9
    apart = [(a - b).abs().mean().item() for k, a in enumerate(states) for b in states[:k]]
    assert min(apart) > 0.1


def test_deepseek_has_latent_attention_and_experts(tmp_path: Path) -> None:
    """What makes K2.5 differ from a Llama is in the tiny one."""
    folder = make_tiny(tmp_path / "model", "deepseek_v3")

    model = AutoModelForCausalLM.from_pretrained(folder)
    names = {name for name, _ in model.named_parameters()}

    assert "model.layers.0.self_attn.kv_a_proj_with_mqa.weight" in names
    assert "model.layers.0.mlp.gate_proj.weight" in names
    assert "model.layers.1.mlp.gate.weight" in names


def test_the_same_arguments_make_the_same_weights(tmp_path: Path) -> None:
    """Seed and size decide, nothing else."""
    folders = [
        make_tiny(tmp_path / str(k), seed=seed, vocab_size=vocab)
        for k, (seed, vocab) in enumerate([(0, 500), (0, 500), (1, 500), (0, 501)])
    ]

    digests = [digest(folder) for folder in folders]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
    assert json.loads((folders[0] / "config.json").read_bytes())["vocab_size"] == 500


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    """The message lists those that there are."""
    with pytest.raises(SetupError, match=r"'gpt5' is none of \['deepseek_v3', 'llama'\]"):
        make_tiny(tmp_path, "gpt5")
