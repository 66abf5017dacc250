"""harness.cassette_files: names that stay in their folder, and files that are refused."""

import os
from pathlib import Path

import pytest

from harness import cassette_files
from harness.cassette_files import cassette_path, read_recording
from harness.cassette_text import cassette_text
from harness.errors import SetupError
from tests.harness.test_cassette_text import recording


@pytest.mark.parametrize(
    "name",
    [
        "../x/y",
        "x/../y",
        "/etc/passwd",
        "x",
        "x/y/z",
        "x\\y/z",
        "x/y\0",
        "X/y",
        "",
        "x/",
        "x/..",
        "./x",
        "x/y..z",
        "~/x",
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    """A name is a provider and a scenario, nothing else."""
    with pytest.raises(SetupError, match="expected PROVIDER/SCENARIO"):
        cassette_path(tmp_path, name)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    """As a file and as a folder; a folder of cassettes that is a link itself is the user's own business."""
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "p").symlink_to(tmp_path / "out")
    (tmp_path / "link").symlink_to(tmp_path / "in")

    with pytest.raises(SetupError, match="is a link out of"):
        cassette_path(tmp_path / "in", "p/s")
    assert cassette_path(tmp_path / "link", "q/s") == tmp_path / "link" / "q" / "s.yaml"


def test_a_named_pipe_is_no_cassette(tmp_path: Path) -> None:
    """It is refused before it is opened, which would never end."""
    os.mkfifo(tmp_path / "s.yaml")
    with pytest.raises(SetupError, match=r"no cassette .*s\.yaml \(no regular file\)"):
        read_recording(tmp_path / "s.yaml")


def test_a_cassette_is_read(tmp_path: Path) -> None:
    """As it was written; in a folder all are found, hidden ones left out."""
    path = cassette_path(tmp_path, "p/s")
    path.parent.mkdir()
    path.write_bytes(cassette_text(recording(b"x")))
    (tmp_path / "p" / ".t.yaml").write_bytes(b"")
    (tmp_path / "scenarios.toml").write_bytes(b"")

    assert read_recording(path).interactions == recording(b"x").interactions
    assert cassette_files.cassette_files(tmp_path) == [path]


def test_what_is_missing_or_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file, a folder in its place, a file of more bytes than any answer has: read no further."""
    with pytest.raises(SetupError, match=r"no cassette .*s.yaml \(No such file"):
        read_recording(tmp_path / "s.yaml")
    with pytest.raises(SetupError, match="no cassette"):
        read_recording(tmp_path)
    big = tmp_path / "big.yaml"
    with big.open("wb") as file:
        file.write(b"interactions:\n")
        os.truncate(file.fileno(), 100 << 20)
    with pytest.raises(SetupError, match="refused: a cassette of more than 32 MiB"):
        read_recording(big)
