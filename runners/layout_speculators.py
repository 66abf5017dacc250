"""The data set on disk that speculators reads beside the states: a row a file, in the order of the rows.

The owner of datasets. It is made anew from the shards whenever a run has come to its end, and read back at once.
"""

import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import datasets

from harness.errors import SetupError
from runners.manifests import read_manifest
from runners.shard_reading import read_ids
from runners.shards import manifests

PARTS = ".data-set"  # where it is made, inside the folder: a rename is then enough
FEATURES = {"input_ids": "int32", "loss_mask": "int8"}


def write_data_set(folder: Path) -> int:
    """The data set of all rows: input_ids, loss_mask, seq_len; `load_from_disk(folder)` reads it as torch tensors.

    Gives the number of rows. Nothing is written where no sample was kept.

    Raises:
        SetupError: It cannot be written, or does not read back as it should.
    """
    if not any(read_manifest(path).samples for path in manifests(folder)):
        return 0  # the library makes no data set of nothing
    parts = folder / PARTS
    shutil.rmtree(parts, ignore_errors=True)
    features = {name: datasets.List(datasets.Value(kind)) for name, kind in FEATURES.items()}
    shown = datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        made = datasets.Dataset.from_generator(
            _rows,
            features=datasets.Features({**features, "seq_len": datasets.Value("int32")}),
            cache_dir=str(parts / "cache"),
            gen_kwargs={"folder": str(folder)},
        )
        made.with_format("torch").save_to_disk(parts / "made")
        n_rows = len(made)
        _move(parts / "made", folder)
        _check(folder, n_rows)
        return n_rows
    except (OSError, datasets.exceptions.DatasetsError) as error:
        raise SetupError(f"{folder}: the data set cannot be written ({error!s:.200}); the states stay") from error
    finally:
        shutil.rmtree(parts, ignore_errors=True)
        if shown:
            datasets.enable_progress_bars()


def _rows(folder: str) -> Iterator[dict[str, Any]]:
    for _, run in groupby(_places(Path(folder)), key=lambda place: place[1]):
        samples: list[Any] = []  # of one shard, whose rows mostly stand one behind the other
        for _, path, number in run:
            samples = samples or list(read_ids(path))
            ids, mask = samples[number]
            yield {"input_ids": ids.tolist(), "loss_mask": list(mask), "seq_len": len(ids)}


def _places(folder: Path) -> list[tuple[int, Path, int]]:
    """(row, manifest, place in its shard) of every row, in order; a shard computed again has rows of before."""
    sides = ((path, enumerate(read_manifest(path).side_files)) for path in manifests(folder))
    return sorted((side["row"], path, number) for path, of_shard in sides for number, side in of_shard)


def _move(made: Path, folder: Path) -> None:
    """Old parts away, new ones in, the file without which nothing is a data set last."""
    (folder / "state.json").unlink(missing_ok=True)
    for old in folder.glob("data-*.arrow"):
        old.unlink()
    for part in sorted(made.iterdir(), key=lambda path: path.name == "state.json"):
        part.replace(folder / part.name)


def _check(folder: Path, n_rows: int) -> None:
    found = datasets.load_from_disk(str(folder))
    rows = [row for row, _, _ in _places(folder)]
    if len(found) != n_rows or rows != list(range(n_rows)):
        raise SetupError(f"{folder}: {len(found)} rows in the data set, {len(rows)} files of states; run it again")
