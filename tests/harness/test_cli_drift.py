"""`tokenproof drift`: files, folders and revisions, its lines, its JSON and its exit codes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.types import Exchange
from tests.drift_kit import PLANTS, plain, record
from tests.harness.test_checkout import git
from tests.harness.test_sightings import body

RUN = CliRunner()
OLD = body(content="Hello there. ")
NEW = body(content="Hello there.")
FIELD = {**OLD, "service_tier": "x"}


def folder(place: Path, answers: Mapping[str, Any]) -> Path:
    """A folder of answers, a file each; a list is a file of several."""
    for name, answer in answers.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        rows = answer if isinstance(answer, list) else [answer]
        (place / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return place


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    result = RUN.invoke(app, ["drift", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_nothing_changed(tmp_path: Path) -> None:
    """0, and how much was compared."""
    old, new = (folder(tmp_path / side, {"chutes/a.json": OLD}) for side in ("old", "new"))
    assert run(old, new) == (0, "1 pairs compared; 0 changes, 0 of them touch ids\n", "")


def test_a_change_that_touches_ids(tmp_path: Path) -> None:
    """1, and a line with provider, trait, values and the recording that shows it; what has no counterpart is named."""
    old = folder(tmp_path / "old", {"chutes/a.json": OLD, "chutes/gone.json": OLD})
    new = folder(tmp_path / "new", {"chutes/a.json": NEW, "chutes/more.json": OLD})
    code, out, _ = run(old, new)
    assert code == 1
    assert out.splitlines() == [
        "provider  what         before   now  touches ids  shown by",
        "Chutes    content_end    kept  lost          yes  chutes/a: 1 answers that say the same",
        "",
        "1 pairs compared; 1 changes, 1 of them touch ids",
        "only before: chutes/gone",
        "only now: chutes/more",
    ]


def test_a_change_that_touches_none(tmp_path: Path) -> None:
    """A field that came is told, and the exit code is 0."""
    code, out, _ = run(folder(tmp_path / "o", {"a.json": OLD}), folder(tmp_path / "n", {"a.json": FIELD}))
    assert (code, "service_tier" in out, "1 changes, 0 of them touch ids" in out) == (0, True, True)


def test_json(tmp_path: Path) -> None:
    """One object with all of it."""
    code, out, _ = run(folder(tmp_path / "o", {"a.json": OLD}), folder(tmp_path / "n", {"a.json": NEW}), "--json")
    told = json.loads(out)
    assert (code, told["pairs"], told["touches_ids"], told["only_old"], told["only_new"]) == (1, 1, True, [], [])
    assert told["drifts"] == [
        {
            "provider": "Chutes",
            "model": "moonshotai/kimi-k2.5",
            "aspect": "content_end",
            "old": "kept",
            "new": "lost",
            "touches_ids": True,
            "shown_by": ["a"],
            "why": "1 answers that say the same",
        }
    ]


def test_requests_that_differ(tmp_path: Path) -> None:
    """They are named, in words and in JSON."""
    old, new = (
        folder(tmp_path / side, {"a.json": {"request": {"model": "m", "max_tokens": n}, "response": OLD}})
        for side, n in (("old", 5), ("new", 6))
    )
    _, out, _ = run(old, new)
    assert "1 pairs asked otherwise, so that changes may be the requests' doing: a (max_tokens)" in out.splitlines()
    assert json.loads(run(old, new, "--json")[1])["other_requests"] == {"a": ["max_tokens"]}


def named(name: str, answer: Any) -> dict[str, Any]:
    """A line with a name of its own."""
    return {"name": name, "response": answer}


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        pytest.param(OLD, NEW, "#1", id="one-answer-each"),
        pytest.param([OLD, OLD], [OLD, NEW], "#2", id="by-position"),
        pytest.param([named("x", OLD), named("y", OLD)], [named("y", NEW), named("x", OLD)], "y", id="by-name"),
        pytest.param([named("x", OLD), named("x", OLD)], [named("x", OLD), named("x", NEW)], "#2", id="name-twice"),
    ],
)
def test_two_files(tmp_path: Path, old: Any, new: Any, shown: str) -> None:
    """Answers of two files are paired by their own names, else by position."""
    folder(tmp_path, {"a.jsonl": old, "b.jsonl": new})
    code, out, _ = run(tmp_path / "a.jsonl", tmp_path / "b.jsonl", "--json")
    assert (code, [d["shown_by"] for d in json.loads(out)["drifts"]]) == (1, [[shown]])


def test_revisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two revisions, and one against the tree; `cassettes` where no folder is named."""
    git(tmp_path, "init", "-q")
    for answer in (OLD, NEW):
        folder(tmp_path / "cassettes", {"chutes/a.json": answer})
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-qm", "x")
    monkeypatch.chdir(tmp_path)
    assert run("HEAD~1", "HEAD")[0] == 1
    assert run("HEAD", "cassettes")[0] == 0
    assert run("HEAD~1:cassettes/chutes", "cassettes/chutes")[0] == 1
    code, _, told = run("v9", "HEAD")
    assert (code, "git archive failed" in told) == (2, True)


def test_nothing_to_compare_is_no_success(tmp_path: Path) -> None:
    """No pair, an absent side: 2, and what was found."""
    old, new = folder(tmp_path / "o", {"a.json": OLD}), folder(tmp_path / "n", {"b.json": OLD})
    code, out, told = run(old, new)
    assert (code, out) == (2, "")
    assert f"no recording of {old} has a counterpart in {new} (found a, b)" in told
    assert run(tmp_path / "absent", new)[0] == 2


def test_an_input_that_is_no_answer(tmp_path: Path) -> None:
    """Is named, the rest is compared, and the exit code is 2."""
    old = folder(tmp_path / "o", {"a.json": OLD, "b.json": "no answer"})
    new = folder(tmp_path / "n", {"a.json": NEW, "b.json": OLD})
    code, out, told = run(old, new)
    assert (code, "content_end" in out, "b.json" in told) == (2, True, True)


def test_a_changed_host_through_files(tmp_path: Path) -> None:
    """The whole way: recordings of a host before and after a change, written down and compared by the command."""

    def rows(recorded: Mapping[str, Exchange]) -> list[dict[str, Any]]:
        return [
            {"name": name, "request": e.request, "response": e.response.decode()}
            for name, e in recorded.items()
            if isinstance(e.response, bytes)
        ]

    aspect, value, change, _ = PLANTS["terminator no longer billed"]
    old, new = record(plain("chutes"), 1, 1), record(change(plain("chutes")), 1, 2)
    folder(tmp_path, {"old.jsonl": rows(old), "new.jsonl": rows(new)})
    code, out, _ = run(tmp_path / "old.jsonl", tmp_path / "new.jsonl", "--json")
    told = json.loads(out)
    assert (code, told["pairs"]) == (1, len(old))
    assert [(d["aspect"], d["new"]) for d in told["drifts"]] == [(aspect, value)]
