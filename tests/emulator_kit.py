"""What the tests of the emulator share: ids from parts, answers of a preset, an app whose clock stands still."""

import json
import random
from collections.abc import Mapping
from typing import Any

from harness.emulator import Emulator, Truth
from harness.encoder import encode_ordinary, load_vocab
from harness.faults import Reply
from harness.preset_table import PRESETS
from harness.presets import Answer, answer
from harness.vocab import CONTROL_IDS

TH, TE = CONTROL_IDS["<think>"], CONTROL_IDS["</think>"]
SB, SE = CONTROL_IDS["<|tool_calls_section_begin|>"], CONTROL_IDS["<|tool_calls_section_end|>"]
CB, CA, CE = (CONTROL_IDS[f"<|tool_call_{n}|>"] for n in ("begin", "argument_begin", "end"))
END, USER, PAD, BOS = (CONTROL_IDS[n] for n in ("<|im_end|>", "<|im_user|>", "<|media_pad|>", "[BOS]"))
TOOLS = [
    {
        "type": "function",
        "function": {"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}},
    },
    {"type": "function", "function": {"name": "save", "parameters": {"properties": {"a": {"type": "string"}}}}},
]
Call = tuple[str, str, str]


def ids(*parts: str | int | bytes) -> list[int]:
    """Ids of these parts: text in canonical tokens, a control id, or the bytes of one token."""
    vocab, made = load_vocab(), list[int]()
    for part in parts:
        if isinstance(part, bytes):
            found = vocab.find(part)
            assert found is not None, part
            made.append(found)
        else:
            made += [part] if isinstance(part, int) else encode_ordinary(part)
    return made


def section(*calls: tuple[str, str]) -> list[int]:
    """The ids of a whole tool section."""
    return [SB, *(i for header, arguments in calls for i in ids(CB, header, CA, arguments, CE)), SE]


def said(true_ids: list[int], preset: str, thinking: bool = True, **request: Any) -> Answer:
    """What a preset answers; `tools=True` declares two tools."""
    if request.pop("tools", False):
        request["tools"] = TOOLS
    return answer(true_ids, request, thinking, PRESETS[preset], load_vocab().token_bytes, prompt_tokens=10)


def calls(said: Answer) -> tuple[Call, ...]:
    """(id, name, arguments) of each call."""
    return tuple((c.id, c.name, c.arguments) for c in said.calls)


def shown(said: Answer) -> tuple[str, str, tuple[Call, ...], str]:
    """Reasoning, content, calls and finish reason."""
    return said.reasoning, said.content, calls(said), said.finish_reason


PLAIN = ids("I think.", TE, "Hi there!", END)
CALLING = ids("Look.", TE) + section(("functions.get_weather:2", '{"city": "Oslo", "b": 1}')) + [END]
MODEL = "moonshotai/kimi-k2.5"
ANSWERS = {"hi": Truth(PLAIN, prompt_tokens=10), "call": Truth(CALLING, prompt_tokens=20)}
CHAT, LIST = "/api/v1/chat/completions", f"/api/v1/models/{MODEL}/endpoints"


def emulator(**how: Any) -> Emulator:
    """An emulator whose clock stands still and whose ids are drawn from a fixed seed."""
    settings: dict[str, Any] = {"clock": lambda: 1_800_000_000.0, "rng": random.Random(7), **how}
    return Emulator(settings.pop("answers", ANSWERS), load_vocab().token_bytes, **settings)


def asked(prompt: str = "hi", **fields: Any) -> dict[str, Any]:
    """A chat request; the provider is Chutes unless said otherwise."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "provider": {"only": ["chutes"]}}
    return {**body, **fields}


def chat(app: Emulator, request: Any, fault: str = "") -> Reply:
    """The reply to a chat request."""
    headers = {"x-emulator-fault": fault} if fault else {}
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return app.reply("POST", CHAT, headers, data=data)


def whole(reply: Reply) -> bytes:
    """The bytes of a reply that ends."""
    return b"".join(part for part in reply.parts if isinstance(part, bytes))


def parsed(reply: Reply) -> Any:
    """The JSON of a body."""
    return json.loads(whole(reply))


def events(reply: Reply) -> list[Any]:
    """The JSON of a stream's events."""
    lines = whole(reply).split(b"\n")
    return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]


async def over_asgi(app: Emulator, method: str, path: str, data: bytes = b"") -> list[Mapping[str, Any]]:
    """The messages of one ASGI connection whose client goes as soon as it is asked anything more."""
    sent: list[Mapping[str, Any]] = []
    coming = [{"type": "http.request", "body": data[:5], "more_body": True}, {"type": "http.request", "body": data[5:]}]

    async def receive() -> Any:
        return coming.pop(0) if coming else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "method": method, "path": path, "headers": [], "query_string": b""}, receive, send)
    return sent
