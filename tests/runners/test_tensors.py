"""Tensors: dtypes by name, and chance that stays inside."""

import pytest
import torch

from harness.errors import SetupError
from runners import tensors


def test_an_unknown_dtype_is_refused_with_the_known_ones() -> None:
    """A typing error names what can be typed."""
    assert tensors.dtype("bf16") is torch.bfloat16
    with pytest.raises(SetupError, match=r"dtype 'float8' is none of \['bf16', 'fp16', 'fp32'\]"):
        tensors.dtype("float8")


def test_a_seed_decides_inside_and_leaves_no_trace() -> None:
    """The same draws inside; outside the next draw is as if nothing had been drawn."""
    torch.manual_seed(1)
    expected = torch.rand(2)
    torch.manual_seed(1)
    with tensors.seeded(7):
        first = torch.rand(3)
    with tensors.seeded(7):
        second = torch.rand(3)

    assert first.equal(second)
    assert torch.rand(2).equal(expected)
