"""harness.cli_record: the command, over loopback sockets and as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from harness.cassette_files import cassette_files, read_recording
from harness.cli import app
from harness.openrouter_lists import PARAMETERS, Endpoint
from harness.preset_table import PRESETS
from harness.recording import complaints
from tests.conftest import ROOT
from tests.scenario_truths import recording_app, shipped
from tests.served import Served

FILE = str(ROOT / "cassettes" / "scenarios.toml")
KEY = "sk-made-up-key"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Two presets on loopback."""
    with Served(recording_app(["chutes", "siliconflow"])) as base:
        yield base


def invoked(out: Path, *args: str, budget: str = "1", **env: str) -> Any:
    """The command's result; the key stands in the environment."""
    typed = ["record", "--scenarios", FILE, "--out", str(out), "--budget", budget, *args]
    return CliRunner().invoke(app, typed, env={"OPENROUTER_API_KEY": KEY, "TOKENPROOF_BASE_URL": "", **env})


def test_a_price_before_rows_and_a_cost_after(url: str, tmp_path: Path) -> None:
    """The highest price first, a line a cassette, the sum at the end; the files are there."""
    found = invoked(
        tmp_path, "--provider", "chutes", "--scenario", "hello", "--scenario", "one-word", "--base-url", url
    )

    first, *rows, last = found.stdout.splitlines()
    assert found.exit_code == 0
    assert first.startswith("2 of 2 cassettes to record, at most $0.00")
    assert rows == ["recorded    chutes/hello: $0.000065", "recorded    chutes/one-word: $0.000057"]
    assert last == "2 recorded; cost $0.000122"
    assert [str(p.relative_to(tmp_path)) for p in cassette_files(tmp_path)] == [
        "chutes/hello.yaml",
        "chutes/one-word.yaml",
    ]
    assert KEY not in (tmp_path / "chutes" / "hello.yaml").read_text()


def test_rows_for_a_machine_and_the_base_url_of_the_environment(url: str, tmp_path: Path) -> None:
    """With --json stdout holds rows alone."""
    args = ("--provider", "siliconflow/int4", "--scenario", "hello", "--json")
    found = invoked(tmp_path, *args, TOKENPROOF_BASE_URL=url)

    (row,) = map(json.loads, found.stdout.splitlines())
    assert (row["name"], row["status"], found.exit_code) == ("siliconflow/hello", "recorded", 0)
    assert "cassettes to record, at most" in found.stderr


def test_a_dry_run_sends_nothing(tmp_path: Path) -> None:
    """Prices are read, nothing is asked and nothing is written."""
    server = recording_app(["chutes"])
    with Served(server) as base:
        found = invoked(tmp_path, "--provider", "chutes", "--dry-run", "--base-url", base, budget="0")

    assert (found.exit_code, found.stdout.count("\n")) == (0, 1)
    assert found.stdout.startswith("31 of 31 cassettes to record, at most $0.1")
    assert (server.requests, cassette_files(tmp_path)) == ([], [])


def test_a_budget_that_does_not_reach_is_exit_1(url: str, tmp_path: Path) -> None:
    """What was not paid for is named; what was paid for stands."""
    args = ("--provider", "chutes", "--scenario", "hello", "--scenario", "long-reasoning", "--base-url", url)
    found = invoked(tmp_path, *args, budget="0.002")

    assert found.exit_code == 1
    assert "unpaid      chutes/long-reasoning: the next request can cost $0.010" in found.stdout
    assert found.stdout.splitlines()[-1] == "1 recorded, 1 unpaid; cost $0.000065"


def test_what_changed_is_told_after_a_rerecording(tmp_path: Path) -> None:
    """The old cassettes are compared with the new ones, and what touches ids is named."""
    names = [arg for s in shipped().scenarios if "call" in s.name for arg in ("--scenario", s.name)]
    args = ("--provider", "chutes", *names)
    with Served(recording_app(["chutes"])) as base:
        first = invoked(tmp_path, *args, "--base-url", base)
    minted = Endpoint("chutes/int4", _with_minted_ids(), parameters=(*PARAMETERS, "logprobs"))
    with Served(recording_app([], endpoints=[minted])) as base:
        second = invoked(tmp_path, *args, "--base-url", base, "--rewrite")

    assert (first.exit_code, "compared" in first.stdout) == (0, False)
    assert second.exit_code == 0
    assert "minted" in second.stdout
    assert f"{len(names) // 2} pairs compared" in second.stdout


def _with_minted_ids() -> Any:
    return replace(PRESETS["chutes"], call_id="minted")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--provider", "nobody"), "no endpoint answers to 'nobody'; the listing has chutes/int4 (int4)"),
        (("--provider", "chutes/fp8"), "no endpoint answers to 'chutes/fp8'"),
        (("--provider", "chutes", "--quantization", "fp8"), "no endpoint answers to 'chutes' in fp8"),
        (("--provider", "chutes", "--scenario", "helo"), "no scenario 'helo'; scenarios: hello"),
        (("--provider", "chutes", "--budget", "much"), "--budget 'much'; expected an amount in USD"),
        (("--provider", "chutes", "--scenarios", "/nowhere.toml"), "/nowhere.toml: cannot be read: No such file"),
        (("--provider", "chutes", "--scenarios", str(ROOT / "pyproject.toml")), "pyproject.toml: no file of scenarios"),
        (("--provider", "chutes", "--base-url", "http://host.ai/v1"), "plain http goes to loopback only"),
        (("--provider", "chutes", "--base-url", "https://host.ai/v1"), "if host.ai is meant, add --allow-host host.ai"),
        (
            ("--provider", "chutes", "--base-url", "http://127.0.0.1:9"),
            "no prices and endpoints of moonshotai/kimi-k2.5",
        ),
        (("--provider", "chutes", "--model", "moonshotai/kimi-k9"), "no prices and endpoints of moonshotai/kimi-k9"),
        (("--provider", "chutes", "--out", "/proc/x"), "cannot be made"),
    ],
)
def test_a_wrong_call_is_named_and_ends_with_2(url: str, tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    """What came, what was expected; no traceback, no key, no file."""
    base = () if "--base-url" in args else ("--base-url", url)
    found = invoked(tmp_path, "--scenario", "hello", *base, *args)

    assert (found.exit_code, cassette_files(tmp_path)) == (2, [])
    assert words in found.stderr
    assert KEY not in found.output


def test_two_endpoints_of_one_slug_are_refused(tmp_path: Path) -> None:
    """They would share a folder."""
    ends = [Endpoint(f"chutes/{q}", PRESETS["chutes"], quantization=q) for q in ("int4", "fp8")]
    with Served(recording_app([], endpoints=ends)) as base:
        found = invoked(tmp_path, "--provider", "chutes", "--base-url", base)
        one = invoked(
            tmp_path, "--provider", "chutes", "--quantization", "fp8", "--scenario", "hello", "--base-url", base
        )

    assert (found.exit_code, "would share a folder; pin one of them" in found.stderr) == (2, True)
    assert (one.exit_code, read_recording(tmp_path / "chutes" / "hello.yaml").provenance.quantization) == (0, "fp8")


def test_no_key_for_a_live_host_is_told(tmp_path: Path) -> None:
    """Where to put it."""
    found = invoked(tmp_path, "--provider", "chutes", OPENROUTER_API_KEY="")

    assert found.exit_code == 2
    assert "no API key for https://openrouter.ai/api/v1; expected it in OPENROUTER_API_KEY" in found.stderr


def test_ctrl_c_leaves_whole_cassettes(tmp_path: Path) -> None:
    """A run that is broken off in the middle: exit 130, every file whole, and the same command takes it up."""
    with Served(recording_app(["chutes"], chunk_delay=0.01)) as base:
        command = [sys.executable, "-m", "harness.cli", "record", "--scenarios", FILE, "--out", str(tmp_path)]
        command += ["--provider", "chutes", "--budget", "1", "--base-url", base]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_env()
        ) as process:
            deadline = time.monotonic() + 30
            while len(cassette_files(tmp_path)) < 3:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            said, errors = process.communicate(timeout=20)
        left = cassette_files(tmp_path)
        assert (process.returncode, "interrupted" in errors, 3 <= len(left) < 31) == (130, True, True)
        assert [complaints(read_recording(path)) for path in left] == [()] * len(left)
        assert [p for p in tmp_path.rglob("*") if p.is_file() and p not in left] == []
        assert said.splitlines()[-1].startswith(f"{len(left)} recorded; cost $0.00")
        kept = [str(p.relative_to(tmp_path)).removesuffix(".yaml") for p in left]
        names = [arg for name in kept for arg in ("--scenario", name.partition("/")[2])]
        again = invoked(tmp_path, "--provider", "chutes", *names, "--base-url", base)

    assert again.exit_code == 0
    assert again.stdout.splitlines()[-1] == f"{len(left)} kept; cost $0.00"


def _env() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OPENROUTER_API_KEY": KEY}


def test_help_tells_exit_codes_and_examples() -> None:
    """A person finds the price, the codes and a first call."""
    found = CliRunner().invoke(app, ["record", "--help"])

    assert found.exit_code == 0
    for words in ("exit code 0", "130  Ctrl-C", "--budget", "tokenproof record --provider siliconflow/int4"):
        assert words in found.stdout
