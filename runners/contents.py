"""What must stand in a folder of shards, as JSON lines: every sample of its run, and the data set beside the states.

Written when a run begins, before its first shard. So a shard that is gone together with its manifest is missed, and so
is what a broken run did not come to. The last line is the hash of all before it. Needs no torch.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

from harness import __version__
from harness.errors import HarnessError, SetupError
from harness.response import loads
from harness.store import atomic_file
from runners.manifests import Manifest
from runners.model_folder import file_sha256

NAME = "contents.jsonl"
FORMAT = "tokenproof-contents/1"
MAX_LINE = 1 << 20
DATA_SET_FILES = ("data-*.arrow", "dataset_info.json", "state.json")
AGAIN = "give the command of the run again"
N_NAMED = 5

Hashes = Mapping[str, tuple[str, str]]
"""Sample id -> (ids_sha256, mask_sha256)."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What stands in `contents.jsonl`.

    Attributes:
        samples_file: Name and sha256 of the file that the run took its samples from.
        samples: All that the run is to leave in shards, those included that stood there before; in the file's order.
        data_set: `rows`, and name, bytes and sha256 of its `files`, of a layout that has one; both are empty until the
            run comes to its end.
    """

    layout: str
    samples_file: Mapping[str, Any]
    samples: Hashes
    data_set: Mapping[str, Any] | None = None


EMPTY_DATA_SET: Mapping[str, Any] = {"rows": 0, "files": []}


def write_contents(folder: Path, contents: Contents) -> None:
    """Put it into the folder, in the place of the last run's.

    Raises:
        SetupError: It cannot be written.
    """
    head: dict[str, Any] = {"format": FORMAT, "made_by": f"tokenproof {__version__}", "layout": contents.layout}
    head |= {"samples_file": contents.samples_file, "n": len(contents.samples), "data_set": contents.data_set}
    total = hashlib.sha256()
    with atomic_file(folder / NAME) as file:
        for value in chain([head], ([name, *hashes] for name, hashes in contents.samples.items())):
            line = json.dumps(value, ensure_ascii=False).encode() + b"\n"
            total.update(line)
            file.write(line)
        file.write(_last(total.hexdigest()))


def _last(sha256: str) -> bytes:
    return json.dumps({"sha256": sha256}).encode() + b"\n"


def read_contents(folder: Path) -> Contents:
    """What was written.

    Raises:
        SetupError: It is not there, or a byte of it has changed.
    """
    path = folder / NAME
    try:
        with path.open("rb") as file:
            return _read(file)
    except OSError as error:
        raise SetupError(
            f"{NAME} cannot be read ({error.strerror or error}), and it says what must be there"
        ) from error
    except (HarnessError, ValueError, TypeError, KeyError) as error:
        raise SetupError(f"{NAME} is not what was written ({error!s:.100}), and it says what must be there") from error


def _read(file: BinaryIO) -> Contents:
    total, line = hashlib.sha256(), file.readline(MAX_LINE)
    head = loads(line)
    if not isinstance(head, dict) or head.get("format") != FORMAT or type(head["n"]) is not int:
        raise ValueError(f"its first line is none of {FORMAT}")
    samples: dict[str, tuple[str, str]] = {}
    for _ in range(head["n"]):
        total.update(line)
        line = file.readline(MAX_LINE)
        name, ids_sha256, mask_sha256 = loads(line)
        samples[name] = (ids_sha256, mask_sha256)
    total.update(line)
    if file.read(MAX_LINE) != _last(total.hexdigest()):
        raise ValueError("its hash is another")
    told = head["data_set"]
    if type(head["samples_file"]["name"]) is not str or (told is not None and not _is_data_set(told)):
        raise ValueError("its first line has other members")
    return Contents(head["layout"], head["samples_file"], samples, told)


def _is_data_set(told: Any) -> bool:
    kinds = {"name": str, "n_bytes": int, "sha256": str}
    return type(told["rows"]) is int and all(
        all(type(file[key]) is kind for key, kind in kinds.items()) and Path(file["name"]).name == file["name"]
        for file in told["files"]
    )


def tell_data_set(folder: Path, rows: int) -> None:
    """Note the data set that stands in the folder now, every file of it with its checksum.

    Raises:
        SetupError: A file cannot be read, or the contents cannot be written.
    """
    try:
        files = [
            {"name": path.name, "n_bytes": path.stat().st_size, "sha256": file_sha256(path)}
            for path in data_set_files(folder)
        ]
    except OSError as error:
        raise SetupError(f"{error.filename} cannot be read: {error.strerror or error}; {AGAIN}") from error
    write_contents(folder, replace(read_contents(folder), data_set={"rows": rows, "files": files}))


def data_set_files(folder: Path) -> list[Path]:
    """What has the name of a file of a data set."""
    return sorted(path for pattern in DATA_SET_FILES for path in folder.glob(pattern))


def contents_problems(folder: Path, manifests: Sequence[Manifest]) -> Iterator[str]:
    """What the folder lacks, or has too much, held against its contents; the data set's every byte is read."""
    try:
        contents = read_contents(folder)
    except SetupError as error:
        yield f"{error}: {AGAIN}, and it is written anew"
        return
    lines = {line["id"]: (line, m.file) for m in manifests for line in chain(m.samples, m.set_aside)}
    if missing := [name for name in contents.samples if name not in lines]:
        yield f"in no shard: {named(missing)} of the run; shards are gone, or the run did not come to its end; {AGAIN}"
    if strange := [name for name in lines if name not in contents.samples]:
        yield (
            f"in {files_of(strange, lines)}: {named(strange)} that the last run did not have any more (its samples "
            f"file was {contents.samples_file['name']}): {way_out(contents.data_set)}, or give it with a file that has "
            "them"
        )
    shared = ((name, lines[name][0]) for name in contents.samples if name in lines)
    if other := [n for n, line in shared if (line["ids_sha256"], line["mask_sha256"]) != contents.samples[n]]:
        where = files_of(other, lines)
        yield f"in {where}: {named(other)} with other ids or another loss_mask than in the last run; {AGAIN}"
    if contents.data_set is not None:
        yield from _data_set_problems(folder, contents.data_set, sum(len(m.side_files) for m in manifests))


def _data_set_problems(folder: Path, told: Mapping[str, Any], n_files: int) -> Iterator[str]:
    if told["rows"] != n_files:
        yield (
            f"the data set has {told['rows']} rows, and {n_files} files of states stand beside it: the run did not "
            f"come to its end; {AGAIN}"
        )
    for file in told["files"]:
        if problem := file_problem(folder, file):
            yield f"{problem}; {AGAIN}, and the data set is made anew"
    known = {file["name"] for file in told["files"]}
    for path in data_set_files(folder):
        if path.name not in known:
            yield f"{path.name}: {NAME} does not tell of it, and a trainer may read it"


def file_problem(folder: Path, told: Mapping[str, Any]) -> str:
    """What does not fit in a file of which name, n_bytes and sha256 are told; empty where it is what was written."""
    path = folder / told["name"]
    try:
        if path.stat().st_size != told["n_bytes"] or file_sha256(path) != told["sha256"]:
            return f"{told['name']}: its bytes are not those that were written"
    except OSError as error:
        return f"{told['name']}: {error.strerror or error}"
    return ""


def way_out(data_set: Mapping[str, Any] | None) -> str:
    """How to be rid of samples that a folder should not have."""
    if data_set is not None:
        return "rows of this layout may not move: begin anew in another --out"
    return f"remove these shards, each with its manifest, and {AGAIN}"


def named(names: Collection[str]) -> str:
    """How many samples, and the names of the first."""
    first = ", ".join(f"{name!r:.80}" for name in islice(names, N_NAMED))
    more = ", ..." if len(names) > N_NAMED else ""
    return f"sample {first}" if len(names) == 1 else f"{len(names)} samples ({first}{more})"


def files_of(names: Collection[str], lines: Mapping[str, tuple[Any, str]]) -> str:
    """The shards that these samples stand in, the first of them by name."""
    files = sorted({lines[name][1] for name in names})
    return ", ".join(files[:N_NAMED]) + (f" and {len(files) - N_NAMED} more" if len(files) > N_NAMED else "")
