"""What was typed for `tokenproof extract`, and the back end that it names.

Part of the command. The work is in `runners`, imported inside the functions: no other command pays for torch.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from harness.errors import SetupError

if TYPE_CHECKING:
    from runners.states import Backend, Facts, LastNorm


LAST_NORM = {"native": "post", "specforge": "post", "speculators": "pre"}
"""What a layout needs, or what is kept where nothing is typed."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed, in the order of the options."""

    samples: Path
    model: Path
    out: Path
    uri: str
    backend: str
    last_url: str | None
    aux_url: str | None
    aux_layer_ids: str | None
    concurrency: int
    timeout: float
    layers: str
    last_norm: str | None
    dtype: str
    device: str
    device_map: str | None
    batch_tokens: int
    max_length: int | None
    over_long: str
    shard_mb: float
    layout: str
    revision: str | None
    trust_remote_code: bool
    agreement: bool
    min_agreement: float | None
    spot_check: int
    plan: bool
    rate: float | None
    ray: str | None
    workers: int
    worker_gpus: float
    as_json: bool


def last_norm(typed: Typed) -> "LastNorm":
    """Which last state is asked for: what was typed, or what the layout needs; a server gives one alone."""
    norm = "post" if typed.backend == "sglang" else typed.last_norm or LAST_NORM[typed.layout]
    return cast("LastNorm", norm)


def demand_extra(backend: str, layout: str) -> None:
    """The libraries that this run needs, before anything of it is imported.

    Raises:
        SetupError: One is not installed; says what to install.
    """
    needed = ["torch", "safetensors"]
    needed += ["transformers"] if backend == "transformers" else []
    needed += ["datasets"] if layout == "speculators" else []
    if missing := [name for name in needed if find_spec(name) is None]:
        raise SetupError(
            f"tokenproof extract needs {', '.join(missing)}, which the extra `extract` brings: "
            "pip install 'tokenproof[extract]', in a checkout pip install -e '.[extract]'"
        )


def demand_call(typed: Typed) -> None:
    """What contradicts itself in the options.

    Raises:
        SetupError: Something does.
    """
    if typed.min_agreement is not None and not typed.agreement:
        raise SetupError("--min-agreement and --no-agreement contradict each other")
    if typed.spot_check and typed.layout != "native":
        raise SetupError(f"--spot-check reads native shards, not --layout {typed.layout}; leave one of them out")
    if typed.spot_check and typed.ray:
        raise SetupError("--spot-check computes on this machine; leave --ray out to check what a cluster wrote")
    if not typed.ray and (typed.workers != 1 or typed.worker_gpus):
        raise SetupError("--workers and --worker-gpus are of a cluster: add --ray, or leave them out")
    if typed.backend != "sglang":
        return
    if not typed.last_url or not typed.aux_url:
        raise SetupError("--backend sglang needs two running servers: --last-url and --aux-url")
    if typed.last_norm == "pre":
        raise SetupError("--last-norm pre: SGLang gives the last state after the final norm, which cannot be undone")


def facts_typed(typed: Typed) -> "Facts":
    """What is known of the back end before there is one; see `preflight.facts_before`."""
    from runners.preflight import facts_before

    return facts_before(typed.model, typed.backend, typed.layers, typed.dtype, last_norm(typed), typed.revision)


def _transformers(typed: Typed) -> "Backend":
    from runners.backend_transformers import Loading, TransformersBackend

    how = Loading(
        typed.layers,
        last_norm(typed),
        typed.dtype,
        typed.device,
        typed.device_map,
        typed.batch_tokens,
        typed.revision,
        typed.trust_remote_code,
    )
    return TransformersBackend(typed.model, how)


def _sglang(typed: Typed) -> "Backend":
    from runners.backend_sglang import Asking, SGLangBackend

    how = Asking(
        typed.last_url or "",
        typed.aux_url or "",
        typed.layers,
        typed.aux_layer_ids,
        typed.dtype,
        typed.concurrency,
        typed.timeout,
        typed.revision,
    )
    return SGLangBackend(typed.model, how)


BACKENDS = {"transformers": _transformers, "sglang": _sglang}
