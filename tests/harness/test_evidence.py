"""harness.evidence: cassette files as they lie, and for whom they may speak."""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from harness.cassette_text import cassette_text
from harness.evidence import means, read_cassettes, speaks
from harness.recording import Kind, Provenance
from harness.transport import OPENROUTER, target
from tests.gate_kit import CAST, PLAYED, URL, recording

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_file_as_it_lies(tmp_path: Path) -> None:
    """Its path from the root, the sha256 of its bytes, where it came from, and its answers."""
    data = cassette_text(recording(PLAYED[0], CAST[0], NOW))
    (tmp_path / "cassettes" / "chutes").mkdir(parents=True)
    (tmp_path / "cassettes" / "chutes" / "a.yaml").write_bytes(data)
    (tmp_path / "cassettes" / "notes.txt").write_text("no cassette")
    (found,) = read_cassettes(tmp_path / "cassettes", tmp_path)
    assert (found.path, found.sha256, found.trouble) == (
        "cassettes/chutes/a.yaml",
        hashlib.sha256(data).hexdigest(),
        "",
    )
    assert (found.provenance.kind, found.provenance.provider, found.provenance.at) == ("emulator", CAST[0], NOW)
    assert [e.request["messages"][0]["content"] for e in found.exchanges] == [PLAYED[0].name]
    (elsewhere,) = read_cassettes(tmp_path / "cassettes", tmp_path / "other")
    assert elsewhere.path == str(tmp_path / "cassettes" / "chutes" / "a.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("interactions: [", "no readable YAML"),
        ("interactions: []\nversion: 1\n", "without any POST"),
        ("interactions:\n- !!python/object/apply:os.system [ls]\n", "refused"),
        ("interactions: []\nmetadata: {provenance: mine}\n", "`metadata.provenance` is 'mine'"),
        ("", "no cassette"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, text: str, said: str) -> None:
    """Is listed with the reason and its path, and holds and proves nothing."""
    (tmp_path / "a.yaml").write_text(text)
    (found,) = read_cassettes(tmp_path, tmp_path)
    assert (found.recording, found.exchanges, found.provenance) == (None, (), Provenance())
    assert said in found.trouble
    assert found.trouble.startswith("a.yaml")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """Holds nothing."""
    assert read_cassettes(tmp_path / "absent", tmp_path) == ()


SPEAK: list[tuple[Kind, str, str, bool]] = [
    ("live", OPENROUTER, OPENROUTER, True),
    ("live", f"{OPENROUTER}/", OPENROUTER, True),
    ("live", "https://other.example/v1", OPENROUTER, False),
    ("emulator", OPENROUTER, OPENROUTER, False),
    ("hand-made", OPENROUTER, OPENROUTER, False),
    ("engine", OPENROUTER, OPENROUTER, False),
    ("unstated", OPENROUTER, OPENROUTER, False),
    ("emulator", URL, URL, True),
    ("emulator", URL.replace(":9", ":10"), URL, False),
    ("live", URL, URL, False),
    ("hand-made", URL, URL, False),
    ("engine", URL, URL, False),
]


@pytest.mark.parametrize(("kind", "base_url", "asked", "expected"), SPEAK)
def test_for_whom_a_recording_speaks(kind: Kind, base_url: str, asked: str, expected: bool) -> None:
    """Live ones for the live place where they were made, the emulator's for that emulator, the others for nobody."""
    assert speaks(Provenance(kind, base_url=base_url), target(asked, None, offline=True)) is expected


@pytest.mark.parametrize(
    ("pin", "tag", "expected"),
    [
        ("chutes/int4", "chutes/int4", True),
        ("Chutes", "chutes/int4", True),
        ("chutes", "chutes", True),
        ("chutes/int4", "chutes/fp8", False),
        ("chutes/int4", "chutes", False),
        ("chut", "chutes/int4", False),
        ("chutes", "", False),
    ],
)
def test_what_a_pin_means(pin: str, tag: str, expected: bool) -> None:
    """The tag itself, or its slug; never a part of one."""
    assert means(pin, tag) is expected
