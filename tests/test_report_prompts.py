"""Rendered prompts against real prompt bills: the figures that the report prints."""

import json
from pathlib import Path

import pytest

from tests.report_prompts import OUTCOMES, main


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """The JSON object of the last line."""
    last = capsys.readouterr().out.splitlines()[-1]
    read: dict[str, object] = json.loads(last)
    return read


@pytest.mark.shared
def test_every_prompt_bill_agrees_or_has_its_reason(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the real answers with a whole request, no miss is left unexplained, and these many agree to the token."""
    assert main([]) == 0

    got = figures(capsys)
    assert {k: got[k] for k in ("answers", "whole_requests", *OUTCOMES)} == {
        "answers": 728,
        "whole_requests": 230,
        "agree": 72,
        "agree_if": 16,
        "attributed": 83,
        "unexplained": 0,
        "no_committed_offset": 59,
    }
    by_format = got["by_format"]
    assert isinstance(by_format, dict)
    assert by_format["kimi-k2.5"] == {"agree": 18, "agree_if": 6, "attributed": 4}


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--require-shared"], 1)])
def test_without_the_folder_every_figure_is_null(
    arguments: list[str], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An absent folder is no failure unless it is required, and no figure is invented."""
    monkeypatch.setenv("TOKENPROOF_SHARED", str(tmp_path))

    assert main(arguments) == code
    assert set(figures(capsys).values()) == {None}
