"""harness.cli_golden: what is typed, what is printed, exit codes; the engine is a stand-in on a loopback socket."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness import cli
from harness.store import read_golden
from tests.conftest import ROOT
from tests.runners.standin import StandIn, prompts_file, serving, sglang_dialogues, vllm_dialogues

SGLANG, VLLM = sglang_dialogues(), vllm_dialogues()
PLAIN = SGLANG["plain"]
COMMAND = [sys.executable, "-m", "harness.cli", "golden", "capture"]


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, ["golden", *map(str, args)])


def capture(engine: StandIn, folder: Path, *args: str, lines: tuple[dict[str, Any], ...] = (PLAIN.line(),)) -> Result:
    """`golden capture` of these lines into folder/out."""
    with serving(engine):
        return run("capture", "--url", engine.url, prompts_file(folder, *lines), "--out", folder / "out", *args)


def files(folder: Path) -> dict[str, bytes]:
    """What stands below folder/out."""
    return {p.relative_to(folder / "out").as_posix(): p.read_bytes() for p in (folder / "out").rglob("*.json")}


def test_first_run(tmp_path: Path) -> None:
    """With --create three goldens a prompt, in folders named for engine and model, each shown as a diff."""
    result = capture(StandIn([PLAIN]), tmp_path, "--create")

    assert (result.exit_code, result.stderr) == (0, "")
    label = "sglang-0.5.23-kimi-k2.5"
    assert sorted(files(tmp_path)) == [
        f"{label}-generate/plain.json", f"{label}/plain.chat.json", f"{label}/plain.stream.json",
    ]  # fmt: skip
    lines = result.stdout.splitlines()
    assert lines[0] == f"created  {label}-generate/plain: 21 ids"
    assert lines[1] == "    --- /dev/null"
    assert lines[4] == "    +{"
    assert lines[-1] == "3 created"
    value = json.loads(files(tmp_path)[f"{label}/plain.chat.json"])
    assert value["source"] == "Recorded from SGLang 0.5.23 serving kimi-k2.5, greedy, by tokenproof golden capture."
    assert value["flags"] == {"model_path": "small", "reasoning_parser": "kimi_k2", "tp_size": 1}
    assert b"sk-secret" not in b"".join(files(tmp_path).values())


def test_options_reach_the_files(tmp_path: Path) -> None:
    """Label, flags, source, length and bareness as typed; a prompt without a switch takes --no-thinking."""
    off = next(d for d in VLLM.values() if not d.thinking)
    line = {key: value for key, value in off.line().items() if key != "thinking"}
    engine = StandIn([off], "vllm")

    result = capture(
        engine, tmp_path, "--create", "--label", "mine", "--flags", "--tp 8", "--source", "A test.", "--bare",
        "--max-tokens", "77", "--no-thinking", "--model", "kimi-k2.6", "--json", lines=(line,),
    )  # fmt: skip

    rows = [json.loads(text) for text in result.stdout.splitlines()]
    assert [(row["name"], row["status"], row["change"]) for row in rows] == [
        (f"mine-generate/{off.name}", "created", "create"),
        (f"mine/{off.name}.chat", "created", "create"),
        (f"mine/{off.name}.stream", "created", "create"),
    ]
    assert {row["n_ids"] for row in rows} == {len(off.output_ids)}
    value = json.loads(files(tmp_path)[f"mine/{off.name}.chat.json"])
    assert (value["flags"], value["source"], value["model"]) == ({"typed": "--tp 8"}, "A test.", "kimi-k2.5")
    assert (value["engine"], value["provider"], value["thinking"]) == ("vLLM 0.32.0", "vllm-0.32", False)
    assert value["request"]["max_tokens"] == 77
    assert "return_token_ids" not in value["request"]


def test_without_a_flag_nothing_is_written(tmp_path: Path) -> None:
    """What would be is shown, and the exit code tells that something waits."""
    result = capture(StandIn([PLAIN]), tmp_path)

    assert result.exit_code == 1
    assert result.stdout.count("not written: --create does") == 3
    assert result.stdout.splitlines()[-1] == "3 pending"
    assert not (tmp_path / "out").exists()


def test_a_refused_answer_is_exit_code_1(tmp_path: Path) -> None:
    """Said on its line; the ids are stored all the same."""
    wrong = PLAIN.chat | {"usage": PLAIN.chat["usage"] | {"completion_tokens": 20, "total_tokens": 35}}
    engine = StandIn([PLAIN], faults={"/v1/chat/completions": lambda b: None if b.get("stream") else wrong})

    result = capture(engine, tmp_path, "--create")

    assert result.exit_code == 1
    assert "refused  sglang-0.5.23-kimi-k2.5/plain.chat: 21 ids, another generation: usage says 20" in result.stdout
    assert len(files(tmp_path)) == 2


def test_a_prompt_without_an_answer_is_exit_code_2(tmp_path: Path) -> None:
    """The others are still asked."""
    unknown = {"name": "x", "prompt_ids": [1]}

    result = capture(StandIn([PLAIN]), tmp_path, "--create", lines=(unknown, PLAIN.line()))

    assert result.exit_code == 2
    assert "failed   sglang-0.5.23-kimi-k2.5/x: http" in result.stdout
    assert result.stdout.splitlines()[-1] == "3 created, 1 failed"


def test_another_tokenizer_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    """Exit code 2, one line, and no prompt went out."""
    engine = StandIn([PLAIN], tokenize=lambda text: [8])

    result = capture(engine, tmp_path, "--create")

    assert result.exit_code == 2
    assert result.stderr.startswith(f"tokenproof: {engine.url} has another tokenizer (control table): '[BOS]'")
    assert result.stderr.count("\n") == 1
    assert engine.n_asked("/generate") == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--engine", "vllm"], "does not tell its version"),
        (["--max-tokens", "many"], "--max-tokens"),
        (["--url", "localhost:30000"], "no http address"),
        (["--url", "http://user:pw@localhost"], "no key is ever sent"),
        (["--url", "http://127.0.0.1:9"], "nothing answers at http://127.0.0.1:9"),
    ],
)
def test_wrong_calls(tmp_path: Path, args: list[str], words: str) -> None:
    """What came, what was expected; exit code 2 and no traceback."""
    result = capture(StandIn([PLAIN]), tmp_path, "--create", *args)

    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["{absent}"], "absent.jsonl cannot be read: No such file or directory; expected JSONL, a prompt a line"),
        (["{tmp}"], "cannot be read: neither a file nor a folder"),
        (["{binary}"], "binary:1: no UTF-8 text, as in a binary file; expected JSON"),
        (["{same_name}"], "same_name:1: the name 'plain' is taken by an earlier line"),
        (["{path_name}"], "path_name:1: the name '../x' cannot be a file's; expected letters, digits"),
        (["{no_prompt}"], "no_prompt:1: neither `messages` nor `prompt_ids`"),
        (["--model", "kimi-k2.5", "{no_switch}"], "no_switch:1: thinking is not said"),
        (["--model", "gpt-4"], "--model 'gpt-4', which no format covers; expected a name that one of these patterns"),
        (["--engine", "ollama"], "--engine 'ollama'; expected one of ['sglang', 'vllm']"),
        (["--engine-version", "../1"], "--engine-version '../1'; expected a version such as 0.5.23"),
        (["--label", "a/b"], "--label 'a/b' cannot be a folder; expected letters, digits"),
        (["--label", ".."], "--label '..' cannot be a folder"),
        (["--label", ""], "--label '' cannot be a folder"),
        (["--timeout", "nan"], "--timeout nan; expected seconds, from 0.1 to 86400"),
        (["--timeout", "inf"], "--timeout inf; expected seconds"),
        (["--timeout", "-1"], "--timeout -1; expected seconds"),
        (["--timeout", "0"], "--timeout 0; expected seconds"),
        (["--out", "{binary}"], "cannot be read: Not a directory; choose another --out"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_asked(tmp_path: Path, args: list[str], words: str) -> None:
    """Files, names and options are looked at first: exit code 2, one word of what came, no request went out."""
    made = {
        "binary": b"\x89PNG\r\n\x1a\n\x00",
        "same_name": json.dumps(PLAIN.line()).encode(),
        "path_name": json.dumps(PLAIN.line(name="../x")).encode(),
        "no_prompt": b'{"name": "x"}',
        "no_switch": json.dumps({"messages": PLAIN.messages}).encode(),
    }
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    places = {name: tmp_path / name for name in made} | {"absent": tmp_path / "absent.jsonl", "tmp": tmp_path}
    engine = StandIn([PLAIN])

    result = capture(engine, tmp_path, "--create", *(a.format(**places) for a in args))

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert engine.asked == []
    assert not (tmp_path / "out").exists()


def test_every_wrong_option_is_told_at_once(tmp_path: Path) -> None:
    """A line each."""
    result = capture(StandIn([PLAIN]), tmp_path, "--engine", "x", "--label", "/", "--timeout", "nan")

    assert [line.split()[1] for line in result.stderr.splitlines()] == ["--engine", "--label", "--timeout"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"data": [{"id": "tiny", "owned_by": "sglang"}]}, "the engine calls its model 'tiny', which no format covers"),
        ((500, b"CUDA error"), "/v1/models answered HTTP 500: CUDA error"),
    ],
)
def test_a_server_that_is_not_what_was_meant(tmp_path: Path, answer: Any, words: str) -> None:
    """Before the first prompt it ends the run, with the server's own words on one line."""
    result = capture(StandIn([PLAIN], faults={"/v1/models": lambda _: answer}), tmp_path, "--create")

    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_change_is_shown_and_needs_its_flag(tmp_path: Path) -> None:
    """Other ids than recorded: exit code 1 without --fix, the lines that differ with it."""
    capture(StandIn([PLAIN]), tmp_path, "--create")
    before = files(tmp_path)
    ids = [*PLAIN.output_ids[:13], 163585, *PLAIN.output_ids[14:]]
    changed = dict(PLAIN.generate, output_ids=ids)
    faults = {"/generate": lambda body: changed if "input_ids" in body else None}

    seen, fixed = (capture(StandIn([PLAIN], faults=dict(faults)), tmp_path, *flags) for flags in ([], ["--fix"]))

    assert seen.exit_code == 1
    assert (
        "ids part at 13: 163607 '</think>' and 163585 '[EOS]' (21 and 21 ids); not written: --fix does" in seen.stdout
    )
    assert '    - "true_ids": [1008, 2742,' in seen.stdout
    assert '    + "true_ids": [1008, 2742,' in seen.stdout
    assert fixed.stdout.startswith(
        "fixed    sglang-0.5.23-kimi-k2.5-generate/plain: 21 ids, recorded and now: ids part"
    )
    after = files(tmp_path)
    assert sorted(name for name in before if before[name] != after[name]) == [
        "sglang-0.5.23-kimi-k2.5-generate/plain.json"
    ]
    assert json.loads(after["sglang-0.5.23-kimi-k2.5-generate/plain.json"])["true_ids"] == ids


def test_ctrl_c_leaves_whole_files_and_the_run_is_taken_up(tmp_path: Path) -> None:
    """Exit code 130 and one line; what stands is whole, and the same command goes on from there."""
    names = ["plain", "tool_single", "empty_reasoning"]
    hang = threading.Event()

    def stall(body: dict[str, Any]) -> None:
        if body.get("messages") == SGLANG["tool_single"].messages:
            reached.set()
            hang.wait(20)

    reached = threading.Event()
    engine = StandIn([SGLANG[n] for n in names], faults={"/v1/chat/completions": stall})
    prompts = prompts_file(tmp_path, *[SGLANG[n].line() for n in names])
    with serving(engine):
        process = subprocess.Popen(
            [*COMMAND, "--url", engine.url, prompts, "--out", str(tmp_path / "out"), "--create"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        )  # fmt: skip
        assert reached.wait(20)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        hang.set()

    assert (process.returncode, err) == (130, "tokenproof: interrupted\n")
    assert out.splitlines()[-1] == "4 created"
    standing = files(tmp_path)
    assert [name.split("/")[1] for name in sorted(standing)] == [
        "plain.json", "tool_single.json", "plain.chat.json", "plain.stream.json",
    ]  # fmt: skip
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file() and p.suffix != ".json"]
    assert all(read_golden(tmp_path / "out" / name).true_ids for name in standing)
    engine.faults.clear()
    engine.asked.clear()
    with serving(engine):
        again = run("capture", "--url", engine.url, prompts, "--out", tmp_path / "out", "--create")
    assert (again.exit_code, again.stdout.splitlines()[-1]) == (0, "5 created, 4 kept")
    assert engine.n_asked("/generate") == 1
    assert {name: data for name, data in files(tmp_path).items() if name in standing} == standing


def test_no_other_command_pays_for_it() -> None:
    """Neither httpx nor the runners are loaded until capture is called."""
    code = "import sys; from harness import cli; print(sorted({'httpx', 'runners'} & set(sys.modules)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout

    assert out == "[]\n"
