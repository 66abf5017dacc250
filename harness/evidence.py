"""Cassette files as evidence: what each holds, where it came from, and for whom it may speak.

Reads the files; judges nothing. A recording speaks for a provider at the place where it was made: `live` ones for a
live provider, what the emulator said for that emulator on loopback, hand-made files for nobody.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from harness.cassette import load_recording, read_cassette
from harness.cassette_files import cassette_files
from harness.errors import SetupError
from harness.inputs import Unusable
from harness.recording import Provenance, Recording
from harness.transport import Target
from harness.types import Exchange

MAX_FILE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Filed:
    """A cassette file.

    Attributes:
        path: As reasons and tickets name it.
        recording: None where it cannot be read, which `trouble` then says.
        exchanges: Its answers.
    """

    path: str
    sha256: str
    recording: Recording | None
    exchanges: tuple[Exchange, ...] = ()
    trouble: str = ""

    @property
    def provenance(self) -> Provenance:
        """Where it came from; `unstated` where it cannot be read."""
        return self.recording.provenance if self.recording else Provenance()


def read_cassettes(folder: Path, root: Path) -> tuple[Filed, ...]:
    """Every cassette below a folder, in order of its name; paths are told from `root` where they lie in it."""
    return tuple(_filed(path, root) for path in cassette_files(folder))


def _filed(path: Path, root: Path) -> Filed:
    told = path.resolve()
    name = told.relative_to(root.resolve()).as_posix() if told.is_relative_to(root.resolve()) else str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return Filed(name, "", None, trouble=f"{name}: cannot be read: {error.strerror or error}")
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        if len(data) > MAX_FILE_BYTES:
            raise Unusable(f"{name}: more than {MAX_FILE_BYTES >> 20} MiB; expected one scenario of one provider")
        recording = load_recording(name, data)
        entries = list(read_cassette(name, data))
    except (SetupError, Unusable) as error:
        return Filed(name, sha256, None, trouble=str(error) if name in str(error) else f"{name}: {error}")
    if trouble := next((f"{e.place}: {e.trouble}" for e in entries if e.exchange is None), ""):
        return Filed(name, sha256, None, trouble=trouble)
    return Filed(name, sha256, recording, tuple(e.exchange for e in entries if e.exchange))


def speaks(provenance: Provenance, target: Target) -> bool:
    """Whether a recording is evidence for what answers at that place."""
    kind = "emulator" if target.is_loopback else "live"
    return provenance.kind == kind and provenance.base_url.rstrip("/") == target.base_url


def means(pin: str, tag: str) -> bool:
    """Whether a pin means an endpoint: its tag, or the tag's slug."""
    return bool(tag) and pin.lower() in (tag.lower(), tag.lower().partition("/")[0])
