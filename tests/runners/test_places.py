"""Folders of any file system: files get there whole, and come back as they were."""

import errno
from pathlib import Path

import pytest

from harness.errors import SetupError
from runners.places import Place


def test_a_file_comes_back_as_it_was(place: Place, tmp_path: Path) -> None:
    """Put, named, fetched, renamed, replaced: the same bytes, and no left-over beside them."""
    file, data = tmp_path / "a.bin", bytes(range(256)) * 999
    file.write_bytes(data)
    assert place.names() == []

    place.put(file)
    assert place.names() == ["a.bin"]
    (tmp_path / "copy").mkdir()
    assert place.fetch("a.bin", tmp_path / "copy").read_bytes() == data

    file.write_bytes(b"newer")
    place.put(file)
    place.rename("a.bin", "b.bin")
    assert place.names() == ["b.bin"]
    assert place.fetch("b.bin", tmp_path / "copy").read_bytes() == b"newer"


def test_a_file_is_made_only_where_none_is(place: Place) -> None:
    """One that stands there stays; pyarrow's file systems make it without a promise, and say so."""
    first = place.create("a", b"one")
    assert first is (None if "Arrow" in type(place._fs).__name__ else True)
    assert place.create("a", b"two") is False
    assert place.read("a", 2) == b"on"
    place.remove("a")
    assert place.names() == []
    for act in (lambda: place.read("a", 2), lambda: place.remove("a")):
        with pytest.raises(SetupError, match="a cannot be re"):
            act()


@pytest.mark.parametrize(("code", "made"), [(errno.ENOSYS, None), (errno.EACCES, "refused")])
def test_a_store_that_does_not_know_the_way(monkeypatch: pytest.MonkeyPatch, code: int, made: object) -> None:
    """An object store without conditional writes gets no promise; other trouble is told as such."""
    place = Place("memory://store")
    real = place._fs.open

    def opened(path: str, mode: str) -> object:
        if "x" in mode:
            raise OSError(code, "says the store")
        return real(path, mode)

    monkeypatch.setattr(place._fs, "open", opened)
    if made == "refused":
        with pytest.raises(SetupError, match=r"\.lock cannot be written: says the store"):
            place.create(".lock", b"x")
    else:
        assert (place.create(".lock", b"x"), place.create(".lock", b"x")) == (None, False)
    place._fs.store.clear()


def test_what_is_not_there_is_told(place: Place, tmp_path: Path) -> None:
    """With the name of the file and a way on."""
    with pytest.raises(SetupError, match="gone cannot be read"):
        place.fetch("gone", tmp_path)
    with pytest.raises(SetupError, match=r"gone cannot be renamed"):
        place.rename("gone", "there")


def test_a_file_is_never_seen_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that breaks off leaves nothing under the name."""
    place, file = Place(str(tmp_path / "there")), tmp_path / "a.bin"
    file.write_bytes(b"x" * 100)

    def torn(source: str, target: str) -> None:
        Path(target).write_bytes(b"x" * 50)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place._fs, "put_file", torn)
    with pytest.raises(SetupError, match=r"a\.bin cannot be written: No space left on device"):
        place.put(file)
    assert "a.bin" not in place.names()


def test_object_stores_need_no_second_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a file is seen once it is whole, it is put under its own name: a rename there is a copy."""
    place, file = Place("memory://store"), tmp_path / "a.bin"
    file.write_bytes(b"x")
    monkeypatch.setattr(type(place._fs), "protocol", ("s3", "s3a"))
    monkeypatch.setattr(place._fs, "mv", lambda *_: pytest.fail("renamed"))

    place.put(file)

    assert place.names() == ["a.bin"]
    place._fs.store.clear()


@pytest.mark.parametrize("uri", ["nosuchprotocol://x", "/dev/null/x"])
def test_a_place_that_cannot_be_is_refused(uri: str) -> None:
    """An unknown protocol, or a folder below a file."""
    with pytest.raises(SetupError, match="cannot be used"):
        Place(uri)
