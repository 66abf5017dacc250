"""Golden files: what one holds, when two say the same, and the three named ways to change one, each with its diff.

`create` makes a new file, `fix` replaces one whose ids or answer differ, `update` one that says the same in another
way. Without the flag nothing is written. Knows nothing of HTTP and of engines.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import ProviderError, SetupError
from harness.inputs import golden_text
from harness.response import loads, parse
from harness.store import write_atomic
from harness.types import Turn
from harness.vocab import Vocab

Json = dict[str, Any]
Change = Literal["create", "fix", "update"]
Status = Literal["kept", "created", "fixed", "updated", "pending", "refused", "failed"]
DONE: Mapping[Change, Status] = {"create": "created", "fix": "fixed", "update": "updated"}
QUESTION = (
    "engine",
    "version",
    "served_model",
    "flags",
    "sampling",
    "vocab_sha256",
    "prompt_ids",
    "thinking",
    "request",
)
"""What was asked, of whom; two goldens of one question are expected to be equal."""
ANSWER = ("true_ids", "response", "generate")
MAX_DIFF_LINES: Mapping[Change, int] = {"create": 10, "fix": 40, "update": 40}
MAX_DIFF_CHARS = 160


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one golden.

    Attributes:
        change: What a pending or done change is; None where there is none.
        diff: Lines of a unified diff, cut to what a person reads.
    """

    name: str
    status: Status
    reason: str = ""
    n_ids: int = 0
    change: Change | None = None
    diff: tuple[str, ...] = ()


def read_value(path: Path) -> Json | None:
    """The golden that stands there, {} where something else does; None where nothing does."""
    try:
        value = loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ProviderError:
        return {}
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror or error}; choose another --out") from error
    return value if isinstance(value, dict) else {}


def same_question(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether both asked the same of the same engine."""
    return all(old.get(key) == new.get(key) for key in QUESTION)


def difference(old: Json, new: Json, vocab: Vocab) -> str:
    """How the ids, the answer or the question differ; "" where both say the same."""
    asked = [key for key in QUESTION if old.get(key) != new.get(key)]
    if asked:
        return f"another {', '.join(asked)}"
    ids = id_difference(old.get("true_ids"), new["true_ids"], vocab)
    if ids:
        return f"recorded and now: {ids}"
    texts = [_said(value.get("response")) for value in (old, new)]
    parts = [a for a in _SAID if getattr(texts[0], a, None) != getattr(texts[1], a, None)]
    return f"the answer differs in {', '.join(parts)}" if parts else ""


_SAID = ("reasoning", "content", "tool_calls", "finish_reason", "usage")


def _said(response: Any) -> Turn | None:
    """The answer without what changes from run to run: ids, times, how a stream was cut."""
    try:
        return parse(response)
    except ProviderError:
        return None


def id_difference(first: Any, second: Sequence[int], vocab: Vocab) -> str:
    """Where two rows of ids part, with their pieces; "" where they do not."""
    if not isinstance(first, list) or not all(type(i) is int for i in first):
        return "no ids"
    if first == list(second):
        return ""
    pairs = zip(first, second, strict=False)
    at = next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
    shown = " and ".join(_shown(row, at, vocab) for row in (first, second))
    return f"ids part at {at}: {shown} ({len(first)} and {len(second)} ids)"


def _shown(row: Sequence[int], at: int, vocab: Vocab) -> str:
    if at >= len(row):
        return "the end"
    try:
        return f"{row[at]} {pieces(row[at : at + 1], vocab)[0]!r}"
    except ProviderError:
        return str(row[at])


def pieces(ids: Sequence[int], vocab: Vocab) -> list[str]:
    """Each id's text for the reader; a byte that is no text by itself as an escape."""
    return [vocab.token_bytes(i).decode("utf-8", "backslashreplace") for i in ids]


def place(path: Path, new: Json, allowed: frozenset[Change], vocab: Vocab) -> Row:
    """Write a golden where that is allowed, and say what was done or would be."""
    old = read_value(path)
    text = golden_text(new)
    name, n_ids = str(new["name"]), len(new["true_ids"])
    if old is None:
        return _changed(path, "create", "", "", text, name, n_ids, allowed)
    standing = path.read_text("utf-8", "replace")
    differs = difference(old, new, vocab)
    if differs:
        return _changed(path, "fix", differs, standing, text, name, n_ids, allowed)
    kept = old | {key: value for key, value in new.items() if key not in ANSWER}
    spelled = golden_text({key: kept[key] for key in (*new, *(k for k in old if k not in new))})
    if standing == spelled:
        return Row(name, "kept", "", n_ids)
    return _changed(path, "update", "says the same in another way", standing, spelled, name, n_ids, allowed)


def _changed(
    path: Path, change: Change, why: str, old: str, new: str, name: str, n_ids: int, allowed: frozenset[Change]
) -> Row:
    diff = tuple(cut_diff(old, new, str(path), MAX_DIFF_LINES[change]))
    if change not in allowed:
        said = f"{why}; " if why else ""
        return Row(name, "pending", f"{said}not written: --{change} does", n_ids, change, diff)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SetupError(f"{path.parent} cannot be made: {error.strerror or error}; choose another --out") from error
    write_atomic(path, new.encode())
    return Row(name, DONE[change], why, n_ids, change, diff)


def cut_diff(old: str, new: str, path: str, limit: int) -> Iterator[str]:
    """A unified diff of two texts: the first lines of it, and of each line what fits a screen."""
    before = path if old else "/dev/null"
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), before, path, lineterm="", n=1))
    for line in lines[:limit]:
        yield line if len(line) <= MAX_DIFF_CHARS else f"{line[:MAX_DIFF_CHARS]}…"
    if len(lines) > limit:
        yield f"… and {len(lines) - limit} lines more"


def row_json(row: Row) -> str:
    """What `--json` says of one golden."""
    value = {"name": row.name, "status": row.status, "change": row.change, "n_ids": row.n_ids}
    return json.dumps(value | {"reason": row.reason, "diff": list(row.diff)}, ensure_ascii=False)
