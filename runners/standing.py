"""What stands in a folder already, and what of it still counts: whole shards of this run, of samples as they are."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from runners.contents import files_of, named
from runners.manifests import Manifest, run_differences
from runners.shards import checked, manifests, set_apart

Done = dict[str, tuple[str, str]]
"""Sample id -> (ids_sha256, mask_sha256) of what stands in whole shards, or was set aside."""


def standing(
    folder: Path, run: Mapping[str, Any], complain: Callable[[str], None] = lambda _: None
) -> tuple[Done, list[Manifest], int]:
    """What stands in a folder, every byte of it checked: (done, whole shards, number of the next one).

    A shard that is not what was written is set aside under another name, and its samples count as not done.

    Raises:
        SetupError: Shards of another run stand there.
    """
    done: Done = {}
    whole: list[Manifest] = []
    number = -1
    for path, manifest, found in checked(manifests(folder)):
        number = int(path.stem.rpartition("-")[2])
        if manifest is None or found:
            complain(f"{path.name}: {found[0]}; kept as *.broken, and computed again")
            set_apart(pair(path))
            continue
        count_in(done, manifest, run, str(folder))
        whole.append(manifest)
    return done, whole, number + 1


def pair(path: Path) -> tuple[Path, Path]:
    """The two files of a shard by its manifest's path, in the order in which they may go: the tensors first."""
    return path.with_suffix(".safetensors"), path


def count_in(done: Done, manifest: Manifest, run: Mapping[str, Any], where: str) -> None:
    """Add the samples of a whole shard to what is done.

    Raises:
        SetupError: It is a shard of another run, or one of its samples stands in another one too.
    """
    demand_run(manifest.run, run, where)
    for name, hashes in done_of([manifest]).items():
        if name in done:
            raise SetupError(f"{where}: sample {name!r:.80} stands in two shards; remove one of them")
        done[name] = hashes


def demand_run(there: Mapping[str, Any], now: Mapping[str, Any], where: str) -> None:
    """SetupError where a shard's run is not this one."""
    if parted := run_differences(there, now):
        raise SetupError(
            "\n".join((f"{where} holds shards of another run; use a new --out, or the same options:", *parted))
        )


def done_of(whole: Iterable[Manifest]) -> Done:
    """What these shards hold or set aside."""
    lines = chain.from_iterable(chain(manifest.samples, manifest.set_aside) for manifest in whole)
    return {line["id"]: (line["ids_sha256"], line["mask_sha256"]) for line in lines}


def outdated(whole: Sequence[Manifest], changed: Collection[str]) -> tuple[list[Manifest], list[Manifest]]:
    """(shards that still count, shards of which a sample has changed since): a shard is computed again as a whole."""
    stay: list[Manifest] = []
    go: list[Manifest] = []
    for manifest in whole:
        (stay if done_of([manifest]).keys().isdisjoint(changed) else go).append(manifest)
    return stay, go


def outdated_text(manifest: Manifest, changed: Collection[str]) -> str:
    """What is said of a shard that is computed again for its changed samples."""
    own = done_of([manifest])
    there = [name for name in own if name in changed]
    return (
        f"{manifest.file}: other ids or another loss_mask than in the samples file now, {named(there)}; kept as *.old, "
        f"and its {len(own)} samples computed again"
    )


def vanished_text(vanished: Collection[str], whole: Sequence[Manifest], file: str, way: str) -> str:
    """What is said of samples that stand in shards and are no longer in the samples file; `way` is the way out."""
    lines = {name: (hashes, manifest.file) for manifest in whole for name, hashes in done_of([manifest]).items()}
    return (
        f"in {files_of(vanished, lines)}: {named(vanished)} that {file} does not have any more; they stay, and a "
        f"trainer would read them: {way}"
    )
