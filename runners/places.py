"""Folders anywhere: local, on an object store, on whatever fsspec or pyarrow knows; files get there whole.

The owner of fsspec. Knows nothing of what the files hold.
"""

import errno
import os
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

from harness.errors import SetupError

SHOWN_WHOLE = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "r2"})
"""Object stores: a file is seen once all of it is there, and to rename one is to copy it."""

UNKNOWN_WAY = frozenset({errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP})


class Place:
    """A folder of a file system.

    Raises:
        SetupError: By every method: the file system cannot be reached, or says no.
    """

    def __init__(self, uri: str, file_system: Any = None) -> None:
        """Of a path or a URI such as s3://bucket/states; or of a path on a file system of fsspec.

        A pyarrow file system is one by `fsspec.implementations.arrow.ArrowFSWrapper(it)`.
        """
        self.uri = uri
        self._fs: Any
        self._root: str
        try:
            self._fs, self._root = (file_system, uri) if file_system is not None else fsspec.core.url_to_fs(uri)
            self._fs.makedirs(self._root, exist_ok=True)
        except (OSError, ValueError, ImportError) as error:
            raise SetupError(f"{uri} cannot be used: {error!s:.200}; expected a folder or a URI of fsspec") from error

    def names(self) -> list[str]:
        """Names of the files, sorted."""
        try:
            self._fs.invalidate_cache()
            found = self._fs.ls(self._root, detail=True)
        except OSError as error:
            raise self._trouble("cannot be read", error) from error
        return sorted(entry["name"].rstrip("/").rsplit("/", 1)[-1] for entry in found if entry["type"] == "file")

    @property
    def local(self) -> Path | None:
        """The folder as a path of this machine; None where it is none."""
        return Path(self._root) if isinstance(self._fs, LocalFileSystem) else None

    def create(self, name: str, data: bytes) -> bool | None:
        """Make a file where none is: False where one is.

        None where one was made, and where this file system cannot promise that nobody else made it in that moment.
        """
        try:
            return self._created(name, data)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._trouble(f"{name} cannot be written", error) from error

    def _created(self, name: str, data: bytes) -> bool | None:
        try:
            with self._fs.open(self._at(name), "xb") as file:
                file.write(data)
            return True
        except (ValueError, NotImplementedError):
            pass  # a way of opening that it does not know
        except OSError as error:
            if isinstance(error, FileExistsError) or error.errno not in UNKNOWN_WAY:
                raise
        if self._fs.exists(self._at(name)):
            return False
        with self._fs.open(self._at(name), "wb") as file:
            file.write(data)
        return None

    def read(self, name: str, limit: int) -> bytes:
        """The first bytes of a file."""
        try:
            with self._fs.open(self._at(name), "rb") as file:
                return bytes(file.read(limit))
        except OSError as error:
            raise self._trouble(f"{name} cannot be read", error) from error

    def remove(self, name: str) -> None:
        """Take a file away."""
        try:
            self._fs.rm_file(self._at(name))
        except OSError as error:
            raise self._trouble(f"{name} cannot be removed", error) from error

    def fetch(self, name: str, folder: Path) -> Path:
        """A copy of a file, under its name in a local folder."""
        copy = folder / name
        try:
            self._fs.get_file(self._at(name), str(copy))
        except OSError as error:
            raise self._trouble(f"{name} cannot be read", error) from error
        return copy

    def put(self, file: Path) -> None:
        """Put a local file there under its name, whole or not at all; one of this name is replaced."""
        part = file.name if self._shown_whole else f".{file.name}.{os.getpid()}.part"
        try:
            self._fs.put_file(str(file), self._at(part))
            if part != file.name:
                self._fs.mv(self._at(part), self._at(file.name))
        except OSError as error:
            raise self._trouble(f"{file.name} cannot be written", error) from error

    def rename(self, old: str, new: str) -> None:
        """Give a file another name."""
        try:
            self._fs.mv(self._at(old), self._at(new))
        except OSError as error:
            raise self._trouble(f"{old} cannot be renamed", error) from error

    @property
    def _shown_whole(self) -> bool:
        protocol = self._fs.protocol
        return bool(SHOWN_WHOLE & {protocol} if isinstance(protocol, str) else SHOWN_WHOLE & set(protocol))

    def _at(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _trouble(self, what: str, error: OSError) -> SetupError:
        return SetupError(f"{self.uri}: {what}: {error.strerror or error!s:.200}; choose another --out, or try again")
