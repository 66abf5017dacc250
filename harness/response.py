"""A body (JSON, or SSE in bytes) or what a parser made of it -> a Turn, or a ProviderError.

Knows nothing of tokens, habits or what a complete answer looks like: an answer without an end is a Turn whose
finish_reason is None. An answer that says that it is an error is never a Turn.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from harness import records
from harness.deltas import Deltas, Texts, whole_message
from harness.errors import ProviderError
from harness.failures import host_error, in_event, is_error_page, no_body, no_choices
from harness.records import loads
from harness.sse import EventStream
from harness.token_reports import Reports
from harness.types import Turn, Usage

__all__ = ["EventStream", "loads", "parse"]

# Keep-alive bytes before a body: blanks, and the comments of a stream that a proxy left there.
LEAD = re.compile(rb"(?:\xef\xbb\xbf)?+(?:[ \t\r\n]++|:[^\r\n]*+)*+")
SSE_FIELD = re.compile(rb"(?:data|event|id|retry)[:\r\n]")


def parse(body: bytes | dict[str, Any] | list[Any]) -> Turn:
    """An answer -> Turn.

    Args:
        body: JSON or SSE as bytes, or what a parser made of them: an object, or the list of events without `[DONE]`.

    Marked `sealed`, since nobody can tell that the text is what was sampled: reasoning that came as two different texts
    (the first of reasoning, reasoning_content, reasoning_details is taken), summaries and encrypted parts, parts of the
    content that are no text, a refusal, a call without a name or whose name can be joined in two ways, content whose
    place among the calls is lost, and arguments that came as an object or list instead of a string (`arguments` then
    holds compact JSON of our own). Two different finish reasons are joined by `|`, which no table knows.

    Raises:
        ProviderError: An error, no answer, several answers, a field of the wrong type.
    """
    if isinstance(body, bytes):
        return _from_bytes(body)
    if isinstance(body, dict):
        return _encodable(_whole(records.convert(body)))
    if isinstance(body, list):
        return _encodable(_streamed(body, records.convert))
    raise ProviderError(f"an answer is bytes, an object or a list of events; got {type(body).__name__}")


def _from_bytes(body: bytes) -> Turn:
    if len(body) > records.MAX_BODY_BYTES:
        raise ProviderError(f"a body of {len(body):,} bytes; at most {records.MAX_BODY_BYTES:,} are read")
    if not body.startswith(b"{"):
        lead = LEAD.match(body)
        body = body[lead.end() :] if lead else body
    if body.startswith(b"{"):
        return _whole(records.decode(body))
    if SSE_FIELD.match(body):
        return _from_sse(body)
    if body.startswith(b"["):
        return _streamed(loads(body), records.convert)
    raise no_body(body)


def _from_sse(body: bytes) -> Turn:
    """A last event that is cut marks the whole stream as cut, since nobody knows what it said."""
    stream = EventStream()
    payloads = stream.feed(body)
    cut = False
    for tail in stream.close():
        try:
            loads(tail)
            payloads.append(tail)
        except ProviderError:
            cut = True
    turn = _streamed(payloads, records.decode)
    return replace(turn, finish_reason=None) if cut else turn


def _whole(answer: records.Answer) -> Turn:
    """A body that is one answer."""
    choice = _choice(answer)
    if choice is None:
        raise no_choices(answer)
    if choice.message is None:
        raise ProviderError("no chat answer: `$.choices[0].message` is missing", provider=answer.provider)
    reports = Reports()
    reports.add(answer, choice, carries=True)
    return _turn(whole_message(choice.message), answer, choice, reports)


def _streamed(events: list[Any], decode: Callable[[Any], records.Answer]) -> Turn:
    """Events, each still to be decoded, -> the answer that they add up to."""
    if not events:
        raise ProviderError("an empty stream: it ended before its first event", retryable=True)
    stream = _Stream()
    for number, event in enumerate(events):
        try:
            stream.add(decode(event))
        except ProviderError as error:
            raise in_event(number, error) from error
    return stream.turn()


class _Stream:
    """What the events have said so far; `_head` and `_end` sum up their own fields as if they were one body."""

    __slots__ = ("_deltas", "_end", "_finishes", "_first", "_head", "_reports")

    def __init__(self) -> None:
        self._deltas = Deltas()
        self._reports = Reports()
        self._head = records.Answer()
        self._end: records.Choice | None = None
        self._finishes: dict[str, None] = {}  # a set in order
        self._first: records.Answer | None = None

    def add(self, answer: records.Answer) -> None:
        """Take one event."""
        head, choice = self._head, _choice(answer)
        self._first = self._first or answer
        head.id = head.id or answer.id
        head.provider = head.provider or answer.provider
        head.model = head.model or answer.model
        head.created = head.created or answer.created
        head.usage = answer.usage or (choice and choice.usage) or head.usage
        if choice is None:
            if is_error_page(answer):
                raise no_choices(answer)
            self._reports.add(answer, None, carries=False)
            return
        self._end = self._end or records.Choice()
        self._end.native_finish_reason = choice.native_finish_reason or self._end.native_finish_reason
        if choice.finish_reason:
            self._finishes[choice.finish_reason] = None
        carries = self._deltas.add(_delta(choice))
        self._reports.add(answer, choice, carries=carries or bool(choice.finish_reason))

    def turn(self) -> Turn:
        """The sum of all events."""
        if self._end is None:
            raise no_choices(self._first or records.Answer())
        self._end.finish_reason = "|".join(self._finishes)
        return _turn(self._deltas.total(), self._head, self._end, self._reports)


def _turn(texts: Texts, answer: records.Answer, choice: records.Choice, reports: Reports) -> Turn:
    return Turn(
        reasoning=texts.reasoning,
        content=texts.content,
        tool_calls=texts.tool_calls,
        finish_reason=choice.finish_reason or None,
        native_finish_reason=choice.native_finish_reason or None,
        usage=_usage(answer.usage or choice.usage),
        provider=answer.provider,
        model=answer.model,
        created=answer.created,
        chunks=texts.chunks,
        order=texts.order,
        interludes=texts.interludes,
        reported=reports.total(),
        sealed=texts.sealed,
        id=answer.id if isinstance(answer.id, str) and answer.id else None,
    )


def _choice(answer: records.Answer) -> records.Choice | None:
    """The one choice, None where there is none; errors beside it or in it are raised."""
    if answer.error is not None:
        raise host_error(answer.error, answer.provider)
    if not answer.choices:
        return None
    choice = answer.choices[0]
    if len(answer.choices) > 1 or choice.index:
        came = sorted(c.index or 0 for c in answer.choices)
        raise ProviderError(
            f"one answer expected, choices of index {came} came; ask with n=1", provider=answer.provider
        )
    if choice.error is not None:
        raise host_error(choice.error, answer.provider)
    if choice.finish_reason == "error":
        raise host_error("finish_reason is 'error'", answer.provider)
    return choice


def _delta(choice: records.Choice) -> records.Message:
    if choice.delta is not None:
        return choice.delta
    if choice.message is None and choice.text is None:
        return records.Message()
    raise ProviderError("no chat stream: `$.choices[0]` has a message or a text where a delta was expected")


def _usage(usage: records.Usage | None) -> Usage | None:
    if usage is None:
        return None
    details = usage.completion_tokens_details
    inside = details.reasoning_tokens if details else None
    return Usage(
        prompt_tokens=records.count(usage.prompt_tokens),
        completion_tokens=records.count(usage.completion_tokens),
        total_tokens=records.count(usage.total_tokens),
        reasoning_tokens=records.count(usage.reasoning_tokens if inside is None else inside),
        cost=records.amount(usage.cost),
    )


def _encodable(turn: Turn) -> Turn:
    """Parsed values may hold lone surrogates, which JSON bytes cannot: refused, as no token stands for them."""
    names = (turn.finish_reason, turn.native_finish_reason, turn.provider, turn.model)
    calls = (text for call in turn.tool_calls for text in (call.id, call.name, call.arguments))
    for text in (turn.reasoning, turn.content, *names, *calls):
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            raise ProviderError(f"a text of the answer is no Unicode text: {error}") from error
    return turn
