"""Tensors: the dtypes that states come in, padding, copies off a device, bytes without a copy, seeds.

The owner of torch: every other runner handles tensors by their methods alone. Knows nothing of models, samples or
files.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO

import torch
from torch import Tensor as Tensor  # that other runners can name the type

from harness.errors import SetupError

DTYPES: Mapping[str, torch.dtype] = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""By the names that a command takes."""
NAMES: Mapping[torch.dtype, str] = {
    torch.float32: "F32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int64: "I64",
    torch.uint8: "U8",
}
"""As safetensors files name them."""
OutOfMemoryError = torch.OutOfMemoryError
VERSION = str(torch.__version__)


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


def no_gradients() -> AbstractContextManager[None]:
    """Inside, nothing is kept for a backward pass."""
    return torch.inference_mode()


def place(device: object) -> torch.device:
    """The device of this name, `auto` for a GPU where there is one; RuntimeError where torch knows none."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(str(device))


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same, wherever they are."""
    return a.equal(b.to(a.device))


def padded(batch: "Sequence[array[int]]", device: object) -> tuple[Tensor, Tensor | None]:
    """Right-padded ids [B, S] with 0, and the attention mask [B, S]; None where every row is full."""
    longest = max(map(len, batch))
    ids = torch.zeros((len(batch), longest), dtype=torch.int64)
    mask = torch.zeros_like(ids)
    for row, sequence in enumerate(batch):
        ids[row, : len(sequence)] = torch.frombuffer(sequence, dtype=torch.int64)
        mask[row, : len(sequence)] = 1
    full = all(len(sequence) == longest for sequence in batch)
    return ids.to(place(device)), None if full else mask.to(place(device))


def vector(values: "array[int] | bytes") -> Tensor:
    """A copy of int64s, or of bytes as uint8, shape [T]."""
    return torch.frombuffer(bytearray(values), dtype=torch.uint8 if isinstance(values, bytes) else torch.int64)


def stacked(layers: Sequence[Tensor]) -> Tensor:
    """Layers of (B, S, H) side by side: (B, S, A, H), on the device of the first."""
    return torch.stack([layer.to(layers[0].device) for layer in layers], dim=2)


def host(tensor: Tensor) -> Tensor:
    """The tensor on the CPU; off a GPU the copy is under way until `settle`, and the next forward need not wait."""
    if tensor.device.type != "cuda":
        return tensor.cpu()
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    return copy.copy_(tensor, non_blocking=True)


def settle() -> None:
    """Wait for the copies that `host` began."""
    if torch.cuda.is_available():
        for device in range(torch.cuda.device_count()):
            torch.cuda.synchronize(device)


def matrix(rows: Sequence[Sequence[float]], name: str) -> Tensor:
    """Rows of numbers as a tensor of the dtype of this name; ValueError or TypeError where they are none."""
    return torch.tensor(rows, dtype=torch.float32).to(dtype(name))


def joined(aux: Tensor, last: Tensor) -> Tensor:
    """(T, A, H) and (T, H) as (T, A + 1, H), the last layer behind the others."""
    return torch.cat([aux, last[:, None]], dim=1)


class _Noting:
    """A file that keeps what kept it from writing: torch makes an error of its own of that."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        """As the file does."""
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        """As the file does."""
        self._file.flush()


def save(file: BinaryIO, floats: Mapping[str, Tensor], numbers: Mapping[str, Sequence[int]]) -> None:
    """`torch.save` of a dict of tensors, the numbers as int64; each is copied, or the whole batch would be saved.

    Raises:
        OSError: The file cannot be written: a full disk, say.
    """
    made = {name: torch.tensor(values, dtype=torch.int64) for name, values in numbers.items()}
    noting = _Noting(file)
    try:
        torch.save(made | {name: tensor.clone() for name, tensor in floats.items()}, noting)  # type: ignore[arg-type]
    except (RuntimeError, OSError) as error:
        raise (noting.error or error) from error


def raw(tensor: Tensor) -> memoryview:
    """The bytes of a CPU tensor in row-major order, without a copy where it lies so already."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data


def from_raw(data: bytes, name: str, shape: Sequence[int]) -> Tensor:
    """A copy of what `raw` gave: its bytes, its dtype as safetensors names it, its shape."""
    kind = next(key for key, value in NAMES.items() if value == name)
    return torch.frombuffer(bytearray(data), dtype=kind).reshape(tuple(shape))
