"""`make cassette-round`: the shipped scenarios at six presets recorded over loopback, replayed and recorded again.

Replay must give the bytes of the wire and the same verdicts, no planted secret may be in any file, and an unchanged
host shows no drift. A line for whatever did not hold, then one JSON line; 1 where a claim does not hold.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from harness.cli_base import judging
from tests.cassette_round import PRESETS, round_trip
from tests.scenario_truths import shipped

WANTED_SCENARIOS = 24


def main() -> int:
    """Prints what did not hold, and the JSON line."""
    start = time.monotonic()
    kit = judging(None, None, False, None).kit
    with tempfile.TemporaryDirectory() as place:
        found = round_trip(Path(place), PRESETS, (), kit)
    counts = found.counts
    n_scenarios = len(shipped().scenarios)
    n = n_scenarios * len(PRESETS)
    good = (
        n_scenarios >= WANTED_SCENARIOS
        and n
        == counts["recorded"]
        == counts["identical"]
        == counts["played"]
        == counts["same_verdict"]
        == counts["pairs"]
        and counts["planted"] > n
        and not found.trouble
    )
    for line in found.trouble:
        print(line)
    told = {
        "scenarios": n_scenarios,
        "presets": len(PRESETS),
        "cassettes": counts["recorded"],
        "identical_bodies": counts["identical"],
        "played_once_each": counts["played"],
        "same_verdicts": counts["same_verdict"],
        "verdicts": {name: counts[name] for name in ("exact", "verified", "unverified", "rejected")},
        "accepted_with_a_wrong_id": counts["wrong"],
        "secrets_planted": counts["planted"],
        "files_scanned": counts["files_scanned"],
        "secrets_found": counts["secrets_found"],
        "rerecorded_pairs": counts["pairs"],
        "drifts": counts["drifts"],
        "seconds": round(time.monotonic() - start, 1),
        "holds": good,
    }
    print(json.dumps(told))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
