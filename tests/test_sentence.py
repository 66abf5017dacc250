"""The whole sentence: run file -> emulator -> ledger -> samples -> hidden states -> verified shards, the ids the same.

Each step is the command that a person types, in a process of its own; the emulator answers on a loopback socket.
"""

import json
import subprocess
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from runners.shard_reading import find_sample
from runners.tables import read_rows
from runners.tiny import make_tiny
from tests.bulk_kit import host, truth
from tests.conftest import ROOT
from tests.report_demo import RUN
from tests.served import Served

N = 6


def command(*args: str | Path) -> str:
    """stdout of `tokenproof ...`, which must end well."""
    typed = [sys.executable, "-m", "harness.cli", *map(str, args)]
    done = subprocess.run(typed, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ids_are_the_same_from_the_sampler_to_the_shard(tmp_path: Path) -> None:
    """What the emulator's model sampled is what the drafter will train on, and the states are those of these ids."""
    for name in ("chat", "code"):
        rows = ({"id": f"{name}-{k}", "prompt": f"Question {k} of {name}"} for k in range(N))
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Served(host()) as url:
        (tmp_path / "run.toml").write_text(RUN.replace("URL", url))
        command("generate", "--judges", "0", tmp_path / "run.toml", "--ungated", "a test")
    target = make_tiny(tmp_path / "target")
    states = tmp_path / "states"
    samples = tmp_path / "out" / "samples.parquet"

    told = json.loads(command("extract", samples, "--model", target, "--out", states, "--dtype", "fp32", "--json"))
    assert command("shards", "verify", states).endswith("12 samples: 0 shards bad, 0 faults between shards\n")

    assert (told["samples"], told["over_long"], told["set_aside"]) == (2 * N, 0, 0)
    rows_of = read_rows(samples, ("data_set", "id", "loss_mask"))
    masks = {(row["data_set"], row["id"]): row["loss_mask"] for row in rows_of}
    for name in ("chat", "code"):
        for k in range(N):
            true = truth({"messages": [{"role": "user", "content": f"Question {k} of {name}"}]})
            found = find_sample(states, f"{name}/{name}-{k}")
            assert list(found.ids) == [*(true.prompt_ids or ()), *true.ids]
            mask = masks[name, f"{name}-{k}"]
            assert list(found.loss_mask) == [0] * len(true.prompt_ids or ()) + mask
            assert sum(mask) >= 0.75 * len(true.ids)  # a quarter may be masked
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    with torch.inference_mode():
        listed = model(torch.tensor([list(found.ids)]), output_hidden_states=True).hidden_states
    last = torch.frombuffer(bytearray(found.column("hidden_states").pieces[0]), dtype=torch.float32)  # type: ignore[index]
    assert (last.reshape(-1, 32) - listed[-1][0]).abs().max() < 1e-5
