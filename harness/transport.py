"""Where calls go, with which key, and what a transport is.

The key leaves this process for OpenRouter's own host, for loopback, or for a host that a person allowed by name, and
over plain http for loopback alone. Knows nothing of HTTP libraries: `client` and `client_bulk` are two transports.
"""

import ipaddress
from collections.abc import AsyncIterable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from harness.errors import OverloadError, ProviderError, SetupError
from harness.scrub import of_key

OPENROUTER_HOST = "openrouter.ai"
OPENROUTER = f"https://{OPENROUTER_HOST}/api/v1"
MAX_REPLY_BYTES = 256 << 20
"""Of one reply, unpacked; a longer one is cut off as an error."""


class NotSentError(OverloadError):
    """The request never left us: nothing was sampled, nothing is billed."""


class UnansweredError(OverloadError):
    """The request was sent, and no whole reply came: it may have been billed.

    Attributes:
        partial: Bytes of the body that did come.
    """

    def __init__(self, message: str, *, partial: bytes = b"") -> None:
        super().__init__(message)
        self.partial = partial


@dataclass(frozen=True, slots=True)
class Target:
    """A checked base URL and the key that may be sent there; made by `target`.

    Attributes:
        base_url: Scheme, host and path, no slash at the end.
        key: Never shown.
    """

    base_url: str
    key: str | None = field(default=None, repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether calls stay on this machine."""
        return _is_loopback(urlsplit(self.base_url).hostname or "")

    def headers(self) -> dict[str, str]:
        """Headers of every call."""
        plain = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        return plain | ({"authorization": f"Bearer {self.key}"} if self.key else {})


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        path: Below the base URL, with its slash: `/chat/completions`; may hold a query.
        body: JSON bytes, b"" for none.
        read_timeout_s: Longest silence before the call is given up, in seconds.
    """

    method: str
    path: str
    body: bytes = b""
    read_timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came, whatever its status; header names are in lower case, and no header holds the key.

    Attributes:
        echoed: Whether the key stood in the body of an answer; it is replaced there.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    echoed: bool = False


class Inbox:
    """What every transport does with what comes from one target, whatever library carries it."""

    def __init__(self, target: Target) -> None:
        self._base, self._scrub = target.base_url, of_key(target.key)

    async def read(self, pieces: AsyncIterable[bytes], parts: list[bytes]) -> None:
        """Gather a body in `parts`, which keep what came if it breaks off.

        Raises:
            ProviderError: More than MAX_REPLY_BYTES of it.
        """
        n_bytes = 0
        async for piece in pieces:
            parts.append(piece)
            n_bytes += len(piece)
            if n_bytes > MAX_REPLY_BYTES:
                raise ProviderError(f"a reply of more than {MAX_REPLY_BYTES >> 20} MiB from {self._base}")

    def reply(self, status: int, headers: Iterable[tuple[str, str]], parts: list[bytes]) -> Reply:
        """A whole reply, without our key."""
        return Reply(status, self._scrub.headers(status, headers), *self._scrub.reply(status, b"".join(parts)))

    def not_sent(self, error: Exception) -> NotSentError:
        """What a connection that was never made means."""
        return NotSentError(f"{self._base} cannot be reached ({self._said(error)}); nothing was sent")

    def unanswered(self, error: Exception, parts: list[bytes]) -> UnansweredError:
        """What anything that goes wrong later means."""
        message = f"{self._base} was asked and gave no whole reply ({self._said(error)}); it may have been billed"
        return UnansweredError(message, partial=self._scrub.body(b"".join(parts), "", []))

    def _said(self, error: Exception) -> str:
        return self._scrub.said(f"{type(error).__name__}: {error}")[:200]


class Transport(Protocol):
    """Sends calls to one target. A reply of any status is a Reply; NotSentError and UnansweredError say the rest."""

    async def send(self, call: Call) -> Reply:
        """The reply to one call."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


def target(
    base_url: str | None, key: str | None, allow_hosts: Collection[str] = (), *, offline: bool = False
) -> Target:
    """A target that the key may be sent to; None as the URL is OpenRouter's.

    With `offline` nothing will be sent: the URL is checked all the same, and no key is needed or kept.

    Raises:
        SetupError: For a URL that is none, a host that nobody allowed, plain http beyond loopback, or a missing key.
    """
    url = (base_url or OPENROUTER).rstrip("/")
    host = _checked_host(url)
    if host != OPENROUTER_HOST and not _is_loopback(host) and host not in {h.lower() for h in allow_hosts}:
        raise SetupError(
            f"base URL {url}: the key goes to {OPENROUTER_HOST}, to loopback, or to a host allowed by name; "
            f"if {host} is meant, add --allow-host {host}"
        )
    if offline:
        return Target(url)
    if not key and not _is_loopback(host):
        raise SetupError(f"no API key for {url}; expected it in OPENROUTER_API_KEY")
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise SetupError("the API key holds characters that no header may carry; expected it as it was issued")
    return Target(url, key)


def _checked_host(url: str) -> str:
    """The host in lower case."""
    try:
        parts = urlsplit(url)
        host, odd = (parts.hostname or "").lower(), parts.username is not None or parts.query or parts.fragment
        _ = parts.port  # a port that is no number is an error here
    except ValueError as error:
        raise SetupError(f"base URL {url!r:.100}: {error}; expected one like {OPENROUTER}") from None
    if parts.scheme not in ("http", "https") or not host or odd:
        # not shown: where a user name may stand, a key may stand
        raise SetupError(f"the base URL is no plain http(s) URL; expected one like {OPENROUTER}, without user or query")
    if parts.scheme == "http" and not _is_loopback(host):
        raise SetupError(f"base URL {url}: plain http goes to loopback only; expected https")
    return host


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
