"""runners.bills: a cost that the answer does not say."""

import json
from typing import Any

import pytest

from harness.response import parse
from harness.transport import Call, NotSentError, Reply
from runners.bills import WAITS_S, cost_of, length_of


class Scripted:
    """Replies from a list, the last one again and again."""

    def __init__(self, *replies: Reply | Exception) -> None:
        self.replies, self.paths = list(replies), list[str]()

    async def send(self, call: Call) -> Reply:
        """The next one."""
        self.paths.append(call.path)
        reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def close(self) -> None:
        """Nothing to do."""


def _generation(**fields: Any) -> Reply:
    return Reply(200, {}, json.dumps({"data": {"id": "gen-1", "total_cost": 0.25, **fields}}).encode())


NO_AMOUNTS = ("1e999999", "-1e999999", "1e16", "NaN", "sNaN", "Infinity", "-0.5", "1" + "0" * 5000, True, [1], "")
LONG = b'{"data": {"id": "gen-1", "total_cost": 1' + b"0" * 5000 + b"}}"


@pytest.mark.parametrize(
    ("replies", "cost", "n_tries"),
    [
        ([_generation()], 250_000_000, 1),
        ([Reply(404, {}, b"{}"), NotSentError("x"), Reply(200, {}, b"<html>"), _generation()], 250_000_000, 4),
        ([_generation(total_cost=0)], 0, 1),
        ([_generation(total_cost=None)], None, len(WAITS_S)),
        ([_generation(id="gen-2")], None, len(WAITS_S)),
        ([_generation(total_cost=-1)], None, len(WAITS_S)),
        *(([_generation(total_cost=cost)], None, len(WAITS_S)) for cost in NO_AMOUNTS),
        ([Reply(200, {}, LONG)], None, len(WAITS_S)),
        ([_generation(total_cost="1e-999999")], 1, 1),
        ([Reply(404, {}, b"{}")], None, len(WAITS_S)),
    ],
    ids=[
        *("at-once", "later", "free", "not-said", "another-one", "nonsense", *map(repr, NO_AMOUNTS)),
        *("long-number", "next-to-nothing", "never"),
    ],
)
async def test_the_cost_is_asked_until_it_is_told(replies: list[Any], cost: int | None, n_tries: int) -> None:
    """Of this generation and no other; after the last try nobody tells."""
    transport, slept = Scripted(*replies), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    assert await cost_of(transport, "gen-1", sleep) == cost
    assert slept == list(WAITS_S[:n_tries])


async def test_an_id_cannot_change_the_request() -> None:
    """It came from outside, and goes into a query."""
    transport = Scripted(_generation())

    async def sleep(_: float) -> None:
        return None

    await cost_of(transport, "a&id=b c/..", sleep)
    assert set(transport.paths) == {"/generation?id=a%26id%3Db%20c%2F.."}


@pytest.mark.parametrize(
    ("message", "usage", "n"),
    [
        ({"content": "abcd" * 10}, {"completion_tokens": 7}, 7),
        ({"content": "abcd" * 10}, None, 11),
        ({"content": "abcd" * 10, "reasoning": "\u4e2d" * 8}, {"completion_tokens": 0}, 17),
        ({"content": ""}, {"completion_tokens": 2**63}, 1),
        ({"tool_calls": [{"id": "1", "function": {"name": "four", "arguments": "{}"}}]}, {"completion_tokens": -5}, 2),
    ],
)
def test_an_answer_is_as_long_as_its_bill_or_its_text(message: Any, usage: Any, n: int) -> None:
    """4 bytes a token, and never nothing: neither a missing bill nor a broken one makes an answer free."""
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}).encode()
    assert length_of(body) == n
    assert length_of(parse(body)) == n
    assert length_of(b"<html>") == 1
