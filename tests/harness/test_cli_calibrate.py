"""`tokenproof calibrate`: what it prints, what it writes, and what it refuses to overwrite."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli import app
from harness.cli_calibrate import SHIPPED
from harness.habits import load_habits

WORDS = ["one", "two words", "three short words", "four", "five more words here", "six"]


def answer(text: str, tokens: int, provider: str = "Somewhere") -> str:
    """One K2 answer; `tokens` are billed."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": tokens + 5}
    body = {"id": "x", "model": "moonshotai/kimi-k2-0905", "provider": provider, "created": 1758600000}
    return json.dumps(body | {"choices": [choice], "usage": usage})


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """Six answers (1, 2, 3, 1, 4 and 1 ids) whose bill counts the terminator."""
    path = tmp_path / "answers.jsonl"
    rows = [answer(text, len(text.split()) + 1) for text in WORDS]
    path.write_text("\n".join(rows) + "\n")
    return path


def run(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["calibrate", *map(str, args)])
    return result.exit_code, result.output


def test_the_habits_of_the_environment_are_the_base(
    answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOKENPROOF_HABITS stands in for the shipped file, as it does for every other command."""
    seen = 'first = "2026-01-01", last = "2026-01-01", evidence = "table"'
    line = f'{{ provider = "Elsewhere", trait = "spaces", value = "none", {seen} }}'
    (tmp_path / "own.toml").write_text(f"habits = [\n  {line},\n]\n")
    monkeypatch.setenv("TOKENPROOF_HABITS", str(tmp_path / "own.toml"))

    assert run(answers, "--out", tmp_path / "new.toml")[0] == 0
    kept = {h.provider for h in load_habits((tmp_path / "new.toml").read_text()).lines if h.evidence != "answers"}
    assert kept == {"Elsewhere"}


def test_what_six_answers_teach(answers: Path) -> None:
    """One more token than the text has ids, six times of six: the terminator is billed."""
    code, out = run(answers, "--json")
    told = json.loads(out)

    assert code == 0
    assert (told["answers"], told["unusable"], told["out"]) == (6, 0, None)
    billed = [row for row in told["learned"] if row["trait"] == "terminator_billed"]
    assert billed == [
        {
            "provider": "Somewhere",
            "key": "moonshotai/kimi-k2-0905, thinking off, stop",
            "trait": "terminator_billed",
            "value": "yes",
            "for": 6,
            "against": 0,
            "first": "2025-09-23",
            "last": "2025-09-23",
        }
    ]
    assert {row["trait"] for row in told["unknown"]} >= {"chunks", "reasoning_tokens"}


def test_four_answers_are_too_few(tmp_path: Path) -> None:
    """A trait needs five answers; with four the equation stays unknown, and the reason is told."""
    path = tmp_path / "few.jsonl"
    path.write_text("\n".join(answer(text, len(text.split()) + 1) for text in WORDS[:4]))

    _, out = run(path, "--json")
    told = json.loads(out)

    assert [row for row in told["learned"] if row["trait"] == "terminator_billed"] == []
    why = [row["why"] for row in told["unknown"] if row["trait"] == "terminator_billed"]
    assert why == ["best equation (+1) fits 4 of 4 answers"]


def test_the_file_written_is_a_habits_file_that_check_takes(answers: Path, tmp_path: Path) -> None:
    """It holds what was learned beside the lines that were not learned from answers, and its sha256 is told."""
    out_file = tmp_path / "habits.toml"

    code, out = run(answers, "--out", out_file, "--json")
    habits = load_habits(out_file.read_text())

    assert code == 0
    assert habits.sha256 == json.loads(out)["habits_sha256"]
    learned = {(h.provider, h.trait, h.value) for h in habits.lines if h.evidence == "answers"}
    assert ("Somewhere", "terminator_billed", "yes") in learned
    assert {h.evidence for h in habits.lines} == {"answers", "engine", "table"}
    checked = CliRunner().invoke(app, ["check", str(answers), "--habits", str(out_file), "--json"])
    rows = [json.loads(line) for line in checked.output.splitlines()]
    assert [row["completion_tokens"] for row in rows] == [2, 3, 4, 2, 5, 2]
    assert {row["habits_sha256"] for row in rows} == {habits.sha256}
    assert rows[4]["verdict"] == "verified"


def test_the_shipped_file_is_not_overwritten_by_accident(answers: Path) -> None:
    """--out on the file that ships needs --update; without it nothing is written and the way out is named."""
    before = SHIPPED.read_bytes()

    code, out = run(answers, "--out", SHIPPED)

    assert code == 2
    assert "--update overwrites it" in out
    assert SHIPPED.read_bytes() == before


def test_a_file_that_cannot_be_written_says_so(answers: Path, tmp_path: Path) -> None:
    """A missing folder is our fault, not the answers'."""
    code, out = run(answers, "--out", tmp_path / "no" / "habits.toml")

    assert code == 2
    assert "cannot be written" in out


def test_broken_lines_are_named_and_the_rest_is_used(answers: Path) -> None:
    """Exit code 2, the line named, six answers still counted."""
    answers.write_text(answers.read_text() + "{broken\n")

    code, out = run(answers)

    assert code == 2
    assert "answers.jsonl:7" in out
    assert "of 6 answers" in out


def test_the_shipped_file_is_what_dump_writes() -> None:
    """One line a habit, so that a change is a one-line diff; it is valid TOML."""
    text = SHIPPED.read_text()
    rows = tomllib.loads(text)["habits"]

    assert sum(line.startswith("  { provider = ") for line in text.splitlines()) == len(rows)
    assert all(row["n_for"] >= 5 for row in rows if row.get("evidence", "answers") == "answers")


def test_only_a_habits_file_is_overwritten(answers: Path, tmp_path: Path) -> None:
    """--out on the answers themselves, or on any file that is no habits file, is refused and changes nothing."""
    other = tmp_path / "notes.txt"
    other.write_text("not TOML {")
    before = answers.read_text()

    assert run(answers, "--out", answers)[0] == 2
    assert run(answers, "--out", other)[0] == 2
    assert run(answers, "--out", "/dev/null")[0] == 2
    assert (answers.read_text(), other.read_text()) == (before, "not TOML {")
    assert run(answers, "--out", tmp_path / "habits.toml")[0] == 0
    assert run(answers, "--out", tmp_path / "habits.toml")[0] == 0


def test_without_an_answer_nothing_is_written(tmp_path: Path) -> None:
    """A mistyped path or an empty folder would leave a habits file without all that was learned from answers."""
    (tmp_path / "empty").mkdir()
    for given in ("missing.json", "empty"):
        code, out = run(tmp_path / given, "--out", tmp_path / "new.toml")
        assert code == 2
        assert "nothing is written" in out
        assert not (tmp_path / "new.toml").exists()
