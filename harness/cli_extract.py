"""`tokenproof extract`: ids of accepted samples in, hidden states of the target model out.

Part of the command: it may print. The work is in `runners`, imported inside the functions: no other command pays for
torch. Knows nothing of tensors.
"""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from harness import report
from harness.cli_backends import BACKENDS, Typed, demand_call, demand_extra, facts_typed
from harness.cli_base import RayOption, clean_ends, complain, finite
from harness.cli_proving import (
    Agreeing,
    AgreementOption,
    MinAgreementOption,
    PlanOption,
    RateOption,
    SpotOption,
    examiner_typed,
    print_plan,
    print_spots,
    spots_told,
)
from harness.errors import HarnessError, SetupError

if TYPE_CHECKING:
    from runners.extract import OverLong, Summary
    from runners.extract_job import Job
    from runners.extract_plan import Survey
    from runners.manifests import Manifest
    from runners.spot_check import SpotChecked

SamplesPath = Annotated[Path, typer.Argument(metavar="SAMPLES", help="samples.parquet of a run: accepted answers.")]
ModelOption = Annotated[Path, typer.Option("--model", metavar="FOLDER", help="The target model, a local folder.")]
OutOption = Annotated[
    str, typer.Option("--out", metavar="FOLDER", help="Where the shards go; with --ray also a URI, s3://... say.")
]
BackendOption = Annotated[str, typer.Option("--backend", metavar="NAME", help="transformers, or sglang.")]
LastUrlOption = Annotated[
    str | None, typer.Option("--last-url", metavar="URL", help="SGLang server that gives last states.")
]
AuxUrlOption = Annotated[
    str | None, typer.Option("--aux-url", metavar="URL", help="SGLang server that gives auxiliary states.")
]
IdsOption = Annotated[
    str | None,
    typer.Option(
        "--aux-layer-ids", metavar="IDS", help="`default`, or what that server was started with, if it does not tell."
    ),
]
AtOnceOption = Annotated[int, typer.Option("--concurrency", metavar="N", min=1, help="Samples at SGLang at a time.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="S", min=0.1, help="Seconds for one answer of it.", callback=finite)
]
LayersOption = Annotated[str, typer.Option("--layers", metavar="L", help="eagle3, or numbers such as 2,30,58.")]
NormOption = Annotated[
    str | None, typer.Option("--last-norm", metavar="N", help="The last state pre or post the final norm.")
]
DtypeOption = Annotated[str, typer.Option("--dtype", metavar="D", help="bf16, fp16 or fp32, of forward and states.")]
DeviceOption = Annotated[str, typer.Option("--device", metavar="D", help="auto, cpu, cuda, cuda:1.")]
DeviceMapOption = Annotated[str | None, typer.Option("--device-map", metavar="M", help="auto: over all GPUs.")]
BatchOption = Annotated[int, typer.Option("--batch-tokens", metavar="N", min=1, help="Ids of one forward, padded.")]
LengthOption = Annotated[
    int | None, typer.Option("--max-length", metavar="N", min=1, help="Longest sample in ids; the model's positions.")
]
OverLongOption = Annotated[
    str, typer.Option("--over-long", metavar="P", help="Longer samples: drop, cut (first ids kept) or refuse.")
]
ShardOption = Annotated[
    float, typer.Option("--shard-mb", metavar="MB", min=0.001, help="Size target of a shard.", callback=finite)
]
LayoutOption = Annotated[
    str, typer.Option("--layout", metavar="L", help="native shards, or the files of specforge or speculators.")
]
RevisionOption = Annotated[
    str | None, typer.Option("--revision", metavar="TEXT", help="Revision of the model, where its path does not tell.")
]
CodeOption = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let Python code in the model's folder run. Off unless typed.")
]
WorkersOption = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="With --ray: models at a time.")]
GpusOption = Annotated[
    float, typer.Option("--worker-gpus", metavar="G", min=0.0, help="With --ray: GPUs of each.", callback=finite)
]
JsonOption = Annotated[bool, typer.Option("--json", help="The summary as one JSON object.")]


CHOICES = {
    "over_long": ("drop", "cut", "refuse"),
    "last_norm": ("pre", "post", None),
    "backend": ("transformers", "sglang"),
    "layout": ("native", "specforge", "speculators"),
}


def extract(
    samples: SamplesPath, model: ModelOption, out: OutOption,
    backend: BackendOption = "transformers", last_url: LastUrlOption = None, aux_url: AuxUrlOption = None,
    aux_layer_ids: IdsOption = None, concurrency: AtOnceOption = 8, timeout: TimeoutOption = 600.0,
    layers: LayersOption = "eagle3", last_norm: NormOption = None, dtype: DtypeOption = "bf16",
    device: DeviceOption = "auto", device_map: DeviceMapOption = None, batch_tokens: BatchOption = 8192,
    max_length: LengthOption = None, over_long: OverLongOption = "drop", shard_mb: ShardOption = 1024.0,
    layout: LayoutOption = "native", revision: RevisionOption = None, trust_remote_code: CodeOption = False,
    agreement: AgreementOption = True, min_agreement: MinAgreementOption = None, spot_check: SpotOption = 0,
    plan: PlanOption = False, rate: RateOption = None, ray: RayOption = None, workers: WorkersOption = 1,
    worker_gpus: GpusOption = 0.0, as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Keep the hidden states that EAGLE-3 trains on: three auxiliary layers and the last one, for every id.

    Ids go in, never text. A shard is a safetensors file with a JSON manifest beside it, each written under a temporary
    name, synced and renamed; the same command takes up a run that was broken off, and computes nothing again that
    stands there whole, with the ids that it has in SAMPLES now; contents.jsonl says what must stand there. Layers are
    numbered as hidden_states of transformers: k is the output of the first k decoder layers.

    --backend sglang asks two running servers of one model, each started with --disable-radix-cache and
    --chunked-prefill-size -1: one with --enable-return-hidden-states, one with --enable-return-aux-hidden-states
    --speculative-algorithm EAGLE3. It gives the last state after the final norm. States come as JSON, about 0.5 MB a
    token for the four layers of K2.5: for large targets run transformers where the GPUs are.

    --layout specforge writes rows_0-2000/data_0.ckpt and so on, --layout speculators a data set with
    hidden_states/hs_0.safetensors and so on, as their trainers read them; the first needs the last state after the
    final norm, the second before it (which SGLang does not give). Manifests beside the files prove them.

    Every sample gets its agreement with the model: the share of its unmasked ids that are the model's argmax, and their
    mean log-probability, from the states and the checkpoint's lm_head; null where that cannot be had. A provider that
    served another model shows up as a drop. States that are not finite are never written.

    --ray computes on the machines of a cluster, --workers models at a time. All of them must see SAMPLES' model at the
    same path and be able to write to --out. A worker that dies is replaced, and its shards are computed again. One
    run at a time: in a folder elsewhere a file .lock says so, which a killed run leaves behind.

    \b
    exit code 0  every sample's states stand in whole shards, or it was left out as the options say
              1  --spot-check found states that differ (their shards are kept as *.broken and count no more), samples
                 stand there that SAMPLES has no more, or --plan does not fit on the disk
              2  wrong call, unusable samples or model, a full disk: what is whole stays
            130  interrupted: what is whole stays

    \b
    examples:
      tokenproof extract samples.parquet --model ./Kimi-K2.5 --out states --device-map auto
      tokenproof extract samples.parquet --model ./tiny --out states --dtype fp32 --layers 2,4,5 --shard-mb 64
      tokenproof extract samples.parquet --model ./tiny --out states --max-length 8192 --over-long cut --json
      tokenproof extract samples.parquet --model ./tiny --out features --layout speculators
      tokenproof extract samples.parquet --model ./Kimi-K2.5 --out states --plan --rate 20000
      tokenproof extract samples.parquet --model ./tiny --out states --min-agreement 0.8 --spot-check 20
      tokenproof extract samples.parquet --model /models/K2.5 --out s3://b/states --ray auto --workers 4 --worker-gpus 8
      tokenproof extract samples.parquet --model ./tiny --out states --backend sglang \
        --last-url http://127.0.0.1:30000 --aux-url http://127.0.0.1:30001
    """
    with clean_ends():
        typed = Typed(
            samples, model, Path(out), out, backend, last_url, aux_url, aux_layer_ids, concurrency, timeout, layers,
            last_norm, dtype, device, device_map, batch_tokens, max_length, over_long, shard_mb, layout, revision,
            trust_remote_code, agreement, min_agreement, spot_check, plan, rate, ray, workers, worker_gpus,
            as_json,
        )  # fmt: skip
        for option, choices in CHOICES.items():
            if (value := getattr(typed, option)) not in choices:
                name, known = option.replace("_", "-"), ", ".join(filter(None, choices))
                raise SetupError(f"--{name} {value!r} is none of {known}")
        demand_extra(backend, layout)
        demand_call(typed)
        if plan:
            raise typer.Exit(print_plan(_job(typed), facts_typed(typed), rate, as_json))
        try:
            done = _extracted(typed)
        except SetupError:
            raise
        except HarnessError as error:
            raise SetupError(f"{error}; what is whole stays: give the same command again") from error
        raise typer.Exit(_print_done(done, typed))


@dataclass(frozen=True, slots=True)
class Done:
    """What a run did, and what was proven of it."""

    summary: "Summary"
    agreeing: Agreeing
    checked: "SpotChecked"


def _job(typed: Typed) -> "Job":
    from runners.extract_job import Job

    over_long = cast("OverLong", typed.over_long)
    return Job(typed.samples, typed.out, typed.max_length, over_long, int(typed.shard_mb * (1 << 20)), typed.layout)


def _extracted(typed: Typed) -> Done:
    from runners.extract_job import run_job
    from runners.preflight import refuse_early
    from runners.spot_check import SpotChecked, spot_check

    agreeing = Agreeing()
    if typed.ray:
        with _progress(agreeing) as start:
            return Done(_on_cluster(typed, start), agreeing, SpotChecked())
    refuse_early(_job(typed), facts_typed(typed))
    with closing(BACKENDS[typed.backend](typed)) as backend:
        examiner = examiner_typed(typed, backend)
        with _progress(agreeing) as start:
            summary = run_job(_job(typed), backend, examiner=examiner, complain=complain, start=start)
        n = typed.spot_check
        return Done(summary, agreeing, spot_check(typed.out, backend, n, complain) if n else SpotChecked())


def _on_cluster(typed: Typed, start: "Callable[[Survey], Callable[[Manifest], Any]]") -> "Summary":
    from runners.scale import Cluster
    from runners.scale_extract import run_on_cluster

    cluster = Cluster(typed.ray or "", typed.workers, gpus=typed.worker_gpus)
    make = (partial(BACKENDS[typed.backend], typed), partial(examiner_typed, typed))
    return run_on_cluster(_job(typed), typed.uri, cluster, *make, complain=complain, start=start)


def _print_done(done: Done, typed: Typed) -> int:
    if typed.as_json:
        told = {"agreement": done.agreeing.told, "spot_check": spots_told(done.checked)}
        print(json.dumps(asdict(done.summary) | told))
    else:
        print(_told(done.summary, typed.uri, str(done.agreeing)))
        if done.checked.spots:
            print_spots(done.checked.spots, typed.dtype)
    wrong = done.summary.vanished or done.checked.set_apart
    return report.EXIT_REJECTED if wrong else 0


@contextmanager
def _progress(agreeing: Agreeing) -> "Iterator[Callable[[Survey], Callable[[Manifest], Any]]]":
    bars: list[report.Throughput] = []

    def start(survey: "Survey") -> "Callable[[Manifest], Any]":
        bar = report.Throughput(survey.tokens, sys.stderr.isatty(), complain)
        bars.append(bar)

        def tick(manifest: "Manifest") -> None:
            agreeing.add(manifest)
            bar(manifest.n_tokens, manifest.n_bytes)

        return tick

    try:
        yield start
    finally:
        for bar in bars:
            bar.close()


def _told(summary: "Summary", out: str, agreement: str) -> str:
    parts = [
        f"{summary.samples} samples, {summary.tokens:,} tokens, {summary.shards} shards, {summary.n_bytes:,} bytes"
    ]
    parts += [f"{summary.done_before} stood there already"] if summary.done_before else []
    parts += [f"{summary.changed} of other ids or another mask than before"] if summary.changed else []
    parts += [f"{summary.vanished} that the samples file has no more"] if summary.vanished else []
    parts += [f"{summary.over_long} over-long, {summary.dropped} of them left out"] if summary.over_long else []
    parts += [f"{summary.set_aside} set aside"] if summary.set_aside else []
    parts += [agreement] if agreement else []
    return report.printable(f"{out}: {', '.join(parts)}")
