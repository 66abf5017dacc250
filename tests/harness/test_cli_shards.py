"""harness.cli_shards: what is printed, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from harness import cli
from runners.shards import Kept, write_shard
from tests.runners.states_kit import arithmetic, sample
from tests.runners.test_shard_reading import ABOUT, folder_of


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, ["shards", *map(str, args)])


def damage(folder: Path) -> None:
    """A byte of the last shard flipped."""
    path = folder / "shard-000002.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def test_verify_says_what_is_good(tmp_path: Path) -> None:
    """A line a shard and a sum; exit code 0."""
    folder_of(tmp_path)
    result = run("verify", tmp_path)

    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("good  shard-000000: 4 samples, ")
    assert lines[-1] == "3 shards, 9 samples: 0 shards bad, 0 faults between shards"


def test_verify_finds_a_flipped_byte(tmp_path: Path) -> None:
    """Named on its line, in words and as JSON; exit code 1."""
    folder_of(tmp_path)
    damage(tmp_path)
    result, as_json = run("verify", tmp_path), run("verify", tmp_path, "--json")

    assert (result.exit_code, as_json.exit_code) == (1, 1)
    assert "bad   shard-000002: 1 samples" in result.stdout
    assert "      shard-000002.safetensors: loss_mask: its bytes are not those that were written" in result.stdout
    rows = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [len(row["problems"]) for row in rows] == [0, 0, 1]


def test_verify_finds_what_does_not_fit_between_shards(tmp_path: Path) -> None:
    """Every shard whole, one sample twice: exit code 1. Tensors without a manifest are told on stderr."""
    rows = folder_of(tmp_path)
    write_shard(tmp_path, 3, rows[:1], ABOUT)
    (tmp_path / "shard-000004.safetensors").touch()
    result = run("verify", tmp_path)

    assert result.exit_code == 1
    assert "bad   sample 's0' stands 2 times" in result.stdout
    assert "shard-000004.safetensors has no manifest" in result.stderr


def test_verify_misses_a_shard_that_is_gone(tmp_path: Path) -> None:
    """Tensors and manifest: its samples are named, exit code 1; so it is where no shard is left."""
    folder_of(tmp_path)
    for number, left in ((2, 2), (1, 1), (0, 0)):
        for path in tmp_path.glob(f"shard-00000{number}.*"):
            path.unlink()
        result = run("verify", tmp_path)
        assert result.exit_code == 1
        assert "'s8'" in result.stdout or number < 2
        assert f"{left} shards, {4 * left} samples: 0 shards bad, 1 faults between shards" in result.stdout


@pytest.mark.parametrize("command", ["verify", "ls"])
def test_no_folder_ends_with_two(tmp_path: Path, command: str) -> None:
    """A sentence on stderr."""
    result = run(command, tmp_path / "none")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected a folder of shards" in result.stderr


def test_ls_lists_shards_samples_and_runs(tmp_path: Path) -> None:
    """From the manifests alone: a damaged tensor does not matter here."""
    folder_of(tmp_path)
    damage(tmp_path)

    table, lines, rows = (run("ls", tmp_path, *more).stdout.splitlines() for more in ([], ["--samples"], ["--json"]))

    assert table[0].split() == ["shard", "back", "end", "samples", "tokens", "bytes", "dtype", "and", "layers"]
    assert table[3].endswith("fp32, 2, 4, 5 and post 8")
    assert [line.split(":")[0] for line in lines[3:5]] == ["shard-000000  s3", "shard-000001  s4"]
    assert [len(json.loads(row)["samples"]) for row in rows] == [4, 4, 1]
    assert json.loads(rows[0])["run"]["layers"]["aux"] == [2, 4, 5]


def test_ls_of_a_folder_without_shards_ends_with_two(tmp_path: Path) -> None:
    """Nothing printed would look like a folder that was looked through."""
    result = run("ls", tmp_path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no shard in it" in result.stderr


@pytest.mark.parametrize("more", [[], ["--samples"], ["--json"]])
def test_ls_lists_the_others_beside_a_bad_manifest(tmp_path: Path, more: list[str]) -> None:
    """Which is named; exit code 1."""
    folder_of(tmp_path)
    (tmp_path / "shard-000001.json").write_text("{}")
    result = run("ls", tmp_path, *more)
    assert result.exit_code == 1
    assert "shard-000000" in result.stdout
    assert "shard-000002" in result.stdout
    assert f"{tmp_path}/shard-000001.json is no manifest" in result.stderr


def test_sample_shows_ids_with_pieces_and_mask(tmp_path: Path) -> None:
    """For eyes, as JSON, and as a file of its own."""
    one = sample("chat/1", [163_587, 2482], [19, 13], [0, 1])
    write_shard(tmp_path, 0, [Kept(one, arithmetic(one.ids))], ABOUT)

    text = run("sample", tmp_path, "chat/1", "--out", tmp_path / "one.safetensors").stdout.splitlines()
    told = json.loads(run("sample", tmp_path, "chat/1", "--json").stdout)

    assert text[0] == "chat/1: rows 0 to 4 of shard-000000"
    assert "aux_hidden_states: F32 [4, 3, 4]" in text
    assert text[-4:] == [
        "     0  163587  0  <|im_user|>",
        "     1    2482  0  'user'",
        "     2      19  0  '4'",
        "     3      13  1  '.'",
    ]
    assert (told["input_ids"], told["loss_mask"], told["rows"]) == ([163_587, 2482, 19, 13], [0, 0, 0, 1], [0, 4])
    assert (told["id"], told["n_unmasked"], told["side_file"]) == ("chat/1", 1, None)
    assert load_file(tmp_path / "one.safetensors")["hidden_states"].shape == (4, 4)
    assert run("sample", tmp_path, "chat/2").exit_code == 2


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    """A machine that only keeps the shards can verify them."""
    folder_of(tmp_path)
    code = (
        "import sys; sys.modules['torch'] = None; from harness import cli; cli.app(['shards', 'verify', sys.argv[1]])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
