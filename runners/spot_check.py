"""Samples of a folder of shards computed again, each alone, and held against what is stored."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import SetupError
from runners.manifests import Manifest, read_manifest, run_differences
from runners.out_folder import locked
from runners.proof import Spot, chosen, spot
from runners.shard_reading import Found, sample_at
from runners.shards import manifests, set_apart
from runners.standing import pair
from runners.states import Backend, States
from runners.tensors import Tensor, from_raw

SAME = ("weights_sha256", "config_sha256", "dtype", "last_norm")


@dataclass(frozen=True, slots=True)
class SpotChecked:
    """What was found.

    Attributes:
        spots: Each sample that was computed again, in the order of the folder.
        set_apart: Names of the shards that count no more, since a sample of theirs does not hold.
    """

    spots: Sequence[Spot] = ()
    set_apart: Sequence[str] = ()


def spot_check(folder: Path, backend: Backend, n: int, complain: Callable[[str], None] = lambda _: None) -> SpotChecked:
    """Compute up to n samples again, spread over the folder; a shard with one that does not hold is kept as *.broken.

    Its samples then count as not done, and the same run computes them again.

    Raises:
        SetupError: The folder holds states of another model, back end, dtype or norm, or in files of another layout, or
            another run is at work there. What was found not to hold until then is set apart.
    """
    with locked(folder, "native"):
        places = {
            line["id"]: (path, manifest, number)
            for path in manifests(folder)
            for manifest in [read_manifest(path)]
            for number, line in enumerate(manifest.samples)
        }
        spots, failed = list[Spot](), dict[Path, Spot]()
        try:
            for name in chosen(list(places), n):
                path, manifest, number = places[name]
                spots.append(_spot(path, manifest, number, backend))
                if not spots[-1].holds:
                    failed.setdefault(path, spots[-1])
        finally:
            for path, found in failed.items():
                complain(
                    f"{path.name}: sample {found.id!r:.80} has other states alone ({found.where} is {found.worst:.2g} "
                    "off); kept as *.broken, and the same command computes its samples again; what was not looked at "
                    "may be as wrong"
                )
                set_apart(pair(path))
    return SpotChecked(spots, [path.stem for path in failed])


def _spot(path: Path, manifest: Manifest, number: int, backend: Backend) -> Spot:
    _demand_same(path, manifest, backend)
    found = sample_at(path, manifest, number)
    stored = States(_tensor(found, "aux_hidden_states"), _tensor(found, "hidden_states"), backend.facts.last_norm)
    return spot(found.line["id"], backend.facts.dtype, stored, backend.states([found.ids])[0])


def _demand_same(path: Path, manifest: Manifest, backend: Backend) -> None:
    there = {key: manifest.run.get(key) for key in SAME}
    if parted := run_differences(there, {key: getattr(backend.facts, key) for key in SAME}):
        raise SetupError("\n".join((f"{path.name} holds states of another run; nothing can be compared:", *parted)))


def _tensor(found: Found, name: str) -> Tensor:
    column = found.column(name)
    return from_raw(b"".join(column.pieces), column.dtype, column.shape)
