"""runners.quality: a bad provider is seen early, a good one is left alone."""

from runners.quality import Quality


def test_more_than_the_share_of_a_window_fails() -> None:
    """Ten of 200 are 5%; the eleventh fails, also as the eleventh answer of all."""
    quality = Quality(0.05, 200)
    assert [quality.add("P", good=False) for _ in range(11)] == [False] * 10 + [True]
    assert (quality.n_rejected("P"), quality.n_answers("P")) == (11, 11)


def test_old_answers_leave_the_window() -> None:
    """What lies further back than the window counts no more; providers do not mix."""
    quality = Quality(0.05, 200)
    assert not any(quality.add("P", good=False) for _ in range(10))
    assert not any(quality.add("Q", good=False) for _ in range(10))
    assert not any(quality.add("P", good=True) for _ in range(200))
    assert (quality.n_rejected("P"), quality.n_rejected("Q")) == (0, 10)
    assert quality.add("Q", good=False)


def test_nothing_is_known_of_a_new_provider() -> None:
    """Zero of zero."""
    assert (Quality(0.05, 200).n_rejected("P"), Quality(0.05, 200).n_answers("P")) == (0, 0)
