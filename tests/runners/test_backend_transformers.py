"""The transformers back end."""

from pathlib import Path

import pytest
from transformers.utils import logging

from runners.backend_transformers import save_random


def test_a_random_model_is_saved_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No bar of the library's own on stderr, and its setting is as it was."""
    before = logging.is_progress_bar_enabled()
    save_random({"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
                 "num_attention_heads": 2, "intermediate_size": 8}, tmp_path, seed=0)  # fmt: skip

    assert (tmp_path / "model.safetensors").exists()
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == before
