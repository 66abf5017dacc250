"""`python -m tests.gpu.bf16`: extraction in bf16 from a random Llama of 1.1 B parameters, against its bare forward.

Prints one JSON object: tokens/s of extraction, written to disk, and of the bare forward with lm_head over the same
batches, nothing written. Needs a GPU; `--device cpu --small` shows that it runs.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from runners import tensors
from runners.backend_transformers import Loading, TransformersBackend, buckets
from runners.extract_job import Job, run_job
from runners.shards import checked, manifests
from runners.tiny import make_tiny
from tests.runners.states_kit import sample, samples_file

LLAMA_1B: Mapping[str, Any] = {
    **{"vocab_size": 32_768, "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32},
    **{"num_key_value_heads": 8, "intermediate_size": 8192, "initializer_range": 0.02},
}
SMALL: Mapping[str, Any] = {"vocab_size": 500}


def measure(changes: Mapping[str, Any], device: str, n: int, batch_tokens: int) -> dict[str, Any]:
    """Tokens/s of both over n samples, and how many shards do not verify."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        how = Loading(dtype="bf16", device=device, batch_tokens=batch_tokens)
        backend = TransformersBackend(make_tiny(folder / "model", "llama", **changes), how)
        rng = random.Random(0)
        vocab = changes["vocab_size"]
        drawn = [[rng.randrange(vocab) for _ in range(rng.randrange(8, 1024))] for _ in range(n)]
        samples = [sample(f"s{k}", ids[:4], ids[4:]) for k, ids in enumerate(drawn)]
        file = samples_file(folder / "s.parquet", samples)
        batches = [[samples[row].ids for row in rows] for rows in buckets([len(ids) for ids in drawn], batch_tokens)]
        n_tokens = sum(map(len, drawn))
        _bare(backend, batches[:2])  # the first forwards choose kernels
        bare_s = _bare(backend, batches)
        start = time.perf_counter()
        summary = run_job(Job(file, folder / "out"), backend)
        extract_s = time.perf_counter() - start
        bad = sum(bool(found) for _, _, found in checked(manifests(folder / "out")))
        n_parameters = sum(p.numel() for p in backend._model.parameters())
    return {
        "parameters": n_parameters,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "tokens": n_tokens,
        "tokens_written": summary.tokens,
        "bad_shards": bad,
        "bare_tokens_per_s": round(n_tokens / bare_s),
        "extract_tokens_per_s": round(n_tokens / extract_s),
        "extract_over_bare": round(bare_s / extract_s, 3),
    }


def _bare(backend: TransformersBackend, batches: list[Any]) -> float:
    """Seconds of plain forwards, lm_head included."""
    tensors.settle()
    start = time.perf_counter()
    for batch in batches:
        ids, mask = tensors.padded(batch, backend._device)
        with tensors.no_gradients():
            backend._model(input_ids=ids, attention_mask=mask, use_cache=False)
    tensors.settle()
    return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--batch-tokens", type=int, default=16_384)
    parser.add_argument("--small", action="store_true", help="a model of a few thousand parameters")
    typed = parser.parse_args(arguments)
    if typed.device.startswith("cuda") and not torch.cuda.is_available():
        print(json.dumps({"skipped": "no GPU here"}))
        return 0
    told = measure(SMALL if typed.small else LLAMA_1B, typed.device, typed.samples, typed.batch_tokens)
    print(json.dumps(told))
    return 0 if told["bad_shards"] == 0 and told["tokens_written"] == told["tokens"] else 1


if __name__ == "__main__":
    sys.exit(main())
