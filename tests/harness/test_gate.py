"""harness.gate: what a ticket says, and that no reason hides another."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness import gate
from harness.errors import SetupError
from harness.evidence import read_cassettes
from harness.flow import judge
from harness.gate import Checked, Subject, Tools, check, checkout_root
from harness.hashes import hashes
from harness.proof import Wanted
from harness.ticket import TicketProvider, utc_text, verify
from harness.transport import target
from tests.conftest import ROOT
from tests.emulator_kit import MODEL
from tests.gate_kit import CAST, PLAYED, URL, Checkout, checkout, passing
from tests.harness.test_checkout import git
from tests.harness.test_sightings import kit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WANTED = Wanted(target(URL, None, offline=True), MODEL, NOW, timedelta(days=7))


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A sound checkout that this process takes for its own."""
    monkeypatch.setattr(gate, "ROOT", tmp_path / "c")
    return checkout(tmp_path / "c", NOW)


@pytest.fixture
def quick(made: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The same, for what is not about the required tests."""
    monkeypatch.setattr(gate, "run_required", passing)
    return made


def tools() -> Tools:
    """The judge and the hashes of this process."""
    return Tools(lambda exchange: judge(exchange, kit()), hashes(kit().habits))


def checked(made: Checkout, *, wanted: Wanted = WANTED, given: Tools | None = None, **subject: object) -> Checked:
    """What the gate finds."""
    filed = read_cassettes(made.root / "cassettes", made.root)
    whole = replace(Subject(made.root, CAST, filed), **subject)  # type: ignore[arg-type]
    return check(whole, wanted, given or tools(), lambda: NOW + timedelta(minutes=1))


def test_a_sound_checkout_gets_a_ticket(made: Checkout) -> None:
    """Each member, from its own place; it expires when its oldest recording does."""
    found = checked(made)
    ticket = found.ticket
    assert (found.reasons, ticket is not None) == ((), True)
    assert ticket is not None
    assert verify(ticket, NOW + timedelta(hours=1)) == ()
    assert (ticket.created_at, ticket.expires_at) == ("2026-03-01T12:01:00Z", "2026-03-07T12:00:00Z")
    assert ticket.hashes == hashes(kit().habits)
    assert (ticket.base_url, ticket.model, ticket.kill_rate, ticket.version) == (URL, MODEL, 1.0, 1)
    assert ticket.commit == git(made.root, "rev-parse", "HEAD")
    assert ticket.providers == (
        TicketProvider("chutes/int4", "Chutes", "int4"),
        TicketProvider("atlas-cloud/int4", "AtlasCloud", "int4"),
    )
    names = sorted(made.cassette(tag, s) for tag in CAST for s in PLAYED)
    assert [c.path for c in ticket.cassettes] == names
    oldest = min(c.recorded_at for c in ticket.cassettes)
    assert oldest == utc_text(NOW - timedelta(days=1))
    ids = ("tests/test_small.py::test_one", "tests/test_small.py::test_two")
    assert dict(ticket.required) == dict.fromkeys(ids, "passed")


def test_every_reason_is_told(made: Checkout, tmp_path: Path) -> None:
    """Checkout, habits, model, provider, kill rate and tests each have their line, in one run."""
    made.edit("tests/test_small.py", "assert 1 + 1 == 2", "assert 1 + 1 == 3")
    (made.root / "build" / "kill_rate.json").unlink()
    (tmp_path / "habits.toml").write_text("habits = []\n")
    wanted = replace(WANTED, model="somebody/other-model")
    found = checked(made, wanted=wanted, pins=("novita",), habits=str(tmp_path / "habits.toml"))
    assert found.ticket is None
    assert found.reasons == (
        "the tree is dirty: tests/test_small.py; commit it or take it out",
        f"the habits file {tmp_path / 'habits.toml'} is no part of the checkout; commit it, or use the shipped one",
        "no format is known for the model somebody/other-model",
        "no kill rate: build/kill_rate.json is not there; run `make mutants`",
        "1 required tests failed: tests/test_small.py::test_one",
        f"novita: no recording of somebody/other-model at {URL} speaks for it (found none at all)",
    )


@pytest.mark.parametrize("name", ["conftest.py", "tests/conftest.py", "harness/sub/x.py", "runners/x.toml"])
def test_what_git_was_told_to_ignore(quick: Checkout, name: str) -> None:
    """A file that takes part and is in no commit stands against a ticket, though the tree looks clean."""
    (quick.root / ".git" / "info" / "exclude").write_text(f"/{name}\n")
    quick.write({name: ""})
    quick.measure()
    told = f"files that git ignores take part: {name}; commit them or take them out"
    assert checked(quick).reasons == (told,)


def test_habits_of_the_checkout_may_be_used(quick: Checkout) -> None:
    """A committed habits file is part of what was tested."""
    assert checked(quick, habits=str(quick.root / "harness" / "habits.toml")).reasons == ()


def test_tools_that_cannot_be_had(quick: Checkout) -> None:
    """Another vocabulary, or habits that cannot be read: nothing is judged, and there is no ticket."""
    found = checked(quick, given=Tools(trouble="not the vocabulary of Kimi K2"))
    assert (found.ticket, found.reasons, found.proofs) == (None, ("not the vocabulary of Kimi K2",), ())


def test_nobody_named(quick: Checkout) -> None:
    """No provider, no ticket."""
    assert checked(quick, pins=()).reasons == ("no provider was named",)


def test_a_checkout_that_changes_meanwhile(made: Checkout) -> None:
    """A test that writes into the tree, or a commit made while the gate ran, is told."""
    made.edit("tests/test_small.py", "    assert 1 + 1 == 2", "    open('tests/new.txt', 'w').close()")
    made.commit()
    assert checked(made).reasons == ("the checkout changed while the gate ran; run it again",)


def test_the_package_of_another_checkout(quick: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code that judges must be the code that was tested."""
    monkeypatch.setattr(gate, "ROOT", ROOT)
    assert checked(quick).reasons == (
        f"the package in use is not the one of the checkout {quick.root}; install that one (`make setup`)",
    )


def test_elsewhere_than_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed package has no tests to run, and says what to do."""
    assert checkout_root() == ROOT
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    with pytest.raises(SetupError, match="the gate needs a checkout of tokenproof") as caught:
        checkout_root()
    assert str(tmp_path) in str(caught.value)
