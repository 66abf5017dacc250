"""Files: whatever a user points at -> entries, one an answer, in order, in bounded memory; goldens; safe writing.

Knows nothing of verdicts, tokens or habits. What a JSON value stands for is inputs.py's business, a cassette's text
cassette.py's.
"""

import contextlib
import errno
import gzip
import io
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from harness.errors import HarnessError, SetupError
from harness.inputs import EXPECTED_GOLDEN, Entry, Golden, Unusable, exchange, golden
from harness.response import loads
from harness.types import Exchange

if TYPE_CHECKING:
    from harness.ticket import Ticket

MAX_BYTES = 32 << 20
"""Of a line, or of a file that holds one answer; the longest real stream with all its logprobs would have 26 MB."""
MAX_VALUES = 2_500_000
"""In one JSON text, counted by its commas and brackets: at up to 120 bytes each they are what fills the memory."""
STREAM_STARTS = (b"data:", b":", b"event:", b"id:", b"retry:")
YAML_STARTS = (b"interactions:", b"version:", b"---", b"%YAML", b"#")
SUFFIXES = (".json", ".jsonl", ".ndjson", ".sse", ".txt", ".yaml", ".yml")
EXPECTED = "expected a chat-completion JSON, SSE text, JSONL (.gz or not) or a VCR cassette"

NO_FILE = "it is a device, a pipe or a socket, and no regular file"
NAME_BYTES = 255  # of one name in a path; file systems take no longer ones
BOM = b"\xef\xbb\xbf"

Numbered = Iterator[tuple[int, bytes | None]]


class Lines:
    """(number, line) of each line that is not blank; None for a line over MAX_BYTES, which is passed over piecewise.

    Attributes:
        number: Of the line that was read last, 0 before the first.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.number = stream, 0

    def __iter__(self) -> Numbered:
        return self

    def __next__(self) -> tuple[int, bytes | None]:
        readline = self.stream.readline
        while line := readline(MAX_BYTES + 1):
            self.number += 1
            if len(line) > MAX_BYTES and not line.endswith(b"\n"):
                while (rest := readline(1 << 20)) and not rest.endswith(b"\n"):
                    pass
                return self.number, None
            if not line.isspace():
                return self.number, line.removeprefix(BOM) if self.number == 1 else line
        raise StopIteration


def read(paths: Iterable[str | os.PathLike[str]]) -> Iterator[Entry]:
    """Every answer of every path, folders walked in order of name. Trouble with one never ends the rest."""
    for given in paths:
        path = os.fspath(given)
        if not Path(path).is_dir():
            yield from read_file(path)
            continue
        files = 0
        for files, file in enumerate(walk(path), 1):  # noqa: B007 - counted for the line below
            yield from read_file(file, pipes=False)
        if not files:
            wanted = ", ".join(SUFFIXES)
            yield Entry(path, 0, trouble=f"a folder without a file to check; looked for {wanted}, each perhaps .gz")


def walk(folder: str) -> Iterator[str]:
    """Files below `folder` whose ending says that they may hold answers; hidden ones left out."""
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        for file in sorted(files):
            if not file.startswith(".") and file.removesuffix(".gz").endswith(SUFFIXES):
                yield os.path.join(where, file)  # noqa: PTH118 - what the user typed stays as typed


def read_file(path: str, *, pipes: bool = True) -> Iterator[Entry]:
    """Every answer of one file, whose kind is told by its content (the endings .jsonl and .yaml decide alone).

    Without `pipes` a named pipe is refused: in a folder nobody need write to it, and reading would never end.
    """
    n_read = 0
    try:
        with opened(path, pipes=pipes) as stream:
            lines = Lines(stream)
            try:
                yield from _entries(path, lines)
            finally:
                n_read = lines.number
    except Unusable as error:
        yield Entry(path, 0, trouble=str(error))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        where = f" after line {n_read}" if n_read else ""
        yield Entry(path, 0, trouble=f"cannot be read{where}: {reason}; {EXPECTED}")


@contextlib.contextmanager
def opened(path: str, *, pipes: bool = True) -> Iterator[BinaryIO]:
    """The file's bytes, unpacked where gzip's magic is in front; works on a pipe too, unless told not to."""
    mode = Path(path).stat().st_mode
    if not (S_ISREG(mode) or (pipes and S_ISFIFO(mode))):
        raise Unusable(f"{'a named pipe' if S_ISFIFO(mode) else 'neither a file nor a folder'}; {EXPECTED}")
    with Path(path).open("rb", buffering=1 << 17) as raw:
        if cast(io.BufferedReader, raw).peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=raw) as packed:
                yield io.BufferedReader(cast(io.RawIOBase, packed), 1 << 17)
        else:
            yield raw


def _entries(path: str, lines: Lines) -> Iterator[Entry]:
    number, first = next(lines, (0, b""))
    ending = path.removesuffix(".gz")
    if not number:
        raise Unusable(f"empty; {EXPECTED}")
    if first is None or ending.endswith((".jsonl", ".ndjson")):
        yield from _jsonl(path, chain([(number, first)], lines))
        return
    start = first.lstrip()
    if ending.endswith((".yaml", ".yml")) or start.startswith(YAML_STARTS):
        from harness.cassette import read_cassette  # late: no other input should pay for YAML

        yield from read_cassette(path, b"\n" * (number - 1) + first + _rest(lines, first))
    elif start.startswith(STREAM_STARTS):
        yield Entry(path, number, Exchange(f"{path}:{number}", first + _rest(lines, first)))
    elif start.startswith((b"{", b"[")):
        yield from _json(path, number, first, lines)
    else:
        kind = "binary data" if b"\0" in first[:4096] else "text of no known kind"
        raise Unusable(f"{kind} (it begins {first[:24]!r}); {EXPECTED}")


def _rest(lines: Lines, first: bytes) -> bytes:
    rest = lines.stream.read(MAX_BYTES - len(first) + 1)
    if len(first) + len(rest) > MAX_BYTES:
        raise Unusable(
            f"one answer of more than {MAX_BYTES >> 20} MiB; expected one answer a line (JSONL), each shorter"
        )
    return rest


def _json(path: str, number: int, first: bytes, lines: Lines) -> Iterator[Entry]:
    """JSONL under any ending, or one JSON text over many lines: the first two lines tell."""
    by_itself = _is_json(first)
    second = None if by_itself or first.strip() in (b"{", b"[") else next(lines, None)
    if second and (second[1] is None or _is_json(second[1])):
        yield from _jsonl(path, chain([(number, first), second], lines))
    elif by_itself:
        yield from _jsonl(path, chain([(number, first)], lines))
    else:
        text = first + (second[1] or b"" if second else b"")
        yield _entry(path, number, text + _rest(lines, text))


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(_value(line), dict | list)
    except (HarnessError, Unusable):
        return False


def _value(text: bytes) -> Any:
    if len(text) > MAX_VALUES and sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise Unusable(f"JSON of more than {MAX_VALUES:,} values; expected one answer")
    return loads(text)


def _jsonl(path: str, lines: Numbered) -> Iterator[Entry]:
    for number, line in lines:
        if line is None:
            limit = f"{MAX_BYTES >> 20} MiB"
            yield Entry(path, number, trouble=f"a line of more than {limit}; expected one answer a line, each shorter")
        else:
            yield _entry(path, number, line)


def _entry(path: str, number: int, text: bytes) -> Entry:
    try:
        return Entry(path, number, exchange(f"{path}:{number}", _value(text)))
    except (Unusable, HarnessError) as error:
        return Entry(path, number, trouble=str(error))


def path_trouble(path: str | os.PathLike[str]) -> str | None:
    """Why no file can stand at a path, whether one is there now or not; None where one can."""
    try:
        if any(len(os.fsencode(name)) > NAME_BYTES for name in Path(path).parts):
            return os.strerror(errno.ENAMETOOLONG)  # also below a folder that is not there, where nobody would say so
        Path(path).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    except ValueError:
        return "a NUL or half a character in it"
    return None


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write all or nothing: a reader sees the old file or the new one, never a part.

    Raises:
        SetupError: It cannot be written there.
    """
    with atomic_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to be written piece by piece, that stands under its name once all of it is on disk, and not before.

    Raises:
        SetupError: It cannot be written there: a device, a pipe and a socket are never replaced. Whatever ends the
            block leaves what was there before.
    """
    file_mode(path)  # before anything is opened
    target = Path(path).resolve()  # a link stays a link
    part = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            part = Path(file.name)
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(file_mode(path))
        part.replace(target)
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror or error}; choose another place") from error
    finally:
        if part is not None:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def file_mode(path: str | os.PathLike[str]) -> int:
    """Permissions of the file that is to be written at a path; nothing is opened.

    Raises:
        SetupError: None can stand there, or what stands there is no regular file.
    """
    trouble, mode = path_trouble(path), 0o644
    if trouble is None:
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(path).st_mode  # noqa: PTH116 - of the link's end, also of one that names no path: /dev/stdout
            trouble = os.strerror(errno.EISDIR) if S_ISDIR(mode) else None if S_ISREG(mode) else NO_FILE
    if trouble is not None:
        raise SetupError(f"{path!s:.200} cannot be written: {trouble}; choose another place")
    return mode & 0o777


def read_golden(path: str | os.PathLike[str]) -> Golden:
    """One golden file, packed or not; SetupError where it is none: what came, what was expected."""
    try:
        with opened(os.fspath(path), pipes=False) as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise Unusable(f"more than {MAX_BYTES >> 20} MiB")
        return golden(_value(data))
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise SetupError(f"{path} cannot be read: {reason}; expected a golden file or a folder of them") from error
    except (HarnessError, Unusable) as error:
        remedy = "`tokenproof golden capture` writes such files"
        raise SetupError(f"{path} is no golden file: {error}; expected {EXPECTED_GOLDEN}; {remedy}") from error


def read_ticket(path: str | os.PathLike[str]) -> "Ticket":
    """The gate's ticket in a file; SetupError, with the path, where it cannot be read or is none."""
    from harness import ticket  # late: answers are read in all commands, tickets in few

    try:
        with Path(path).open("rb") as file:
            return ticket.parse_ticket(file.read(ticket.MAX_BYTES + 1))
    except OSError as error:
        reason = error.strerror or error
        raise SetupError(f"{path}: no ticket can be read ({reason}); `tokenproof gate` writes one") from error
    except SetupError as error:
        raise SetupError(f"{path}: {error}") from error
