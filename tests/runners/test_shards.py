"""Shards: what the library reads of them, what is told of damage, what a full disk leaves."""

import errno
import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from harness.errors import SetupError
from runners import shards
from runners.manifests import read_manifest, run_block
from runners.shards import About, Kept, ShardSink, manifests, problems, sample_bytes, sample_line, write_shard
from tests.runners.states_kit import FACTS, arithmetic, drawn, facts, sample

ABOUT = About(run_block(FACTS, layout="native", max_length=64, over_long="drop"), {"name": "s", "sha256": "0"})


def kept(n: int, **changes: Any) -> list[Kept]:
    """Samples by chance with their states."""
    return [Kept(one, arithmetic(one.ids, facts(**changes)), {"share": 0.5}) for one in drawn(n)]


def test_a_shard_holds_the_samples_one_behind_the_other(tmp_path: Path) -> None:
    """The library gives back every sample's rows at its offsets, and the manifest names them in order."""
    rows = kept(7)

    write_shard(tmp_path, 3, rows, ABOUT)

    found = load_file(tmp_path / "shard-000003.safetensors")
    assert {name: (value.dtype, value.ndim) for name, value in found.items()} == {
        "input_ids": (torch.int64, 1),
        "loss_mask": (torch.uint8, 1),
        "hidden_states": (torch.float32, 2),
        "aux_hidden_states": (torch.float32, 3),
        "offsets": (torch.int64, 1),
    }
    offsets = found["offsets"].tolist()
    assert len(offsets) == 8
    for one, (start, end) in zip(rows, pairwise(offsets), strict=True):
        assert found["input_ids"][start:end].tolist() == list(one.sample.ids)
        assert bytes(found["loss_mask"][start:end].tolist()) == one.sample.loss_mask
        assert found["hidden_states"][start:end].equal(one.states.last)
        assert found["aux_hidden_states"][start:end].equal(one.states.aux)
    lines = read_manifest(tmp_path / "shard-000003.json").samples
    assert [line["id"] for line in lines] == [f"s{k}" for k in range(7)]
    assert lines[2] == sample_line(rows[2])
    assert lines[2]["share"] == 0.5


def test_bf16_is_written_as_it_is(tmp_path: Path) -> None:
    """No value is rounded again."""
    rows = kept(2, dtype="bf16")
    write_shard(tmp_path, 0, rows, ABOUT)

    states = load_file(tmp_path / "shard-000000.safetensors")["hidden_states"]
    assert states.dtype == torch.bfloat16
    assert states.equal(torch.cat([one.states.last for one in rows]))


def test_sizes_are_known_before_anything_is_written(tmp_path: Path) -> None:
    """56 KiB a token for the four layers of K2.5 in bf16, 9 more for id and mask; and a shard has that many bytes."""
    assert sample_bytes(1, 56 * 1024) == 56 * 1024 + 17
    rows = kept(9)
    manifest = write_shard(tmp_path, 0, rows, ABOUT)

    expected = sum(sample_bytes(len(one.sample.ids), 4 * 4 * 4) for one in rows)
    assert 0 < manifest.written.n_bytes - expected < 600


def test_a_whole_shard_has_no_problem(tmp_path: Path) -> None:
    """Manifest and tensors fit."""
    write_shard(tmp_path, 0, kept(5), ABOUT)
    manifest, found = problems(tmp_path / "shard-000000.json")
    assert found == []
    assert manifest is not None
    assert len(manifest.samples) == 5


@pytest.mark.parametrize("ending", ["json", "safetensors"])
def test_every_flipped_byte_is_found(tmp_path: Path, ending: str) -> None:
    """In the shard and in its manifest."""
    write_shard(tmp_path, 0, kept(2), ABOUT)
    path = tmp_path / f"shard-000000.{ending}"
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        assert problems(tmp_path / "shard-000000.json")[1], f"byte {at}"


def rewritten(folder: Path, rows: list[Kept], **line: Any) -> list[str]:
    """The problems of a shard whose manifest is whole but tells something else of the second sample."""
    manifest = write_shard(folder, 0, rows, ABOUT)
    lines = [dict(one) for one in manifest.samples]
    lines[1].update(line)
    (folder / "shard-000000.json").write_text(shards.manifest_text(replace(manifest, samples=lines)), "utf-8")
    return problems(folder / "shard-000000.json")[1]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param({"n_tokens": 1}, "offsets are not those of the samples", id="counts"),
        pytest.param({"ids_sha256": "0"}, "sample s1: its ids are not those", id="ids"),
        pytest.param({"mask_sha256": "0"}, "sample s1: its loss_mask is not that", id="mask"),
        pytest.param({"n_unmasked": 99}, "sample s1: its loss_mask is not that", id="unmasked"),
        pytest.param({"n_prompt": 99}, "not 0 on the prompt", id="prompt"),
        pytest.param({"n_tokens": "x"}, "a sample without id, n_tokens", id="no-count"),
    ],
)
def test_a_manifest_that_tells_of_other_samples_is_found(tmp_path: Path, line: dict[str, Any], said: str) -> None:
    """Also where every checksum of the tensors fits: the samples' own hashes are computed from the rows."""
    rows = [Kept(one, arithmetic(one.ids)) for one in (sample("s0", [1], [2]), sample("s1", [3, 4], [5, 6]))]
    assert said in rewritten(tmp_path, rows, **line)[0]


def test_a_manifest_whose_tensors_have_no_shape_is_found(tmp_path: Path) -> None:
    """Whole, and yet not written by us: a word of problems, no traceback."""
    manifest = write_shard(tmp_path, 0, kept(1), ABOUT)
    odd = replace(manifest, written=replace(manifest.written, tensors={"offsets": {"dtype": "I64"}}))
    (tmp_path / "shard-000000.json").write_text(shards.manifest_text(odd), "utf-8")
    found, said = problems(tmp_path / "shard-000000.json")
    assert found is None
    assert "a manifest of another shape (KeyError('shape'))" in said[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [("shard-000000.safetensors", "No such file"), ("shard-000000.json", "no manifest can be read")],
)
def test_half_of_a_pair_is_no_shard(tmp_path: Path, name: str, said: str) -> None:
    """Tensors without manifest, or a manifest without tensors."""
    write_shard(tmp_path, 0, kept(2), ABOUT)
    (tmp_path / name).unlink()
    assert said in problems(tmp_path / "shard-000000.json")[1][0]


def test_a_manifest_of_another_shard_is_found(tmp_path: Path) -> None:
    """Copied under another number it still tells of its own."""
    write_shard(tmp_path, 0, kept(2), ABOUT)
    for ending in ("json", "safetensors"):
        (tmp_path / f"shard-000000.{ending}").rename(tmp_path / f"shard-000001.{ending}")
    assert problems(tmp_path / "shard-000001.json")[1] == ["it tells of shard-000000.safetensors"]


def test_shards_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """Numbers, not text; other files are passed over."""
    for name in ("shard-1000000.json", "shard-000002.json", "shard-000010.json", "shard-2.json", "x.json"):
        (tmp_path / name).touch()
    assert [p.name for p in manifests(tmp_path)] == ["shard-000002.json", "shard-000010.json", "shard-1000000.json"]
    with pytest.raises(SetupError, match="expected a folder of shards"):
        manifests(tmp_path / "none")


def test_a_shard_with_nothing_to_keep_says_what_was_set_aside(tmp_path: Path) -> None:
    """All of its samples were refused: zero rows, and their ids with the reason."""
    line = {**sample_line(kept(1)[0]), "reason": "NaN"}
    sink = ShardSink(tmp_path, 0, ABOUT)

    manifest = sink.write([], [line])

    assert (manifest.samples, manifest.set_aside) == ([], [line])
    assert problems(tmp_path / "shard-000000.json") == (read_manifest(tmp_path / "shard-000000.json"), [])


class FullDisk:
    """A file that takes so many bytes and no more."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> Any:
        self._file.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._file.__exit__(*error)

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data))


@pytest.mark.parametrize("room", [0, 10, 2000, 6000])
def test_a_full_disk_leaves_whole_shards_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Wherever it fills up: the error names the file, nothing half stands under a name, what was there is whole."""
    sink = ShardSink(tmp_path, 0, ABOUT)
    sink.write(kept(5), ())
    real = tempfile.NamedTemporaryFile
    left = [room]

    def full(*args: Any, **options: Any) -> Any:
        return FullDisk(real(*args, **options), left[0])

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    with pytest.raises(SetupError, match=r"shard-000001\.\w+ cannot be written: No space left on device"):
        sink.write(kept(5), ())

    assert [p.name for p in manifests(tmp_path)] == ["shard-000000.json"]
    assert problems(tmp_path / "shard-000000.json")[1] == []
    assert not list(tmp_path.glob(".*"))
