"""What is wrong with a run file, each fault with its line.

Knows nothing of what its keys mean.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.store import path_trouble
from runners.runfile_keys import Key


class Faults:
    """What is wrong with a file, each with its line."""

    def __init__(self, path: str, text: str) -> None:
        self.lines: list[str] = []
        self.files: dict[str, str] = {}  # tables that came from another file
        self._path, self._text = path, text

    def add(self, said: str, key: str, table: str = "", nth: int = 0) -> None:
        """A fault of a key: `table` is its table (`a.b` one within a table), `nth` which of several of that name."""
        outer, _, inner = table.rpartition(".")
        if (file := self.files.get(table.partition(".")[0] or key)) is not None:
            self.lines.append(f"{file}: {said}")
            return
        found = line_of(self._text, key, table, nth) or (inner and line_of(self._text, inner, outer, nth))
        self.lines.append(f"{self._path}:{found}: {said}" if found else f"{self._path}: {said}")

    def check(self, table: Mapping[str, Any], keys: Mapping[str, Key], name: str = "", nth: int = 0) -> dict[str, Any]:
        """The values of a table, defaults filled in; unknown keys, missing ones and wrong values are faults."""
        where = f" in [{name}]" if name else ""
        for key in table:
            if key not in keys:
                self.add(f"unknown key {key!r}{where}; the keys are {', '.join(keys)}", key, name, nth)
        values = {}
        for key, rule in keys.items():
            if key not in table:
                values[key] = rule.default
                if rule.required:
                    self.add(f"{key!r} is missing{where}; expected {rule.expected}", "", name, nth)
            elif not rule.holds(table[key]):
                self.add(f"{key} = {_shown(table[key])}{where}; expected {rule.expected}", key, name, nth)
                values[key] = rule.default
            elif rule.members is not None:
                told = self.check(table[key], rule.members, f"{name}.{key}", nth)
                values[key] = {member: told[member] for member in table[key] if member in told}
            else:
                values[key] = table[key]
        return values

    def path(self, folder: Path, shown: str, key: str, table: str = "", nth: int = 0) -> Path:
        """The path that a key names, from the folder of the run file; a fault where no file can stand there."""
        if shown and (trouble := path_trouble(folder / shown)) is not None:
            self.add(f"{key} = {_shown(shown)}: {trouble}; expected a path that this system takes", key, table, nth)
        return folder / shown


def line_of(text: str, key: str, table: str = "", nth: int = 0) -> int:
    """Where a key of a table stands, as a line from 1; else where the table begins, 0 where that is not found."""
    here, count, begins = "", {"": 0}, 0 if table else 1
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([\w.\-]+)\s*\]+", line):
            here = header[1]
            count[here] = count.get(here, -1) + 1
        wanted = here == table and count[here] == nth
        begins = begins or (number if wanted else 0)
        inline = re.match(r"\s*[\"']?([\w\-]+)[\"']?\s*[.=]", line)
        if key and ((wanted and inline and inline[1] == key) or (not table and header and here == key)):
            return number
        if not here and inline and inline[1] == table:  # `table = { key = ... }` on one line
            return number
    return begins


def _shown(value: Any) -> str:
    try:
        return json.dumps(value, default=str, ensure_ascii=False)[:80]
    except (ValueError, RecursionError):  # a number of thousands of digits; dotted keys nest as deep as they like
        return f"a {type(value).__name__} too large to show"
