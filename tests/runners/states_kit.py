"""What the tests of hidden states share: samples, a file of them, a back end that computes without a model."""

import random
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from runners.shard_reading import folder_problems, verify
from runners.states import Facts, Sample, States
from runners.tables import table_file

KINDS = {"id": "text", "prompt_ids": ("id",), "output_ids": ("id",), "loss_mask": ("byte",)}
VOCAB = 500
torch.set_num_threads(1)  # on busy cores the threads of so small a model wait for each other longer than they compute
FACTS = Facts(
    backend="arithmetic",
    version="1",
    model="none",
    revision="r1",
    architecture="None",
    config_sha256="c" * 64,
    weights_sha256="w" * 64,
    n_layers=8,
    hidden_size=4,
    vocab_size=VOCAB,
    max_length=64,
    dtype="fp32",
    aux_layers=(2, 4, 5),
    last_norm="post",
)


def sample(name: str, prompt: Sequence[int], output: Sequence[int], mask: Sequence[int] | None = None) -> Sample:
    """A sample; without a mask every output id counts."""
    mask = [1] * len(output) if mask is None else mask
    return Sample(name, array("q", [*prompt, *output]), bytes(len(prompt)) + bytes(mask), len(prompt))


def drawn(n: int, seed: int = 0, longest: int = 40) -> list[Sample]:
    """Samples by chance, reproducibly."""
    rng = random.Random(seed)
    found = []
    for k in range(n):
        ids = [rng.randrange(VOCAB) for _ in range(rng.randrange(2, longest))]
        cut = rng.randrange(1, len(ids))
        found.append(sample(f"s{k}", ids[:cut], ids[cut:], [rng.randrange(2) for _ in ids[cut:]]))
    return found


def samples_file(path: Path, samples: Sequence[Sample], **more: tuple[Any, Any]) -> Path:
    """A samples.parquet; `more` is a column of one value: name=(kind, value)."""
    with table_file(path, {**KINDS, **{name: kind for name, (kind, _) in more.items()}}) as table:
        for one in samples:
            ids, n = list(one.ids), one.n_prompt
            row = {"id": one.id, "prompt_ids": ids[:n], "output_ids": ids[n:], "loss_mask": list(one.loss_mask[n:])}
            table.add({**row, **{name: value for name, (_, value) in more.items()}})
    return path


@dataclass
class Arithmetic:
    """A back end whose states are sums: every value tells its sample, position, layer and column.

    Attributes:
        wrong: Done to the list of states before it is given back.
        asked: How many sequences each call had.
    """

    facts: Facts = FACTS
    wrong: Any = None
    asked: list[int] = field(default_factory=list)

    def states(self, batch: "Sequence[array[int]]") -> list[States]:
        """The states."""
        self.asked.append(len(batch))
        found = [arithmetic(ids, self.facts) for ids in batch]
        return self.wrong(found) if self.wrong else found

    def close(self) -> None:
        """Holds nothing."""


def arithmetic(ids: "array[int]", facts: Facts = FACTS) -> States:
    """What `Arithmetic` says of these ids: id + 0.25 * column + 100 * layer + position / 128, as a running sum."""
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[facts.dtype]
    position = torch.arange(len(ids)) / 128
    base = torch.tensor(list(ids)).cumsum(0) + position
    columns = 0.25 * torch.arange(facts.hidden_size)
    last = base[:, None] + columns
    layers = 100.0 * torch.tensor(facts.aux_layers)
    return States((last[:, None] + layers[None, :, None]).to(dtype), last.to(dtype), facts.last_norm)


def facts(**changes: Any) -> Facts:
    """FACTS with changes."""
    return replace(FACTS, **changes)


def faults(out: Path) -> list[str]:
    """All that `shards verify` has to say of a folder."""
    found = list(verify(out))
    return [said for _, _, of_shard in found for said in of_shard] + list(folder_problems(out, found))


@cache
def _tiny(architecture: str) -> "TemporaryDirectory[str]":
    from runners.tiny import make_tiny  # late: workers of a cluster need no transformers

    folder = TemporaryDirectory()
    make_tiny(Path(folder.name) / "model", architecture, vocab_size=VOCAB)
    return folder


def tiny(architecture: str) -> Path:
    """A tiny target of VOCAB ids, made once a process."""
    return Path(_tiny(architecture).name) / "model"
