"""`tokenproof report`: the page that it writes, what it refuses, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.habits import Habit, Habits, dump_habits
from tests.harness.test_cli_drift import NEW, OLD, folder
from tests.harness.test_markup import Reader
from tests.providerx import AS_SENT, OFFSET, answer

RUN = CliRunner()
TALK = {"reasoning": "Think of it.", "content": "Say it."}
GOOD, BAD = answer(TALK, 9), answer(TALK, 12)
ERROR = {"error": {"code": 429, "message": "slow down"}}


@pytest.fixture
def habits(tmp_path: Path) -> Path:
    """A file of ProviderX's habits."""
    lines = tuple(
        Habit("ProviderX", trait, value, format="kimi-k2.5") for trait, value in {**OFFSET, **AS_SENT}.items()
    )
    path = tmp_path / "habits.toml"
    path.write_text(dump_habits(Habits(lines)))
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    result = RUN.invoke(app, ["report", *map(str, arguments)], env={"TOKENPROOF_BASE_URL": ""})
    return result.exit_code, result.stdout, result.stderr


def lines(place: Path, *answers: Any) -> Path:
    """A file of answers, a line each."""
    place.write_text("".join(json.dumps(row) + "\n" for row in answers))
    return place


def test_a_page_is_written(tmp_path: Path, habits: Path) -> None:
    """Scores, habits and the rejected answer with its readings; one line says what is in it."""
    out = tmp_path / "page.html"
    path = lines(tmp_path / "a.jsonl", {"name": "fine", "response": GOOD}, {"name": "odd", "response": BAD})
    assert run(path, "--habits", habits, "--out", out) == (0, f"{out}: 1 of 2 answers rejected, 1 shown\n", "")
    text = Reader(out.read_text()).text
    for words in (
        "tokenproof: 1 of 2 answers rejected",
        "ProviderX?moonshotai/kimi-k2.5201010 of 0?bill-mismatch 1",
        f"ProviderX ({len(OFFSET) + len(AS_SENT)})",
        "odd bill-mismatch: bill: 8 ids before the end + 1 = 9, billed 12",
        "Think·of·it.163607</think>",
    ):
        assert words in text, words
    assert "fine" not in text


def test_rejections_are_no_failure_and_a_page_is_written_anew(tmp_path: Path) -> None:
    """Exit code 0 whatever the verdicts; what stood there was a page, and is another."""
    out = tmp_path / "page.html"
    for k in (1, 2):
        path = lines(tmp_path / f"{k}.jsonl", *[ERROR] * k)
        assert run(path, "--out", out)[0] == 0
        assert f"{k} of {k} answers rejected" in out.read_text()


def test_an_input_that_is_no_answer(tmp_path: Path) -> None:
    """Exit code 2; it is named on stderr and in the page, and the rest is there."""
    out, path = tmp_path / "page.html", lines(tmp_path / "a.jsonl", ERROR, "nonsense")
    code, told, said = run(path, "--out", out)
    assert (code, "; inputs that are no answers, named on stderr: 1" in told, "a.jsonl:2" in said) == (2, True, True)
    text = Reader(out.read_text()).text
    assert "a.jsonl:2: " in text
    assert "1 of 1 answers rejected" in text


def test_json(tmp_path: Path) -> None:
    """One object: what was written, and how many were left out."""
    out, path = tmp_path / "page.html", lines(tmp_path / "a.jsonl", *[ERROR] * 5)
    code, told, _ = run(path, "--out", out, "--limit", 2, "--json")
    assert (code, json.loads(told)) == (
        0,
        {
            "out": str(out),
            "bytes": out.stat().st_size,
            "verdicts": {"rejected": 5},
            "unusable": 0,
            "rejected": 5,
            "shown": 2,
            "left_out": 3,
            "drifts": None,
        },
    )


def test_drift(tmp_path: Path) -> None:
    """With --old what changed, named with the recording that shows it; bad inputs of either side are named once."""
    out = tmp_path / "page.html"
    old = folder(tmp_path / "old", {"chutes/a.json": OLD, "bad.json": "nonsense"})
    new = folder(tmp_path / "new", {"chutes/a.json": NEW})
    code, told, said = run(new, "--old", old, "--out", out)
    assert (code, told) == (2, f"{out}: 1 of 1 answers rejected, 1 shown, 1 changes\n")
    assert said.count("bad.json") == 1
    text = Reader(out.read_text()).text
    assert f"1 changes in 1 pairs, 1 of them touch ids. Compared with {old}" in text
    assert "Chutescontent_endkeptlostyeschutes/a: 1 answers that say the same" in text
    (old / "bad.json").unlink()
    assert run(new, "--old", old, "--out", out)[0] == 0


REFUSED = ("the input itself", "another file", "a folder", "no folder", "no answer", "two paths", "no pair", "no old")
REFUSED += ("no habits", "no limit")


def refusals(place: Path) -> dict[str, tuple[list[object], str]]:
    """Arguments that are refused, and what is said."""
    path = lines(place / "a.jsonl", ERROR)
    other = folder(place / "other", {"b.json": OLD})
    (place / "notes.html").write_text("<!doctype html><title>mine</title>")
    return {
        "the input itself": ([path, "--out", path], "is one of the files to judge"),
        "another file": ([path, "--out", place / "notes.html"], "is no page of `tokenproof report`"),
        "a folder": ([path, "--out", place], "is no regular file"),
        "no folder": ([path, "--out", place / "absent" / "x.html"], "there is no folder"),
        "no answer": ([place / "absent.json", "--out", place / "x.html"], "nothing is written"),
        "two paths": ([path, other, "--old", path, "--out", place / "x.html"], "compared with one PATH, 2 were given"),
        "no pair": ([other, "--old", path, "--out", place / "x.html"], "nothing was compared"),
        "no old": ([other, "--old", place / "gone", "--out", place / "x.html"], "gone"),
        "no habits": ([path, "--habits", place / "gone", "--out", place / "x.html"], "expected a habits file"),
        "no limit": ([path, "--limit", 0, "--out", place / "x.html"], "Invalid value for '--limit'"),
    }


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path: Path, case: str) -> None:
    """Exit code 2, a reason, and nothing written or overwritten."""
    arguments, words = refusals(tmp_path)[case]
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    code, out, said = run(*arguments)
    assert (code, out) == (2, "")
    assert words in said
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_answer_that_cannot_be_shown_never_ends_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours in tracing one answer: the page says so in its place, the other answers are there."""

    def broken(*_: object) -> None:
        raise RuntimeError("no")

    monkeypatch.setattr("harness.traces.try_readings", broken)
    out, path = tmp_path / "page.html", lines(tmp_path / "a.jsonl", {"name": "x", "response": BAD}, ERROR)
    assert run(path, "--out", out, "--as", "Chutes")[0] == 0
    text = Reader(out.read_text()).text
    assert "a bug of tokenproof, please report it with this input: RuntimeError: no (test_cli_report.py:" in text
    assert "provider-error" in text


def test_help_has_examples() -> None:
    """And the exit codes."""
    told = RUN.invoke(app, ["report", "--help"]).stdout
    for words in ("examples:", "tokenproof report cassettes --old HEAD~1", "exit code 0", "--limit", "--json"):
        assert words in told
