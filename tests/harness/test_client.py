"""harness.client and harness.client_bulk: two transports that keep the same promises, over real sockets on loopback."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from harness.client import HttpxTransport
from harness.client_bulk import AiohttpTransport
from harness.errors import ProviderError
from harness.scrub import REMOVED
from harness.transport import Call, NotSentError, Reply, Target, UnansweredError
from tests.emulator_kit import MODEL, asked, emulator
from tests.served import Served

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


@dataclass
class Client:
    """A transport under test: its class, its word for a silence."""

    transport: type[HttpxTransport | AiohttpTransport]
    silence: str

    async def said(self, base_url: str, call: Call, key: str | None = None) -> Reply:
        """The reply to one call."""
        transport = self.transport(Target(base_url, key))
        try:
            return await transport.send(call)
        finally:
            await transport.close()


@pytest.fixture(params=["httpx", "aiohttp"])
def client(request: pytest.FixtureRequest) -> Client:
    """Each of the two transports."""
    both = {
        "httpx": Client(HttpxTransport, "ReadTimeout"),
        "aiohttp": Client(AiohttpTransport, "SocketTimeoutError"),
    }
    return both[request.param]


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


async def test_an_answer_and_a_refusal_are_replies(client: Client) -> None:
    """The emulator's answer comes whole, with the key it asks for; without it comes a 401."""
    with Served(emulator(clock=time.time, keys=frozenset({"sk-made-up"}))) as url:
        call = Call("POST", "/chat/completions", json.dumps(asked()).encode())
        reply = await client.said(url, call, "sk-made-up")
        assert (reply.status, json.loads(reply.body)["choices"][0]["message"]["content"]) == (200, "Hi there!")
        assert reply.headers["content-type"] == "application/json"
        reply = await client.said(url, Call("GET", f"/models/{MODEL}/endpoints"))
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (401, 401)


async def test_not_sent(client: Client) -> None:
    """A port where nobody listens: nothing was sent, and the error says so."""
    with pytest.raises(NotSentError, match="nothing was sent"):
        await client.said("http://127.0.0.1:9", Call("POST", "/chat/completions", b"{}"))


@pytest.mark.parametrize(("answer", "partial"), [(b"", b""), (HEAD + b"half a", b"half a")])
async def test_sent_and_unanswered(
    client: Client, raw: Callable[[Handler], Awaitable[str]], answer: bytes, partial: bytes
) -> None:
    """A connection that ends before the body does: perhaps billed; what came is kept."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    with pytest.raises(UnansweredError, match="may have been billed") as caught:
        await client.said(await raw(handler), Call("POST", "/x", b""))
    assert caught.value.partial == partial


async def test_silence_ends(client: Client, raw: Callable[[Handler], Awaitable[str]]) -> None:
    """A host that says nothing is given up after the read timeout."""
    let_go = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await let_go.wait()
        writer.close()

    with pytest.raises(UnansweredError, match=client.silence):
        await client.said(await raw(handler), Call("GET", "/x", read_timeout_s=0.1))
    let_go.set()


async def test_a_reply_without_end_is_cut(
    client: Client, raw: Callable[[Handler], Awaitable[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply over the limit is the host's fault and does not fill the memory."""
    monkeypatch.setattr("harness.transport.MAX_REPLY_BYTES", 50)

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + b"x" * 100)
        writer.close()

    with pytest.raises(ProviderError, match="a reply of more than"):
        await client.said(await raw(handler), Call("GET", "/x"))


@pytest.mark.parametrize("status", [301, 307])
async def test_no_redirect_is_followed(client: Client, raw: Callable[[Handler], Awaitable[str]], status: int) -> None:
    """A redirect is a reply like any other: the key goes nowhere else."""
    hits = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hits.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 %d Moved\r\nLocation: /y\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status)
        writer.close()

    assert (await client.said(await raw(handler), Call("GET", "/x"), "sk-made-up")).status == status
    assert len(hits) == 1
    assert b"bearer sk-made-up" in hits[0].lower()


KEY = "sk-" + "or-v1-0123456789abcdef"
SPELLED = {
    "plain": KEY,
    "upper": KEY.upper(),
    "json": "".join(f"\\u00{ord(c):02x}" for c in KEY),
    "url": "".join(f"%{ord(c):02X}" for c in KEY),
    "html": "".join(f"&#{ord(c)};" for c in KEY),
}


@pytest.mark.parametrize("status", ["200 OK", "401 Unauthorized", "502 Bad Gateway"])
@pytest.mark.parametrize("spelled", SPELLED)
async def test_a_host_that_echoes_the_key_is_not_quoted(
    client: Client, raw: Callable[[Handler], Awaitable[str]], status: str, spelled: str
) -> None:
    """However it is written: the reply that anybody reads holds it no more; an answer says so of itself."""
    body = f'{{"id":"{SPELLED[spelled]}","n":[1, 2]}}'.encode()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()

    reply = await client.said(await raw(handler), Call("GET", "/x"), KEY)
    assert reply.body == b'{"id":"[removed]","n":[1, 2]}'
    assert reply.echoed == (status == "200 OK")


@pytest.mark.parametrize("status", ["200 OK", "302 Found", "429 Slow Down", "502 Bad Gateway"])
@pytest.mark.parametrize("spelled", SPELLED)
async def test_no_header_holds_the_key(
    client: Client, raw: Callable[[Handler], Awaitable[str]], status: str, spelled: str
) -> None:
    """However it is written, in any header and in a header's name; the other headers stay as they came."""
    key = SPELLED[spelled]
    names = f"{KEY}: 1\r\n" if spelled == "plain" else ""
    head = f"Location: /a?k={key}&b=1\r\nContent-Encoding: x-{key}\r\nRetry-After: 3\r\nX-A: 5%\r\n{names}"

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status}\r\n{head}Content-Length: 2\r\n\r\n{{}}".encode())
        writer.close()

    reply = await client.said(await raw(handler), Call("GET", "/x"), KEY)
    assert reply.headers == {
        "location": "/a?k=[removed]&b=1",
        "content-encoding": "x-[removed]",
        "retry-after": "3",
        "x-a": "5%",
        "content-length": "2",
    } | ({"[removed]": "1"} if names else {})
    assert not reply.echoed  # an answer that was changed says so; this one was not


async def test_a_broken_header_is_not_quoted_with_the_key(
    client: Client, raw: Callable[[Handler], Awaitable[str]]
) -> None:
    """What a library says of bytes that are no HTTP holds them; without the key."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nno header {KEY}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        writer.close()

    with pytest.raises(UnansweredError) as caught:
        await client.said(await raw(handler), Call("GET", "/x"), KEY)
    assert "0123456789abcdef" not in str(caught.value)
    assert REMOVED in str(caught.value)


async def test_a_cut_reply_holds_no_key(client: Client, raw: Callable[[Handler], Awaitable[str]]) -> None:
    """What came of it is kept, without the key."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD + f"Bearer {KEY} is".encode())
        await writer.drain()
        writer.close()

    with pytest.raises(UnansweredError) as caught:
        await client.said(await raw(handler), Call("GET", "/x"), KEY)
    assert b"is" in caught.value.partial
    assert KEY.encode() not in caught.value.partial
    assert KEY not in str(caught.value)
