"""What the tests of bulk runs share: run files and data sets in a folder."""

import json
from pathlib import Path
from typing import Any

from runners.runfile import RunFile, load_run

BASE = {
    "model": '"moonshotai/kimi-k2.5"',
    "thinking": "true",
    "max_tokens": "100",
    "budget_usd": "1.5",
    "out": '"out"',
}
PROVIDER = '[provider]\nonly = ["chutes/int4"]\nallow_fallbacks = false\n'
ONE = '[[data]]\npath = "a.jsonl"\n'


def run_text(*tables: str, **keys: str | None) -> str:
    """The text of a run file: BASE with other keys (None leaves one out), and these tables."""
    lines = [f"{key} = {value}\n" for key, value in {**BASE, **keys}.items() if value is not None]
    return "".join(lines) + "".join(tables or (PROVIDER, ONE))


def data_file(folder: Path, *rows: Any, name: str = "a.jsonl") -> Path:
    """A JSONL file; a row that is text stands as it is."""
    path = folder / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def run_of(folder: Path, *rows: Any, text: str | None = None, **how: Any) -> RunFile:
    """The run file of a folder whose data set a.jsonl has these rows."""
    data_file(folder, *(rows or ({"prompt": "hi"},)))
    path = folder / "run.toml"
    path.write_text(run_text() if text is None else text)
    return load_run(path, **how)
