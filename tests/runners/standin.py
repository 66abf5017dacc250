"""A stand-in for a running engine on a loopback socket: it replays recorded dialogues and misbehaves on request.

Bodies of `/generate` and of chat answers are the recorded ones. Made by hand from public descriptions: `/v1/models`,
`/get_server_info`, `/version`, `/tokenize`, the echo of a prompt, and the bodies of `/v1/completions`.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from harness.encoder import encode_ordinary
from harness.vocab import CONTROL_IDS, control_pattern
from runners.engine_http import Server
from tests.conftest import ROOT

Json = dict[str, Any]
Tokenize = Callable[[str], list[int]]
Answer = tuple[int, bytes]
Fault = Callable[[Json], "Answer | Json | list[Any] | None"]
"""What to answer instead; None for the right answer."""


@dataclass
class Dialogue:
    """One prompt and what the engine makes of it: recorded bodies, `chat` whole and `stream` as events."""

    name: str
    messages: list[Any]
    thinking: bool
    prompt_ids: list[int]
    output_ids: list[int]
    generate: Json = field(default_factory=dict)
    chat: Any = None
    stream: Any = None

    def line(self, **more: Any) -> Json:
        """The line of a prompts file for it."""
        return {"name": self.name, "messages": self.messages, "thinking": self.thinking} | more


def pinned(text: str) -> list[int]:
    """Ids of a text as the real tokenizer gives them to an engine: names of control tokens become their ids."""
    ids, done = [], 0
    for found in control_pattern().finditer(text):
        ids += [*encode_ordinary(text[done : found.start()]), CONTROL_IDS[found.group()]]
        done = found.end()
    return ids + encode_ordinary(text[done:])


def sglang_dialogues() -> dict[str, Dialogue]:
    """The dialogues of golden/ as SGLang 0.5.23 answered them."""
    found = {}
    for path in sorted((ROOT / "golden/sglang-0.5.23-generate").glob("*.json")):
        name, value = path.stem, json.loads(path.read_bytes())
        chat, stream = (_golden(f"sglang-0.5.23/{name}.{kind}_notools") for kind in ("chat", "stream"))
        body = value["generate"]["default"]
        found[name] = Dialogue(
            name, chat["request"]["messages"], chat["thinking"], value["prompt_ids"], value["true_ids"], body,
            chat["response"], stream["response"],
        )  # fmt: skip
    return found


def vllm_dialogues() -> dict[str, Dialogue]:
    """The dialogues of golden/ as vLLM 0.32.0 answered them, ids in the answers."""
    found = {}
    for path in sorted((ROOT / "golden/vllm-0.32.0").glob("*.notools.json")):
        name = path.name.partition(".")[0]
        chat, stream = json.loads(path.read_bytes()), _golden(f"vllm-0.32.0/{name}.notools_stream")
        found[name] = Dialogue(
            name, chat["request"]["messages"], chat["thinking"], chat["prompt_ids"], chat["true_ids"], {},
            chat["response"], stream["response"],
        )  # fmt: skip
    return found


def _golden(name: str) -> Json:
    value: Json = json.loads((ROOT / f"golden/{name}.json").read_bytes())
    return value


@dataclass
class StandIn:
    """An engine that replays dialogues.

    Attributes:
        faults: Path -> what to answer there instead.
        asked: Every request so far: path and body, {} for a GET.
    """

    dialogues: Iterable[Dialogue]
    engine: str = "sglang"
    tokenize: Tokenize = pinned
    faults: dict[str, Fault] = field(default_factory=dict)
    asked: list[tuple[str, Json]] = field(default_factory=list)
    url: str = ""

    def n_asked(self, path: str) -> int:
        """How many requests went to a path."""
        return sum(where == path for where, _ in self.asked)

    def answer(self, path: str, body: Json) -> Answer:
        """The answer to one request."""
        self.asked.append((path, body))
        fault = self.faults.get(path)
        told: Any = fault(body) if fault else None
        if told is None:
            right = _ROUTES.get((self.engine, path)) or _ROUTES.get(("", path))
            told = right(self, body) if right else (404, b'{"detail":"Not Found"}')
        if isinstance(told, tuple):
            return told
        return 200, sse(told) if isinstance(told, list) else json.dumps(told).encode()

    def models(self, _: Json) -> Json:
        """`/v1/models`."""
        return {"object": "list", "data": [{"id": "kimi-k2.5", "object": "model", "owned_by": self.engine}]}

    def server_info(self, _: Json) -> Json:
        """`/get_server_info`, with a secret as real ones have it."""
        flags = {"model_path": "/home/jane/models/small", "tp_size": 1, "reasoning_parser": "kimi_k2"}
        return {**flags, "api_key": "sk-secret", "quantization": None, "version": "0.5.23", "internal_states": [{}]}

    def tokens(self, body: Json) -> Json:
        """`/tokenize`."""
        ids = self.tokenize(body["prompt"])
        return {"tokens": ids, "count": len(ids), "max_model_len": 4096}

    def generate(self, body: Json) -> "Json | Answer":
        """`/generate`: recorded for ids, by hand for the echo of a text."""
        if "text" in body:
            entries = [[None if k == 0 else -1.0, i, None] for k, i in enumerate(self.tokenize(body["text"]))]
            meta = {"input_token_logprobs": entries, "prompt_tokens": len(entries), "finish_reason": {"type": "length"}}
            return {"text": "x", "output_ids": [87], "meta_info": meta}
        found = self._of_ids(body["input_ids"])
        return found.generate if found else (400, b'{"error":{"message":"no dialogue has this prompt"}}')

    def completions(self, body: Json) -> "Json | Answer":
        """`/v1/completions`, by hand."""
        if isinstance(body["prompt"], str):
            choice = {"token_ids": [87], "prompt_token_ids": self.tokenize(body["prompt"]), "finish_reason": "length"}
            return {"choices": [choice], "usage": {}}
        found = self._of_ids(body["prompt"])
        if found is None:
            return 400, b'{"error":{"message":"no dialogue has this prompt"}}'
        choice = {"index": 0, "text": "", "token_ids": found.output_ids, "finish_reason": "stop"}
        usage = {"prompt_tokens": len(found.prompt_ids), "completion_tokens": len(found.output_ids)}
        return {"object": "text_completion", "choices": [choice], "usage": usage}

    def chat(self, body: Json) -> Any:
        """`/v1/chat/completions`, recorded."""
        thinking = body.get("chat_template_kwargs", {}).get("thinking", True)
        for d in self.dialogues:
            if d.messages == body["messages"] and d.thinking == thinking:
                return d.stream if body.get("stream") else d.chat
        return 400, b'{"error":{"message":"no dialogue has these messages"}}'

    def _of_ids(self, ids: list[int]) -> Dialogue | None:
        return next((d for d in self.dialogues if d.prompt_ids == ids), None)


_ROUTES: Mapping[tuple[str, str], Callable[[StandIn, Json], Any]] = {
    ("", "/v1/models"): StandIn.models,
    ("", "/tokenize"): StandIn.tokens,
    ("", "/v1/chat/completions"): StandIn.chat,
    ("sglang", "/get_server_info"): StandIn.server_info,
    ("sglang", "/generate"): StandIn.generate,
    ("vllm", "/version"): lambda _, __: {"version": "0.32.0"},
    ("vllm", "/v1/completions"): StandIn.completions,
}


def sse(events: list[Any], end: bytes = b"data: [DONE]\n\n") -> bytes:
    """A stream of these events."""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + end


@contextmanager
def serving(engine: StandIn) -> Iterator[StandIn]:
    """The stand-in on a free loopback port, `url` set."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def _reply(self, body: Json) -> None:
            status, data = engine.answer(self.path, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Nothing: tests look at `asked`."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    engine.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield engine
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def asking(engine: StandIn, **options: Any) -> Iterator[Server]:
    """A client of the stand-in, which serves as long."""
    with serving(engine), Server(engine.url, **options) as server:
        yield server


def prompts_file(folder: Path, *lines: Json) -> str:
    """A JSONL file of prompts."""
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)
