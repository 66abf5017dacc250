"""harness.outcomes: what a required test became, whatever pytest was told, and who reached for the network."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.outcomes import NetworkReachedError, Outcomes, function_of, outcome_of, parse_outcomes


def report(nodeid: str, outcome: str = "passed", when: str = "call", **more: Any) -> Any:
    """One phase of one test."""
    flags = {name: outcome == name for name in ("passed", "failed", "skipped")}
    return SimpleNamespace(nodeid=nodeid, outcome=outcome, when=when, **flags, **more)


def item(nodeid: str, required: bool = True) -> Any:
    """A collected test."""
    return SimpleNamespace(nodeid=nodeid, get_closest_marker=lambda name: (required and name == "required") or None)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (report("t"), "passed"),
        (report("t", "failed"), "failed"),
        (report("t", "failed", "setup"), "error"),
        (report("t", "failed", "teardown"), "error"),
        (report("t", "skipped", "setup"), "skipped"),
        (report("t", "skipped", "call", wasxfail="why"), "xfailed"),
        (report("t", "passed", "call", wasxfail="why"), "xpassed"),
    ],
)
def test_the_outcome_of_a_phase(told: Any, expected: str) -> None:
    """Each end of a test has its own name; that one passed although it should fail is no pass."""
    assert outcome_of(told) == expected


def heard(path: Path, *events: tuple[str, Any]) -> dict[str, str]:
    """What becomes of tests t and u, each with cases, after these events."""
    outcomes = Outcomes(path)
    for nodeid in ("t[1]", "t[2]", "u"):
        outcomes.pytest_itemcollected(item(nodeid))
    for name, value in events:
        getattr(outcomes, name)(value)
    return outcomes.tests


LOG, OUT = "pytest_runtest_logreport", "pytest_deselected"
HEARD: list[Any] = [
    pytest.param([], "missing", id="never-ran"),
    pytest.param([(LOG, report("t[1]")), (LOG, report("t[2]"))], "passed", id="all-passed"),
    pytest.param([(LOG, report("t[1]")), (LOG, report("t[2]", "failed"))], "failed", id="one-case-failed"),
    pytest.param([(LOG, report("t[2]", "failed")), (LOG, report("t[1]"))], "failed", id="whatever-the-order"),
    pytest.param([(LOG, report("t[1]")), (OUT, [item("t[2]")])], "deselected", id="one-case-deselected"),
    pytest.param([(LOG, report("t[1]")), (LOG, report("t[1]", "failed", "teardown"))], "error", id="after-it-passed"),
    pytest.param([(LOG, report("t[1]", "passed", "setup"))], "missing", id="only-set-up"),
    pytest.param([(LOG, report("t[1]", "skipped", "setup"))], "skipped", id="skipped-before-it-ran"),
]


@pytest.mark.parametrize(("events", "expected"), HEARD)
def test_the_worst_case_counts(tmp_path: Path, events: list[tuple[str, Any]], expected: str) -> None:
    """Of several cases the worst counts, and what was never run is missing."""
    assert heard(tmp_path / "o", *events) == {"t": expected, "u": "missing"}


def test_other_tests_are_not_looked_at(tmp_path: Path) -> None:
    """A test without the mark is in no list, whatever becomes of it."""
    outcomes = Outcomes(tmp_path / "o")
    outcomes.pytest_itemcollected(item("x", required=False))
    outcomes.pytest_runtest_logreport(report("x", "failed"))
    assert outcomes.tests == {}


def test_what_is_written(tmp_path: Path) -> None:
    """One object with everything, which the reader takes; anything else is nothing."""
    outcomes = Outcomes(tmp_path / "o")
    outcomes.pytest_itemcollected(item("t"))
    outcomes.pytest_collectreport(SimpleNamespace(failed=True, nodeid="tests/test_x.py"))
    outcomes.pytest_collectreport(SimpleNamespace(failed=False, nodeid="tests/test_y.py"))
    outcomes.pytest_sessionfinish(1)
    told = json.loads((tmp_path / "o").read_text())
    assert told == {"exit": 1, "tests": {"t": "missing"}, "network": [], "broken": ["tests/test_x.py"]}
    assert parse_outcomes(told) == told
    for wrong in (None, [], {}, {**told, "tests": []}, {**told, "exit": "0"}):
        assert parse_outcomes(wrong) == {}


REACHING: list[Any] = [
    ("socket.connect", (None, ("127.0.0.1", 80)), True),
    ("socket.connect", (None, ("192.0.2.1", 80)), True),
    ("socket.getaddrinfo", ("example.invalid", 443, 0, 0, 0), True),
    ("socket.gethostbyname", ("example.invalid",), True),
    ("socket.sendto", (None, ("192.0.2.1", 53)), True),
    ("socket.connect", (None, "/run/x.sock"), False),
    ("open", ("/etc/passwd", "r", 0), False),
]


@pytest.mark.parametrize(("event", "arguments", "refused"), REACHING)
def test_connections_are_refused_and_told(tmp_path: Path, event: str, arguments: Any, refused: bool) -> None:
    """Every way out, loopback too, is an error in the test that asked and stays in the record; a local file is none."""
    outcomes = Outcomes(tmp_path / "o")
    outcomes.pytest_runtest_logstart("t")
    if refused:
        with pytest.raises(NetworkReachedError, match=f"t reached for the network .{event}."):
            outcomes.audit(event, arguments)
    else:
        outcomes.audit(event, arguments)
    assert [told.partition(":")[0] for told in outcomes.network] == (["t"] if refused else [])


def test_a_real_socket_raises_these_events(tmp_path: Path) -> None:
    """What Python says before it connects has the shape that is looked at (heard by the hook in the gate's process)."""
    outcomes = Outcomes(tmp_path / "o")
    with socket.socket() as made, pytest.raises(NetworkReachedError):
        outcomes.audit("socket.connect", (made, ("192.0.2.1", 1)))
    assert outcomes.network == ["no test: socket.connect ('192.0.2.1', 1)"]


def test_ids() -> None:
    """A function's id is that of its cases without the case, which may hold brackets itself."""
    assert [function_of(i) for i in ("a.py::t", "a.py::t[x[1]]", "a.py::C::t[1]")] == [
        "a.py::t",
        "a.py::t",
        "a.py::C::t",
    ]
