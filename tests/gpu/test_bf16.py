"""Extraction in bf16 against the bare forward: on a GPU the real size, elsewhere that the script runs."""

import json

import pytest
import torch

from tests.gpu.bf16 import main


def test_the_script_runs_on_a_small_model(capsys: pytest.CaptureFixture[str]) -> None:
    """Every token is written, every shard verifies, both figures are told."""
    assert main(["--device", "cpu", "--small", "--samples", "6"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["tokens_written"] == told["tokens"] > 500
    assert told["bad_shards"] == 0
    assert told["bare_tokens_per_s"] > 0
    assert told["extract_tokens_per_s"] > 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_billion_parameters_on_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    """The model is of the size that is claimed, and its states are whole."""
    assert main([]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"] > 1_000_000_000
