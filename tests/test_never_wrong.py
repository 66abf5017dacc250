"""The law: no answer is accepted with an unmasked id that was not sampled, whatever a host does to it.

Draws from the grammar go through every preset. What gets through may only be a breach of the one premise (a split that
keeps the count, or deviations that cancel), and then the verdict must say that it rests on the count.
"""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breaches import explain
from tests.report_soak import NAMES, shown, trial_of
from tests.trials import run

EXAMPLES = 200


@pytest.mark.parametrize("preset", NAMES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**48))
def test_nothing_wrong_is_accepted(preset: str, seed: int) -> None:
    """With shipped, true, partly told and unknown habits, streamed or not: no single deviation gets through."""
    trial = trial_of(Random(seed), preset)

    judged = run(trial)

    if judged.fault:
        breach = explain(trial, judged)
        assert breach.kind in ("split", "cancel"), shown(breach)
        assert breach.judged.verdict.premise == "count"


def test_the_attack_reaches_every_kind_of_verdict() -> None:
    """A judge that rejects everything would pass the test above: plain answers with true habits are accepted."""
    verdicts = {run(trial_of(Random(seed), name)).verdict.name for name in NAMES for seed in range(12)}

    assert verdicts == {"verified", "unverified", "rejected"}
