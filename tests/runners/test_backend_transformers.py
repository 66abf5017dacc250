"""The transformers back end against a plain forward; what it refuses."""

import json
import random
from array import array
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaModel
from transformers.utils import logging

from harness.errors import SetupError
from runners import backend_transformers, model_folder, tensors
from runners.backend_transformers import Loading, TransformersBackend, buckets, save_random
from runners.states import States
from runners.tiny import make_tiny
from tests.runners.states_kit import VOCAB, tiny

ARCHITECTURES = ("llama", "deepseek_v3")


def sequences(n: int, seed: int, longest: int = 60) -> "list[array[int]]":
    """Ids by chance, from one id to `longest`."""
    rng = random.Random(seed)
    return [array("q", (rng.randrange(VOCAB) for _ in range(rng.randrange(1, longest)))) for _ in range(n)]


@cache
def reference(architecture: str) -> Any:
    """The tiny target as transformers loads it."""
    return AutoModelForCausalLM.from_pretrained(tiny(architecture), dtype=torch.float32).eval()


def plain(architecture: str, ids: "array[int]", layers: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor, Any]:
    """(aux, last after the norm, the norm) of a forward of one sequence with output_hidden_states."""
    model = reference(architecture)
    with torch.inference_mode():
        states = model(torch.tensor([list(ids)]), output_hidden_states=True).hidden_states
    return torch.stack([states[k][0] for k in layers], dim=1), states[-1][0], model.model.norm


def apart(found: States, expected: tuple[torch.Tensor, torch.Tensor, Any]) -> float:
    """The largest difference of any value."""
    aux, last, norm = expected
    got = norm(found.last) if found.last_norm == "pre" else found.last
    return max((found.aux - aux).abs().max().item(), (got - last).abs().max().item())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("layers", "norm", "batch_tokens"),
    [
        pytest.param("eagle3", "post", 100_000, id="one-padded-batch"),
        pytest.param("eagle3", "pre", 130, id="small-batches"),
        pytest.param("1,3,7", "post", 1, id="alone"),
    ],
)
def test_states_are_those_of_a_plain_forward(architecture: str, layers: str, norm: Any, batch_tokens: int) -> None:
    """To 1e-5 in fp32, whatever is computed together; the layers by value, the last one on its side of the norm."""
    how = Loading(layers=layers, last_norm=norm, dtype="fp32", batch_tokens=batch_tokens)
    backend = TransformersBackend(tiny(architecture), how)
    batch = sequences(12, seed=3)

    found = backend.states(batch)

    for ids, one in zip(batch, found, strict=True):
        assert one.aux.shape == (len(ids), 3, 32)
        assert one.last_norm == norm
        assert apart(one, plain(architecture, ids, backend.facts.aux_layers)) < 1e-5


def test_facts_name_model_layers_and_versions() -> None:
    """What the manifest will say."""
    facts = TransformersBackend(tiny("llama"), Loading(dtype="bf16", revision="r9")).facts

    assert (facts.model, facts.revision, facts.architecture) == ("model", "r9", "LlamaForCausalLM")
    assert (facts.n_layers, facts.hidden_size, facts.vocab_size, facts.max_length) == (8, 32, VOCAB, 4096)
    assert (facts.aux_layers, facts.last_norm, facts.dtype) == ((2, 4, 5), "post", "bf16")
    assert facts.weights_sha256 is not None
    assert len(facts.weights_sha256) == 64


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_half_precision_is_kept_as_it_is(name: str, dtype: torch.dtype) -> None:
    """States come in the dtype of the forward, close to those in fp32."""
    batch = sequences(3, seed=5)
    full, half = (TransformersBackend(tiny("llama"), Loading(dtype=d)).states(batch) for d in ("fp32", name))

    for a, b in zip(full, half, strict=True):
        assert (b.aux.dtype, b.last.dtype) == (dtype, dtype)
        assert (a.last - b.last.float()).abs().max() < 0.2


def test_a_device_map_changes_no_state() -> None:
    """The way to several GPUs, on the one device that there is here."""
    batch = sequences(4, seed=8)
    expected = TransformersBackend(tiny("llama"), Loading(dtype="fp32", device="cpu")).states(batch)
    found = TransformersBackend(tiny("llama"), Loading(dtype="fp32", device_map="auto")).states(batch)
    assert all(a.last.equal(b.last.cpu()) and a.aux.equal(b.aux) for a, b in zip(expected, found, strict=True))


def test_a_model_without_a_decoder_is_refused() -> None:
    """What tells none has its layers where nobody knows; a model of several parts is asked for its text."""
    part = SimpleNamespace(get_decoder=lambda: "decoder")
    assert backend_transformers._decoder(SimpleNamespace(language_model=part)) == "decoder"
    with pytest.raises(SetupError, match="SimpleNamespace does not tell its decoder"):
        backend_transformers._decoder(SimpleNamespace())


def test_no_logits_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """lm_head never runs: it would be most of the work."""
    backend = TransformersBackend(tiny("llama"), Loading(dtype="fp32"))

    def never(*_: Any) -> Any:
        raise AssertionError("lm_head ran")

    monkeypatch.setattr(backend._model.lm_head, "forward", never)

    assert len(backend.states(sequences(2, seed=1))) == 2


def test_a_batch_without_room_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of memory ends a run only where one sample alone has no room, and the message says what to do."""
    backend = TransformersBackend(tiny("llama"), Loading(dtype="fp32"))
    batch = sequences(7, seed=2)
    expected = backend.states(batch)
    run = backend._run

    def small(part: Any, room: int = 2) -> Any:
        if len(part) > room:
            raise tensors.OutOfMemoryError("CUDA out of memory")
        return run(part)

    monkeypatch.setattr(backend, "_run", small)
    found = backend.states(batch)
    assert max((a.last - b.last).abs().max().item() for a, b in zip(expected, found, strict=True)) < 1e-5

    monkeypatch.setattr(backend, "_run", lambda part: small(part, 0))
    with pytest.raises(SetupError, match=r"does not fit on cpu.*lower --max-length"):
        backend.states(batch)


def test_layers_that_are_elsewhere_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose list of modules is not its order of layers is refused, not believed."""
    real = backend_transformers._decoder_layers
    monkeypatch.setattr(backend_transformers, "_decoder_layers", lambda d, n: [*real(d, n)[1:], real(d, n)[0]])

    with pytest.raises(SetupError, match=r"layer 2 is not hidden_states\[2\]"):
        TransformersBackend(tiny("llama"), Loading(dtype="fp32"))


def test_a_folder_that_is_no_model_is_refused(tmp_path: Path) -> None:
    """With what transformers says of it."""
    (tmp_path / "config.json").write_text((tiny("llama") / "config.json").read_text())
    with pytest.raises(SetupError, match="cannot be loaded by transformers"):
        TransformersBackend(tmp_path, Loading(dtype="fp32"))


@pytest.mark.parametrize("change", [{"device": "cuda:9"}, {"device": "toaster"}])
def test_a_device_that_is_not_there_is_refused(change: dict[str, Any]) -> None:
    """No traceback for a word that was typed."""
    with pytest.raises(SetupError, match="cannot be loaded by transformers"):
        TransformersBackend(tiny("llama"), Loading(dtype="fp32", **change))


def test_buckets_hold_every_row_once_and_stay_in_bounds() -> None:
    """Padding counts; a row longer than the bound goes alone."""
    lengths = [5, 900, 7, 7, 1, 30, 31, 2, 7]

    found = list(buckets(lengths, 64))

    assert sorted(row for rows in found for row in rows) == list(range(9))
    assert found[0] == [1]
    assert all(len(rows) == 1 or max(lengths[r] for r in rows) * len(rows) <= 64 for rows in found)
    assert len(found) == 3


def test_a_random_model_is_saved_without_a_word(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """No bar of the library's own on stderr, and its setting is as it was."""
    before = logging.is_progress_bar_enabled()
    save_random({"model_type": "llama", "vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1,
                 "num_attention_heads": 2, "intermediate_size": 8}, tmp_path, seed=0)  # fmt: skip

    assert (tmp_path / "model.safetensors").exists()
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == before


def drop(name: str) -> Any:
    """The tensor gone."""
    return lambda held: held.pop(name)


def put(name: str, tensor: torch.Tensor) -> Any:
    """This tensor there."""
    return lambda held: held.update({name: tensor})


EXPERT = "model.layers.3.mlp.experts.2.up_proj.weight"
DAMAGED: list[Any] = [
    pytest.param(
        "llama", drop("model.layers.3.mlp.up_proj.weight"), "1 weights are missing: model.layers.3", id="gone"
    ),
    pytest.param("llama", drop("lm_head.weight"), "1 weights are missing: lm_head.weight", id="no-head"),
    pytest.param(
        "llama", put("model.norm.weight", torch.ones(31)), "1 weights have another shape: model.norm", id="size"
    ),
    pytest.param(
        "llama",
        put("model.layers.8.mlp.up_proj.weight", torch.ones(64, 32)),
        "1 weights are of no layer of config.json: model.layers.8.mlp",
        id="layer-beyond",
    ),
    pytest.param(
        "llama",
        put("model.layers.0.self_attn.q_proj.bias", torch.ones(32)),
        "1 weights are of no layer of config.json: model.layers.0.self_attn.q_proj.bias",
        id="bias",
    ),
    pytest.param("deepseek_v3", drop(EXPERT), "cannot be loaded by transformers", id="expert-gone"),
    pytest.param(
        "deepseek_v3",
        drop("model.layers.3.mlp.gate.e_score_correction_bias"),
        "1 weights are missing",
        id="buffer-gone",
    ),
    pytest.param("llama", put("model.norm.weight", torch.full((32,), float("nan"))), "damaged weights", id="nan-norm"),
    pytest.param(
        "llama",
        put("model.layers.4.mlp.up_proj.weight", torch.full((64, 32), float("inf"))),
        r"hidden_states\[5\] of a few ids is not finite: damaged weights",
        id="inf-layer",
    ),
]


@pytest.mark.parametrize(("architecture", "damage", "said"), DAMAGED)
def test_a_checkpoint_that_is_not_whole_is_refused(architecture: str, damage: Any, said: str, tmp_path: Path) -> None:
    """transformers fills what is missing at random and leaves out the rest: neither gives the model's states."""
    file = make_tiny(tmp_path, architecture, vocab_size=50) / "model.safetensors"
    tensors_held = load_file(file)
    damage(tensors_held)
    save_file(tensors_held, file, {"format": "pt"})

    with pytest.raises(SetupError, match=said):
        TransformersBackend(tmp_path, Loading(dtype="fp32"))


def test_weights_that_need_not_be_there_are_not_missed(tmp_path: Path) -> None:
    """A tied lm_head, a layer for drafting that the configuration tells, and a tower of another part."""
    folder = make_tiny(tmp_path, vocab_size=50, tie_word_embeddings=True, num_nextn_predict_layers=1)
    held = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in held
    more = {"model.layers.8.mlp.up_proj.weight": torch.ones(2), "vision_model.layers.0.weight": torch.ones(2)}
    save_file(held | more, folder / "model.safetensors", {"format": "pt"})

    found = TransformersBackend(folder, Loading(dtype="fp32")).states([array("q", [1, 2])])

    assert found[0].last.isfinite().all()


LONG = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "factor": 2.0}
ROPES: list[Any] = [
    pytest.param({"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}, "dynamic", id="dynamic"),
    pytest.param({"type": "dynamic", "factor": 2.0}, "dynamic", id="old-name"),
    pytest.param({**LONG, "original_max_position_embeddings": 64, "rope_theta": 1e4}, "longrope", id="longrope"),
]


@pytest.mark.parametrize(("rope", "named"), ROPES)
@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
def test_positions_that_depend_on_the_batch_are_refused(key: str, rope: Any, named: str, tmp_path: Path) -> None:
    """A short sample would get other states beside a long one than alone."""
    file = make_tiny(tmp_path, vocab_size=50) / "config.json"
    config = json.loads(file.read_text())
    config.pop("rope_parameters", None)
    file.write_text(json.dumps(config | {key: rope}))

    with pytest.raises(SetupError, match=f"rope_type '{named}': in transformers the states of a sample would depend"):
        TransformersBackend(tmp_path, Loading(dtype="fp32"))


def test_positions_by_kind_of_layer_are_looked_through() -> None:
    """Some models have parameters for each kind of layer; those that do not depend on the batch pass."""
    fixed = {"full_attention": {"rope_type": "yarn"}, "sliding_attention": {"rope_type": "default"}}
    model_folder.demand_fixed_rope({"rope_parameters": fixed, "rope_scaling": None})
    with pytest.raises(SetupError, match="rope_type 'dynamic'"):
        model_folder.demand_fixed_rope({"rope_parameters": {**fixed, "other": {"rope_type": "dynamic"}}})


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_forward_that_fails_is_told(fails_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an architecture that transformers cannot run so: when it is tried, or with a sample that is otherwise."""
    calls = []

    def forward(self: Any, *args: Any, **how: Any) -> Any:
        calls.append(how)
        if len(calls) == fails_at:
            raise AttributeError("'NoneType' object has no attribute 'chunk_size'")
        return real(self, *args, **how)

    real = LlamaModel.forward
    monkeypatch.setattr(LlamaModel, "forward", forward)
    said = r"forward of LlamaModel fails in transformers .*AttributeError: 'NoneType' object .*not supported"
    with pytest.raises(SetupError, match=said):
        TransformersBackend(tiny("llama"), Loading(dtype="fp32")).states(sequences(2, seed=1))
