"""runners.pacing: additive up, multiplicative down, and never to nothing."""

from runners.pacing import CUT, FACTOR, GROW_S, Pace


def _answers(pace: Pace, start: float, seconds: float, latency: float, per_second: int = 10) -> float:
    """Steady answers with the limit in full use; the time at their end."""
    for k in range(int(seconds * per_second)):
        pace.answered(start + k / per_second, latency, int(pace.limit))
    return start + seconds


def test_it_begins_at_a_quarter_and_reaches_its_ceiling_in_time() -> None:
    """By a ceiling in GROW_S seconds, and not beyond."""
    pace = Pace(400)
    assert pace.limit == 100
    now = _answers(pace, 0.0, GROW_S / 4, 1.0)
    assert 190 < pace.limit <= 200
    _answers(pace, now, GROW_S, 1.0)
    assert pace.limit == 400


def test_a_limit_that_is_not_used_does_not_grow() -> None:
    """Few under way say nothing of what the host could take."""
    pace = Pace(400)
    for k in range(200):
        pace.answered(float(k), 1.0, 10)
    assert pace.limit == 100


def test_a_cut_is_made_once_in_a_quiet_time() -> None:
    """All those under way come back with the same complaint: one cut answers them."""
    pace = Pace(100, limit=100.0)
    assert [pace.slow_down(10.0 + k / 100) for k in range(40)] == [True] + [False] * 39
    assert pace.limit == 100 * CUT
    assert pace.slow_down(12.0)
    assert pace.limit == 100 * CUT * CUT


def test_it_never_falls_below_one_and_comes_back() -> None:
    """However long the host complains; 30 s later all is as before."""
    pace = Pace(256)
    for k in range(0, 100, 2):
        pace.slow_down(float(k))
    assert pace.limit == 1.0
    assert (pace.room(0), pace.room(1)) == (True, False)
    _answers(pace, 100.0, 30.0, 1.0)
    assert pace.limit == 256


def test_slower_answers_cut_the_limit_once() -> None:
    """Latency that jumps is a host under load; when it stays there, it is its pace."""
    pace = Pace(100, limit=100.0)
    now = _answers(pace, 0.0, 30.0, 1.0)
    assert pace.limit == 100
    low = 100.0
    for k in range(100):
        pace.answered(now + k / 10, 2.0 * FACTOR, int(pace.limit))
        low = min(low, pace.limit)
    assert 60 < low < 90
    _answers(pace, now + 10, 60.0, 2.0 * FACTOR)
    assert pace.limit == 100
