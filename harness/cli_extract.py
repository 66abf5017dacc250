"""`tokenproof extract`: ids of accepted samples in, hidden states of the target model out.

Part of the command: it may print. The work is in `runners`, imported inside the functions: no other command pays for
torch. Knows nothing of tensors.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from harness import report
from harness.cli_base import clean_ends, complain
from harness.errors import HarnessError, SetupError

if TYPE_CHECKING:
    from runners.extract import OverLong, Summary, Survey
    from runners.extract_job import Job
    from runners.manifests import Manifest
    from runners.states import Backend, LastNorm

SamplesPath = Annotated[Path, typer.Argument(metavar="SAMPLES", help="samples.parquet of a run: accepted answers.")]
ModelOption = Annotated[Path, typer.Option("--model", metavar="FOLDER", help="The target model, a local folder.")]
OutOption = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the shards go.")]
BackendOption = Annotated[str, typer.Option("--backend", metavar="NAME", help="transformers, or sglang.")]
LayersOption = Annotated[str, typer.Option("--layers", metavar="L", help="eagle3, or numbers such as 2,30,58.")]
NormOption = Annotated[
    str | None, typer.Option("--last-norm", metavar="N", help="The last state pre or post the final norm.")
]
DtypeOption = Annotated[str, typer.Option("--dtype", metavar="D", help="bf16, fp16 or fp32, of forward and states.")]
DeviceOption = Annotated[str, typer.Option("--device", metavar="D", help="cpu, cuda, cuda:1.")]
DeviceMapOption = Annotated[
    str | None, typer.Option("--device-map", metavar="M", help="auto: over all GPUs (needs accelerate).")
]
BatchOption = Annotated[int, typer.Option("--batch-tokens", metavar="N", min=1, help="Ids of one forward, padded.")]
LengthOption = Annotated[
    int | None, typer.Option("--max-length", metavar="N", min=1, help="Longest sample in ids; the model's positions.")
]
OverLongOption = Annotated[
    str, typer.Option("--over-long", metavar="P", help="Longer samples: drop, cut (first ids kept) or refuse.")
]
ShardOption = Annotated[float, typer.Option("--shard-mb", metavar="MB", min=0.001, help="Size target of a shard.")]
RevisionOption = Annotated[
    str | None, typer.Option("--revision", metavar="TEXT", help="Revision of the model, where its path does not tell.")
]
CodeOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let Python code in the model's folder run. Off unless typed.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="The summary as one JSON object.")]
CHOICES = {
    "--over-long": ("drop", "cut", "refuse"),
    "--last-norm": ("pre", "post"),
    "--backend": ("transformers",),
}


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed of the back end."""

    model: Path
    backend: str
    layers: str
    last_norm: str
    dtype: str
    device: str
    device_map: str | None
    batch_tokens: int
    revision: str | None
    trust_remote_code: bool


def extract(
    samples: SamplesPath,
    model: ModelOption,
    out: OutOption,
    backend: BackendOption = "transformers",
    layers: LayersOption = "eagle3",
    last_norm: NormOption = None,
    dtype: DtypeOption = "bf16",
    device: DeviceOption = "cpu",
    device_map: DeviceMapOption = None,
    batch_tokens: BatchOption = 8192,
    max_length: LengthOption = None,
    over_long: OverLongOption = "drop",
    shard_mb: ShardOption = 1024.0,
    revision: RevisionOption = None,
    trust_remote_code: CodeOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the hidden states that EAGLE-3 trains on: three auxiliary layers and the last one, for every id.

    Ids go in, never text. A shard is a safetensors file with a JSON manifest beside it, each written under a temporary
    name, synced and renamed; the same command takes up a run that was broken off, and computes nothing again that
    stands there whole. Layers are numbered as hidden_states of transformers: k is the output of the first k decoder
    layers.

    \b
    exit code 0  every sample's states stand in whole shards, or it was left out as the options say
              2  wrong call, unusable samples or model, a full disk: what is whole stays
            130  interrupted: what is whole stays

    \b
    examples:
      tokenproof extract samples.parquet --model ./Kimi-K2.5 --out states --device-map auto
      tokenproof extract samples.parquet --model ./tiny --out states --dtype fp32 --layers 2,4,5 --shard-mb 64
      tokenproof extract samples.parquet --model ./tiny --out states --max-length 8192 --over-long cut --json
    """
    with clean_ends():
        for option, value in (("--over-long", over_long), ("--last-norm", last_norm), ("--backend", backend)):
            if value is not None and value not in CHOICES[option]:
                raise SetupError(f"{option} {value!r} is none of {', '.join(CHOICES[option])}")
        typed = Typed(
            *(model, backend, layers, last_norm or "post", dtype, device, device_map, batch_tokens, revision),
            trust_remote_code,
        )
        try:
            summary = _extracted(_job(samples, out, max_length, over_long, shard_mb), typed)
        except SetupError:
            raise
        except HarnessError as error:
            raise SetupError(str(error)) from error
        print(json.dumps(asdict(summary)) if as_json else _told(summary, out))


def _job(samples: Path, out: Path, max_length: int | None, over_long: str, shard_mb: float) -> "Job":
    from runners.extract_job import Job

    return Job(samples, out, max_length, cast("OverLong", over_long), int(shard_mb * (1 << 20)))


def _extracted(job: "Job", typed: Typed) -> "Summary":
    from runners.extract_job import run_job

    with _opened(typed) as backend, _progress() as start:
        return run_job(job, backend, complain=complain, start=start)


@contextmanager
def _opened(typed: Typed) -> "Iterator[Backend]":
    from runners.backend_transformers import Loading, TransformersBackend

    how = Loading(
        typed.layers,
        cast("LastNorm", typed.last_norm),
        typed.dtype,
        typed.device,
        typed.device_map,
        typed.batch_tokens,
        typed.revision,
        typed.trust_remote_code,
    )
    backend = TransformersBackend(typed.model, how)
    try:
        yield backend
    finally:
        backend.close()


@contextmanager
def _progress() -> "Iterator[Callable[[Survey], Callable[[Manifest], Any]]]":
    bars: list[report.Throughput] = []

    def start(survey: "Survey") -> "Callable[[Manifest], Any]":
        bar = report.Throughput(survey.tokens, sys.stderr.isatty(), complain)
        bars.append(bar)
        return lambda manifest: bar(manifest.n_tokens, manifest.written.n_bytes)

    try:
        yield start
    finally:
        for bar in bars:
            bar.close()


def _told(summary: "Summary", out: Path) -> str:
    parts = [
        f"{summary.samples} samples, {summary.tokens:,} tokens, {summary.shards} shards, {summary.n_bytes:,} bytes"
    ]
    parts += [f"{summary.done_before} stood there already"] if summary.done_before else []
    parts += [f"{summary.over_long} over-long"] if summary.over_long else []
    parts += [f"{summary.set_aside} set aside"] if summary.set_aside else []
    return report.printable(f"{out}: {', '.join(parts)}")
