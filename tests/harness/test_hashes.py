"""harness.hashes: what ties tickets, kill rates and samples to the code and tables that made them."""

import hashlib
from pathlib import Path

import pytest

from harness.cli_base import habits_of
from harness.hashes import ROOT, content_hash, formats_sha256, hash_of_tests, hashed_files, hashes

FILES = {
    "harness/a.py": "x = 1\n",
    "harness/formats/kimi-k2.5.toml": "a = 1\n",
    "runners/b.py": "y = 1\n",
    "tests/test_a.py": "z = 1\n",
    "tests/required.txt": "t\n",
    "pyproject.toml": "[project]\n",
    "conftest.py": "c = 1\n",
    "yaml/__init__.py": "d = 1\n",
    "golden/e/x.json": "{}\n",
    "README.md": "words\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small checkout."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "moves"),
    [
        ("harness/a.py", (True, False, False)),
        ("harness/formats/kimi-k2.5.toml", (True, True, False)),
        ("runners/b.py", (True, False, False)),
        ("tests/test_a.py", (False, False, True)),
        ("tests/required.txt", (False, False, True)),
        ("pyproject.toml", (False, False, True)),
        ("conftest.py", (False, False, True)),
        ("yaml/__init__.py", (False, False, True)),
        ("golden/e/x.json", (False, False, True)),
        ("README.md", (False, False, False)),
    ],
)
def test_each_hash_follows_its_own_files(root: Path, changed: str, moves: tuple[bool, bool, bool]) -> None:
    """Another byte, another path or a file gone gives another hash of what the file is part of, and of nothing else."""
    takers = (content_hash, formats_sha256, hash_of_tests)
    before = [take(root) for take in takers]
    (root / changed).write_text(FILES[changed] + "#")
    assert tuple(take(root) != b for take, b in zip(takers, before, strict=True)) == moves
    (root / changed).write_text(FILES[changed])
    assert [take(root) for take in takers] == before
    (root / changed).unlink()
    assert tuple(take(root) != b for take, b in zip(takers, before, strict=True)) == moves


def test_the_files_that_are_hashed(root: Path) -> None:
    """All but the words, and what is built elsewhere."""
    (root / "build").mkdir()
    (root / "build" / "x.py").write_text("")
    assert hashed_files(root) == FILES.keys() - {"README.md"}


def test_a_moved_file_is_another_content(root: Path) -> None:
    """The same bytes under another name, or two files whose bytes were exchanged, are another content."""
    before = content_hash(root)
    (root / "harness/a.py").rename(root / "harness/c.py")
    moved = content_hash(root)
    (root / "harness/c.py").write_text(FILES["runners/b.py"])
    (root / "runners/b.py").write_text(FILES["harness/a.py"])
    assert len({before, moved, content_hash(root)}) == 3


def test_the_hash_can_be_computed_by_hand(tmp_path: Path) -> None:
    """sha256 over `path newline sha256(bytes)` of each file; what Python compiled is no part of it."""
    (tmp_path / "harness" / "__pycache__").mkdir(parents=True)
    (tmp_path / "harness" / "a.py").write_bytes(b"x")
    (tmp_path / "harness" / "__pycache__" / "a.pyc").write_bytes(b"y")
    expected = hashlib.sha256(b"harness/a.py\n" + hashlib.sha256(b"x").digest()).hexdigest()
    assert content_hash(tmp_path) == expected


def test_the_hashes_of_this_process() -> None:
    """The four members of a ticket: content, pinned ranks, formats, and the habits in use."""
    habits = habits_of(None)
    found = hashes(habits)
    assert (found.content_hash, found.formats_sha256) == (content_hash(ROOT), formats_sha256(ROOT))
    assert found.vocab_sha256 == "b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103"
    shipped = (ROOT / "harness" / "habits.toml").read_bytes()
    assert found.habits_sha256 == hashlib.sha256(shipped).hexdigest()
