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
        (
            {"OPENROUTER_API_KEY": "sk-1", "TOKENPROOF_BASE_URL": "http://127.0.0.1:1/api/v1"},
            Settings(api_key="sk-1", base_url="http://127.0.0.1:1/api/v1"),
        ),
    ],
)
def test_settings(environ: dict[str, str], expected: Settings) -> None:
    """Each variable has its place, an empty one counts as unset, and no colour wins."""
    assert settings(environ) == expected


def test_a_key_is_never_shown() -> None:
    """The settings can be printed."""
    assert "sk-secret" not in repr(settings({"OPENROUTER_API_KEY": "sk-secret"}))
