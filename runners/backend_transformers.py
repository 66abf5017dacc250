"""Hidden states of any causal language model in a local folder, by transformers; and random models for tests.

The owner of transformers. Nothing is downloaded: a model is a folder. Knows nothing of samples and shards.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging

from harness.errors import SetupError
from runners import tensors
from runners.model_folder import ModelFolder, code_told, demand_fixed_rope, read_model_folder, weights_sha256
from runners.states import Facts, LastNorm, States, choose_layers
from runners.tensors import Tensor

PROBE = array("q", range(1, 8))  # any ids will do


@dataclass(frozen=True, slots=True)
class Loading:
    """How a model is loaded and asked.

    Attributes:
        layers: As `--layers` takes them.
        dtype: fp32, bf16 or fp16: of the weights, the forward and the states.
        device: Such as `cpu`, `cuda`, `cuda:1`; `auto` for a GPU where there is one; passed over with a device map.
        device_map: As accelerate takes it, `auto` for all GPUs; None for one device.
        batch_tokens: The most ids of one forward, padding counted; a longer sample goes alone.
        revision: What to note as the revision where the folder's path does not tell.
        trust_remote_code: Whether code in the folder may run.
    """

    layers: str = "eagle3"
    last_norm: LastNorm = "post"
    dtype: str = "bf16"
    device: str = "auto"
    device_map: str | None = None
    batch_tokens: int = 8192
    revision: str | None = None
    trust_remote_code: bool = False


class TransformersBackend:
    """A model in this process. Hooks on its decoder layers keep the states; lm_head never runs."""

    def __init__(self, folder: str | Path, how: Loading) -> None:
        """Load, and prove on a few ids that the hooks give what `output_hidden_states` gives.

        Raises:
            SetupError: No model, no such layers, or one whose layers are not where they should be.
        """
        self._how, about = how, read_model_folder(folder)
        n_layers = about.number("num_hidden_layers")
        self._aux = choose_layers(how.layers, n_layers)
        self._code = code_told(about, trusted=how.trust_remote_code)
        self._model = _load(about, how)
        self._decoder = _decoder(self._model)
        demand_fixed_rope(self._decoder.config.to_dict())
        self._device = self._model.get_input_embeddings().weight.device
        self._seen: dict[int, Tensor] = {}
        layers = _decoder_layers(self._decoder, n_layers)
        for k in {*self._aux, n_layers}:
            layers[k - 1].register_forward_hook(self._keep(k))
        self._n_layers = n_layers
        with self._supported():
            self._prove()
        self._facts = self._told(about)

    @property
    def device(self) -> str:
        """Where ids go in: a head that is to be near stands there."""
        return str(self._device)

    @property
    def facts(self) -> Facts:
        """What it is."""
        return self._facts

    def states(self, batch: "Sequence[array[int]]") -> list[States]:
        """The states of each sequence, in the order of the batch, whatever is computed together."""
        found: dict[int, States] = {}
        with self._supported():
            for rows in buckets([len(ids) for ids in batch], self._how.batch_tokens):
                found.update(zip(rows, self._forward([batch[row] for row in rows]), strict=True))
            tensors.settle()
        return [found[row] for row in range(len(batch))]

    def close(self) -> None:
        """Let the model go."""
        self._seen.clear()
        del self._model, self._decoder

    def _forward(self, batch: "Sequence[array[int]]") -> list[States]:
        """One padded forward; in halves where the device has no room for it."""
        try:
            aux, last = self._run(batch)
        except tensors.OutOfMemoryError as error:
            if len(batch) > 1:
                half = len(batch) // 2
                return self._forward(batch[:half]) + self._forward(batch[half:])
            raise SetupError(
                f"a sample of {len(batch[0])} ids does not fit on {self._device}: {error!s:.200}; lower --max-length"
            ) from error
        norm = self._how.last_norm
        return [States(aux[row, : len(ids)], last[row, : len(ids)], norm) for row, ids in enumerate(batch)]

    @contextmanager
    def _supported(self) -> Iterator[None]:
        """Whatever a forward raises is told, but for what we say ourselves."""
        try:
            yield
        except SetupError:
            raise
        except Exception as error:  # code of a library, or of the model's folder
            raise SetupError(
                f"the forward of {type(self._decoder).__name__} fails in transformers {transformers.__version__} "
                f"({type(error).__name__}: {error!s:.200}); this model is not supported"
            ) from error

    def _run(self, batch: "Sequence[array[int]]") -> tuple[Tensor, Tensor]:
        """(B, S, A, H) and (B, S, H) on the CPU, the copies perhaps under way."""
        ids, mask = tensors.padded(batch, self._device)
        with tensors.no_gradients():
            out = self._decoder(input_ids=ids, attention_mask=mask, use_cache=False)
            aux = tensors.host(tensors.stacked([self._seen[k] for k in self._aux]))
            pre = self._seen[self._n_layers]
            last = tensors.host(out.last_hidden_state if self._how.last_norm == "post" else pre)
        self._seen.clear()
        return aux, last

    def _keep(self, k: int) -> Callable[[Any, Any, Any], None]:
        def hook(_: Any, __: Any, out: Any) -> None:
            self._seen[k] = out[0] if isinstance(out, tuple) else out

        return hook

    def _prove(self) -> None:
        """The hooks against `output_hidden_states`, and the final norm between the last hook and the last state."""
        normed: list[tuple[Tensor, Tensor]] = []

        def note(_: Any, given: Any, out: Any) -> None:
            if given and hasattr(given[0], "shape") and hasattr(out, "shape"):
                normed.append((given[0], out))

        hooks = [child.register_forward_hook(note) for child in self._decoder.children()]
        ids, _ = tensors.padded([PROBE], self._device)
        with tensors.no_gradients():
            out = self._decoder(input_ids=ids, use_cache=False, output_hidden_states=True)
        for hook in hooks:
            hook.remove()
        listed, last, seen = out.hidden_states, out.last_hidden_state, dict(self._seen)
        self._seen.clear()
        where = f"{self._how.layers} of {type(self._decoder).__name__}"
        _demand_finite(where, [*(listed or ()), last])
        if listed is None or len(listed) != self._n_layers + 1 or not tensors.same(listed[-1], last):
            raise SetupError(f"{where}: its hidden_states do not end in its last state; this model is not supported")
        for k in self._aux:
            if not tensors.same(seen[k], listed[k]):
                raise SetupError(f"{where}: layer {k} is not hidden_states[{k}]; this model is not supported")
        if not any(tensors.same(pre, seen[self._n_layers]) and tensors.same(post, last) for pre, post in normed):
            raise SetupError(f"{where}: no final norm stands between its last layer and its last state")

    def _told(self, about: ModelFolder) -> Facts:
        how = self._how
        return Facts(
            backend="transformers",
            version=f"{transformers.__version__}, torch {tensors.VERSION}",
            model=about.name,
            revision=how.revision or about.revision,
            architecture=about.architecture,
            config_sha256=about.config_sha256,
            weights_sha256=weights_sha256(about.path),
            n_layers=self._n_layers,
            hidden_size=about.number("hidden_size"),
            vocab_size=about.number("vocab_size"),
            max_length=about.max_length,
            dtype=how.dtype,
            aux_layers=self._aux,
            last_norm=how.last_norm,
            told={"attention": str(self._decoder.config._attn_implementation), "device": self._device.type}
            | self._code,
        )


def _load(about: ModelFolder, how: Loading) -> Any:
    place: dict[str, Any] = {"device_map": how.device_map} if how.device_map else {}
    try:
        with _quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                about.path,
                dtype=tensors.dtype(how.dtype),
                local_files_only=True,
                trust_remote_code=how.trust_remote_code,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # told below by their names
                **place,
            )
        model, info = loaded
        _demand_whole(about, model, info)
        return (model if how.device_map else model.to(tensors.place(how.device))).eval()
    except SetupError:
        raise
    except Exception as error:  # code of a library, or of the model's folder: whatever it raises is told once
        raise SetupError(f"{about.path} cannot be loaded by transformers: {error!s:.400}") from error


def _demand_whole(about: ModelFolder, model: Any, info: Mapping[str, Any]) -> None:
    """What a checkpoint lacks, transformers fills at random; what it has beyond the configuration, it leaves out."""
    n_layers, n_ahead = about.number("num_hidden_layers"), about.config.get("num_nextn_predict_layers") or 0
    first = _decoder_layers(_decoder(model), n_layers)[0]
    layers = next(name for name, part in model.named_modules() if part is first).rpartition(".")[0]
    ahead = [f".{layers}.{k}." for k in range(n_layers, n_layers + n_ahead)]  # for drafting: no part of the states
    own = [key for key in info["unexpected_keys"] if f".{layers}." in f".{key}"]
    wrong = {
        "are missing": info["missing_keys"],
        "have another shape": [key[0] for key in info["mismatched_keys"]],
        "cannot be loaded": info["error_msgs"],
        "are of no layer of config.json": [key for key in own if not any(part in f".{key}" for part in ahead)],
    }
    for what, names in wrong.items():
        if names:
            some = ", ".join(sorted(map(str, names))[:3])
            raise SetupError(
                f"{about.path}: {len(names)} weights {what}: {some:.300}; expected a checkpoint that is whole and of "
                "this config.json; copy it again"
            )


def _demand_finite(where: str, states: Sequence[Tensor]) -> None:
    """A NaN is not even equal to itself, so that it would look like a model whose layers are elsewhere."""
    for k, state in enumerate(states):
        if not state.isfinite().all():
            raise SetupError(
                f"{where}: hidden_states[{k}] of a few ids is not finite: damaged weights, or a dtype that is too "
                "narrow (fp16 overflows where bf16 does not)"
            )


def _decoder(model: Any) -> Any:
    """The stack of layers without lm_head; of a model of several parts, that of its text."""
    for part in (model, getattr(model, "language_model", None)):
        if part is not None and callable(getattr(part, "get_decoder", None)):
            return part.get_decoder()
    raise SetupError(f"{type(model).__name__} does not tell its decoder (no get_decoder); this model is not supported")


def _decoder_layers(decoder: Any, n_layers: int) -> Sequence[Any]:
    """The list of decoder layers: the first list of modules that is as long as the configuration says."""
    lists = (m for m in decoder.modules() if type(m).__name__ == "ModuleList" and len(m) == n_layers)
    found: Sequence[Any] | None = next(lists, None)
    if found is None:
        raise SetupError(f"{type(decoder).__name__} has no list of {n_layers} decoder layers; not supported")
    return found


def buckets(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Which sequences are computed together: of like length, longest first, padded to at most `batch_tokens` ids."""
    rows: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda k: -lengths[k]):
        if rows and lengths[rows[0]] * (len(rows) + 1) > batch_tokens:
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def save_random(config: Mapping[str, Any], folder: Path, *, seed: int) -> None:
    """A model of this configuration with random weights, fp32, as a folder that loads like any other.

    Args:
        config: The values of a `config.json`; `model_type` says which architecture.
    """
    values = dict(config)
    made = AutoConfig.for_model(values.pop("model_type"), **values)
    with tensors.seeded(seed), _quiet():
        AutoModelForCausalLM.from_config(made, dtype=tensors.dtype("fp32")).save_pretrained(folder)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's own bars on stderr: the command has one of its own."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
