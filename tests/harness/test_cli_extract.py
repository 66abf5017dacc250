"""harness.cli_extract: what is typed, what is printed, exit codes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from harness import cli, cli_backends, cli_extract
from runners import preflight
from runners.out_folder import locked
from tests.conftest import ROOT
from tests.runners.hidden_standin import ALL_IDS, CONFIG, Pair, read_alone, servers
from tests.runners.states_kit import drawn, sample, samples_file, tiny


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, ["extract", *map(str, args)])


def typed(folder: Path, n: int = 12) -> list[str | Path]:
    """Arguments of a run over n samples."""
    samples = samples_file(folder / "samples.parquet", drawn(n))
    return [samples, "--model", tiny("llama"), "--out", folder / "out", "--dtype", "fp32", "--shard-mb", "0.05"]


def test_a_run_and_its_repetition(tmp_path: Path) -> None:
    """A line that says what was done; the second time there is nothing to do."""
    args = typed(tmp_path)
    first, second = run(*args), run(*args)

    assert (first.exit_code, first.stderr, second.exit_code) == (0, "", 0)
    n_shards = len(list((tmp_path / "out").glob("shard-*.json")))
    n_tokens = sum(len(one.ids) for one in drawn(12))
    assert first.stdout.startswith(f"{tmp_path}/out: 12 samples, {n_tokens} tokens, {n_shards} shards, ")
    assert second.stdout == f"{tmp_path}/out: 0 samples, 0 tokens, 0 shards, 0 bytes, 12 stood there already\n"


def test_a_samples_file_that_changed_is_told(tmp_path: Path) -> None:
    """Samples with other ids are computed anew, those that it has no more are named; the exit code is 1, as that of
    `shards verify`."""
    args = typed(tmp_path)
    run(*args)
    samples = drawn(12)
    samples_file(tmp_path / "samples.parquet", [*samples[:2], sample("s2", [5], [6]), *samples[3:-1]])

    text, told = run(*args), json.loads(run(*args, "--json").stdout)

    assert (text.exit_code, told["changed"], told["vanished"], told["vanished_ids"]) == (1, 0, 1, ["s11"])
    assert "other ids or another loss_mask than in the samples file now, sample 's2'; kept as *.old" in text.stderr
    assert (
        "sample 's11' that samples.parquet does not have any more; they stay, and a trainer would read them"
        in text.stderr
    )
    assert "1 of other ids or another mask than before, 1 that the samples file has no more" in text.stdout
    verified = CliRunner().invoke(cli.app, ["shards", "verify", str(tmp_path / "out")])
    assert (verified.exit_code, "sample 's11' that the last run did not have any more" in verified.stdout) == (1, True)


def test_json_has_every_count(tmp_path: Path) -> None:
    """For a machine, over-long samples named."""
    result = run(*typed(tmp_path), "--max-length", "30", "--json")

    told = json.loads(result.stdout)
    longer = [one.id for one in drawn(12) if len(one.ids) > 30]
    assert (told["samples"], told["over_long"], told["over_long_ids"]) == (12 - len(longer), len(longer), longer)
    assert set(told) >= {"tokens", "n_bytes", "shards", "done_before", "set_aside"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["--over-long", "keep"], "--over-long 'keep' is none of drop, cut, refuse", id="policy"),
        pytest.param(["--last-norm", "both"], "--last-norm 'both' is none of pre, post", id="norm"),
        pytest.param(["--layers", "9"], "--layers 9: auxiliary layers 9 of a model with 8", id="layers"),
        pytest.param(["--dtype", "fp8"], "dtype 'fp8' is none of", id="dtype"),
        pytest.param(["--max-length", "99999"], "is made for 4096 positions", id="positions"),
        pytest.param(["--model", "nowhere"], "expected the folder of a local model", id="model"),
        pytest.param(["--over-long", "refuse", "--max-length", "5"], "raise it, or choose --over-long", id="refused"),
        pytest.param(["--backend", "vllm"], "--backend 'vllm' is none of transformers, sglang", id="backend"),
        pytest.param(["--backend", "sglang", "--last-url", "http://x"], "needs two running servers", id="one-url"),
        pytest.param(
            ["--backend", "sglang", "--last-url", "http://127.0.0.1:9", "--aux-url", "http://127.0.0.1:8"],
            "nothing answers at http://127.0.0.1:9",
            id="no-server",
        ),
        pytest.param(["--device", "toaster"], "cannot be loaded by transformers", id="device"),
    ],
)
def test_wrong_calls_end_with_two(tmp_path: Path, args: list[str], said: str) -> None:
    """A sentence on stderr, nothing on stdout, no shard."""
    result = run(*typed(tmp_path), *args)

    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr
    assert not list(tmp_path.glob("out/shard-*.json"))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["--layout", "specforge", "--last-norm", "pre"], "needs the last state post the final", id="norm"),
        pytest.param(["--layout", "specforge", "--layers", "2,4"], "takes 3 auxiliary layers", id="number-of-layers"),
        pytest.param(["--layers", "9"], "--layers 9: auxiliary layers 9 of a model with 8", id="layers"),
        pytest.param(["--max-length", "99999"], "is made for 4096 positions", id="positions"),
        pytest.param(["--no-agreement", "--min-agreement", "0.5"], "contradict each other", id="agreement"),
        pytest.param(["--workers", "3"], "--workers and --worker-gpus are of a cluster: add --ray", id="workers"),
        pytest.param(["--worker-gpus", "0.5"], "--workers and --worker-gpus are of a cluster: add --ray", id="gpus"),
        pytest.param(["--backend", "sglang"], "needs two running servers", id="no-url"),
        pytest.param(["--dtype", "bf16"], 'dtype is "fp32" there and "bf16" now', id="another-run"),
    ],
)
def test_a_wrong_call_is_refused_before_a_model_is_loaded(
    tmp_path: Path, args: list[str], said: str, plan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading may take an hour; the plan refuses what the run would."""
    before = typed(tmp_path, 3)
    if "--dtype" in args:
        assert run(*before).exit_code == 0
    monkeypatch.setitem(cli_extract.BACKENDS, "transformers", lambda _: pytest.fail("a model was loaded"))
    result = run(*before, *args, *(["--plan"] if plan else []))
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(Path.unlink, "cannot be read: No such file or directory", id="mistyped"),
        pytest.param(_folder, "is no file; expected Parquet", id="folder"),
        pytest.param(_fifo, "is no file; expected Parquet", id="pipe"),
        pytest.param(lambda path: path.write_bytes(b"PAR?"), "cannot be read as Parquet", id="other"),
    ],
)
def test_samples_that_are_none_are_refused_before_a_model_is_loaded(
    tmp_path: Path, make: Any, said: str, plan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name of the file; a named pipe does not hang the command."""
    args = typed(tmp_path, 3)
    make(tmp_path / "samples.parquet")
    monkeypatch.setitem(cli_extract.BACKENDS, "transformers", lambda _: pytest.fail("a model was loaded"))
    result = run(*args, *(["--plan"] if plan else []))
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{tmp_path}/samples.parquet {said}" in result.stderr


def test_a_folder_in_use_or_of_others_or_a_full_disk_is_refused_before_a_model_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written."""
    args, out = typed(tmp_path, 3), tmp_path / "out"
    monkeypatch.setitem(cli_extract.BACKENDS, "transformers", lambda _: pytest.fail("a model was loaded"))
    with locked(out, "native"):
        assert "another run is at work" in run(*args).stderr
    (out / "shard-000000.safetensors").write_bytes(b"theirs")
    assert "it stands there already" in run(*args).stderr
    (out / "shard-000000.safetensors").unlink()
    monkeypatch.setattr(preflight, "free_bytes", lambda _: 1000)
    result = run(*args)
    assert (result.exit_code, "has 0.0 GB free" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("name", "args"), [("torch", []), ("transformers", []), ("datasets", ["--layout", "speculators"])]
)
def test_a_library_that_is_not_installed_is_told(
    tmp_path: Path, name: str, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What to install, before anything runs."""
    monkeypatch.setattr(cli_backends, "find_spec", lambda asked: None if asked == name else object())
    result = run(*typed(tmp_path, 3), *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"needs {name}, which the extra `extract` brings: pip install 'tokenproof[extract]'" in result.stderr


def test_a_run_over_two_servers(tmp_path: Path) -> None:
    """Ids to SGLang and states into a shard that verifies; a server without states ends it with 2 and a way on."""
    one = sample("plain", ALL_IDS[:15], ALL_IDS[15:])
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    file = samples_file(tmp_path / "s.parquet", [one])

    def command(pair: Pair, *more: str) -> Result:
        urls = ("--backend", "sglang", "--last-url", pair.last.url, "--aux-url", pair.aux.url)
        return run(file, "--model", tmp_path, "--out", tmp_path / "out", "--dtype", "fp32", *urls, *more)

    with servers(aux=lambda _: {}) as pair:
        result = command(pair)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "(aux): no meta_info.hidden_states" in result.stderr
        assert "give the same command again" in result.stderr
        assert "SGLang gives the last state after the final norm" in command(pair, "--last-norm", "pre").stderr
    with servers() as pair:
        assert command(pair).exit_code == 0
    states = load_file(tmp_path / "out/shard-000000.safetensors")
    assert states["hidden_states"].equal(torch.tensor(read_alone("last")))
    assert states["aux_hidden_states"].flatten(1).equal(torch.tensor(read_alone("aux")))


def test_code_in_the_folder_is_part_of_the_run(tmp_path: Path) -> None:
    """Where it may run, a resumed run with other code, or without leave, is another run: each difference is told."""
    args = typed(tmp_path, 3)
    folder = tmp_path / "model"
    shutil.copytree(tiny("llama"), folder)
    (folder / "modeling.py").write_text("SCALE = 1")
    args[args.index("--model") + 1] = folder
    assert run(*args, "--trust-remote-code").exit_code == 0
    told = json.loads((tmp_path / "out/shard-000000.json").read_text())["run"]["told"]
    assert (told["trust_remote_code"], len(told["code_sha256"])) == (True, 64)

    without = run(*args)
    (folder / "modeling.py").write_text("SCALE = 2")
    other = run(*args, "--trust-remote-code")

    assert (without.exit_code, other.exit_code) == (2, 2)
    assert "told.trust_remote_code is true there and false now" in without.stderr
    assert f'told.code_sha256 is "{told["code_sha256"]}" there and ' in other.stderr


def test_help_tells_codes_and_examples() -> None:
    """What a person needs first."""
    text = run("--help").stdout
    assert "130  interrupted: what is whole stays" in text
    assert "tokenproof extract samples.parquet --model ./Kimi-K2.5" in text


def test_ctrl_c_ends_with_130_and_leaves_whole_shards(tmp_path: Path) -> None:
    """Pressed once the first shard stands; the same command does the rest."""
    args = [str(a) for a in typed(tmp_path, 400)]
    args[args.index("--shard-mb") + 1] = "0.02"
    command = [sys.executable, "-m", "harness.cli", "extract", *args]
    process = subprocess.Popen(
        command, cwd=ROOT, env=dict(os.environ), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    while not list(tmp_path.glob("out/shard-*.json")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    assert err.endswith("tokenproof: interrupted\n")
    n_before = len(list(tmp_path.glob("out/shard-*.json")))
    assert n_before > 0
    again = json.loads(run(*args, "--json").stdout)
    assert again["done_before"] > 0
    assert again["done_before"] + again["samples"] == 400
