"""Is a provider still worth its money? The share of its last answers that cannot be trained on, or cannot be read.

Pure. Knows nothing of verdicts beyond good and not.
"""

from collections import Counter, deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class Quality:
    """The last `window` answers of each provider.

    A provider fails when more than `max_rejected` of a whole window are not good: ten bad answers in a row are enough
    for 5% of 200, a hundred good ones do not have to come first.
    """

    max_rejected: float
    window: int
    _seen: dict[str, deque[bool]] = field(default_factory=dict)
    _rejected: Counter[str] = field(default_factory=Counter)

    def add(self, provider: str, good: bool) -> bool:
        """One more answer; True where the provider now fails."""
        seen = self._seen.setdefault(provider, deque())
        seen.append(good)
        self._rejected[provider] += not good
        if len(seen) > self.window:
            self._rejected[provider] -= not seen.popleft()
        return self._rejected[provider] > self.max_rejected * self.window

    def n_rejected(self, provider: str) -> int:
        """Not good among its last answers."""
        return self._rejected[provider]

    def n_answers(self, provider: str) -> int:
        """Its last answers, at most a window."""
        return len(self._seen.get(provider, ()))
