"""Manifests: what they say, and that a changed one is noticed."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import SetupError
from harness.vocab import VOCAB_SHA256
from runners.manifests import Manifest, manifest_text, read_manifest, run_block, run_differences
from runners.tensor_bytes import Written
from tests.runners.states_kit import FACTS, facts

RUN = run_block(FACTS, layout="native", max_length=64, over_long="drop")
LINE = {"id": "a\u2028b", "n_tokens": 3, "n_prompt": 1, "n_unmasked": 2, "ids_sha256": "i", "mask_sha256": "m",
        "agreement": 0.1 + 0.2}  # fmt: skip
MANIFEST = Manifest(RUN, {"name": "s.parquet", "sha256": "s"}, "shard-000000.safetensors",
                    Written({"offsets": {"dtype": "I64", "shape": [2], "sha256": "o"}}, "h", 99), [LINE],
                    [LINE | {"id": "b", "reason": "NaN"}],
                    [{"name": "x.ckpt", "n_bytes": 1, "sha256": "x"}])  # fmt: skip


def test_the_run_says_what_the_states_are() -> None:
    """Model, layers, dtype, norm and mask, in words that need no other document."""
    assert RUN["layers"] == {
        "aux": [2, 4, 5],
        "last": 8,
        "meaning": "k: output of the first k decoder layers, as hidden_states[k] of a transformers forward",
    }
    assert RUN["last_norm_meaning"] == "after the final norm: apply lm_head directly"
    assert RUN["loss_mask_meaning"].startswith("aligned with input_ids: 1 on an id that the model sampled")
    assert (RUN["vocab_sha256"], RUN["dtype"], RUN["weights_sha256"]) == (VOCAB_SHA256, "fp32", "w" * 64)
    assert (RUN["max_length"], RUN["over_long"], RUN["layout"]) == (64, "drop", "native")


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Every member, a line separator in an id and a fraction included."""
    path = tmp_path / "shard-000000.json"
    path.write_text(manifest_text(MANIFEST), encoding="utf-8")

    assert read_manifest(path) == MANIFEST


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    """Wherever it stands, white space included."""
    path = tmp_path / "m.json"
    data = manifest_text(MANIFEST).encode()
    for at in range(0, len(data), 5):
        changed = bytearray(data)
        changed[at] ^= 1
        path.write_bytes(changed)
        with pytest.raises(SetupError):
            read_manifest(path)


@pytest.mark.parametrize("change", [{"id": 1}, {"n_tokens": "3"}, {"n_prompt": True}, {"ids_sha256": None}])
def test_a_sample_of_another_shape_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    """Also where the text is whole: somebody else wrote it."""
    path = tmp_path / "m.json"
    path.write_text(manifest_text(replace(MANIFEST, samples=[LINE, LINE | change])), encoding="utf-8")
    with pytest.raises(SetupError, match="a sample without id, n_tokens"):
        read_manifest(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "tokenproof-states/1"}'])
def test_what_is_no_manifest_is_refused(tmp_path: Path, text: str) -> None:
    """With the keys that are expected, or the reason why it cannot be read."""
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(SetupError, match=r"m\.json"):
        read_manifest(tmp_path / "m.json")


def test_two_runs_part_at_a_name_a_line() -> None:
    """The message of a refused resume says all that differs, and cuts nothing of it."""
    told = {"device_map": {f"model.layers.{k}": k % 8 for k in range(61)}}
    here = run_block(facts(told=told, dtype="bf16"), layout="native", max_length=64, over_long="drop")
    other = run_block(facts(aux_layers=(1, 3, 5), told={"flags": "x" * 999}), layout="native", max_length=64,
                      over_long="drop")  # fmt: skip

    assert run_differences(RUN, dict(RUN)) == []
    assert run_differences(here, other) == [
        'dtype is "bf16" there and "fp32" now',
        "layers.aux is [2, 4, 5] there and [1, 3, 5] now",
        *(f"told.device_map.model.layers.{k} is {k % 8} there and absent now" for k in sorted(range(61), key=str)),
        f'told.flags is absent there and "{"x" * 999}" now',
    ]
    assert run_differences(RUN, {k: v for k, v in RUN.items() if k != "dtype"}) == [
        'dtype is "fp32" there and absent now'
    ]
