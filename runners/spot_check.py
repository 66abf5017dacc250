"""Samples of a folder of shards computed again, each alone, and held against what is stored."""

from collections.abc import Iterator
from pathlib import Path

from harness.errors import SetupError
from runners.manifests import Manifest, read_manifest, run_differences
from runners.proof import Spot, chosen, spot
from runners.shard_reading import Found, sample_at
from runners.shards import manifests
from runners.states import Backend, States
from runners.tensors import Tensor, from_raw

SAME = ("weights_sha256", "config_sha256", "dtype", "last_norm")


def spot_check(folder: Path, backend: Backend, n: int) -> Iterator[Spot]:
    """Up to n samples, spread over the folder, in its order.

    Raises:
        SetupError: The folder holds states of another model, back end, dtype or norm, or in files of another layout.
    """
    places = {
        line["id"]: (path, manifest, number)
        for path in manifests(folder)
        for manifest in [read_manifest(path)]
        for number, line in enumerate(manifest.samples)
    }
    for name in chosen(list(places), n):
        path, manifest, number = places[name]
        _demand_same(path, manifest, backend)
        found = sample_at(path, manifest, number)
        stored = States(_tensor(found, "aux_hidden_states"), _tensor(found, "hidden_states"), backend.facts.last_norm)
        yield spot(name, backend.facts.dtype, stored, backend.states([found.ids])[0])


def _demand_same(path: Path, manifest: Manifest, backend: Backend) -> None:
    there = {key: manifest.run.get(key) for key in SAME}
    if parted := run_differences(there, {key: getattr(backend.facts, key) for key in SAME}):
        raise SetupError("\n".join((f"{path.name} holds states of another run; nothing can be compared:", *parted)))


def _tensor(found: Found, name: str) -> Tensor:
    column = found.column(name)
    return from_raw(b"".join(column.pieces), column.dtype, column.shape)
