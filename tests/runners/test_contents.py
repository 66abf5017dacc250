"""What must stand in a folder: written, read, and held against what stands there."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupError
from runners.contents import (
    EMPTY_DATA_SET,
    NAME,
    Contents,
    contents_problems,
    files_of,
    named,
    read_contents,
    tell_data_set,
    write_contents,
)
from runners.extract_job import Job, run_job
from runners.manifests import read_manifest
from runners.shards import manifests
from tests.runners.states_kit import Arithmetic, drawn, samples_file

SAMPLES = {"chat/1": ("i1", "m1"), 'a\u2028 "b"\n': ("i2", "m2")}
CONTENTS = Contents("speculators", {"name": "s.parquet", "sha256": "f"}, SAMPLES, EMPTY_DATA_SET)


@pytest.mark.parametrize("contents", [CONTENTS, replace(CONTENTS, samples={}, data_set=None)])
def test_contents_come_back_as_they_were_written(tmp_path: Path, contents: Contents) -> None:
    """Every member, in order, line breaks and quotes in an id included."""
    write_contents(tmp_path, contents)
    found = read_contents(tmp_path)
    assert found == contents
    assert list(found.samples) == list(contents.samples)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    """Wherever it stands; so is a file that was cut, or has more."""
    write_contents(tmp_path, CONTENTS)
    path = tmp_path / NAME
    data = path.read_bytes()
    changes = [data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :] for at in range(len(data)) for bit in (1, 0x20)]
    for changed in [*changes, data[:-1], data + b"\n", b"", data.partition(b"\n")[2]]:
        path.write_bytes(changed)
        with pytest.raises(SetupError, match=r"contents\.jsonl is not what was written"):
            read_contents(tmp_path)
    path.unlink()
    with pytest.raises(SetupError, match=r"contents\.jsonl cannot be read \(No such file"):
        read_contents(tmp_path)


def test_what_stands_there_is_held_against_it(tmp_path: Path) -> None:
    """Samples that are missed, too many or other than they should be; and a folder without its contents."""
    job = Job(samples_file(tmp_path / "s.parquet", drawn(6)), tmp_path / "out")
    run_job(job, Arithmetic())
    whole = [read_manifest(path) for path in manifests(job.out)]
    contents = read_contents(job.out)
    assert list(contents_problems(job.out, whole)) == []

    changed = {name: hashes for name, hashes in contents.samples.items() if name != "s0"}
    changed |= {"s1": ("other", contents.samples["s1"][1]), "new": ("i", "m")}
    write_contents(job.out, replace(contents, samples=changed))
    again = "give the command of the run again"
    assert list(contents_problems(job.out, whole)) == [
        f"in no shard: sample 'new' of the run; shards are gone, or the run did not come to its end; {again}",
        "in shard-000000.safetensors: sample 's0' that the last run did not have any more (its samples file was "
        f"s.parquet): remove these shards, each with its manifest, and {again}, or give it with a file that has them",
        "in shard-000000.safetensors: sample 's1' with other ids or another loss_mask than in the last run; " + again,
    ]
    (job.out / NAME).unlink()
    assert list(contents_problems(job.out, whole)) == [
        f"{NAME} cannot be read (No such file or directory), and it says what must be there: {again}, and it is "
        "written anew"
    ]
    run_job(job, Arithmetic())
    assert read_contents(job.out) == contents


def test_a_data_set_is_told_with_the_checksum_of_every_file(tmp_path: Path) -> None:
    """What is added, changed or gone since is named; other files are nobody's business."""
    write_contents(tmp_path, replace(CONTENTS, samples={}))
    for name in ("data-00000-of-00001.arrow", "state.json", "dataset_info.json", "notes.txt"):
        (tmp_path / name).write_text(name)
    tell_data_set(tmp_path, 0)
    assert list(contents_problems(tmp_path, [])) == []

    (tmp_path / "state.json").write_text("state.jsoN")
    (tmp_path / "dataset_info.json").unlink()
    (tmp_path / "data-00001-of-00002.arrow").touch()
    assert [said.partition(";")[0] for said in contents_problems(tmp_path, [])] == [
        "dataset_info.json: No such file or directory",
        "state.json: its bytes are not those that were written",
        "data-00001-of-00002.arrow: contents.jsonl does not tell of it, and a trainer may read it",
    ]


def test_many_samples_are_counted_and_the_first_named() -> None:
    """A line stays a line."""
    assert named(["a"]) == "sample 'a'"
    assert named([str(k) for k in range(5)]) == "5 samples ('0', '1', '2', '3', '4')"
    assert named({str(k): k for k in range(999)}) == "999 samples ('0', '1', '2', '3', '4', ...)"
    lines = {str(k): ({}, f"shard-{k // 10:06d}") for k in range(90)}
    assert files_of(["0", "1", "11"], lines) == "shard-000000, shard-000001"
    assert files_of(lines, lines).endswith("shard-000003, shard-000004 and 4 more")


@pytest.mark.parametrize(
    "told",
    [5, {}, {"rows": "1", "files": []}, {"rows": 1, "files": [{"name": "a"}]}, {"rows": 1, "files": 3},
     {"rows": 0, "files": [{"name": "../a", "n_bytes": 1, "sha256": "0"}]}],
)  # fmt: skip
def test_contents_that_are_whole_and_not_ours_are_refused(tmp_path: Path, told: Any) -> None:
    """Somebody else wrote them: no traceback, and no file of another folder is looked at."""
    write_contents(tmp_path, replace(CONTENTS, data_set=told))
    with pytest.raises(SetupError, match=r"contents\.jsonl is not what was written"):
        read_contents(tmp_path)
