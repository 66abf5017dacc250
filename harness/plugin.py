"""tokenproof in a test suite: a pytest plugin that `pip install tokenproof` brings along.

    @pytest.mark.cassette("novita/hello")
    def test_greeting(cassette, judge):
        reply = httpx.post(f"{cassette.target.base_url}/chat/completions", json=...)    # played, never sent
        assert judge(reply.content, request=...).name == "verified"

Fixtures: cassette, every_cassette, every_golden, golden, play, judge, vocabulary, live_target, shared. Flags: --record,
--live, --golden-update, --require-shared, --budget. A session that uses none of them pays for a few hooks: whatever is
heavy is imported by the fixture that needs it. A cassette that is missing, was not played to its end, or that no test
uses is a failure.
"""

import argparse
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.errors import HarnessError
from harness.plugin_fixtures import (
    STATE,
    USE,
    State,
    cassette,
    every_cassette,
    every_golden,
    golden,
    judge,
    live_target,
    play,
    shared,
    told,
    vocabulary,
)
from harness.settings import settings

if TYPE_CHECKING:
    from harness.session_tapes import Tolls

FIXTURES = (cassette, every_cassette, every_golden, golden, judge, live_target, play, shared, vocabulary)
"""What pytest finds here."""
FLAGS = {
    "--record": "record the cassettes that tests use anew, within --budget, instead of playing them",
    "--live": "run tests marked `live`, within --budget",
    "--golden-update": "write golden files that differ or do not exist, and show what changed",
    "--require-shared": "fail, rather than skip, tests whose optional folder of recordings is absent",
}
MARKERS = (
    "cassette(name): plays cassettes/NAME.yaml to every HTTP client of the test; PROVIDER/SCENARIO",
    "live: calls a provider; runs with --live only",
)
EVERY = ("every_cassette", "every_golden")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Flags and folders."""
    group = parser.getgroup("tokenproof", "tokenproof: recorded answers")
    for flag, text in FLAGS.items():
        _add(group, flag, action="store_true", help=text)
    _add(group, "--budget", metavar="USD", help="with --record or --live: never send what could cost more")
    parser.addini("tokenproof_cassettes", "folder of cassettes, below the root", default="cassettes")
    parser.addini("tokenproof_goldens", "folder of golden files, below the root", default="golden")


def _add(group: pytest.OptionGroup, flag: str, **how: Any) -> None:
    """A flag; where another plugin has taken its name, with our own name in front."""
    dest = "tokenproof_" + flag.strip("-").replace("-", "_")
    try:
        group.addoption(flag, dest=dest, **how)
    except (ValueError, argparse.ArgumentError):
        group.addoption("--tokenproof-" + flag.strip("-"), dest=dest, **how)


def typed(config: pytest.Config, name: str) -> Any:
    """What was typed for a flag of ours, whatever it is called here."""
    return config.getoption(f"tokenproof_{name}")


def pytest_configure(config: pytest.Config) -> None:
    """Markers, and what was typed."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    record, live, budget = (typed(config, name) for name in ("record", "live", "budget"))
    if (record or live) and not budget:
        raise pytest.UsageError("--record and --live call a provider that bills; expected --budget USD beside them")
    if (record or live) and (hasattr(config, "workerinput") or config.getoption("numprocesses", None)):
        raise pytest.UsageError("--record and --live run in one process: a budget that several share is none; drop -n")
    root = config.rootpath
    folders = (root / config.getini("tokenproof_cassettes"), root / config.getini("tokenproof_goldens"))
    config.stash[STATE] = State(
        *folders,
        _tolls(budget) if record or live else None,
        bool(record),
        bool(live),
        bool(typed(config, "golden_update")),
    )


def _tolls(budget: str) -> "Tolls":
    from harness.session_tapes import Tolls
    from harness.spending import Meter, budget_of
    from harness.transport import target

    try:
        return Tolls(target(settings().base_url, settings().api_key), Meter(budget_of(budget)))
    except HarnessError as error:
        raise pytest.UsageError(str(error)) from error


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One case a cassette or golden; a marked test has its fixture even where it does not name it."""
    for name, fixture in (("cassette", "cassette"), ("live", "live_target")):
        if metafunc.definition.get_closest_marker(name) and fixture not in metafunc.fixturenames:
            metafunc.fixturenames.append(fixture)
    for fixture in EVERY:
        if fixture in metafunc.fixturenames:
            files = _files(metafunc.config.stash[STATE], fixture)
            metafunc.parametrize(fixture, files or [None], indirect=True, ids=_id if files else ["none-found"])


def _files(state: State, fixture: str) -> list[Path]:
    from harness.cassette_files import cassette_files
    from harness.store import walk

    if fixture == "every_cassette":
        return cassette_files(state.cassettes)
    return [Path(file) for file in walk(str(state.goldens)) if file.endswith(".json")]


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Adds a test that fails for cassettes that nobody uses; before -k and -m take any away."""
    state = config.stash[STATE]
    used: set[str] = set()
    for item in items:
        if not state.live and item.get_closest_marker("live"):
            item.add_marker(pytest.mark.skip(reason="calls a provider; needs --live and --budget USD"))
        used |= {str(name) for mark in item.iter_markers("cassette") for name in mark.args}
        used |= {_id(p) for p in (_params(item).get("every_cassette"),) if p}
    if used and _is_whole(config):
        unused = sorted({_id(path) for path in _files(state, "every_cassette")} - used)
        if unused:
            items.append(UnusedCassettes.from_parent(session, name="unused cassettes", unused=unused))


def _params(item: pytest.Item) -> dict[str, Any]:
    call: Any = getattr(item, "callspec", None)
    return dict(call.params) if call else {}


def _is_whole(config: pytest.Config) -> bool:
    """Whether the whole suite was collected; of a part nobody can say what is unused."""
    if any(config.getoption(name, None) for name in ("lf", "ignore", "ignore_glob", "stepwise", "deselect")):
        return False
    root = config.rootpath
    suite = [root / path for path in config.getini("testpaths")] or [root]
    asked = [(config.invocation_params.dir / arg).resolve() for arg in config.args]
    return all(any(path.resolve().is_relative_to(a) for a in asked) for path in suite)


class UnusedCassettes(pytest.Item):
    """A failure that names them."""

    def __init__(self, *, unused: list[str], **how: Any) -> None:
        super().__init__(**how)
        self.unused = unused

    def runtest(self) -> None:
        """Fails."""
        listed = ", ".join(self.unused)
        pytest.fail(f"no test uses these cassettes: {listed}; use them or remove them", pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Where it stands: nowhere."""
        return self.path, None, self.name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """After a test that passed its cassette must have been played to its end, or is written now."""
    yield
    for use in item.stash.get(USE, []):
        with told():
            use.finish()
        if problems := use.problems():
            pytest.fail(f"the cassette {use.name} was not played as recorded: {'; '.join(problems)}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """With --require-shared a test that was skipped for want of recordings has failed."""
    report = yield
    if report.skipped and typed(item.config, "require_shared") and item.get_closest_marker("shared"):
        report.outcome = "failed"
        report.longrepr = f"--require-shared: {report.longrepr[2] if isinstance(report.longrepr, tuple) else ''}"
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was recorded and what it cost; what of the goldens changed."""
    state = config.stash[STATE]
    lines = [*(state.tolls.rows if state.tolls else ()), *state.changed]
    if state.tolls:
        lines.append(state.tolls.said())
    if lines:
        terminalreporter.section("tokenproof")
        for line in lines:
            terminalreporter.line(line)
