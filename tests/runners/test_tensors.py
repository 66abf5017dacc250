"""Tensors: dtypes by name, and chance that stays inside."""

from errno import ENOSPC
from io import BytesIO
from typing import Any

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


@pytest.mark.parametrize("room", [0, 100, 5000])
def test_a_full_disk_is_an_error_of_the_system(room: int) -> None:
    """Not one of torch, which nobody maps; wherever in the file it comes."""

    class Full(BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() + len(data) > room:
                raise OSError(ENOSPC, "No space left on device")
            return super().write(data)

    with pytest.raises(OSError, match="No space left") as caught:
        tensors.save(Full(), {"a": torch.ones(2000)}, {"b": [1, 2]})
    assert caught.value.errno == ENOSPC
