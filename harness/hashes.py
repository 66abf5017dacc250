"""The hashes that tie a ticket, a kill rate and a sample to the code and tables that made them.

Owns the reading of the package's own files for that. Knows nothing of tickets' other members.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from harness.formats import FILES
from harness.habits import Habits
from harness.ticket import Hashes
from harness.vocab import VOCAB_SHA256

PACKAGE = ("harness/**/*.py", "harness/**/*.toml", "runners/**/*.py", "runners/**/*.toml")
"""What a verdict, a run and a sample depend on; the same files in a checkout and in an installed package."""
TESTS = (
    *("tests/**/*.py", "tests/required.txt", "pyproject.toml", "golden/**/*.json"),
    *("*.py", "*.pyc", "*.so", "*/__init__.py"),
)
"""What a kill rate depends on beside the package; modules and packages at the top stand first on pytest's sys.path."""
ROOT = Path(__file__).resolve().parent.parent


def content_hash(root: Path = ROOT) -> str:
    """sha256 over the package below `root`: its paths in order, and the bytes of each."""
    return _hash(root, PACKAGE)


def hash_of_tests(root: Path = ROOT) -> str:
    """sha256 over the tests of a checkout, the list of the required ones and pytest's settings."""
    return _hash(root, TESTS)


def hashed_files(root: Path) -> frozenset[str]:
    """Paths, from `root`, of all that `content_hash` and `hash_of_tests` are made of."""
    return frozenset(path.relative_to(root).as_posix() for path in _files(root, (*PACKAGE, *TESTS)))


def formats_sha256(root: Path = ROOT) -> str:
    """sha256 over the formats' files: their paths in order, and the bytes of each."""
    return _hash(root, [f"harness/formats/{file}" for file in FILES])


def hashes(habits: Habits) -> Hashes:
    """The hashes of this process: its package, the one vocabulary that can be loaded, and the habits in use."""
    return Hashes(content_hash(), VOCAB_SHA256, formats_sha256(), habits.sha256)


def _hash(root: Path, patterns: Iterable[str]) -> str:
    total = hashlib.sha256()
    for path in sorted(_files(root, patterns)):
        total.update(f"{path.relative_to(root).as_posix()}\n".encode())
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def _files(root: Path, patterns: Iterable[str]) -> set[Path]:
    return {path for pattern in patterns for path in root.glob(pattern)}
