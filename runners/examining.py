"""What looks at states before they are written: finite or refused, agreement of every sample, quarantine below a limit.

Knows nothing of back ends and files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from runners.agreement import Agreement, agreement
from runners.checkpoint import Head, load_head
from runners.proof import demand_finite
from runners.shards import Kept, sample_line
from runners.states import Facts

MEANING = "agreement: over the ids with loss_mask 1 that have a row before them; share: of those that are the argmax"


@dataclass(frozen=True, slots=True)
class Examiner:
    """Called with the samples of a shard; gives those that stay, with what was proven, and lines of those that do not.

    Attributes:
        head: None where no checkpoint is at hand: agreement is then null.
        min_agreement: The least share; None keeps every sample.
        why_not: Why there is no head.
    """

    head: Head | None = None
    min_agreement: float | None = None
    why_not: str = "agreement was not asked for"

    def __call__(self, kept: Sequence[Kept]) -> tuple[Sequence[Kept], Sequence[Mapping[str, Any]]]:
        """See the class.

        Raises:
            SetupError: States that are not finite, or do not fit the head.
        """
        stay: list[Kept] = []
        aside: list[Mapping[str, Any]] = []
        for one in kept:
            demand_finite(one.sample.id, one.states)
            found = self._agreement(one)
            proven = replace(one, proven={**one.proven, "agreement": asdict(found) if found else None})
            if reason := self._too_low(found):
                aside.append({**sample_line(proven), "reason": reason})
            else:
                stay.append(proven)
        return stay, aside

    def told(self) -> dict[str, Any]:
        """What a manifest says of it; a resumed run must say the same."""
        names = list(self.head.names) if self.head else None
        why_not = None if self.head else self.why_not
        return {"head": names, "why_not": why_not, "meaning": MEANING, "min_agreement": self.min_agreement}

    def _agreement(self, one: Kept) -> Agreement | None:
        if self.head is None:
            return None
        return agreement(one.states.last, one.sample.ids, one.sample.loss_mask, self.head)

    def _too_low(self, found: Agreement | None) -> str:
        if self.min_agreement is None or found is None:
            return ""
        if found.share is None:
            return "no unmasked id to compare, and --min-agreement asks for a share"
        if found.share < self.min_agreement:
            return f"agreement {found.share:.4f} of {found.n} ids is below --min-agreement {self.min_agreement}"
        return ""


def examiner(folder: Path | None, facts: Facts, min_agreement: float | None, device: str = "cpu") -> Examiner:
    """The examiner of a run: with the head of the checkpoint in `folder`, where that has one.

    Raises:
        SetupError: --min-agreement, and no agreement can be had; or a head that is there and not finite.
    """
    try:
        if folder is None:
            raise SetupError("no checkpoint was named")
        head = load_head(folder, facts.last_norm, facts.hidden_size, dtype=facts.dtype, device=device)
    except SetupError as error:
        if min_agreement is None:
            return Examiner(why_not=str(error))
        raise SetupError(
            f"--min-agreement {min_agreement} needs lm_head from the model's checkpoint: {error}"
        ) from error
    head.demand_finite()
    return Examiner(head, min_agreement)
