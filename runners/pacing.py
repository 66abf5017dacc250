"""How many requests may be under way: additive up, multiplicative down.

Pure: the time is an argument. Knows nothing of what a request is.
"""

from dataclasses import dataclass, field

GROW_S = 20.0  # from nothing to the ceiling
CUT = 0.7
QUIET_S = (2.0, 10.0)  # between two cuts: those under way were sent before the first one
FAST, SLOW = 0.1, 0.005  # weights of a new latency in the two averages
N_FIRST = 50  # latencies before they are believed
FACTOR = 2.5  # of the slow average, above which the host is taken to be overloaded


@dataclass(slots=True)
class Pace:
    """A limit between 1 and the ceiling.

    It grows with time while it is in use, by a ceiling in GROW_S seconds; it is cut, at most once in a quiet time,
    where a host says that it is too much, or where answers take FACTOR times as long as they did.

    Attributes:
        ceiling: As a person wishes.
        limit: Now; it begins at a quarter of the ceiling.
    """

    ceiling: int
    limit: float = 0.0
    _grown_at: float | None = None
    _cut_at: float = float("-inf")
    _n: int = 0
    _fast: float = field(default=0.0)
    _slow: float = field(default=0.0)

    def __post_init__(self) -> None:
        self.limit = self.limit or max(1.0, self.ceiling / 4)

    def room(self, in_flight: int) -> bool:
        """Whether one more may go."""
        return in_flight < int(self.limit)

    def answered(self, now: float, latency_s: float, in_flight: int) -> None:
        """An answer came, `latency_s` after it was asked for, with so many under way."""
        if self._grown_at is not None and 2 * in_flight >= self.limit:  # a limit that is not used proves nothing
            step = min(now - self._grown_at, 1.0) * self.ceiling / GROW_S
            self.limit = min(float(self.ceiling), self.limit + max(0.0, step))
        self._grown_at = now
        self._n += 1
        weight = 1.0 / self._n
        self._fast += (latency_s - self._fast) * max(FAST, weight)
        self._slow += (latency_s - self._slow) * max(SLOW, weight)
        if self._n >= N_FIRST and self._fast > FACTOR * self._slow and self.slow_down(now):
            self._slow = self._fast  # judged by it once: a host that stays slow is not cut to nothing

    def slow_down(self, now: float) -> bool:
        """The host says that it is too much; True where the limit was cut."""
        quiet = min(max(QUIET_S[0], self._fast), QUIET_S[1])
        if now - self._cut_at < quiet:
            return False
        self._cut_at, self._grown_at = now, now
        self.limit = max(1.0, self.limit * CUT)
        return True
