"""An OpenRouter-shaped ASGI app that knows the true ids, answers as a chosen provider would, and misbehaves on request.

    app = Emulator({"hi": Truth(ids)}, clock=time.time, rng=random.Random(0))   # served by any ASGI server

A request may carry the header `x-emulator-fault` with a name of `faults.FAULTS`. What it cannot answer is an error that
says why. Knows nothing of how it is judged, and needs no web framework.
"""

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import parse_qs

from harness import openrouter_lists as lists
from harness.chat_request import prompt_text, wrong
from harness.errors import SetupError
from harness.faults import Fault, Reply, Stop, error_reply, find_fault, json_reply, sse_reply
from harness.openrouter_lists import Endpoint
from harness.presets import PRESETS, Answer, answer
from harness.stacks import TokenBytes
from harness.wire import Head, body, chunks, cost, report, report_chunks

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
MODEL = "moonshotai/kimi-k2.5"
KEPT = 1000
"""Generations that can still be asked for."""
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
# Members of a request that are no sampling parameters, so that require_parameters does not look at them.
_PLAIN = frozenset(
    {"messages", "model", "models", "provider", "stream", "stream_options", "usage", "user", "transforms"}
)


@dataclass(frozen=True, slots=True)
class Truth:
    """What the model samples for one prompt, the terminator included.

    Attributes:
        prompt_tokens: Length of the prompt, where its ids are not given.
    """

    ids: Sequence[int]
    thinking: bool = True
    prompt_ids: Sequence[int] = ()
    prompt_tokens: int | None = None


Answers = Mapping[str, Truth] | Callable[[Mapping[str, Any]], Truth | None]
"""By the text of the last user message, or by the whole request; None: no answer is known."""


def default_endpoints() -> tuple[Endpoint, ...]:
    """One INT4 endpoint a preset."""
    return tuple(Endpoint(f"{name}/int4", preset) for name, preset in PRESETS.items())


@dataclass(frozen=True, slots=True)
class _Kept:
    said: Answer
    head: Head
    streamed: bool


@dataclass(slots=True)
class Emulator:
    """The app.

    Attributes:
        answers: Where the true ids come from.
        token_bytes: Bytes of an id (`Vocab.token_bytes`).
        clock: Seconds since 1970.
        rng: What ids of answers are drawn from.
        faults: Names of faults, one a chat request in their order; a request's own header goes first.
        keys: API keys that are accepted; None: any, and none.
        generation_delay: Seconds for which /generation does not know an answer yet.
        chunk_delay: Seconds between the chunks of a stream.
        requests: The chat requests that came, as parsed.
    """

    answers: Answers
    token_bytes: TokenBytes
    clock: Callable[[], float]
    rng: Random
    endpoints: Sequence[Endpoint] = field(default_factory=default_endpoints)
    model: str = MODEL
    faults: Iterable[str] = ()
    keys: frozenset[str] | None = None
    key_limit: float | None = None
    generation_delay: float = 0.0
    chunk_delay: float = 0.0
    requests: list[Mapping[str, Any]] = field(default_factory=list)
    _queue: Iterator[str] = field(init=False)
    _kept: OrderedDict[str, _Kept] = field(init=False, default_factory=OrderedDict)
    _spent: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self._queue = iter(self.faults)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] == "lifespan":
            return await _lifespan(receive, send)
        if scope["type"] != "http":
            raise SetupError(f"the emulator speaks http, not {scope['type']}")
        data = await _read(receive)
        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        query = scope.get("query_string", b"").decode("latin-1")
        reply = self.reply(scope["method"], scope["path"], headers, query, data)
        await _send(reply, receive, send, self.chunk_delay)

    def reply(self, method: str, path: str, headers: Mapping[str, str], query: str = "", data: bytes = b"") -> Reply:
        """The reply to one request, without any I/O."""
        token = headers.get("authorization", "").removeprefix("Bearer ")
        if self.keys is not None and token not in self.keys:
            return error_reply(401, "No auth credentials found")
        for verb, pattern, handler in _ROUTES:
            if found := re.fullmatch(pattern, path):
                if verb != method:
                    return error_reply(405, f"{path} takes {verb}, not {method}")
                return handler(self, _Asked(headers, parse_qs(query), data, found.groups()))
        return error_reply(404, f"no such path: {path}; the emulator has {[pattern for _, pattern, _ in _ROUTES]}")

    def _chat(self, asked: "_Asked") -> Reply:
        try:
            request = json.loads(asked.data)
            fault = find_fault(asked.headers.get("x-emulator-fault") or next(self._queue, ""))
        except (ValueError, RecursionError, SetupError) as error:
            return error_reply(400, f"not a request that the emulator understands: {error}")
        if complaint := wrong(request):
            return error_reply(400, complaint)
        self.requests.append(request)
        if request.get("model") != self.model:
            return error_reply(400, f"{request.get('model')} is not a valid model ID")
        offer = self._route(request)
        if isinstance(offer, Reply):
            return offer
        if fault.instead:
            return fault.instead(offer.preset.provider)
        truth = self._truth(request)
        if truth is None:
            return error_reply(400, f"no answer is known for the prompt {prompt_text(request)!r:.200}")
        return self._answer(request, offer, truth, fault)

    def _truth(self, request: Mapping[str, Any]) -> Truth | None:
        return self.answers(request) if callable(self.answers) else self.answers.get(prompt_text(request))

    def _answer(self, request: Mapping[str, Any], offer: Endpoint, truth: Truth, fault: Fault) -> Reply:
        preset = offer.preset
        gen = f"gen-{int(self.clock())}-{''.join(self.rng.choices(_LETTERS, k=20))}"
        said = answer(
            truth.ids,
            request,
            truth.thinking,
            preset,
            self.token_bytes,
            prompt_ids=truth.prompt_ids,
            prompt_tokens=truth.prompt_tokens,
            nonce=gen,
        )
        head = Head(gen, int(self.clock()), self.model, preset.provider, prices=offer.prices)
        others = (e.preset.provider for e in self.endpoints if e.preset.provider != preset.provider)
        said, head = fault.said(said), fault.head(head, next(others, "SomeOtherHost"))
        self._keep(said, head, bool(request.get("stream")))
        return fault.reply(self._reply_of(request, said, head, preset.reports, fault))

    def _reply_of(self, request: Mapping[str, Any], said: Answer, head: Head, style: str, fault: Fault) -> Reply:
        if not request.get("stream"):
            listed = [report(body(said, head), said, request, style, self.token_bytes)]
            return json_reply(fault.listed(listed)[0])
        shown = style == "vllm" and bool(request.get("return_token_ids") or request.get("logprobs"))
        told = list(chunks(said, head, empty=shown))
        return sse_reply(fault.listed(report_chunks(told, said, request, style, self.token_bytes)))

    def _keep(self, said: Answer, head: Head, streamed: bool) -> None:
        self._spent += cost(said.usage, head.prices)
        self._kept[head.id] = _Kept(said, head, streamed)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def _route(self, request: Mapping[str, Any]) -> Endpoint | Reply:
        """The endpoint that takes a request, by its `provider` block; an error where none may."""
        block = request.get("provider") or {}
        only, order, ignored = (block.get(k) or () for k in ("only", "order", "ignore"))
        hard = order if block.get("allow_fallbacks") is False else ()
        fits = [
            e
            for e in self.endpoints
            if (not only or any(map(e.answers_to, only)))
            and (not hard or any(map(e.answers_to, hard)))
            and not any(map(e.answers_to, ignored))
            and e.quantization in (block.get("quantizations") or [e.quantization])
        ]
        if not fits:
            return error_reply(404, f"No endpoints found for {self.model}.")
        if block.get("require_parameters"):
            fits = [e for e in fits if set(request) - _PLAIN <= set(e.parameters)]
        if not fits:
            return error_reply(404, "No endpoints found that can handle the requested parameters.")
        first = (e for pin in order for e in fits if e.answers_to(pin))
        return next(first, fits[0])

    def _models(self, _: "_Asked") -> Reply:
        return json_reply(lists.models(self.model, self.endpoints))

    def _endpoints(self, asked: "_Asked") -> Reply:
        model = "/".join(asked.groups)
        if model != self.model:
            return error_reply(404, f"No model {model}")
        return json_reply(lists.endpoints(model, self.endpoints))

    def _generation(self, asked: "_Asked") -> Reply:
        wanted = asked.query.get("id", [""])[0]
        kept = self._kept.get(wanted)
        if kept is None or self.clock() < kept.head.created + self.generation_delay:
            return error_reply(404, f"Generation {wanted} not found")
        at = datetime.fromtimestamp(kept.head.created, UTC).isoformat()
        return json_reply(lists.generation(kept.said, kept.head, created_at=at, streamed=kept.streamed))

    def _key(self, _: "_Asked") -> Reply:
        return json_reply(lists.key("emulated", self.key_limit, self._spent))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request as a handler sees it."""

    headers: Mapping[str, str]
    query: Mapping[str, list[str]]
    data: bytes
    groups: tuple[str, ...]


_ROUTES = (
    ("POST", r"/api/v1/chat/completions", Emulator._chat),
    ("GET", r"/api/v1/models", Emulator._models),
    ("GET", r"/api/v1/models/([^/]+)/([^/]+)/endpoints", Emulator._endpoints),
    ("GET", r"/api/v1/generation", Emulator._generation),
    ("GET", r"/api/v1/key", Emulator._key),
)


async def _lifespan(receive: Receive, send: Send) -> None:
    while (kind := (await receive())["type"]) != "lifespan.shutdown":
        await send({"type": f"{kind}.complete"})
    await send({"type": "lifespan.shutdown.complete"})


async def _read(receive: Receive) -> bytes:
    data, more = b"", True
    while more:
        message = await receive()
        data += message.get("body", b"")
        more = message.get("more_body", False)
    return data


async def _send(reply: Reply, receive: Receive, send: Send, delay: float) -> None:
    listed = [(k.encode(), v.encode()) for k, v in reply.headers.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": listed})
    for part in reply.parts:
        if part is Stop.HANG:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        if part is Stop.CUT:
            return  # without an end of the body: the server closes the connection
        await send({"type": "http.response.body", "body": part, "more_body": True})
        await asyncio.sleep(delay)
    await send({"type": "http.response.body", "body": b"", "more_body": False})
