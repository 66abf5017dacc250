"""Fixtures of the whole suite: offline, with the optional folder of extra recordings where it is at hand."""

import os
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import settings

from harness.sockets import only_loopback

# Time never decides a test, and the gate tries the same examples everywhere; `make soak` is where new ones are sought.
settings.register_profile("gate", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # `datasets` counts its loads on a server; it reads this when loaded

ROOT = Path(__file__).resolve().parent.parent


def shared_folder() -> Path | None:
    """The optional folder of extra recordings: TOKENPROOF_SHARED, else ../shared; None where it is absent."""
    folder = Path(os.environ.get("TOKENPROOF_SHARED") or ROOT.parent / "shared")
    return folder if (folder / "kimi-k2.5").is_dir() else None


@pytest.fixture(scope="session")
def shared(request: pytest.FixtureRequest) -> Path:
    """The optional folder of extra recordings; where it is absent skips, or with --require-shared fails, saying so."""
    folder = shared_folder()
    if folder is None:
        said = "the optional folder of extra recordings is absent (TOKENPROOF_SHARED, default ../shared)"
        (pytest.fail if request.config.getoption("tokenproof_require_shared", default=False) else pytest.skip)(said)
    return folder


OFFLINE = ExitStack()
TRIED = pytest.StashKey[list[str]]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Sockets go to loopback, in every test and fixture of this suite, whatever client opens them."""
    session.config.stash[TRIED] = OFFLINE.enter_context(only_loopback())


def pytest_unconfigure() -> None:
    """The session is over."""
    OFFLINE.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that wanted out has failed, whoever swallowed the error."""
    tried = item.config.stash[TRIED]
    before = len(tried)
    yield
    assert tried[before:] == [], f"the test reached for {tried[before:]}; only loopback is allowed"
