"""`make drift-planted`: hosts that change underneath are reported by drift under the change's right name, and hosts
that did not change are not reported, whether the model samples the same again or something else.

Recordings of 24 requests over the emulator (tests/drift_kit.py). A table, then one JSON line; 1 where a change is
missed or a re-recording of an unchanged host is reported.
"""

import json
import sys
from collections.abc import Sequence

from harness.cli_base import judging
from harness.drift import Drift, compare
from harness.flow import Kit
from harness.preset_table import PRESETS
from tests.drift_kit import HOSTS, PLANTS, SCENARIOS, plain, record

OTHER_SAMPLES = 2
"""Re-recordings of each unchanged preset in which the model samples something else."""


def told(name: str, host: str, kit: Kit, seed: int = 1) -> tuple[list[Drift], list[Drift]]:
    """The drifts that name the change, and the others."""
    aspect, value, change, _ = PLANTS[name]
    found = compare(record(plain(host), 1, 1), record(change(plain(host)), seed, 2), kit)
    right = [d for d in found.drifts if d.aspect == aspect and value in d.new and d.shown_by]
    return right, [d for d in found.drifts if d not in right]


def alarms(host: str, seed: int, kit: Kit) -> list[Drift]:
    """What is reported of a host that did not change."""
    return list(compare(record(plain(host), 1, 1), record(plain(host), seed, 2), kit).drifts)


def main(arguments: Sequence[str]) -> int:
    """Prints the table and the JSON line."""
    kit = judging(None, None, False, None).kit
    missed, beside = [], []
    for name, (aspect, _, _, always) in PLANTS.items():
        hosts = [host for host in HOSTS if host not in always]
        results = {host: told(name, host, kit) for host in hosts}
        missed += [f"{name} at {host}" for host, (right, _) in results.items() if not right]
        beside += [f"{name} at {host}: {d.aspect} {d.old} -> {d.new}" for host in hosts for d in results[host][1]]
        n_found = sum(bool(right) for right, _ in results.values())
        print(f"{name:38} {aspect:18} told at {n_found} of {len(hosts)} hosts", flush=True)
    false = {}
    for host in PRESETS:
        for seed in range(1, 2 + OTHER_SAMPLES):
            if found := alarms(host, seed, kit):
                false[f"{host}, sample {seed}"] = [f"{d.aspect} {d.old} -> {d.new}" for d in found]
    n_unchanged = len(PRESETS) * (1 + OTHER_SAMPLES)
    print(f"{n_unchanged} re-recordings of unchanged hosts, {len(false)} reported")
    print(*(f"    also told: {line}" for line in beside), sep="\n")
    bad = {line.partition(" at ")[0] for line in missed}
    figures = {
        "scenarios": len(SCENARIOS),
        "changes": len(PLANTS),
        "told_by_right_name": len(PLANTS) - len(bad),
        "missed": missed,
        "also_told": beside,
        "unchanged": n_unchanged,
        "false_alarms": len(false),
        "reported": false,
    }
    print(json.dumps(figures))
    return int(bool(missed or false))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
