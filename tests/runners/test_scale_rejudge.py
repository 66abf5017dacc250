"""Rejudging on a cluster: the parts without Ray, then two workers of which one is killed."""

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.flow import Kit
from harness.hashes import hashes
from runners.judging import Answer, Recipe
from runners.output import LEDGER
from runners.rejudge import Question, here, rejudge
from runners.scale import Cluster
from runners.scale_rejudge import JudgeWorker, in_order, packed, parts, rejudge_on_cluster, unpacked
from runners.verdicts import Facts
from tests.conftest import ROOT
from tests.corpus import kit
from tests.runners.run_kit import run_of
from tests.runners.sample_kit import FACTS, answered
from tests.runners.test_scale_extract import RAY

MINE = Recipe(
    (ROOT / "harness" / "habits.toml").read_text(encoding="utf-8"), None, Facts(**asdict(hashes(kit().habits)))
)


@dataclass(frozen=True, slots=True)
class Mortal(Recipe):
    """A recipe whose process is killed once, in the middle of its work; a file tells that it was."""

    grave: Path = Path()

    def kit(self) -> Kit:
        """A kit with an encoder that ends its process."""
        whole, calls = Recipe.kit(self), list[int]()

        def encode(text: str) -> Sequence[int]:
            calls.append(1)
            if len(calls) > 20 and not self.grave.exists():
                self.grave.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return whole.encode(text)

        return replace(whole, encode=encode)


def question(k: int) -> Question:
    """By its number; what was asked for without a ticket says why."""
    facts = replace(FACTS, **({"ticket_id": None, "ungated": "a trial"} if k % 2 else {}))
    return Question(k, "verified", Answer(f"a/{k}", b"{}\0", b"\0x" * k), facts)


def ledger(folder: Path, n: int = 24) -> Path:
    """The ledger of n prompts: one has a wrong bill, one no answer, one no verdict yet."""
    folder.mkdir()
    answered(
        folder, run_of(folder, *({"prompt": f"number {k}"} for k in range(n))), {3: "wrong-usage", 5: "500"}
    ).close()
    with sqlite3.connect(folder / LEDGER) as db:
        db.execute("DELETE FROM verdict WHERE job = 8")
    db.close()
    return folder / LEDGER


def everything(path: Path) -> list[str]:
    """All that a ledger holds, each verdict's bytes included."""
    db = sqlite3.connect(path)
    lines = list(db.iterdump())
    db.close()
    return lines


def test_questions_travel_unchanged() -> None:
    """Names, bytes that end in zeros or are none, and with what each was asked for."""
    asked = [question(k) for k in range(4)]
    assert list(unpacked(packed(7, asked))) == [(one.answer, one.facts) for one in asked]


def test_parts_are_of_a_size() -> None:
    """A part is full as soon as it has the bytes; nothing is lost, nothing doubled, the order stays."""
    asked = [question(k) for k in range(9)]
    made = list(parts(iter(asked), 20))
    assert [one for part in made for one in part] == asked
    sizes = [sum(len(one.answer.request) + len(one.answer.response) for one in part) for part in made]
    assert all(size >= 20 for size in sizes[:-1])
    assert [len(part) for part in made] == [4, 2, 2, 1]
    assert list(parts(iter([]), 20)) == []


def test_rows_come_back_in_order_all_of_them() -> None:
    """As soon as those before are there; one that is missing or comes twice ends the work."""
    rows = [{"number": k} for k in (2, 0, 1, 3)]
    assert [row["number"] for row in in_order(rows, 4)] == [0, 1, 2, 3]
    with pytest.raises(SetupError, match="gave 3 of 4 parts"):
        list(in_order([{"number": 0}, {"number": 1}, {"number": 3}], 4))
    with pytest.raises(SetupError, match="gave 5 of 4 parts"):
        list(in_order([*rows, {"number": 1}], 4))


def test_a_worker_judges_as_this_process_does() -> None:
    """Name and bytes of every verdict, from one kit; an answer that is none is rejected."""
    asked = [question(k) for k in range(3)]
    found = JudgeWorker(MINE)(packed(5, asked))
    told = list(here(kit())(iter(asked)))
    assert found == {"number": 5, "names": [one.name for one in told], "verdicts": [one.packed for one in told]}
    assert found["names"] == ["rejected"] * 3


def test_a_worker_with_other_code_does_nothing() -> None:
    """What every verdict says of its code must be true of the machine that judged."""
    wrong = replace(MINE, facts=replace(MINE.facts, content_hash="0" * 64))
    with pytest.raises(SetupError, match="the machines of this cluster differ: content_hash"):
        JudgeWorker(wrong)


@RAY
def test_two_workers_one_killed_midway_give_what_one_machine_gives(tmp_path: Path) -> None:
    """A local cluster, two waves, a `kill -9` of a worker in the first: the ledger is the one of the local command,
    verdict by verdict and byte by byte, and so are the counts."""
    near, far, grave = ledger(tmp_path / "near"), ledger(tmp_path / "far"), tmp_path / "grave"
    before, ticks = everything(near), list[int]()
    assert before == everything(far)
    changes = rejudge(near, kit(), hashes(kit().habits))

    mortal = Mortal(MINE.habits, MINE.vocab, MINE.facts, grave=grave)
    found = rejudge_on_cluster(
        far, mortal, Cluster("local", workers=2), lambda: ticks.append(1), part_bytes=4000, parts_a_worker=2
    )

    assert grave.exists()
    assert (found, len(ticks)) == (changes, 23)
    assert found == Counter({("verified", "verified"): 21, ("rejected", "rejected"): 1, ("unjudged", "verified"): 1})
    assert everything(far) == everything(near) != before


def test_a_cluster_that_is_not_there_changes_nothing(tmp_path: Path) -> None:
    """The address and what was expected; every verdict is the old one."""
    path = ledger(tmp_path / "one", 2)
    before = everything(path)
    with pytest.raises(SetupError, match=r"--ray 127\.0\.0\.1:1: no cluster answers there"):
        rejudge_on_cluster(path, MINE, Cluster("127.0.0.1:1"))
    assert everything(path) == before
    with pytest.raises(SetupError, match="no ledger"):
        rejudge_on_cluster(tmp_path / "none", MINE, Cluster("127.0.0.1:1"))
