"""Whether a request is the one that was recorded, and where not: the nearest recorded one and its first other field.

Method, URL and the canonical body decide; headers never do. Pure. Knows nothing of VCR.py.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from harness.recording import Interaction, canonical

PORTS: Mapping[str, int] = {"http": 80, "https": 443}
SHOWN_CHARS = 80
NOTHING = object()


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as matching sees it."""

    method: str
    uri: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Difference:
    """The first field in which two requests part; `recorded` and `asked` are as shown to a person."""

    where: str
    recorded: str
    asked: str

    def __str__(self) -> str:
        return f"{self.where}: recorded {self.recorded}, asked {self.asked}"


def sent(interaction: Interaction) -> Sent:
    """The request of an interaction."""
    return Sent(interaction.method, interaction.uri, interaction.request_body)


def same(recorded: Sent, asked: Sent) -> bool:
    """Whether one stands for the other."""
    return _key(recorded) == _key(asked)


def nearest(asked: Sent, recorded: Sequence[Sent]) -> tuple[int, Difference] | None:
    """Which recorded request (from 0) has the fewest other fields, and the first of them; None where none is recorded.

    A request that is the same and was played already is not told apart here: the caller looks for it first.
    """
    fields = dict(_fields(asked))
    best: tuple[int, int, Difference] | None = None
    for number, other in enumerate(recorded):
        theirs = dict(_fields(other))
        names = [n for n in (*fields, *(t for t in theirs if t not in fields)) if _unlike(fields, theirs, n)]
        if names and (best is None or len(names) < best[0]):
            first = Difference(names[0], _shown(theirs.get(names[0], NOTHING)), _shown(fields.get(names[0], NOTHING)))
            best = (len(names), number, first)
    return None if best is None else best[1:]


def _key(one: Sent) -> tuple[Any, ...]:
    return one.method.upper(), _url(one.uri), canonical(one.body)


def _url(uri: str) -> tuple[Any, ...]:
    try:
        parts = urlsplit(uri)
        port = parts.port or PORTS.get(parts.scheme)
    except ValueError:
        return (uri,)
    return parts.scheme, parts.hostname, port, parts.path or "/", tuple(sorted(parse_qsl(parts.query, True)))


def _fields(one: Sent) -> Iterator[tuple[str, Any]]:
    """Every leaf by its path, in the order in which a person would look: method, URL, body."""
    yield "method", one.method.upper()
    url = _url(one.uri)
    names = ("scheme", "host", "port", "path", "query") if len(url) > 1 else ("text",)
    yield from ((f"url.{name}", part) for name, part in zip(names, url, strict=True))
    try:
        value = json.loads(canonical(one.body))
    except (ValueError, RecursionError):
        value = one.body
    yield from _leaves("body", value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key in value:
            yield from _leaves(f"{path}.{key}", value[key])
    elif isinstance(value, list) and value:
        for k, item in enumerate(value):
            yield from _leaves(f"{path}[{k}]", item)
    else:
        yield path, value


def _unlike(a: Mapping[str, Any], b: Mapping[str, Any], name: str) -> bool:
    x, y = a.get(name, NOTHING), b.get(name, NOTHING)
    return x is NOTHING or y is NOTHING or type(x) is not type(y) or x != y


def _shown(value: Any) -> str:
    if value is NOTHING:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, bytes) else repr(value)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."
