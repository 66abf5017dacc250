"""harness.settings: the environment, read in one place."""

import pytest

from harness.settings import Settings, child_environment, settings


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


def test_the_environment_of_a_process_of_ours() -> None:
    """What could steer it and the API key stay behind, the rest goes along."""
    environ = {"PATH": "/bin", "PYTEST_ADDOPTS": "-k x", "GIT_DIR": "y", "OPENROUTER_API_KEY": "sk-made-up"}
    assert child_environment(["PYTEST_ADDOPTS"], environ=environ) == {"PATH": "/bin", "GIT_DIR": "y"}
    assert child_environment(prefix="GIT_", environ=environ) == {"PATH": "/bin", "PYTEST_ADDOPTS": "-k x"}
