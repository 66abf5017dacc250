"""What an extraction will take, before anything runs: bytes, files, hours, and whether the disk holds them.

Counts from lengths alone; no model is loaded.
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import SetupError
from runners.extract import Limits, Summary, wanted, windows
from runners.standing import Done
from runners.states import Sample
from runners.tensor_bytes import ITEM_BYTES
from runners.tensors import NAMES, dtype


@dataclass(frozen=True, slots=True)
class Weight:
    """Bytes of a layout beside the states: of each token, of each sample, of each shard.

    Ids are in a sample's line of the manifest by their hash; a file has a header and what its container adds.
    """

    token: int
    sample: int
    shard: int
    files_per_sample: int = 0


LISTED_BYTES = 192  # of a sample in the list of contents beside its name; and of that list's two other lines
LAYOUTS: Mapping[str, Weight] = {
    "native": Weight(9, 640, 8192),
    "specforge": Weight(9 + 16, 640 + 4096, 8192, 1),
    "speculators": Weight(9 + 32, 640 + 1024, 8192, 1),
}


@dataclass(frozen=True, slots=True)
class Survey:
    """What is to be done, counted before anything runs.

    Attributes:
        samples, tokens, shards: To be computed and written; `longest` in ids.
        name_bytes: Of the samples' ids.
        done: Samples that stand there already; `over_long` are those that the policy met, `dropped` those
            of them that are left out.
        changed: Those that stand there with other ids or another mask, and are to be computed.
        listed: The hashes of all that are done or to be computed, in order.
    """

    samples: int = 0
    tokens: int = 0
    longest: int = 0
    shards: int = 0
    name_bytes: int = 0
    done: int = 0
    over_long: int = 0
    dropped: int = 0
    changed: tuple[str, ...] = ()
    listed: Done = field(default_factory=dict, compare=False, repr=False)


def survey(samples: Iterable[Sample], limits: Limits, done: Done) -> Survey:
    """Read everything once: whatever is wrong with a sample is told before the first forward."""
    summary, listed, changed = Summary(), Done(), list[str]()
    found = wanted(samples, limits, done, summary, listed=listed, changed=changed.append)
    n = n_tokens = longest = shards = name_bytes = 0
    for group in windows(found, limits):
        lengths = [len(sample.ids) for sample in group]
        shards += 1
        n += len(group)
        n_tokens += sum(lengths)
        longest = max(longest, *lengths)
        name_bytes += sum(len(sample.id.encode()) for sample in group)
    counts = (summary.done_before, summary.over_long, summary.dropped)
    return Survey(n, n_tokens, longest, shards, name_bytes, *counts, tuple(changed), listed)


@dataclass(frozen=True, slots=True)
class ExtractPlan:
    """What is to come.

    Attributes:
        state_bytes_per_token: Of the states alone: 57,344 for Kimi K2.5 (4 layers, 7,168 wide, bf16).
        tokens_per_s: None where nobody knows; then `hours` is None too.
        free_bytes: Where the output goes; None where nobody can say.
    """

    survey: Survey
    state_bytes_per_token: int
    layout: str = "native"
    tokens_per_s: float | None = None
    free_bytes: int | None = None

    @property
    def n_bytes(self) -> int:
        """All that will be written; a little is added for names and headers, so that it is no less than that."""
        told, weight = self.survey, self._weight
        per_token = self.state_bytes_per_token + weight.token
        beside = sum(LISTED_BYTES + len(name.encode()) for name in told.listed) + LISTED_BYTES * bool(self.files)
        names = told.samples * weight.sample + told.name_bytes
        return told.tokens * per_token + names + told.shards * weight.shard + beside

    @property
    def files(self) -> int:
        """Shards, the manifest of each, files of a sample, and the list of the folder's contents."""
        of_shards = 2 * self.survey.shards + self._weight.files_per_sample * self.survey.samples
        return of_shards + bool(of_shards)

    @property
    def hours(self) -> float | None:
        """At `tokens_per_s`."""
        return self.survey.tokens / self.tokens_per_s / 3600 if self.tokens_per_s else None

    @property
    def fits(self) -> bool:
        """False where the disk is known not to hold it."""
        return self.free_bytes is None or self.n_bytes <= self.free_bytes

    @property
    def _weight(self) -> Weight:
        if self.layout not in LAYOUTS:
            raise SetupError(f"layout {self.layout!r} is none of {sorted(LAYOUTS)}")
        return LAYOUTS[self.layout]


def state_bytes(n_aux: int, hidden_size: int, dtype_name: str) -> int:
    """Of one token: the auxiliary layers and the last."""
    return (n_aux + 1) * hidden_size * ITEM_BYTES[NAMES[dtype(dtype_name)]]


def free_bytes(folder: Path) -> int | None:
    """Free room where a folder stands, or would stand; None where nobody can say."""
    for place in (folder.absolute(), *folder.absolute().parents):
        try:
            return shutil.disk_usage(place).free
        except FileNotFoundError:
            continue
        except OSError:
            return None
    return None


def demand_room(planned: ExtractPlan, folder: Path) -> None:
    """Refuse a run that its disk does not hold.

    Raises:
        SetupError: It does not; says how much is missing.
    """
    if not planned.fits and planned.free_bytes is not None:
        raise SetupError(
            f"{folder} has {planned.free_bytes / 1e9:,.1f} GB free, {planned.n_bytes / 1e9:,.1f} GB will be written "
            f"({planned.survey.tokens:,} tokens); choose another --out, fewer samples or a lower --max-length"
        )
