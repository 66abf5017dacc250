"""What goes into a back end and comes out of it: ids in, hidden states out; and which layers.

Layers are numbered by value, as `hidden_states` of a transformers forward with `output_hidden_states` is: 0 is the
embeddings, k the output of the first k decoder layers. Every back end translates into this numbering. Knows nothing of
models and files.
"""

import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, Protocol

from harness.errors import SetupError

if TYPE_CHECKING:
    from runners.tensors import Tensor  # late: torch costs a second that `shards verify` need not wait for

LastNorm = Literal["pre", "post"]
"""Whether the last state is taken before or after the model's final norm."""
LAYER_MEANING = "k: output of the first k decoder layers, as hidden_states[k] of a transformers forward"
NORM_MEANING: Mapping[LastNorm, str] = {
    "pre": "before the final norm: apply it, then lm_head",
    "post": "after the final norm: apply lm_head directly",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: what the model read and sampled.

    Attributes:
        ids: prompt_ids + output_ids, int64, shape [T].
        loss_mask: A byte an id, shape [T], aligned with `ids`: 1 on an id that is trained on, 0 on the prompt.
        n_prompt: How many of the ids are the prompt.
    """

    id: str
    ids: "array[int]"
    loss_mask: bytes
    n_prompt: int

    @property
    def ids_sha256(self) -> str:
        """Of the ids as little-endian int64."""
        return hashlib.sha256(self.ids.tobytes()).hexdigest()

    @property
    def mask_sha256(self) -> str:
        """Of the mask, a byte an id."""
        return hashlib.sha256(self.loss_mask).hexdigest()


@dataclass(frozen=True, slots=True)
class States:
    """Hidden states of one sample, on the CPU, in the dtype of the run.

    Attributes:
        aux: Of the auxiliary layers in ascending order, shape (T, A, H); A is 3 for EAGLE-3.
        last: Of the last layer, shape (T, H).
        last_norm: Whether `last` stands before or after the final norm.
    """

    aux: "Tensor"
    last: "Tensor"
    last_norm: LastNorm


@dataclass(frozen=True, slots=True)
class Facts:
    """What a back end says of itself and its model, for the manifest.

    Attributes:
        backend, version: Such as `transformers` and its version with torch's.
        model, revision, config_sha256, weights_sha256: Which model; None where nobody could say.
        aux_layers: By value, see the module.
        n_layers, hidden_size, vocab_size: L, H and the number of ids that the model has.
        max_length: The longest sequence in ids that it takes; None where it names no limit.
        told: What else bears on the states: flags of a server, a device map.
    """

    backend: str
    version: str
    model: str
    revision: str | None
    architecture: str
    config_sha256: str
    weights_sha256: str | None
    n_layers: int
    hidden_size: int
    vocab_size: int
    max_length: int | None
    dtype: str
    aux_layers: tuple[int, ...]
    last_norm: LastNorm
    told: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """Ids in, states out."""

    @property
    def facts(self) -> Facts:
        """What it is."""

    def states(self, batch: "Sequence[array[int]]") -> list[States]:
        """The states of each sequence, in the order of the batch; T rows for T ids, or an error."""

    def close(self) -> None:
        """Give back what it holds."""


def eagle3_layers(n_layers: int) -> tuple[int, ...]:
    """The three auxiliary layers of EAGLE-3 for a target of this depth, as SGLang chooses them: 2, 30, 58 of 61."""
    return (2, n_layers // 2, n_layers - 3)


def choose_layers(text: str, n_layers: int) -> tuple[int, ...]:
    """The auxiliary layers that `--layers` names: `eagle3`, or numbers such as `2,30,58`.

    Raises:
        SetupError: No numbers, not ascending, or layers that the model has not.
    """
    try:
        layers = eagle3_layers(n_layers) if text == "eagle3" else tuple(int(part) for part in text.split(","))
    except ValueError:
        raise SetupError(f"--layers {text!r} is neither `eagle3` nor numbers such as 2,30,58") from None
    ascending = all(a < b for a, b in pairwise(layers))
    if not ascending or layers[0] < 1 or layers[-1] >= n_layers:
        raise SetupError(
            f"--layers {text}: auxiliary layers {', '.join(map(str, layers))} of a model with {n_layers}; expected "
            f"ascending numbers in 1..{n_layers - 1} ({LAYER_MEANING}); the last layer is kept without being named"
        )
    return layers
