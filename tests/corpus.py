"""The optional folder of extra recordings, read for tests and reports. Lines that carry the truth keep it apart."""

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from harness.encoder import encode_ordinary, encode_prompt_text, load_vocab
from harness.flow import Kit
from harness.formats import formats
from harness.habits import Habits, load_habits
from harness.types import Exchange, Origin, Verdict

ROOT = Path(__file__).resolve().parent.parent

STACK_OF = {"main": "vllm-0.32", "main_trunc": "vllm-0.32", "B_realflags": "sglang-0.5.23"}
RECORDINGS = ("vllm-0.32.0.jsonl.gz", "sglang-0.5.23.jsonl.gz")


class Recorded(NamedTuple):
    """An answer with the ids that were sampled for it."""

    exchange: Exchange
    true_ids: list[int]
    server: str
    dialogue: str
    variant: str

    @property
    def stack(self) -> str | None:
        """The habits' name of the recorded stack; None for the other set-ups."""
        return STACK_OF.get(self.server)


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a gzipped JSONL file."""
    with gzip.open(path, "rb") as file:
        yield from map(json.loads, file)


def recordings(shared: Path) -> Iterator[Recorded]:
    """Every recorded chat answer of the real engines."""
    for file in RECORDINGS:
        for k, row in enumerate(lines(shared / "recordings" / file), 1):
            exchange = Exchange(f"{file}:{k}", row["response"], row["request"], thinking=row["thinking"])
            yield Recorded(exchange, row["true_ids"], row["server"], row["dialogue"], row["variant"])


def differs(verdict: Verdict, true_ids: list[int]) -> str:
    """How the unmasked ids of an accepted answer differ from the truth; "" where they do not, or nothing was accepted.

    A cut answer keeps a prefix.
    """
    if not verdict.accepted:
        return ""
    ids, origins = verdict.ids.ids, verdict.ids.origins
    truth = true_ids[: len(ids)] if verdict.truncated else true_ids
    if len(ids) != len(truth):
        return f"{len(ids)} ids, {len(true_ids)} sampled"
    wrong = [k for k, (a, b) in enumerate(zip(ids, truth, strict=True)) if a != b and origins[k] != Origin.INFERRED]
    return f"ids differ at {wrong[:5]}" if wrong else ""


@cache
def shipped_habits() -> Habits:
    """The habits that ship with the package."""
    return load_habits((ROOT / "harness" / "habits.toml").read_text())


@cache
def kit(habits: Habits | None = None) -> Kit:
    """What judging needs, with the shipped habits unless others are given."""
    return Kit(load_vocab(), encode_ordinary, formats(), habits or shipped_habits(), encode_prompt_text)
