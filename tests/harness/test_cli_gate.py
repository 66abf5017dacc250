"""`tokenproof gate`: the ticket file, what is told, the reports, the exit codes; and planted ways to a false green.

All of them, each in a process of its own: `make false-green`.
"""

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from harness import gate
from harness.cli import app
from harness.store import read_ticket
from tests.emulator_kit import MODEL
from tests.false_green import MORE, WAYS
from tests.gate_kit import CAST, URL, Checkout, checkout, passing

RUN = CliRunner()
OF_TESTS = ("one deselected", "a request that reached the network")
OF_EVIDENCE = (
    *("a ticket of another base URL", "only hand-made evidence", "no cassette", "a stale one", "edited habits"),
    *("bodies of two cassettes swapped", "other vocabulary", "evidence of another provider"),
)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A sound checkout that this process takes for its own, and stands in."""
    monkeypatch.setattr(gate, "ROOT", tmp_path / "c")
    monkeypatch.delenv("TOKENPROOF_BASE_URL", raising=False)
    found = checkout(tmp_path / "c")
    monkeypatch.chdir(found.root)
    return found


@pytest.fixture
def quick(made: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The same, for what is not about the required tests."""
    monkeypatch.setattr(gate, "run_required", passing)
    return made


def run(*arguments: object, base_url: str | None = URL, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of the gate for the whole cast."""
    pins = [part for tag in CAST for part in ("--provider", tag)]
    where = ["--base-url", base_url] if base_url else []
    result = RUN.invoke(app, ["gate", "--model", MODEL, *pins, *where, *map(str, arguments)], env=env)
    return result.exit_code, result.stdout, result.stderr


def test_a_ticket(made: Checkout) -> None:
    """Written to ./gate.json, which is a ticket; what it opens is told; the tree is as clean as before."""
    code, out, err = run()
    ticket = read_ticket("gate.json")
    assert code == 0
    assert out.splitlines() == [
        f"gate.json: opens runs of {MODEL} at {URL}: chutes/int4 = Chutes (int4), atlas-cloud/int4 = AtlasCloud (int4)",
        f"until {ticket.expires_at}, with this code, vocabulary, formats and habits; ticket {ticket.ticket_id[:12]}",
        "2 required tests passed, kill rate 100%, 10 cassettes",
    ]
    assert "runs the required tests" in err
    assert gate.changes(made.root) == ()


def test_reports(made: Checkout, tmp_path: Path) -> None:
    """--json, the same in a file, pytest's JUnit XML, and the ticket where it was asked for."""
    paths = {name: tmp_path / name for name in ("t.json", "r.json", "j.xml")}
    code, out, _ = run("--json", "--ticket", paths["t.json"], "--report", paths["r.json"], "--junit", paths["j.xml"])
    told = json.loads(out)
    assert (code, told["reasons"], told["ticket"]) == (0, [], str(paths["t.json"]))
    assert told["ticket_id"] == read_ticket(paths["t.json"]).ticket_id
    assert json.loads(paths["r.json"].read_text()) == told
    assert [p["pin"] for p in told["providers"]] == list(CAST)
    assert told["required"] == dict.fromkeys(
        ("tests/test_small.py::test_one", "tests/test_small.py::test_two"), "passed"
    )
    assert {c.get("name") for c in ElementTree.parse(paths["j.xml"]).iter("testcase")} == {
        "test_one",
        "test_two[1]",
        "test_two[2]",
    }
    assert not (made.root / "gate.json").exists()


@pytest.mark.parametrize("option", ["--junit", "--report"])
def test_nothing_but_an_earlier_report_is_overwritten(made: Checkout, tmp_path: Path, option: str) -> None:
    """Told before the tests run; an earlier one is replaced."""
    other, earlier = tmp_path / "notes.md", tmp_path / "earlier"
    other.write_text("mine\n")
    earlier.write_text('<testsuites/>\n{"ticket_id": null}\n')

    code, _, err = run(option, other)
    assert (code, other.read_text()) == (2, "mine\n")
    assert f"{other} exists and is no " in err
    assert "runs the required tests" not in err
    assert run(option, earlier)[0] == 0


def test_no_ticket(made: Checkout) -> None:
    """1, a reason a line; the ticket of an earlier run is taken away."""
    assert run()[0] == 0
    made.edit("tests/test_small.py", "assert 1 + 1 == 2", "assert 1 + 1 == 3")
    code, out, _ = run()
    assert (code, (made.root / "gate.json").exists()) == (1, False)
    assert out.splitlines() == [
        "the tree is dirty: tests/test_small.py; commit it or take it out",
        "the kill rate belongs to other tests; run `make mutants`",
        "1 required tests failed: tests/test_small.py::test_one",
        "no ticket: 3 reasons",
    ]


def refused(made: Checkout, name: str) -> bool:
    """Whether a planted way leaves no ticket, for its own reason."""
    plant, reason = WAYS[name]
    call = plant(made)
    other = next((v for k, v in zip(call.arguments, call.arguments[1:], strict=False) if k == "--base-url"), URL)
    code, out, _ = run("--json", base_url=other, env=dict(call.environment))
    left = (made.root / "gate.json").exists()
    return code == 1 and not left and any(reason in told for told in json.loads(out)["reasons"])


@pytest.mark.parametrize("name", OF_TESTS)
def test_a_false_green_of_tests(made: Checkout, name: str) -> None:
    """Tests that prove nothing leave no ticket."""
    assert refused(made, name)


@pytest.mark.parametrize("name", OF_EVIDENCE)
def test_a_false_green_of_evidence(quick: Checkout, name: str) -> None:
    """Nor do recordings, habits or a vocabulary that prove nothing."""
    assert refused(quick, name)


def test_the_fourteen_ways() -> None:
    """The table holds what was promised."""
    assert (len(WAYS), set(WAYS) & set(MORE)) == (14, set())


def test_the_base_url_of_the_environment(quick: Checkout) -> None:
    """TOKENPROOF_BASE_URL is taken where no flag is given; without either it is OpenRouter's."""
    assert run(base_url=None, env={"TOKENPROOF_BASE_URL": URL})[0] == 0
    _, out, _ = run("--json", base_url=None)
    assert "at https://openrouter.ai/api/v1 speaks for it" in json.loads(out)["reasons"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--base-url", "http://example.com/v1"), "plain http goes to loopback only"),
        (("--base-url", "https://example.com/v1"), "add --allow-host example.com"),
        (("--max-age", "-1"), "--max-age"),
        (("--max-age", "1e12"), "--max-age"),
        (("--min-verified", "1.5"), "--min-verified"),
    ],
)
def test_wrong_calls(quick: Checkout, arguments: tuple[str, ...], said: str) -> None:
    """2, before any test is run."""
    code, out, err = run(*arguments, base_url=None)
    assert (code, out) == (2, "")
    assert said in err


def test_a_host_that_was_allowed(quick: Checkout) -> None:
    """Named by hand, it may be meant; no recording of it is here."""
    code, out, _ = run("--base-url", "https://example.com/v1", "--allow-host", "example.com", "--json", base_url=None)
    assert (code, "at https://example.com/v1 speaks" in json.loads(out)["reasons"][0]) == (1, True)


def test_nothing_but_a_ticket_is_overwritten(quick: Checkout, tmp_path: Path) -> None:
    """A file that is none is left alone, before anything is run."""
    (tmp_path / "notes.json").write_text('{"mine": true}')
    code, _, err = run("--ticket", tmp_path / "notes.json")
    assert (code, (tmp_path / "notes.json").read_text()) == (2, '{"mine": true}')
    assert "it is not overwritten: choose another --ticket" in err


def test_a_pipe_is_no_place_for_a_ticket(quick: Checkout, tmp_path: Path) -> None:
    """It is refused before it is opened: reading would wait for somebody to write."""
    os.mkfifo(tmp_path / "pipe")
    code, _, err = run("--ticket", tmp_path / "pipe")
    assert (code, "pipe cannot be written: it is a device, a pipe or a socket" in err) == (2, True)
    assert (tmp_path / "pipe").is_fifo()


def test_elsewhere_than_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2, and what to do."""
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    code, _, err = run("--ticket", tmp_path / "t.json")
    assert (code, "the gate needs a checkout of tokenproof" in err) == (2, True)
