"""States in the files of two trainers, a file a sample, from what their public readers look for.

Each needs the last state on its own side of the final norm, and RMSNorm cannot be undone: what the back end did not
deliver is refused. Beside the files stand shards without states: ids, masks, and a manifest with the sha256 of each
file, written after them. So a file counts only where its manifest says so, and a run goes on from there; the trainers'
own tools believe that a file which exists is whole.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, BinaryIO

from harness.errors import SetupError
from harness.store import atomic_file
from runners.contents import DATA_SET_FILES, EMPTY_DATA_SET, data_set_files, tell_data_set
from runners.contents import NAME as CONTENTS
from runners.manifests import Manifest
from runners.model_folder import file_sha256
from runners.shards import METADATA, About, Kept, ShardSink, write_shard
from runners.states import Facts, LastNorm
from runners.tensor_bytes import Column, write_tensors
from runners.tensors import NAMES, joined, raw, save

GROUP = 2000  # SpecForge's files to a folder
AUX_OF_SPECFORGE = 3


@dataclass(frozen=True, slots=True)
class Layout:
    """What one trainer reads.

    Attributes:
        last_norm: The side of the final norm on which it wants the last state, and why.
        n_aux: How many auxiliary layers it reads; None for any number.
        name: Row -> path below the folder; `pattern` finds such paths, `folders` where they are.
        write: One sample into a file.
        contiguous: Whether rows must be 0, 1, 2 ... without a gap, for a data set beside the files has the same.
        beside: Patterns of what else is written into the folder, and taken away there.
    """

    last_norm: LastNorm
    why: str
    n_aux: int | None
    name: Callable[[int], str]
    folders: str
    pattern: re.Pattern[str]
    write: Callable[[BinaryIO, Kept], None]
    contiguous: bool
    beside: tuple[str, ...] = ()


def _specforge_name(row: int) -> str:
    group = row // GROUP * GROUP
    return f"rows_{group}-{group + GROUP}/data_{row}.ckpt"


def _write_specforge(file: BinaryIO, kept: Kept) -> None:
    """torch.save of input_ids [S], loss_mask [S], hidden_state [1, S, H], aux_hidden_state [1, S, 3H]."""
    states, sample = kept.states, kept.sample
    features = {"hidden_state": states.last[None], "aux_hidden_state": states.aux.flatten(1)[None]}
    save(file, features, {"input_ids": list(sample.ids), "loss_mask": list(sample.loss_mask)})


def _write_speculators(file: BinaryIO, kept: Kept) -> None:
    """token_ids [S] and hidden_states [S, layers, H], the last layer in the last slot."""
    states, ids = kept.states, kept.sample.ids
    together = joined(states.aux, states.last)
    write_tensors(
        file,
        [
            Column("token_ids", "I64", (len(ids),), [ids.tobytes()]),
            Column("hidden_states", NAMES[together.dtype], tuple(together.shape), [raw(together)]),
        ],
        METADATA,
    )


LAYOUTS: Mapping[str, Layout] = {
    "specforge": Layout(
        "post",
        "its trainer applies lm_head to it directly",
        AUX_OF_SPECFORGE,
        _specforge_name,
        "rows_*-*",
        re.compile(r"rows_(\d+)-(\d+)/data_(\d+)\.ckpt"),
        _write_specforge,
        contiguous=False,
    ),
    "speculators": Layout(
        "pre",
        "its trainer applies the final norm itself",
        None,
        lambda row: f"hidden_states/hs_{row}.safetensors",
        "hidden_states",
        re.compile(r"hidden_states/hs_(\d+)\.safetensors"),
        _write_speculators,
        contiguous=True,
        beside=(*DATA_SET_FILES, ".data-set"),
    ),
}


def check_layout(name: str, facts: Facts) -> None:
    """Whether the back end delivers what this layout needs.

    Raises:
        SetupError: No such layout, the other side of the norm, or another number of layers.
    """
    if name == "native":
        return
    if name not in LAYOUTS:
        raise SetupError(f"--layout {name!r} is none of native, {', '.join(LAYOUTS)}")
    layout = LAYOUTS[name]
    if facts.last_norm != layout.last_norm:
        raise SetupError(
            f"--layout {name} needs the last state {layout.last_norm} the final norm ({layout.why}); {facts.backend} "
            f"was asked for or gives it {facts.last_norm}, and that cannot be turned into the other"
        )
    if layout.n_aux not in (None, len(facts.aux_layers)):
        raise SetupError(f"--layout {name} takes {layout.n_aux} auxiliary layers; --layers names {facts.aux_layers}")


def data_set_of(layout: str) -> Mapping[str, Any] | None:
    """The data set of a run that begins: nothing yet, or None where the layout has none."""
    return EMPTY_DATA_SET if layout in LAYOUTS and LAYOUTS[layout].contiguous else None


class LayoutSink:
    """Files of a trainer, a row a sample, in groups that each have a manifest."""

    def __init__(self, folder: Path, number: int, about: About, layout: Layout, whole: Sequence[Manifest]) -> None:
        """Args:
        number: Of the next shard.
        whole: What stands there.

        Where rows may not have gaps, those of shards that are gone are given out first, in order: samples come in the
        order of their file, so each gets its own row again. The data set of before goes, for it tells of the old rows.
        """
        self._folder, self._number, self._about, self._layout = folder, number, about, layout
        rows = {side["row"] for manifest in whole for side in manifest.side_files}
        end = max(rows, default=-1) + 1
        self._gaps = [row for row in range(end) if row not in rows] if layout.contiguous else []
        self._rows = chain(list(self._gaps), count(end))
        for path in data_set_files(folder) if self._gaps else ():
            path.unlink()

    def write(self, kept: Sequence[Kept], set_aside: Sequence[Mapping[str, Any]]) -> Manifest:
        """One group more: every file whole, then its manifest."""
        rows = list(islice(self._rows, len(kept)))
        sides = [self._write_one(row, one) for row, one in zip(rows, kept, strict=True)]
        about = replace(self._about, set_aside=set_aside, side_files=sides)
        manifest = write_shard(self._folder, self._number, kept, about)
        self._number, self._gaps = self._number + 1, self._gaps[len(kept) :]
        return manifest

    def _write_one(self, row: int, one: Kept) -> dict[str, Any]:
        name = self._layout.name(row)
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        with atomic_file(path) as file:
            self._layout.write(file, one)
        size = path.stat().st_size
        return {"name": name, "n_bytes": size, "sha256": file_sha256(path), "sample": one.sample.id, "row": row}

    def finish(self) -> None:
        """The data set beside the files, for the trainer that reads one.

        Raises:
            SetupError: Rows are missing that no sample is left for, or it cannot be written.
        """
        if self._gaps:
            raise SetupError(
                f"{self._folder}: row {self._gaps[0]} is missing, its shard is gone, and the samples file has too few "
                "samples for it now; rows of this layout may not move: give the samples file of before, or begin anew "
                "in another --out"
            )
        if self._layout.contiguous:
            from runners.layout_speculators import write_data_set  # late: a library of its own

            tell_data_set(self._folder, write_data_set(self._folder))


SHARD_FILES = ("shard-[0-9]*.json", "shard-[0-9]*.safetensors", ".shard-*", CONTENTS)


def refuse_foreign(layout: str, folder: Path) -> None:
    """For a folder in which no run of this layout began: nothing there may have a name that the run would write.

    Raises:
        SetupError: Something has: it is somebody else's, and is left as it is.
    """
    found = [path for pattern in (*SHARD_FILES, f".{CONTENTS}.*") for path in folder.glob(pattern)]
    if chosen := LAYOUTS.get(layout):
        found += [path for pattern in chosen.beside for path in folder.glob(pattern)] + _files(folder, chosen)
    if found:
        raise foreign(str(min(found)), str(folder), layout)


def foreign(name: str, folder: str, layout: str) -> SetupError:
    """What is said of a file of somebody else that has a name of ours."""
    return SetupError(
        f"{name}: it stands there already, and no run of tokenproof was in {folder} with --layout {layout}: "
        "choose another --out"
    )


def _files(folder: Path, layout: Layout) -> list[Path]:
    """What has the name of a file of this layout, or of one that is being written."""
    found = sorted(folder.glob(f"{layout.folders}/*"))
    return [p for p in found if layout.pattern.fullmatch(p.relative_to(folder).as_posix()) or p.name.startswith(".")]


def sink_for(layout: str, folder: Path, number: int, about: About, whole: Sequence[Manifest]) -> ShardSink | LayoutSink:
    """Where the states of a run go; files of a group that was never finished are removed.

    The folder must be known to be of such a run, or `refuse_foreign` have found nothing there.
    """
    if layout == "native":
        return ShardSink(folder, number, about)
    chosen = LAYOUTS[layout]
    sink = LayoutSink(folder, number, about, chosen, whole)
    told = {side["name"] for manifest in whole for side in manifest.side_files}
    for path in _files(folder, chosen):
        if path.relative_to(folder).as_posix() not in told:
            path.unlink()  # the reader would take it for a sample
    return sink
