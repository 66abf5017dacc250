"""What the tests and reports of bulk generation share: prompts, a host that answers them well, and an engine.

The host is the emulator with the preset of a real provider; each prompt has one answer, made from its text alone, so
that two runs get the same bytes.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from harness.catalog import Endpoint
from harness.emulator import Emulator, Truth
from harness.encoder import encode_ordinary, encode_prompt_text, load_vocab
from harness.faults import Stop
from harness.formats import find_format, formats
from harness.prompt import render
from harness.transport import Call, Reply, Transport, UnansweredError
from runners.attempts import Outside
from runners.backoff import wait_s
from runners.budget import NANO, Price
from runners.data_sets import canonical
from runners.desk import Orders
from runners.generate import Run
from runners.jobs import Prompt
from runners.judging import Judges, Recipe
from runners.ledger import Row, Totals, open_ledger, read_ledger
from runners.progress import Progress
from runners.progress import Stop as RunStop
from runners.verdicts import Facts
from tests.conftest import ROOT
from tests.emulator_kit import END, MODEL, TE

FACTS = Facts("c", "v", "f", "h", None, "a test")
RECIPE = Recipe((ROOT / "harness" / "habits.toml").read_text(encoding="utf-8"), None, FACTS)
PIN = "chutes"
MAX_TOKENS = 4000


class SameIds(random.Random):
    """Gives every answer the same id, so that the same prompt always gets the same bytes."""

    def choices(self, population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> list[Any]:
        """The first one, k times."""
        return [population[0]] * k


@cache
def _words() -> tuple[str, ...]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return tuple(sorted({word for word in text.split() if word.isalpha() and word.isascii()}))


def text_of(seed: str, n_words: int) -> str:
    """Words in an order that the seed tells."""
    return " ".join(random.Random(seed).choices(_words(), k=n_words)) + "."


@cache
def _ids_of(text: str) -> tuple[int, ...]:
    messages = [{"role": "user", "content": text}]
    fmt = find_format(MODEL, formats())
    assert fmt is not None
    return tuple(render(messages, None, format=fmt, thinking=True, encode=encode_prompt_text).ids)


def prompt(n: int, dataset: str = "a", max_tokens: int = MAX_TOKENS) -> Prompt:
    """The n-th prompt of a data set."""
    text = f"Question {n} of {dataset}"
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "reasoning": {"enabled": True},
        "usage": {"include": True},
    }
    return Prompt(dataset, f"{dataset}-{n}", n, canonical(body), len(_ids_of(text)), max_tokens)


def prompts(n: int, dataset: str = "a", max_tokens: int = MAX_TOKENS) -> Iterator[Prompt]:
    """The first n prompts of a data set."""
    return (prompt(k, dataset, max_tokens) for k in range(n))


def truth(request: Mapping[str, Any], n_words: int = 40) -> Truth:
    """What the model samples for a prompt."""
    text = request["messages"][-1]["content"]
    thought, said = text_of(f"think {text}", n_words // 2), text_of(f"say {text}", n_words // 2)
    return Truth([*encode_ordinary(thought), TE, *encode_ordinary(said), END], prompt_ids=_ids_of(text))


def host(**how: Any) -> Emulator:
    """An emulator that answers every prompt; its clock stands still and its answers have one id."""
    settings: dict[str, Any] = {"clock": lambda: 1_800_000_000.0, "rng": SameIds(7), "answers": truth, **how}
    return Emulator(settings.pop("answers"), load_vocab().token_bytes, **settings)


def ledger_path(folder: Path) -> Path:
    """Where a run's ledger is."""
    return folder / "ledger.sqlite3"


class Direct:
    """A transport that asks an emulator without sockets.

    Attributes:
        seen: Prompt texts of the chat requests, in the order in which they were sent.
        delay_s: Before each reply.
    """

    def __init__(self, app: Emulator, delay_s: float = 0.0) -> None:
        self.app, self.delay_s = app, delay_s
        self.seen: list[str] = []
        self.calls: list[Call] = []
        self._more = asyncio.Condition()

    async def sent(self, n: int) -> None:
        """Wait until n chat requests were sent."""
        async with self._more:
            await self._more.wait_for(lambda: len(self.seen) >= n)

    async def send(self, call: Call) -> Reply:
        """As the real ones do, hangs and cut bodies included."""
        self.calls.append(call)
        if call.body:
            self.seen.append(json.loads(call.body)["messages"][-1]["content"])
            async with self._more:
                self._more.notify_all()
        await asyncio.sleep(self.delay_s)
        path, _, query = call.path.partition("?")
        reply = self.app.reply(call.method, f"/api/v1{path}", {}, query, call.body)
        parts = list(reply.parts)
        body = b"".join(part for part in parts if isinstance(part, bytes))
        if any(isinstance(part, Stop) for part in parts):
            raise UnansweredError("no whole reply", partial=body)
        return Reply(reply.status, reply.headers, body)

    async def close(self) -> None:
        """Nothing to give back."""


PRICE = Price(Decimal("5e-7"), Decimal("2.5e-6"))
ENDPOINT = Endpoint("chutes/int4", "Chutes", "int4", PRICE.prompt, PRICE.completion)


def orders(**how: Any) -> Orders:
    """What a run of data set "a" at Chutes is to do: 8 at a time, 10 dollars."""
    settings: dict[str, Any] = {
        "model": MODEL,
        "datasets": ("a",),
        "endpoints": (ENDPOINT,),
        "block": {"only": ["chutes/int4"], "allow_fallbacks": False},
        "price": PRICE,
        "cap_nano": 10 * NANO,
        "concurrency": 8,
        **how,
    }
    return Orders(**settings)


def outside(transport: Transport, **how: Any) -> Outside:
    """The real clocks, waits of a thousandth of the real ones, no jitter."""
    settings: dict[str, Any] = {
        "clock": time.monotonic,
        "now": time.time,
        "sleep": lambda seconds: asyncio.sleep(seconds / 1000),
        "draw": lambda: 0.0,
        "wait_s": lambda failure, n, draw: wait_s(failure, n, draw) / 1000,
        **how,
    }
    return Outside(transport, **settings)


@dataclass
class Ran:
    """What a run left: why it stopped, its last words, all rows."""

    stop: RunStop
    progress: Progress
    rows: list[Row]
    totals: Totals

    def ends(self) -> Counter[str | None]:
        """Prompts by their end."""
        return Counter(row.end for row in self.rows)


async def run(
    folder: Path,
    transport: Transport,
    asked: Iterable[Prompt],
    what: Orders | None = None,
    *,
    recipe: Recipe = RECIPE,
    during: Callable[[Run], Awaitable[None]] | None = None,
    **how: Any,
) -> Ran:
    """One run in a folder, until it stops; `during` goes on beside it."""
    judges, seen = Judges(recipe, 0), list[Progress]()
    with open_ledger(ledger_path(folder)) as ledger, read_ledger(ledger_path(folder)) as reader:
        made = Run(what or orders(), ledger, reader, iter(asked), judges, outside(transport, **how), seen.append)
        beside = asyncio.create_task(during(made)) if during else None
        try:
            stop = await made.run()
        finally:
            judges.close()
            if beside:
                await beside
        return Ran(stop, seen[-1], list(reader.rows()), reader.totals())
