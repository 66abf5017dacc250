"""Tiny targets for tests and the demo: random weights, Kimi's vocabulary size, the architectures that matter here.

A Llama, and a DeepSeek-V3 as Kimi K2.5 is one: multi-head latent attention and routed experts. Their states mean
nothing; that they are the right rows of the right layers can be tested all the same. Built here, nothing downloaded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from harness.vocab import N_IDS
from runners.backend_transformers import save_random

COMMON: Mapping[str, Any] = {
    "vocab_size": N_IDS,
    "hidden_size": 32,  # 163,840 rows of lm_head make a tiny model big soon enough
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "max_position_embeddings": 4096,
    "initializer_range": 0.1,  # at the usual 0.02 so small a model adds next to nothing, and all layers look alike
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
}
ARCHITECTURES: Mapping[str, Mapping[str, Any]] = {
    "llama": {"model_type": "llama", "intermediate_size": 64, "num_key_value_heads": 2},
    "deepseek_v3": {
        "model_type": "deepseek_v3",
        "intermediate_size": 64,
        "num_key_value_heads": 4,
        # MLA
        "q_lora_rank": 24,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 8,
        # experts from the second layer on, as in K2.5
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 16,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_shared_experts": 1,
        "n_group": 1,
        "topk_group": 1,
    },
}


def make_tiny(folder: Path, architecture: str = "llama", *, seed: int = 0, **changes: Any) -> Path:
    """A tiny target in `folder`: the same files for the same arguments.

    Args:
        changes: Values of `config.json` to have otherwise, such as `hidden_size`.

    Raises:
        SetupError: No such architecture.
    """
    if architecture not in ARCHITECTURES:
        raise SetupError(f"architecture {architecture!r} is none of {sorted(ARCHITECTURES)}")
    save_random({**COMMON, **ARCHITECTURES[architecture], **changes}, folder, seed=seed)
    return folder
