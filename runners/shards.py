"""Shards: a safetensors file and its manifest, whole or not there; and whether they still are what was written.

The manifest is written last, so a shard without one was never finished. Knows nothing of back ends.
"""

import hashlib
import os
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, count, pairwise
from pathlib import Path
from typing import Any

from harness.errors import SetupError
from harness.store import atomic_file, write_atomic
from runners.contents import file_problem
from runners.manifests import FORMAT, Manifest, manifest_text, read_manifest
from runners.states import Sample, States
from runners.tensor_bytes import Column, check_tensors, write_tensors

NAME = re.compile(r"shard-(\d{6,})\.json")
IDS = frozenset({"input_ids", "loss_mask", "offsets"})
METADATA = {"format": "pt", "made_as": FORMAT}


@dataclass(frozen=True, slots=True)
class Kept:
    """A sample with its states, and what was proven of them, for its line in the manifest."""

    sample: Sample
    states: States
    proven: Mapping[str, Any] = field(default_factory=dict)


def shard_name(number: int) -> str:
    """Without its ending."""
    return f"shard-{number:06d}"


def sample_bytes(n_tokens: int, state_bytes: int) -> int:
    """Bytes of a sample in a shard: its states of so many bytes a token, ids, mask and offset."""
    return n_tokens * (state_bytes + 9) + 8


def columns(kept: Sequence[Kept], *, with_states: bool = True) -> list[Column]:
    """The tensors of a shard; the samples stand one behind the other, sample n in rows offsets[n] to offsets[n + 1]."""
    samples = [one.sample for one in kept]
    ends = array("q", accumulate((len(sample.ids) for sample in samples), initial=0))
    n_rows = ends[-1]
    found = [
        Column("offsets", "I64", (len(ends),), [ends.tobytes()]),
        Column("input_ids", "I64", (n_rows,), (sample.ids.tobytes() for sample in samples)),
    ]
    if with_states:
        from runners.tensors import NAMES, raw  # late: who only reads needs no torch

        last, aux = kept[0].states.last, kept[0].states.aux
        dtype = NAMES[last.dtype]
        found.append(Column("hidden_states", dtype, (n_rows, *last.shape[1:]), (raw(one.states.last) for one in kept)))
        found.append(
            Column("aux_hidden_states", dtype, (n_rows, *aux.shape[1:]), (raw(one.states.aux) for one in kept))
        )
    return [*found, Column("loss_mask", "U8", (n_rows,), (sample.loss_mask for sample in samples))]


def sample_line(kept: Kept) -> dict[str, Any]:
    """What the manifest says of one sample."""
    sample = kept.sample
    return {
        "id": sample.id,
        "n_tokens": len(sample.ids),
        "n_prompt": sample.n_prompt,
        "n_unmasked": sum(sample.loss_mask),
        "ids_sha256": sample.ids_sha256,
        "mask_sha256": sample.mask_sha256,
        **kept.proven,
    }


def write_shard(folder: Path, number: int, kept: Sequence[Kept], about: "About") -> Manifest:
    """The shard, then its manifest: each under a temporary name, synced, renamed.

    Raises:
        SetupError: It cannot be written, for want of room say; nothing of it stands then, or a shard without manifest.
    """
    name = shard_name(number)
    with atomic_file(folder / f"{name}.safetensors") as file:
        written = write_tensors(file, columns(kept, with_states=bool(kept) and not about.side_files), METADATA)
    manifest = Manifest(
        about.run,
        about.samples_file,
        f"{name}.safetensors",
        written,
        [sample_line(one) for one in kept],
        about.set_aside,
        about.side_files,
    )
    write_atomic(folder / f"{name}.json", manifest_text(manifest).encode())
    return manifest


class ShardSink:
    """Native shards, numbered one after the other."""

    def __init__(self, folder: Path, number: int, about: "About") -> None:
        self._folder, self._number, self._about = folder, number, about

    def write(self, kept: Sequence[Kept], set_aside: Sequence[Mapping[str, Any]]) -> Manifest:
        """One shard more; see `write_shard`."""
        manifest = write_shard(self._folder, self._number, kept, replace(self._about, set_aside=set_aside))
        self._number += 1
        return manifest

    def finish(self) -> None:
        """Nothing: every shard is whole by itself."""


@dataclass(frozen=True, slots=True)
class About:
    """What a shard says beside its samples; the members of Manifest of these names."""

    run: Mapping[str, Any]
    samples_file: Mapping[str, Any]
    set_aside: Sequence[Mapping[str, Any]] = ()
    side_files: Sequence[Mapping[str, Any]] = ()


def manifests(folder: Path) -> list[Path]:
    """The manifests of a folder, in the order of their numbers."""
    try:
        found = [(int(match[1]), path) for path in folder.iterdir() if (match := NAME.fullmatch(path.name))]
    except OSError as error:
        raise SetupError(f"{folder} cannot be read: {error.strerror or error}; expected a folder of shards") from error
    return [path for _, path in sorted(found)]


def set_apart(parts: Sequence[Path], word: str = "broken") -> None:
    """Files of a shard that no longer counts under the name *.broken, or *.broken.1 and so on: see `free_ending`."""
    end = free_ending([str(part) for part in parts], os.path.lexists, word)
    for part in parts:
        if os.path.lexists(part):
            part.replace(f"{part}{end}")


def free_ending(names: Sequence[str], there: Callable[[str], bool], word: str) -> str:
    """The ending under which none of these files is kept yet: what was kept before stays, and a pair has one number."""
    endings = chain([f".{word}"], (f".{word}.{n}" for n in count(1)))
    return next(end for end in endings if not any(there(f"{name}{end}") for name in names))


def problems(path: Path, tick: Callable[[int], None] = lambda _: None) -> tuple[Manifest | None, list[str]]:
    """A shard by its manifest's path: the manifest, and all that does not fit, in words; every byte is read.

    The manifest is None where that itself does not hold.
    """
    try:
        manifest = read_manifest(path)
    except SetupError as error:
        return None, [str(error)]
    try:
        return manifest, _problems(path, manifest, tick)
    except (KeyError, TypeError, ValueError, AttributeError) as error:  # whole, and yet not written by us
        return None, [f"{path}: a manifest of another shape ({error!r:.100})"]


Checked = tuple[Path, Manifest | None, list[str]]
"""A manifest's path, and what `problems` says of it."""
N_READING = 4  # files at a time: one core hashes less than a disk gives


def checked(paths: Sequence[Path]) -> Iterator[Checked]:
    """`problems` of each, in order."""
    with ThreadPoolExecutor(N_READING) as pool:
        for path, (manifest, found) in zip(paths, pool.map(problems, paths), strict=True):
            yield path, manifest, found


def _problems(path: Path, manifest: Manifest, tick: Callable[[int], None]) -> list[str]:
    file = path.with_suffix(".safetensors")
    if manifest.file != file.name:
        return [f"it tells of {manifest.file}"]
    try:
        with file.open("rb") as stream:
            found, kept = check_tensors(stream, manifest.written, IDS, tick)
    except OSError as error:
        return [f"{file.name}: {error.strerror or error}"]
    found = [f"{file.name}: {problem}" for problem in found] or list(_sample_problems(manifest, kept))
    return found + list(_side_problems(path.parent, manifest, tick))


def _sample_problems(manifest: Manifest, kept: Mapping[str, bytes]) -> Iterator[str]:
    """Whether counts, hashes and masks of the samples are those of the tensors."""
    offsets = array("q", kept["offsets"])
    ids, mask = kept["input_ids"], kept["loss_mask"]
    counts = [sample["n_tokens"] for sample in manifest.samples]
    if list(offsets) != list(accumulate(counts, initial=0)) or len(mask) != offsets[-1]:
        yield "offsets are not those of the samples"
        return
    for sample, (start, end) in zip(manifest.samples, pairwise(offsets), strict=True):
        own = mask[start:end]
        if hashlib.sha256(ids[8 * start : 8 * end]).hexdigest() != sample["ids_sha256"]:
            yield f"sample {sample['id']}: its ids are not those of its hash"
        if hashlib.sha256(own).hexdigest() != sample["mask_sha256"] or sum(own) != sample["n_unmasked"]:
            yield f"sample {sample['id']}: its loss_mask is not that of its hash"
        if any(own[: sample["n_prompt"]]) or max(own) > 1:
            yield f"sample {sample['id']}: its loss_mask is not 0 on the prompt and 0 or 1 elsewhere"


def _side_problems(folder: Path, manifest: Manifest, tick: Callable[[int], None]) -> Iterator[str]:
    for side in manifest.side_files:
        if problem := file_problem(folder, side):
            yield problem
        tick(side["n_bytes"])
