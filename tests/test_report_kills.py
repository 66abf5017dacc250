"""Kills of a whole run, a few of what `make kills` does 200 of."""

from pathlib import Path

from tests.report_kills import Tally, kills


def test_kills_lose_nothing(tmp_path: Path) -> None:
    """Two kills at concurrency 8: nothing committed is lost or sent again, and the samples are the same."""
    tally = Tally()
    kills(2, 5, tmp_path, tally, (8,))
    assert (tally.kills.total(), tally.runs) == (2, 1)
    assert tally.holds, tally
    assert tally.paid_twice <= 2 * 8
