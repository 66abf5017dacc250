"""What came in place of an answer -> a ProviderError that says whose words these are and whether to try again.

Knows nothing of answers that are answers.
"""

import re
from typing import Any

from harness import records
from harness.errors import ProviderError

RETRYABLE = frozenset({408, 429, *range(500, 600)})
WORDS = {  # error codes that come as words, and the number that they stand for
    "rate_limit_exceeded": 429,
    "server_error": 500,
    "internal_server_error": 500,
    "overloaded_error": 529,
}
HTML_STATUS = re.compile(rb"<title>[^<]*?\b([45]\d\d)\b", re.IGNORECASE)


def no_body(body: bytes) -> ProviderError:
    """Why bytes are neither JSON nor SSE."""
    if not body:
        return ProviderError("an empty body: the host sent keep-alive bytes at most", retryable=True)
    if body.startswith(b"<"):
        status = HTML_STATUS.search(body[:4096])
        code = int(status[1]) if status else 0
        message = f"a page of HTML, no answer; it begins {body[:60]!r}"
        return ProviderError(message, code=code, raw=records.shown_bytes(body), retryable=code in RETRYABLE)
    return ProviderError(f"neither a JSON object nor SSE; it begins {body[:60]!r}", raw=records.shown_bytes(body))


def host_error(error: Any, provider: str | None) -> ProviderError:
    """An error object, or whatever stands in its place, -> ProviderError."""
    fields = error if isinstance(error, dict) else {"message": error}
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    code = _code(fields.get("code")) or _code(fields.get("type"))
    name = metadata.get("provider_name")
    provider = records.shown(name, records.SHOWN_CHARS) if isinstance(name, str) else provider
    raw, source = metadata.get("raw"), metadata.get("limit_source")
    message = fields.get("message") or fields
    return ProviderError(
        f"the host says error {code or 'without a code'}: {_words(message, records.SHOWN_CHARS)}",
        code=code,
        provider=provider,
        raw=None if raw is None else _words(raw, records.RAW_CHARS),
        retryable=code in RETRYABLE,
        limit_source=records.shown(source, records.SHOWN_CHARS) if isinstance(source, str) else None,
        flagged="reasons" in metadata or "flagged_input" in metadata,
    )


def refusal(status: int, body: bytes) -> ProviderError:
    """A reply whose HTTP status is an error -> what the host says, with the status where its words have no such code.

    `raw` is set where these are no words of an API: a page that something between wrote.
    """
    try:
        answer = records.decode(body) if body.strip() else records.Answer(message=f"HTTP {status}, an empty body")
        error = host_error(answer.error, answer.provider) if answer.error is not None else no_choices(answer)
    except ProviderError:
        error = no_body(body.lstrip())
    if not 400 <= error.code < 600:
        error.code, error.retryable = status, status in RETRYABLE
    return error


def _words(value: Any, chars: int) -> str:
    try:
        text = value if isinstance(value, str) else records.compact(value)
    except ProviderError as error:
        text = f"({error})"
    return records.shown(text, chars)


def _code(code: Any) -> int:
    """A code as a number, in digits or as one of WORDS; 0 for anything else."""
    if isinstance(code, str):
        return int(code) if re.fullmatch("[0-9]{1,9}", code) else WORDS.get(code, 0)
    return code if isinstance(code, int) and not isinstance(code, bool) else 0


def is_error_page(answer: records.Answer) -> bool:
    """A framework's own error has no `error` member: {"detail": ...}, {"object": "error", "message": ...}."""
    return answer.object == "error" or answer.message is not None or answer.detail is not None


def no_choices(answer: records.Answer) -> ProviderError:
    """Why an object without choices is no answer."""
    if answer.meta_info is not None:
        return ProviderError("an answer of SGLang's /generate, not a chat answer: it has meta_info and no choices")
    if is_error_page(answer):
        message = answer.detail if answer.message is None else answer.message
        return host_error({"message": message, "code": answer.code}, answer.provider)
    return ProviderError("no chat answer: `$.choices` is missing or empty", provider=answer.provider)


def in_event(number: int, error: ProviderError) -> ProviderError:
    """The same failure, with its place in the stream (events count from 0)."""
    return ProviderError(
        f"event {number} of the stream: {error}",
        code=error.code,
        provider=error.provider,
        raw=error.raw,
        retryable=error.retryable,
        limit_source=error.limit_source,
        flagged=error.flagged,
    )
