"""One running engine over HTTP: JSON out, bytes in, with limits; whatever goes wrong ends in an error of ours.

The owner of httpx among the runners. Sends no key, follows no redirect and reads no proxy settings. Knows nothing of
engines, ids or goldens.
"""

import json
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import httpx

from harness.errors import OverloadError, ProviderError, SetupError
from harness.response import loads

MAX_BYTES = 256 << 20
"""Of one answer, unpacked: a long stream with an event a token and all its logprobs."""
CONNECT_S = 10.0
SHOWN = 200  # characters of a foreign text in a message
OVERLOADED = frozenset({408, 425, 429, 500, 502, 503, 504})


class Server:
    """An engine at a URL; close it, or use it in a `with`.

    Attributes:
        url: Scheme, host, port and path, without `/v1` and without a slash at the end.
    """

    def __init__(self, url: str, *, timeout_s: float = 600.0, now: Callable[[], float] = time.monotonic) -> None:
        self.url = base_url(url)
        self._timeout_s, self._now = timeout_s, now
        # trust_env: a proxy or a netrc that the environment names would come between us and the engine
        self._client = httpx.Client(timeout=httpx.Timeout(timeout_s, connect=CONNECT_S), trust_env=False)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def get(self, path: str) -> Any:
        """The JSON at a path."""
        return self._json("GET", path, None)

    def post(self, path: str, body: dict[str, Any], max_bytes: int | None = None) -> Any:
        """The JSON that answers a JSON body, of at most `max_bytes`; MAX_BYTES where that is None."""
        return self._json("POST", path, body, max_bytes)

    def post_bytes(self, path: str, body: dict[str, Any]) -> bytes:
        """The bytes that answer a JSON body: a stream, whole."""
        return self._send("POST", path, body)

    def _json(self, method: str, path: str, body: dict[str, Any] | None, max_bytes: int | None = None) -> Any:
        data = self._send(method, path, body, max_bytes)
        try:
            return loads(data)
        except ProviderError as error:
            raise ProviderError(f"{self.url}{path} did not answer as an engine does: {error}", code=200) from error

    def _send(self, method: str, path: str, body: dict[str, Any] | None, max_bytes: int | None = None) -> bytes:
        """All bytes of an answer with status 200.

        Raises:
            SetupError: Nothing answers at the URL.
            OverloadError: It did not answer in time, or says that it cannot now.
            ProviderError: Any other status (in `code`), a cut body, more than `max_bytes`.
        """
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        where = self.url + path
        try:
            with self._client.stream(method, where, content=content, headers=headers) as response:
                data = self._read(where, response, max_bytes)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise SetupError(
                f"nothing answers at {self.url} ({said(error)}); start the engine or correct --url"
            ) from error
        except httpx.TimeoutException as error:
            raise OverloadError(
                f"{where} sent nothing for {self._timeout_s:g} s; give --timeout more seconds"
            ) from error
        except httpx.HTTPError as error:
            raise ProviderError(f"{where} broke off its answer: {said(error)}") from error
        if response.status_code != httpx.codes.OK:
            raise _refusal(where, response.status_code, data)
        return data

    def _read(self, where: str, response: httpx.Response, max_bytes: int | None) -> bytes:
        limit = MAX_BYTES if max_bytes is None else max_bytes
        deadline = self._now() + self._timeout_s
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            if len(data) > limit:
                raise ProviderError(f"{where} sent more than {limit >> 20} MiB; expected one answer")
            if self._now() > deadline:  # a stream of comments never lets the read timeout pass
                raise OverloadError(f"{where} did not end within {self._timeout_s:g} s; give --timeout more seconds")
        return bytes(data)


def _refusal(where: str, status: int, data: bytes) -> OverloadError | ProviderError:
    text = " ".join(data[: 4 * SHOWN].decode("utf-8", "replace").split())[:SHOWN]
    message = f"{where} answered HTTP {status}: {text or 'an empty body'}"
    return OverloadError(message) if status in OVERLOADED else ProviderError(message, code=status)


def said(error: Exception) -> str:
    """A foreign error in a few words."""
    return f"{type(error).__name__}: {error!s:.{SHOWN}}" if str(error) else type(error).__name__


def base_url(text: str) -> str:
    """The engine's address as typed, without what every path begins with.

    Raises:
        SetupError: No http address, or one with a key, a query or a fragment.
    """
    expected = "expected http://HOST:PORT of a running engine, such as http://127.0.0.1:30000"
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise SetupError(f"--url {text!r} is no address ({said(error)}); {expected}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise SetupError(f"--url {text!r} is no http address; {expected}")
    if url.userinfo or url.query or url.fragment:
        raise SetupError(f"--url holds more than an address; no key is ever sent: {expected}")
    return str(url).rstrip("/").removesuffix("/v1").rstrip("/")
