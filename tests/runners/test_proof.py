"""Proof of states: what is not finite, and what is not the row that it should be."""

from array import array
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.errors import SetupError
from runners.backend_transformers import Loading, TransformersBackend
from runners.proof import TOLERANCES, chosen, demand_finite, spot
from runners.states import States
from runners.tiny import ARCHITECTURES, make_tiny


def made(dtype: torch.dtype = torch.float32, rows: int = 40) -> States:
    """Random states of three auxiliary layers and the last, 16 wide."""
    draw = torch.Generator().manual_seed(5)
    return States(
        torch.randn(rows, 3, 16, generator=draw).to(dtype), torch.randn(rows, 16, generator=draw).to(dtype), "post"
    )


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_value_that_is_not_finite_is_named(bad: float, dtype: torch.dtype) -> None:
    """One value of one row is enough, in any layer, and the message says where."""
    states = made(dtype)
    demand_finite("s", states)
    states.aux[17, 2, 5] = bad
    with pytest.raises(SetupError, match=r"sample 's': auxiliary layer 3 of 3, row 17 of 40 is not finite"):
        demand_finite("s", states)
    states = made(dtype)
    states.last[39, 0] = bad
    with pytest.raises(SetupError, match=r"sample 's': last state, row 39 of 40 is not finite"):
        demand_finite("s", states)


@pytest.mark.parametrize("dtype", sorted(TOLERANCES))
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_a_batch_changes_no_more_than_rounding(architecture: str, dtype: str, tmp_path: Path) -> None:
    """States of a padded batch are those of each sample alone, within the tolerance of the dtype."""
    backend = TransformersBackend(make_tiny(tmp_path, architecture, vocab_size=500), Loading(dtype=dtype))
    draw = torch.Generator().manual_seed(2)
    batch = [array("q", torch.randint(500, (n,), generator=draw).tolist()) for n in (3, 70, 31, 70, 12)]

    found = [
        spot("s", dtype, stored, backend.states([ids])[0])
        for ids, stored in zip(batch, backend.states(batch), strict=True)
    ]

    assert [s.holds for s in found] == [True] * 5
    assert max(s.worst for s in found) < TOLERANCES[dtype].row


@pytest.mark.parametrize("dtype", sorted(TOLERANCES))
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
@pytest.mark.parametrize("row", [0, 20, 39])
def test_one_wrong_row_of_one_layer_is_seen(dtype: str, layer: int, row: int) -> None:
    """A row that holds its neighbour's state is beyond what rounding and experts explain, in any dtype."""
    good = made()
    aux, last = good.aux.clone(), good.last.clone()
    rows = last if layer == 3 else aux[:, layer]
    rows[row] = rows[row - 1 if row else 1].clone()

    found = spot("s", dtype, replace(good, aux=aux, last=last), good)

    name = "last state" if layer == 3 else f"auxiliary layer {layer + 1} of 3"
    assert not found.holds
    assert found.where == f"{name}, row {row}"
    assert spot("s", dtype, good, good) == replace(found, worst=0.0, over=0.0, where="no row", holds=True)


@pytest.mark.parametrize(
    ("dtype", "away", "rows_off", "holds"),
    [
        ("fp32", 0.9e-4, 40, True),
        ("fp32", 1.1e-4, 1, False),
        ("bf16", 0.09, 40, True),
        ("bf16", 0.2, 1, False),  # one of 40 is more than one in a hundred
        ("bf16", 0.35, 1, False),
        ("fp16", 0.019, 40, True),
        ("fp16", 0.03, 40, False),
    ],
)
def test_the_tolerance_is_what_it_says(dtype: str, away: float, rows_off: int, holds: bool) -> None:
    """Rows moved by a known part of their length are judged by it."""
    good = made()
    moved = good.last.clone()
    moved[:rows_off] *= 1 + away

    found = spot("s", dtype, replace(good, last=moved), good)

    assert found.holds == holds
    assert found.worst == pytest.approx(away, rel=1e-3)
    assert found.over == (0 if holds else rows_off / 40)


@pytest.mark.parametrize(("away", "holds"), [(0.2, True), (0.35, False)])
def test_an_expert_chosen_otherwise_in_one_row_of_many_is_no_error(away: float, holds: bool) -> None:
    """One row in 200 may differ more than rounding, though not as much as another token's row would."""
    good = made(rows=200)
    moved = good.last.clone()
    moved[7] *= 1 + away

    assert spot("s", "bf16", replace(good, last=moved), good).holds == holds


def test_a_nan_is_beyond_every_tolerance() -> None:
    """Where a stored value is no number the sample does not hold, though NaN compares with nothing."""
    bad = made()
    bad.last[3, 3] = float("nan")

    found = spot("s", "bf16", bad, made())

    assert not found.holds
    assert found.where == "last state, row 3"


def test_states_of_another_shape_are_no_match() -> None:
    """A row too few, or the other norm, is told and not compared."""
    good = made()
    with pytest.raises(SetupError, match=r"stored as .*39, 3, 16.*, computed as .*40, 3, 16"):
        spot("s", "fp32", States(good.aux[1:], good.last[1:], "post"), good)
    with pytest.raises(SetupError, match="'pre'"):
        spot("s", "fp32", replace(good, last_norm="pre"), good)


def test_the_same_samples_are_chosen_again() -> None:
    """Spread over the run, in its order, and the same at every call; all of them where fewer are there."""
    ids = [f"a/{k}" for k in range(1000)]

    got = chosen(ids, 10)

    assert got == chosen(ids, 10)
    assert got == sorted(got, key=ids.index)
    assert len(set(got)) == 10
    assert ids.index(got[-1]) - ids.index(got[0]) > 500
    assert chosen(ids[:3], 10) == ids[:3]
