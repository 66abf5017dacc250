"""harness.cli_roundtrip: what is measured in golden files, and what is said of files that are none."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness import cli
from tests.conftest import ROOT

PLAIN = ROOT / "golden/sglang-0.5.23-generate/plain.json"
SOUND = {"name": "x", "engine": "e", "source": "s", "prompt_ids": [1], "true_ids": [2]}


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, ["golden", *map(str, args)])


def test_roundtrip_of_the_shipped_goldens() -> None:
    """By source and kind, repeats left out, with every non-canonical place."""
    result = run("roundtrip", ROOT / "golden")

    assert result.exit_code == 0
    assert "20 of 24 sequences come back as they were sampled, 96 goldens repeat one of them" in result.stdout
    assert "23 of 24 sequences come back as they were sampled, 72 goldens repeat one of them" in result.stdout
    place = "vllm-0.32.0/d26_bytes_noncanon.notools at 26, content: 5816 'hel' 773 'lo'; canonical: 22931 'hello'"
    assert place in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.startswith("arguments"))
    assert row.split() == ["arguments", "16", "15", "133", "6", "0", "0", "45112.8"]


def test_roundtrip_as_json() -> None:
    """One object with a group a source."""
    result = run("roundtrip", ROOT / "golden/sglang-0.5.23-generate", "--json")

    told = json.loads(result.stdout)
    (group,) = told["groups"]
    assert (told["unusable"], group["engine"], group["sequences"], group["repeats"]) == (0, "SGLang 0.5.23", 24, 0)
    assert (group["equal"], group["places"]) == (20, 12)
    assert group["rate"] == group["places"] / group["ids"]
    assert len(group["non_canonical"]) == 12


def sound(**fields: Any) -> bytes:
    """A golden with these fields instead."""
    value = {key: item for key, item in (SOUND | fields).items() if item is not ...}
    return json.dumps(value).encode()


EXPECTED = "; expected an object with name, engine, source, prompt_ids, true_ids; `tokenproof golden capture` writes"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}", "x.json is no golden file: the field 'name' is missing among an empty object" + EXPECTED),
        (sound(true_ids=...), "the field 'true_ids' is missing among an object with the keys engine, name"),
        (sound(true_ids=5), "the field 'true_ids' is int 5, expected list"),
        (sound(name=5), "the field 'name' is int 5, expected str"),
        (sound(source=None), "the field 'source' is null, expected str"),
        (sound(true_ids=[1, 163840]), "true_ids[1] is int 163840, expected an id in 0..163839"),
        (sound(true_ids=[True]), "true_ids[0] is bool True, expected an id"),
        (sound(prompt_ids=["1"]), "prompt_ids[0] is str '1', expected an id"),
        (sound(response=5), "`response` is int 5; expected a body"),
        (sound(response={"choices": []}, request=5), "the field 'request' is int 5; expected dict or null"),
        (b"[1]", "it holds a list of 1, int first" + EXPECTED),
        (b"notes", "x.json is no golden file: no JSON"),
        (b"", "x.json is no golden file: no JSON"),
        (b"\x89PNG\xff", "x.json is no golden file: no JSON"),
        (gzip.compress(b"{}")[:-9], "x.json cannot be read: "),
    ],
)
def test_what_is_no_golden_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    """What came, what was expected, what to do, in no programmer's words; exit code 2, and the rest is measured."""
    (tmp_path / "x.json").write_bytes(data)

    result = run("roundtrip", tmp_path, PLAIN, "--json")

    assert result.exit_code == 2
    assert words in result.stderr
    assert "Error(" not in result.stderr
    assert result.stderr.count("\n") == 1
    told = json.loads(result.stdout)
    assert (told["unusable"], [group["sequences"] for group in told["groups"]]) == (1, [1])


def test_paths_that_hold_nothing(tmp_path: Path) -> None:
    """A file that is not there cannot be read; a folder without a golden is named."""
    (tmp_path / "x.txt").write_text("")

    absent, folder = run("roundtrip", tmp_path / "absent.json"), run("roundtrip", tmp_path)

    expected = "absent.json cannot be read: No such file or directory; expected a golden file or a folder of them"
    assert absent.stderr == f"tokenproof: {tmp_path}/{expected}\n"
    assert folder.stderr.startswith(f"tokenproof: {tmp_path}: a folder without a golden; expected files such as NAME")
    assert (absent.exit_code, folder.exit_code) == (2, 2)


def test_packed_goldens_are_read(tmp_path: Path) -> None:
    """By themselves and in a folder, as every other file of ours."""
    path = tmp_path / "plain.json.gz"
    path.write_bytes(gzip.compress(PLAIN.read_bytes()))

    assert run("roundtrip", path).stdout == run("roundtrip", tmp_path).stdout == run("roundtrip", PLAIN).stdout != ""
