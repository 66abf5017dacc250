"""How the emulator misbehaves on request: one line a fault, each a change of the answer, of its head or of the reply.

Pure. Replies are values; the sending is in `emulator`. Made from public documentation and public reports; no fault was
recorded.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any

from harness.errors import SetupError
from harness.presets import Answer
from harness.types import Usage
from harness.wire import Head, dump, events

NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Stop(Enum):
    """What a reply may do in the place of more bytes."""

    HANG = "send nothing more until the client goes"
    CUT = "close the connection in the middle of the body"


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP response; `parts` are sent one by one."""

    status: int
    headers: Mapping[str, str]
    parts: Iterable[bytes | Stop]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to misbehave; each member leaves its value as it is unless said otherwise.

    Attributes:
        instead: The reply in the place of any answer; takes the provider's name.
        said: The answer itself.
        head: What stands around it.
        listed: The JSON values: one body, or the chunks of a stream.
        reply: The finished reply.
    """

    instead: Callable[[str], Reply] | None = None
    said: Callable[[Answer], Answer] = lambda said: said
    head: Callable[[Head, str], Head] = lambda head, other: head
    listed: Callable[[list[Any]], list[Any]] = lambda listed: listed
    reply: Callable[[Reply], Reply] = lambda reply: reply


NO_FAULT = Fault()


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] = NO_HEADERS) -> Reply:
    """A reply that is one JSON value."""
    return Reply(status, {"content-type": "application/json", **headers}, (dump(value),))


def sse_reply(listed: list[Any]) -> Reply:
    """A reply that is a stream of these chunks."""
    return Reply(200, {"content-type": "text/event-stream", "cache-control": "no-cache"}, events(listed))


def error_body(code: int, message: str, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON of an error."""
    extra = {} if metadata is None else {"metadata": dict(metadata)}
    return {"error": {"code": code, "message": message, **extra}}


def error_reply(
    code: int,
    message: str,
    metadata: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Reply:
    """An error whose HTTP status is its code."""
    return json_reply(error_body(code, message, metadata), code, headers)


def _upstream(code: int, raw: str, headers: Mapping[str, str] = NO_HEADERS, **metadata: Any) -> Fault:
    """An error that a provider gave and that OpenRouter passes on."""

    def instead(provider: str) -> Reply:
        said = {"raw": raw, "provider_name": provider, **metadata}
        return error_reply(code, "Provider returned error", said, headers)

    return Fault(instead=instead)


def _gateway(code: int, message: str, headers: Mapping[str, str] = NO_HEADERS, **metadata: Any) -> Fault:
    """An error of OpenRouter itself."""
    return Fault(instead=lambda _: error_reply(code, message, metadata or None, headers))


def _billed(extra: int) -> Fault:
    def said(said: Answer) -> Answer:
        usage = said.usage
        more = replace(
            usage,
            completion_tokens=(usage.completion_tokens or 0) + extra,
            total_tokens=(usage.total_tokens or 0) + extra,
        )
        return replace(said, usage=more)

    return Fault(said=said)


_RAW = {"raw": "worker limit", "provider_name": "upstream", "error_type": "provider_unavailable"}
_FAILED = error_body(502, "Provider returned error", _RAW)


def _in_choice(listed: list[Any]) -> list[Any]:
    first = listed[0]
    choice = {**first["choices"][0], "finish_reason": "error", "native_finish_reason": "error", **_FAILED}
    return [{**first, "choices": [choice]}, *listed[1:]]


def _midway(listed: list[Any]) -> list[Any]:
    at = len(listed) // 2
    head = {k: v for k, v in listed[0].items() if k not in ("choices", "usage")}
    choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error", "native_finish_reason": "error"}
    return [*listed[:at], {**head, **_FAILED, "choices": [choice]}]


def _halved(stop: Stop) -> Callable[[Reply], Reply]:
    def half(reply: Reply) -> Reply:
        parts = [p for p in reply.parts if isinstance(p, bytes)]
        whole = b"".join(parts)
        kept = parts[: len(parts) // 2] if len(parts) > 1 else [whole[: len(whole) // 2]]
        # Half of an event is the worst place to end.
        rest = [parts[len(parts) // 2][:9]] if len(parts) > 1 else []
        return replace(reply, parts=(*kept, *rest, stop))

    return half


def _between(filler: bytes, kinds: str) -> Callable[[Reply], Reply]:
    """Puts a filler in front of every part of a reply of that content type."""

    def filled(reply: Reply) -> Reply:
        if kinds not in reply.headers["content-type"]:
            return reply
        return replace(reply, parts=[x for part in reply.parts for x in (filler, part)])

    return filled


BOMB_BYTES = 1 << 30
"""What a gzip bomb unpacks to, in front of the answer."""


def _bomb(reply: Reply) -> Reply:
    return replace(reply, headers={**reply.headers, "content-encoding": "gzip"}, parts=_packed(reply))


def _packed(reply: Reply) -> Iterator[bytes]:
    """Blanks without end, then the answer: valid gzip, made of one packed block again and again."""
    body = b"".join(part for part in reply.parts if isinstance(part, bytes))
    block = b" " * (1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    yield b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
    for _ in range(BOMB_BYTES // len(block)):
        crc = zlib.crc32(block, crc)
        yield packed
    size = BOMB_BYTES + len(body)
    yield packer.compress(body) + packer.flush() + struct.pack("<II", zlib.crc32(body, crc), size & 0xFFFFFFFF)


def _undone(reply: Reply) -> Reply:
    return replace(reply, parts=[p for p in reply.parts if p != b"data: [DONE]\n\n"])


_SHARED_POOL = "upstream_provider_shared_pool"
_GUARDRAIL = "Request blocked by a guardrail of this key"
FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "": NO_FAULT,
        "401": _gateway(401, "No auth credentials found"),
        "402-credits": _gateway(
            402,
            "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only "
            "afford 30104.",
            limit_source="openrouter_credits",
        ),
        "402-key-limit": _gateway(402, "Key limit exceeded (total limit).", limit_source="openrouter_key_limit"),
        "402-in-flight": _gateway(
            402, "In-flight budget exhausted", {"retry-after": "7"}, limit_source="openrouter_in_flight_budget"
        ),
        "403-moderation": _upstream(403, "flagged", reasons=["violence"], flagged_input="example"),
        "403-guardrail": _gateway(403, _GUARDRAIL),
        "403-budget": _gateway(403, "Key budget exceeded"),
        "404": _gateway(404, "No endpoints found for moonshotai/kimi-k2.5."),
        "408": _gateway(408, "Request timed out"),
        "429": _upstream(429, "rate limit", limit_source=_SHARED_POOL),
        "429-retry-after": _upstream(429, "rate limit", {"retry-after": "30"}, limit_source=_SHARED_POOL),
        "429-gateway": _gateway(429, "Rate limit exceeded: free-models-per-min.", limit_source="openrouter"),
        "500": _gateway(500, "Internal Server Error"),
        "502": _upstream(502, "bad gateway"),
        "503": _gateway(503, "No available model provider meets your routing requirements"),
        "200-error": Fault(instead=lambda _: json_reply(_FAILED)),
        "200-error-beside-choices": Fault(listed=lambda listed: [{**listed[0], **_FAILED}, *listed[1:]]),
        "200-error-in-choice": Fault(listed=_in_choice),
        "stream-error": Fault(listed=_midway),
        "hang": Fault(reply=lambda reply: replace(reply, parts=(Stop.HANG,))),
        "hang-midway": Fault(reply=_halved(Stop.HANG)),
        "half-body": Fault(reply=_halved(Stop.CUT)),
        "no-done": Fault(reply=_undone),
        "empty-body": Fault(reply=lambda reply: replace(reply, parts=())),
        "blank-body": Fault(reply=lambda reply: replace(reply, parts=(b"\n    \n",))),
        "not-json": Fault(instead=lambda _: Reply(200, {"content-type": "text/html"}, (b"<html>busy</html>",))),
        "comments": Fault(reply=_between(b": OPENROUTER PROCESSING\n\n", "event-stream")),
        "keep-alive": Fault(reply=_between(b"\n         \n", "")),
        "wrong-provider": Fault(head=lambda head, other: replace(head, provider=other)),
        "wrong-model": Fault(head=lambda head, _: replace(head, model="moonshotai/kimi-k2-0905")),
        "hidden-tokens": _billed(27),
        "wrong-usage": _billed(1),
        "missing-usage": Fault(said=lambda said: replace(said, usage=Usage())),
        "zero-usage": Fault(said=lambda said: replace(said, usage=Usage(0, 0, 0, 0))),
        "gzip-bomb": Fault(reply=_bomb),
    }
)
"""Every fault by its name; "" is none."""


def find_fault(name: str) -> Fault:
    """The fault of that name.

    Raises:
        SetupError: There is none; lists the names.
    """
    try:
        return FAULTS[name]
    except KeyError:
        raise SetupError(f"no fault {name!r}; faults: {', '.join(filter(None, FAULTS))}") from None
