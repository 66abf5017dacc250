"""Proof of states: that they are finite, and that a sample computed alone has the states that were stored.

Padding, batches, caches and chunks change nothing but rounding; what changes more than rounding is an error, and every
tolerance is stated. Knows nothing of files and back ends.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.errors import SetupError
from runners.states import States
from runners.tensors import Tensor


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a stored row may be from the same row computed alone: |stored - alone| / |alone|, Euclid's lengths.

    Attributes:
        row: What nearly every row keeps to.
        worst: What every row keeps to. Experts that are chosen otherwise by a rounding make single rows differ more
            than rounding does; a row of another token or layer lies farther off than this.
        over: The largest share of rows beyond `row`.
    """

    row: float
    worst: float
    over: float


TOLERANCES: Mapping[str, Tolerance] = {
    "fp32": Tolerance(1e-4, 1e-4, 0.0),
    "fp16": Tolerance(2e-2, 0.3, 0.01),
    "bf16": Tolerance(1e-1, 0.3, 0.01),
}
"""By dtype. Random models of 8 to 24 layers on a CPU were up to 6e-6, 9e-3 and 6e-2 off."""


@dataclass(frozen=True, slots=True)
class Spot:
    """One sample computed again.

    Attributes:
        worst: Largest distance of any row, see `Tolerance`.
        over: Share of rows beyond the tolerance's `row`.
        where: Layer and row of the worst, in words.
    """

    id: str
    worst: float
    over: float
    where: str
    holds: bool


def demand_finite(sample_id: str, states: States) -> None:
    """NaN and infinity poison a trainer's whole batch, so no shard may hold one.

    Raises:
        SetupError: There is one; names sample, layer and row.
    """
    for name, tensor in _layers(states):
        if not tensor.isfinite().all():
            row = int((~tensor.isfinite()).any(-1).nonzero()[0])
            raise SetupError(
                f"sample {sample_id!r}: {name}, row {row} of {len(tensor)} is not finite; nothing of its shard was "
                "written; try another dtype (fp16 overflows where bf16 does not), or look for damaged weights"
            )


def chosen(ids: Sequence[str], n: int) -> list[str]:
    """The n samples that a spot check takes: spread by hash, the same for the same ids."""
    return sorted(sorted(ids, key=lambda i: hashlib.sha256(i.encode()).digest())[:n], key=ids.index)


def spot(sample_id: str, dtype: str, stored: States, alone: States) -> Spot:
    """Compare stored states with those of the sample computed alone, layer by layer.

    Raises:
        SetupError: Their shapes or norms differ: nothing can be compared.
    """
    shapes = [(s.aux.shape, s.last.shape, s.last_norm) for s in (stored, alone)]
    if shapes[0] != shapes[1]:
        raise SetupError(f"sample {sample_id!r}: stored as {shapes[0]}, computed as {shapes[1]}")
    tolerance = TOLERANCES[dtype]
    worst, where, over = 0.0, "no row", 0.0
    for (name, a), (_, b) in zip(_layers(stored), _layers(alone), strict=True):
        length = b.double().norm(dim=-1)
        away = (a.double() - b.double()).norm(dim=-1) / length.clamp(min=1e-30)
        over = max(over, float((~(away <= tolerance.row)).double().mean()))  # a NaN is beyond every tolerance
        row = int(away.nan_to_num(nan=float("inf")).argmax())
        if not float(away[row]) <= worst:
            worst, where = float(away[row]), f"{name}, row {row}"
    return Spot(sample_id, worst, over, where, worst <= tolerance.worst and over <= tolerance.over)


def _layers(states: States) -> Iterator[tuple[str, Tensor]]:
    """(name, rows (T, H)) of each layer."""
    for k in range(states.aux.shape[1]):
        yield f"auxiliary layer {k + 1} of {states.aux.shape[1]}", states.aux[:, k]
    yield "last state", states.last
