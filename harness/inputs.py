"""One JSON value of a user's file -> Exchange or Golden, or why it holds none.

Knows nothing of files, YAML, tokens or verdicts. Of a line it looks at `response` and FIELDS and at nothing else: what
more a line knows (true ids, say) cannot reach a verdict.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from harness.types import Exchange
from harness.vocab import N_IDS, is_ids

FIELDS: Mapping[str, type] = {
    "name": str,
    "request": dict,
    "provider": str,
    "model": str,
    "thinking": bool,
    "url": str,
    "index": dict,
}
GENERATE = "a body of /generate, which is no chat answer; expected a body of /v1/chat/completions"


GOLDEN_FIELDS: Mapping[str, type] = {"name": str, "engine": str, "source": str, "prompt_ids": list, "true_ids": list}
EXPECTED_GOLDEN = f"an object with {', '.join(GOLDEN_FIELDS)}"


class Unusable(Exception):
    """This input holds no answer, or no golden; says what came and what was expected."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One input: an exchange, or why there is none.

    Attributes:
        line: From 1; 0 where the trouble is with the whole file.
        trouble: What came, what was expected, what to do; "" where there is an exchange.
    """

    path: str
    line: int
    exchange: Exchange | None = None
    trouble: str = ""

    @property
    def name(self) -> str:
        """The exchange's own name, else PATH:LINE, else PATH."""
        return self.exchange.name if self.exchange else self.place

    @property
    def place(self) -> str:
        """PATH:LINE, or PATH where the whole file is meant."""
        return f"{self.path}:{self.line}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class Golden:
    """True ids with the answer of the same generation.

    Attributes:
        exchange: What `check` would judge; None for a `/generate` golden, which holds no chat answer.
        true_ids: What was sampled, shape [T].
        prompt_ids: What the engine read, shape [P].
        source: Where it came from, in words; every golden says it.
    """

    name: str
    engine: str
    source: str
    exchange: Exchange | None
    true_ids: tuple[int, ...]
    prompt_ids: tuple[int, ...]


def golden(value: Any) -> Golden:
    """What the JSON value of a golden file stands for."""
    if not isinstance(value, dict):
        raise Unusable(f"it holds {shown(value)}")
    for key, kind in GOLDEN_FIELDS.items():
        if key not in value:
            raise Unusable(f"the field {key!r} is missing among {shown(value)}")
        if not isinstance(value[key], kind):
            raise Unusable(f"the field {key!r} is {shown(value[key])}, expected {kind.__name__}")
    rows = [value["true_ids"], value["prompt_ids"]]
    for key, row in zip(("true_ids", "prompt_ids"), rows, strict=True):
        if not is_ids(row):
            at = next(k for k, item in enumerate(row) if not is_ids([item]))
            raise Unusable(f"{key}[{at}] is {shown(row[at])}, expected an id in 0..{N_IDS - 1}")
    body = exchange(value["name"], value) if "response" in value else None
    return Golden(value["name"], value["engine"], value["source"], body, *map(tuple, rows))


def exchange(name: str, value: Any) -> Exchange:
    """What a JSON value stands for: an answer by itself, or a line that holds one as `response`."""
    if not (isinstance(value, dict) and "response" in value):
        return Exchange(name, _answer(value))
    fields = {key: value.get(key) for key in FIELDS}
    for key, kind in FIELDS.items():
        if fields[key] is not None and not isinstance(fields[key], kind):
            raise Unusable(f"the field {key!r} is {shown(fields[key])}; expected {kind.__name__} or null")
    response = _response(value["response"])
    return Exchange(
        name=fields["name"] or name,
        response=response,
        request=fields["request"] or {},
        provider=fields["provider"] or other_provider(response, fields["index"] or {}, fields["url"] or ""),
        model=fields["model"],
        thinking=fields["thinking"],
    )


def _response(value: Any) -> bytes | dict[str, Any] | list[Any]:
    """A line's `response` as it is: whether it is an answer or an error is for the judge, who can reject it."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if _of_generate(value):
        raise Unusable(GENERATE)
    if isinstance(value, dict | list):
        return value
    raise Unusable(f"`response` is {shown(value)}; expected a body, a list of SSE events, or SSE text")


def _answer(value: Any) -> dict[str, Any] | list[Any]:
    """A value with no line around it: must look like an answer, since anything may lie in a file."""
    if _of_generate(value):
        raise Unusable(GENERATE)
    if isinstance(value, dict) and ("choices" in value or "error" in value):
        return value
    if isinstance(value, list) and value and isinstance(value[0], dict):
        if "response" in value[0] or "message" in (_first(value[0].get("choices")) or {}):
            raise Unusable(f"a list of {len(value)} whole answers; expected one answer a line (JSONL)")
        return value
    raise Unusable(f"{shown(value)}; expected an object with `choices` (or `response`), or a list of SSE events")


def _of_generate(value: Any) -> bool:
    head = _first(value) if isinstance(value, list) else value
    return isinstance(head, dict) and ("meta_info" in head or "generate" in head)


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else None


def other_provider(response: Any, index: Mapping[str, Any], url: str) -> str | None:
    """Who answered where neither line nor response says so; None where the response does (the judge reads it there)."""
    if isinstance(response, bytes):
        named = b'"provider":' in response
    else:
        events = response if isinstance(response, list) else [response]
        named = any(isinstance(event, dict) and event.get("provider") for event in events)
    if named:
        return None
    told = index.get("provider")
    if isinstance(told, str) and told:
        return told
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def shown(value: Any) -> str:
    """A value in a few words, for messages."""
    if isinstance(value, dict):
        keys = ", ".join(sorted(map(str, value))[:6])
        return f"an object with the keys {keys[:80]}" if keys else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value)}" + (f", {type(value[0]).__name__} first" if value else "")
    return f"{type(value).__name__} {value!r:.40}" if value is not None else "null"


def golden_text(value: dict[str, Any]) -> str:
    """A golden as JSON for eyes: ids and pieces on one line each, an event or a logprob entry a line."""
    return _pretty(value, "", 0) + "\n"


def _pretty(value: Any, indent: str, width: int) -> str:
    """`value` on one line where that has at most `width` characters or a list holds plain values only."""
    flat = json.dumps(value, ensure_ascii=False)
    plain = isinstance(value, list) and not any(isinstance(item, dict | list) for item in value)
    if plain or not isinstance(value, dict | list) or len(flat) <= width:
        return flat
    inner = indent + " "
    if isinstance(value, list):
        rows = [inner + _pretty(item, inner, 300) for item in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    rows = [f"{inner}{json.dumps(key, ensure_ascii=False)}: {_pretty(item, inner, 100)}" for key, item in value.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
