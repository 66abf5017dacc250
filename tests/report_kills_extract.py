"""`make kills-extract`: extraction killed at random moments, changed bytes, shards removed, a disk that fills up.

Each kill is a `kill -9` of a process that extracts with the tiny Llama, at a moment drawn over the time that an
undisturbed run takes; the next process goes on in the same folder. After each kill every shard must be whole, nothing
that stood there may be gone, and no sample may stand twice; when a run gets to its end, all samples stand there with
their ids, and with the states of an undisturbed run up to the rounding of a batch of another shape. A table, then one
JSON line; 1 where the claim does not hold.
"""

import argparse
import errno
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import store
from harness.errors import SetupError
from runners.backend_transformers import Loading, TransformersBackend
from runners.examining import Examiner, examiner
from runners.extract_job import Job, run_job
from runners.manifests import read_manifest
from runners.proof import spot
from runners.shard_reading import sample_at
from runners.shards import manifests, problems
from runners.standing import pair
from runners.states import Backend, Sample, States
from runners.tensors import from_raw
from tests.runners.states_kit import drawn, faults, samples_file, tiny

FLIPS, FULL_DISKS = 100, 40
N_SAMPLES = 60


@dataclass
class Found:
    """What was counted; every number but `kills` and `runs` must be 0."""

    kills: int = 0
    runs: int = 0
    lost: int = 0
    doubled: int = 0
    torn: int = 0
    other_ids: int = 0
    other_states: int = 0
    failed: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> int:
        """Everything that may not be."""
        return self.lost + self.doubled + self.torn + self.other_ids + self.other_states + self.failed


@dataclass(frozen=True)
class Bench:
    """What every run shares."""

    samples: Sequence[Sample]
    file: Path
    backend: Backend
    examiner: Examiner
    truth: Sequence[States]

    def job(self, out: Path) -> Job:
        """Many small shards."""
        return Job(self.file, out, shard_bytes=30_000)

    def extract(self, out: Path) -> None:
        """A run in this process."""
        run_job(self.job(out), self.backend, examiner=self.examiner)


def bench(folder: Path) -> Bench:
    """Samples, a file of them, a loaded model, and the states of each sample alone."""
    samples = drawn(N_SAMPLES)
    backend = TransformersBackend(tiny("llama"), Loading(dtype="fp32"))
    truth = [backend.states([sample.ids])[0] for sample in samples]
    found = examiner(tiny("llama"), backend.facts, None)
    return Bench(samples, samples_file(folder / "samples.parquet", samples), backend, found, truth)


def child(made: Bench, out: Path) -> int:
    """A process that extracts, with the model loaded already; its number."""
    pid = os.fork()
    if pid:
        return pid
    code = 3
    try:
        made.extract(out)
        code = 0
    finally:
        os._exit(code)


def standing(out: Path, found: Found) -> dict[str, tuple[str, str]]:
    """Sample -> (shard, hash) of what stands there; notes what is torn or doubled."""
    there: dict[str, tuple[str, str]] = {}
    for path in manifests(out) if out.exists() else []:
        manifest, wrong = problems(path)
        if manifest is None or wrong:
            found.torn += 1
            found.notes += wrong[:1]
            continue
        for line in manifest.samples:
            found.doubled += line["id"] in there
            there[line["id"]] = (path.name, line["ids_sha256"])
    return there


def kills(made: Bench, place: Path, points: int, rng: random.Random) -> Found:
    """So many kills, spread over as many runs as they take."""
    found = Found()
    started = time.monotonic()
    made.extract(place / "undisturbed")
    whole_s = time.monotonic() - started
    while found.kills < points and not found.bad:
        out, before, ended = place / f"run{found.runs}", dict[str, tuple[str, str]](), False
        while not ended:
            pid = child(made, out)
            time.sleep(rng.random() * whole_s * 1.1)
            if found.kills < points:
                os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            killed = os.WIFSIGNALED(status)
            found.kills += killed
            found.failed += not killed and os.waitstatus_to_exitcode(status) != 0
            there = standing(out, found)
            found.lost += sum(there.get(name) != value for name, value in before.items())
            before, ended = there, not killed
        found.runs += 1
        compare(made, out, before, found)
    return found


def compare(made: Bench, out: Path, there: dict[str, tuple[str, str]], found: Found) -> None:
    """A finished folder against the samples and their states."""
    found.lost += len(made.samples) - len(there)
    whole = [(path, read_manifest(path)) for path in manifests(out)]
    places = {line["id"]: (path, told, k) for path, told in whole for k, line in enumerate(told.samples)}
    for sample, alone in zip(made.samples, made.truth, strict=True):
        if sample.id not in there:
            continue
        stored = sample_at(*places[sample.id])
        found.other_ids += stored.ids != sample.ids or stored.loss_mask != sample.loss_mask
        aux, last = (stored.column(name) for name in ("aux_hidden_states", "hidden_states"))
        read = [from_raw(b"".join(c.pieces), c.dtype, c.shape) for c in (aux, last)]
        found.other_states += not spot(sample.id, "fp32", States(*read, "post"), alone).holds


def flips(out: Path, n: int, rng: random.Random) -> int:
    """How many of n changed bytes, one at a time anywhere in a folder, `shards verify` finds."""
    files = [path for path in sorted(out.iterdir()) if not path.name.startswith(".")]
    sizes = [path.stat().st_size for path in files]
    seen = 0
    for _ in range(n):
        path = rng.choices(files, sizes)[0]
        good = path.read_bytes()
        at, bit = rng.randrange(len(good)), 1 << rng.randrange(8)
        path.write_bytes(good[:at] + bytes([good[at] ^ bit]) + good[at + 1 :])
        seen += bool(faults(out))
        path.write_bytes(good)
    return seen


def removals(out: Path) -> tuple[int, int]:
    """(shards of a folder, how many of them `shards verify` misses where tensors and manifest are gone)."""
    seen, paths = 0, manifests(out)
    for path in paths:
        kept = {part: part.read_bytes() for part in pair(path)}
        for part in kept:
            part.unlink()
        seen += bool(faults(out))
        for part, data in kept.items():
            part.write_bytes(data)
    return len(paths), seen


class Full:
    """A file on a disk with so many bytes left; `left` is shared by all files."""

    def __init__(self, file: Any, left: list[int]) -> None:
        self._file, self._left = file, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "Full":
        self._file.__enter__()
        return self

    def __exit__(self, *why: Any) -> Any:
        return self._file.__exit__(*why)

    def write(self, data: bytes | memoryview) -> int:
        """As much as there is room for, then the error of a full disk."""
        room = max(0, self._left[0])
        self._left[0] -= len(data)
        if self._left[0] < 0:
            self._file.write(data[:room])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self._file.write(data))


@contextmanager
def full_disk(n_bytes: int) -> Iterator[None]:
    """Inside, atomic writes share a disk that has so many bytes left."""
    real, left = store.tempfile.NamedTemporaryFile, [n_bytes]
    store.tempfile.NamedTemporaryFile = lambda *a, **k: Full(real(*a, **k), left)  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        store.tempfile.NamedTemporaryFile = real  # type: ignore[misc]


def full_disks(made: Bench, place: Path, n: int, rng: random.Random) -> Found:
    """n runs that meet a full disk somewhere; each must say so, leave whole shards, and end where there is room."""
    found = Found()
    total = sum(path.stat().st_size for path in (place / "undisturbed").iterdir())
    for k in range(n):
        out = place / f"full{k}"
        try:
            with full_disk(rng.randrange(total)):
                made.extract(out)
            found.failed += 1
        except SetupError as error:
            found.failed += "No space left on device" not in str(error)
        there = standing(out, found)
        found.failed += any(path.name.startswith(".shard") for path in out.iterdir())  # left-overs fill a full disk
        made.extract(out)
        after = standing(out, found)
        found.lost += sum(after.get(name) != value for name, value in there.items())
        found.runs += 1
        compare(made, out, after, found)
    return found


def main(arguments: Sequence[str]) -> int:
    """Prints the table and the JSON line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    rng = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        made = bench(place)
        killed = kills(made, place, asked.points, rng)
        print(f"kill -9: {killed}", flush=True)
        n_flips, n_full = min(FLIPS, asked.points), min(FULL_DISKS, asked.points)
        seen = flips(place / "undisturbed", n_flips, rng)
        n_removed, missed = removals(place / "undisturbed")
        full = full_disks(made, place, n_full, rng)
        print(f"full disk: {full}", flush=True)
    figures = {
        "kill_points": killed.kills,
        "runs_taken_to_their_end": killed.runs,
        **{key: getattr(killed, key) for key in ("lost", "doubled", "torn", "other_ids", "other_states", "failed")},
        "flipped_bytes": n_flips,
        "flips_found": seen,
        "shards_removed": n_removed,
        "removals_found": missed,
        "full_disks": full.runs,
        "full_disks_bad": full.bad,
    }
    print(json.dumps(figures))
    return int(killed.bad or full.bad or seen < n_flips or missed < n_removed or killed.kills < asked.points)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
