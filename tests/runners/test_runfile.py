"""runners.runfile: a run file is read whole or refused with every fault and its line."""

import json
from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.transport import OPENROUTER
from runners.runfile import load_run, out_of
from runners.runfile_faults import line_of
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_of, run_text

FULL = """\
model = "moonshotai/kimi-k2.5"
thinking = false
max_tokens = 4096
budget_usd = 100
out = "runs/one"
concurrency = 256
ticket = "gate.json"
base_url = "http://127.0.0.1:9/api/v1/"
sampling = { temperature = 1.0, top_p = 0.95, seed = 7 }

[provider]
order = ["siliconflow/int4"]
allow_fallbacks = false
quantizations = ["int4"]

[quality]
max_rejected = 0.1

[[data]]
path = "a.jsonl"
limit = 10
tokens = 20_000

[[data]]
name = "other"
path = "a.jsonl"
ignore = ["source"]
"""


def faults(folder: Path, text: str, **how: str) -> list[str]:
    """What is said of a run file, a line a fault, without its folder."""
    with pytest.raises(SetupError) as caught:
        run_of(folder, text=text, **how)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def test_every_key_arrives(tmp_path: Path) -> None:
    """A whole file: values as typed, paths relative to the file's folder, defaults where nothing is said."""
    run = run_of(tmp_path, text=FULL)

    assert (run.model, run.format.name, run.thinking) == ("moonshotai/kimi-k2.5", "kimi-k2.5", False)
    assert (run.max_tokens, run.budget_usd, run.concurrency) == (4096, 100.0, 256)
    assert (run.out, run.ticket) == (tmp_path / "runs/one", tmp_path / "gate.json")
    assert run.base_url == "http://127.0.0.1:9/api/v1"
    assert dict(run.sampling) == {"temperature": 1.0, "top_p": 0.95, "seed": 7}
    assert dict(run.provider) == {
        "order": ["siliconflow/int4"], "allow_fallbacks": False, "quantizations": ["int4"],
    }  # fmt: skip
    assert (run.pins, run.max_rejected, run.window) == (("siliconflow/int4",), 0.1, 200)
    first, second = run.data_sets
    assert (first.name, first.path, first.limit, first.tokens) == ("a", tmp_path / "a.jsonl", 10, 20_000)
    assert (second.name, second.limit, second.tokens, second.ignore) == ("other", None, None, {"source"})


def test_defaults(tmp_path: Path) -> None:
    """What may be left out: OpenRouter, 64 in flight, no ticket, no sampling."""
    run = run_of(tmp_path)

    assert (run.base_url, run.concurrency, run.ticket, dict(run.sampling)) == (OPENROUTER, 64, None, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (run_text(modle='"x"'), "run.toml:6: unknown key 'modle'; the keys are model, thinking, max_tokens"),
        (run_text(model=None), "run.toml:1: 'model' is missing; expected a model id"),
        (run_text(model='"gpt-4"'), "run.toml:1: model 'gpt-4': no one format covers it; the formats are kimi-k2.5"),
        (run_text(thinking=None), "run.toml:1: thinking is not said, and every id depends on it; format kimi-k2.5 has"),
        (run_text(max_tokens="0"), "run.toml:3: max_tokens = 0; expected the longest answer"),
        (run_text(max_tokens="true"), "run.toml:3: max_tokens = true; expected the longest answer"),
        (run_text(budget_usd="inf"), "run.toml:4: budget_usd = Infinity; expected the most that may be spent"),
        (run_text(budget_usd='"5"'), 'run.toml:4: budget_usd = "5"; expected the most that may be spent'),
        (run_text(concurrency="5000"), "run.toml:6: concurrency = 5000; expected requests in flight"),
        (run_text(ONE), "run.toml:1: 'provider' is missing; expected a table that names the providers"),
        (run_text(PROVIDER), "run.toml:1: 'data' is missing; expected a data set or more"),
        (run_text(PROVIDER, "[data]\npath='a.jsonl'\n"), 'run.toml:9: data = {"path": "a.jsonl"}; expected a data set'),
        (
            run_text("[provider]\norder = ['chutes']\n", ONE),
            "run.toml:6: it admits every provider; name them: only = [...], or order = [...] with allow",
        ),
        (run_text("[provider]\nonly = []\n", ONE), "run.toml:7: only = [] in [provider]; expected tags or slugs"),
        (
            run_text("[provider]\nonlee = ['a']\n", ONE),
            "run.toml:7: unknown key 'onlee' in [provider]; the keys are only",
        ),
        (
            run_text(PROVIDER, ONE, "[sampling]\nstop = ['x']\n"),
            "run.toml:12: unknown key 'stop' in [sampling]; the keys are temperature",
        ),
        (
            run_text(PROVIDER, ONE, "[sampling]\ntemperature = 3\n"),
            "run.toml:12: temperature = 3 in [sampling]; expected a number from 0 to 2",
        ),
        (run_text(PROVIDER, ONE, "[[data]]\npath = 'b.jsonl'\n"), "run.toml:12: no file 'b.jsonl'; paths are relative"),
        (run_text(PROVIDER, ONE, ONE), "run.toml:11: two data sets are called 'a'; give one a name of its own"),
        (run_text(PROVIDER, ONE, "[[data]]\nlimit = 3\n"), "run.toml:11: 'path' is missing in [data]"),
        (run_text(PROVIDER, ONE + "name = '../x'\n"), "run.toml:11: the name '../x'; expected letters, digits"),
        (run_text(PROVIDER, ONE + "size = 3\n"), "run.toml:11: unknown key 'size' in [data]; the keys are path"),
        (
            run_text(PROVIDER + "max_price = {foo = 1}\n", ONE),
            "run.toml:9: unknown key 'foo' in [provider.max_price]; the keys are prompt, completion, request, image",
        ),
        (
            run_text(PROVIDER + "[provider.max_price]\ncompletion = 3\nprompts = 1\n", ONE),
            "run.toml:11: unknown key 'prompts' in [provider.max_price]; the keys are prompt",
        ),
        (
            run_text(PROVIDER + 'max_price = {prompt = 1, completion = "3"}\n', ONE),
            'run.toml:9: completion = "3" in [provider.max_price]; expected USD a million tokens, a number from 0',
        ),
        (
            run_text(PROVIDER + "max_price.request = -1\n", ONE),
            "run.toml:9: request = -1 in [provider.max_price]; expected USD a request, a number from 0",
        ),
        (run_text(PROVIDER + "max_price = {}\n", ONE), "run.toml:9: max_price = {} in [provider]; expected a table of"),
        (
            run_text(PROVIDER + 'ignore = ["x", "Chutes/INT4"]\n', ONE),
            "run.toml:9: chutes/int4 stands in only, and ignore = 'Chutes/INT4' takes it out; leave it out of one",
        ),
        (
            run_text('[provider]\norder = ["a/fp8"]\nallow_fallbacks = false\nignore = ["a"]\n', ONE),
            "run.toml:9: a/fp8 stands in order, and ignore = 'a' takes it out; leave it out of one",
        ),
        ("model = \n", "run.toml: no TOML: Invalid value (at line 1, column 9)"),
        (
            "x = " + "[" * 5000 + "]" * 5000 + "\n",
            "run.toml: no TOML: it nests too deeply; see `tokenproof plan --help`",
        ),
        (run_text(max_tokens="1" * 5000), "run.toml: no TOML: Exceeds the limit (4300 digits)"),
        (run_text(max_tokens="0x" + "f" * 6000), "run.toml:3: max_tokens = a int too large to show; expected the long"),
        (
            "model" + ".a" * 20_000 + " = 1\n" + run_text(model=None),
            "run.toml:1: model = a dict too large to show; exp",
        ),
        (run_text(budget_usd="1" + "0" * 400), "run.toml:4: budget_usd = 1000"),
        (run_text(PROVIDER, ONE, f"[sampling]\ntemperature = 1{'0' * 400}\n"), "run.toml:12: temperature = 1000"),
    ],
)
def test_each_fault_is_told_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    """What came, what was expected, and where; a fault does not drag other messages in."""
    told = faults(tmp_path, text)

    assert [line[: len(expected)] for line in told] == [expected]


NAME, PATH = "n" * 256, "/".join(["d" * 200] * 25)
ODD = [
    pytest.param("\\u0000", "a NUL or half a character in it", id="nul"),
    pytest.param(NAME, "File name too long", id="long-name"),
    pytest.param(f"nowhere/{NAME}", "File name too long", id="long-name-in-no-folder"),
    pytest.param(PATH, "File name too long", id="long-path"),
    pytest.param("a.jsonl/x", "Not a directory", id="below-a-file"),
]


@pytest.mark.parametrize(("odd", "why"), ODD)
def test_a_path_that_no_system_takes_is_told_with_file_and_key(tmp_path: Path, odd: str, why: str) -> None:
    """Of the output folder, the ticket and a data set alike; the folder alone is refused as the whole file is."""
    data = f'[[data]]\nname = "a"\npath = "{odd}"\n'
    told = {
        "out": (5, faults(tmp_path, run_text(out=f'"{odd}"'))),
        "ticket": (6, faults(tmp_path, run_text(ticket=f'"{odd}"'))),
        "path": (11, faults(tmp_path, run_text(PROVIDER, data))),
    }

    for key, (at, lines) in told.items():
        assert len(lines) == 1
        assert lines[0].startswith(f'run.toml:{at}: {key} = "{odd[:50]}')
        assert lines[0].endswith(f": {why}; expected a path that this system takes")
    (tmp_path / "run.toml").write_text(run_text(out=f'"{odd}"'))
    with pytest.raises(SetupError, match=rf"run\.toml:5: out = .*: {why}; expected"):
        out_of(tmp_path / "run.toml")


@pytest.mark.parametrize("name", ["a\0b", "n" * 256, "/".join(["d" * 200] * 25)])
def test_typed_paths_that_no_system_takes(tmp_path: Path, name: str) -> None:
    """The run file itself, the scoreboard and the ticket: told, whatever else is wrong."""
    for how in ({"ticket": name}, {"scoreboard": name}):
        assert name[:50] in faults(tmp_path, run_text(ONE if "scoreboard" in how else PROVIDER + ONE), **how)[0]
    with pytest.raises(SetupError, match=r"cannot be read: .*; expected a run file"):
        load_run(name)


def test_all_faults_at_once(tmp_path: Path) -> None:
    """Four faults in four tables are four lines."""
    text = run_text("x = 1\n", "[provider]\nonly = ['a']\ny = 2\n", "[quality]\nwindow = 0\n", "[[data]]\npath = 'q'\n")

    assert [line.partition(": ")[0] for line in faults(tmp_path, text)] == [f"run.toml:{n}" for n in (6, 9, 11, 13)]


def test_a_family_with_one_mode_needs_no_switch(tmp_path: Path) -> None:
    """K2-Thinking always thinks; saying that it does not is a fault."""
    name = '"moonshotai/kimi-k2-thinking"'

    assert run_of(tmp_path, text=run_text(model=name, thinking=None)).thinking is True
    assert faults(tmp_path, run_text(model=name, thinking="false"))[0].startswith(
        "run.toml:2: thinking is False, and every id depends on it; format kimi-k2-thinking has true"
    )


def test_a_base_url_is_said_once(tmp_path: Path) -> None:
    """The same twice is fine, two different ones are refused: nobody should pay the wrong host."""
    text = run_text(base_url='"http://127.0.0.1:1/api/v1"')

    assert run_of(tmp_path, text=text, base_url="http://127.0.0.1:1/api/v1/").base_url == "http://127.0.0.1:1/api/v1"
    assert run_of(tmp_path, base_url="http://127.0.0.1:2/v1").base_url == "http://127.0.0.1:2/v1"
    assert faults(tmp_path, text, base_url=OPENROUTER) == [
        f"run.toml:6: base_url is 'http://127.0.0.1:1/api/v1' here and '{OPENROUTER}' by --base-url or "
        "TOKENPROOF_BASE_URL; leave one out"
    ]


def test_prices_and_other_variants_may_stand_there(tmp_path: Path) -> None:
    """What is written of max_price is what is sent; a variant may be ignored of a provider that is asked for."""
    more = 'ignore = ["chutes/fp8"]\nmax_price = {completion = 3.0, request = 0, image = 1, audio = 2, prompt = 1}\n'
    provider = run_of(tmp_path, text=run_text(PROVIDER + more, ONE)).provider

    assert provider["max_price"] == {"completion": 3.0, "request": 0, "image": 1, "audio": 2, "prompt": 1}
    assert provider["ignore"] == ["chutes/fp8"]


def test_a_typed_ticket_goes_first(tmp_path: Path) -> None:
    """--ticket is relative to where it is typed, the file's own to its folder."""
    text = run_text(ticket='"t/gate.json"')

    assert run_of(tmp_path, text=text).ticket == tmp_path / "t/gate.json"
    assert run_of(tmp_path, text=text, ticket="other.json").ticket == Path("other.json")


@pytest.mark.parametrize("wrapped", [True, False])
def test_the_provider_block_of_a_scoreboard(tmp_path: Path, wrapped: bool) -> None:
    """It stands in for the run file's own, is checked as strictly, and never stands beside it."""
    block = {"only": ["chutes/int4"], "allow_fallbacks": False, "quantizations": ["int4"]}
    board = tmp_path / "board.json"
    board.write_text(json.dumps({"provider": block} if wrapped else block))

    assert dict(run_of(tmp_path, text=run_text(ONE), scoreboard=str(board)).provider) == block
    assert faults(tmp_path, run_text(), scoreboard=str(board)) == [
        "run.toml:6: it has a provider table, and --from-scoreboard gives another; leave one out"
    ]
    board.write_text(json.dumps(block | {"sort": "best"}))
    assert faults(tmp_path, run_text(ONE), scoreboard=str(board)) == [
        'board.json: sort = "best" in [provider]; expected price, throughput or latency'
    ]
    board.write_text(json.dumps(block | {"max_price": {"input": 1}}))
    assert faults(tmp_path, run_text(ONE), scoreboard=str(board))[0].startswith(
        "board.json: unknown key 'input' in [pr"
    )


def test_a_scoreboard_of_another_run(tmp_path: Path) -> None:
    """It says which model and place it is of: another one is a fault of each."""
    block = {"only": ["chutes/int4"], "allow_fallbacks": False}
    board = tmp_path / "board.json"
    board.write_text(json.dumps({"provider": block, "model": "m", "base_url": "http://127.0.0.1:1/v1", "left_out": []}))

    told = faults(tmp_path, run_text(ONE), scoreboard=str(board))
    assert [line.partition(" is ")[0] for line in told] == ["run.toml:1: model", "run.toml:1: base_url"]
    assert "m in" in told[0]
    board.write_text(json.dumps({"provider": block, "model": "moonshotai/kimi-k2.5", "base_url": OPENROUTER}))
    assert run_of(tmp_path, text=run_text(ONE), scoreboard=str(board)).pins == ("chutes/int4",)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"answers": 3}', '{"provider": []}', '{"only": ["chutes"], "only": ["novita"]}', "{" * 100_000]
)
def test_what_is_no_scoreboard(tmp_path: Path, text: str) -> None:
    """A file without a provider block is named."""
    (tmp_path / "board.json").write_text(text)

    (told,) = faults(tmp_path, run_text(ONE), scoreboard=str(tmp_path / "board.json"))
    assert told.startswith("board.json: no ")
    assert told.endswith("; expected a scoreboard, the JSON file of `tokenproof providers --write FILE`")


@pytest.mark.parametrize(("name", "data"), [("none", None), ("n" * 300, None), (".", None), ("latin", b"\xff{}")])
def test_a_scoreboard_that_cannot_be_read(tmp_path: Path, name: str, data: bytes | None) -> None:
    """It says what a scoreboard is, and speaks of no run file."""
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(SetupError) as error:
        run_of(tmp_path, text=run_text(ONE), scoreboard=str(tmp_path / name))
    assert str(error.value).endswith("; expected a scoreboard, the JSON file of `tokenproof providers --write FILE`")


def test_the_mark_at_the_start_of_a_file_is_passed_over(tmp_path: Path) -> None:
    """Some editors write one; Windows line ends are read too."""
    path = run_of(tmp_path).path
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))

    assert load_run(path).max_tokens == 100


def test_files_that_are_no_run_files(tmp_path: Path) -> None:
    """Missing, binary, too long."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_bytes(b"#" * (1 << 20) + b"\n")

    for name, said in (("none", "cannot be read"), ("binary", "not UTF-8"), ("long", "more than 1 MiB")):
        with pytest.raises(SetupError, match=said):
            load_run(tmp_path / name)


def test_the_output_folder_alone(tmp_path: Path) -> None:
    """What is written from a ledger needs no data sets: they may be gone."""
    (tmp_path / "run.toml").write_text('out = "runs/one"\nnonsense = 1\n')

    assert out_of(tmp_path / "run.toml") == tmp_path / "runs/one"


def test_lines_of_keys() -> None:
    """Tables of one name are told apart; a key in an inline table has the line of the table."""
    text = 'a = 1\nt = { b = 2 }\n[[d]]\nx = 1\n\n[[d]]\nx = 2\n[p."q"]\nx = 3\n'

    assert [line_of(text, "a"), line_of(text, "t"), line_of(text, "b", "t")] == [1, 2, 2]
    assert [line_of(text, "x", "d", k) for k in (0, 1)] == [4, 7]
    assert (line_of(text, "y", "d", 1), line_of(text, "y", "none")) == (6, 0)


@pytest.mark.parametrize("name", ["samples.jsonl", "rejected.parquet", "ledger.sqlite3-wal", "run.log"])
def test_a_data_set_that_the_run_would_overwrite_is_refused(tmp_path: Path, name: str) -> None:
    """Beside the run file, where `out` is its folder: the prompts would be lost at the first export."""
    data_file(tmp_path, {"prompt": "hi"}, name=name)
    text = run_text(PROVIDER, f'[[data]]\npath = "{name}"\n', out='"."')
    with pytest.raises(SetupError, match=f"run.toml:.*{name}, which the run itself writes"):
        run_of(tmp_path, text=text)
    run_of(tmp_path, text=text.replace('"."', '"out"'))
