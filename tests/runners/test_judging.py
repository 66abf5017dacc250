"""runners.judging: the gate's own judge, in processes beside the loop."""

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.types import Ids, Verdict
from runners.judging import Answer, Judges, Recipe, brief
from runners.verdicts import unpack
from tests.bulk_kit import FACTS, PIN, RECIPE, host, prompt
from tests.conftest import ROOT
from tests.emulator_kit import chat, whole


def _answers() -> list[Answer]:
    request = {**json.loads(prompt(0).body), "provider": {"only": [PIN]}}
    good = whole(chat(host(), request))
    bad = good.replace(b"total_tokens", b"total_token").replace(b'"completion_tokens":', b'"completion_tokens":1')
    return [Answer(name, json.dumps(request).encode(), body) for name, body in (("good", good), ("bad", bad))]


@pytest.mark.parametrize("n_processes", [0, 1])
async def test_answers_are_judged_in_order(n_processes: int) -> None:
    """In a thread or in a process the verdicts are the same, packed with the facts of the run."""
    judges = Judges(RECIPE, n_processes)
    good, bad = await judges.judge(_answers())
    judges.close()

    assert (good.name, good.good, good.findings) == ("verified", True, ())
    assert (bad.name, bad.good, bad.findings) == ("rejected", False, ("bill-mismatch",))
    verdict, facts = unpack(good.packed)
    assert (verdict.name, facts) == ("verified", FACTS)
    assert good.n_ids == len(verdict.ids.ids) > 5


async def test_a_request_that_is_no_json_is_a_rejection() -> None:
    """Whatever goes wrong with one answer is said of that answer."""
    judges = Judges(RECIPE, 0)
    (found,) = await judges.judge([Answer("odd", b"{", b"{}")])
    judges.close()
    assert (found.name, found.good, found.findings) == ("rejected", False, ("judge-failed",))


async def test_a_wrong_recipe_is_our_fault() -> None:
    """A vocabulary that is none ends the run, not an answer."""
    judges = Judges(Recipe(RECIPE.habits, str(ROOT / "no-such-file"), FACTS), 0)
    with pytest.raises(SetupError):
        await judges.judge(_answers())
    judges.close()


async def test_a_process_that_dies_is_told() -> None:
    """The error says that nothing is lost."""
    judges = Judges(RECIPE, 1)
    await judges.judge(_answers())
    (child,) = judges._pool._processes  # type: ignore[attr-defined]
    os.kill(child, signal.SIGKILL)
    with pytest.raises(SetupError, match="the answers are in the ledger"):
        await judges.judge(_answers())
    judges.close()


def test_what_is_good() -> None:
    """Accepted, with a prompt that is verified or need not be; everything else says what speaks against it."""
    assert brief(Verdict("exact", ids=Ids([1], b"\0"), prompt="verified"), FACTS).good
    unsure = Verdict("exact", ids=Ids([1], b"\0"), prompt="unverified")
    assert brief(unsure, FACTS).findings == ("prompt-unverified",)
    assert (brief(unsure, FACTS, True).good, brief(unsure, FACTS, True).findings) == (True, ())
    assert not brief(Verdict("unverified"), FACTS, True).good
    assert not brief(Verdict("exact", prompt="contradicted"), FACTS, True).good
    contradicted = brief(Verdict("exact", ids=Ids([1], b"\0"), prompt="contradicted"), FACTS)
    assert (contradicted.good, contradicted.n_ids) == (False, 1)
    assert brief(Verdict("unverified"), FACTS).findings == ("unverified",)


def test_the_processes_end_with_their_runner() -> None:
    """A runner that is killed leaves nobody behind."""
    program = (
        "import asyncio, time\n"
        "from runners.judging import Answer, Judges\n"
        "from tests.bulk_kit import RECIPE\n"
        "if __name__ == '__main__':\n"
        "    judges = Judges(RECIPE, 1)\n"
        "    asyncio.run(judges.judge([Answer('x', b'{}', b'{}')]))\n"
        "    print(*judges._pool._processes, flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        child = Path(f"/proc/{int(runner.stdout.readline())}/stat")
        assert child.exists()
        runner.kill()
    deadline = time.monotonic() + 20
    while child.exists() and child.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "a process that judges is still there"
        time.sleep(0.05)


async def test_ctrl_c_before_a_process_stands_harms_nothing() -> None:
    """A terminal sends it to the whole group: a process that is being born judges all the same."""
    judges = Judges(RECIPE, 1)
    judging = asyncio.create_task(judges.judge(_answers()))
    while not judging.done():
        for process in multiprocessing.active_children():
            os.kill(process.pid or 0, signal.SIGINT)
        await asyncio.sleep(0.01)
    good, bad = judging.result()
    judges.close()

    assert (good.name, bad.name) == ("verified", "rejected")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
