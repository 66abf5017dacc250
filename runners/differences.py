"""In what two values of JSON differ: member by member, each whole.

Knows nothing of what the values stand for.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

ABSENT = "absent"
EMPTY = "{}"  # told only where no inner member tells what came or went


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(name, what it was, what it is) of every member that differs, by name, inner ones as `outer.inner`.

    Values are JSON, never cut: what is cut may be what differs.
    """
    old, new = (dict(_members("", value)) for value in (before, now))
    for name in sorted(old.keys() | new.keys()):
        was, is_now = (json.dumps(side[name], ensure_ascii=False) if name in side else ABSENT for side in (old, new))
        if was != is_now and not (EMPTY in (was, is_now) and any(n.startswith(f"{name}.") for n in old | new)):
            yield name, was, is_now


def _members(where: str, value: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping) or (where and not value):
        yield where, value
        return
    for key, item in value.items():
        yield from _members(f"{where}.{key}" if where else str(key), item)
