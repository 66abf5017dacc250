"""An answer -> what it shows of its provider, in words that two recordings of one request can be compared in.

On the level of `flow`: it uses the stages. What an answer tells of counts and styles is `calibrate`'s evidence; here is
the rest: fields, names, indexes, leaks and the size of chunks. Reads no file.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from harness.asked import thinking_of
from harness.calibrate import evidence
from harness.errors import HarnessError, ProviderError
from harness.flow import Kit
from harness.learn import Evidence
from harness.records import loads
from harness.response import EventStream, parse
from harness.types import Exchange, Turn
from harness.vocab import control_pattern

MAX_DEPTH = 12
OPAQUE = frozenset({"arguments", "metadata"})
"""Fields whose own members are the model's or the host's free words, no part of the wire's shape."""
HEADER = re.compile(r"(?:functions\.)?([\w.-]+)(?::|_)\d+")
MIN_CHUNKS = 4


@dataclass(frozen=True, slots=True)
class Sighting:
    """One recorded answer, ready to be compared.

    Attributes:
        key: What pairs it with the other recording of its request.
        provider, model: The answer's own names; model falls back to the request's.
        turn: None where the answer is an error, which `trouble` then names.
        thinking: As asked; None where not told.
        request: The request as canonical JSON, "" where unknown.
        fields: Paths of all members of the body or of any event, list indexes left out.
        words: All words of reasoning, content and calls in order of the alphabet: equal for two answers that say the
            same, whatever a host did to blanks, markers, call ids and the order of keys.
        tokens_a_chunk: (ids, chunks) of the texts of a stream; None for a body and for very short streams.
    """

    key: str
    provider: str
    model: str
    turn: Turn | None
    trouble: str
    thinking: bool | None
    request: str
    history_calls: int
    evidence: Evidence | None
    fields: frozenset[str]
    words: tuple[str, ...]
    tokens_a_chunk: tuple[int, int] | None

    @property
    def kind(self) -> tuple[bool, bool, bool]:
        """What decides which fields can be there: streamed or not, calls or not, cut or not."""
        turn = self.turn
        has_calls = turn is not None and bool(turn.tool_calls)
        cut = turn is not None and turn.finish_reason == "length"
        return turn is not None and turn.chunks is not None, has_calls, cut


def sighting(key: str, exchange: Exchange, kit: Kit) -> Sighting:
    """What one answer shows; an answer that is none shows its error."""
    turn, trouble = None, ""
    try:
        turn = parse(exchange.response)
    except ProviderError as error:
        trouble = f"error {error.code}" if error.code else "no answer"
    asked = exchange.request.get("model")
    model = (turn.model if turn else None) or exchange.model or (asked if isinstance(asked, str) else "")
    messages = exchange.request.get("messages")
    return Sighting(
        key=key,
        provider=kit.habits.provider_name(exchange.provider or (turn.provider if turn else None)) or "",
        model=model,
        turn=turn,
        trouble=trouble,
        thinking=thinking_of(exchange),
        request=json.dumps(exchange.request, sort_keys=True, default=str) if exchange.request else "",
        history_calls=_n_calls(messages if isinstance(messages, list) else []),
        evidence=evidence(exchange, kit) if turn else None,
        fields=frozenset(path for value in _values(exchange.response) for path in _paths(value, "", 0)),
        words=_words(turn) if turn else (),
        tokens_a_chunk=_tokens_a_chunk(turn, kit) if turn else None,
    )


def _n_calls(messages: list[Any]) -> int:
    calls = (m.get("tool_calls") for m in messages if isinstance(m, dict))
    return sum(len(c) for c in calls if isinstance(c, list))


def _values(response: bytes | dict[str, Any] | list[Any]) -> list[Any]:
    """The JSON values of a body, or of a stream's events; none where it is neither."""
    if isinstance(response, dict):
        return [response]
    if isinstance(response, list):
        return response
    stream, found = EventStream(), []
    try:
        payloads = [response] if response.lstrip()[:1] == b"{" else [*stream.feed(response), *stream.close()]
    except HarnessError:
        return []
    for payload in payloads:
        try:
            found.append(loads(payload))
        except HarnessError:
            continue  # a cut event, or a page of HTML: it has no fields
    return found


def _paths(value: Any, path: str, depth: int) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{path}[]", depth)
    elif isinstance(value, dict) and depth < MAX_DEPTH:
        for name, inner in value.items():
            below = f"{path}.{name}" if path else str(name)
            yield below
            if name not in OPAQUE:
                yield from _paths(inner, below, depth + 1)


def _words(turn: Turn) -> tuple[str, ...]:
    calls = [text for call in turn.tool_calls for text in (call.name, _plain(call.arguments))]
    texts = " ".join((turn.reasoning, turn.content, *calls))
    bare = control_pattern().sub(" ", texts)
    return tuple(sorted(re.findall(r"\w+", HEADER.sub(r"\1", bare))))


def _plain(arguments: str) -> str:
    """Arguments with their escapes read; what is no JSON as it is."""
    try:
        return json.dumps(json.loads(arguments), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments


def _tokens_a_chunk(turn: Turn, kit: Kit) -> tuple[int, int] | None:
    texts = [pieces for channel, pieces in (turn.chunks or {}).items() if not channel.startswith("call:")]
    n_chunks = sum(map(len, texts))
    n_ids = sum(len(kit.encode("".join(pieces))) for pieces in texts)
    return (n_ids, n_chunks) if n_ids >= MIN_CHUNKS and n_chunks else None


@dataclass(frozen=True, slots=True)
class Pair:
    """The two recordings of one request."""

    old: Sighting
    new: Sighting

    @property
    def key(self) -> str:
        """What both are called."""
        return self.old.key

    @property
    def alike(self) -> bool:
        """Whether both answers say the same, so that whatever differs is the host's doing."""
        return bool(self.old.words) and self.old.words == self.new.words

    @property
    def same_kind(self) -> bool:
        """Whether the same fields are to be expected."""
        return self.old.turn is not None and self.new.turn is not None and self.old.kind == self.new.kind


class Change(NamedTuple):
    """One thing that changed; the members are told by `drift.Drift`."""

    aspect: str
    old: str
    new: str
    touches_ids: bool
    shown_by: tuple[str, ...]
    why: str
