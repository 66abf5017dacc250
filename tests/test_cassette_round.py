"""A small round of `make cassette-round`: record, replay, record again, over loopback sockets."""

from pathlib import Path

import pytest

from harness.cli_base import judging
from harness.flow import Kit
from tests import cassette_round
from tests.cassette_round import SECRET, Wire, recorded, round_trip, with_ids
from tests.scenario_truths import planted, recording_app

NAMES = ("hello", "plain-short-stream", "two-calls-stream", "cut-in-call", "emoji-stream")
PRESETS = ("moonshotai", "sglang-0.5.23")


@pytest.fixture(scope="module")
def kit() -> Kit:
    """What judging needs."""
    return judging(None, None, False, None).kit


def test_a_round_gives_the_same_bytes_and_verdicts_and_no_secret(tmp_path: Path, kit: Kit) -> None:
    """10 cassettes: all identical, all played once, all judged alike, nothing planted in any file, no drift."""
    found = round_trip(tmp_path, PRESETS, NAMES, kit)

    counts = found.counts
    assert found.trouble == []
    assert {counts[what] for what in ("recorded", "identical", "played", "same_verdict", "pairs")} == {10}
    assert (counts["wrong"], counts["secrets_found"], counts["drifts"]) == (0, 0, 0)
    assert counts["planted"] > 100
    assert counts["files_scanned"] == 30
    assert counts["verified"] >= 3


def test_the_round_sees_what_it_looks_for(tmp_path: Path, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recorder that keeps a secret, and a body that changed, are each named."""
    monkeypatch.setattr(cassette_round, "SECRET", (*SECRET, "chatcmpl", "chat.completion"))
    found = round_trip(tmp_path, PRESETS[:1], NAMES[:1], kit)
    assert found.counts["secrets_found"] > 0
    assert found.trouble

    wire = Wire(planted(recording_app(PRESETS[:1]), {}, with_ids))
    recorded(wire, tmp_path / "other", PRESETS[:1], NAMES[:1])
    (path,) = (tmp_path / "other").rglob("*.yaml")
    other = cassette_round.Round()
    cassette_round._one(other, path, wire.sent, kit)
    assert other.trouble == ["moonshotai/hello: not identical"]
