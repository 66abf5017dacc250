"""A short storm of what `make storm` does for a minute."""

import random
from pathlib import Path

from harness.client_bulk import run
from tests.report_storm import STORM, Weather, storm
from tests.served import Served


def test_a_storm_passes(tmp_path: Path) -> None:
    """Every prompt is answered or ends by name, and the rate is back; waits are a twentieth of the real ones."""
    weather = Weather(random.Random(1), 0.1)
    with Served(weather) as url:
        told = run(storm(url, weather, tmp_path, 5.0, 3.0, 0.05))
    assert told["holds"], told
    assert sum(told["faults"].values()) > 10
    assert set(told["faults"]) <= set(STORM)
    assert told["ends"]["answered"] > 100
