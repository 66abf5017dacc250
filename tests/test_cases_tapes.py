"""Kinds of trouble that users of VCR.py and of test gates reported, one test or more each; see `test_cases`."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.cassette_files import read_recording
from harness.cassette_text import cassette_text
from harness.client import HttpxTransport
from harness.client_bulk import AiohttpTransport
from harness.recording import Provenance, Recording, pair_of
from harness.scrub import leaks, leaks_in_text
from harness.sockets import NetworkBlockedError, only_loopback
from harness.tape import MissError, Tape, playing, taking
from harness.transport import Call, Target, UnansweredError
from tests.harness.test_sockets import SlippedTransport
from tests.served import Served

EVENTS = [b"data: %d\n\n" % k for k in range(4)]


def app(reply: Callable[[Any, Any], Any]) -> Any:
    """An ASGI app that reads a JSON body and lets `reply` send; the lifespan is nobody's business."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await reply(json.loads(body or b"{}"), send)

    return serve


async def _whole(send: Any, body: bytes, status: int = 200, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


def made(tape: Tape) -> Recording:
    """What was taken, as a recording."""
    return Recording("p/s.yaml", tuple(tape.taken), Provenance("emulator", pairs=tuple(map(pair_of, tape.taken))))


# --- 037: parallel prompts replay swapped; repeats return the first answer only ---------------------------------------


async def _late_a(asked: Any, send: Any) -> None:
    await asyncio.sleep(0.3 if asked["prompt"] == "A" else 0)
    await _whole(send, asked["prompt"].lower().encode())


async def _ask(url: str, *prompts: str) -> list[bytes]:
    async with httpx.AsyncClient(trust_env=False) as client:
        replies = await asyncio.gather(*(client.post(url, json={"prompt": p}) for p in prompts))
        return [r.content for r in replies]


def test_037_answers_belong_to_prompts() -> None:
    """Recorded in the order of completion, B before A; each prompt gets its own answer all the same."""
    with Served(app(_late_a)) as url, taking() as tape:
        assert asyncio.run(_ask(url, "A", "B")) == [b"a", b"b"]
    assert [one.body for one in tape.taken] == [b"b", b"a"]

    with playing(made(tape)) as again:
        assert asyncio.run(_ask(url, "A", "B")) == [b"a", b"b"]
    assert again.complaints() == ()


def test_037_equal_requests_have_answers_of_their_own() -> None:
    """Three samples of one prompt replay as three, in order; a fourth is a miss and no repeat."""
    n = iter(range(9))

    async def counted(asked: Any, send: Any) -> None:
        await _whole(send, b"%d" % next(n))

    with Served(app(counted)) as url, taking() as tape:
        assert [asyncio.run(_ask(url, "A")) for _ in range(3)] == [[b"0"], [b"1"], [b"2"]]
    with playing(made(tape)) as again:
        assert [asyncio.run(_ask(url, "A")) for _ in range(3)] == [[b"0"], [b"1"], [b"2"]]
        with pytest.raises(MissError, match="each is played once"):
            asyncio.run(_ask(url, "A"))
    assert again.plays == [1, 1, 1]


# --- 038: streams are read to the end; aborted streams leave no cassette ----------------------------------------------


def _stream(n_sent: int) -> Any:
    async def stream(asked: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for event in EVENTS[:n_sent]:
            await send({"type": "http.response.body", "body": event, "more_body": True})
            await asyncio.sleep(0.02)
        if n_sent == len(EVENTS):
            await send({"type": "http.response.body", "body": b""})

    return app(stream)


def _read(url: str, n_events: int) -> bytes:
    got = b""
    with httpx.stream("POST", url, json={}, trust_env=False) as reply:
        for part in reply.iter_bytes(len(EVENTS[0])):
            got += part
            if len(got) >= n_events * len(EVENTS[0]):
                break
    return got


@pytest.mark.parametrize("n_events", [2, 4])
def test_038_a_client_that_stops_early_leaves_a_whole_stream(n_events: int) -> None:
    """What is kept is the stream as it was sent, never the part that the client looked at."""
    with Served(_stream(4)) as url, taking() as tape:
        assert _read(url, n_events) == b"".join(EVENTS[:n_events])

    assert [one.body for one in tape.taken] == [b"".join(EVENTS)]


def test_038_a_stream_that_was_dropped_is_no_recording() -> None:
    """Half a stream is an error to the client, and nothing is kept."""
    with Served(_stream(2)) as url, taking() as tape, pytest.raises(httpx.HTTPError):
        _read(url, 4)

    assert tape.taken == []


# --- 039: secrets stay in cassettes -----------------------------------------------------------------------------------


def test_039_nothing_secret_is_kept(tmp_path: Path) -> None:
    """Cookies, an organisation's header and a user's id in an error body, in the wrong letter case."""
    cookie = ("__cf" + "_bm=FAKE").encode()

    async def refuse(asked: Any, send: Any) -> None:
        body = json.dumps({"error": {"code": 429, "message": "x"}, "user_id": "user_FAKE"}).encode()
        await _whole(send, body, 429, [(b"SET-COOKIE", cookie), (b"x-example-org", b"org-FAKE")])

    headers = {"AUTHORIZATION": "Bearer sk-fake-key", "Cookie": "a=FAKE"}
    with Served(app(refuse)) as url, taking(["sk-fake-key"]) as tape:
        assert (
            httpx.post(url, json={"user": "u-FAKE"}, headers=headers, trust_env=False).json()["user_id"] == "user_FAKE"
        )
    path = tmp_path / "s.yaml"
    path.write_bytes(cassette_text(made(tape)))

    text = path.read_text()
    assert [word for word in ("fake", "bearer", "cookie", "authorization") if word in text.lower()] == []
    assert (list(leaks_in_text(text)), leaks(read_recording(path).interactions[0])) == ([], ())


# --- 040: the patched layer moved, some clients bypass the cassette ---------------------------------------------------


def test_040_a_transport_that_bypasses_the_cassette_is_stopped() -> None:
    """Its request never leaves, and what was recorded counts as not played."""

    async def ask() -> None:
        async with httpx.AsyncClient(transport=SlippedTransport()) as client:
            await client.post("http://192.0.2.1/", json={})

    with only_loopback() as tried, playing(Recording("p/s.yaml", ())), pytest.raises(NetworkBlockedError):
        asyncio.run(ask())

    assert tried == ["192.0.2.1"]


def test_040_a_mock_transport_within_a_cassette_is_no_way_out() -> None:
    """Its answer is not taken for a recorded one."""
    mock = httpx.MockTransport(lambda request: httpx.Response(200, text="made up"))

    with playing(Recording("p/s.yaml", ())) as tape, httpx.Client(transport=mock) as client, pytest.raises(MissError):
        client.post("https://host.ai/v1", json={})

    assert len(tape.misses) == 1


@pytest.mark.parametrize("kind", [HttpxTransport, AiohttpTransport])
def test_040_the_clients_of_this_project_are_seen(kind: Any) -> None:
    """Without a recording each of them fails, and says so; with one each gets it, byte for byte."""

    async def ask(url: str) -> bytes:
        transport = kind(Target(url))
        try:
            return bytes((await transport.send(Call("POST", "/chat/completions", b'{"prompt": "A"}'))).body)
        finally:
            await transport.close()

    with Served(app(_late_a)) as url, taking() as tape:
        live = asyncio.run(ask(url))
    with only_loopback() as tried, playing(made(tape)) as again:
        assert asyncio.run(ask(url)) == live == b"a"
        with suppress(MissError, UnansweredError):
            asyncio.run(ask(url + "/elsewhere"))
    assert (len(again.misses), again.plays, tried) == (1, [1], [])
