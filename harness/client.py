"""httpx as a Transport: for recording, probes and price lists, where vcrpy and ASGI apps can stand in between.

The owner of httpx in harness. Follows no redirect and reads no proxy settings, so the key reaches the target alone.
Knows nothing of what calls mean. Not for bulk: stock httpx collapses at 64 connections (see `client_bulk`).
"""

import httpx

from harness.errors import ProviderError
from harness.scrub import of_key
from harness.transport import MAX_REPLY_BYTES, Call, NotSentError, Reply, Target, UnansweredError

CONNECT_S = 10.0
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class HttpxTransport:
    """Calls one target, one connection a call in flight.

    Args:
        target: Where to, with which key.
        over: Another httpx transport than sockets: an ASGI app in tests.
    """

    def __init__(self, target: Target, over: httpx.AsyncBaseTransport | None = None) -> None:
        self._base, self._scrub = target.base_url, of_key(target.key)
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
                n_bytes = 0
                async for part in response.aiter_bytes():
                    parts.append(part)
                    n_bytes += len(part)
                    if n_bytes > MAX_REPLY_BYTES:
                        raise ProviderError(f"a reply of more than {MAX_REPLY_BYTES >> 20} MiB from {self._base}")
                headers = {k.lower(): v for k, v in response.headers.items()}
                return Reply(response.status_code, headers, *self._scrub.reply(response.status_code, b"".join(parts)))
        except NOT_SENT as error:
            raise NotSentError(f"{self._base} cannot be reached ({self._said(error)}); nothing was sent") from error
        except httpx.HTTPError as error:
            message = f"{self._base} was asked and gave no whole reply ({self._said(error)}); it may have been billed"
            raise UnansweredError(message, partial=self._scrub.body(b"".join(parts), "", [])) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _said(self, error: Exception) -> str:
        return self._scrub.said(f"{type(error).__name__}: {error}")[:200]
