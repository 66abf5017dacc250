"""Agreement: what the model's own logits say of the ids, computed without the model."""

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from harness.errors import SetupError
from runners import agreement as module
from runners.agreement import Agreement, agreement
from runners.checkpoint import Head, load_head
from runners.states import LastNorm
from runners.tiny import ARCHITECTURES, make_tiny

N_VOCAB = 700


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each architecture; `gain` so that its norm is no plain division."""
    made = {}
    for name in ARCHITECTURES:
        made[name] = make_tiny(tmp_path_factory.mktemp(name), name, vocab_size=N_VOCAB)
        model = AutoModelForCausalLM.from_pretrained(made[name], dtype=torch.float32)
        torch.nn.init.uniform_(model.model.norm.weight, 0.5, 2.0)
        model.save_pretrained(made[name])
    return made


def forward(folder: Path, ids: Sequence[int], dtype: torch.dtype) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The model's own logits [T, V], and last states before and after its norm [T, H]."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    pre: list[torch.Tensor] = []
    model.model.norm.register_forward_pre_hook(lambda _, given: pre.append(given[0][0]))
    with torch.inference_mode():
        post = model.model(torch.tensor([list(ids)])).last_hidden_state
        return model.lm_head(post)[0].float(), {"pre": pre[0], "post": post[0]}


def half_greedy(folder: Path) -> "array[int]":
    """40 ids, about half of the last 30 of them what the model itself says next."""
    ids = torch.randint(N_VOCAB, (10,), generator=torch.Generator().manual_seed(1)).tolist()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    while len(ids) < 40:
        with torch.inference_mode():
            said = int(model(torch.tensor([ids])).logits[0, -1].argmax())
        ids.append(said if len(ids) % 2 else (said + 1) % N_VOCAB)
    return array("q", ids)


def own(logits: torch.Tensor, ids: Sequence[int], mask: bytes) -> Agreement:
    """The slow and obvious way: an id at a time, over the model's own logits."""
    scored = [k for k in range(1, len(ids)) if mask[k]]
    logprobs = [float(logits[k - 1].double().log_softmax(-1)[ids[k]]) for k in scored]
    hits = [int(logits[k - 1].argmax()) == ids[k] for k in scored]
    return Agreement(len(scored), sum(hits) / len(scored), sum(logprobs) / len(scored))


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
@pytest.mark.parametrize("logits_at_once", [1 << 20, 1000])
def test_agreement_is_what_the_models_own_logits_say(
    architecture: str, norm: LastNorm, logits_at_once: int, tiny: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Share and mean log-probability equal those of the logits, at unmasked ids alone, however the blocks are cut."""
    monkeypatch.setattr(module, "CPU_LOGITS", logits_at_once)
    monkeypatch.setattr(module, "ROWS", 7)
    ids = half_greedy(tiny[architecture])
    mask = bytes([0] * 10 + [1] * 12 + [0] * 3 + [1] * 15)
    logits, states = forward(tiny[architecture], ids, torch.float32)
    expected = own(logits, ids, mask)

    got = agreement(states[norm], ids, mask, load_head(tiny[architecture], norm, 32))

    assert (got.n, got.share) == (27, expected.share)
    assert got.share is not None
    assert 0.3 < got.share < 0.7
    assert got.mean_logprob == pytest.approx(expected.mean_logprob, abs=1e-5)


@pytest.mark.parametrize("architecture", sorted(ARCHITECTURES))
def test_in_bf16_the_norm_rounds_as_the_model_does(architecture: str, tiny: dict[str, Path]) -> None:
    """States before the norm give the logits that the model gives in bf16, not those of a norm in fp32."""
    ids = half_greedy(tiny[architecture])
    logits, states = forward(tiny[architecture], ids, torch.bfloat16)
    expected = own(logits, ids, bytes([1] * 40))

    got = [
        agreement(states[norm], ids, bytes([1] * 40), load_head(tiny[architecture], norm, 32, dtype="bf16"))
        for norm in ("pre", "post")
    ]

    assert got[0] == got[1]
    assert got[0].share == expected.share
    assert got[0].mean_logprob == pytest.approx(expected.mean_logprob, abs=1e-4)


def head(rows: Sequence[Sequence[float]]) -> Head:
    """An lm_head of these rows, no norm."""
    return Head(torch.tensor(rows), None, 0.0, ("lm_head.weight",))


def test_the_row_before_an_id_predicts_it() -> None:
    """By hand: rows point at ids 2, 0, 1; the ids 1, 2, 0 follow, so the second and third are said and the first has
    nothing before it."""
    last = torch.eye(3)[[2, 0, 1]] * 20

    got = agreement(last, array("q", [1, 2, 0]), b"\1\1\1", head(torch.eye(3).tolist()))

    assert (got.n, got.share) == (2, 1.0)
    assert got.mean_logprob == pytest.approx(0, abs=1e-6)


def test_equal_logits_are_the_lowest_ids() -> None:
    """Where two ids are as good, one of them is the argmax and it is always the same."""
    alike = head([[1.0], [1.0]])

    said = [agreement(torch.ones(2, 1), array("q", [0, k]), b"\0\1", alike) for k in (0, 1)]

    assert [a.share for a in said] == [1.0, 0.0]
    assert [a.mean_logprob for a in said] == pytest.approx([-0.6931472, -0.6931472])


@pytest.mark.parametrize("mask", [b"\0\0", b"\1\0"], ids=["all-masked", "first-id-alone"])
def test_a_sample_without_an_id_to_compare_has_no_share(mask: bytes) -> None:
    """Nothing to compare is not full agreement."""
    assert agreement(torch.ones(2, 1), array("q", [0, 1]), mask, head([[1.0], [2.0]])) == Agreement(0, None, None)


def test_rows_that_do_not_fit_the_ids_are_refused() -> None:
    """A row too few would shift every prediction; an id that lm_head lacks is of another model."""
    with pytest.raises(SetupError, match="1 rows of states, 2 ids, 2 of loss mask"):
        agreement(torch.ones(1, 1), array("q", [0, 1]), b"\0\1", head([[1.0], [2.0]]))
    with pytest.raises(SetupError, match="id 2 has no row in an lm_head of 2"):
        agreement(torch.ones(2, 1), array("q", [0, 2]), b"\0\1", head([[1.0], [2.0]]))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_logit_that_is_no_number_is_refused(value: float) -> None:
    """A manifest that held its mean log-probability could not be read again."""
    with pytest.raises(SetupError, match=r"or its logits are not in torch\.float32"):
        agreement(torch.ones(2, 1), array("q", [0, 1]), b"\0\1", head([[1.0], [value]]))
