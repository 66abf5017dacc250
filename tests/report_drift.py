"""`make drift-planted`: hosts that change underneath are reported by drift under the change's right name, and hosts
that did not change are not reported, whether the model samples the same again or something else.

Recordings of 24 requests over the emulator (tests/drift_kit.py) at six hosts, and of the shipped scenarios through the
recorder and a real socket at one. A table, then one JSON line; 1 where a change is
missed or a re-recording of an unchanged host is reported.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from harness.cli_base import judging
from harness.cli_drift import recordings
from harness.client import HttpxTransport
from harness.drift import Drift, compare
from harness.encoder import load_vocab
from harness.flow import Kit
from harness.openrouter_lists import PARAMETERS, Endpoint
from harness.preset_table import PRESETS
from harness.record import Job, Plan, Row, offers
from harness.record import record as recorded
from harness.spending import Meter
from harness.transport import target
from harness.types import Exchange
from tests.drift_kit import HOSTS, PLANTS, SCENARIOS, ChangingEmulator, Host, plain, record
from tests.emulator_kit import MODEL
from tests.scenario_truths import shipped, truth_of
from tests.served import Served

NOTHING = ("", "", lambda host: host, frozenset[str]())
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


def over_sockets(host: str, kit: Kit) -> dict[str, list[str]]:
    """The shipped scenarios through the recorder and a real socket: what is told after each change, and after none."""
    app = ChangingEmulator(truth_of, load_vocab().token_bytes, time.time, random.Random(7))
    found: dict[str, list[str]] = {}
    with Served(app) as url, tempfile.TemporaryDirectory() as place:
        old = _recorded(app, plain(host), url, Path(place) / "old")
        for k, (name, (aspect, value, change, _)) in enumerate({"nothing": NOTHING, **PLANTS}.items()):
            new = _recorded(app, change(plain(host)), url, Path(place) / str(k))
            drifts = compare(old, new, kit).drifts
            found[name] = [d.aspect for d in drifts if name == "nothing" or (d.aspect == aspect and value in d.new)]
    return found


def _recorded(app: ChangingEmulator, host: Host, url: str, folder: Path) -> dict[str, Exchange]:
    """Every shipped scenario at a host, as cassettes, read again."""
    app.host = host
    app.endpoints = [Endpoint(f"{host.preset.name}/int4", host.preset, parameters=(*PARAMETERS, "logprobs"))]

    async def asked() -> list[Row]:
        transport = HttpxTransport(target(url, None))
        plan = Plan(target(url, None), MODEL, folder, lambda: datetime.now(UTC))
        jobs = [Job(s, e) for e in await offers(transport, MODEL) for s in shipped().scenarios]
        rows = [row async for row in recorded(plan, jobs, transport, Meter(Decimal(10)))]
        await transport.close()
        return rows

    rows = asyncio.run(asked())
    assert {row.status for row in rows} == {"recorded"}, [row for row in rows if row.status != "recorded"]
    return recordings(folder)[0]


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
    sockets = over_sockets("chutes", kit)
    silent = [name for name, names in sockets.items() if bool(names) == (name == "nothing")]
    print(f"{len(shipped().scenarios)} scenarios recorded over a socket after each change: silent or loud on {silent}")
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
        "over_sockets": {"scenarios": len(shipped().scenarios), "changes": len(sockets) - 1, "wrong": silent},
    }
    print(json.dumps(figures))
    return int(bool(missed or false or silent))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
