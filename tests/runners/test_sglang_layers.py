"""SGLang's numbers of layers, as they were measured and read."""

import pytest

from harness.errors import SetupError
from runners.sglang_layers import DEEPSEEK, LLAMA, layer_ids_for, layers_taken, style_of


@pytest.mark.parametrize(
    ("architecture", "ids", "n_layers", "expected"),
    [
        pytest.param("LlamaForCausalLM", None, 8, (2, 4, 5), id="llama-default-measured"),
        pytest.param("LlamaForCausalLM", (1, 3, 5), 8, (2, 4, 6), id="llama-explicit-measured"),
        pytest.param("DeepseekV3ForCausalLM", None, 61, (2, 30, 58), id="deepseek-default"),
        pytest.param("KimiK25ForConditionalGeneration", (1, 29, 57), 61, (2, 30, 58), id="k2.5-first-is-1"),
        pytest.param("KimiK25ForConditionalGeneration", (2, 30, 58), 61, (2, 30, 58), id="k2.5-first-is-not-1"),
    ],
)
def test_layers_by_value(architecture: str, ids: tuple[int, ...] | None, n_layers: int, expected: object) -> None:
    """The same numbers mean other layers in another family."""
    assert layers_taken(style_of(architecture), ids, n_layers) == expected


@pytest.mark.parametrize(
    ("style", "layers", "expected"),
    [
        (LLAMA, (2, 4, 5), "no --return-aux-hidden-state-layer-ids"),
        (LLAMA, (2, 4, 6), "--return-aux-hidden-state-layer-ids 1 3 5"),
        (LLAMA, (1, 3, 7), "--return-aux-hidden-state-layer-ids 0 2 6"),
        (DEEPSEEK, (2, 4, 6), "--return-aux-hidden-state-layer-ids 1 3 5"),
        (DEEPSEEK, (3, 4, 6), "--return-aux-hidden-state-layer-ids 3 4 6"),
    ],
)
def test_what_to_type_gives_what_is_wanted(style: object, layers: tuple[int, ...], expected: str) -> None:
    """The advice in an error is the way to the layers that were asked for."""
    assert layer_ids_for(style, layers, 8) == expected  # type: ignore[arg-type]
    if ids := tuple(int(word) for word in expected.split()[1:] if word.isdigit()):
        assert layers_taken(style, ids, 8) == layers  # type: ignore[arg-type]


def test_layers_that_no_number_gives_are_refused() -> None:
    """In DeepSeek's way a first layer of 1 would become 2."""
    with pytest.raises(SetupError, match="no ids make SGLang give layers"):
        layer_ids_for(DEEPSEEK, (1, 3, 5), 8)


def test_a_family_that_nobody_looked_at_is_refused() -> None:
    """Never guessed."""
    with pytest.raises(SetupError, match="GPT2LMHeadModel is not known"):
        style_of("GPT2LMHeadModel")
