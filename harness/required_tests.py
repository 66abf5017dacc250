"""Runs the required tests of a checkout through pytest, in a process of its own, and says why they prove nothing.

Owns that process. Knows nothing of providers and tickets.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from harness.errors import SetupError
from harness.hashes import content_hash, hash_of_tests
from harness.outcomes import parse_outcomes
from harness.proof import some
from harness.settings import child_environment
from harness.ticket import PASSED

LIST = Path("tests") / "required.txt"
KILL_RATE = Path("build") / "kill_rate.json"
TIMEOUT_S = 900.0
MAX_BYTES = 16 << 20
STEERING = frozenset({"PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTHONPATH"})
"""Of the environment: what could make another run of it than the checkout's own."""
TEST_ID = re.compile(r"tests/[\w/.-]+\.py(?:::\w+)+")


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of the required tests.

    Attributes:
        outcomes: Id of each listed test -> its outcome.
        reasons: Why they prove nothing, a line each; () where all of them passed.
    """

    outcomes: Mapping[str, str]
    reasons: tuple[str, ...]


def listed(root: Path) -> tuple[str, ...]:
    """Ids of the required tests of a checkout, a function a line.

    Raises:
        SetupError: No such list, or a line of it that is no id.
    """
    try:
        lines = (root / LIST).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{LIST} cannot be read: {error!s:.100}") from error
    for line in lines:
        if not TEST_ID.fullmatch(line):
            raise SetupError(f"{LIST}: {line!r:.100} is no id of a test function (tests/test_x.py::test_y)")
    return tuple(lines)


def run_required(root: Path, junit: Path | None = None, python: str = sys.executable) -> Ran:
    """All tests of the checkout that carry the mark, run once; `junit` takes pytest's own XML report."""
    names = listed(root)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "outcomes.json"
        command = [python, "-m", "pytest", "-p", "harness.outcomes", "--outcomes", str(file), "-m", "required", "-q"]
        command += ["-p", "no:cacheprovider", "--no-header", "--tb=no", "--rootdir", str(root)]
        command += ["--confcutdir", str(root / "tests")]  # no conftest.py from above the tests: no test of theirs
        command += ["-c", str(root / "pyproject.toml"), *([f"--junitxml={junit.resolve()}"] if junit else []), "tests"]
        said = _ended(command, root)
        try:
            told = parse_outcomes(json.loads(file.read_bytes()[:MAX_BYTES]))
        except (OSError, ValueError):
            told = {}
    if not told:
        unknown = MappingProxyType(dict.fromkeys(names, "missing"))
        return Ran(unknown, (f"pytest ended without telling what became of the required tests ({said})",))
    outcomes = {name: str(told["tests"].get(name, "missing")) for name in names}
    return Ran(MappingProxyType(outcomes), tuple(_reasons(outcomes, told, names)))


def _ended(command: Sequence[str], root: Path) -> str:
    """Runs it; its last line."""
    environment = child_environment(without=STEERING)
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        return f"no end after {TIMEOUT_S:.0f} s"
    except OSError as error:
        return str(error)
    lines = (done.stdout + done.stderr).decode("utf-8", "replace").strip().splitlines()
    return f"status {done.returncode}: {lines[-1]:.200}" if lines else f"status {done.returncode}"


def _reasons(outcomes: Mapping[str, str], told: Mapping[str, Any], names: Sequence[str]) -> Iterator[str]:
    if not names:
        yield f"{LIST} lists no test: a gate that tests nothing opens nothing"
    if not told["tests"]:
        yield "pytest collected no required test"
    by_outcome: dict[str, list[str]] = defaultdict(list)
    for name, outcome in outcomes.items():
        by_outcome[outcome].append(name)
    for outcome, tests in sorted(by_outcome.items()):
        if outcome != PASSED:
            yield f"{len(tests)} required tests {outcome}: {some(tests)}"
    if unlisted := sorted(set(told["tests"]) - set(names)):
        yield f"{len(unlisted)} tests carry the mark `required` and are not in {LIST}: {some(unlisted)}"
    if told["broken"]:
        yield f"{len(told['broken'])} test files could not be collected: {some(told['broken'])}"
    if told["network"]:
        yield f"required tests reached for the network: {some(told['network'])}"
    if told["exit"] != 0 and set(outcomes.values()) <= {PASSED}:
        yield f"pytest ended with status {told['exit']}"


def kill_rate(root: Path) -> tuple[float, tuple[str, ...]]:
    """The share of planted mutants that the required tests notice, and why it does not count; () where it does."""
    path, remedy = root / KILL_RATE, "run `make mutants`"
    try:
        told = json.loads(path.read_bytes()[:MAX_BYTES])
        rate, survivors = told["kill_rate"], told["survivors"]
        if type(rate) not in (int, float) or not isinstance(survivors, list) or not 0 <= rate <= 1:
            raise ValueError("no kill rate in it")
    except OSError:
        return 0.0, (f"no kill rate: {KILL_RATE} is not there; {remedy}",)
    except (ValueError, KeyError, TypeError) as error:
        return 0.0, (f"{KILL_RATE} cannot be read ({error!s:.100}); {remedy}",)
    reasons = []
    if told.get("content_hash") != content_hash(root):
        reasons.append(f"the kill rate belongs to another content of the package; {remedy}")
    if told.get("tests_hash") != hash_of_tests(root):
        reasons.append(f"the kill rate belongs to other tests; {remedy}")
    if rate < 1 or survivors:
        reasons.append(f"the required tests miss {len(survivors)} planted mutants: {some(survivors)}")
    return float(rate), tuple(reasons)
