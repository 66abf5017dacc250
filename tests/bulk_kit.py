"""What the tests and reports of bulk generation share: prompts, a host that answers them well, and an engine.

The host is the emulator with the preset of a real provider; each prompt has one answer, made from its text alone, so
that two runs get the same bytes.
"""

import random
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from harness.emulator import Emulator, Truth
from harness.encoder import encode_ordinary, encode_prompt_text, load_vocab
from harness.formats import find_format, formats
from harness.prompt import render
from runners.data_sets import canonical
from runners.jobs import Prompt
from runners.judging import Recipe
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
