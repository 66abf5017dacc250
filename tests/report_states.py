"""`python -m tests.report_states`: hidden states against independent computations and readings.

The transformers back end against a plain forward with output_hidden_states, one sequence at a time, on both tiny
architectures: many compositions of a batch, padded and not, both sides of the final norm, several choices of layers.
The logits of both trainers, rebuilt from their files. The SGLang back end, fed recorded bodies over loopback, against
the simplest reading of their JSON; and the answers that it must refuse. The last line is one JSON object; the exit
status is 1 where a claim does not hold.
"""

import argparse
import json
import math
import random
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from harness.errors import ProviderError
from harness.vocab import N_IDS
from runners.backend_transformers import Loading, TransformersBackend
from runners.extract_job import Job, run_job
from runners.states import LastNorm
from runners.tiny import ARCHITECTURES, make_tiny
from tests.runners.hidden_standin import ALL_IDS, TRAPS, read_alone, servers
from tests.runners.states_kit import sample, samples_file

LIMIT = 1e-5
LAYERS = ("eagle3", "1,2,7", "3,4,6")
NORMS: tuple[LastNorm, ...] = ("post", "pre")


class Target:
    """A tiny target, and what a plain forward says of a sequence."""

    def __init__(self, folder: Path, architecture: str, vocab_size: int) -> None:
        self.folder = make_tiny(folder, architecture, vocab_size=vocab_size)
        logging.disable_progress_bar()
        self.model: Any = AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32).eval()
        self.plain = cache(self._plain)

    def _plain(self, ids: tuple[int, ...]) -> tuple[Sequence[torch.Tensor], torch.Tensor]:
        """(hidden_states, each (T, H); logits (T, V)) of one sequence alone."""
        with torch.inference_mode():
            out = self.model(torch.tensor([ids]), output_hidden_states=True)
        return [state[0] for state in out.hidden_states], out.logits[0]


def compositions(rng: random.Random, vocab_size: int, n: int) -> Iterator[tuple[str, list["array[int]"], int]]:
    """(kind, batch, batch_tokens): alone, of one length, padded into one forward, and cut up by chance."""

    def ids(length: int) -> "array[int]":
        return array("q", (rng.randrange(vocab_size) for _ in range(length)))

    for _ in range(n):
        lengths = [rng.randrange(1, 70) for _ in range(rng.randrange(1, 7))]
        mixed = [ids(length) for length in lengths]
        yield "alone", mixed[:1], 1
        yield "unpadded", [ids(lengths[0]) for _ in lengths], 1 << 20
        yield "padded", mixed, 1 << 20
        yield "by chance", rng.sample(mixed, len(mixed)), rng.randrange(1, 300)


def forward_report(target: Target, vocab_size: int, n: int) -> dict[str, Any]:
    """The largest difference of any state, by composition; `shapes` counts states of a wrong shape or side."""
    worst: dict[str, float] = {}
    counts = {"sequences": 0, "tokens": 0, "wrong_shapes": 0}
    for layers in LAYERS:
        for norm in NORMS:
            rng = random.Random(f"{layers} {norm}")
            for kind, batch, batch_tokens in compositions(rng, vocab_size, n):
                how = Loading(layers=layers, last_norm=norm, dtype="fp32", batch_tokens=batch_tokens)
                backend = loaded(target.folder, how)
                for ids, found in zip(batch, backend.states(batch), strict=True):
                    listed, _ = target.plain(tuple(ids))
                    last = target.model.model.norm(found.last) if norm == "pre" else found.last
                    expected = torch.stack([listed[k] for k in backend.facts.aux_layers], dim=1)
                    good = found.aux.shape == expected.shape and found.last_norm == norm
                    counts["wrong_shapes"] += not good
                    counts["sequences"] += 1
                    counts["tokens"] += len(ids)
                    off = max(apart(found.aux, expected), apart(last, listed[-1]))
                    worst[kind] = max(worst.get(kind, 0.0), off)
    return {**counts, "max_abs_difference": worst}


@cache
def loaded(folder: Path, how: Loading) -> TransformersBackend:
    """A back end, made once for the same options."""
    return TransformersBackend(folder, how)


def apart(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest difference; infinite where nothing can be compared, since no NaN is ever larger than a limit."""
    off = float((a - b).detach().abs().max()) if a.shape == b.shape else math.inf
    return off if math.isfinite(off) else math.inf


def layout_report(target: Target, vocab_size: int, n: int, folder: Path) -> dict[str, float]:
    """The largest difference of any logit, rebuilt from a trainer's files as that trainer does it."""
    rng, model = random.Random(1), target.model
    drawn = [[rng.randrange(vocab_size) for _ in range(rng.randrange(2, 60))] for _ in range(n)]
    file = samples_file(folder / "s.parquet", [sample(f"s{k}", ids[:1], ids[1:]) for k, ids in enumerate(drawn)])
    for layout, norm in (("specforge", "post"), ("speculators", "pre")):
        how = Loading(dtype="fp32", last_norm=norm)  # type: ignore[arg-type]
        run_job(Job(file, folder / layout, shard_bytes=20_000, layout=layout), loaded(target.folder, how))
    worst = {"specforge": 0.0, "speculators": 0.0}
    for row, ids in enumerate(drawn):
        _, logits = target.plain(tuple(ids))
        ckpt = torch.load(folder / f"specforge/rows_0-2000/data_{row}.ckpt", weights_only=True)
        states = load_file(folder / f"speculators/hidden_states/hs_{row}.safetensors")["hidden_states"]
        with torch.inference_mode():
            rebuilt = {
                "specforge": model.lm_head(ckpt["hidden_state"][0]),
                "speculators": model.lm_head(model.model.norm(states[:, -1])),
            }
        worst = {name: max(off, apart(rebuilt[name], logits)) for name, off in worst.items()}
    return worst


def sglang_report(folder: Path) -> dict[str, Any]:
    """Rows, order, dtype and split of recorded answers; what was asked; which trap answers were refused."""
    ids = array("q", ALL_IDS)
    lengths = [36, 1, 20, 36, 7]
    with servers() as pair:
        found = pair.opened(folder).states([ids[:n] for n in lengths])
        asked = [body for server in (pair.last, pair.aux) for path, body in server.asked if path == "/generate"]
    last, aux = read_alone("last"), read_alone("aux")
    wrong = 0
    for n, one in zip(lengths, found, strict=True):
        wrong += one.last.tolist() != [_f32(row) for row in last[:n]]
        wrong += one.aux.tolist() != [[_f32(row[64 * k : 64 * k + 64]) for k in range(3)] for row in aux[:n]]
        wrong += (one.last.dtype, one.aux.dtype, one.last_norm) != (torch.float32, torch.float32, "post")
    sampling = {"temperature": 0, "max_new_tokens": 1}
    right = [{"input_ids": ALL_IDS[:n], "sampling_params": sampling, "return_hidden_states": True} for n in lengths]
    return {
        "samples": len(lengths),
        "samples_unlike_an_independent_reading": wrong,
        "asked_as_the_engine_wants": all(asked.count(body) == 2 * right.count(body) for body in right)
        and len(asked) == 2 * len(lengths),
        "traps": {f"{trap.name} ({role})": refused(trap, role, folder) for trap in TRAPS for role in ("last", "aux")},
    }


def _f32(row: Sequence[float]) -> list[float]:
    """Numbers as a float32 holds them, by the standard library alone."""
    return list(struct.unpack(f"{len(row)}f", struct.pack(f"{len(row)}f", *row)))


def refused(trap: Any, role: str, folder: Path) -> bool:
    """Whether an answer that must not be believed was refused."""
    with servers(**{role: lambda body: trap.answer(role, body)}) as pair:  # type: ignore[arg-type]
        backend = pair.opened(folder)
        try:
            backend.states([array("q", ALL_IDS[: trap.n_ids])])
        except ProviderError:
            return True
    return False


def report(n: int, vocab_size: int) -> dict[str, Any]:
    """All figures; `holds` says whether every claim does."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        told: dict[str, Any] = {"limit": LIMIT, "transformers": {}, "logits_as_trainers_rebuild_them": {}}
        for architecture in ARCHITECTURES:
            target = Target(folder / architecture, architecture, vocab_size)
            told["transformers"][architecture] = forward_report(target, vocab_size, n)
            work = folder / f"{architecture}-files"
            work.mkdir()
            told["logits_as_trainers_rebuild_them"][architecture] = layout_report(target, vocab_size, 4 * n, work)
        config = folder / "config"
        config.mkdir()
        told["sglang"] = sglang_report(config)
        loaded.cache_clear()
    return told | {"holds": holds(told)}


def holds(told: dict[str, Any]) -> bool:
    """Whether the figures say what is claimed."""
    forwards = told["transformers"].values()
    logits = told["logits_as_trainers_rebuild_them"].values()
    sglang = told["sglang"]
    return (
        all(off < LIMIT for one in forwards for off in one["max_abs_difference"].values())
        and all(one["sequences"] > 0 and one["wrong_shapes"] == 0 for one in forwards)
        and all(off < LIMIT for one in logits for off in one.values())
        and sglang["samples_unlike_an_independent_reading"] == 0
        and sglang["asked_as_the_engine_wants"]
        and all(sglang["traps"].values())
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures; 1 where a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8, help="of batch compositions, for each choice of layers")
    parser.add_argument("--vocab", type=int, default=N_IDS, help="ids of the tiny targets")
    typed = parser.parse_args(arguments)
    told = report(typed.rounds, typed.vocab)
    for architecture, one in told["transformers"].items():
        print(f"{architecture}: {one['sequences']} sequences, {one['tokens']} tokens, {one['max_abs_difference']}")
    for name, yes in told["sglang"]["traps"].items():
        print(f"{'refused' if yes else 'BELIEVED'}  {name}")
    print(json.dumps(told))
    return 0 if told["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
