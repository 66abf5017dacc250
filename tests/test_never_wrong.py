"""The law: no answer is accepted with an unmasked id that was not sampled, whatever a host does to it.

Draws from the grammar go through every preset and through made-up hosts. What gets through may only be a breach of the
one premise (a split that keeps the count, or deviations that cancel), and then the verdict must say that it rests on
the count. Hypothesis picks the seeds: draws by `st.randoms` would hold a third of the kinds of deviation. A failure is
made small by `breaches.smallest`.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breaches import explain, smallest
from tests.report_soak import HABITS, NAMES, attack, shown, trial_of, wrong_habits
from tests.trials import run

EXAMPLES = 200
KNOWN = tuple(kind for kind in HABITS if kind != "unknown")


@pytest.mark.parametrize("kinds", [KNOWN, ("unknown",)], ids=["habits-known", "habits-unknown"])
@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
@pytest.mark.parametrize("preset", NAMES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**48))
def test_nothing_wrong_is_accepted(preset: str, stream: bool, kinds: tuple[str, ...], seed: int) -> None:
    """No single deviation gets through, and at most a quarter of the ids of an accepted answer is masked."""
    trial = trial_of(Random(seed), preset, kinds, stream)

    judged = run(trial)

    assert judged.verdict.loss_mask.count(0) <= len(judged.verdict.ids.ids) / 4
    if judged.fault:
        breach = explain(trial, judged)
        assert breach.kind in ("split", "cancel"), shown(smallest(breach))
        assert breach.judged.verdict.premise == "count"


def test_the_attack_reaches_every_kind_of_verdict() -> None:
    """A judge that rejects everything would pass the test above: many answers are accepted, some by reported ids."""
    tally = attack(seed=5, n=600)

    counts = {name: tally.total(name) for name in ("exact", "verified", "unverified", "rejected")}
    assert sum(counts.values()) == 600
    assert counts["verified"] > 100
    assert min(counts.values()) > 0


def test_the_attack_sees_what_is_wrong() -> None:
    """With another provider's habits some answers are accepted wrongly: a blind attack would pass every test here."""
    pair = wrong_habits(1, "siliconflow", "wandb", 150)

    assert (pair.host, pair.other) == ("siliconflow", "wandb")
    assert 0 < pair.wrong <= pair.accepted
