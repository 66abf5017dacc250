"""A pytest plugin for the gate: what became of every required test, and whether anything reached for the network.

    python -m pytest -p harness.outcomes --outcomes FILE

Writes one JSON object to FILE; knows nothing of tickets. Loaded by the gate's own pytest process alone, and needs no
import of pytest: its hooks go by their names.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from harness.sockets import only_loopback

MARK = "required"
WORST_FIRST = ("error", "failed", "xfailed", "xpassed", "skipped", "deselected", "missing", "passed")
"""Of several cases of one test function the worst counts."""
REACHES = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"})
"""Events of Python's audit hooks; they are raised below every HTTP library and every patch of one."""


_GUARD = ExitStack()
"""Held to the end of the process."""


class NetworkReachedError(PermissionError):
    """A test asked for a connection; it got none."""


class Outcomes:
    """What the hooks see.

    Attributes:
        tests: Id of a test function -> its worst outcome.
        network: What was asked of the network, each with the test that was running.
        tried: What was asked by loops that open sockets in C, as `sockets` sees it: no place but loopback.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tests: dict[str, str] = {}
        self.network: list[str] = []
        self.tried: list[str] = []
        self.broken: list[str] = []
        self.running = "no test"

    def pytest_itemcollected(self, item: Any) -> None:
        """A required test is missing until something else becomes of it, whoever takes it out later."""
        if item.get_closest_marker(MARK) is not None:
            self.tests.setdefault(function_of(item.nodeid), "missing")

    def pytest_collectreport(self, report: Any) -> None:
        """A file that cannot be collected may have held any test."""
        if report.failed:
            self.broken.append(report.nodeid)

    def pytest_deselected(self, items: Iterable[Any]) -> None:
        """Tests that were taken out."""
        for item in items:
            self._note(item.nodeid, "deselected")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins."""
        self.running = nodeid

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of a test; the call decides, the other two only where they did not pass."""
        if report.when == "call" or report.outcome != "passed":
            self._note(report.nodeid, outcome_of(report))

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Everything that was seen, in one object."""
        network = [*self.network, *(f"uvloop: {place}" for place in self.tried)]
        told = {"exit": int(exitstatus), "tests": self.tests, "network": network, "broken": self.broken}
        self.path.write_text(json.dumps(told))

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuses every connection, loopback too: a required test needs none."""
        if event in REACHES and not _is_local_file(arguments):
            self.network.append(f"{self.running}: {event} {_address(arguments)!r:.80}")
            raise NetworkReachedError(f"{self.running} reached for the network ({event}); required tests may not")

    def _note(self, nodeid: str, outcome: str) -> None:
        """The worst of what is known; a case that passed ends that the function is missing."""
        name = function_of(nodeid)
        if name in self.tests:
            known = {self.tests[name], outcome} - {"missing"}
            self.tests[name] = min(known, key=WORST_FIRST.index)


def function_of(nodeid: str) -> str:
    """The id without the case of a parametrised test."""
    return nodeid.partition("[")[0]


def outcome_of(report: Any) -> str:
    """passed, failed, skipped, error (outside of the test itself), xfailed or xpassed."""
    if hasattr(report, "wasxfail"):
        return "xfailed" if report.skipped else "xpassed"
    return "error" if report.failed and report.when != "call" else str(report.outcome)


def _address(arguments: tuple[Any, ...]) -> Any:
    return arguments[1] if len(arguments) > 1 and not isinstance(arguments[0], str) else arguments[0]


def _is_local_file(arguments: tuple[Any, ...]) -> bool:
    """A socket of the file system stays on this machine."""
    address = _address(arguments)
    return isinstance(address, str | bytes) and not isinstance(arguments[0], str | bytes)


def pytest_addoption(parser: Any) -> None:
    """The one option."""
    parser.addoption("--outcomes", metavar="FILE", help="write what became of every required test to FILE")


def pytest_configure(config: Any) -> None:
    """Listens where a file is named."""
    path = config.getoption("--outcomes")
    if path:
        outcomes = Outcomes(Path(path))
        config.pluginmanager.register(outcomes, "tokenproof-outcomes")
        sys.addaudithook(outcomes.audit)
        outcomes.tried = _GUARD.enter_context(only_loopback())


def parse_outcomes(value: Any) -> Mapping[str, Any]:
    """The members of such a file; {} where it is none."""
    kinds = {"exit": int, "tests": dict, "network": list, "broken": list}
    good = isinstance(value, dict) and all(isinstance(value.get(name), kind) for name, kind in kinds.items())
    return value if good else {}
