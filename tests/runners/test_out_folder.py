"""Whose folder it is: one run at a time, and nothing of anybody else touched."""

from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.out_folder import locked


def test_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    """The second is refused; left-overs of a killed one are removed, other files are not."""
    folder = tmp_path / "a" / "b"
    with locked(folder, "native") as held:
        assert not held.known
        held.claim()
        (folder / ".shard-000000.safetensors.x1").touch()
        (folder / ".other").touch()
        with pytest.raises(SetupError, match="another run is at work"), locked(folder, "native"):
            pass
        assert (folder / ".shard-000000.safetensors.x1").exists()
    with locked(folder, "native") as held:
        assert held.known
        assert {p.name for p in folder.iterdir()} == {".other", ".lock"}


def test_a_lock_alone_makes_no_folder_ours(tmp_path: Path) -> None:
    """Not claimed: a second try knows no more than the first, and removes nothing; another layout's claim is none."""
    (tmp_path / ".shard-theirs").touch()
    for _ in range(2):
        with locked(tmp_path, "native") as held:
            assert not held.known
    assert (tmp_path / ".shard-theirs").exists()
    with locked(tmp_path, "specforge") as held:
        held.claim()
    with locked(tmp_path, "native") as held:
        assert not held.known


@pytest.mark.parametrize("linked", [False, True])
def test_a_foreign_lock_is_left_as_it_is(tmp_path: Path, linked: bool) -> None:
    """A file of this name with other content, or a link to one: refused, no byte of it changed."""
    theirs = tmp_path / ("notes" if linked else ".lock")
    theirs.write_bytes(b"theirs\n")
    if linked:
        (tmp_path / ".lock").symlink_to(theirs)
    with pytest.raises(SetupError, match="choose another --out"), locked(tmp_path, "native"):
        pass
    assert theirs.read_bytes() == b"theirs\n"


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    """No traceback."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(SetupError, match="cannot be used: Not a directory; choose another --out"),
        locked(tmp_path / "file" / "x", "native"),
    ):
        pass
