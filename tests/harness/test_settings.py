"""harness.settings: the environment, read in one place."""

import pytest

from harness.settings import Settings, settings


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Settings()),
        ({"TOKENPROOF_HABITS": "h.toml", "TOKENPROOF_VOCAB": "v"}, Settings("h.toml", "v")),
        ({"TOKENPROOF_HABITS": "", "NO_COLOR": "", "FORCE_COLOR": ""}, Settings()),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, Settings(colour=False)),
        ({"FORCE_COLOR": "1"}, Settings(colour=True)),
    ],
)
def test_settings(environ: dict[str, str], expected: Settings) -> None:
    """Each variable has its place, an empty one counts as unset, and no colour wins."""
    assert settings(environ) == expected
