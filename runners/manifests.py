"""Manifests: what a shard says of itself, as JSON for eyes, and proven to be what was written.

A manifest holds the run (model, back end, layers, dtype, hashes), the tensors with their checksums, and the samples in
order. It ends with the hash of its own text.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness import __version__
from harness.errors import HarnessError, SetupError
from harness.inputs import golden_text
from harness.response import loads
from harness.vocab import VOCAB_SHA256
from runners.differences import differences
from runners.states import LAYER_MEANING, NORM_MEANING, Facts
from runners.tensor_bytes import Written

FORMAT = "tokenproof-states/1"
MAX_BYTES = 256 << 20
KEYS = ("format", "made_by", "run", "samples_file", "file", "tensors", "samples", "set_aside", "side_files", "sha256")
MASK_MEANING = "aligned with input_ids: 1 on an id that the model sampled and that is trained on, 0 on the prompt"
HASH_MEANING = "ids_sha256: of a sample's input_ids as little-endian int64; mask_sha256: of its loss_mask, a byte an id"


LINE: Mapping[str, type] = {
    **{"id": str, "n_tokens": int, "n_prompt": int, "n_unmasked": int},
    **{"ids_sha256": str, "mask_sha256": str},
}
"""What is said of every sample."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What stands in `shard-NNNNNN.json`.

    Attributes:
        run: What all shards of a run share; a resumed run must have the same.
        samples_file: Name and sha256 of the file that the samples came from.
        file: Name of the shard beside it.
        written: Its tensors, header hash and size.
        samples: What LINE names of each, in order, and what was proven.
        set_aside: The same of samples that were computed and kept out, with the reason.
        side_files: Name, bytes and sha256 of files of another layout that hold the states instead.
    """

    run: Mapping[str, Any]
    samples_file: Mapping[str, Any]
    file: str
    written: Written
    samples: Sequence[Mapping[str, Any]]
    set_aside: Sequence[Mapping[str, Any]] = ()
    side_files: Sequence[Mapping[str, Any]] = ()

    @property
    def n_tokens(self) -> int:
        """Of all samples."""
        return sum(sample["n_tokens"] for sample in self.samples)

    @property
    def n_bytes(self) -> int:
        """Of the shard and its side files."""
        return self.written.n_bytes + sum(int(side["n_bytes"]) for side in self.side_files)


def run_block(facts: Facts, *, layout: str, max_length: int | None, over_long: str) -> dict[str, Any]:
    """What all shards of a run say."""
    told = asdict(facts)
    layers = {"aux": list(told.pop("aux_layers")), "last": facts.n_layers, "meaning": LAYER_MEANING}
    return {
        **told,
        "layers": layers,
        "last_norm_meaning": NORM_MEANING[facts.last_norm],
        "loss_mask_meaning": MASK_MEANING,
        "hash_meaning": HASH_MEANING,
        "vocab_sha256": VOCAB_SHA256,
        "layout": layout,
        "max_length": max_length,
        "over_long": over_long,
    }


def run_differences(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """In what two runs differ, a line each and nothing of it cut; empty where they are one."""
    return [f"{name} is {was} there and {is_now} now" for name, was, is_now in differences(there, now)]


def manifest_text(manifest: Manifest) -> str:
    """The text of the file."""
    value = {
        "format": FORMAT,
        "made_by": f"tokenproof {__version__}",
        "run": manifest.run,
        "samples_file": manifest.samples_file,
        "file": {"name": manifest.file, "n_bytes": manifest.written.n_bytes, "header": manifest.written.header_sha256},
        "tensors": manifest.written.tensors,
        "samples": list(manifest.samples),
        "set_aside": list(manifest.set_aside),
        "side_files": list(manifest.side_files),
    }
    return golden_text(value | {"sha256": _hash(value)})


def _hash(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(golden_text(dict(value)).encode()).hexdigest()


def _is_line(line: object) -> bool:
    return isinstance(line, dict) and all(type(line.get(key)) is kind for key, kind in LINE.items())


def read_manifest(path: Path) -> Manifest:
    """A manifest that is whole: its text is exactly what was written.

    Raises:
        SetupError: It is none, or a byte of it has changed.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        value = loads(data) if len(data) <= MAX_BYTES else None
    except (OSError, HarnessError) as error:
        raise SetupError(f"{path}: no manifest can be read: {error!s:.200}") from error
    if not isinstance(value, dict) or tuple(value) != KEYS or value["format"] != FORMAT:
        raise SetupError(f"{path} is no manifest of {FORMAT}; expected the keys {', '.join(KEYS)}")
    rest = {key: value[key] for key in KEYS if key != "sha256"}
    if value["sha256"] != _hash(rest) or golden_text(value).encode() != data:
        raise SetupError(f"{path}: its text is not the one that was written")
    if odd := [line for line in (*value["samples"], *value["set_aside"]) if not _is_line(line)]:
        raise SetupError(f"{path}: a sample without {', '.join(LINE)}: {odd[0]!r:.80}")
    file_of = value["file"]
    written = Written(value["tensors"], file_of["header"], file_of["n_bytes"])
    parts = (value["samples"], value["set_aside"], value["side_files"])
    return Manifest(value["run"], value["samples_file"], file_of["name"], written, *parts)
