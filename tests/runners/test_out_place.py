"""The folder of a cluster's run on file systems of several kinds: one run at a time, nothing of others touched."""

from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.contents import NAME, Contents
from runners.out_place import held, put_apart, put_contents
from runners.places import Place

CONTENTS = Contents("native", {"name": "s", "sha256": "0"}, {"s0": ("i", "m")})
UNSURE = "cannot make a file only where none is, so that two runs which begin in one moment are not kept apart"


def put(place: Place, folder: Path, name: str, data: bytes = b"theirs") -> None:
    """A file there."""
    (folder / name).write_bytes(data)
    place.put(folder / name)
    (folder / name).unlink()


def test_one_run_at_a_time(place: Place) -> None:
    """The second is refused whoever holds it, the third may begin; no lock is left where it would be in the way."""
    said: list[str] = []
    with held(place, "native", said.append) as first:
        assert not first.known
        with pytest.raises(SetupError, match="another run is at work in"), held(place, "native", said.append):
            pass
    with held(place, "native", said.append):
        pass
    assert place.names() == ([".lock"] if place.local else [])
    assert [UNSURE in text for text in said] == ([True, True] if "Arrow" in type(place._fs).__name__ else [])


def test_a_lock_that_was_left_says_whose_it_was_and_what_to_do(tmp_path: Path) -> None:
    """A run was killed: host and process, and the file to be removed; an error inside gives the lock back."""
    place = Place("memory://left")
    with held(place, "native", pytest.fail):
        data = place.read(".lock", 999)
    put(place, tmp_path, ".lock", data)
    with pytest.raises(SetupError, match=r"\(host .*, process \d+\); .* remove memory://left/\.lock"):
        held(place, "native", pytest.fail).__enter__()
    place.remove(".lock")
    with held(place, "native", pytest.fail):
        put(place, tmp_path, ".lock", data + b"another run's")
    assert place.names() == [".lock"]
    place.remove(".lock")
    with pytest.raises(KeyboardInterrupt), held(place, "native", pytest.fail):
        raise KeyboardInterrupt
    assert place.names() == []
    place._fs.store.clear()


def test_a_foreign_lock_is_left_as_it_is(place: Place, tmp_path: Path) -> None:
    """A file of this name with other content: refused, no byte of it changed."""
    put(place, tmp_path, ".lock")
    for _ in range(2):
        with pytest.raises(SetupError, match="is not a lock of tokenproof: choose another --out"):
            held(place, "native", lambda _: None).__enter__()
        assert place.read(".lock", 99) == b"theirs"


@pytest.mark.parametrize("name", ["shard-000000.json", "shard-000007.safetensors", ".shard-x", NAME])
def test_names_that_a_run_would_take_are_refused(place: Place, tmp_path: Path, name: str) -> None:
    """Somebody else's: twice refused, and left; other names are nobody's business."""
    put(place, tmp_path, "notes.txt")
    put(place, tmp_path, name)
    for _ in range(2):
        with pytest.raises(SetupError, match=r"no run of tokenproof was in .* with --layout native: choose another"):
            held(place, "native", lambda _: None).__enter__()
        assert place.read(name, 99) == b"theirs"


def test_a_folder_in_which_a_run_began_is_known(place: Place, tmp_path: Path) -> None:
    """By its contents, put there before anything else: left-overs of a broken run are removed, other files are not."""
    with held(place, "native", lambda _: None) as first:
        first.claim()
        put_contents(place, CONTENTS)
    for name in (".shard-000000.safetensors.7.part", f".{NAME}.7.part", "shard-000000.safetensors", "notes.txt"):
        put(place, tmp_path, name)
    with held(place, "native", lambda _: None) as again:
        assert again.known
        assert {*place.names()} - {".lock"} == {NAME, "notes.txt", "shard-000000.safetensors"}


def test_a_shard_that_breaks_again_takes_no_other_name(place: Place, tmp_path: Path) -> None:
    """What was kept of the first time stays, and the two files of a shard keep one number, also where one is gone."""
    for data in (b"first", b"second"):
        put(place, tmp_path, "shard-000000.json", data)
        if data == b"second":
            put(place, tmp_path, "shard-000000.safetensors", data)
        put_apart(place, "shard-000000.json")
    put(place, tmp_path, "shard-000000.json", b"third")
    put_apart(place, "shard-000000.json", "old")

    kept = {name: place.read(name, 99) for name in place.names()}
    assert kept == {
        "shard-000000.json.broken": b"first",
        "shard-000000.json.broken.1": b"second",
        "shard-000000.safetensors.broken.1": b"second",
        "shard-000000.json.old": b"third",
    }
