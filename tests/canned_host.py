"""A host for benchmarks: answers of the emulator made beforehand, behind uvicorn in a process of its own.

The emulator makes an answer of 1,000 tokens in 3 to 4 ms, which would be all that a benchmark measures; this gives one
of 100 such answers, byte for byte as the emulator made them, after a delay.

    python -m tests.canned_host N_PROMPT N_TOKENS    # prints the port; GET /delay?ms=50 sets the delay
"""

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import Any

import uvicorn

from harness.emulator import Truth
from harness.encoder import encode_ordinary
from tests.bulk_kit import host, prompt, text_of
from tests.conftest import ROOT
from tests.emulator_kit import END, TE, chat, whole

N_BODIES = 100


def bodies(n_prompt: int, n_tokens: int) -> list[bytes]:
    """Answers to prompts of one length, each of about so many tokens."""
    made = []
    request = {**json.loads(prompt(0).body), "provider": {"only": ["chutes/int4"]}}
    for k in range(N_BODIES):
        thought, said = (encode_ordinary(text_of(f"{kind} {k}", n_tokens))[: n_tokens // 2 - 1] for kind in "ab")
        # cut at a token, a text may encode otherwise: only whole words are kept
        true = [*encode_ordinary(_text(thought)), TE, *encode_ordinary(_text(said)), END]
        app = host(answers=lambda _, true=true: Truth(true, prompt_ids=[1] * n_prompt))
        made.append(whole(chat(app, request)))
    return made


def _text(ids: list[int]) -> str:
    from harness.encoder import load_vocab

    return b"".join(map(load_vocab().token_bytes, ids)).decode("utf-8", "ignore").rpartition(" ")[0]


class Canned:
    """The ASGI app."""

    def __init__(self, answers: list[bytes]) -> None:
        self.answers, self.delay_s = cycle(answers), 0.0
        self.n = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        if scope["type"] != "http":
            raise ValueError("http alone")
        while (await receive()).get("more_body"):
            pass
        if scope["path"] == "/delay":
            self.delay_s = float(scope["query_string"].partition(b"=")[2]) / 1000
            body = b"{}"
        else:
            self.n += 1
            await asyncio.sleep(self.delay_s)
            body = next(self.answers)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main(n_prompt: int, n_tokens: int) -> None:
    """Serve until killed."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(Canned(bodies(n_prompt, n_tokens)), log_level="critical", lifespan="off", loop="uvloop")
    uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def canned_host(n_prompt: int, n_tokens: int) -> Iterator[str]:
    """The host in a process of its own; gives its URL without a path."""
    command = [sys.executable, "-m", "tests.canned_host", str(n_prompt), str(n_tokens)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
