"""Tensors: the dtypes that states come in, padding, seeds, and bytes without a copy.

The owner of torch, so every other runner handles tensors by their methods alone. Knows nothing of models, samples or
files.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from harness.errors import SetupError

DTYPES: Mapping[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""By the names that a command takes."""


def dtype(name: str) -> torch.dtype:
    """The dtype of this name.

    Raises:
        SetupError: None has it.
    """
    try:
        return DTYPES[name]
    except KeyError:
        raise SetupError(f"dtype {name!r} is none of {sorted(DTYPES)}") from None


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside, torch draws from this seed; outside, nothing has changed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
