"""`tokenproof providers`: the scoreboard, its JSON, and the provider block that a run reads."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cassette_text import cassette_text
from harness.cli import app
from tests.emulator_kit import MODEL
from tests.gate_kit import CAST, PLAYED, URL, recording
from tests.harness.test_sightings import body
from tests.runners.run_kit import ONE, run_of, run_text

RUN = CliRunner()


def folder(place: Path, days_old: float = 2.0, tags: tuple[str, ...] = CAST, **changes: Any) -> Path:
    """Cassettes of the cast, all of one age."""
    for tag in tags:
        (place / tag.partition("/")[0]).mkdir(parents=True, exist_ok=True)
        for k, scenario in enumerate(PLAYED):
            at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=days_old, seconds=k)
            path = place / tag.partition("/")[0] / f"{k}.yaml"
            path.write_bytes(cassette_text(recording(scenario, tag, at, **changes)))
    return place


def run(*arguments: object, base_url: str | None = URL) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    where = ["--base-url", base_url] if base_url else []
    result = RUN.invoke(app, ["providers", *where, *map(str, arguments)], env={"TOKENPROOF_BASE_URL": ""})
    return result.exit_code, result.stdout, result.stderr


def test_the_scoreboard(tmp_path: Path) -> None:
    """A row an endpoint: answers, verdicts, evidence, age, findings and habits."""
    code, out, _ = run(folder(tmp_path))
    head, atlas, chutes = out.splitlines()
    assert code == 0
    names = ["provider", "endpoint", "model", "answers", "exact", "verified", "unverified", "rejected", "evidence"]
    assert head.split()[:9] == names
    assert atlas.startswith(f"AtlasCloud  atlas-cloud/int4  {MODEL}        5      0")
    assert "2.0 d" in chutes
    assert "terminator_billed yes; think_billed no;" in chutes
    assert "terminator_billed yes (stop), no (tool_calls)" in atlas


def test_json(tmp_path: Path) -> None:
    """All of it for machines, every habit among it."""
    code, out, _ = run(folder(tmp_path, tags=CAST[:1]), "--json")
    told = json.loads(out)
    (score,) = told["scores"]
    assert (code, told["provider"], told["written"], told["left_out"]) == (0, None, None, [])
    assert (score["provider"], score["tag"], score["quantization"]) == ("Chutes", "chutes/int4", "int4")
    assert (score["answers"], score["evidence"], score["kinds"]) == (5, 5, {"emulator": 5})
    assert sum(score["verdicts"].values()) == 5
    assert score["good"] == score["verdicts"]["verified"] >= 3
    assert score["habits"]["prompt_offset"] == "0"


def test_the_block_is_what_a_run_reads(tmp_path: Path) -> None:
    """Written for the place where the recordings were made, and taken by the run file's reader as it is."""
    board = tmp_path / "board.json"
    code, out, _ = run(folder(tmp_path / "c"), "--write", board)
    assert (code, out.splitlines()[-1]) == (0, f"{board}: only atlas-cloud/int4, chutes/int4")
    read = run_of(tmp_path, text=run_text(ONE), base_url=URL, scoreboard=str(board))
    assert dict(read.provider) == {
        "only": ["atlas-cloud/int4", "chutes/int4"],
        "quantizations": ["int4"],
        "allow_fallbacks": False,
        "require_parameters": True,
    }
    told = json.loads(board.read_text())
    assert (told["model"], told["base_url"], told["left_out"]) == (MODEL, URL, [])


@pytest.mark.parametrize(
    ("changes", "flags", "reason"),
    [
        ({}, ("--max-age", "1"), "its newest evidence is not of the last 1 days"),
        ({}, ("--min-answers", "6"), "5 answers, expected 6"),
        ({}, ("--min-verified", "1"), "are exact or verified, expected 100%"),
        ({"kind": "hand-made"}, (), "no recording of it speaks for the place of the run (5 hand-made)"),
        ({"base_url": "http://127.0.0.1:10/api/v1"}, (), "no recording of it speaks for the place of the run"),
        ({"answered_by": "groq/int4"}, (), "no recording of it speaks for the place of the run"),
    ],
)
def test_nobody_is_good_enough(tmp_path: Path, changes: dict[str, Any], flags: tuple[str, ...], reason: str) -> None:
    """1, the reason of each, and nothing is written, nor is an older file touched."""
    board = tmp_path / "board.json"
    older = '{"provider": "older"}'
    board.write_text(older)
    code, out, _ = run(folder(tmp_path / "c", **changes), "--write", board, *flags)
    assert (code, board.read_text()) == (1, older)
    left = [line for line in out.splitlines() if line.startswith("left out: ")]
    assert (len(left), all(reason in line for line in left)) == (2, True)
    assert out.splitlines()[-1] == "no endpoint is good enough; nothing is written"


def test_an_edited_cassette_is_no_evidence(tmp_path: Path) -> None:
    """Its answer is shown, and counts for nobody."""
    place = folder(tmp_path, tags=CAST[:1])
    path = place / "chutes" / "0.yaml"
    path.write_text(path.read_text().replace('"finish_reason":"stop"', '"finish_reason":"length"'))
    code, out, err = run(place, "--json")
    told = {s["tag"]: s for s in json.loads(out)["scores"]}["chutes/int4"]
    assert (code, told["answers"], told["evidence"]) == (0, 5, 4)
    assert "it is evidence of nothing" in err


def test_answers_without_a_cassette(tmp_path: Path) -> None:
    """Shown by provider, with the date that they state; never evidence."""
    answer = {**body(content="Hello there."), "created": 1_772_366_400}
    (tmp_path / "a.json").write_text(json.dumps(answer))
    _, out, _ = run(tmp_path / "a.json", "--json")
    (score,) = json.loads(out)["scores"]
    assert (score["provider"], score["tag"], score["evidence"], score["kinds"]) == ("Chutes", None, 0, {"unstated": 1})
    assert score["newest"] == "2026-03-01T12:00:00Z"


def test_an_input_that_is_no_answer(tmp_path: Path) -> None:
    """Named, the rest counted, 2."""
    (tmp_path / "a.json").write_text(json.dumps(body(content="Hi")))
    (tmp_path / "b.json").write_text("nothing")
    code, out, err = run(tmp_path)
    assert (code, "Chutes" in out, "b.json" in err) == (2, True, True)


def test_several_models(tmp_path: Path) -> None:
    """A block is for one model, which must be named; one that was not seen gets none."""
    place = folder(tmp_path / "c", tags=CAST[:1])
    folder(place, tags=CAST[1:], model="moonshotai/kimi-k2.6")
    code, _, err = run(place, "--write", tmp_path / "b.json")
    assert (code, "name the run's with --model" in err) == (2, True)
    assert run(place, "--write", tmp_path / "b.json", "--model", MODEL)[0] == 0
    code, out, _ = run(place, "--write", tmp_path / "n.json", "--model", "m")
    assert (code, "left out: no answer of m was seen" in out) == (1, True)


def test_the_shipped_cassettes() -> None:
    """Hand-made ones are shown and are evidence of nothing."""
    code, out, _ = run(base_url=None)
    assert code == 0
    assert all(" 0 of 0 " in line for line in out.splitlines()[1:])


def test_nothing_but_a_provider_block_is_overwritten(tmp_path: Path) -> None:
    """Told before any work; an earlier block is replaced."""
    place, other = folder(tmp_path / "c"), tmp_path / "run.toml"
    other.write_text("model = 1\n")

    code, _, err = run(place, "--write", other)
    assert (code, other.read_text()) == (2, "model = 1\n")
    assert f"{other} exists and is no provider block of `tokenproof providers`; choose another --write" in err
    code, _, err = run(place, "--write", tmp_path / "absent" / "b.json")
    assert (code, "there is no folder" in err) == (2, True)
    assert [run(place, "--write", tmp_path / "b.json")[0] for _ in range(2)] == [0, 0]
