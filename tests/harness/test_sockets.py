"""harness.sockets: nothing leaves this machine, whichever client tries; loopback works."""

import asyncio
import socket
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import aiohttp
import httpx
import pytest
import uvloop

from harness.sockets import NetworkBlockedError, is_local, only_loopback, open_network
from tests.emulator_kit import MODEL, emulator
from tests.served import Served

AWAY = "http://192.0.2.1/"  # an address of documentation, which nobody has


async def _aiohttp() -> None:
    async with aiohttp.ClientSession() as session, session.get(AWAY, timeout=aiohttp.ClientTimeout(total=3)):
        pass


async def _httpx() -> None:
    async with httpx.AsyncClient(timeout=3, trust_env=False) as client:
        await client.get(AWAY)


class SlippedTransport(httpx.AsyncBaseTransport):
    """A transport of a user's own, which no recorder knows: it opens a socket by itself."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Asks over a plain socket."""
        with socket.socket() as raw:
            raw.settimeout(3)
            raw.connect((request.url.host, 80))
        return httpx.Response(200)


async def _slipped() -> None:
    async with httpx.AsyncClient(transport=SlippedTransport()) as client:
        await client.get(AWAY)


def _datagram() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as raw:
        raw.sendto(b"x", ("192.0.2.1", 53))


WAYS: dict[str, Callable[[], Any]] = {
    "aiohttp": lambda: asyncio.run(_aiohttp()),
    "aiohttp on uvloop": lambda: uvloop.run(_aiohttp()),
    "httpx async": lambda: asyncio.run(_httpx()),
    "httpx on uvloop": lambda: uvloop.run(_httpx()),
    "httpx": lambda: httpx.get(AWAY, timeout=3, trust_env=False),
    "urllib": lambda: urllib.request.urlopen(AWAY, timeout=3),
    "a transport of one's own": lambda: asyncio.run(_slipped()),
    "a plain socket": lambda: socket.create_connection(("192.0.2.1", 80), 3),
    "a datagram": _datagram,
    "a name": lambda: socket.getaddrinfo("host.invalid", 80),
    "a name, the old way": lambda: socket.gethostbyname("host.invalid"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_out_is_blocked_and_remembered(way: str) -> None:
    """The canary: whatever client tries, it is refused with our error, and the attempt is known afterwards."""
    with only_loopback() as tried, pytest.raises((NetworkBlockedError, ExceptionGroup)) as caught:
        WAYS[way]()

    assert caught.group_contains(NetworkBlockedError) if isinstance(caught.value, ExceptionGroup) else True
    assert tried[0] in ("192.0.2.1", "host.invalid")


def test_an_attempt_that_a_client_swallows_is_known() -> None:
    """An error that somebody catches still stands in the list, that of the innermost guard."""
    with only_loopback() as outer, only_loopback() as inner, suppress(Exception):
        socket.create_connection(("192.0.2.1", 80), 1)

    assert (outer, inner) == ([], ["192.0.2.1"])


def test_loopback_works_and_the_flag_opens_the_rest() -> None:
    """A server on loopback answers within the guard; within `open_network` nothing is asked of the guard."""
    with only_loopback() as tried, Served(emulator()) as url:
        assert httpx.get(f"{url}/models", trust_env=False).json()["data"][0]["id"] == MODEL
        with open_network(), pytest.raises(socket.gaierror):
            socket.getaddrinfo("host.invalid", 80)
        with pytest.raises(NetworkBlockedError):
            socket.getaddrinfo("host.invalid", 80)

    assert tried == ["host.invalid"]


@pytest.mark.parametrize(
    ("host", "local"),
    [
        *((h, True) for h in ("127.0.0.1", "127.8.8.8", "::1", "localhost", "LocalHost", "", None, "/run/x", b"::1")),
        *((h, False) for h in ("192.0.2.1", "0.0.0.0", "localhost.evil.ai", "::", "fe80::1%lo", "openrouter.ai", b"h")),
    ],
)
def test_what_is_local(host: Any, local: bool) -> None:
    """Loopback addresses, its name, Unix sockets and no address at all."""
    assert is_local(host) is local
