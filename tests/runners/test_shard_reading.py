"""Shards read back: one sample with its rows, and a folder as a whole."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from harness.errors import SetupError
from runners.contents import Contents, write_contents
from runners.manifests import manifest_text, run_block
from runners.shard_reading import find_sample, folder_problems, read_ids, unfinished, verify
from runners.shards import About, Kept, write_shard
from runners.standing import done_of
from tests.runners.states_kit import FACTS, arithmetic, drawn

ABOUT = About(run_block(FACTS, layout="native", max_length=64, over_long="drop"), {"name": "s", "sha256": "0"})


def folder_of(path: Path, n: int = 9, per_shard: int = 4) -> list[Kept]:
    """Shards in `path`, and what is in them."""
    rows = [Kept(one, arithmetic(one.ids)) for one in drawn(n)]
    starts = range(0, n, per_shard)
    whole = [write_shard(path, k, rows[start : start + per_shard], ABOUT) for k, start in enumerate(starts)]
    write_contents(path, Contents("native", ABOUT.samples_file, done_of(whole)))
    return rows


@pytest.mark.parametrize("number", [0, 3, 4, 6, 8])
def test_a_sample_comes_back_as_it_went_in(tmp_path: Path, number: int) -> None:
    """The first, the last and one between of a shard: ids, mask and every row of its states."""
    one = folder_of(tmp_path)[number]

    found = find_sample(tmp_path, f"s{number}")
    found.save(tmp_path / "one.safetensors")

    assert (found.ids, found.loss_mask, found.path.stem) == (
        one.sample.ids,
        one.sample.loss_mask,
        f"shard-00000{number // 4}",
    )
    states = load_file(tmp_path / "one.safetensors")
    assert states["hidden_states"].equal(one.states.last)
    assert states["aux_hidden_states"].equal(one.states.aux)
    assert states["input_ids"].equal(torch.tensor(list(one.sample.ids)))
    assert "offsets" not in states


def test_a_sample_that_is_not_there(tmp_path: Path) -> None:
    """The message says how to list those that are."""
    folder_of(tmp_path)
    with pytest.raises(SetupError, match="no sample has the id 's99'; `tokenproof shards ls"):
        find_sample(tmp_path, "s99")


def test_a_sample_whose_ids_have_changed_is_refused(tmp_path: Path) -> None:
    """Looking at one sample does not read the whole shard, and yet never shows other ids."""
    rows = folder_of(tmp_path)
    path = tmp_path / "shard-000000.safetensors"
    data = path.read_bytes()
    ids = rows[1].sample.ids.tobytes()
    path.write_bytes(data.replace(ids, bytes([ids[0] ^ 1]) + ids[1:]))
    with pytest.raises(SetupError, match="the ids of sample 's1' are not those of its hash"):
        find_sample(tmp_path, "s1")
    assert find_sample(tmp_path, "s0").ids == rows[0].sample.ids


def test_ids_of_a_whole_shard_are_read_at_once(tmp_path: Path) -> None:
    """Sample by sample in order; ids that have changed are refused."""
    rows = folder_of(tmp_path)
    assert list(read_ids(tmp_path / "shard-000001.json")) == [(o.sample.ids, o.sample.loss_mask) for o in rows[4:8]]

    path = tmp_path / "shard-000001.safetensors"
    ids = rows[5].sample.ids.tobytes()
    path.write_bytes(path.read_bytes().replace(ids, bytes([ids[0] ^ 1]) + ids[1:]))
    with pytest.raises(SetupError, match="the ids of sample 's5' are not those of its hash"):
        list(read_ids(tmp_path / "shard-000001.json"))


def test_a_folder_is_verified_shard_by_shard(tmp_path: Path) -> None:
    """In order, the damaged one with what is wrong, the others untouched by it."""
    folder_of(tmp_path)
    path = tmp_path / "shard-000001.safetensors"
    path.write_bytes(path.read_bytes()[:-1])

    found = list(verify(tmp_path))

    assert [p.stem for p, _, _ in found] == ["shard-000000", "shard-000001", "shard-000002"]
    assert [bool(problems) for _, _, problems in found] == [False, True, False]
    assert list(folder_problems(tmp_path, found)) == []


def test_what_does_not_fit_between_shards(tmp_path: Path) -> None:
    """The same sample in two shards, and a shard of another run."""
    rows = folder_of(tmp_path)
    manifest = write_shard(tmp_path, 3, rows[:1], ABOUT)
    other = replace(manifest, run={**ABOUT.run, "dtype": "bf16"})
    (tmp_path / "shard-000003.json").write_text(manifest_text(other), "utf-8")

    said = list(folder_problems(tmp_path, verify(tmp_path)))

    assert said == [
        'shard-000003.json is of another run than the first shard: dtype is "fp32" there and "bf16" now',
        "sample 's0' stands 2 times",
    ]


def test_tensors_without_a_manifest_are_named(tmp_path: Path) -> None:
    """They are no shard, and no fault either."""
    folder_of(tmp_path)
    (tmp_path / "shard-000002.json").unlink()
    assert unfinished(tmp_path) == ["shard-000002.safetensors"]
    assert len(list(verify(tmp_path))) == 2


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_shard_that_is_gone_as_a_whole_is_missed(tmp_path: Path, number: int) -> None:
    """Tensors and manifest, the first, one between or the last: its samples are those that stand in no shard."""
    folder_of(tmp_path)
    assert list(folder_problems(tmp_path, verify(tmp_path))) == []

    for path in tmp_path.glob(f"shard-00000{number}.*"):
        path.unlink()

    gone = {0: "4 samples ('s0', 's1', 's2', 's3')", 1: "4 samples ('s4', 's5', 's6', 's7')", 2: "sample 's8'"}
    assert list(folder_problems(tmp_path, verify(tmp_path))) == [
        f"in no shard: {gone[number]} of the run; shards are gone, or the run did not come to its end; give the "
        "command of the run again"
    ]


def test_a_folder_whose_every_shard_is_gone_is_no_empty_folder(tmp_path: Path) -> None:
    """What must stand there is still said there."""
    folder_of(tmp_path)
    for path in tmp_path.glob("shard-*"):
        path.unlink()
    assert list(verify(tmp_path)) == []
    said = next(folder_problems(tmp_path, []))
    assert said.startswith("in no shard: 9 samples ('s0', 's1', 's2', 's3', 's4', ...) of the run")


def test_a_folder_without_shards_is_refused(tmp_path: Path) -> None:
    """Nothing verified is not the same as all is well."""
    with pytest.raises(SetupError, match="no shard in it"):
        list(verify(tmp_path))


def test_a_sample_is_saved_over_a_sample_alone(tmp_path: Path) -> None:
    """No shard, manifest or list is overwritten, there yet or not, and nothing that is no sample's file."""
    folder_of(tmp_path)
    found = find_sample(tmp_path, "s3")
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "shard-000000.safetensors")
    (tmp_path / "rows_0").mkdir()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    own = (
        "shard-000000.safetensors",
        "shard-000000.json",
        "shard-000009.safetensors",
        "contents.jsonl",
        ".lock",
        "link",
    )
    for name in (*own, "rows_0/data_0.ckpt"):
        with pytest.raises(SetupError, match=f"{name} is, or would be, a file of these shards"):
            found.save(tmp_path / name)
    with pytest.raises(SetupError, match="notes is there, and is no sample's file"):
        found.save(tmp_path / "notes")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before

    for _ in range(2):
        found.save(tmp_path / "one.safetensors")
