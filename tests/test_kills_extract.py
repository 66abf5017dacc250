"""Extraction killed, changed bytes and full disks: a few of the trials of `make kills-extract`, in a process of its own
(it forks, and a test run has threads)."""

import json
import subprocess
import sys

from tests.conftest import ROOT


def test_nothing_is_lost_doubled_or_torn() -> None:
    """Three kills, three changed bytes, three full disks: the JSON line says so, and the status is 0."""
    command = [sys.executable, "-m", "tests.report_kills_extract", "--points", "3", "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)

    told = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert (told["kill_points"], told["flips_found"], told["full_disks"]) == (3, 3, 3)
    assert told["removals_found"] == told["shards_removed"] > 1
    assert [told[key] for key in ("lost", "doubled", "torn", "other_ids", "other_states", "full_disks_bad")] == [0] * 6
