"""`make false-green`: planted ways to a green gate that proves nothing; each must leave no ticket, for its own reason.

Each way is planted in a checkout of its own whose gate opens without it, and the command is run there. A table, then
one JSON line; 1 where a ticket was left, a way was refused for another reason, or the sound checkout got none.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.false_green import MORE, PLAIN, WAYS, Plant
from tests.gate_kit import checkout


class Tried(NamedTuple):
    """What became of one way: the exit code, whether a ticket lies there, and the reasons told."""

    code: int
    ticket: bool
    reasons: tuple[str, ...]

    def refused_for(self, reason: str) -> bool:
        """Whether no ticket was left, and the right reason told."""
        return self.code == 1 and not self.ticket and any(reason in told for told in self.reasons)


def tried(plant: Plant, place: Path) -> Tried:
    """Plants one way and runs the gate; a ticket of an earlier, sound run lies where the new one would go."""
    made = checkout(place / "checkout")
    code, told = made.gate()
    if code:
        return Tried(-1, False, ("the sound checkout got no ticket", *told["reasons"]))
    call = plant(made)
    code, told = made.gate(*call.arguments, **call.environment)
    return Tried(code, (made.root / "gate.json").exists(), tuple(told["reasons"]))


def main(arguments: Sequence[str]) -> int:
    """Prints the table and the JSON line."""
    left, elsewhere = [], []
    with tempfile.TemporaryDirectory() as place:
        sound = tried(lambda _: PLAIN, Path(place) / "sound")
        print(f"{'ticket' if sound.ticket else 'NO TICKET'}  the sound checkout", flush=True)
        for name, (plant, reason) in {**WAYS, **MORE}.items():
            found = tried(plant, Path(place) / name.replace(" ", "-"))
            left += [name] if found.ticket or found.code != 1 else []
            elsewhere += [name] if not found.refused_for(reason) else []
            word = "no ticket" if found.refused_for(reason) else "TICKET" if found.ticket else "OTHER REASON"
            print(f"{word}  {name}: {' | '.join(found.reasons)}", flush=True)
    n_left = sum(name in WAYS for name in {*left, *elsewhere})
    figures = {
        "ways": len(WAYS),
        "without_ticket": len(WAYS) - n_left,
        "more_ways": len(MORE),
        "more_without_ticket": len(MORE) - sum(name in MORE for name in {*left, *elsewhere}),
        "left_a_ticket": left,
        "refused_for_another_reason": elsewhere,
        "sound_checkout_opens": sound.ticket,
    }
    print(json.dumps(figures))
    return int(bool(left or elsewhere or not sound.ticket))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
