"""harness.cli_samples: what is typed, what is printed, exit codes; a run's ledger stands in a folder."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import cli
from runners.output import LEDGER, SUMMARY
from runners.samples import FILES
from tests.conftest import ROOT
from tests.runners.run_kit import run_of
from tests.runners.sample_kit import answered
from tests.runners.test_samples import mixed
from tests.runners.test_scale_extract import RAY


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, [*map(str, args)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An output folder with six prompts of two data sets."""
    mixed(tmp_path).close()
    return tmp_path


def test_export_writes_samples_and_tells(folder: Path) -> None:
    """The four files, the table, the bill and the dollars."""
    result = run("export", folder)

    assert (result.exit_code, result.stderr) == (0, "")
    assert all((folder / name).is_file() for name in (*FILES, SUMMARY))
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["data", "set", "provider", "answers"]
    assert lines[1].split()[:3] == ["a", "Chutes", "3"]
    assert "billed after known offsets: +0 (+0.0000%)" in result.stdout
    assert lines[-1].startswith("2 samples, $0.")
    assert lines[-1].endswith("spent, 0 prompts open")


def test_export_as_json_is_the_summary(folder: Path) -> None:
    """One object, what summary.json says."""
    result = run("export", folder, "--json")

    assert json.loads(result.stdout) == json.loads((folder / SUMMARY).read_bytes())


def test_a_layout(folder: Path) -> None:
    """Beside the ledger or where it is typed, with what was left out."""
    result = run("export", folder, "--layout", "specforge")
    assert (result.exit_code, result.stdout) == (
        0, f"{folder}/specforge.jsonl: 2 rows; left out: 1 gave-up, 2 rejected, 1 unverified\n",
    )  # fmt: skip
    other = run("export", folder, "--layout", "specforge", "--out", folder / "x.jsonl", "--json")
    assert json.loads(other.stdout)["written"] == 2
    assert (folder / "x.jsonl").read_bytes() == (folder / "specforge.jsonl").read_bytes()


def test_a_disk_that_fills_up_leaves_what_was_there(tmp_path: Path) -> None:
    """Files may grow to 40 kB here: status 2, the reason, the old samples as they were and no parts beside them."""
    answered(tmp_path, run_of(tmp_path, *({"prompt": f"number {k}"} for k in range(60)))).close()
    assert run("export", tmp_path).exit_code == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix in (".parquet", ".jsonl")}

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    command = [sys.executable, "-m", "harness.cli", "export", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, preexec_fn=limited)

    assert (done.returncode, done.stdout) == (2, "")
    assert "cannot be written: File too large" in done.stderr
    now = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.suffix in (".parquet", ".jsonl")}
    assert now == before
    assert len(before["samples.jsonl"]) > 40_000
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_run_file_names_the_folder(tmp_path: Path) -> None:
    """The output folder is where the run file says."""
    found = run_of(tmp_path)
    found.out.mkdir()
    answered(found.out, found).close()

    assert run("export", tmp_path / "run.toml").exit_code == 0
    assert (found.out / SUMMARY).is_file()


def test_nothing_accepted_is_one(tmp_path: Path) -> None:
    """A run without a sample ends with status 1."""
    answered(tmp_path, run_of(tmp_path), {0: "wrong-usage"}).close()

    assert run("export", tmp_path).exit_code == 1
    assert run("export", tmp_path, "--layout", "specforge").exit_code == 1


def test_rejudge_with_other_habits(folder: Path) -> None:
    """Verdicts, samples and summary are of the new habits; the old files are replaced."""
    run("export", folder)
    (folder / "empty.toml").write_text("habits = []\n")

    result = run("rejudge", folder, "--habits", folder / "empty.toml", "--json")

    told = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [(row["was"], row["answers"]) for row in told["changes"]] == [
        ("rejected", 1), ("rejected", 1), ("unverified", 1), ("verified", 2),
    ]  # fmt: skip
    assert told["summary"]["samples"] == 0
    assert json.loads((folder / SUMMARY).read_bytes()) == told["summary"]
    back = [line.split() for line in run("rejudge", folder).stdout.splitlines() if "-> verified" in line]
    assert [(words[2], words[3]) for words in back] == [("verified", "2")]
    assert json.loads((folder / SUMMARY).read_bytes())["samples"] == 2


@RAY
def test_rejudge_on_a_cluster_prints_and_writes_the_same(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With other habits, one worker: the JSON, the samples and the summary of the local command, and nothing else."""
    other = tmp_path_factory.mktemp("far") / "run"
    (folder / "empty.toml").write_text("habits = []\n")
    shutil.copytree(folder, other)
    near = run("rejudge", folder, "--habits", folder / "empty.toml", "--json")

    far = run("rejudge", other, "--habits", other / "empty.toml", "--json", "--ray", "local")

    assert (far.exit_code, far.stdout) == (0, near.stdout)
    for name in (*FILES, SUMMARY):
        assert (other / name).read_bytes() == (folder / name).read_bytes()


def test_workers_are_of_a_cluster(folder: Path) -> None:
    """Without --ray they would do nothing: a wrong call, and the ledger stays as it is."""
    before = (folder / LEDGER).read_bytes()
    result = run("rejudge", folder, "--workers", "3")

    assert (result.exit_code, "--workers is of a cluster: add --ray" in result.stderr) == (2, True)
    assert (folder / LEDGER).read_bytes() == before


def test_rejudge_without_ray_or_a_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 2 and one line: what is missing and what to do; the ledger is as it was."""
    before = (folder / LEDGER).read_bytes()
    nowhere = run("rejudge", folder, "--ray", "127.0.0.1:1")
    for name in ("runners.scale", "runners.scale_rejudge"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    without = run("rejudge", folder, "--ray", "local")

    for result, said in (
        (nowhere, "--ray 127.0.0.1:1: no cluster answers there"),
        (without, "pip install 'tokenproof[ray]'"),
    ):
        assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (2, "", 1)
        assert said in result.stderr
    assert (folder / LEDGER).read_bytes() == before


@pytest.mark.parametrize("command", ["export", "rejudge"])
def test_wrong_calls(tmp_path: Path, command: str) -> None:
    """No folder, a folder without a ledger, a run file that names no folder: status 2 and a line."""
    for args in ([tmp_path / "none"], [tmp_path]):
        result = run(command, *args)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / LEDGER).exists()
    for odd in ("n" * 300, "/".join(["d" * 200] * 25), "a\0b", __file__ + "/x"):
        result = run(command, odd)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.endswith("; expected a run file or the output folder of a run\n")
    for text, said in (
        ("x = 1\n", "'out' is missing"),
        ("out = \n", "no TOML"),
        ("x = " + "[" * 5000, "it nests too deeply"),
        ('out = "a\\u0000"\n', "run.toml:1: out = "),
    ):
        (tmp_path / "run.toml").write_text(text)
        result = run(command, tmp_path / "run.toml")
        assert (result.exit_code, said in result.stderr) == (2, True)


OWN = (LEDGER, f"{LEDGER}-wal", f"{LEDGER}-shm", f"{LEDGER}.lock", "run.log", SUMMARY, *FILES)


def test_no_file_of_a_run_is_overwritten(tmp_path: Path) -> None:
    """Ledger, samples, log, run file and data files, there yet or not, by any path; and whatever else is there."""
    made = run_of(tmp_path)
    made.out.mkdir()
    answered(made.out, made).close()
    links = {tmp_path / "link": made.out / LEDGER, tmp_path / "data": tmp_path / "a.jsonl"}
    for link, what in links.items():
        link.symlink_to(what)
    (tmp_path / "hard").hardlink_to(made.out / LEDGER)
    (tmp_path / "notes.txt").write_text("mine\n")
    outs = [*(made.out / name for name in OWN), *links, tmp_path / "run.toml", tmp_path / "a.jsonl"]
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    for out in (*outs, tmp_path / "out" / ".." / "out" / LEDGER):
        result = run("export", tmp_path / "run.toml", "--layout", "specforge", "--out", out)
        assert (result.exit_code, "is a file of this run; choose another --out" in result.stderr) == (2, True), out
    for out in (tmp_path / "hard", tmp_path / "notes.txt", tmp_path / "a.jsonl"):
        result = run("export", made.out, "--layout", "specforge", "--out", out)
        assert (result.exit_code, "is no export of this layout" in result.stderr) == (2, True), out
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before

    for _ in range(2):
        assert run("export", tmp_path / "run.toml", "--layout", "specforge", "--out", tmp_path / "x").exit_code == 0


def test_wrong_layouts(folder: Path) -> None:
    """An unknown one names those that there are; samples have their own names."""
    for args, said in (
        (["--layout", "x"], "no layout 'x'; the layouts are samples, specforge"),
        (["--out", "y"], "leave --out out"),
    ):
        result = run("export", folder, *args)
        assert (result.exit_code, said in result.stderr) == (2, True)
