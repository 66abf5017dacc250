"""JSON text or parsed JSON -> typed records that hold only the fields which the harness reads.

The one owner of msgspec. Knows nothing of what an answer means: every field may be missing or null here. What msgspec
says holds: unknown fields are ignored, of a duplicate key the last one counts, NaN is no JSON, and a lone surrogate
escape (`"\\ud83d"` without its second half) is refused, since no UTF-8 text and so no token can stand for it.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec

from harness.errors import ProviderError

MAX_BODY_BYTES = 256 * 2**20
SHOWN_CHARS = 500  # of foreign text in a message
MAX_USD = 1e15  # of one answer
MAX_COUNT = 2**31  # of tokens in one answer; a ledger adds up thousands of millions of them
RAW_CHARS = 10_000  # of a host's own words, kept beside it
# msgspec calls one near the end of the data a truncation.
# a bare word after a member's name; within a JSON string the quotes would be escaped
BARE_COST = re.compile(rb'(?<!\\)("\w*cost"\s*:\s*)[^\s"{}\[\],:]+')
CUT_ID = re.compile(rb'\s*(?:data:\s*)?\{\s*"id"\s*:\s*"([\w-]{1,100})"')
"""The id of an answer that breaks off behind it."""
LONE_SURROGATE = re.compile(rb"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])")

T = TypeVar("T")
Id = Annotated[int, msgspec.Meta(ge=0)]  # -1 as an id would count from the end of a table
Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]


class Function(msgspec.Struct, gc=False):
    """A call's name and arguments; `arguments` is Any because some hosts send an object."""

    name: str | None = None
    arguments: Any = None


class Call(msgspec.Struct, gc=False):
    """An entry of tool_calls, whole or a piece."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class Part(msgspec.Struct, gc=False):
    """An entry of a content list or of reasoning_details."""

    type: str | None = None
    text: str | None = None


class Message(msgspec.Struct, gc=False):
    """A message, or the delta of one."""

    content: str | list[Part] | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    reasoning_details: list[Part] | None = None
    tool_calls: list[Call] | None = None
    function_call: Function | None = None
    refusal: str | None = None


class Logprob(msgspec.Struct, gc=False):
    """One sampled token as logprobs tell it."""

    token: str | None = None
    bytes: list[Byte] | None = None


class Logprobs(msgspec.Struct, gc=False):
    """The chat form; the older completions form has no `content` and says nothing here."""

    content: list[Logprob] | None = None


class Details(msgspec.Struct, gc=False):
    """usage.completion_tokens_details."""

    reasoning_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """The bill."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    reasoning_tokens: int | None = None
    completion_tokens_details: Details | None = None
    cost: Any = None  # an odd one never spoils the answer that it is for


class Choice(msgspec.Struct, gc=False):
    """A choice of a body (`message`) or of a stream event (`delta`)."""

    index: int | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    message: Message | None = None
    delta: Message | None = None
    text: Any = None
    error: Any = None
    usage: Usage | None = None
    logprobs: Logprobs | None = None
    token_ids: list[Id] | None = None
    response_token_ids: list[Id] | None = None
    prompt_token_ids: list[Id] | None = None


class Extra(msgspec.Struct, gc=False):
    """SGLang's own member; output_ids has one list a choice."""

    output_ids: list[list[Id]] | None = None
    input_ids: list[Id] | None = None


class Answer(msgspec.Struct, gc=False):
    """A body or a stream event; the last five fields are only looked at where there are no choices."""

    id: Any = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    provider: str | None = None
    model: str | None = None
    created: int | None = None
    error: Any = None
    prompt_token_ids: list[Id] | None = None
    sglext: Extra | None = None
    object: Any = None
    message: Any = None
    detail: Any = None
    code: Any = None
    meta_info: Any = None


class Receipt(msgspec.Struct, gc=False):
    """What a body says of itself, whatever else is wrong with it."""

    id: Any = None
    usage: Any = None


_DECODE_RECEIPT = msgspec.json.Decoder(Receipt).decode
_DECODE_ANY = msgspec.json.Decoder().decode
_DECODE_ANSWER = msgspec.json.Decoder(Answer).decode
_ENCODE = msgspec.json.Encoder().encode


def shown(text: str, chars: int) -> str:
    """The beginning of foreign text, safe to print: a lone surrogate becomes its escape."""
    return text[:chars].encode("utf-8", "backslashreplace").decode()


def shown_bytes(data: bytes) -> str:
    """The beginning of foreign bytes, safe to print."""
    return data[:SHOWN_CHARS].decode("utf-8", "backslashreplace")


def loads(data: bytes) -> Any:
    """JSON text -> value.

    At most 256 MiB, and at most as deep as Python's recursion limit allows (about 1,000 levels). A ProviderError says
    what is wrong: no JSON, no UTF-8, a lone surrogate, too deep, too long. No other exception is raised.
    """
    if len(data) > MAX_BODY_BYTES:
        raise ProviderError(f"JSON of {len(data):,} bytes; at most {MAX_BODY_BYTES:,} are read")
    return _guarded(_DECODE_ANY, data)


def decode(data: bytes) -> Answer:
    """JSON text -> Answer."""
    try:
        return _guarded(_lenient(_DECODE_ANSWER), data)
    except ProviderError as error:
        wrong = error
    return _error_inside(loads(data), wrong)


def receipt(data: bytes) -> tuple[str | None, float | None]:
    """(id, cost in USD) of a body that may be cut, an error or no answer at all; None where it does not say."""
    try:
        found = _guarded(_lenient(_DECODE_RECEIPT), data)
    except ProviderError:
        begun = CUT_ID.match(data)
        return (begun[1].decode() if begun else None), None
    named = found.id if isinstance(found.id, str) and found.id else None
    cost = amount(found.usage.get("cost")) if isinstance(found.usage, dict) else None
    return named, None if cost is None or cost < 0 else cost


def amount(cost: Any) -> float | None:
    """A cost in USD, None for what is no amount: a text, a truth value, NaN, infinity."""
    told = isinstance(cost, int | float) and not isinstance(cost, bool) and abs(cost) < MAX_USD
    return float(cost) if told else None


def count(told: int | None) -> int | None:
    """A number of tokens, None for what is none: as many as no model can sample."""
    return None if told is None or abs(told) >= MAX_COUNT else told


def convert(value: Any) -> Answer:
    """What a JSON parser made -> Answer."""
    try:
        return _guarded(_convert, value)
    except ProviderError as error:
        wrong = error
    return _error_inside(value, wrong)


def compact(value: Any) -> str:
    """A value as JSON text without spaces."""
    try:
        return _ENCODE(value).decode()
    except RecursionError:
        raise ProviderError("a value inside the answer is nested too deeply to be written as JSON") from None
    except (TypeError, ValueError) as error:
        raise ProviderError(f"a value inside the answer cannot be written as JSON: {error}") from error


def _lenient(work: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """Decode JSON whose costs may be NaN or infinite, which is no JSON: such a one counts as not told."""

    def decoded(data: bytes) -> T:
        try:
            return work(data)
        except msgspec.DecodeError:
            told = BARE_COST.sub(rb"\1null", data)
            if told == data:
                raise
            try:
                return work(told)
            except msgspec.DecodeError:
                pass
            raise

    return decoded


def _convert(value: Any) -> Answer:
    return msgspec.convert(value, Answer)


def _guarded(work: Callable[[Any], T], value: Any) -> T:
    """Foreign exceptions become a ProviderError here and nowhere else."""
    try:
        return work(value)
    except RecursionError:
        message, raw = "the JSON is nested deeper than Python's recursion limit; an answer has under 20 levels", None
    except UnicodeEncodeError as error:  # parsed values may hold lone surrogates, which JSON bytes cannot
        message, raw = f"a text of the answer is no Unicode text: {error}", None
    except msgspec.ValidationError as error:
        message, raw = f"no chat answer: {error}", _raw(value)
    except msgspec.DecodeError as error:
        lone = "a lone surrogate escape, which is no text" if LONE_SURROGATE.search(value) else error
        message, raw = f"no JSON: {lone}; it begins {value[:60]!r}", _raw(value)
    raise ProviderError(message, raw=raw)


def _raw(value: Any) -> str | None:
    return shown_bytes(value) if isinstance(value, bytes) else None


def _error_inside(value: Any, wrong: ProviderError) -> Answer:
    """A body with a field of the wrong type may still say which error it is: that is worth more than the type."""
    error, provider = (value.get("error"), value.get("provider")) if isinstance(value, dict) else (None, None)
    provider = provider if isinstance(provider, str) else None
    if error is None:
        raise ProviderError(str(wrong), raw=wrong.raw, provider=provider) from wrong
    return Answer(error=error, provider=provider)
