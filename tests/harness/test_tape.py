"""harness.tape: recordings played to any client, and taken from any client, over loopback sockets."""

import asyncio
import json
import urllib.request
from dataclasses import replace
from typing import Any

import aiohttp
import httpx
import openai
import pytest

from harness.client import HttpxTransport
from harness.errors import SetupError
from harness.matching import Sent
from harness.recording import Interaction, Provenance, Recording, pair_of
from harness.scrub import leaks
from harness.sockets import NetworkBlockedError, only_loopback
from harness.tape import Gate, MissError, playing, taking
from harness.transport import Call, Target
from tests.emulator_kit import MODEL, asked, emulator
from tests.harness.test_sockets import SlippedTransport
from tests.scenario_truths import planted
from tests.served import Served

URL = "https://host.ai/api/v1/chat/completions"
SSE = b'data: {"choices":[]}\r\n\r\n: \xe6\xb1\x89 x\n\ndata: [DONE]\n\n'


def one(prompt: str, answer: bytes, uri: str = URL, status: int = 200) -> Interaction:
    """One exchange."""
    headers = {"content-type": ["text/event-stream"]}
    return Interaction("POST", uri, json.dumps({"prompt": prompt}).encode(), status, answer, {}, headers, "OK")


def recording(*found: Interaction) -> Recording:
    """A recording whose hashes are right."""
    return Recording("p/s.yaml", found, Provenance("emulator", pairs=tuple(map(pair_of, found))))


def _httpx(body: bytes) -> bytes:
    return httpx.post(URL, content=body).content


async def _async(body: bytes) -> bytes:
    async with httpx.AsyncClient() as client, client.stream("POST", URL, content=body) as reply:
        return b"".join([part async for part in reply.aiter_bytes()])


async def _aiohttp(body: bytes) -> bytes:
    async with aiohttp.ClientSession() as session, session.post(URL, data=body) as reply:
        return await reply.read()


def _urllib(body: bytes) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(URL, data=body, method="POST")) as reply:
        return bytes(reply.read())


async def _ours(body: bytes) -> bytes:
    return (await HttpxTransport(Target("https://host.ai/api/v1")).send(Call("POST", "/chat/completions", body))).body


CLIENTS: dict[str, Any] = {
    "httpx": _httpx,
    "httpx async": lambda body: asyncio.run(_async(body)),
    "aiohttp": lambda body: asyncio.run(_aiohttp(body)),
    "urllib": _urllib,
    "our transport": lambda body: asyncio.run(_ours(body)),
}


@pytest.mark.parametrize("client", CLIENTS)
def test_answers_belong_to_their_prompts_for_every_client(client: str) -> None:
    """Asked in the other order than recorded, each prompt gets its own answer, byte for byte; nothing leaves."""
    made = recording(one("A", b"a" + SSE), one("B", b"b" + SSE))

    with only_loopback() as tried, playing(made) as tape:
        assert CLIENTS[client](b'{"prompt":"B"}') == b"b" + SSE
        assert tape.complaints() == (f"interaction 1 (POST {URL}) was never asked for",)
        assert CLIENTS[client](b'{ "prompt" : "A" }') == b"a" + SSE

    assert (tape.plays, tape.complaints(), tried) == ([1, 1], (), [])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_miss_names_the_nearest_and_is_remembered(client: str) -> None:
    """The request and the recorded one that is nearest, with the field; a client that swallows it changes nothing."""
    with playing(recording(one("A", b"a"))) as tape, pytest.raises(Exception, match="prompt") as caught:
        CLIENTS[client](b'{"prompt": "C"}')

    said = f'no recording for POST {URL} in p/s.yaml; nearest is interaction 1, which differs in body.prompt: recorded "A", asked "C"'  # noqa: E501
    assert isinstance(caught.value, MissError)
    assert str(caught.value).startswith(said)
    assert tape.complaints() == (said, f"interaction 1 (POST {URL}) was never asked for")


def test_equal_requests_get_their_answers_in_order_and_no_more() -> None:
    """Two recordings of one request play once each, and a third ask is a miss, not a repeat."""
    body = b'{"prompt": "A"}'
    with playing(recording(one("A", b"1"), one("A", b"2"))) as tape:
        assert [_httpx(body), _httpx(body)] == [b"1", b"2"]
        with pytest.raises(MissError, match="interaction 2 was played already, and each is played once"):
            _httpx(body)

    assert tape.plays == [1, 1]


def test_parallel_requests_are_not_swapped() -> None:
    """The reproduction of swapped answers: two at once, the slower recorded last."""
    made = recording(one("B", b"b"), one("A", b"a"))

    async def both() -> list[bytes]:
        return list(await asyncio.gather(_async(b'{"prompt":"A"}'), _async(b'{"prompt":"B"}')))

    with playing(made):
        assert asyncio.run(both()) == [b"a", b"b"]


def test_bodies_that_were_swapped_are_refused_before_any_request() -> None:
    """The hash of request and reply stands in the cassette."""
    made = recording(one("A", b"a"), one("B", b"b"))
    first, second = made.interactions
    swapped = replace(made, interactions=(replace(first, body=second.body), replace(second, body=first.body)))

    with (
        pytest.raises(SetupError, match="the reply of interaction 1 is not the one that was recorded"),
        playing(swapped),
    ):
        pass


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"status": 7}, "the status 7"),
        ({"status": 10**12}, "the status 1000000000000"),
        ({"reason": "\u00dc"}, "in its head"),
        ({"headers": {"content-type": ["a\r\nb"]}}, "in its head"),
        ({"headers": {"\u00fc": ["a"]}}, "in its head"),
    ],
)
def test_what_no_server_could_have_sent_is_not_played(change: Any, words: str) -> None:
    """A hostile cassette is refused with its reason, before any client trips over it."""
    with pytest.raises(SetupError, match=words), playing(recording(replace(one("A", b"a"), **change))):
        pass


def test_an_empty_cassette_answers_nothing() -> None:
    """Replay never reaches out, whatever is missing."""
    with playing(Recording("p/s.yaml", ())) as tape, pytest.raises(MissError, match="which holds nothing"):
        _httpx(b"{}")

    assert len(tape.misses) == 1


def test_a_transport_that_slips_past_is_stopped_below() -> None:
    """vcrpy never sees it; the guard does, and the interaction that was not played tells too."""

    async def slipped() -> None:
        async with httpx.AsyncClient(transport=SlippedTransport()) as client:
            await client.post("http://192.0.2.1/", content=b'{"prompt": "A"}')

    with only_loopback() as tried, playing(recording(one("A", b"a"))) as tape, pytest.raises(NetworkBlockedError):
        asyncio.run(slipped())

    assert tried == ["192.0.2.1"]
    assert tape.plays == [0]


KEY = "sk-made-up-key"


def test_what_is_taken_is_scrubbed_and_the_client_sees_all() -> None:
    """Headers, cookies and the key go from what is kept; the client gets the reply as it came."""
    headers = {"Set-Cookie": "a=b", "X-Example-Org": "org-FAKE", "x-echo": KEY}
    app = planted(
        emulator(keys=frozenset({KEY})), headers, lambda part: part.replace(b'"object"', b'"user_id":"u1","object"')
    )
    with Served(app) as url, only_loopback(), taking([KEY]) as tape:
        reply = httpx.post(
            f"{url}/chat/completions", json=asked() | {"user": KEY}, headers={"Authorization": f"Bearer {KEY}"}
        )

    (taken,) = tape.taken
    assert (reply.headers["set-cookie"], reply.json()["user_id"]) == ("a=b", "u1")
    assert (taken.headers, leaks(taken, [KEY])) == ({"content-type": ["application/json"]}, ())
    assert json.loads(taken.body) == reply.json() | {"user_id": "[removed]"}
    assert json.loads(taken.request_body)["user"] == "[removed]"
    assert KEY not in str(taken)
    assert tape.removed == [
        (
            *("request.headers.authorization", "response.headers.set-cookie", "response.headers.x-echo"),
            *("request.body.user", "response.body.user_id"),
        )
    ]


def test_the_openai_client_is_recorded_and_played() -> None:
    """A stream over a socket, then the same calls with no server: the same chunks."""
    with Served(emulator()) as url:

        def texts() -> list[str]:
            with openai.OpenAI(api_key="none", base_url=url, max_retries=0) as client:
                messages: Any = [{"role": "user", "content": "hi"}]
                extra: Any = {"provider": {"only": ["chutes"]}}
                said = client.chat.completions.create(model=MODEL, messages=messages, stream=True, extra_body=extra)
                return [c.choices[0].delta.content or "" for c in said if c.choices]

        with taking() as tape:
            live = texts()
    made = recording(*tape.taken)

    with only_loopback() as tried, playing(made) as tape:
        assert texts() == live
    assert "".join(live) == "Hi there!"
    assert (tape.complaints(), tried) == ((), [])


def test_the_gate_stands_before_the_network() -> None:
    """What it refuses never leaves; what it lets out is settled with the reply, under one token."""
    seen: list[tuple[str, int, bytes]] = []

    def admit(token: int, sent: Sent) -> None:
        seen.append(("admit", token, sent.body))
        if b"dear" in sent.body:
            raise SetupError("too dear")

    app = emulator()
    gate = Gate(admit, lambda token, sent, reply: seen.append(("settle", token, reply.body)))
    with Served(app) as url, taking(gate=gate) as tape:
        reply = httpx.post(f"{url}/chat/completions", json=asked())
        with pytest.raises(SetupError, match="too dear"):
            httpx.post(f"{url}/chat/completions", json=asked("dear"))

    assert [what for what, *_ in seen] == ["admit", "settle", "admit"]
    assert seen[0][1] == seen[1][1] != seen[2][1]
    assert seen[1][2] == reply.content
    assert (len(app.requests), len(tape.taken)) == (1, 1)


def test_a_reply_that_breaks_off_is_not_taken() -> None:
    """Half a stream is no recording, and the client sees the break."""
    with Served(emulator(faults=["half-body"])) as url, taking() as tape, pytest.raises(httpx.HTTPError):
        httpx.post(f"{url}/chat/completions", json=asked(stream=True))

    assert tape.taken == []
