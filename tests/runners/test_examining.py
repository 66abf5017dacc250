"""The examiner: what it notes of each sample, what it sets aside, what it refuses."""

from array import array
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from harness.errors import SetupError
from runners.agreement import agreement
from runners.backend_transformers import Loading, TransformersBackend
from runners.checkpoint import Head, load_head
from runners.examining import Examiner, examiner
from runners.shards import Kept
from runners.states import Sample, States
from runners.tiny import make_tiny

EYE = Head(torch.eye(4), None, 0.0, ("lm_head.weight",))
"""Each state names the id that is said next."""


def kept(name: str, said: list[int], mask: bytes = b"\0\1\1\1") -> Kept:
    """Four ids 0 1 2 3; row k of the last state says `said[k]`."""
    last = torch.eye(4)[said]
    return Kept(Sample(name, array("q", [0, 1, 2, 3]), mask, 1), States(torch.zeros(4, 3, 4), last, "post"))


ALL, TWO, NONE = kept("all", [1, 2, 3, 0]), kept("two", [1, 2, 0, 0]), kept("none", [0, 0, 0, 0])
MASKED = kept("masked", [1, 2, 3, 0], bytes(4))


def test_every_sample_gets_its_agreement() -> None:
    """Number of ids, share and mean log-probability stand with the sample, and nothing is set aside unasked."""
    stay, aside = Examiner(EYE)([ALL, TWO, NONE, MASKED])

    assert aside == []
    assert [one.sample.id for one in stay] == ["all", "two", "none", "masked"]
    noted = [one.proven["agreement"] for one in stay]
    assert [(a["n"], a["share"]) for a in noted] == [(3, 1.0), (3, 2 / 3), (3, 0.0), (0, None)]
    assert noted[0]["mean_logprob"] == pytest.approx(-0.7436684)  # log(e / (e + 3))
    assert noted[3]["mean_logprob"] is None


def test_min_agreement_sets_aside_what_is_below_it() -> None:
    """At the limit a sample stays, below it goes with the reason; one that says nothing goes too."""
    stay, aside = Examiner(EYE, 2 / 3)([ALL, TWO, NONE, MASKED])

    assert [one.sample.id for one in stay] == ["all", "two"]
    assert [(line["id"], line["reason"]) for line in aside] == [
        ("none", f"agreement 0.0000 of 3 ids is below --min-agreement {2 / 3}"),
        ("masked", "no unmasked id to compare, and --min-agreement asks for a share"),
    ]
    assert aside[0]["ids_sha256"] == NONE.sample.ids_sha256
    assert aside[0]["agreement"]["share"] == 0.0


def test_without_a_head_agreement_is_null() -> None:
    """Null, not zero and not left out."""
    stay, aside = Examiner()([ALL])

    assert [dict(one.proven) for one in stay] == [{"agreement": None}]
    assert aside == []


def test_states_that_are_not_finite_refuse_the_whole_shard() -> None:
    """One bad value in one sample, and no sample of the shard gets through."""
    bad = kept("bad", [1, 2, 3, 0])
    bad.states.aux[2, 1, 0] = float("nan")
    with pytest.raises(SetupError, match="sample 'bad': auxiliary layer 2 of 3, row 2 of 4 is not finite"):
        Examiner(EYE)([ALL, bad])


def test_a_checkpoint_gives_the_head_of_its_model(tmp_path: Path) -> None:
    """States of the back end, examined with the head of the same folder, agree as agreement says; told in words."""
    folder = make_tiny(tmp_path, vocab_size=60)
    backend = TransformersBackend(folder, Loading(dtype="bf16", last_norm="pre"))
    sample = Sample("s", array("q", range(20)), bytes(10) + b"\1" * 10, 10)
    states = backend.states([sample.ids])[0]
    found = examiner(folder, backend.facts, None)

    (one,), _ = found([Kept(sample, states)])

    expected = agreement(states.last, sample.ids, sample.loss_mask, load_head(folder, "pre", 32, dtype="bf16"))
    assert one.proven["agreement"] == {"n": 10, "share": expected.share, "mean_logprob": expected.mean_logprob}
    assert found.told()["head"] == ["lm_head.weight", "model.norm.weight"]
    assert found.told()["why_not"] is None


def test_min_agreement_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    """Where no lm_head can be read, null is honest and a limit is not; the reason is told in both cases."""
    backend = TransformersBackend(make_tiny(tmp_path, vocab_size=60), Loading(dtype="fp32"))
    (tmp_path / "model.safetensors").unlink()

    without = examiner(tmp_path, backend.facts, None)

    assert without.head is None
    assert "no tensor named *lm_head.weight" in str(without.told()["why_not"])
    with pytest.raises(SetupError, match=r"--min-agreement 0\.5 needs lm_head .*no tensor named \*lm_head\.weight"):
        examiner(tmp_path, backend.facts, 0.5)
    with pytest.raises(SetupError, match="no checkpoint was named"):
        examiner(None, backend.facts, 0.5)


@pytest.mark.parametrize("least", [None, 0.5])
def test_a_head_that_is_not_finite_is_refused_asked_or_not(least: float | None, tmp_path: Path) -> None:
    """It is there and damaged: no agreement is noted as null for that, and nothing is written."""
    file = make_tiny(tmp_path, vocab_size=60) / "model.safetensors"
    backend = TransformersBackend(tmp_path, Loading())
    held = load_file(file)
    held["lm_head.weight"][7, 3] = float("nan")
    save_file(held, file, {"format": "pt"})

    with pytest.raises(SetupError, match=r"lm_head is not finite: lm_head\.weight"):
        examiner(tmp_path, backend.facts, least)
