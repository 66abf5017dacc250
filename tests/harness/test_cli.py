"""harness.cli: arguments in, lines and exit codes out; the judge is the real one unless a test says otherwise."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from harness import cli, cli_base
from harness.errors import ProviderError, SetupError
from harness.flow import Kit
from harness.store import read_golden
from harness.types import Exchange, Verdict
from tests.conftest import ROOT

PLAIN = ROOT / "golden/sglang-0.5.23/plain.chat_notools.json"
TOOL = ROOT / "golden/vllm-0.32.0/d06_tool1_compact.tools.json"
BODY = {"choices": [{"message": {"content": "Hi"}}]}
COMMAND = [sys.executable, "-m", "harness.cli"]


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, list(map(str, args)))


def rows(*args: str | Path) -> list[dict[str, Any]]:
    """What `check --json` prints."""
    return [json.loads(line) for line in run("check", "--json", *args).stdout.split("\n") if line]


@pytest.fixture
def jsonl(tmp_path: Path) -> Path:
    """A good line, a broken one, a blank one, one more: good again, with a name."""
    path = tmp_path / "a.jsonl"
    good = json.loads(PLAIN.read_bytes())
    unnamed = {key: value for key, value in good.items() if key != "name"}
    path.write_text("\n".join([json.dumps(unnamed), "{broken", "", json.dumps(good)]) + "\n")
    return path


def numbers(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Each option of the program that takes a number with a point, behind its command's name."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from numbers(inner, (*path, name))
    for param in command.params:
        if param.type.name in ("float", "float range"):
            yield (*path, param.opts[0])


def test_no_number_may_be_nan_or_infinite() -> None:
    """NaN is within no bound, and no comparison keeps it out: every such option of every command is a wrong call."""
    found = list(numbers(get_command(cli.app)))
    own = ("golden", "capture", "--timeout")  # has bounds in words of its own, and a test of them
    assert {("extract", "--min-agreement"), ("gate", "--max-age"), own} <= set(found)
    for args in found:
        if args == own:
            continue
        for value in ("nan", "inf", "-inf"):
            result = CliRunner().invoke(cli.app, [*args, value])
            assert (result.exit_code, result.stdout) == (2, ""), (args, value)
            assert args[-1] in result.stderr
        assert "nan is no finite number" in CliRunner().invoke(cli.app, [*args, "nan"]).stderr


def test_a_golden_is_verified_with_its_true_ids() -> None:
    """The whole way, from a file to ids: they are the recorded ones, the mask has their length, exit code 0."""
    (row,) = rows(PLAIN, "--blind")

    assert row["verdict"] == "verified"
    assert row["ids"] == list(read_golden(PLAIN).true_ids)
    assert len(row["origins"]) == len(row["loss_mask"]) == row["n_ids"] == len(row["ids"])
    assert set(row["origins"]) <= {"reported", "matched", "template", "canonical", "inferred"}
    assert (row["premise"], row["format"], row["thinking"]) == ("count", "kimi-k2.5", True)
    assert len(row["habits_sha256"]) == 64
    assert run("check", PLAIN, "--blind").exit_code == 0


@pytest.mark.parametrize("key", ["true_ids", "prompt_ids", "output_ids", "variant", "dialogue", "pieces"])
def test_a_lines_own_truth_is_never_read(tmp_path: Path, key: str) -> None:
    """With other true ids, or none, every word of the output is the same."""
    value = json.loads(TOOL.read_bytes())
    outputs = []
    for n, truth in enumerate([value.get(key), [1, 2, 3], None]):
        (tmp_path / str(n)).mkdir()
        (tmp_path / str(n) / "g.json").write_text(json.dumps(value | {key: truth}))
        outputs.append(run("check", "--json", tmp_path / str(n) / "g.json").stdout)

    assert outputs[0] == outputs[1] == outputs[2] != ""


def test_one_output_line_an_input_line(jsonl: Path) -> None:
    """In order, the broken line too: verdict null and an error; blank lines are no input. Exit code 2."""
    got = rows(jsonl)

    assert [(r["name"], r["verdict"]) for r in got] == [
        (f"{jsonl}:1", "verified"),
        (f"{jsonl}:2", None),
        ("sglang-0.5.23/plain.chat_notools", "verified"),
    ]
    assert got[0]["ids"] == got[2]["ids"] != []
    assert got[1]["error"].startswith("no JSON")
    result = run("check", jsonl)
    assert result.exit_code == 2
    assert f"tokenproof: {jsonl}:2: no JSON" in result.stderr
    assert "1 inputs are no answers" in result.stdout


def test_lines_and_table(jsonl: Path) -> None:
    """A line an answer, then a table per (model, provider); --quiet leaves the table."""
    full, quiet = run("check", jsonl).stdout, run("check", jsonl, "--quiet").stdout

    assert full.splitlines()[0].startswith(f"verified   {jsonl}:1: 21 ids, bill 21")
    assert full.endswith(quiet)
    header, row = quiet.strip().splitlines()[:2]
    assert header.split()[:4] == ["model", "provider", "answers", "exact"]
    assert row.split()[:3] == ["kimi-k2.5", "sglang-0.5.23", "2"]


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [("exact verified", 0), ("exact unverified", 3), ("unverified rejected", 1), ("rejected !", 2)],
)
def test_exit_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdicts: str, code: int) -> None:
    """0 all proven, 3 something unverified, 1 something rejected, 2 an input that is no answer."""
    answers: Iterator[str] = iter([v for v in verdicts.split() if v != "!"])
    monkeypatch.setattr(cli_base, "judge", lambda *a, **k: Verdict(next(answers)))  # type: ignore[arg-type]
    (tmp_path / "a.jsonl").write_text("\n".join("{" if v == "!" else json.dumps(BODY) for v in verdicts.split()))

    assert run("check", tmp_path / "a.jsonl").exit_code == code


def test_flags_reach_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """--model, --as and --blind arrive as they are typed; --habits brings its own hash."""
    seen = []

    def judge(exchange: Exchange, kit: Kit, **flags: Any) -> Verdict:
        seen.append((flags, len(kit.habits.lines)))
        return Verdict("rejected")

    monkeypatch.setattr(cli_base, "judge", judge)
    run("check", PLAIN, "--model", "kimi-k2.6", "--as", "unknown", "--blind")

    assert seen[0][0] == {"model": "kimi-k2.6", "provider": "unknown", "blind": True}
    assert seen[0][1] > 0


def test_other_habits_are_named_by_their_hash(tmp_path: Path) -> None:
    """Empty habits know nothing: the answer is unverified, and the row says which file that was."""
    habits = tmp_path / "none.toml"
    habits.write_text("")

    (shipped,), (other,) = rows(PLAIN, "--blind"), rows(PLAIN, "--blind", "--habits", habits)

    assert (shipped["verdict"], other["verdict"]) == ("verified", "unverified")
    assert other["habits_sha256"] == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read: No such file"), (b"\xff\xfe", "not UTF-8"), (b"a = [", "h.toml"), (b"x = 1", "h.toml")],
)
def test_habits_that_are_none(tmp_path: Path, content: bytes | None, words: str) -> None:
    """A wrong habits file ends the command before any verdict, with its name and exit code 2."""
    if content is not None:
        (tmp_path / "h.toml").write_bytes(content)

    result = run("check", PLAIN, "--habits", tmp_path / "h.toml")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (SetupError("vocabulary lost"), 2, "tokenproof: vocabulary lost"),
        (ProviderError("odd answer"), 2, "a.jsonl:1: odd answer"),
        (
            ZeroDivisionError("x"),
            2,
            "a.jsonl:1: a bug of tokenproof, please report it with this input: ZeroDivisionError: x",
        ),
        (RecursionError("deep"), 2, "RecursionError: deep"),
    ],
)
def test_faults_while_judging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, words: str
) -> None:
    """Our own wrong inputs end the run; anything else is named, and the next answer is still judged."""
    answers = iter([error, Verdict("exact")])

    def judge(*_: Any, **__: Any) -> Verdict:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(cli_base, "judge", judge)
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(BODY)}\n{json.dumps(BODY)}")
    result = run("check", tmp_path / "a.jsonl")

    assert result.exit_code == code
    assert words in result.stderr
    assert ("exact " in result.stdout) == (not isinstance(error, SetupError))


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["check"], 2, "Missing argument"),
        (["check", "x", "--mode"], 2, "No such option"),
        (["chek", "x"], 2, "No such command"),
        (["check", "/nonexistent/x"], 2, "/nonexistent/x: cannot be read: No such file"),
        (["show", "x", "--line", "0"], 2, "--line"),
        (["show", str(PLAIN), "--line", "7"], 2, "no answer with this name or line"),
        (["show", "/nonexistent/x"], 2, "/nonexistent/x: cannot be read"),
        (["--version"], 0, "tokenproof 0."),
        (["check", "--help"], 0, "tokenproof check answer.json"),
        (["show", "--help"], 0, "tokenproof show answer.json"),
        (["--help"], 0, "show"),
    ],
)
def test_calls(args: list[str], code: int, words: str) -> None:
    """Wrong calls say what is wrong; every command's help has examples."""
    result = run(*args)

    assert result.exit_code == code
    assert words in result.output


def test_check_reads_all_kinds_in_one_go(tmp_path: Path) -> None:
    """A body, SSE text, packed JSONL, a cassette and a folder, each judged, in the order of the call."""
    (tmp_path / "b.json").write_text(json.dumps(BODY | {"model": "moonshotai/kimi-k2.5"}, indent=1))
    (tmp_path / "s.sse").write_text(
        'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\n'
    )
    (tmp_path / "l.jsonl.gz").write_bytes(gzip.compress(TOOL.read_bytes().replace(b"\n", b"")))
    paths = [tmp_path / "b.json", tmp_path / "s.sse", tmp_path / "l.jsonl.gz", ROOT / "cassettes"]

    got = [(r["name"].rsplit("/", 1)[1].split(":")[0], r["verdict"] is not None) for r in rows(*paths)]

    assert got == [
        ("b.json", True), ("s.sse", True), ("d06_tool1_compact.tools", True),
        ("hello.yaml", True), ("no-endpoints.yaml", True), ("hello.yaml", True), ("tool-call-as-text.yaml", True),
    ]  # fmt: skip


def test_hand_made_cassettes_prove_nothing() -> None:
    """Without a bill no answer is verified, and an error is rejected: nothing is believed because we wrote it."""
    assert [(r["verdict"], r["findings"][0]["code"]) for r in rows(ROOT / "cassettes/chutes")] == [
        ("rejected", "provider-error")
    ]
    assert {r["verdict"] for r in rows(ROOT / "cassettes")} == {"rejected", "unverified"}


def test_show_prints_tokens() -> None:
    """A token a line where there is no colour, with ids, origins and pieces."""
    result = run("show", TOOL, "--blind")

    assert result.exit_code == 0
    assert "     5  163607  template   </think>" in result.stdout.splitlines()
    assert "     0      40  canonical  'I'" in result.stdout.splitlines()


def test_show_in_colour() -> None:
    """With colour the answer is running text; --rows keeps a token a line."""
    colour = CliRunner(env={"FORCE_COLOR": "1"})

    shown = colour.invoke(cli.app, ["show", str(TOOL), "--blind"]).stdout

    assert " 163607 </think> " in shown
    assert "\x1b[" in shown
    assert "     5  163607" in colour.invoke(cli.app, ["show", str(TOOL), "--blind", "--rows"]).stdout


def test_show_of_a_rejected_answer_tells_where_it_breaks() -> None:
    """The first place where reading and witness part, then every reason; no ids."""
    path = ROOT / "golden/sglang-0.5.23/tool_ws_ids.chat_tools.json"

    result = run("show", path, "--blind")

    assert result.exit_code == 1
    assert "reading and witness part at: " in result.stdout.splitlines()[1]
    assert "template " not in result.stdout


def test_show_picks_by_line_and_by_name(jsonl: Path) -> None:
    """The first answer by itself, with a word about the others; else the one that was named."""
    first = run("show", jsonl)
    assert first.stdout.startswith(f"verified   {jsonl}:1: ")
    assert "more answers follow" in first.stderr
    assert run("show", jsonl, "--line", "4").stdout.startswith("verified   sglang-0.5.23/plain.chat_notools: ")
    assert run("show", jsonl, "--name", f"{jsonl}:1").stdout == first.stdout
    assert run("show", jsonl, "--line", "2").exit_code == 2
    everything = run("show", jsonl, "--all")
    assert everything.stdout.count("verified   ") == 2
    assert "no JSON" in everything.stderr


def command(*args: str | Path, **options: Any) -> "subprocess.Popen[str]":
    """The command in a process of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen([*COMMAND, *map(str, args)], stdout=pipe, stderr=pipe, text=True, cwd=ROOT, **options)


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Many answers, more than a pipe holds."""
    line = json.dumps(json.loads(PLAIN.read_bytes())) + "\n"
    (tmp_path / "many.jsonl").write_text(line * 20_000)
    return tmp_path / "many.jsonl"


def test_a_reader_that_goes_away_is_no_error(endless: Path) -> None:
    """`tokenproof check ... | head -1` ends early, with nothing on stderr."""
    process = command("check", endless, "--json")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()


def test_ctrl_c_is_one_line(endless: Path) -> None:
    """No traceback, exit code 130, and what was judged is printed."""
    process = command("check", endless)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)

    out, err = process.communicate()

    assert first.startswith("verified ")
    assert out.endswith("\n")
    assert (err, process.returncode) == ("tokenproof: interrupted\n", 130)


@pytest.mark.parametrize("ends", ["sys.exit(130)", "raise KeyboardInterrupt"])
def test_a_second_ctrl_c_while_the_command_ends_is_still_130(ends: str) -> None:
    """Also when python has put its own handlers away, and when the first one is just being told."""
    program = f"""
import os, sys
from harness import cli
class Late:
    def __del__(self, kill=os.kill, pid=os.getpid()):
        kill(pid, 2)
def app():
    {ends}
late, cli.app = Late(), app
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (130, "")


def test_output_is_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    """Names in any script survive LC_ALL=C; bytes of a path that are no text come as escapes."""
    name = os.fsencode(tmp_path) + "/世界".encode() + b"\xff.json"
    Path(os.fsdecode(name)).write_bytes(PLAIN.read_bytes().replace(b'"name"', b'"nom"'))

    process = command("check", os.fsdecode(name), env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"})
    out, err = process.communicate()

    assert "/世界\\xff.json:1: 21 ids" in out
    assert err == ""


def test_check_imports_nothing_that_it_does_not_need() -> None:
    """Start-up is what a single answer costs: neither rich nor YAML nor tiktoken is loaded for it."""
    code = (
        "import sys; from harness import cli\n"
        f"sys.argv = ['tokenproof', 'check', {str(PLAIN)!r}]\n"
        "try: cli.main()\n"
        "except SystemExit: print(sorted({'rich', 'yaml', 'tiktoken', 'pygments', 'asyncio'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout

    assert out.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", ["check", "show"])
@pytest.mark.parametrize("model", ["gpt-4", "", "kimi-k2.5:tuned", "kimi-k2.5\nx"])
def test_a_model_that_no_format_covers_is_a_wrong_call(command: str, model: str) -> None:
    """Nothing is judged: exit code 2, and the patterns of every format, a line each."""
    result = run(command, PLAIN, "--model", model)

    assert (result.exit_code, result.stdout) == (2, "")
    first, *patterns = result.stderr.splitlines()
    assert first.startswith(f"tokenproof: --model {model!r}, which no format covers; expected a name that one of")
    assert [line.split(":")[1].strip() for line in patterns] == ["kimi-k2.5", "kimi-k2-thinking", "kimi-k2"]
    assert all(len(line.split(": ")[2]) > 5 for line in patterns)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Chuts", "the nearest names are Chutes"),
        ("moonshot", "the nearest names are Moonshot AI"),
        ("qqq", "names are AtlasCloud, BaseTen, Chutes, "),
        ("Unknown", "no habit names this provider"),
    ],
)
def test_a_provider_that_no_habit_names_is_told(name: str, words: str) -> None:
    """One line on stderr; the verdict is that of an answer without habits, and so is the exit code."""
    result, unknown = run("check", PLAIN, "--blind", "--as", name), run("check", PLAIN, "--blind", "--as", "unknown")

    assert result.stderr.startswith(f"tokenproof: --as {name!r}: no habit names this provider, so that none is taken; ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert (result.exit_code, unknown.exit_code, unknown.stderr) == (3, 3, "")


@pytest.mark.parametrize("name", ["", " ", "OR/"])
def test_a_provider_without_a_name_is_a_wrong_call(name: str) -> None:
    """It would be as if nothing had been typed."""
    result = run("check", PLAIN, "--as", name)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"tokenproof: --as {name!r} names nobody; expected a provider's name, or `unknown`\n"


@pytest.mark.parametrize("name", ["unknown", "Chutes", "cHUTES", "OR/Moonshot AI", "sglang-0.5.23"])
def test_a_provider_that_habits_name_is_taken_in_silence(name: str) -> None:
    """Any spelling that the habits know."""
    assert run("check", PLAIN, "--blind", "--as", name).stderr == ""
