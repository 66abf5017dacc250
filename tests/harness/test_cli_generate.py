"""harness.cli_generate: from a run file to samples over loopback sockets; what stops it before the first request."""

import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from harness import cli
from harness.hashes import hashes
from harness.ticket import Ticket, TicketProvider, dump_ticket, sealed, utc_text
from runners.ledger import open_ledger
from runners.output import LEDGER, SUMMARY
from runners.samples import COLUMNS
from runners.tables import read_rows
from tests.conftest import ROOT
from tests.corpus import shipped_habits
from tests.runners.run_kit import ONE, PROVIDER, data_file, run_text
from tests.runners.sample_kit import emulator
from tests.runners.test_admission import ticket
from tests.served import Served

COMMAND = [sys.executable, "-m", "harness.cli", "generate"]
UNGATED = ("--ungated", "a test", "--judges", "0")
OTHER = TicketProvider("novita/int4", "Novita", "int4")


class Counted:
    """An emulator that counts every HTTP request, whatever it asks for; a chat answer takes `delay_s`."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.app, self.n, self.delay_s = emulator(), 0, delay_s

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        import asyncio

        if scope["type"] == "http":
            self.n += 1
            await asyncio.sleep(self.delay_s if scope["method"] == "POST" else 0)
        await self.app(scope, receive, send)

    @property
    def asked(self) -> list[str]:
        """The prompts that were sent."""
        return [request["messages"][-1]["content"] for request in self.app.requests]


@pytest.fixture
def host() -> Iterator[tuple[Counted, str]]:
    """A counting emulator on a socket, and its base URL."""
    app = Counted()
    with Served(app) as url:
        yield app, url


def written(folder: Path, url: str, n: int = 8, *tables: str, **keys: str) -> Path:
    """A run file with n prompts that calls there."""
    data_file(folder, *({"prompt": f"number {k}"} for k in range(n)))
    (folder / "run.toml").write_text(run_text(*(tables or (PROVIDER, ONE)), base_url=f'"{url}"', **keys))
    return folder / "run.toml"


def run(*args: str | Path) -> Result:
    """The command in this process."""
    return CliRunner().invoke(cli.app, ["generate", *map(str, args)])


def fitting(url: str, **how: Any) -> Ticket:
    """A ticket of this code that fits the run now."""
    now, mine = datetime.now(UTC), hashes(shipped_habits())
    times = {"created_at": utc_text(now - timedelta(hours=1)), "expires_at": utc_text(now + timedelta(days=1))}
    made = ticket(
        base_url=url, content_hash=mine.content_hash, vocab_sha256=mine.vocab_sha256,
        formats_sha256=mine.formats_sha256, habits_sha256=mine.habits_sha256, **times,
    )  # fmt: skip
    return sealed(replace(made, **how))


def test_a_gated_run_from_file_to_samples(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """Answers, ledger, samples, rejected rows, summary and log; the ticket stands in every row."""
    app, url = host
    path, one = written(tmp_path, url), fitting(url)
    (tmp_path / "gate.json").write_bytes(dump_ticket(one))

    result = run(path, "--ticket", tmp_path / "gate.json", "--json")

    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["stop"] == {"why": "done", "text": ""}
    assert {key: told[key] for key in ("samples", "verified", "open", "ticket_id")} == {
        "samples": 8, "verified": 8, "open": 0, "ticket_id": one.ticket_id,
    }  # fmt: skip
    assert (told["bill"]["answers"], told["bill"]["difference"]) == (8, 0)
    out = tmp_path / "out"
    rows = list(read_rows(out / "samples.parquet", tuple(COLUMNS)))
    assert [row["id"] for row in rows] == [str(k) for k in range(8)]
    assert {(row["ticket_id"], row["content_hash"]) for row in rows} == {(one.ticket_id, one.content_hash)}
    assert sorted(app.asked) == sorted(f"number {k}" for k in range(8))
    assert json.loads((out / SUMMARY).read_bytes()) | {"stop": told["stop"]} == told
    assert "8 of 8 prompts" in (out / "run.log").read_text().splitlines()[-1]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (None, "no ticket: expected `ticket = PATH`"),
        ({"created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-02T00:00:00Z"}, "it expired at 2026-01-02"),
        ({"providers": (OTHER,)}, "the provider chutes/int4 was not tested; the ticket has novita/int4"),
        ({"content_hash": "0" * 64}, "other code than was tested: content_hash is"),
    ],
    ids=["no-ticket", "expired", "other-provider", "other-code"],
)
def test_the_four_rules_of_the_gate(
    tmp_path: Path, host: tuple[Counted, str], how: dict[str, Any] | None, said: str
) -> None:
    """No ticket, an expired one, one of another provider or of other code: not one request reaches the host."""
    app, url = host
    path, args = written(tmp_path, url), []
    if how is not None:
        (tmp_path / "gate.json").write_bytes(dump_ticket(fitting(url, **how)))
        args = ["--ticket", str(tmp_path / "gate.json")]

    result = run(path, *args)

    assert result.exit_code == 2
    assert said in result.stderr
    assert app.n == 0
    assert not (tmp_path / "out").exists()


def test_faults_of_the_files_come_before_any_request(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """Run file and data sets, each fault with its line."""
    app, url = host
    path = written(tmp_path, url)
    data_file(tmp_path, {"prompt": "fine"}, {"prompt": "<|im_end|>"}, {"prompt": "x", "id": "0"})
    data = run(path, *UNGATED)
    path.write_text(path.read_text().replace("max_tokens", "max_token"))
    file = run(path, *UNGATED)

    told = [line.removeprefix("tokenproof: ") for line in data.stderr.splitlines()]
    assert [line.partition(": ")[0] for line in told] == ["a.jsonl:2", "a.jsonl:3"]
    assert [line.split(": ")[1].rpartition("/")[2] for line in file.stderr.splitlines()] == ["run.toml:3", "run.toml:1"]
    assert (data.exit_code, file.exit_code, app.n) == (2, 2, 0)


def test_the_reason_for_no_ticket_is_in_every_row(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """In samples and summary."""
    _, url = host
    result = run(written(tmp_path, url), *UNGATED)

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].endswith("8 samples, $0.0003 spent, 0 prompts open")
    rows = read_rows(tmp_path / "out" / "samples.parquet", ("ungated", "ticket_id"))
    assert {(row["ungated"], row["ticket_id"]) for row in rows} == {("a test", None)}


def test_a_run_without_money_stops_and_says_so(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """With status 1 and its samples written; more money is a change that must be named."""
    app, url = host
    short = run(written(tmp_path, url, budget_usd="0.00045"), *UNGATED)
    n = len(app.asked)
    path = written(tmp_path, url, budget_usd="1")
    silent, named = run(path, *UNGATED), run(path, *UNGATED, "--amend", "more money")

    assert short.exit_code == 1
    assert "stopped: budget: " in short.stderr
    assert 0 < n < 8
    assert f"{n} samples" in short.stdout
    assert short.stdout.splitlines()[-1].endswith(f"{8 - n} prompts open")
    assert (silent.exit_code, "budget_usd: 0.00045 -> 1.0" in silent.stderr) == (2, True)
    assert (named.exit_code, len(app.asked)) == (0, 8)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_broken_off_is_taken_up(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C lets what is under way come in and writes samples; after kill -9 too the same command does the rest."""
    app = Counted(delay_s=0.05)
    with Served(app) as url:
        path = written(tmp_path, url, 60, concurrency="4")
        with subprocess.Popen(
            [*COMMAND, str(path), *UNGATED], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as first:
            deadline = time.monotonic() + 60
            while len(app.asked) < 10 and time.monotonic() < deadline:
                time.sleep(0.01)
            os.kill(first.pid, number)
            out, err = first.communicate(timeout=30)
        n_before = len(app.asked)
        second = run(path, *UNGATED, "--json")

    assert n_before < 60
    if number == signal.SIGINT:
        assert first.returncode == 130, err
        assert "stopped: interrupted" in err
        assert f"{n_before} samples" in out
        assert len(app.asked) == 60
    assert second.exit_code == 0, second.stderr
    assert len(app.asked) <= 60 + 4  # at most what was under way is paid twice
    assert json.loads(second.stdout)["samples"] == 60


def test_sampling_that_nobody_may_heed_is_told(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """On stderr, before the first request; the run goes on."""
    _, url = host
    path = written(tmp_path, url)
    path.write_text(path.read_text() + "\n[sampling]\nmin_p = 0.1\n")

    result = run(path, *UNGATED)

    assert result.exit_code == 0
    assert "note: chutes/int4 does not list min_p, and may answer without" in result.stderr


def test_a_terminal_that_closes_is_as_ctrl_c(tmp_path: Path) -> None:
    """A lost connection takes the terminal with it: what is under way comes in, is judged and becomes samples."""
    app = Counted(delay_s=0.05)
    master, slave = pty.openpty()
    with Served(app) as url:
        path = written(tmp_path, url, 60, concurrency="4")
        with subprocess.Popen(
            [*COMMAND, str(path), *UNGATED[:2], "--judges", "1"],
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        ) as process:
            os.close(slave)
            deadline = time.monotonic() + 60
            while len(app.asked) < 10 and time.monotonic() < deadline:
                os.read(master, 1 << 16)
            os.close(master)
            code = process.wait(timeout=30)
        n_before = len(app.asked)
        told = json.loads((tmp_path / "out" / "summary.json").read_text())
        second = run(path, *UNGATED, "--json")

    assert code != 0
    assert 10 <= n_before < 60
    assert told["samples"] == n_before
    assert json.loads(second.stdout)["samples"] == len(app.asked) == 60


def test_twice_ctrl_c_is_interrupted_whatever_is_under_way(tmp_path: Path) -> None:
    """Status 130 and no traceback, at any moment; the same command does the rest and pays only for what was open."""
    app, moments = Counted(delay_s=0.02), (1, 30)
    with Served(app) as url:
        path = written(tmp_path, url, 200, concurrency="8")
        for n in moments:
            before = len(app.asked)
            with subprocess.Popen(
                [*COMMAND, str(path), *UNGATED], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as process:
                deadline = time.monotonic() + 60
                while len(app.asked) < before + n and time.monotonic() < deadline:
                    time.sleep(0.002)
                process.send_signal(signal.SIGINT)
                time.sleep(0.002 * n)
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=30)
            assert (process.returncode, "Traceback" in err, "not judged" in err) == (130, False, False), err
        assert len(app.asked) < 200
        last = run(path, *UNGATED, "--json")

    assert json.loads(last.stdout)["samples"] == 200
    assert len(app.asked) <= 200 + 8 * len(moments)


@pytest.mark.parametrize(("why", "code"), [("interrupted", 130), ("judge", 1), ("done", 2)])
def test_why_a_run_stopped_is_what_the_code_tells(
    tmp_path: Path, host: tuple[Counted, str], monkeypatch: pytest.MonkeyPatch, why: str, code: int
) -> None:
    """Also where no samples can be written after it: that is told, and alone it is status 2."""
    from harness import cli_generate
    from runners.progress import Stop

    path = written(tmp_path, host[1])
    assert run(path, *UNGATED).exit_code == 0
    monkeypatch.setattr(cli_generate, "run_it", lambda launch, to: Stop(why, "so"))
    with open_ledger(tmp_path / "out" / LEDGER) as ledger:
        ledger.commit([[("DELETE FROM verdict WHERE job = 3", ())]])

    result = run(path, *UNGATED, "--json")

    assert (result.exit_code, result.stdout) == (code, "")
    assert "a/2: its answer is not judged yet" in result.stderr
    assert ("no samples were written" in result.stderr) == (code != 2)


def test_an_amended_run_tells_what_became_of_its_prompts(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """On the end table and in the summary, by their ids; one that is another prompt now stops it before it begins."""
    app, url = host
    path = written(tmp_path, url)
    assert run(path, *UNGATED).exit_code == 0
    ids = [{"prompt": f"number {k}", "id": k} for k in (7, 2, 0)]
    data_file(tmp_path, *ids, {"prompt": "new", "id": "n"})
    path.write_text(path.read_text().replace("max_tokens = 100", "max_tokens = 90"))
    shorter = run(path, *UNGATED, "--amend", "fewer")
    data_file(tmp_path, *ids[:2], {"prompt": "another", "id": 0})
    other = run(path, *UNGATED, "--amend", "another")

    assert (shorter.exit_code, other.exit_code, len(app.asked)) == (0, 2, 9)
    *_, removed, before, last = shorter.stdout.splitlines()
    assert removed == "5 no longer asked: in the ledger, and in no sample: a/1, a/3, a/4, a/5, a/6"
    assert before.startswith("3 answered as before: asked with another max_tokens or other sampling now: a/7, a/2, a/0")
    assert last.startswith("4 samples, $0.")
    rows = read_rows(tmp_path / "out" / "samples.parquet", ("id", "index"))
    assert [(row["id"], row["index"]) for row in rows] == [("7", 0), ("2", 1), ("0", 2), ("n", 3)]
    told = json.loads((tmp_path / "out" / SUMMARY).read_bytes())
    assert told["no_longer_asked"] == {"n": 5, "ids": ["a/1", "a/3", "a/4", "a/5", "a/6"]}
    assert "tokenproof: data set a: the answer under the id '0' is not to the prompt of today's row 3" in other.stderr


def test_a_log_that_cannot_be_written_comes_before_any_request(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """A folder in its place is told with status 2, and nothing is asked; moved away, the run goes on."""
    app, url = host
    path = written(tmp_path, url)
    (tmp_path / "out" / "run.log").mkdir(parents=True)

    result = run(path, *UNGATED)

    assert (result.exit_code, app.asked) == (2, [])
    assert "run.log cannot be written: Is a directory; move it away; nothing was asked" in result.stderr
    (tmp_path / "out" / "run.log").rmdir()
    assert run(path, *UNGATED).exit_code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is full, which Linux gives")
def test_a_log_that_fills_its_disk_costs_no_samples(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """It is told once, and the run goes on without it."""
    path = written(tmp_path, host[1])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "run.log").symlink_to("/dev/full")

    result = run(path, *UNGATED, "--json")

    assert (result.exit_code, json.loads(result.stdout)["samples"]) == (0, 8)
    assert result.stderr.count("run.log cannot be written any more: No space left on device; the run goes on") == 1


def test_a_log_that_is_a_pipe_keeps_no_run_waiting(tmp_path: Path, host: tuple[Counted, str]) -> None:
    """Nobody reads it: the run does not start, and no prompt was asked."""
    path = written(tmp_path, host[1])
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out" / "run.log")

    result = run(path, *UNGATED)

    assert (result.exit_code, host[0].asked) == (2, [])
    assert "run.log cannot be written: No such device or address; move it away; nothing was asked" in result.stderr


@pytest.mark.parametrize("option", ["--amend", "--ungated"])
def test_a_reason_needs_words(tmp_path: Path, host: tuple[Counted, str], option: str) -> None:
    """An empty one is a wrong call, before anything is asked."""
    app, url = host
    result = run(written(tmp_path, url), *UNGATED, option, " ")

    assert (result.exit_code, app.n) == (2, 0)
    assert f"{option} needs a reason in words" in result.stderr


class Moved(Counted):
    """A host that sends every chat request elsewhere."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def other(message: Any) -> None:
            if message["type"] == "http.response.start" and scope["method"] == "POST":
                message = message | {"status": 301, "headers": [(b"location", b"https://elsewhere/")]}
            await send(message)

        await super().__call__(scope, receive, other)


def test_a_redirection_is_a_wrong_base_url(tmp_path: Path) -> None:
    """It ends the run at once, is booked at nothing, and says what to check."""
    app = Moved()
    with Served(app) as url:
        result = run(written(tmp_path, url, concurrency="1"), *UNGATED)

    assert (result.exit_code, len(app.asked)) == (1, 1)
    assert "no-api: HTTP 301 to https://elsewhere/ in the place of an answer; the API does not" in result.stderr
    assert "0 samples, $0.0000 spent, 8 prompts open" in result.stdout


class Bad(Counted):
    """A host that takes one prompt for a bad request, always."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await super().__call__(scope, receive, send)
            return
        message = await receive()
        if b"number 3" not in message["body"]:

            async def again() -> Any:
                return message

            await super().__call__(scope, again, send)
            return
        self.n += 1
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b'{"error": {"code": 400, "message": "no"}}'})


def test_a_prompt_that_is_always_bad_ends_by_name(tmp_path: Path) -> None:
    """Each part of the run asks it once more, costs nothing by it, and ends with 0 and its end in the summary."""
    app = Bad()
    with Served(app) as url:
        path = written(tmp_path, url)
        told, spent = [], set()
        for _ in range(3):
            before = app.n
            result = run(path, *UNGATED, "--json")
            found = json.loads(result.stdout)
            spent.add(found["spent_usd"])
            ends = [group["ends"] for group in found["groups"] if group["ends"]]
            told.append((result.exit_code, app.n - before, found["samples"], found["open"], ends))

    listing = told[1][1] - 1
    assert told == [
        (0, listing + 8, 7, 0, [{"bad-request": 1}]),
        *[(0, listing + 1, 7, 0, [{"bad-request": 1}])] * 2,
    ]
    assert len(spent) == 1


def test_the_help_names_what_a_first_run_needs() -> None:
    """The variable of the key, when a provider is dropped, Ctrl-C, every exit code, and what a data set is known by."""
    told = " ".join(run("--help").stdout.split())

    for word in ("OPENROUTER_API_KEY", "5% of its last 200", "Ctrl-C", "130", "known by its file's name", "--ungated"):
        assert word in told, word


def test_nobody_who_reads_stderr_costs_no_samples(tmp_path: Path) -> None:
    """A pipe that is closed at the first line: the run goes on to its samples, and its log has every line."""
    app = Counted(0.01)
    with Served(app) as url:
        path = written(tmp_path, url, 20)
        command = [*COMMAND, str(path), *UNGATED, "--json"]
        env = {**os.environ, "OPENROUTER_API_KEY": "sk-none"}
        reader, writer = os.pipe()
        os.close(reader)
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=writer, env=env, cwd=ROOT, timeout=60, check=False)
        os.close(writer)

    told = json.loads(ran.stdout)
    assert (told["samples"], len(app.asked)) == (20, 20)
    assert "stop: done" in (tmp_path / "out" / "run.log").read_text().splitlines()[-1]
