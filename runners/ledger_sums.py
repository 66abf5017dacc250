"""Checksums of the ledger's rows: values that changed on the disk, or stand in another row, never pass as its own.

What is written at one moment has one sum, the CRC-32 of its values seeded with the row's number, in a column of its
own: each write knows all values of its part, and none has to read what was there. The sums find accidents; whoever
changes a value and its sum together is not found. Knows nothing of files.
"""

from collections.abc import Mapping
from types import MappingProxyType
from zlib import crc32

HEAD_BYTES = 13  # of a verdict: the sizes of its parts, and the CRC-32 of all of it
PARTS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "meta": {"crc": ("key", "value")},
        "amendment": {"crc": ("at", "run_sha256", "reason")},
        "dataset": {"crc": ("name", "place")},
        "block": {"crc": ("json",)},
        "job": {
            "crc": ("ds", "prompt_id", "n_prompt", "max_tokens", "sha256"),
            "place_crc": ("idx", "asked"),
            "end_crc": ("end", "note"),
        },
        "attempt": {
            "crc": ("job", "block", "reserved_nano", "reserved_at"),
            "came_crc": ("state", "ended_at", "status", "failure", "note", "provider", "generation"),
            "bill_crc": ("settled_nano", "settled_by"),
        },
        "answer": {"crc": ("attempt", "sha256", "n_tokens")},
        "verdict": {"crc": ("name", f"substr(packed, 1, {HEAD_BYTES})")},
    }
)
"""Table -> column of a sum -> the values that it is of. Bytes of prompts and answers are held against their sha256; the
first HEAD_BYTES of a verdict hold the CRC-32 of all. NULL where an older version wrote the row: it is not checked."""
KEYS = MappingProxyType({"job": "job", "attempt": "attempt", "answer": "job", "verdict": "job"})
"""Table -> the number of its row; to rows of other tables 0 is given, since what writes them does not know it."""


def row_sum(number: int, *values: object) -> int:
    """Of values as SQLite gives them back, in the row of this number; ASCII, so that no table of characters matters."""
    return crc32(ascii(values).encode(), number)


def constant(*values: object) -> bytes:
    """What `row_sum` sums, for values that many rows have: `crc32(constant(...), number)` is their sum."""
    return ascii(values).encode()


def wrong(table: str, alias: str) -> str:
    """SQL that is true of a row whose values have another sum; needs `row_sum` as a function."""
    key = f"{alias}.{KEYS[table]}" if table in KEYS else "0"
    parts = (
        f"CASE WHEN {alias}.{column} IS NULL THEN 0 "  # also where a LEFT JOIN found no row
        f"ELSE {alias}.{column} <> row_sum({key}, {', '.join(_of(alias, name) for name in values)}) END"
        for column, values in PARTS[table].items()
    )
    return f"({' OR '.join(parts)})"


def _of(alias: str, value: str) -> str:
    return value.replace("(", f"({alias}.") if "(" in value else f"{alias}.{value}"
