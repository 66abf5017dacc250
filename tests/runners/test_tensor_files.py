"""Safetensors files: headers and single tensors, and files that are not whole."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from harness.errors import SetupError
from runners.tensor_files import Info, read_infos, read_tensor


def test_a_file_says_what_it_holds(tmp_path: Path) -> None:
    """Name, shape and the format's own dtype of each tensor; and the tensor itself."""
    path = tmp_path / "a.safetensors"
    save_file({"b": torch.arange(6).reshape(2, 3), "a": torch.ones(2, dtype=torch.bfloat16)}, path)

    infos = sorted(read_infos(path), key=lambda info: info.name)

    assert infos == [Info("a", path, (2,), "BF16"), Info("b", path, (2, 3), "I64")]
    assert read_tensor(path, "b").tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("cut", [0, 7, 40, -1])
def test_a_torn_file_is_refused(cut: int, tmp_path: Path) -> None:
    """Cut anywhere, it is no file; nor is one that is not there."""
    path = tmp_path / "a.safetensors"
    save_file({"a": torch.ones(9)}, path)
    path.write_bytes(path.read_bytes()[:cut])

    with pytest.raises(SetupError, match="no whole safetensors file"):
        read_infos(path)
    with pytest.raises(SetupError, match="no whole safetensors file"):
        read_tensor(tmp_path / "gone.safetensors", "a")
