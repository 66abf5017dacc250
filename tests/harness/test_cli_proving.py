"""harness.cli_proving: what `tokenproof extract` prints of agreement, spot checks and its plan."""

import json
import re
from math import inf, nan
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import cli
from runners import extract_plan, spot_check
from runners.manifests import read_manifest
from runners.proof import Spot
from tests.runners.states_kit import drawn, sample, samples_file, tiny

KIMI_K25 = {
    "model_type": "kimi_k25",
    "architectures": ["KimiK25ForConditionalGeneration"],
    "text_config": {
        "model_type": "kimi_k2",
        "num_hidden_layers": 61,
        "hidden_size": 7168,
        "vocab_size": 163_840,
        "max_position_embeddings": 262_144,
    },
}
"""The sizes of Kimi K2.5; its weights are not needed for a plan."""


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, ["extract", *map(str, args)])


@pytest.fixture
def args(tmp_path: Path) -> list[str | Path]:
    """Of a run over 12 samples."""
    samples = samples_file(tmp_path / "samples.parquet", drawn(12))
    return [samples, "--model", tiny("llama"), "--out", tmp_path / "out", "--dtype", "fp32"]


def test_the_agreement_of_a_run_is_that_of_its_manifest(args: list[str | Path], tmp_path: Path) -> None:
    """A share over all unmasked ids, in the line for a person and in JSON."""
    told = json.loads(run(*args, "--json").stdout)

    manifest = read_manifest(tmp_path / "out/shard-000000.json")
    found = [line["agreement"] for line in manifest.samples]
    n = sum(one["n"] for one in found)
    hits = sum(round(one["n"] * one["share"]) for one in found if one["n"])
    assert told["agreement"] == {"n": n, "share": pytest.approx(hits / n)}
    assert n == sum(sum(one.loss_mask[1:]) for one in drawn(12))
    assert manifest.run["agreement"]["head"] == ["lm_head.weight"]
    args[args.index("--out") + 1] = tmp_path / "again"
    assert f"agreement {hits / n:.4f} of {n} ids" in run(*args).stdout


def test_min_agreement_sets_samples_aside(args: list[str | Path], tmp_path: Path) -> None:
    """Random ids are nothing that the model would say: with a limit all are set aside, with the reason, and counted."""
    result = run(*args, "--min-agreement", "0.9")

    manifest = read_manifest(tmp_path / "out/shard-000000.json")
    assert result.exit_code == 0
    assert "0 samples, 0 tokens, 1 shards" in result.stdout
    assert "12 set aside" in result.stdout
    assert manifest.samples == []
    assert "is below --min-agreement 0.9" in manifest.set_aside[0]["reason"]
    again = run(*args)
    assert (again.exit_code, "tokenproof: agreement.min_agreement is 0.9 there and null now" in again.stderr) == (
        2,
        True,
    )


def test_no_agreement_is_null(args: list[str | Path], tmp_path: Path) -> None:
    """Null in the manifest, with why; and no limit without it."""
    assert json.loads(run(*args, "--no-agreement", "--json").stdout)["agreement"] == {"n": 0, "share": None}
    manifest = read_manifest(tmp_path / "out/shard-000000.json")
    assert {json.dumps(line["agreement"]) for line in manifest.samples} == {"null"}
    assert manifest.run["agreement"]["why_not"] == "agreement was not asked for"
    contradiction = run(*args, "--no-agreement", "--min-agreement", "0.5")
    assert (contradiction.exit_code, "contradict each other" in contradiction.stderr) == (2, True)


def test_a_spot_check_that_holds(args: list[str | Path]) -> None:
    """Computed at once or found there already: the same samples again, each alone."""
    first, again = run(*args, "--spot-check", "4"), run(*args, "--spot-check", "4", "--json")

    assert first.exit_code == 0
    assert re.search(r"spot check: 4 of 4 samples hold; worst row \S+ off, 0\.0001 allowed\n$", first.stdout)
    told = json.loads(again.stdout)["spot_check"]
    assert (told["n"], told["failed"]) == (4, [])
    assert told["worst"] < 1e-5


def test_a_spot_check_that_fails_ends_with_one(args: list[str | Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample and its worst row are named, and its shard is good no more: until it is computed again."""
    bad = Spot("s7", 0.6, 0.25, "last state, row 3", False)
    real = spot_check.spot
    monkeypatch.setattr(spot_check, "spot", lambda *_: bad)

    text, machine = run(*args, "--spot-check", "1"), run(*args, "--spot-check", "1", "--json")

    assert (text.exit_code, machine.exit_code) == (1, 1)
    assert "0 of 1 samples hold" in text.stdout
    assert "  s7: last state, row 3 is 0.6 off, 25.0% of its rows" in text.stdout
    assert json.loads(machine.stdout)["spot_check"]["failed"] == [
        {"id": "s7", "worst": 0.6, "over": 0.25, "where": "last state, row 3"}
    ]
    assert json.loads(machine.stdout)["spot_check"]["set_apart"] == ["shard-000000"]
    assert (
        "shard-000000.json: sample 's7' has other states alone (last state, row 3 is 0.6 off); kept as" in text.stderr
    )
    verify = ["shards", "verify", str(args[args.index("--out") + 1])]
    bad_folder = CliRunner().invoke(cli.app, verify)
    assert (bad_folder.exit_code, "in no shard: 12 samples" in bad_folder.stdout) == (1, True)

    monkeypatch.setattr(spot_check, "spot", real)
    assert run(*args, "--spot-check", "1").exit_code == 0
    assert CliRunner().invoke(cli.app, verify).exit_code == 0


def test_what_is_not_finite_is_null_in_json(args: list[str | Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON knows no NaN and no infinity."""
    bad = (Spot(f"s{k}", worst, 1.0, "last state, row 3", worst == 0.1) for k, worst in enumerate((nan, inf, 0.1)))
    monkeypatch.setattr(spot_check, "spot", lambda *_: next(bad))

    told = json.loads(run(*args, "--spot-check", "3", "--json").stdout, parse_constant=pytest.fail)["spot_check"]

    assert (told["worst"], [one["worst"] for one in told["failed"]]) == (None, [None, None])


def test_a_spot_check_of_another_layout_is_refused(args: list[str | Path]) -> None:
    """Told before anything is computed."""
    result = run(*args, "--layout", "specforge", "--spot-check", "1")
    assert (result.exit_code, "--spot-check reads native shards" in result.stderr) == (2, True)


def test_the_plan_for_kimi(args: list[str | Path], tmp_path: Path) -> None:
    """From a config.json alone, no weights: 56 KiB a token in bf16; nothing is written."""
    (tmp_path / "k25").mkdir()
    (tmp_path / "k25/config.json").write_text(json.dumps(KIMI_K25))
    n_tokens = sum(len(one.ids) for one in drawn(12))
    plan = [args[0], "--model", tmp_path / "k25", "--out", tmp_path / "out", "--plan"]

    told = json.loads(run(*plan, "--rate", "0.5", "--json").stdout)
    text = run(*plan)

    assert told["state_bytes_per_token"] == 57_344
    assert (told["samples"], told["tokens"], told["files"], told["fits"]) == (12, n_tokens, 3, True)
    assert told["n_bytes"] == pytest.approx(n_tokens * 57_344, rel=0.01)
    assert told["hours"] == pytest.approx(n_tokens / 0.5 / 3600)
    assert "hours: unknown; --rate R tells" in text.stdout
    assert text.stdout.endswith("it fits\n")
    assert not (tmp_path / "out").exists()


def test_a_plan_that_does_not_fit_ends_with_one(args: list[str | Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """And the run itself refuses with 2."""
    monkeypatch.setattr(extract_plan.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))

    plan, done = run(*args, "--plan"), run(*args)

    assert (plan.exit_code, "it does NOT fit" in plan.stdout) == (1, True)
    assert (done.exit_code, "choose another --out, fewer samples" in done.stderr) == (2, True)


def test_a_plan_counts_what_stands_there(args: list[str | Path], tmp_path: Path) -> None:
    """After a run nothing is left; a manifest that is none says nothing of its samples."""
    run(*args)
    assert json.loads(run(*args, "--plan", "--json").stdout)["done"] == 12
    (tmp_path / "out/shard-000000.json").write_text("{}")
    told = json.loads(run(*args, "--plan", "--json").stdout)
    assert (told["done"], told["samples"]) == (0, 12)


def test_a_plan_counts_samples_that_changed(args: list[str | Path], tmp_path: Path) -> None:
    """With the others of their shard, as the run will compute them."""
    run(*args, "--shard-mb", "0.05")
    samples_file(tmp_path / "samples.parquet", [sample("s0", [1], [2]), *drawn(12)[1:]])
    n_there = len(read_manifest(tmp_path / "out/shard-000000.json").samples)
    told = json.loads(run(*args, "--plan", "--json").stdout)
    assert (told["samples"], told["done"]) == (n_there, 12 - n_there)
    assert json.loads(run(*args, "--shard-mb", "0.05", "--json").stdout)["samples"] == n_there


def test_a_cluster_that_is_not_there_ends_with_two(args: list[str | Path]) -> None:
    """Told at once, nothing computed; a spot check needs the model here."""
    gone, both = run(*args, "--ray", "127.0.0.1:1"), run(*args, "--ray", "local", "--spot-check", "1")

    assert (gone.exit_code, "--ray 127.0.0.1:1: no cluster answers there" in gone.stderr) == (2, True)
    assert (both.exit_code, "--spot-check computes on this machine" in both.stderr) == (2, True)
