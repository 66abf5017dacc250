"""Hidden states from running SGLang servers: one that gives the last state, one that gives the auxiliary ones.

A server gives either, never both: with `--enable-return-aux-hidden-states` the auxiliary rows replace the last one.
Teacher forcing: all ids go in as the prompt, one token is sampled and thrown away. What can silently be wrong - rows of
cached tokens missing, only the last chunk's rows, layers numbered otherwise - is asked of the server at the start and
counted in every answer. An engine in this process is not built: a server gives the same states and can be tested.
"""

from array import array
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import ProviderError, SetupError
from runners.engine_http import Server
from runners.engines import Json, Told, identify, server_info
from runners.model_folder import read_model_folder, weights_sha256
from runners.sglang_layers import depth_told, layer_ids_for, layers_taken, style_of
from runners.states import Facts, States, choose_layers
from runners.tensors import Tensor, matrix

Role = Literal["last", "aux"]
NUMBER_BYTES = 40  # of one number in JSON, at most, comma and brackets included
PROVEN = "of every sample: prompt_tokens is T, cached_tokens 0, one element of T rows"
OFF = frozenset({None, -1, 0})  # what a chunk size says where prompts are never cut

WANTED: Mapping[Role, Mapping[str, tuple[Any, str]]] = {
    "last": {
        "disable_radix_cache": (True, "--disable-radix-cache"),
        "enable_return_hidden_states": (True, "--enable-return-hidden-states"),
        "enable_return_aux_hidden_states": (False, "no --enable-return-aux-hidden-states: it replaces the last state"),
    },
    "aux": {
        "disable_radix_cache": (True, "--disable-radix-cache"),
        "enable_return_aux_hidden_states": (True, "--enable-return-aux-hidden-states"),
        "speculative_algorithm": ("EAGLE3", "--speculative-algorithm EAGLE3"),
    },
}
"""Flag -> what it must be, where the server tells it, and how it is typed."""
SAME = ("model_path", "revision", "dtype", "quantization", "kv_cache_dtype")
"""What two servers of one model tell alike."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How servers are asked.

    Attributes:
        layers: As `--layers` takes them, by value.
        aux_layer_ids: What the auxiliary server was started with, `default` or numbers; None where it tells it itself.
        dtype: In which the states are kept; the forward is the server's.
        concurrency: Samples under way at a time.
    """

    last_url: str
    aux_url: str
    layers: str = "eagle3"
    aux_layer_ids: str | None = None
    dtype: str = "bf16"
    concurrency: int = 8
    timeout_s: float = 600.0
    revision: str | None = None


class SGLangBackend:
    """Two servers of one model."""

    def __init__(self, folder: str | Path, how: Asking) -> None:
        """Ask both what they are.

        Args:
            folder: The model's folder: its configuration, and its weights for their hash where they lie there.

        Raises:
            SetupError: No server, one that was not started as it must be, or layers that it does not give.
        """
        self._how, about = how, read_model_folder(folder)
        n_layers = about.number("num_hidden_layers")
        aux = choose_layers(how.layers, n_layers)
        self._servers: dict[Role, Server] = {
            "last": Server(how.last_url, timeout_s=how.timeout_s),
            "aux": Server(how.aux_url, timeout_s=how.timeout_s),
        }
        if self._servers["last"].url == self._servers["aux"].url:
            raise SetupError(
                "--last-url and --aux-url are one server; its auxiliary rows replace the last state: start two"
            )
        told = {role: identify(server, "sglang", None) for role, server in self._servers.items()}
        info = {role: server_info(server, "sglang") for role, server in self._servers.items()}
        for role in told:
            _check_flags(self._servers[role].url, role, info[role])
        _check_same(told, info)
        depth = {role: depth_told(self._servers[role].url, info[role], about) for role in info}
        ids = _layer_ids(info["aux"], how.aux_layer_ids)
        _check_layers(about.architecture, ids, aux, n_layers)
        self._chunks = {role: info[role].get("chunked_prefill_size") for role in info}
        self._width: dict[Role, int] = {}
        self._facts = Facts(
            backend="sglang",
            version=told["last"].version,
            model=about.name,
            revision=how.revision or about.revision,
            architecture=about.architecture,
            config_sha256=about.config_sha256,
            weights_sha256=weights_sha256(about.path),
            n_layers=n_layers,
            hidden_size=about.number("hidden_size"),
            vocab_size=about.number("vocab_size"),
            max_length=_longest(about.max_length, info),
            dtype=how.dtype,
            aux_layers=aux,
            last_norm="post",
            told=_noted(about.architecture, ids, told) | {"n_layers": depth},
        )

    @property
    def facts(self) -> Facts:
        """What it is."""
        return self._facts

    def states(self, batch: "Sequence[array[int]]") -> list[States]:
        """The states of each sequence, in the order of the batch.

        Raises:
            SetupError: A prompt longer than a server's chunks.
            ProviderError: An answer without a row for every id.
        """
        for ids in batch:
            self._check_chunk(len(ids))
        with ThreadPoolExecutor(self._how.concurrency) as pool:
            last = pool.map(lambda ids: self._rows("last", ids), batch)
            aux = pool.map(lambda ids: self._rows("aux", ids), batch)
            return [States(a, b[:, 0], "post") for a, b in zip(aux, last, strict=True)]

    def close(self) -> None:
        """Close the connections."""
        for server in self._servers.values():
            server.close()

    def _check_chunk(self, n_ids: int) -> None:
        for role, chunk in self._chunks.items():
            if chunk not in OFF and isinstance(chunk, int) and chunk < n_ids:
                raise SetupError(
                    f"{self._servers[role].url} prefills {chunk} ids at a time and would give the rows of the last "
                    f"chunk alone for {n_ids} ids; start it with --chunked-prefill-size -1, or lower --max-length"
                )

    def _rows(self, role: Role, ids: "array[int]") -> Tensor:
        """The rows of one sample, shape (T, layers, H)."""
        facts = self._facts
        n_layers = len(facts.aux_layers) if role == "aux" else 1
        width = n_layers * facts.hidden_size
        server = self._servers[role]
        body = {
            "input_ids": list(ids),
            "sampling_params": {"temperature": 0, "max_new_tokens": 1},
            "return_hidden_states": True,
        }
        answer = server.post("/generate", body, max_bytes=(1 << 20) + len(ids) * width * NUMBER_BYTES)
        rows = hidden_rows(answer, len(ids), width, f"{server.url}/generate ({role})")
        try:
            return matrix(rows, facts.dtype).reshape(len(ids), n_layers, facts.hidden_size)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ProviderError(
                f"{server.url}/generate ({role}): states that are no numbers: {error!s:.100}"
            ) from error


def hidden_rows(answer: Any, n_ids: int, width: int, where: str) -> list[list[float]]:
    """The rows of an answer, one an id.

    Raises:
        ProviderError: Not `n_ids` rows of `width` numbers, or of another prompt; says which trap it is, where known.
    """
    meta = answer.get("meta_info") if isinstance(answer, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("hidden_states"), list):
        raise ProviderError(f"{where}: no meta_info.hidden_states; start the server with --enable-return-hidden-states")
    states = meta["hidden_states"]
    if meta.get("prompt_tokens") != n_ids:
        raise ProviderError(f"{where}: it read {meta.get('prompt_tokens')!r:.40} ids, {n_ids} were sent")
    if cached := meta.get("cached_tokens"):
        raise ProviderError(
            f"{where}: {cached!r:.40} of {n_ids} ids came from its cache, and their rows are missing; start it with "
            "--disable-radix-cache"
        )
    if len(states) != 1 or not isinstance(states[0], list):
        raise ProviderError(f"{where}: {len(states)} elements of states; expected one, the prompt's, for one new token")
    rows: list[list[float]] = states[0]
    if len(rows) != n_ids:
        raise ProviderError(
            f"{where}: {len(rows)} rows for {n_ids} ids; those of cached ids and all chunks but the last are missing: "
            "start it with --disable-radix-cache --chunked-prefill-size -1"
        )
    odd = next((k for k, row in enumerate(rows) if not isinstance(row, list) or len(row) != width), None)
    if odd is not None:
        has = len(rows[odd]) if isinstance(rows[odd], list) else type(rows[odd]).__name__
        raise ProviderError(f"{where}: row {odd} has {has} numbers; expected {width}")
    return rows


def _check_flags(url: str, role: Role, info: Json) -> None:
    for flag, (wanted, typed) in WANTED[role].items():
        if flag in info and info[flag] != wanted and not (wanted is False and info[flag] is None):
            raise SetupError(f"{url} ({role}) says {flag} = {info[flag]!r:.60}; start it with {typed}")


def _check_same(told: Mapping[Role, Told], info: Mapping[Role, Json]) -> None:
    pairs: list[tuple[str, Any, Any]] = [("version", told["last"].version, told["aux"].version)]
    pairs += [(key, info["last"].get(key), info["aux"].get(key)) for key in SAME]
    for key, last, aux in pairs:
        if last != aux:
            raise SetupError(f"two servers that are not one model: {key} is {last!r:.80} (last) and {aux!r:.80} (aux)")


def _longest(positions: int | None, info: Mapping[Role, Json]) -> int | None:
    """The shortest of what the model and both servers take; one id is left for the token that is sampled."""
    told = [one.get("context_length") for one in info.values()]
    limits = [n - 1 for n in told if type(n) is int and n > 1] + ([positions] if positions else [])
    return min(limits, default=None)


def _layer_ids(info: Json, typed: str | None) -> tuple[int, ...] | None:
    """What the auxiliary server was started with; None for its default.

    Raises:
        SetupError: Nobody says, or it says otherwise than was typed.
    """
    key = "return_aux_hidden_state_layer_ids"
    try:
        said = None if typed in (None, "default") else tuple(int(part) for part in str(typed).split(","))
    except ValueError:
        raise SetupError(f"--aux-layer-ids {typed!r} is neither `default` nor numbers such as 1,29,57") from None
    if key not in info:
        if typed is None:
            raise SetupError(
                f"the auxiliary server does not tell its layers ({key}); say with --aux-layer-ids what it was started "
                "with: `default`, or the numbers"
            )
        return said
    ids = info[key]
    if ids is not None and not (isinstance(ids, list) and all(type(i) is int for i in ids)):
        raise SetupError(f"the auxiliary server says {key} = {ids!r:.80}; expected numbers or null")
    found = tuple(ids) if ids else None
    if typed is not None and found != said:
        raise SetupError(f"--aux-layer-ids {typed}, but the server says {key} = {ids!r:.80}")
    return found


def _check_layers(architecture: str, ids: tuple[int, ...] | None, aux: tuple[int, ...], n_layers: int) -> None:
    taken = layers_taken(style_of(architecture) if ids else None, ids, n_layers)
    if taken != aux:
        raise SetupError(
            f"the auxiliary server gives layers {taken}, --layers asks for {aux} (k: output of the first k decoder "
            f"layers); start it with {layer_ids_for(style_of(architecture), aux, n_layers)}"
        )


def _noted(architecture: str, ids: tuple[int, ...] | None, told: Mapping[Role, Told]) -> dict[str, Any]:
    return {
        "aux_layer_ids": list(ids) if ids else "default",
        "layer_style": style_of(architecture).text
        if ids
        else "the default of every style: input of layers 2, L//2, L-3",
        "flags": {role: dict(one.flags) for role, one in told.items()},
        "proven": PROVEN,
    }
