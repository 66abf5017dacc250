"""The cap over sockets, in a few runs of what `make cap` does in 120."""

from tests.report_cap import holds, summary, trial


def test_the_cap_holds_and_a_bill_above_it_ends_the_sending() -> None:
    """A run in one part, a run that is broken off and resumed, and one with bills above their reservations."""
    trials = [trial(seed, over=0, n_prompts=400, concurrency=64) for seed in (0, 1)]
    overs = [trial(10_000, over=100, n_prompts=1500, concurrency=64)]
    assert overs[0].excess > 0
    assert holds(trials, overs), summary(trials, overs)
