"""runners.generate: every prompt answered or in a named end, no answer paid twice, no dollar above the cap."""

import asyncio
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.errors import SetupError
from harness.transport import Call, NotSentError, Reply, UnansweredError
from runners import ledger_writes as w
from runners.backoff import KINDS, wait_s
from runners.budget import NANO, Price
from runners.desk import Desk
from runners.generate import Run
from runners.ledger import Totals, open_ledger, read_ledger
from runners.progress import Stop
from tests.bulk_kit import ENDPOINT, PRICE, RECIPE, Direct, Ran, host, ledger_path, orders, prompt, prompts, run


async def test_a_run_answers_everything(tmp_path: Path) -> None:
    """Every prompt once, judged, at the cost that its answer says, in the order of the input."""
    transport = Direct(host())
    ran = await run(tmp_path, transport, prompts(40))

    assert ran.stop.good
    assert ran.ends() == {"answered": 40}
    assert [row.id for row in ran.rows] == [f"a-{n}" for n in range(40)]
    assert Counter(transport.seen) == Counter(f"Question {n} of a" for n in range(40))
    assert {row.verdict_name for row in ran.rows} == {"verified"}
    for row in ran.rows:
        assert row.answer is not None
        usage = json.loads(row.answer)["usage"]
        assert row.cost_nano == pytest.approx(usage["cost"] * NANO, abs=1)
        assert (row.n_tokens, row.provider) == (usage["completion_tokens"], "Chutes")
        assert json.loads(row.request)["provider"] == {"only": ["chutes/int4"], "allow_fallbacks": False}
    assert ran.totals.spent_nano == sum(row.cost_nano for row in ran.rows) == ran.progress.spent_nano
    assert (ran.totals.reserved_nano, ran.progress.reserved_nano, ran.progress.in_flight) == (0, 0, 0)
    assert ran.progress.sets["a"].n_verdicts == {"verified": 40}


async def test_a_second_run_asks_nothing(tmp_path: Path) -> None:
    """What is answered is never asked again; new prompts are."""
    await run(tmp_path, Direct(host()), prompts(10))
    transport = Direct(host())
    ran = await run(tmp_path, transport, prompts(12))

    assert sorted(transport.seen) == ["Question 10 of a", "Question 11 of a"]
    assert ran.ends() == {"answered": 12}
    assert ran.progress.sets["a"].n_ended == {"answered": 12}


TRANSIENT = [
    *("402-in-flight", "408", "429", "429-retry-after", "429-gateway", "500", "502", "503", "200-error"),
    *("200-error-beside-choices", "200-error-in-choice", "hang", "half-body", "empty-body", "blank-body", "not-json"),
]


@pytest.mark.parametrize("fault", TRANSIENT)
async def test_what_passes_is_tried_again(tmp_path: Path, fault: str) -> None:
    """One failure of each passing kind: every prompt is answered all the same, and the failure is in the ledger."""
    transport = Direct(host(faults=[fault]))
    ran = await run(tmp_path, transport, prompts(5))

    assert (ran.stop.why, ran.ends()) == ("done", {"answered": 5})
    assert len(transport.seen) == 6
    assert sum(ran.progress.failures.values()) == 1
    assert ran.totals.n_attempts == 6


STOPS = {
    "401": "key",
    "402-credits": "credits",
    "402-key-limit": "key-limit",
    "403-budget": "key-budget",
    "404": "no-endpoints",
    "wrong-provider": "wrong-provider",
    "wrong-model": "wrong-model",
}


@pytest.mark.parametrize("fault", STOPS)
async def test_what_does_not_pass_stops_the_run(tmp_path: Path, fault: str) -> None:
    """At most those under way were sent; the text says what to do; the next run asks what is open, and only that."""
    transport = Direct(host(faults=["", "", fault]))
    ran = await run(tmp_path, transport, prompts(60))

    assert ran.stop.why == STOPS[fault]
    assert KINDS[STOPS[fault]].remedy in ran.stop.text
    assert len(transport.seen) <= 8
    answered = {row.id for row in ran.rows if row.answer}
    assert ran.totals.reserved_nano == 0

    again = Direct(host())
    ran = await run(tmp_path, again, prompts(60))
    assert ran.ends() == {"answered": 60}
    assert len(again.seen) == 60 - len(answered)


async def test_a_wrong_providers_answer_is_no_sample(tmp_path: Path) -> None:
    """It is paid and kept as a fragment; its prompt stays open."""
    ran = await run(tmp_path, Direct(host(faults=["wrong-provider"])), prompts(1), orders(concurrency=1))

    (row,) = ran.rows
    assert (row.end, row.answer, row.failure) == (None, None, "wrong-provider")
    assert 0 < row.cost_nano < 10_000_000
    with read_ledger(ledger_path(tmp_path)) as ledger:
        assert ledger._one("SELECT count(*) FROM fragment") == (1,)


@pytest.mark.parametrize(
    ("model", "good"),
    [("moonshotai/kimi-k2.6", False), ("openai/gpt-5", False), ("moonshotai/kimi-k2.5-0127", True)],
)
async def test_another_models_answer_stops_the_run(tmp_path: Path, model: str, good: bool) -> None:
    """It is paid, kept as a fragment and no sample; a date behind the name, or no name, is no other model."""

    class Other(Direct):
        async def send(self, call: Call) -> Reply:
            reply = await super().send(call)
            return Reply(reply.status, reply.headers, json.dumps(json.loads(reply.body) | {"model": model}).encode())

    ran = await run(tmp_path, Other(host()), prompts(30), orders(concurrency=1))

    assert ran.stop.why == ("done" if good else "wrong-model")
    assert ran.ends() == ({"answered": 30} if good else {None: 1})
    if not good:
        assert f"the model '{model}' answered, 'moonshotai/kimi-k2.5' was asked; check the model id" in ran.stop.text
        assert 0 < ran.totals.spent_nano < 10_000_000
        with read_ledger(ledger_path(tmp_path)) as ledger:
            assert ledger._one("SELECT count(*) FROM fragment") == (1,)


async def test_a_refused_prompt_ends_alone(tmp_path: Path) -> None:
    """Moderation is about one prompt: it ends, is not asked again, and the others go on."""
    ran = await run(tmp_path, Direct(host(faults=["403-moderation"])), prompts(5), orders(concurrency=1))
    assert (ran.stop.why, ran.ends()) == ("done", {"answered": 4, "refused": 1})
    assert ran.rows[0].note == "refused: the host says error 403: Provider returned error"
    transport = Direct(host())
    await run(tmp_path, transport, prompts(5))
    assert transport.seen == []


async def test_a_prompt_that_gives_up_comes_again_in_the_next_run(tmp_path: Path) -> None:
    """After its tries it ends by name, and counts as ended once."""
    ran = await run(tmp_path, Direct(host(faults=["hang"] * 3)), prompts(1))
    assert (ran.stop.why, ran.ends()) == ("done", {"gave-up": 1})
    assert ran.progress.sets["a"].n_ended == {"gave-up": 1}
    assert ran.totals.n_unknown == 3
    ran = await run(tmp_path, Direct(host()), prompts(2))
    assert ran.ends() == {"answered": 2}
    assert ran.progress.sets["a"].n_ended == {"answered": 2, "gave-up": 0}


async def test_parameters_that_nobody_takes_stop_their_data_set_alone(tmp_path: Path) -> None:
    """The other data set goes on; the run says that it is not done."""

    class Picky(Direct):
        async def send(self, call: Call) -> Reply:
            if b" of b" in call.body:
                message = b"No endpoints found that can handle the requested parameters."
                return Reply(404, {}, b'{"error":{"code":404,"message":"%s"}}' % message)
            return await super().send(call)

    mixed = [prompt(n, name) for n in range(20) for name in "ab"]
    ran = await run(tmp_path, Picky(host()), mixed, orders(datasets=("a", "b"), concurrency=2))

    assert ran.stop.why == "data-set"
    assert "require_parameters" in ran.stop.text
    assert Counter((row.dataset, row.end) for row in ran.rows)[("a", "answered")] == 20
    assert len([row for row in ran.rows if row.dataset == "b"]) <= 2


async def test_a_data_set_of_bad_requests_is_stopped(tmp_path: Path) -> None:
    """Not every prompt is spoilt by a mistake that all of them share."""

    class Never(Direct):
        async def send(self, call: Call) -> Reply:
            return Reply(400, {}, b'{"error":{"code":400,"message":"no"}}')

    ran = await run(tmp_path, Never(host()), prompts(200), orders(concurrency=2))
    assert (ran.stop.why, "25 prompts in a row" in ran.stop.text) == ("data-set", True)
    assert 25 <= ran.ends()["bad-request"] <= 27

    ran = await run(tmp_path, Direct(host()), prompts(200))  # it was the host, not the prompts
    assert (ran.stop.why, ran.ends()) == ("done", {"answered": 200})
    assert ran.progress.sets["a"].n_ended == {"answered": 200, "bad-request": 0}


async def test_prompts_that_are_always_bad_stop_no_later_part(tmp_path: Path) -> None:
    """Each part asks them once more, for nothing; that they end as before says nothing of the others."""
    answers = Direct(host())

    class Some(Direct):
        every = False

        async def send(self, call: Call) -> Reply:
            if json.loads(call.body)["messages"][-1]["content"] in bad or self.every:
                self.seen.append("bad")
                return Reply(400, {}, b'{"error":{"code":400,"message":"no"}}')
            return await answers.send(call)

    bad = {json.loads(prompt(n).body)["messages"][-1]["content"] for n in range(0, 60, 2)}
    for n_asked in (30, 60):
        transport = Some(host())
        ran = await run(tmp_path, transport, prompts(60), orders(concurrency=1))
        assert (ran.stop.why, ran.ends()) == ("done", {"answered": 30, "bad-request": 30})
        assert ran.progress.sets["a"].n_ended == {"answered": 30, "bad-request": 30}
        assert (len(transport.seen), sum(row.n_attempts for row in ran.rows)) == (30, 30 + n_asked)
    assert len(answers.seen) == 30

    transport = Some(host())
    transport.every = True
    ran = await run(tmp_path, transport, prompts(200), orders(concurrency=1))
    assert (ran.stop.why, len(transport.seen)) == ("data-set", 30 + 25)


async def test_the_cap_ends_a_run_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    """Nothing is sent whose worst case does not fit; what is spent stays spent over all resumes."""
    worst = 10_100_000
    cap = 3 * worst
    transport = Direct(host())
    ran = await run(tmp_path, transport, prompts(500), orders(cap_nano=cap))

    assert ran.stop.why == "budget"
    assert cap - worst < ran.totals.spent_nano <= cap
    n = len(transport.seen)
    ran = await run(tmp_path, transport, prompts(500), orders(cap_nano=cap))
    assert (ran.stop.why, len(transport.seen)) == ("budget", n)
    ran = await run(tmp_path, transport, prompts(500), orders(cap_nano=2 * cap))
    assert len(transport.seen) > n
    assert ran.totals.spent_nano <= 2 * cap


async def test_a_cost_that_is_not_told_is_asked_for(tmp_path: Path) -> None:
    """Without usage the generation endpoint says it; where it never does, the whole reservation is booked."""
    app = host(faults=["missing-usage"], clock=lambda: 0.0)
    ran = await run(tmp_path, Direct(app), prompts(1))
    (row,) = ran.rows
    assert row.cost_nano == pytest.approx(app._spent * NANO, abs=1)

    (tmp_path / "late").mkdir()
    ran = await run(tmp_path / "late", Direct(host(faults=["zero-usage"], generation_delay=9e9)), prompts(1))
    assert ran.rows[0].cost_nano > 10_000_000
    assert ran.stop.good


async def test_a_bill_above_its_reservation_stops_the_run(tmp_path: Path) -> None:
    """Nothing is sent after it; the text shows both sums."""
    cheap = Price(PRICE.prompt / 1000, PRICE.completion / 1000)
    transport = Direct(host())
    ran = await run(tmp_path, transport, prompts(100), orders(price=cheap))

    assert ran.stop.why == "bill"
    assert "more than the worst case" in ran.stop.text
    assert len(transport.seen) <= 8


@pytest.mark.parametrize("why", ["interrupted", "out-of-credit"])
def test_a_bill_above_its_reservation_is_told_whatever_stopped_the_run(why: str) -> None:
    """It outranks every other reason, which is told behind it; a second such bill changes nothing."""
    desk = Desk(orders(), Totals(), set(), time.monotonic)
    desk.stop(why, "the first reason")
    desk.settle("a", 1000, 2_000_000_000)
    desk.settle("a", 1000, 3_000_000_000)

    assert desk.stopped is not None
    assert desk.stopped.why == "bill"
    assert "billed 2.000000 USD, more than the worst case of 0.000001 USD" in desk.stopped.text
    assert desk.stopped.text.endswith("; before that: the first reason")


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (SetupError("the disk is full"), Stop("ledger", "the disk is full")),
        (KeyError("id"), Stop("bug", "please report it: KeyError('id')")),
    ],
)
def test_work_beside_the_requests_that_fails(error: Exception, stop: Stop) -> None:
    """The ledger's errors are told as they are, others with their type."""
    desk = Desk(orders(), Totals(), set(), time.monotonic)
    desk.failed(error)

    assert desk.stopped == stop


def test_what_fails_after_the_last_answer_is_told() -> None:
    """A run is not done well whose last cost could not be written; what came before something went wrong counts."""
    desk = Desk(orders(), Totals(), set(), time.monotonic)
    desk.stop("done", "")
    desk.stop("ledger", "the disk is full")
    desk.stop("judge", "later")

    assert desk.stopped == Stop("ledger", "the disk is full")


@pytest.mark.parametrize(
    ("member", "told"), [("completion_tokens", 10**18), ("prompt_tokens", 2**70), ("cost", 4.6e9), ("cost", 9e14)]
)
async def test_an_absurd_bill_leaves_a_ledger_that_can_be_added_up(tmp_path: Path, member: str, told: float) -> None:
    """Whatever a host counts or charges: answers are kept, sums stay within the ledger, and the run goes on later."""

    class Absurd(Direct):
        async def send(self, call: Call) -> Reply:
            reply = await super().send(call)
            body = json.loads(reply.body)
            if "usage" in body:
                body["usage"][member] = told
            return Reply(reply.status, reply.headers, json.dumps(body).encode())

    what = orders(concurrency=16, max_rejected=1.0)
    ran = await run(tmp_path, Absurd(host()), prompts(30), what)

    assert ran.stop.why == ("bill" if member == "cost" else "done")
    assert ("a request was billed at least 1125899.906843 USD, more" in ran.stop.text) is (member == "cost")
    answered = ran.ends()["answered"]
    assert answered == (30 if ran.stop.good else 4)
    counts = {row.n_tokens is None for row in ran.rows if row.answer}
    assert counts == {member == "completion_tokens"}
    again = await run(tmp_path, Direct(host()), prompts(30), orders(cap_nano=2**60, max_rejected=1.0))
    assert (again.stop.why, again.ends()) == ("done", {"answered": 30})


async def test_a_provider_that_fails_the_judge_pauses_the_run(tmp_path: Path) -> None:
    """More bad answers than the window allows: nothing more is spent, and the next run does not begin either."""
    transport = Direct(host(faults=["wrong-usage"] * 500))
    ran = await run(tmp_path, transport, prompts(300), orders(window=40, concurrency=2))

    assert ran.stop.why == "quality"
    assert "Chutes: 3 of its last 3 answers cannot be trained on (in this run: bill-mismatch 3)" in ran.stop.text
    assert len(transport.seen) < 100
    n = len(transport.seen)
    ran = await run(tmp_path, transport, prompts(300), orders(window=40, concurrency=2))
    assert (ran.stop.why, len(transport.seen)) == ("quality", n)


async def test_a_provider_that_fails_is_dropped_where_others_may_answer(tmp_path: Path) -> None:
    """Later requests admit the other one alone, also in the next run."""
    other = ENDPOINT.__class__("atlas-cloud/int4", "AtlasCloud", "int4", Decimal("5e-7"), Decimal("2.5e-6"))
    both = orders(endpoints=(ENDPOINT, other), block={"only": ["chutes", "atlas-cloud"]}, window=20, concurrency=2)

    class Spoiling(Direct):
        async def send(self, call: Call) -> Reply:
            reply = await super().send(call)
            if b'"provider": "Chutes"' in reply.body or b'"provider":"Chutes"' in reply.body:
                return Reply(200, reply.headers, reply.body.replace(b'"completion_tokens":', b'"completion_tokens":9'))
            return reply

    transport = Spoiling(host())
    ran = await run(tmp_path, transport, prompts(100), both)
    blocks = [json.loads(call.body)["provider"] for call in transport.calls]
    assert ran.stop.good
    assert (blocks[0], blocks[-1]) == ({"only": ["chutes", "atlas-cloud"]}, {"only": ["atlas-cloud/int4"]})
    assert {row.provider for row in ran.rows} == {"Chutes", "AtlasCloud"}
    assert ran.progress.providers["Chutes"].dropped
    transport = Spoiling(host())
    later = await run(tmp_path, transport, prompts(101), both)
    assert later.progress.dropped_why == ran.progress.dropped_why
    assert later.progress.dropped_why.startswith("Chutes: 2 of its last 2 answers cannot be trained on")
    assert [json.loads(call.body)["provider"] for call in transport.calls] == [{"only": ["atlas-cloud/int4"]}]


class Uncounted(Direct):
    """Does not say how long prompts were."""

    async def send(self, call: Call) -> Reply:
        """As the host, without prompt_tokens."""
        reply = await super().send(call)
        body = json.loads(reply.body)
        if "usage" in body:
            del body["usage"]["prompt_tokens"], body["usage"]["total_tokens"]
        return Reply(reply.status, reply.headers, json.dumps(body).encode())


async def test_answers_that_samples_leave_out_pause_the_run(tmp_path: Path) -> None:
    """Prompts that nobody verified make no samples, so that they are not good either, unless they were allowed."""
    what, transport = orders(window=40, concurrency=2), Uncounted(host())
    ran = await run(tmp_path, transport, prompts(300), what)

    assert ran.stop.why == "quality"
    assert "Chutes: 3 of its last 3 answers cannot be trained on (in this run: prompt-unverified 3)" in ran.stop.text
    assert "go on with --allow-unverified-prompt" in ran.stop.text
    assert len(transport.seen) < 100
    again = await run(tmp_path, transport, prompts(40), what)
    assert (again.stop.why, "--allow-unverified-prompt" in again.stop.text) == ("quality", True)
    allowed = await run(tmp_path, transport, prompts(40), what, recipe=replace(RECIPE, allow_unverified_prompt=True))
    assert (allowed.stop.why, allowed.ends()["answered"]) == ("done", max(40, len(again.rows)))


async def test_a_host_without_habits_is_told_of_calibrate(tmp_path: Path) -> None:
    """Its answers are unverified, in the first part of a run and in the next."""
    recipe, what = replace(RECIPE, habits="habits = []\n"), orders(window=40, concurrency=2)
    for _ in range(2):
        ran = await run(tmp_path, Direct(host()), prompts(300), what, recipe=recipe)
        assert (ran.stop.why, ran.stop.lasting) == ("quality", True)
        assert "`tokenproof calibrate` learns habits from recordings; then `tokenproof rejudge`" in ran.stop.text
        assert "--habits" in ran.stop.text


class Unreadable(Direct):
    """Takes the money, and answers with what nobody can read; of some providers alone, by their names in the answer."""

    def __init__(self, how: str, *names: str) -> None:
        super().__init__(host())
        self.how, self.names = how, [name.encode() for name in names]

    async def send(self, call: Call) -> Reply:
        """As the host, spoilt."""
        reply = await super().send(call)
        if not call.body or not any(name in reply.body for name in self.names):
            return reply
        body = json.loads(reply.body)
        body["usage"]["completion_tokens"] += 0.5 if self.how == "float" else 0
        if self.how == "beside":
            body["error"] = {"code": 502, "message": "Provider returned error"}
        return Reply(200, reply.headers, b"" if self.how == "empty" else json.dumps(body).encode())


UNREADABLE = ("float", "beside", "empty")


@pytest.mark.parametrize("how", UNREADABLE)
async def test_a_provider_whose_answers_are_none_pauses_the_run(tmp_path: Path, how: str) -> None:
    """What is paid for and cannot be read counts as an answer that cannot be trained on; a later run tries again."""
    transport = Unreadable(how, "Chutes")
    ran = await run(tmp_path, transport, prompts(300), orders(window=40, concurrency=2))

    assert ran.stop.why == "quality"
    assert "Chutes: 3 of its last 3 answers cannot be trained on (in this run: no-answer 3)" in ran.stop.text
    assert 3 <= len(transport.seen) <= 4
    ran = await run(tmp_path, Direct(host()), prompts(50), orders(window=40, concurrency=2))
    assert (ran.stop.why, ran.ends()["answered"]) == ("done", 50)


@pytest.mark.parametrize("how", UNREADABLE)
async def test_a_provider_whose_answers_are_none_is_dropped_where_others_may_answer(tmp_path: Path, how: str) -> None:
    """Where it says its name; what names nobody pauses the run, since a good provider might be dropped for it."""
    other = ENDPOINT.__class__("atlas-cloud/int4", "AtlasCloud", "int4", Decimal("5e-7"), Decimal("2.5e-6"))
    both = orders(endpoints=(ENDPOINT, other), block={"only": ["chutes", "atlas-cloud"]}, window=20, concurrency=2)
    transport = Unreadable(how, "Chutes")
    ran = await run(tmp_path, transport, prompts(30), both)

    chats = [call for call in transport.calls if call.body]
    if how != "empty":
        assert (ran.stop.why, ran.ends()) == ("done", {"answered": 30})
        assert json.loads(chats[-1].body)["provider"] == {"only": ["atlas-cloud/int4"]}
        assert len(chats) <= 34
    else:
        assert ran.stop.why == "quality"
        assert "a provider that does not say its name: 2 of its last 2 answers" in ran.stop.text
        assert len(chats) <= 4


async def test_an_error_that_costs_nothing_speaks_against_nobody(tmp_path: Path) -> None:
    """A busy host says so, in an answer of status 200 too: it is asked again."""
    ran = await run(tmp_path, Direct(host(faults=["200-error"] * 5)), prompts(20), orders(window=20))
    assert (ran.stop.why, ran.ends()) == ("done", {"answered": 20})


async def test_an_empty_only_is_never_sent(tmp_path: Path) -> None:
    """It pins nobody, so that anybody might answer and be paid: whatever empties it, no request goes out."""
    transport = Direct(host())
    with open_ledger(ledger_path(tmp_path)) as ledger:
        ledger.commit([w.meta(dropped='["Chutes"]')])
    for what in (orders(), orders(block={"only": [], "order": ["chutes"]})):
        with pytest.raises(SetupError, match="`only` of the provider block is empty"):
            await run(tmp_path, transport, prompts(3), what)
    assert transport.calls == []


async def test_a_token_target_ends_a_data_set(tmp_path: Path) -> None:
    """Nothing more is asked once its answers have that many tokens, in this run and the next."""
    transport = Direct(host())
    what = orders(targets={"a": 300}, concurrency=1)
    ran = await run(tmp_path, transport, prompts(100), what)
    assert (ran.stop.why, ran.progress.sets["a"].stopped) == ("done", "its 300 tokens are reached")
    assert 300 <= ran.totals.n_tokens["a"] < 400
    n = len(transport.seen)
    await run(tmp_path, transport, prompts(100), what)
    assert len(transport.seen) == n


@pytest.mark.parametrize("usage", [None, {"completion_tokens": 0, "cost": 2e-4}])
async def test_answers_without_a_bill_count_towards_a_target(tmp_path: Path, usage: Any) -> None:
    """By their text, in this run and the next: else all prompts would be bought. The ledger keeps what was said."""

    class Silent(Direct):
        async def send(self, call: Call) -> Reply:
            reply = await super().send(call)
            body = json.loads(reply.body)
            if "choices" in body:
                body["usage"] = usage
            return Reply(reply.status, reply.headers, json.dumps(body).encode())

    transport, what = Silent(host()), orders(targets={"a": 300}, concurrency=1, max_rejected=1.0)
    ran = await run(tmp_path, transport, prompts(100), what)

    assert (ran.stop.why, ran.progress.sets["a"].stopped) == ("done", "its 300 tokens are reached")
    n, told = len(transport.seen), ran.progress.sets["a"].n_tokens
    assert 4 <= n <= 8
    assert 300 <= told < 400
    assert {row.n_tokens for row in ran.rows if row.answer} == {usage and 0}
    ran = await run(tmp_path, transport, prompts(100), what)
    assert (len(transport.seen), ran.progress.sets["a"].n_tokens) == (n, told)
    with read_ledger(ledger_path(tmp_path)) as ledger:
        assert ledger.lengths(100) == []


async def test_ctrl_c_once_lets_in_what_is_under_way(tmp_path: Path) -> None:
    """Nothing more is sent, nothing is lost, and the next run goes on."""
    transport = Direct(host(), delay_s=0.05)

    async def during(run: Run) -> None:
        await transport.sent(10)
        run.interrupt()

    ran = await run(tmp_path, transport, prompts(60), during=during)
    assert ran.stop.why == "interrupted"
    assert ran.ends()["answered"] == len(transport.seen)
    ran = await run(tmp_path, transport, prompts(60))
    assert ran.ends() == {"answered": 60}
    assert len(transport.seen) == 60


async def test_ctrl_c_twice_gives_up_what_is_under_way(tmp_path: Path) -> None:
    """It ends at once; what was under way is booked whole by the next run, which asks it again."""
    transport = Direct(host(), delay_s=30.0)

    async def during(run: Run) -> None:
        await transport.sent(2)
        run.interrupt()
        await asyncio.sleep(0.05)
        run.interrupt()

    ran = await asyncio.wait_for(run(tmp_path, transport, prompts(4), during=during), 10)
    n = len(transport.seen)
    assert (ran.stop.why, ran.ends()) == ("interrupted", {None: n})
    assert ran.totals.reserved_nano > 0
    ran = await run(tmp_path, Direct(host()), prompts(4))
    assert ran.ends() == {"answered": 4}
    assert (ran.totals.n_unknown, ran.totals.n_attempts, ran.totals.reserved_nano) == (n, 4 + n, 0)


@pytest.mark.parametrize("n_turns", range(6))
async def test_ctrl_c_twice_loses_no_verdict_of_what_has_come(tmp_path: Path, n_turns: int) -> None:
    """However far an answer is when it is given up: every answer that the ledger has is judged."""
    made: list[Run] = []

    class Twice(Direct):
        """Interrupts the run twice, some turns of the loop after it gave its tenth reply."""

        async def send(self, call: Call) -> Reply:
            reply = await super().send(call)
            if len(self.seen) == 10:
                self.beside = asyncio.create_task(self.twice())
            return reply

        async def twice(self) -> None:
            for _ in range(n_turns):
                await asyncio.sleep(0)
            made[0].interrupt()
            made[0].interrupt()

    async def during(run: Run) -> None:
        made.append(run)

    ran = await run(tmp_path, Twice(host()), prompts(60), during=during)

    assert ran.stop.why == "interrupted"
    assert ran.ends()["answered"] >= 1
    assert [row.id for row in ran.rows if row.answer is not None and row.verdict is None] == []
    ran = await run(tmp_path, Direct(host()), prompts(60))
    assert ran.ends() == {"answered": 60}


async def test_answers_without_a_verdict_are_judged_first(tmp_path: Path) -> None:
    """A run that ended between answer and verdict loses neither; nothing is asked."""
    await run(tmp_path, Direct(host()), prompts(5))
    from runners.ledger import open_ledger

    with open_ledger(ledger_path(tmp_path)) as ledger:
        ledger.commit([[("DELETE FROM verdict WHERE job IN (2, 4)", ())]])
    transport = Direct(host())
    ran = await run(tmp_path, transport, prompts(5))
    assert (transport.seen, [row.verdict_name for row in ran.rows]) == ([], ["verified"] * 5)


async def test_a_network_that_is_gone_holds_the_run_and_then_stops_it(tmp_path: Path) -> None:
    """Nothing was sent, so nothing is booked; a prompt's tries are not used up one prompt after the other."""

    class Gone(Direct):
        async def send(self, call: Call) -> Reply:
            self.calls.append(call)
            raise NotSentError("nobody listens")

    transport = Gone(host())
    ran = await run(tmp_path, transport, prompts(50), orders(concurrency=4))
    assert ran.stop.why == "not-sent"
    assert (ran.totals.spent_nano, ran.totals.reserved_nano, ran.totals.n_unknown) == (0, 0, 0)
    assert set(ran.ends()) == {None}


async def test_a_bug_is_raised_after_what_is_under_way_came_in(tmp_path: Path) -> None:
    """An exception that nobody expects ends the run, but no answer is lost."""

    class Odd(Direct):
        async def send(self, call: Call) -> Reply:
            if len(self.seen) == 5:
                self.seen.append("bug")
                raise ZeroDivisionError("a bug")
            return await super().send(call)

    with pytest.raises(ZeroDivisionError):
        await run(tmp_path, Odd(host(), delay_s=0.02), prompts(50), orders(concurrency=4))
    with read_ledger(ledger_path(tmp_path)) as ledger:
        assert sum(row.answer is not None for row in ledger.rows()) >= 5


async def test_a_changed_prompt_ends_the_run(tmp_path: Path) -> None:
    """Before anything is asked of it."""
    await run(tmp_path, Direct(host()), prompts(3))
    ran: Ran = await run(tmp_path, Direct(host()), [prompt(0, max_tokens=7)])
    assert (ran.stop.why, "--amend" in ran.stop.text) == ("input", True)


async def test_a_full_disk_ends_the_run_with_the_ledger_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that fail: nothing more is sent, and what was committed goes on in the next run."""
    from runners.ledger import Ledger

    real, n = Ledger.commit, 0

    def failing(self: Ledger, writes: Any) -> None:
        nonlocal n
        n += 1
        if n > 12:
            raise SetupError("database or disk is full")
        real(self, writes)

    transport = Direct(host(), delay_s=0.005)
    monkeypatch.setattr(Ledger, "commit", failing)
    ran = await run(tmp_path, transport, prompts(100))
    monkeypatch.undo()
    assert (ran.stop.why, "disk is full" in ran.stop.text) == ("ledger", True)
    assert "requests could not be written down: perhaps paid, asked again later" in ran.stop.text
    assert len(transport.seen) < 40
    kept = {row.id: row.answer_sha256 for row in ran.rows if row.answer}
    ran = await run(tmp_path, Direct(host()), prompts(100))
    assert ran.ends() == {"answered": 100}
    assert {row.id: row.answer_sha256 for row in ran.rows if row.id in kept} == kept


HELD = {
    # fault -> seconds for which nobody sends, seconds for which the prompt waits
    "429": (0.0, 30.0),
    "429-retry-after": (30.0, 30.0),
    "429-gateway": (5.0, 5.0),
    "402-in-flight": (7.0, 7.0),
    "500": (0.0, 2.0),
}


@pytest.mark.parametrize("fault", HELD)
async def test_who_waits_and_for_how_long(tmp_path: Path, fault: str) -> None:
    """What the one provider asks of everybody holds everybody, for as long as it asks; else the prompt alone waits."""
    waits, holds = list[float](), list[float]()

    async def during(run: Run) -> None:
        run.desk.hold = holds.append  # type: ignore[method-assign]

    def noted(failure: Any, n: int, draw: float) -> float:
        waits.append(wait_s(failure, n, draw))
        return waits[-1] / 1000

    ran = await run(tmp_path, Direct(host(faults=[fault]), 0.01), prompts(3), during=during, wait_s=noted)
    assert ran.ends() == {"answered": 3}
    assert ([round(s * 1000, 6) for s in holds], max(waits)) == (
        [HELD[fault][0]] if HELD[fault][0] else [],
        HELD[fault][1],
    )


async def test_holds_grow_while_nothing_comes_and_not_with_those_under_way(tmp_path: Path) -> None:
    """Eight at once that cannot be sent are one hold; the next one is twice as long; an answer begins anew."""
    ns = list[int]()

    class Twice(Direct):
        async def send(self, call: Call) -> Reply:
            self.calls.append(call)
            if len(self.calls) <= 16:
                await asyncio.sleep(0.002)
                raise NotSentError("nobody listens")
            return await super().send(call)

    def noted(failure: Any, n: int, draw: float) -> float:
        ns.append(n)
        return 0.05

    ran = await run(tmp_path, Twice(host()), prompts(8), orders(concurrency=32), wait_s=noted)
    assert ran.ends() == {"answered": 8}
    assert set(ns) == {1, 2}


async def test_a_price_list_that_changes_stops_the_run(tmp_path: Path) -> None:
    """It is looked at again and again while the run goes on; what it says stops the sending."""
    answers = iter([None, None, "the price rose"])

    async def recheck() -> str | None:
        return next(answers)

    async def during(run: Run) -> None:
        run.recheck = recheck

    transport = Direct(host(), delay_s=0.02)
    asked = (prompt(n) for n in range(10**6))
    ran = await run(tmp_path, transport, asked, during=during, sleep=lambda _: asyncio.sleep(0.05))
    assert (ran.stop.why, ran.stop.text) == ("price-list", "the price rose")
    assert ran.ends()["answered"] == len(transport.seen)


class Once(Direct):
    """Replaces the first reply: (status, body) made from the true body."""

    def __init__(self, made: Callable[[dict[str, Any]], tuple[int, bytes, bool]]) -> None:
        super().__init__(host())
        self.made: Callable[[dict[str, Any]], tuple[int, bytes, bool]] | None = made

    async def send(self, call: Call) -> Reply:
        """As the host, but for the first chat request."""
        reply = await super().send(call)
        if not call.body or self.made is None:
            return reply
        (status, body, echoed), self.made = self.made(json.loads(reply.body)), None
        return Reply(status, reply.headers, body, echoed)


@pytest.mark.parametrize("status", [400, 429, 500, 503])
@pytest.mark.parametrize(("cost", "nano"), [(0.002, 2_000_000), (0, 0), (-1, 0), ("0.1", 0), (None, 0)])
async def test_an_error_that_states_a_cost_is_booked(tmp_path: Path, status: int, cost: Any, nano: int) -> None:
    """A refusal is free unless it says otherwise."""
    body = json.dumps({"error": {"code": status, "message": "no"}, "usage": {"cost": cost}}).encode()
    ran = await run(tmp_path, Once(lambda _: (status, body, False)), prompts(1))
    with sqlite3.connect(ledger_path(tmp_path)) as ledger:
        booked = ledger.execute("SELECT status, settled_nano FROM attempt ORDER BY attempt").fetchall()
    assert booked[0] == (status, nano)
    assert ran.totals.spent_nano == sum(paid for _, paid in booked)


@pytest.mark.parametrize("cost", ["NaN", '"0.01"', "true", "-Infinity", "1e999"])
async def test_an_odd_cost_spoils_no_answer(tmp_path: Path, cost: str) -> None:
    """The answer is kept and judged, asked once, and its cost is asked for as if it were null."""

    def made(body: dict[str, Any]) -> tuple[int, bytes, bool]:
        body["usage"]["cost"] = "COST"
        return 200, json.dumps(body).replace('"COST"', cost).encode(), False

    transport = Once(made)
    ran = await run(tmp_path, transport, prompts(1))
    assert (ran.ends(), len(transport.seen), ran.totals.n_attempts) == ({"answered": 1}, 1, 1)
    assert [row.verdict_name for row in ran.rows] == ["verified"]
    assert ran.totals.spent_nano > 0
    assert any(call.path.startswith("/generation") for call in transport.calls)


class Cut(Direct):
    """The first answer breaks off after so many bytes; `told`: whether the generation endpoint knows what it cost."""

    def __init__(self, n_bytes: int, *, told: bool) -> None:
        super().__init__(host())
        self.n_bytes, self.told, self.cut = n_bytes, told, False

    async def send(self, call: Call) -> Reply:
        """As the host, but for the first chat request."""
        if call.path.startswith("/generation") and not self.told:
            return Reply(404, {}, b"{}")
        reply = await super().send(call)
        if not call.body or self.cut:
            return reply
        self.cut = True
        raise UnansweredError("the connection was lost", partial=reply.body[: self.n_bytes])


@pytest.mark.parametrize(
    ("n_bytes", "told", "by"),
    [(120, True, "generation"), (120, False, "reservation"), (5, True, "reservation"), (0, True, "reservation")],
)
async def test_a_cut_answer_is_booked_as_its_generation_cost(tmp_path: Path, n_bytes: int, told: bool, by: str) -> None:
    """Where its beginning shows which one it is and the host tells; else the whole reservation is."""
    transport = Cut(n_bytes, told=told)
    ran = await run(tmp_path, transport, prompts(1))

    with sqlite3.connect(ledger_path(tmp_path)) as ledger:
        sql = "SELECT failure, settled_by, settled_nano < reserved_nano FROM attempt ORDER BY attempt"
        booked = ledger.execute(sql).fetchall()
    assert booked == [("unanswered", by, by == "generation"), (None, "usage", True)]
    assert (ran.ends(), ran.totals.reserved_nano) == ({"answered": 1}, 0)


SECRETS = "user" + "_2abcdef9XYZ sk-" + "or-v1-aaaa1111bbbb cookie: __cf" + "_bm=abc.def-1"


@pytest.mark.parametrize("status", [200, 400, 401, 502])
async def test_no_account_and_no_key_of_an_error_is_kept(tmp_path: Path, status: int) -> None:
    """The words of a host stay, what names accounts and keys in them goes: from ledger, stop and rows."""
    body = json.dumps(
        {"id": "sk-" + "or-v1-cccc2222", "error": {"code": status, "message": f"who is {SECRETS}"}}
    ).encode()
    ran = await run(tmp_path, Once(lambda _: (status, body, False)), prompts(1))
    kept = "".join(map(repr, (ran.stop, ran.rows)))
    with sqlite3.connect(ledger_path(tmp_path)) as ledger:
        notes = list(ledger.execute("SELECT note, provider, generation FROM attempt"))
    for secret in ("user_2", "sk-or", "__cf_bm"):
        assert secret not in kept + repr(notes)
    assert "who is [removed]" in repr(notes)


async def test_a_key_within_an_answer_stops_the_run(tmp_path: Path) -> None:
    """Its text is no longer what was sampled; a key elsewhere in an answer leaves the answer as good as it was."""

    def in_text(body: dict[str, Any]) -> tuple[int, bytes, bool]:
        body["choices"][0]["message"]["content"] += " [removed]"
        return 200, json.dumps(body).encode(), True

    def in_id(body: dict[str, Any]) -> tuple[int, bytes, bool]:
        return 200, json.dumps(body | {"system_fingerprint": "[removed]"}).encode(), True

    for name in "ab":
        (tmp_path / name).mkdir()
    stopped = await run(tmp_path / "a", Once(in_text), prompts(1))
    assert (stopped.stop.why, stopped.ends()) == ("key-echoed", {None: 1})
    assert stopped.totals.spent_nano > 0
    assert (await run(tmp_path / "b", Once(in_id), prompts(1))).ends() == {"answered": 1}
