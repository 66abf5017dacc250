"""harness.record: scenarios recorded from an emulator over loopback, whole, scrubbed and of the right provider."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness import record as module
from harness.cassette_files import read_recording
from harness.cassette_text import cassette_text
from harness.catalog import Endpoint, pinned
from harness.client import HttpxTransport
from harness.errors import SetupError
from harness.matching import Sent
from harness.record import Job, Plan, Row, bound, gate, kind_of, offers, record, row_json, to_ask, wrong_answer
from harness.recording import Interaction, Provenance, complaints
from harness.scenarios import Scenario
from harness.spending import Meter
from harness.tape import playing
from harness.transport import Call, Target
from tests.scenario_truths import planted, recording_app, shipped
from tests.served import Served

AT = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
MODEL = "moonshotai/kimi-k2.5"
D = Decimal


async def _run(
    url: str, folder: Path, names: Sequence[str], pins: Sequence[str] = ("chutes",), budget: str = "1", **how: Any
) -> list[Row]:
    """The rows of a run at this server."""
    target = Target(url, how.pop("key", None))
    plan = Plan(target, MODEL, folder, lambda: AT, **how)
    transport = HttpxTransport(target)
    try:
        endpoints = pinned(pins, await offers(transport, MODEL))
        jobs = [Job(s, e) for e in endpoints for s in shipped().picked(names)]
        return [row async for row in record(plan, jobs, transport, Meter(D(budget)))]
    finally:
        await transport.close()


def run(*args: Any, **how: Any) -> list[Row]:
    """The same, for tests that look at files."""
    return asyncio.run(_run(*args, **how))


def statuses(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """(name, status) of each."""
    return [(row.name, row.status) for row in rows]


def test_a_cassette_says_where_it_came_from(tmp_path: Path) -> None:
    """Pin, display name, quantization, model, time, cost and hashes; the body is the server's, byte for byte."""
    app = recording_app(["chutes", "novita"])
    with Served(app) as url:
        (row,) = run(url, tmp_path, ["plain-short-stream"])
        before = app.reply("POST", "/api/v1/chat/completions", {}, data=json.dumps(app.requests[0]).encode())

    assert (row.name, row.status, row.reason) == ("chutes/plain-short-stream", "recorded", "$0.000082")
    made = read_recording(row.path)
    assert replace(made.provenance, pairs=()) == Provenance(
        "emulator",
        "2026-11-30T08:00:00Z",
        url,
        MODEL,
        "plain-short-stream",
        "chutes/int4",
        "Chutes",
        "int4",
        f"{row.cost:f}",
    )
    assert complaints(made) == ()
    said = b"".join(part for part in before.parts if isinstance(part, bytes))
    assert _texts(made.interactions[0].body) == _texts(said)
    assert json.loads(made.interactions[0].request_body)["provider"]["only"] == ["chutes/int4"]


def _texts(stream: bytes) -> list[Any]:
    """The choices of each event: ids and times of two answers differ."""
    return [json.loads(line[6:]).get("choices") for line in stream.split(b"\n") if line.startswith(b"data: {")]


def test_what_exists_is_kept_and_pays_nothing(tmp_path: Path) -> None:
    """A second run sends nothing; a file that asks something else is named; with `rewrite` it is recorded again."""
    app = recording_app(["chutes"])
    with Served(app) as url:
        run(url, tmp_path, ["hello"])
        old = (tmp_path / "chutes" / "hello.yaml").read_bytes()
        assert statuses(run(url, tmp_path, ["hello", "one-word"])) == [
            ("chutes/hello", "kept"),
            ("chutes/one-word", "recorded"),
        ]
        assert len(app.requests) == 2
        (tmp_path / "chutes" / "hello.yaml").write_bytes((tmp_path / "chutes" / "one-word.yaml").read_bytes())
        (stale,) = run(url, tmp_path, ["hello"])
        assert stale.status == "stale"
        assert stale.reason == (
            "what stands there (emulator) differs in body.messages[0].content: recorded "
            '"Reply with the single word Done and nothing else.", asked "Say hello in 3 words"; '
            "--rewrite records it anew"
        )
        (tmp_path / "chutes" / "hello.yaml").write_bytes(b"interactions: [!!python/object:x.y {}]")
        (broken,) = run(url, tmp_path, ["hello"])
        assert (broken.status, "refused" in broken.reason) == ("stale", True)
        (again,) = run(url, tmp_path, ["hello"], rewrite=True)

    assert again.status == "recorded"
    assert again.before == b"interactions: [!!python/object:x.y {}]"
    assert len(old) == len((tmp_path / "chutes" / "hello.yaml").read_bytes())


def test_what_was_recorded_live_is_never_replaced_from_loopback(tmp_path: Path) -> None:
    """Not even with `rewrite`."""
    with Served(recording_app(["chutes"])) as url:
        (row,) = run(url, tmp_path, ["hello"])
        made = read_recording(row.path)
        text = cassette_text(replace(made, provenance=replace(made.provenance, kind="live")))
        Path(row.path).write_bytes(text)
        (row,) = run(url, tmp_path, ["hello"], rewrite=True)

    assert (row.status, row.reason[:13]) == ("refused", "recorded live")
    assert Path(row.path).read_bytes() == text


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ("wrong-provider", "refused", "'Novita' answered in the place of 'Chutes', which was pinned; not written"),
        ("wrong-model", "refused", "the model 'moonshotai/kimi-k2-0905' answered, 'moonshotai/kimi-k2.5' was asked"),
        ("404", "failed", "No endpoints found"),
        ("403-moderation", "failed", "flagged"),
        ("429", "failed", "rate limit"),
        ("200-error", "failed", "worker limit"),
        ("stream-error", "failed", "Provider returned error"),
        ("half-body", "failed", "may have been billed"),
        ("empty-body", "failed", "an empty body"),
        ("not-json", "failed", "a page of HTML"),
        ("gzip-bomb", "failed", "unpacks to more than 32 MiB"),
    ],
)
def test_what_is_no_answer_of_the_pin_is_not_written(tmp_path: Path, fault: str, status: str, words: str) -> None:
    """Another provider, another model, an error in any dress, half a body: a row with the reason and no file."""
    with Served(recording_app(["chutes", "novita"], faults=[fault])) as url:
        (row,) = run(url, tmp_path, ["hello"])

    assert (row.status, list(tmp_path.rglob("*.*"))) == (status, [])
    assert words in row.reason


def test_refusals_are_kept_where_wanted(tmp_path: Path) -> None:
    """A definite error becomes a cassette; one that may pass does not."""
    with Served(recording_app(["chutes"], faults=["404", "503"])) as url:
        rows = run(url, tmp_path, ["hello", "one-word"], keep_errors=True)

    assert [(r.status, r.cost) for r in rows] == [("recorded", D(0)), ("failed", rows[1].cost)]
    assert read_recording(rows[0].path).interactions[0].status == 404


def test_nothing_is_sent_that_could_break_the_budget(tmp_path: Path) -> None:
    """The run stops before the first request that does not fit, whatever would have come after it."""
    app = recording_app(["chutes"])
    with Served(app) as url:
        rows = run(url, tmp_path, ["hello", "long-reasoning", "one-word"], budget="0.0025")

    assert [r.status for r in rows] == ["recorded", "unpaid", "unpaid"]
    assert "of $0.002500 is left; it was not sent" in rows[1].reason
    assert len(app.requests) == 1
    assert sum(r.cost for r in rows) < D("0.0025")


async def test_a_reply_that_broke_off_is_counted_as_its_worst_case(tmp_path: Path) -> None:
    """It may have been billed; what never left is not counted."""
    with Served(recording_app(["chutes"], faults=["half-body"])) as url:
        plan = Plan(Target(url), MODEL, tmp_path, lambda: AT)
        endpoints = await _endpoints(url)
        (row,) = await _run(url, tmp_path, ["hello"])
        assert row.cost == bound(plan, [Job(shipped().picked(["hello"])[0], endpoints[0])])
    jobs = [Job(s, endpoints[0]) for s in shipped().picked(["hello", "one-word"])]
    transport, meter = HttpxTransport(plan.target), Meter(D("0.0016"))
    rows = [row async for row in record(plan, jobs, transport, meter)]
    assert [(r.status, r.cost) for r in rows] == [("failed", D(0))] * 2
    assert "nothing was sent" in rows[0].reason


async def _endpoints(url: str) -> tuple[Endpoint, ...]:
    transport = HttpxTransport(Target(url))
    try:
        return await offers(transport, MODEL)
    finally:
        await transport.close()


def test_an_answer_without_end_is_given_up(tmp_path: Path) -> None:
    """Chunks that keep coming are no silence; what was asked counts as billed."""
    with Served(recording_app(["chutes"], chunk_delay=0.1)) as url:
        (row,) = run(url, tmp_path, ["plain-short-stream"], longest_s=0.3)

    assert (row.status, row.reason) == ("failed", "no end after 0 s; it may have been billed")
    assert row.cost > 0
    assert list(tmp_path.iterdir()) == []


async def test_a_parameter_that_is_not_offered_is_not_asked(tmp_path: Path) -> None:
    """No call, no cost; the row says which."""
    with Served(recording_app(["chutes"])) as url:
        plan = Plan(Target(url), MODEL, tmp_path, lambda: AT)
        (end,) = await _endpoints(url)
        job = Job(shipped().picked(["logprobs"])[0], replace(end, supported_parameters=frozenset({"max_tokens"})))
        rows = [row async for row in record(plan, [job], HttpxTransport(plan.target), Meter(D(1)))]

    assert [(r.status, r.reason) for r in rows] == [("not-offered", "without logprobs")]
    assert to_ask(plan, [job]) == ()


def test_secrets_never_reach_the_file(tmp_path: Path) -> None:
    """Planted in headers, cookies, bodies and error bodies, in odd letter case: none of them is in any file."""
    key = "sk-" + "or-v1-" + "ab12" * 10
    headers = {"SET-cookie": "__cf" + "_bm=SECRET1", "X-Org-ID": "org-SECRET2", "x-key": key.upper()}

    def body(part: bytes) -> bytes:
        found = part.replace(b'"model":', b'"User_Id":"user_SECRET3","organization":"SECRET4","model":')
        return found.replace(b'"message":"No', b'"message":"' + key.encode() + b" of org-SECRET5: No")

    app = planted(recording_app(["chutes"], faults=["", "404", ""], keys=frozenset({key})), headers, body)
    with Served(app) as url:
        rows = run(url, tmp_path, ["hello", "one-word", "plain-short-stream"], keep_errors=True, key=key)

    assert [r.status for r in rows] == ["recorded"] * 3
    for row in rows:
        text = Path(row.path).read_text().lower()
        assert not [word for word in ("secret", key, "__cf_bm") if word in text]
    assert "response.headers.set-cookie" in read_recording(rows[0].path).provenance.pairs[0].removed
    assert rows[1].cost == 0


def test_a_secret_that_scrubbing_missed_stops_the_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last look is at the whole text; nothing is written then."""
    monkeypatch.setattr(module, "leaks", lambda one, known: ("response.body",))
    with (
        Served(recording_app(["chutes"])) as url,
        pytest.raises(SetupError, match="not written, a secret is left in it"),
    ):
        run(url, tmp_path, ["hello"])

    assert list(tmp_path.rglob("*.*")) == []


async def test_a_recording_plays(tmp_path: Path) -> None:
    """The transport that recorded it gets the same bytes from the file, with the server gone."""
    with Served(recording_app(["moonshotai"])) as url:
        (row,) = await _run(url, tmp_path, ["two-calls-stream"], pins=["moonshotai"])
    made = read_recording(row.path)
    transport = HttpxTransport(Target(url))
    with playing(made) as tape:
        reply = await transport.send(Call("POST", "/chat/completions", made.interactions[0].request_body))
    await transport.close()

    assert reply.body == made.interactions[0].body
    assert tape.complaints() == ()


def test_nobody_there_is_a_setup_error(tmp_path: Path) -> None:
    """No listing, no recording; the reason is told."""
    with pytest.raises(SetupError, match=r"no prices and endpoints of moonshotai/kimi-k2.5: .*nothing was sent"):
        run("http://127.0.0.1:9", tmp_path, ["hello"])
    with Served(recording_app(["chutes"], keys=frozenset({"k"}))) as url, pytest.raises(SetupError, match="HTTP 401"):
        run(url, tmp_path, ["hello"])


def test_loopback_is_never_live() -> None:
    """What answers here is an emulator, or may be one."""
    assert kind_of(Target("http://127.0.0.1:1/api/v1")) == "emulator"
    assert kind_of(Target("https://openrouter.ai/api/v1", "k")) == "live"


def test_rows_for_a_machine() -> None:
    """Money as digits, no text of the old cassette."""
    row = Row("a/b", "recorded", "c/a/b.yaml", D("0.000001"), "x", b"old")

    assert json.loads(row_json(row)) == {
        "name": "a/b",
        "status": "recorded",
        "path": "c/a/b.yaml",
        "cost_usd": "0.000001",
        "reason": "x",
    }


def test_an_answer_of_nobody_is_not_the_pins() -> None:
    """A gateway that does not say who answered proves nothing."""
    body = b'{"model": "moonshotai/kimi-k2.5", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}'
    end = Endpoint("chutes/int4", "Chutes", "int4", D(1), D(1))

    assert wrong_answer(body, end, MODEL) == "None answered in the place of 'Chutes', which was pinned"
    assert Job(Scenario("s", "", {}), end).name == "chutes/s"


@pytest.mark.parametrize(("cost", "counted"), [(0.5, Decimal("0.5")), (None, Decimal(0)), ("0.5", Decimal(0))])
def test_a_refusal_that_states_a_cost_is_counted(cost: Any, counted: Decimal) -> None:
    """A refusal is free unless it says otherwise."""
    meter = Meter(Decimal(9))
    end = Endpoint("p", "P", "int4", Decimal(1), Decimal(1))
    body = json.dumps({"error": {"code": 400, "message": "no"}, "usage": {"cost": cost}}).encode()
    asked = Sent("POST", "http://127.0.0.1/chat/completions", b"{}")
    gate(meter, lambda _: end).settle(0, asked, Interaction("POST", asked.uri, b"{}", 400, body))
    assert meter.spent == counted
