"""harness.cli_plan: the price list of a served emulator, earlier runs, and exit codes."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from harness import cli, cli_plan
from harness.cli_plan import plan
from harness.ticket import dump_ticket, utc_text
from runners.progress import Stop
from runners.runfile import load_run
from runners.runfile_keys import DATA, RUN
from tests.harness.test_cli_generate import fitting
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_of, run_text
from tests.runners.sample_kit import answered, emulator
from tests.served import Served


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, ["plan", *map(str, args)])


def written(folder: Path, url: str, n: int = 30, **keys: str) -> Path:
    """A run file with n prompts that calls there."""
    run_of(folder, *({"prompt": f"number {k}"} for k in range(n)), text=run_text(base_url=f'"{url}"', **keys))
    return folder / "run.toml"


def test_a_plan_from_the_runs_own_ledger(tmp_path: Path) -> None:
    """Lengths of answers from the ledger, prices from the host, and no chat request."""
    app = emulator()
    with Served(app) as url:
        path = written(tmp_path, url)
        (tmp_path / "out").mkdir()
        answered(tmp_path / "out", run_of(tmp_path, {"prompt": "number 7"}, text=path.read_text())).close()
        path = written(tmp_path, url)
        result, plain = run(path, "--json"), run(path)

    told = json.loads(result.stdout)
    assert (result.exit_code, told["fits"], told["against"]) == (0, True, [])
    assert app.requests == []
    assert told["tokens"] == {"p50": 29 * 14, "p95": 29 * 14}
    assert told["usd"]["p95"] == pytest.approx(29 * (11 * 5e-7 + 14 * 2.5e-6))
    assert told["spent_usd"] == pytest.approx(11 * 5e-7 + 14 * 2.5e-6)
    assert told["notes"] == [
        "no ticket: `tokenproof generate` wants one of `tokenproof gate`, or --ungated",
        "a: 1 answers measured; 20 or more would say more of the longest",
    ]
    lines = plain.stdout.splitlines()
    assert lines[1].split()[:5] == ["a", "29", "319", "1", "406"]
    assert "tokens: p50 406, p95 406" in lines
    assert "already spent: $0.0000; $1.5000 are left, and this is for what is still open" in lines
    assert "price of a million tokens: $0.5 in, $2.5 out" in lines
    assert lines[-1] == "fits"


def test_what_does_not_fit_ends_with_one(tmp_path: Path) -> None:
    """Nothing measured and a worst case above the budget; an earlier run by --from makes the difference."""
    with Served(emulator()) as url:
        path = written(tmp_path, url, budget_usd="0.005")
        bare = run(path)
        (tmp_path / "other").mkdir()
        answered(tmp_path / "other", run_of(tmp_path, {"prompt": "number 7"})).close()
        path = written(tmp_path, url, budget_usd="0.005")
        known = run(path, "--from", tmp_path / "other")

    assert bare.exit_code == 1
    assert "does not fit: the budget is $0.01; nothing was measured" in bare.stdout
    assert (known.exit_code, known.stdout.splitlines()[-1]) == (0, "fits")


def test_faults_come_first(tmp_path: Path) -> None:
    """Run file and data sets are read before the host is asked; each fault has its line."""
    data_file(tmp_path, "{", {"prompt": "<think>"})
    (tmp_path / "run.toml").write_text(run_text(PROVIDER, ONE, base_url='"http://127.0.0.1:9/api/v1"'))

    result = run(tmp_path / "run.toml")

    assert result.exit_code == 2
    assert [line.partition(": ")[2].partition(": ")[0] for line in result.stderr.splitlines()] == [
        "a.jsonl:1",
        "a.jsonl:2",
    ]


def test_a_host_that_does_not_answer_or_has_no_such_endpoint(tmp_path: Path) -> None:
    """Both are told with what to do, with status 2."""
    dead = run(written(tmp_path, "http://127.0.0.1:9/api/v1"))
    with Served(emulator()) as url:
        text = run_text('[provider]\nonly = ["nobody"]\n', ONE, base_url=f'"{url}"')
        run_of(tmp_path, text=text)
        wrong = run(tmp_path / "run.toml")

    assert (dead.exit_code, "no prices and endpoints of moonshotai/kimi-k2.5" in dead.stderr) == (2, True)
    assert (wrong.exit_code, "no endpoint answers to 'nobody'" in wrong.stderr) == (2, True)


def test_an_earlier_run_that_is_none(tmp_path: Path) -> None:
    """A folder without a ledger is named."""
    with Served(emulator()) as url:
        result = run(written(tmp_path, url), "--from", tmp_path)

    assert (result.exit_code, "no ledger" in result.stderr) == (2, True)


def test_a_probe_is_the_beginning_of_the_run(tmp_path: Path) -> None:
    """N prompts over the data sets are asked and kept, never without a ticket or a reason; then the plan knows more."""
    app = emulator()
    data_file(tmp_path, *({"prompt": f"other {k}"} for k in range(30)), name="b.jsonl")
    with Served(app) as url:
        run_of(tmp_path, *({"prompt": f"number {k}"} for k in range(30)))
        path = tmp_path / "run.toml"
        path.write_text(run_text(PROVIDER, ONE, '[[data]]\npath = "b.jsonl"\n', base_url=f'"{url}"'))
        refused = run(path, "--probe", "5")
        assert app.requests == []
        result, again = (run(path, "--probe", "5", "--ungated", "a test", "--json") for _ in range(2))

    assert (refused.exit_code, "no ticket" in refused.stderr) == (2, True)
    told = json.loads(result.stdout)
    assert (result.exit_code, [one["n_measured"] for one in told["sets"]]) == (0, [3, 3])
    assert json.loads(again.stdout)["tokens"] == told["tokens"]
    asked = sorted(request["messages"][-1]["content"] for request in app.requests)
    assert asked == [f"{word} {k}" for word in ("number", "other") for k in range(3)]


def test_the_run_file_of_the_help_is_one(tmp_path: Path) -> None:
    """What `plan --help` shows can be copied: every key of it is read."""
    text = (plan.__doc__ or "").partition("A whole run file:")[2].partition("exit code")[0].replace("\b", "")
    (tmp_path / "run.toml").write_text(text)
    data_file(tmp_path, {"prompt": "hi", "source": "s"}, name="chat.jsonl")

    loaded = load_run(tmp_path / "run.toml")

    assert (loaded.max_tokens, loaded.budget_usd, loaded.concurrency, loaded.window) == (8192, 100.0, 256, 200)
    assert (loaded.pins, loaded.data_sets[0].limit) == (("siliconflow/int4",), 10_000)
    told = {line.split()[0] for line in text.splitlines() if "=" in line}
    assert told >= {key for key in (*RUN, *DATA) if key not in ("sampling", "provider", "quality", "data", "name")}


@pytest.mark.parametrize("folder", ["n" * 300, "a\0b", "none"])
def test_an_earlier_run_that_is_none_comes_first(tmp_path: Path, folder: str) -> None:
    """Before the host is asked, and before a probe is paid for."""
    app = emulator()
    with Served(app) as url:
        result = run(written(tmp_path, url), "--from", folder, "--probe", "2", "--ungated", "x")

    assert (result.exit_code, app.requests) == (2, [])
    assert result.stderr.endswith("; expected the output folder of a `tokenproof generate`\n")


def test_a_probe_that_is_interrupted_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 130 and no plan: what it was made for did not come."""
    with Served(emulator()) as url:
        path = written(tmp_path, url)
        for why, code, said in (("interrupted", 130, ""), ("done", 0, "fits")):
            monkeypatch.setattr(cli_plan, "run_it", lambda launch, to, probe, why=why: Stop(why, "so"))
            result = run(path, "--probe", "2", "--ungated", "x", "--from", earlier(tmp_path))
            assert (result.exit_code, result.stdout.splitlines()[-1:]) == (code, [said] if said else [])


def earlier(folder: Path) -> Path:
    """The output folder of an earlier run with one answer."""
    other = folder / "earlier"
    if not other.exists():
        other.mkdir()
        answered(other, run_of(other, {"prompt": "number 7"})).close()
    return other


def test_each_ledger_counts_once(tmp_path: Path) -> None:
    """The run's own folder beside --from, the same folder twice, and by a link: its answers are not measured again."""
    with Served(emulator()) as url:
        path = written(tmp_path, url)
        (tmp_path / "out").mkdir()
        answered(tmp_path / "out", run_of(tmp_path, {"prompt": "number 7"}, text=path.read_text())).close()
        path = written(tmp_path, url)
        (tmp_path / "link").symlink_to("out")
        other = earlier(tmp_path)
        (tmp_path / "again").symlink_to(other)
        path = written(tmp_path, url)
        froms = [[], ["out", "link"], ["earlier"], ["earlier", "earlier", "again", "out", "link"]]
        told = [run(path, "--json", *(a for name in one for a in ("--from", tmp_path / name))) for one in froms]

    assert [json.loads(one.stdout)["sets"][0]["n_measured"] for one in told] == [1, 1, 2, 2]


def test_a_ticket_and_no_ticket_are_a_wrong_call(tmp_path: Path) -> None:
    """Neither is left out without a word, and nobody is asked."""
    app = emulator()
    with Served(app) as url:
        path = str(written(tmp_path, url))
        for command in ("plan", "generate"):
            result = CliRunner().invoke(cli.app, [command, path, "--ungated", "x", "--ticket", "none"])
            assert (result.exit_code, "--ticket and --ungated contradict each other" in result.stderr) == (2, True)
    assert app.requests == []


def test_what_generate_refuses_a_plan_refuses(tmp_path: Path) -> None:
    """An expired ticket, a reason without words, prices above max_price: told, and nothing but the price list asked."""
    app = emulator()
    with Served(app) as url:
        path = written(tmp_path, url)
        old = fitting(url, expires_at=utc_text(datetime.now(UTC) - timedelta(hours=1)))
        (tmp_path / "t.json").write_bytes(dump_ticket(old))
        expired, wordless = run(path, "--ticket", tmp_path / "t.json"), run(path, "--ungated", " ")
        run_of(tmp_path, text=run_text(PROVIDER + "max_price = { completion = 2.0 }\n", ONE, base_url=f'"{url}"'))
        dear = run(path, "--ungated", "a test")

    assert ("does not fit: " in expired.stdout, "expired" in expired.stdout, expired.exit_code) == (True, True, 1)
    assert ("--ungated needs a reason in words" in wordless.stdout, wordless.exit_code) == (True, 1)
    assert dear.stdout.splitlines()[-1] == "does not fit"
    assert ("a million completion tokens, above max_price $2.0" in dear.stdout, dear.exit_code) == (True, 1)
    assert app.requests == []


def test_a_plan_of_a_run_that_changed_or_was_judged_otherwise(tmp_path: Path) -> None:
    """What --amend lets pass is a note; verdicts of other habits are refused until they are made anew."""
    with Served(emulator()) as url:
        path = written(tmp_path, url)
        assert CliRunner().invoke(cli.app, ["generate", str(path), "--ungated", "x", "--judges", "0"]).exit_code == 0
        done = run(path, "--json")
        path = written(tmp_path, url, 31)
        changed = run(path, "--json")
        (tmp_path / "h.toml").write_text("habits = []\n")
        other = run(path, "--json", "--habits", tmp_path / "h.toml")

    told = json.loads(done.stdout)
    assert (told["fits"], told["sets"][0]["n_prompts"], told["usd"]) == (True, 0, {"p50": 0.0, "p95": 0.0})
    told = json.loads(changed.stdout)
    assert (told["fits"], told["sets"][0]["n_prompts"]) == (True, 1)
    assert "`tokenproof generate` will start with --amend only" in told["notes"]
    (reason,) = json.loads(other.stdout)["against"]
    assert "judged so far with other habits" in reason
