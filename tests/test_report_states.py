"""The report on hidden states, in small: the same trials, fewer of them; and that it can say no."""

import json
import math

import pytest
import torch

from tests.report_states import apart, holds, main


def test_hidden_states_hold_in_small(capsys: pytest.CaptureFixture[str]) -> None:
    """Both architectures, every composition, both trainers, every trap; the last line tells the figures."""
    assert main(["--rounds", "1", "--vocab", "300"]) == 0

    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["holds"] is True
    assert {*told["transformers"]} == {"llama", "deepseek_v3"}
    for one in told["transformers"].values():
        assert {*one["max_abs_difference"]} == {"alone", "unpadded", "padded", "by chance"}
        assert one["sequences"] >= 24
    assert len(told["sglang"]["traps"]) == 32


def test_what_cannot_be_compared_is_infinitely_apart() -> None:
    """NaN and another shape are no small difference."""
    one = torch.tensor([1.0, 2.0])
    assert apart(one, one + 0.5) == 0.5
    assert apart(one, torch.tensor([1.0, float("nan")])) == math.inf
    assert apart(one, torch.tensor([1.0])) == math.inf


GOOD = {
    "transformers": {"llama": {"sequences": 1, "wrong_shapes": 0, "max_abs_difference": {"padded": 9e-6}}},
    "logits_as_trainers_rebuild_them": {"llama": {"specforge": 9e-6}},
    "sglang": {"samples_unlike_an_independent_reading": 0, "asked_as_the_engine_wants": True, "traps": {"a": True}},
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("transformers", "llama", "max_abs_difference", "padded"), 1e-5),
        (("transformers", "llama", "max_abs_difference", "padded"), float("nan")),
        (("transformers", "llama", "sequences"), 0),
        (("transformers", "llama", "wrong_shapes"), 1),
        (("logits_as_trainers_rebuild_them", "llama", "specforge"), 2e-5),
        (("sglang", "samples_unlike_an_independent_reading"), 1),
        (("sglang", "asked_as_the_engine_wants"), False),
        (("sglang", "traps", "a"), False),
    ],
)
def test_any_figure_can_make_it_fail(path: tuple[str, ...], value: object) -> None:
    """A claim that holds in all but one place does not hold."""
    assert holds(GOOD)
    told = json.loads(json.dumps(GOOD))
    at = told
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert not holds(told)
