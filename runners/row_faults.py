"""What is wrong with the rows of data sets, each with its place.

Knows nothing of what rows hold.
"""

from harness.errors import SetupError

MAX_TOLD = 20  # faults are shown; the others are counted


class Faults:
    """Places and what is wrong there: the first MAX_TOLD, and how many there are."""

    def __init__(self) -> None:
        self.n, self._told = 0, list[str]()

    def add(self, place: str, said: object) -> None:
        """One more."""
        self.n += 1
        if self.n <= MAX_TOLD:
            self._told.append(f"{place}: {said}")

    def end(self) -> None:
        """Raise what was found.

        Raises:
            SetupError: A line a fault.
        """
        if self.n:
            more = [f"and {self.n - MAX_TOLD:,} faults more"] if self.n > MAX_TOLD else []
            raise SetupError("\n".join([*self._told, *more]))
