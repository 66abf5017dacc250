"""httpx as a Transport: for recording, probes and price lists, where vcrpy and ASGI apps can stand in between.

The owner of httpx in harness. Follows no redirect and reads no proxy settings, so the key reaches the target alone.
Knows nothing of what calls mean. Not for bulk: stock httpx collapses at 64 connections (see `client_bulk`).
"""

import httpx

from harness.transport import Call, Inbox, Reply, Target

CONNECT_S = 10.0
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class HttpxTransport:
    """Calls one target, one connection a call in flight.

    Args:
        target: Where to, with which key.
        over: Another httpx transport than sockets: an ASGI app in tests.
    """

    def __init__(self, target: Target, over: httpx.AsyncBaseTransport | None = None) -> None:
        self._base, self._inbox = target.base_url, Inbox(target)
        # unpacked, so that a recording shows what came
        headers = target.headers() | {"accept-encoding": "identity"}
        self._client = httpx.AsyncClient(headers=headers, transport=over, trust_env=False)

    async def send(self, call: Call) -> Reply:
        """The reply to one call; it is read to its end, at most MAX_REPLY_BYTES of it.

        Raises:
            NotSentError: Nothing left us.
            UnansweredError: Sent, and no whole reply came.
            ProviderError: A reply without end.
        """
        timeout = httpx.Timeout(call.read_timeout_s, connect=CONNECT_S)
        parts: list[bytes] = []
        try:
            url, body = self._base + call.path, call.body or None
            async with self._client.stream(call.method, url, content=body, timeout=timeout) as response:
                await self._inbox.read(response.aiter_bytes(), parts)
                return self._inbox.reply(response.status_code, response.headers.items(), parts)
        except NOT_SENT as error:
            raise self._inbox.not_sent(error) from error
        except httpx.HTTPError as error:
            raise self._inbox.unanswered(error, parts) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
