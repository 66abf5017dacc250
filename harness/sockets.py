"""Sockets for loopback alone: a guard that sits below every client, and cannot be slipped past by another transport.

An audit hook of the interpreter sees each connect, datagram and name look-up of any Python socket, whoever opened it.
It is set when the first guard is, and idle outside of one. uvloop opens sockets in C, where no hook sees them: its
loop's own methods are watched as soon as it is loaded. Out of sight are subprocesses and other C libraries with sockets
of their own.
"""

import functools
import ipaddress
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.errors import SetupError

PLACES: Mapping[str, int] = {  # audit event -> which argument says where to
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
}
LOOP_METHODS = ("create_connection", "create_datagram_endpoint", "getaddrinfo")
LOCAL_NAMES = frozenset({"", "localhost"})
_guards: list[list[str]] = []
_hooked: list[bool] = []
_watched: list[type] = []


class NetworkBlockedError(SetupError):
    """Something wanted to leave this machine where only loopback is allowed."""


@contextmanager
def only_loopback() -> Iterator[list[str]]:
    """Within it every way out is refused with NetworkBlockedError; gives the places that were tried all the same.

    Of guards within guards the innermost is told."""
    if not _hooked:
        sys.addaudithook(_seen)
        _hooked.append(True)
    tried: list[str] = []
    _guards.append(tried)
    try:
        yield tried
    finally:
        _guards.remove(tried)


@contextmanager
def open_network() -> Iterator[None]:
    """Within it nothing is refused: for what a person typed a flag for."""
    kept = _guards[:]
    _guards.clear()
    try:
        yield
    finally:
        _guards[:] = kept


def _seen(event: str, args: tuple[Any, ...]) -> None:
    if not _guards:
        return
    if not _watched and (loop := getattr(sys.modules.get("uvloop"), "Loop", None)) is not None:
        _watched.append(loop)
        for name in LOOP_METHODS:
            setattr(loop, name, _watching(name, getattr(loop, name)))
    if event in PLACES:
        _refuse(event.partition(".")[2], args[PLACES[event]])


def _watching(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """The method of a loop, which looks first where it is to go: `remote_addr`, `host` or the second argument."""

    @functools.wraps(method)
    def watched(self: Any, *args: Any, **named: Any) -> Any:
        place = args[0] if name == "getaddrinfo" and args else args[1] if len(args) > 1 else None
        _refuse(name, named.get("remote_addr") or named.get("host") or place)
        return method(self, *args, **named)

    return watched


def _refuse(what: str, where: Any) -> None:
    if not _guards:
        return
    host = where[0] if isinstance(where, tuple) and where else where
    if is_local(host):
        return
    _guards[-1].append(str(host)[:200])
    raise NetworkBlockedError(
        f"{what} to {str(host)[:200]!r} was blocked: only loopback is allowed here; "
        "what a test asks for must stand in a cassette"
    )


def is_local(host: Any) -> bool:
    """Whether an address stays on this machine; a path of a Unix socket and no address do."""
    if isinstance(host, bytes | bytearray):
        host = bytes(host).decode("latin-1")
    if not isinstance(host, str) or host.lower() in LOCAL_NAMES or host.startswith(("/", "\0")):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False
