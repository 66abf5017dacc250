"""What was typed for `tokenproof extract`, and the back end that it names.

Part of the command. The work is in `runners`, imported inside the functions: no other command pays for torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from harness.errors import SetupError

if TYPE_CHECKING:
    from runners.states import Backend, LastNorm


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


def _transformers(typed: Typed) -> "Backend":
    from runners.backend_transformers import Loading, TransformersBackend

    how = Loading(
        typed.layers,
        cast("LastNorm", typed.last_norm or LAST_NORM[typed.layout]),
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

    if not typed.last_url or not typed.aux_url:
        raise SetupError("--backend sglang needs two running servers: --last-url and --aux-url")
    if typed.last_norm == "pre":
        raise SetupError("--last-norm pre: SGLang gives the last state after the final norm, which cannot be undone")
    how = Asking(
        typed.last_url,
        typed.aux_url,
        typed.layers,
        typed.aux_layer_ids,
        typed.dtype,
        typed.concurrency,
        typed.timeout,
        typed.revision,
    )
    return SGLangBackend(typed.model, how)


BACKENDS = {"transformers": _transformers, "sglang": _sglang}
