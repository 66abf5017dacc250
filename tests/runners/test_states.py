"""Layers by value: which ones, and which are refused."""

import hashlib

import pytest

from harness.errors import SetupError
from runners.states import choose_layers
from tests.runners.states_kit import sample


@pytest.mark.parametrize(
    ("text", "n_layers", "expected"),
    [
        pytest.param("eagle3", 61, (2, 30, 58), id="kimi-k2.5"),
        pytest.param("eagle3", 8, (2, 4, 5), id="a-llama-of-8"),
        pytest.param("1,3,7", 8, (1, 3, 7), id="explicit"),
        pytest.param("4", 8, (4,), id="one"),
    ],
)
def test_layers(text: str, n_layers: int, expected: tuple[int, ...]) -> None:
    """The three of EAGLE-3 follow the depth, explicit ones are taken as they are."""
    assert choose_layers(text, n_layers) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("eagle3 ", "neither `eagle3` nor numbers", id="no-number"),
        pytest.param("3,2", "expected ascending numbers in 1..7", id="descending"),
        pytest.param("2,2", "expected ascending numbers", id="twice"),
        pytest.param("0,2", "expected ascending numbers", id="the-embeddings"),
        pytest.param("2,8", "the last layer is kept without being named", id="the-last"),
    ],
)
def test_layers_that_are_none(text: str, said: str) -> None:
    """Each is refused with what is expected."""
    with pytest.raises(SetupError, match=said):
        choose_layers(text, 8)


def test_a_model_too_shallow_for_eagle3_is_refused() -> None:
    """In a model of six layers two of the three would be one."""
    with pytest.raises(SetupError, match="auxiliary layers 2, 3, 3 of a model with 6"):
        choose_layers("eagle3", 6)


def test_hashes_of_a_sample() -> None:
    """Ids as little-endian int64, the mask a byte an id: anyone can compute them again."""
    one = sample("a", [1, 2], [163_586], [1])

    assert one.ids_sha256 == hashlib.sha256(bytes([1, *[0] * 7, 2, *[0] * 7, 2, 127, 2, *[0] * 5])).hexdigest()
    assert one.mask_sha256 == hashlib.sha256(b"\0\0\1").hexdigest()
