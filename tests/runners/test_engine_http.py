"""runners.engine_http: whatever a server does, an error of ours says what came, and nothing waits for ever."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count

import pytest

from harness.errors import HarnessError, OverloadError, ProviderError, SetupError
from runners import engine_http
from runners.engine_http import Server, base_url
from tests.runners.standin import StandIn, asking


@pytest.mark.parametrize(
    ("typed", "used"),
    [
        ("http://127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("http://127.0.0.1:30000/", "http://127.0.0.1:30000"),
        ("http://127.0.0.1:30000/v1/", "http://127.0.0.1:30000"),
        ("https://gpu.example:8443/k2/v1", "https://gpu.example:8443/k2"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_base_urls(typed: str, used: str) -> None:
    """A slash and the `/v1` that people type are taken off; any host and path is left."""
    assert base_url(typed) == used


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("127.0.0.1:30000", "no http address"),
        ("", "no http address"),
        ("ftp://host", "no http address"),
        ("http://", "no http address"),
        ("http://host:notaport", "no address"),
        ("http://key:secret@host", "no key is ever sent"),
        ("http://host?key=secret", "no key is ever sent"),
    ],
)
def test_wrong_urls_are_refused(typed: str, words: str) -> None:
    """What came and what was expected; a secret in it is not repeated."""
    with pytest.raises(SetupError, match=words) as caught:
        base_url(typed)

    assert "http://HOST:PORT" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_nothing_answers() -> None:
    """A port where nobody listens is our setup's fault, with what to do."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        with Server(url) as server, pytest.raises(SetupError, match="start the engine or correct --url"):
            server.get("/x")


@pytest.mark.parametrize(
    ("status", "kind", "code"), [(404, ProviderError, 404), (401, ProviderError, 401), (429, OverloadError, None)]
)
def test_other_statuses(status: int, kind: type[HarnessError], code: int | None) -> None:
    """The status, and the server's own words on one line; overload is told from refusal."""
    engine = StandIn([], faults={"/x": lambda _: (status, b"not\nnow " + b"x" * 1000)})

    with asking(engine) as server, pytest.raises(kind, match=f"HTTP {status}: not now x") as caught:
        server.post("/x", {})

    assert getattr(caught.value, "code", None) == code
    assert len(str(caught.value)) < 300


def test_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names does not come between us and the engine."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    with asking(StandIn([])) as server:
        assert server.get("/v1/models")["data"][0]["id"] == "kimi-k2.5"


@contextmanager
def raw(*sent: bytes, hold: bool = False) -> Iterator[str]:
    """A server that answers one request with these bytes, and then closes or holds the line until the test is over."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        over = threading.Event()

        def serve() -> None:
            line, _ = listening.accept()
            with line:
                line.recv(65536)
                for piece in sent:
                    line.sendall(piece)
                if hold:
                    over.wait(10)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def test_a_body_that_is_cut() -> None:
    """Half a body is no answer."""
    broken = pytest.raises(ProviderError, match="/x broke off its answer: RemoteProtocolError")
    with raw(HEAD + b"content-length: 100\r\n\r\n{") as url, Server(url) as server, broken:
        server.get("/x")


@pytest.mark.parametrize("sent", [b"", HEAD + b"content-length: 9\r\n\r\n{"])
def test_a_server_that_hangs(sent: bytes) -> None:
    """Before the head or within the body: an end after the timeout, with the option to change."""
    late = pytest.raises(OverloadError, match=r"sent nothing for 0\.1 s; give --timeout more seconds")
    with raw(sent, hold=True) as url, Server(url, timeout_s=0.1) as server, late:
        server.get("/x")


def test_a_stream_of_comments_ends() -> None:
    """Bytes that keep coming do not keep us: the whole answer has a deadline too."""
    ticks = count()
    engine = StandIn([], faults={"/x": lambda _: (200, b": wait\n" * 100)})
    late = pytest.raises(OverloadError, match=r"did not end within 0\.5 s")

    with asking(engine, timeout_s=0.5, now=lambda: float(next(ticks))) as server, late:
        server.post_bytes("/x", {})


def test_an_answer_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would fill the memory is not read to its end."""
    monkeypatch.setattr(engine_http, "MAX_BYTES", 1 << 20)
    engine = StandIn([], faults={"/x": lambda _: (200, b"x" * (1 << 21))})

    with asking(engine) as server, pytest.raises(ProviderError, match="sent more than 1 MiB"):
        server.post_bytes("/x", {})
