"""harness.fresh and `tokenproof gate --live`: a few answers asked now, over loopback sockets."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import gate
from harness.cassette_files import cassette_files, read_recording
from harness.cli import app
from harness.emulator import Emulator, Truth
from harness.encoder import encode_prompt_text
from harness.errors import SetupError
from harness.formats import find_format, formats
from harness.fresh import PROBES, probes
from harness.prompt import render
from harness.scenarios import Scenarios
from harness.store import read_ticket
from tests.conftest import ROOT
from tests.emulator_kit import MODEL
from tests.gate_kit import Checkout, checkout, passing
from tests.harness.test_cli_gate import RUN
from tests.scenario_truths import endpoints, recording_app, shipped, truth_of
from tests.served import Served

FILE = str(ROOT / "cassettes" / "scenarios.toml")


def rendered(request: Mapping[str, Any]) -> Truth | None:
    """The scenario's answer behind the prompt that really is rendered for it."""
    truth, fmt = truth_of(request), find_format(MODEL, formats())
    assert fmt is not None
    if truth is None:
        return None
    prompt = render(
        request["messages"], request.get("tools"), format=fmt, thinking=truth.thinking, encode=encode_prompt_text
    )
    return replace(truth, prompt_ids=prompt.ids, prompt_tokens=None)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Emulator, str]]:
    """Two providers on loopback."""
    made = recording_app(["chutes", "atlas-cloud"])
    made.answers = rendered
    with Served(made) as url:
        yield made, url


@pytest.fixture
def emulated(served: tuple[Emulator, str]) -> Iterator[tuple[Emulator, str]]:
    """The same, as new."""
    app, url = served
    app.requests.clear()
    yield app, url
    app.endpoints = endpoints(["chutes", "atlas-cloud"])
    app.keys = None


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A sound checkout without any cassette, which this process takes for its own."""
    monkeypatch.setattr(gate, "ROOT", tmp_path / "c")
    monkeypatch.setattr(gate, "run_required", passing)
    found = checkout(tmp_path / "c")
    shutil.rmtree(found.root / "cassettes")
    found.commit()
    monkeypatch.chdir(found.root)
    return found


def live(url: str, *arguments: str, budget: str = "1", **env: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON and stderr of a live gate for Chutes."""
    typed = ["gate", "--model", MODEL, "--provider", "chutes/int4", "--base-url", url, "--scenarios", FILE, "--json"]
    result = RUN.invoke(app, [*typed, "--live", "--budget", budget, *arguments], env=env)
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    told = json.loads(result.stdout) if result.stdout else {"reasons": []}
    return result.exit_code, told, result.stderr


def test_fresh_answers_are_evidence(made: Checkout, emulated: tuple[Emulator, str]) -> None:
    """Without any recording four answers asked now are enough; they are kept, and the ticket is of them alone."""
    app, url = emulated
    code, told, err = live(url)
    assert (code, told["reasons"]) == (0, [])
    ticket = read_ticket("gate.json")
    assert [c.path.rpartition("/")[2] for c in ticket.cassettes] == sorted(f"{name}.yaml" for name in PROBES)
    assert all(c.path.startswith("build/gate/") and (made.root / c.path).is_file() for c in ticket.cassettes)
    assert len(app.requests) == 4
    assert all(r["provider"]["only"] == ["chutes/int4"] for r in app.requests)
    assert "4 fresh answers for $0.000" in err
    assert gate.changes(made.root) == ()


def test_nothing_is_asked_in_vain(made: Checkout, emulated: tuple[Emulator, str]) -> None:
    """Where something else stands against the ticket no money is spent."""
    app, url = emulated
    made.edit("tests/test_small.py", "assert 1 + 1 == 2", "assert True")
    code, told, _ = live(url)
    assert (code, app.requests) == (1, [])
    assert "live: nothing was asked, because of the other reasons" in told["reasons"]


def test_the_budget_is_never_passed(made: Checkout, emulated: tuple[Emulator, str]) -> None:
    """What could cost more than is left is not sent, and there is no ticket."""
    app, url = emulated
    code, told, _ = live(url, budget="0.000001")
    assert (code, app.requests, (made.root / "gate.json").exists()) == (1, [], False)
    assert told["reasons"][0].startswith("live: chutes/plain-short unpaid: the next request can cost $")


def test_a_provider_that_changed(made: Checkout, emulated: tuple[Emulator, str]) -> None:
    """Its recordings are held against what it answers now: a change that touches ids is a reason, with its name."""
    app, url = emulated
    assert live(url)[0] == 0
    for path in cassette_files(made.root / "build" / "gate"):
        made.write({f"cassettes/chutes/{path.name}": path.read_bytes()})
    shutil.rmtree(made.root / "build" / "gate")
    made.commit()
    assert live(url)[0] == 0
    (other,) = endpoints(["chutes"])
    app.endpoints = [replace(other, preset=replace(other.preset, call_id="minted"))]
    code, told, _ = live(url)
    assert code == 1
    assert told["reasons"][0] == (
        "Chutes has changed since it was recorded: call_id native -> minted (chutes/tool-call); "
        "look at `tokenproof drift`, and record again"
    )


def test_a_provider_that_is_not_there(made: Checkout, emulated: tuple[Emulator, str]) -> None:
    """A pin that no endpoint answers to, or a place where nobody answers, is a reason."""
    app, url = emulated
    app.endpoints = endpoints(["atlas-cloud"])
    assert live(url)[1]["reasons"][0].startswith("live: no endpoint answers to 'chutes/int4'")
    assert live("http://127.0.0.1:9/api/v1")[1]["reasons"][0].startswith("live: no prices and endpoints of")


def test_the_key_goes_along_and_nowhere_else(made: Checkout, emulated: tuple[Emulator, str]) -> None:
    """It is sent, and stands in no cassette, ticket or message; a wrong one is a reason."""
    app, url = emulated
    app.keys = frozenset({"sk-made-up"})
    code, told, err = live(url, OPENROUTER_API_KEY="sk-made-up")
    assert (code, told["reasons"]) == (0, [])
    texts = [p.read_text() for p in (made.root / "build").rglob("*.yaml")] + [Path("gate.json").read_text(), err]
    assert not any("made-up" in text for text in texts)
    assert read_recording(next((made.root / "build" / "gate").rglob("*.yaml"))).provenance.kind == "emulator"
    assert "HTTP 401" in live(url, OPENROUTER_API_KEY="sk-wrong")[1]["reasons"][0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--probe", "no-such"), "no scenario 'no-such'"),
        (("--budget", "much"), "--budget 'much'"),
        (("--scenarios", "absent.toml"), "absent.toml: cannot be read"),
    ],
)
def test_wrong_calls(made: Checkout, emulated: tuple[Emulator, str], arguments: tuple[str, ...], said: str) -> None:
    """2, before anything is run."""
    code, _, err = live(emulated[1], *arguments)
    assert (code, said in err) == (2, True)


def test_live_and_budget_belong_together(made: Checkout) -> None:
    """Either without the other is a wrong call."""
    typed = ["gate", "--model", MODEL, "--provider", "chutes"]
    for flags in (["--live"], ["--budget", "1"]):
        result = RUN.invoke(app, [*typed, *flags])
        assert (result.exit_code, "--live and --budget USD belong together" in result.stderr) == (2, True)


def test_what_is_asked() -> None:
    """The named scenarios, else the four; a file that has none of them is told."""
    assert tuple(s.name for s in probes(shipped(), [])) == PROBES
    assert [s.name for s in probes(shipped(), ["hello"])] == ["hello"]
    hello = Scenarios(MODEL, shipped().picked(["hello"]))
    with pytest.raises(SetupError, match="none of plain-short, plain-short-stream, thinking-off, tool-call is among"):
        probes(hello, [])
