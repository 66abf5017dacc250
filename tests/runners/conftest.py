"""What several tests of the runners are given."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import LocalFileSystem

from runners.places import Place


@pytest.fixture(params=["local", "file-uri", "memory", "pyarrow"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """An empty place of each kind: locked by the system, by a file of its own, and by one without a promise."""
    folder = tmp_path / "there"
    made = {
        "local": lambda: Place(str(folder)),
        "file-uri": lambda: Place(f"file://{folder}"),
        "memory": lambda: Place("memory://there/states"),
        "pyarrow": lambda: Place(str(folder), ArrowFSWrapper(LocalFileSystem())),
    }
    yield made[request.param]()
    fsspec.filesystem("memory").store.clear()
