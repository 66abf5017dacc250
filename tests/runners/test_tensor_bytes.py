"""The safetensors format as bytes: what the library reads of it, and every byte that is checked."""

import io
from typing import Any

import pytest
import torch
from safetensors.torch import load

from harness.errors import SetupError
from runners.tensor_bytes import MAX_HEADER_BYTES, Column, Written, check_tensors, read_header, write_tensors

COLUMNS = [
    Column("offsets", "I64", (2,), [(0).to_bytes(8, "little"), (3).to_bytes(8, "little")]),
    Column("states", "F32", (3, 1), [torch.tensor([1.5, -2.0]).numpy().tobytes(), torch.tensor([0.25]).numpy().data]),
    Column("mask", "U8", (3,), [b"\0", b"", b"\1\1"]),
]


def written() -> tuple[bytes, Written]:
    """A file and what is known of it."""
    file = io.BytesIO()
    told = write_tensors(file, COLUMNS, {"format": "pt"})
    return file.getvalue(), told


def checked(data: bytes, told: Written, keep: frozenset[str] = frozenset()) -> tuple[list[str], dict[str, bytes]]:
    """check_tensors of bytes."""
    return check_tensors(io.BytesIO(data), told, keep)


def test_the_library_reads_what_is_written() -> None:
    """Names, dtypes, shapes and values, however many pieces they came in; the data is aligned."""
    data, told = written()

    tensors = load(data)

    assert {name: value.tolist() for name, value in tensors.items()} == {
        "offsets": [0, 3],
        "states": [[1.5], [-2.0], [0.25]],
        "mask": [0, 1, 1],
    }
    assert [value.dtype for value in (tensors["offsets"], tensors["states"])] == [torch.int64, torch.float32]
    assert told.n_bytes == len(data)
    assert int.from_bytes(data[:8], "little") % 8 == 0


def test_what_was_written_fits_and_can_be_kept() -> None:
    """No problem, and the bytes of the tensors that were asked for."""
    problems, kept = checked(*written(), frozenset({"mask"}))
    assert (problems, kept) == ([], {"mask": b"\0\1\1"})


def test_every_flipped_byte_is_found() -> None:
    """Also in the header, its length and its padding."""
    data, told = written()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        assert checked(bytes(changed), told)[0], f"byte {at}"


def test_every_cut_and_every_addition_is_found() -> None:
    """A file that ends early, or goes on, is not what was written."""
    data, told = written()
    for size in range(len(data)):
        assert checked(data[:size], told)[0], f"{size} bytes"
    assert checked(data + b"\0", told)[0] == ["bytes after the last tensor"]


def test_pieces_that_do_not_make_the_shape_are_our_own_fault() -> None:
    """A column of another size than its header says is never written to its end."""
    with pytest.raises(ValueError, match=r"mask: 2 bytes for shape \(3,\) of U8"):
        write_tensors(io.BytesIO(), [Column("mask", "U8", (3,), [b"\0\1"])], {})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        pytest.param(b"", "does not begin as a shard", id="empty"),
        pytest.param((MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{}", "does not begin as a shard", id="huge"),
        pytest.param((9).to_bytes(8, "little") + b"{}       ", "", id="padded"),
        pytest.param((2).to_bytes(8, "little") + b"{x", "no JSON", id="no-json"),
        pytest.param((2).to_bytes(8, "little") + b"[]", "no object", id="list"),
        pytest.param((3).to_bytes(8, "little") + b"{}", "cut or no object", id="cut"),
    ],
)
def test_headers(data: bytes, said: str) -> None:
    """A header of untrusted bytes is read with a limit, and refused with a reason."""
    if not said:
        assert read_header(io.BytesIO(data))[0] == {}
        return
    with pytest.raises(SetupError, match=said):
        read_header(io.BytesIO(data))


def test_progress_is_told_in_bytes() -> None:
    """Every byte of data once."""
    data, told = written()
    seen: list[Any] = []

    check_tensors(io.BytesIO(data), told, frozenset(), seen.append)

    assert sum(seen) == 16 + 12 + 3
