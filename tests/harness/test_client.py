"""harness.client: httpx as a Transport, over real sockets on loopback."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from harness.client import HttpxTransport
from harness.errors import ProviderError
from harness.transport import Call, NotSentError, Target, UnansweredError
from tests.emulator_kit import MODEL, asked, emulator
from tests.served import Served

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


async def _said(base_url: str, call: Call, key: str | None = None) -> tuple[int, bytes]:
    transport = HttpxTransport(Target(base_url, key))
    try:
        reply = await transport.send(call)
        return reply.status, reply.body
    finally:
        await transport.close()


@pytest.fixture
async def raw() -> AsyncIterator[Callable[[Handler], Awaitable[str]]]:
    """Starts a server that treats each connection as the handler says; gives its URL."""
    servers = []

    async def start(handler: Handler) -> str:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def test_an_answer_and_a_refusal_are_replies() -> None:
    """The emulator's answer comes whole, with the key it asks for; without it comes a 401."""
    with Served(emulator(clock=time.time, keys=frozenset({"sk-made-up"}))) as url:
        call = Call("POST", "/chat/completions", json.dumps(asked()).encode())
        status, body = await _said(url, call, "sk-made-up")
        assert (status, json.loads(body)["choices"][0]["message"]["content"]) == (200, "Hi there!")
        status, body = await _said(url, Call("GET", f"/models/{MODEL}/endpoints"))
        assert (status, json.loads(body)["error"]["code"]) == (401, 401)


async def test_not_sent() -> None:
    """A port where nobody listens: nothing was sent, and the error says so."""
    with pytest.raises(NotSentError, match="nothing was sent"):
        await _said("http://127.0.0.1:9", Call("POST", "/chat/completions", b"{}"))


@pytest.mark.parametrize(("answer", "partial"), [(b"", b""), (HEAD + b"half a", b"half a")])
async def test_sent_and_unanswered(raw: Callable[[Handler], Awaitable[str]], answer: bytes, partial: bytes) -> None:
    """A connection that ends before the body does: perhaps billed; what came is kept."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    with pytest.raises(UnansweredError, match="may have been billed") as caught:
        await _said(await raw(handler), Call("POST", "/x", b""))
    assert caught.value.partial == partial


async def test_silence_ends(raw: Callable[[Handler], Awaitable[str]]) -> None:
    """A host that says nothing is given up after the read timeout."""
    let_go = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await let_go.wait()
        writer.close()

    with pytest.raises(UnansweredError, match="ReadTimeout"):
        await _said(await raw(handler), Call("GET", "/x", read_timeout_s=0.1))
    let_go.set()


async def test_a_reply_without_end_is_cut(
    raw: Callable[[Handler], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply over the limit is the host's fault and does not fill the memory."""
    monkeypatch.setattr("harness.client.MAX_REPLY_BYTES", 50)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"x" * 100)
        writer.close()

    with pytest.raises(ProviderError, match="a reply of more than"):
        await _said(await raw(handler), Call("GET", "/x"))
