"""runners.layouts: conversations of trainers say what the ids say, reasoning kept in the generated turn alone."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.emulator import Truth
from harness.errors import SetupError
from harness.types import Ids, Verdict
from runners import ledger_writes as w
from runners.layouts import export, specforge
from runners.samples import take
from runners.verdicts import pack, unpack
from tests.corpus import kit
from tests.emulator_kit import section
from tests.runners import sample_kit
from tests.runners.run_kit import run_of, run_text
from tests.runners.sample_kit import CLOSE, END, FACTS, answered
from tests.runners.test_data_sets import CALLED, HI, TOOL
from tests.runners.test_samples import mixed


def exported(folder: Path, ledger: Any, **how: Any) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """What is said and what is written."""
    with ledger:
        n = export(ledger, kit(), "specforge", folder / "out.jsonl", **how)
    return n, [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]


def test_a_turn_with_its_reasoning(tmp_path: Path) -> None:
    """The request's messages, then the generated turn; nothing else."""
    n, rows = exported(tmp_path, answered(tmp_path, run_of(tmp_path, {"prompt": "hi", "id": "x"})))

    assert n == {"written": 1}
    turn = {"role": "assistant", "content": "You said: hi!", "reasoning_content": "They said hi"}
    assert rows == [{"id": "a/x", "conversations": [{"role": "user", "content": "hi"}, turn]}]


def test_a_turn_without_thinking(tmp_path: Path) -> None:
    """It has no reasoning to keep, not even an empty one."""
    ledger = answered(tmp_path, run_of(tmp_path, {"prompt": "hi"}, text=run_text(thinking="false")))
    sampled = sample_kit.ids("You said: hi!", END)
    changed(ledger, name="verified", prompt="verified", ids=Ids(sampled, bytes([3] * len(sampled))))
    _, (row,) = exported(tmp_path, ledger)

    assert row["conversations"][-1] == {"role": "assistant", "content": "You said: hi!"}


def test_a_generated_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the model wrote it: id, name and arguments from the ids."""
    plain = sample_kit.truth_of

    def truth(request: Any) -> Truth:
        call = section(("functions.f:0", '{"city": "Oslo"}'))
        return Truth([*sample_kit.ids("Look.", CLOSE), *call, END], True, plain(request).prompt_ids)

    monkeypatch.setattr(sample_kit, "truth_of", truth)
    run = run_of(tmp_path, {"messages": HI, "tools": [TOOL]})
    _, (row,) = exported(tmp_path, answered(tmp_path, run), allow_unverified_prompt=True)

    function = {"name": "f", "arguments": '{"city": "Oslo"}'}
    assert row["conversations"][-1] == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Look.",
        "tool_calls": [{"id": "functions.f:0", "type": "function", "function": function}],
    }


def test_earlier_reasoning_is_removed(tmp_path: Path) -> None:
    """Every field of it; calls and their results stay, and the tools stand beside the conversation."""
    loop = [
        {"role": "user", "content": [{"type": "text", "text": "Say "}, {"type": "text", "text": "hi."}]},
        {"role": "assistant", "reasoning": "r", "tool_calls": [{"id": "functions.f:0", "function": CALLED}]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "3"},
    ]
    _, (row,) = exported(tmp_path, answered(tmp_path, run_of(tmp_path, {"messages": loop, "tools": [TOOL]})))

    assert row["tools"] == [TOOL]
    called = {"role": "assistant", "content": "", "tool_calls": loop[1]["tool_calls"]}
    assert row["conversations"][:-1] == [*HI, called, loop[2]]
    assert row["conversations"][-1]["reasoning_content"] == "They said 3"


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """By why, and in the order of the input what is written."""
    n, rows = exported(tmp_path, mixed(tmp_path))

    assert n == {"written": 2, "gave-up": 1, "rejected": 2, "unverified": 1}
    assert [row["id"] for row in rows] == ["a/0", "b/0"]


def changed(ledger: Any, **how: Any) -> None:
    """The one verdict of a ledger with other members."""
    (row,) = ledger.rows()
    verdict: Verdict = replace(unpack(row.verdict)[0], **how)
    ledger.commit([w.judged(row.job, verdict.name, pack(verdict, FACTS))])


def test_cut_answers_are_left_out(tmp_path: Path) -> None:
    """A template would end them as if the model had."""
    ledger = answered(tmp_path, run_of(tmp_path))
    changed(ledger, truncated=True)

    assert exported(tmp_path, ledger) == ({"written": 0, "truncated": 1}, [])


def test_an_unknown_mode_or_layout(tmp_path: Path) -> None:
    """Nothing is guessed: an answer whose thinking mode is unknown cannot be split into its channels."""
    ledger = answered(tmp_path, run_of(tmp_path))
    changed(ledger, thinking=None)

    with ledger:
        (row,) = ledger.rows()
        with pytest.raises(SetupError, match="thinking mode"):
            specforge(take(row, kit()), kit())
        with pytest.raises(SetupError, match="no layout 'x'; the layouts are samples, specforge"):
            export(ledger, kit(), "x", tmp_path / "y")
    assert not (tmp_path / "y").exists()


def test_an_export_into_a_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    """No export waits for whoever may write into a pipe, and none replaces it; by a link neither."""
    ledger = answered(tmp_path, run_of(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")

    with ledger:
        for name in ("pipe", "link"):
            with pytest.raises(SetupError, match=f"{name} cannot be written: it is a device, a pipe or a socket"):
                export(ledger, kit(), "specforge", tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
