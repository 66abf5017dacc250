"""harness.client_bulk: what only the bulk transport promises; what both do is in test_client."""

import asyncio
import json

import pytest
import uvloop

from harness.client_bulk import AiohttpTransport, run
from harness.errors import ProviderError
from harness.transport import Call, Target
from tests.emulator_kit import ANSWERS, asked, emulator
from tests.served import Served


async def test_many_calls_share_a_transport() -> None:
    """300 at once, each with its own answer: no limit of the library stands in between, no cookie is kept."""
    app = emulator(answers={f"q{n}": ANSWERS["hi"] for n in range(300)})
    with Served(app) as url:
        transport = AiohttpTransport(Target(url))
        calls = [Call("POST", "/chat/completions", json.dumps(asked(f"q{n}")).encode()) for n in range(300)]
        replies = await asyncio.gather(*map(transport.send, calls))
        await transport.close()

    assert [r.status for r in replies] == [200] * 300
    assert sorted(r["messages"][0]["content"] for r in app.requests) == sorted(f"q{n}" for n in range(300))


async def test_a_packed_reply_is_refused() -> None:
    """None was asked for, and a small one may unpack to a gigabyte."""
    with Served(emulator(faults=["gzip-bomb"])) as url:
        transport = AiohttpTransport(Target(url))
        with pytest.raises(ProviderError, match="a packed reply although none was asked for"):
            await transport.send(Call("POST", "/chat/completions", json.dumps(asked()).encode()))
        await transport.close()


def test_it_runs_on_uvloop() -> None:
    """The loop that makes the difference."""

    async def main() -> type:
        return type(asyncio.get_running_loop())

    assert run(main()) is uvloop.Loop
