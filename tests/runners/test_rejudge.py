"""runners.rejudge: verdicts made anew from the raw answers, all of them or none, and nothing else is touched."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.flow import Kit
from harness.habits import load_habits
from harness.ticket import Hashes
from runners import ledger_writes as w
from runners.ledger import open_ledger, read_ledger
from runners.ledger_rows import UNREADABLE
from runners.output import LEDGER
from runners.rejudge import rejudge
from runners.verdicts import Facts, unpack
from tests.corpus import kit
from tests.runners.ledger_kit import as_of_version
from tests.runners.run_kit import run_of
from tests.runners.sample_kit import FACTS, answered
from tests.runners.test_samples import mixed

HASHES = Hashes("1" * 64, "2" * 64, "3" * 64, "4" * 64)


def stand(folder: Path) -> list[tuple[str | None, Facts | None]]:
    """(verdict, facts) of each row."""
    with read_ledger(folder / LEDGER) as ledger:
        return [(row.verdict_name, unpack(row.verdict)[1] if row.verdict else None) for row in ledger.rows()]


def ignorant() -> Kit:
    """A kit that knows no host."""
    return replace(kit(), habits=load_habits(""))


def test_the_same_judge_gives_the_same_verdicts(tmp_path: Path) -> None:
    """Only the hashes become today's; ticket and rows without an answer stay."""
    mixed(tmp_path).close()
    before, ticks = stand(tmp_path), list[int]()
    changes = rejudge(tmp_path / LEDGER, kit(), HASHES, lambda: ticks.append(1))

    assert changes == {("verified", "verified"): 2, ("rejected", "rejected"): 2, ("unverified", "unverified"): 1}
    now = stand(tmp_path)
    assert [name for name, _ in now] == [name for name, _ in before]
    assert now[0][1] == Facts("1" * 64, "2" * 64, "3" * 64, "4" * 64, ticket_id=FACTS.ticket_id)
    assert (now[1], len(ticks)) == ((None, None), 5)


def test_other_habits_give_other_verdicts(tmp_path: Path) -> None:
    """What was verified by a known host is not by an unknown one; the raw answers are as they were."""
    with mixed(tmp_path) as ledger:
        raw = [row.answer for row in ledger.rows()]

    changes = rejudge(tmp_path / LEDGER, ignorant(), HASHES)

    assert ("verified", "verified") not in changes
    assert sum(changes.values()) == 5
    with read_ledger(tmp_path / LEDGER) as ledger:
        assert [row.answer for row in ledger.rows()] == raw


def test_answers_that_were_never_judged(tmp_path: Path) -> None:
    """They get their verdict here; what let them be asked for is what the ledger says of the run."""
    with answered(tmp_path, run_of(tmp_path), judged=False) as ledger:
        ledger.commit([w.meta(ticket_id="", ungated="a trial")])

    assert rejudge(tmp_path / LEDGER, kit(), HASHES) == {("unjudged", "verified"): 1}
    ((_, facts),) = stand(tmp_path)
    assert facts is not None
    assert (facts.ticket_id, facts.ungated) == (None, "a trial")


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_older_version(tmp_path: Path, version: int) -> None:
    """Its verdicts are made anew, and carry sums from then on; the other rows are as they were."""
    with mixed(tmp_path) as ledger:
        before = [(row.id, row.answer, row.cost_nano, row.verdict_name) for row in ledger.rows()]
    as_of_version(tmp_path / LEDGER, version)

    assert sum(rejudge(tmp_path / LEDGER, kit(), HASHES).values()) == 5
    with open_ledger(tmp_path / LEDGER) as ledger:
        assert [(row.id, row.answer, row.cost_nano, row.verdict_name) for row in ledger.rows()] == before
        ledger.commit([[("UPDATE verdict SET name = 'exact' WHERE job = 1", ())]])
        assert next(row for row in ledger.rows() if row.job == 1).verdict == UNREADABLE


def test_a_verdict_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    """Of another release, or damaged."""
    with answered(tmp_path, run_of(tmp_path)) as ledger:
        ledger.commit([w.judged(1, "verified", b"damaged")])

    assert rejudge(tmp_path / LEDGER, kit(), HASHES) == {("verified", "verified"): 1}


def test_all_or_nothing(tmp_path: Path) -> None:
    """Broken off in the middle, every verdict is the old one."""
    mixed(tmp_path).close()
    before = stand(tmp_path)

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rejudge(tmp_path / LEDGER, ignorant(), HASHES, stop)
    assert stand(tmp_path) == before


def test_a_ledger_in_use_or_none(tmp_path: Path) -> None:
    """A running run is not disturbed, and a wrong folder stays empty."""
    with pytest.raises(SetupError, match="no ledger"):
        rejudge(tmp_path / LEDGER, kit(), HASHES)
    assert list(tmp_path.iterdir()) == []
    mixed(tmp_path).close()
    with open_ledger(tmp_path / LEDGER), pytest.raises(SetupError):
        rejudge(tmp_path / LEDGER, kit(), HASHES)
