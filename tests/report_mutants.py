"""Runs the required tests against every mutant of the rules: `make mutants`. Each must turn them red.

A mutant is applied to the source in memory, in a process of its own, before anything of the harness is imported; no
file is changed. Killed is a mutant by a test that failed, or that did not end; one that stops the tests from being
collected proves nothing and counts as a survivor. The last line is one JSON object; build/kill_rate.json holds the same
for the content that it belongs to.
"""

import argparse
import importlib.abc
import importlib.machinery
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

from tests.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent
REQUIRED = ROOT / "tests" / "required.txt"
TIMEOUT_S = 120.0
MAX_REQUIRED_S = 10.0


class Result(NamedTuple):
    """What became of one mutant: green, red, hangs or broken; `by` is the test that failed, or what broke."""

    name: str
    state: str
    by: str
    seconds: float

    @property
    def killed(self) -> bool:
        """Whether a test noticed."""
        return self.state in ("red", "hangs")


def required() -> list[str]:
    """Ids of the required tests, a function a line."""
    return REQUIRED.read_text().split()


# --- in the process of one mutant -----------------------------------------------------------------------------------


class Edited(importlib.machinery.SourceFileLoader):
    """Loads a module whose source, or data file, has one text exchanged; never from or to a cache of bytecode."""

    mutant: Mutant

    def get_data(self, path: str) -> bytes:
        """The bytes of a file, changed where it is the mutant's."""
        data = super().get_data(path)
        if Path(path) == ROOT / "harness" / self.mutant.file:
            return edited(data.decode(), self.mutant).encode()
        return data

    def get_code(self, fullname: str) -> CodeType:
        """Compiled from the changed source."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)  # type: ignore[no-any-return]


class Finder(importlib.abc.MetaPathFinder):
    """Finds the one module of the mutant, and leaves all others to whoever comes next."""

    def __init__(self, mutant: Mutant) -> None:
        file = Path("harness") / mutant.file
        package = file.parent if file.suffix != ".py" or file.stem == "__init__" else file.with_suffix("")
        self.module, self.mutant = ".".join(package.parts), mutant

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's spec with the loader exchanged."""
        if name != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader = Edited(name, spec.origin)
        loader.mutant = self.mutant
        spec.loader = loader
        return spec


def edited(source: str, mutant: Mutant) -> str:
    """The source with the mutant's text exchanged, which must stand there exactly once."""
    n = source.count(mutant.old)
    if n != 1:
        raise ValueError(f"{mutant.name}: its old text stands {n} times in {mutant.file}, expected once")
    return source.replace(mutant.old, mutant.new)


class Failed:
    """A pytest plugin that remembers what failed; a failed collection is no test."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.broken: list[str] = []

    def pytest_runtest_logreport(self, report: object) -> None:
        """One phase of one test."""
        if getattr(report, "failed", False):
            self.tests.append(str(getattr(report, "nodeid", "")))

    def pytest_collectreport(self, report: object) -> None:
        """One file."""
        if getattr(report, "failed", False):
            self.broken.append(str(getattr(report, "longrepr", ""))[-300:])


def tried(mutant: Mutant | None) -> dict[str, str]:
    """Runs the required tests in this process up to the first that fails."""
    if mutant is not None:
        sys.meta_path.insert(0, Finder(mutant))
    import pytest

    failed = Failed()
    files = sorted({test.partition("::")[0] for test in required()})
    # plain: pytest would otherwise load the package of its plugin itself, past the one who edits it
    how = ["-x", "-q", "--no-header", "--tb=no", "--assert=plain", "-p", "no:cacheprovider"]
    arguments = [*how, "-m", "required", *files]
    status = pytest.main(arguments, plugins=[failed])
    if failed.tests and status == pytest.ExitCode.TESTS_FAILED:
        return {"state": "red", "by": failed.tests[0]}
    if status == pytest.ExitCode.OK:
        return {"state": "green", "by": ""}
    return {"state": "broken", "by": "; ".join(failed.broken) or f"pytest ended with {status!r}"}


# --- in the process that asks -----------------------------------------------------------------------------------------


def run(mutant: Mutant | None) -> Result:
    """One mutant, or None for the code as it is, in a process of its own, without the optional folder."""
    name = mutant.name if mutant else ""
    environment = {**os.environ, "TOKENPROOF_SHARED": str(ROOT / "build" / "absent")}
    command = [sys.executable, "-m", "tests.report_mutants", "--one", json.dumps(mutant)]
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return Result(name, "hangs", f"no end after {TIMEOUT_S:.0f} s", TIMEOUT_S)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    told = json.loads(last) if last.startswith("{") else {"state": "broken", "by": done.stderr[-300:]}
    return Result(name, told["state"], told["by"], time.monotonic() - start)


def _hashes() -> dict[str, str]:
    """What the kill rate belongs to."""
    from harness.hashes import content_hash, hash_of_tests  # late: in a mutant's process nothing may be loaded yet

    return {"content_hash": content_hash(), "tests_hash": hash_of_tests()}


def main(arguments: Sequence[str]) -> int:
    """Runs all mutants; 1 where one survived, or the required tests are red or slow without any."""
    parser = argparse.ArgumentParser(prog="python -m tests.report_mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", default="", help="mutants whose name holds this text; writes no kill rate")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "kill_rate.json", help="where the kill rate goes")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.one is not None:
        row = json.loads(asked.one)
        print(json.dumps(tried(Mutant(*row) if row else None)))
        return 0
    before, clean = _hashes(), run(None)
    print(f"{clean.state:8} {clean.seconds:6.1f} s  the code as it is {clean.by}", flush=True)
    rows = [m for m in MUTANTS if asked.only in m.name]
    with ThreadPoolExecutor(asked.jobs) as pool:
        results = []
        for result in pool.map(run, rows):
            results.append(result)
            word = "killed" if result.killed else "SURVIVED"
            print(f"{word:8} {result.seconds:6.1f} s  {result.name}: {result.by or result.state}", flush=True)
    n_killed = sum(r.killed for r in results)
    figures = {
        "mutants": len(results),
        "killed": n_killed,
        "kill_rate": n_killed / len(results) if results else 0.0,
        "survivors": [r.name for r in results if not r.killed],
        "required_s": round(clean.seconds, 1),
        **before,
    }
    if _hashes() != before:
        print("the files changed while the mutants ran: this kill rate belongs to no content")
        figures["content_hash"] = ""
    elif not asked.only:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures))
    sound = clean.state == "green" and clean.seconds < MAX_REQUIRED_S and figures["content_hash"]
    return int(not sound or n_killed < len(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
