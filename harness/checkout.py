"""The git checkout around the package: which commit, whether clean, and its files at another revision.

Owns git, which it asks as a program. Knows nothing of what the files mean.
"""

import io
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.errors import SetupError
from harness.settings import child_environment

REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@^~{}-]*")
TIMEOUT_S = 60.0
MAX_ARCHIVE_BYTES = 256 << 20


def checkout_of(folder: Path) -> Path | None:
    """The top of the checkout that `folder` belongs to; None where it belongs to none, or git is not there."""
    try:
        return Path(_git(folder, "rev-parse", "--show-toplevel").decode().strip())
    except SetupError:
        return None


def commit_of(root: Path) -> str:
    """The commit that is checked out, in hex."""
    return _git(root, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()


def changes(root: Path) -> tuple[str, ...]:
    """Paths that are not as committed, new files among them; () where the tree is clean.

    A file that git was told to overlook (assume-unchanged, skip-worktree) counts as one: nobody sees what is in it.
    """
    status = _git(root, "status", "--porcelain", "--untracked-files=all", "-z", "--no-renames").decode()
    hidden = (row for row in _git(root, "ls-files", "-v", "-z").decode().split("\0") if row[:1].islower())
    skipped = (row for row in _git(root, "ls-files", "-t", "-z").decode().split("\0") if row.startswith("S "))
    return tuple(row[3:] for row in status.split("\0") if row) + tuple(row[2:] for row in (*hidden, *skipped))


def tracked(root: Path) -> frozenset[str]:
    """Paths of all files that git knows, from the top of the checkout."""
    return frozenset(filter(None, _git(root, "ls-files", "-z").decode("utf-8", "surrogateescape").split("\0")))


def is_tracked(root: Path, path: Path) -> bool:
    """Whether a file is part of what is committed in a checkout."""
    try:
        _git(root, "ls-files", "--error-unmatch", "--", str(path.resolve()))
    except SetupError:
        return False
    return True


@contextmanager
def files_at(root: Path, revision: str, folder: str) -> Iterator[Path]:
    """A folder of the checkout as it was at a revision, in a temporary place.

    Raises:
        SetupError: No such revision, no such folder in it, or more than MAX_ARCHIVE_BYTES.
    """
    if not REVISION.fullmatch(revision) or ".." in revision:
        raise SetupError(f"{revision!r:.80} is no revision; expected a commit, a tag or a branch")
    packed = _git(root, "archive", "--format=tar", revision, "--", folder)
    if len(packed) > MAX_ARCHIVE_BYTES:
        raise SetupError(f"{folder} at {revision} has more than {MAX_ARCHIVE_BYTES >> 20} MiB; name a smaller folder")
    with tempfile.TemporaryDirectory() as place, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(place, filter="data")
        yield Path(place) / folder


def _git(folder: Path, *arguments: str) -> bytes:
    command, plain = ["git", "-C", str(folder), *arguments], child_environment(prefix="GIT_")
    try:  # GIT_DIR and its like would make git answer for another tree
        done = subprocess.run(
            command, capture_output=True, check=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL, env=plain
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise SetupError(f"git {arguments[0]} failed: {said[-1]:.200}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"git cannot be asked: {error!s:.200}") from error
    return done.stdout
