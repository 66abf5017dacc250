"""Folders of cassettes: where one stands, which there are, and one of them read. Knows nothing of YAML or HTTP."""

import os
import re
from pathlib import Path

from harness.cassette import load_recording
from harness.errors import SetupError
from harness.recording import Recording
from harness.store import MAX_BYTES, walk

CASSETTE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}/[a-z0-9][a-z0-9._-]{0,63}")


def cassette_path(folder: str | os.PathLike[str], name: str, ending: str = ".yaml") -> Path:
    """Where the cassette `provider/scenario` stands, whether it exists or not; goldens are called in the same way.

    Raises:
        SetupError: For a name of another form, or one that leads out of the folder by a link.
    """
    path = Path(folder, name + ending)
    if not CASSETTE_NAME.fullmatch(name) or ".." in name:
        raise SetupError(f"{name!r:.80} was asked for; expected PROVIDER/SCENARIO in letters a-z, digits, - .")
    if not path.resolve().is_relative_to(Path(folder).resolve()):
        raise SetupError(f"{name!r} is a link out of {folder}; expected a file in it")
    return path


def cassette_files(folder: str | os.PathLike[str]) -> list[Path]:
    """Every cassette of a folder, in order of name."""
    return [Path(file) for file in walk(os.fspath(folder)) if file.endswith((".yaml", ".yml"))]


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """One cassette as a recording.

    Raises:
        SetupError: It is missing, too large, or no cassette that can be replayed whole.
    """
    if Path(path).exists() and not Path(path).is_file():
        raise SetupError(f"no cassette {os.fspath(path)} (no regular file)")
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SetupError(f"no cassette {os.fspath(path)} ({error.strerror or error})") from error
    if len(data) > MAX_BYTES:
        raise SetupError(f"{os.fspath(path)}: refused: a cassette of more than {MAX_BYTES >> 20} MiB")
    return load_recording(os.fspath(path), data)
