"""harness.checkout: which commit, whether clean, and files as they were."""

import subprocess
from pathlib import Path

import pytest

from harness.checkout import changes, checkout_of, commit_of, files_at, tracked
from harness.errors import SetupError


def git(root: Path, *arguments: str) -> str:
    """One git command in a checkout."""
    named = ["-c", "user.name=a", "-c", "user.email=a@example.invalid", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(root), *named, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with two commits of one file."""
    root = tmp_path / "r"
    (root / "cassettes" / "a b").mkdir(parents=True)
    git(root, "init", "-q")
    for text in ("old", "new"):
        (root / "cassettes" / "a b" / "x.yaml").write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-qm", text)
    return root


def test_the_checkout_of_a_folder(root: Path, tmp_path: Path) -> None:
    """The top of the tree, from anywhere in it; None outside of one."""
    assert checkout_of(root / "cassettes") == root
    assert checkout_of(tmp_path) is None
    assert checkout_of(tmp_path / "absent") is None
    assert commit_of(root) == git(root, "rev-parse", "HEAD")


def test_a_clean_tree_has_no_changes(root: Path) -> None:
    """Only what is committed, and what is ignored."""
    assert changes(root) == ()
    (root / ".git" / "info" / "exclude").write_text("build/\n")
    (root / "build").mkdir()
    (root / "build" / "y").write_text("1")
    assert changes(root) == ()


def test_the_files_that_git_knows(root: Path) -> None:
    """Committed or staged, by their places; no other."""
    (root / "x \u00fc").write_text("1")
    assert tracked(root) == {"cassettes/a b/x.yaml"}
    git(root, "add", "-A")
    assert tracked(root) == {"cassettes/a b/x.yaml", "x \u00fc"}


def test_everything_else_is_a_change(root: Path) -> None:
    """Edited, staged, new, deleted, and edited behind git's back."""
    path, other = root / "cassettes" / "a b" / "x.yaml", root / "new file"
    path.write_text("edited")
    other.write_text("1")
    assert changes(root) == ("cassettes/a b/x.yaml", "new file")
    git(root, "add", "-A")
    assert changes(root) == ("cassettes/a b/x.yaml", "new file")
    git(root, "reset", "-q", "--hard")
    path.unlink()
    assert changes(root) == ("cassettes/a b/x.yaml",)
    for flag in ("--assume-unchanged", "--skip-worktree"):
        git(root, "reset", "-q", "--hard")
        git(root, "update-index", flag, "cassettes/a b/x.yaml")
        path.write_text("edited")
        assert git(root, "status", "--porcelain") == ""
        assert changes(root) == ("cassettes/a b/x.yaml",)
        git(root, "update-index", "--no" + flag[1:], "cassettes/a b/x.yaml")


def test_the_environment_cannot_name_another_tree(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """GIT_DIR and GIT_WORK_TREE of a clean tree elsewhere do not make this one clean."""
    git(tmp_path, "init", "-q", "other")
    (root / "new").write_text("1")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert changes(root) == ("new",)


def test_files_of_a_revision(root: Path) -> None:
    """A folder as it was, in a place that is gone afterwards; the tree stays as it is."""
    with files_at(root, "HEAD~1", "cassettes") as place:
        assert (place / "a b" / "x.yaml").read_text() == "old"
    assert not place.exists()
    assert (root / "cassettes" / "a b" / "x.yaml").read_text() == "new"


@pytest.mark.parametrize(
    ("revision", "folder", "said"),
    [
        ("nope", "cassettes", "git archive failed"),
        ("HEAD", "absent", "git archive failed"),
        ("--output=x", "cassettes", "'--output=x' is no revision"),
        ("HEAD..HEAD", "cassettes", "'HEAD..HEAD' is no revision"),
        ("HEAD", "../r", "git archive failed"),
    ],
)
def test_what_is_no_revision(root: Path, revision: str, folder: str, said: str) -> None:
    """Named with the reason; nothing that looks like an option reaches git."""
    with pytest.raises(SetupError, match=said), files_at(root, revision, folder):
        pass


def test_a_commit_that_is_none(tmp_path: Path) -> None:
    """A tree without any commit, and no tree at all, are errors of ours."""
    git(tmp_path, "init", "-q", "e")
    for folder in (tmp_path / "e", tmp_path):
        with pytest.raises(SetupError, match="git rev-parse failed"):
            commit_of(folder)
