"""Fixtures of the whole suite: offline, with the optional folder of extra recordings where it is at hand."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Time never decides a test, and the gate tries the same examples everywhere; `make soak` is where new ones are sought.
settings.register_profile("gate", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

ROOT = Path(__file__).resolve().parent.parent


def shared_folder() -> Path | None:
    """The optional folder of extra recordings: TOKENPROOF_SHARED, else ../shared; None where it is absent."""
    folder = Path(os.environ.get("TOKENPROOF_SHARED") or ROOT.parent / "shared")
    return folder if (folder / "kimi-k2.5").is_dir() else None


@pytest.fixture(scope="session")
def shared() -> Path:
    """The optional folder of extra recordings; skips, saying so, where it is absent."""
    folder = shared_folder()
    if folder is None:
        pytest.skip("the optional folder of extra recordings is absent (TOKENPROOF_SHARED, default ../shared)")
    return folder
