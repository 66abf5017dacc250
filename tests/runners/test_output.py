"""runners.output: a folder of files that tell of each other."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from runners import ledger_writes as w
from runners.output import SUMMARY, write_output
from runners.samples import FILES
from tests.corpus import kit
from tests.runners.run_kit import run_of
from tests.runners.sample_kit import FACTS, answered
from tests.runners.test_samples import mixed


def test_the_summary_names_run_files_and_changes(tmp_path: Path) -> None:
    """Hashes and sizes of the written files, the run, ticket and amendments; what is told is what is written."""
    with mixed(tmp_path) as ledger:
        ledger.commit([w.meta(run_sha256="r" * 64, ticket_id="t" * 64, ungated=""), w.amended(5.0, "q" * 64, "more")])
        ticks: list[int] = []
        told = write_output(ledger, kit(), tmp_path, tick=lambda: ticks.append(1))

    assert json.loads((tmp_path / SUMMARY).read_bytes()) == told
    for name in FILES:
        data = (tmp_path / name).read_bytes()
        assert told["files"][name] == {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    assert (told["run_sha256"], told["ticket_id"], told["ungated"]) == ("r" * 64, "t" * 64, None)
    assert told["amendments"] == [{"at": 5.0, "run_sha256": "q" * 64, "reason": "more"}]
    assert (told["samples"], len(ticks), told["allow_unverified_prompt"]) == (2, 6, False)


def test_twice_is_once(tmp_path: Path) -> None:
    """All four files, byte for byte."""
    with mixed(tmp_path) as ledger:
        written = []
        for _ in range(2):
            write_output(ledger, kit(), tmp_path)
            written.append({name: (tmp_path / name).read_bytes() for name in (*FILES, SUMMARY)})

    assert written[0] == written[1]


def test_reasons_and_dropped_providers_of_earlier_parts_stay(tmp_path: Path) -> None:
    """A last part with a ticket hides neither that samples were asked for without one, nor who was dropped and why."""
    ledger = answered(tmp_path, run_of(tmp_path), facts=replace(FACTS, ticket_id=None, ungated="a trial"))
    with ledger:
        assert write_output(ledger, kit(), tmp_path)["dropped_why"] is None
        ledger.commit([w.meta(ticket_id="t" * 64, ungated="", dropped='["Chutes"]', dropped_why="Chutes: 3 of 3")])
        told = write_output(ledger, kit(), tmp_path)
        ledger.commit([w.meta(ticket_id="", ungated="more")])
        both = write_output(ledger, kit(), tmp_path)

    assert (told["ticket_id"], told["ungated"]) == ("t" * 64, "a trial")
    assert (told["dropped"], told["dropped_why"]) == (["Chutes"], "Chutes: 3 of 3")
    assert both["ungated"] == "a trial; more"
