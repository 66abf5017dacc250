"""Safetensors files: what they hold, and single tensors or rows of them.

The owner of safetensors. Nothing of a file is executed, and a tensor that is not asked for is not read.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from harness.errors import SetupError
from runners.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Info:
    """One tensor of a file; `dtype` is the format's own name, such as BF16."""

    name: str
    path: Path
    shape: tuple[int, ...]
    dtype: str


def read_infos(path: Path) -> list[Info]:
    """Every tensor of a file, from its header alone.

    Raises:
        SetupError: It cannot be read, or is no whole safetensors file.
    """
    with _opened(path) as file:
        slices = ((name, file.get_slice(name)) for name in file.keys())  # noqa: SIM118 - no mapping
        return [Info(name, path, tuple(part.get_shape()), part.get_dtype()) for name, part in slices]


def read_tensor(path: Path, name: str) -> Tensor:
    """One tensor, on the CPU; SetupError as `read_infos`."""
    with _opened(path) as file:
        tensor: Tensor = file.get_tensor(name)
        return tensor


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise SetupError(f"{path}: no whole safetensors file ({error!s:.150}); copy or write it again") from error
