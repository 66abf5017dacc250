"""failures.py: an error is never a Turn, and says whose words it is and whether to try again."""

from typing import Any

import pytest

from harness.errors import ProviderError
from harness.failures import refusal
from harness.response import parse
from tests.harness.answers import body, chunk, encoded, framed

row = pytest.param

UPSTREAM = {
    "code": 502,
    "message": "Provider returned error",
    "metadata": {"provider_name": "ProviderX", "raw": '{"error":{"message":"worker limit"}}'},
}
LIMIT = {"code": 429, "message": "Provider returned error", "metadata": {"raw": "limit", "provider_name": "ProviderX"}}
RAW = '{"error":{"message":"worker limit"}}'

ERRORS = [
    row({"error": UPSTREAM}, (502, "ProviderX", RAW, True), "Provider returned error", id="top-level"),
    row(
        body({"content": None}, usage={"completion_tokens": 0}, provider="ProviderY", error=LIMIT),
        (429, "ProviderX", "limit", True),
        "error 429",
        id="beside-choices",
    ),
    row(
        body({"content": "Partial tex"}, choice={"finish_reason": "error", "error": {"code": 500, "message": "boom"}}),
        (500, None, None, True),
        "error 500: boom",
        id="in-choice",
    ),
    row(body(choice={"finish_reason": "error"}, provider="P"), (0, "P", None, False), "'error'", id="finish-error"),
    row({"error": "down", "provider": "P"}, (0, "P", None, False), "without a code: down", id="string"),
    row({"error": {"message": "x", "code": "408"}}, (408, None, None, True), "error 408: x", id="digits"),
    row({"error": {"message": "x", "code": "server_error"}}, (500, None, None, True), "error 500", id="word"),
    row({"error": {"message": "x", "type": "rate_limit_exceeded"}}, (429, None, None, True), "429", id="type"),
    row(
        {"error": {"message": "x", "code": "insufficient_quota"}}, (0, None, None, False), "without a code", id="quota"
    ),
    row({"error": {"code": 402, "message": "x"}}, (402, None, None, False), "error 402", id="402"),
    row({"error": {"code": 400, "message": "x"}}, (400, None, None, False), "error 400", id="400"),
    row({"error": {"code": 529}}, (529, None, None, True), 'error 529: {"code":529}', id="529"),
    row({"error": {"code": 600, "message": "x"}}, (600, None, None, False), "error 600", id="600"),
    row({"error": {"code": True, "message": ["a"]}}, (0, None, None, False), '["a"]', id="odd-types"),
    row(
        {"error": {"code": 500, "metadata": {"raw": {"a": 1}, "provider_name": 3}}},
        (500, None, '{"a":1}', True),
        "500",
        id="raw-object",
    ),
    row({"error": {}}, (0, None, None, False), "without a code: {}", id="empty-error"),
    row({"error": False}, (0, None, None, False), "false", id="false"),
    row({"detail": "Not Found"}, (0, None, None, False), "Not Found", id="detail"),
    row(
        {"object": "error", "message": "too long", "code": 400},
        (400, None, None, False),
        "error 400: too long",
        id="object-error",
    ),
    row({"message": "overloaded", "code": 503}, (503, None, None, True), "error 503: overloaded", id="message"),
    row(
        {"choices": "x", "error": {"code": 503, "message": "x"}},
        (503, None, None, True),
        "error 503",
        id="error-beside-nonsense",
    ),
]


def failure(answer: Any) -> ProviderError:
    """What parse raises."""
    with pytest.raises(ProviderError) as caught:
        parse(answer)
    return caught.value


@pytest.mark.parametrize(("answer", "fields", "words"), ERRORS)
def test_an_error_body_is_never_a_turn(answer: dict[str, Any], fields: tuple[Any, ...], words: str) -> None:
    """Code, provider, the host's own words and whether to try again, the same from bytes, values and stream events."""
    event = {key: value for key, value in answer.items() if key != "choices"}
    event |= (
        {"choices": [{"delta": {}} | c for c in answer["choices"]]} if isinstance(answer.get("choices"), list) else {}
    )
    text = chunk({"content": "Partial"})

    for form in (
        answer,
        encoded(answer),
        [text, event],
        framed([text, event]),
        framed([text, event, chunk(finish="stop")]),
    ):
        error = failure(form)
        assert (error.code, error.provider, error.raw, error.retryable) == fields
        assert words in str(error)


def test_the_place_in_the_stream_is_said() -> None:
    """Events count from 0."""
    assert str(failure([chunk({"content": "a"}), {"error": "b"}])).startswith("event 1 of the stream: ")


def test_an_error_outside_the_data_lines_is_seen() -> None:
    """A gateway that puts bare JSON into the stream."""
    stream = framed([chunk({"content": "a"})], end=b'{"error":{"code":504,"message":"timeout"}}\n')

    assert (failure(stream).code, failure(stream).retryable) == (504, True)


@pytest.mark.parametrize(
    "blank",
    [
        b"",
        b" ",
        b"\n    \n",
        b"\r\n\r\n",
        b"\xef\xbb\xbf\n",
        b": PING\n\n: PING\n\n",
        b": PING",
        b"data:\n\n",
        b"data: [DONE]\n\n",
        [],
    ],
)
def test_an_empty_answer_is_worth_another_try(blank: Any) -> None:
    """No body, blanks, comments, a stream without events: retryable, never an empty answer."""
    error = failure(blank)

    assert (error.code, error.retryable) == (0, True)
    assert "empty" in str(error)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b'\n         \n{"id":"gen-1","choices":[]}', "no chat answer: `$.choices` is missing or empty"),
        ({"id": "gen-1"}, "no chat answer: `$.choices` is missing or empty"),
        ({"choices": None}, "no chat answer: `$.choices` is missing or empty"),
        ([{"choices": []}, {"type": "ping"}], "no chat answer: `$.choices` is missing or empty"),
        ({"text": "Hi", "output_ids": [1], "meta_info": {"id": "x"}}, "an answer of SGLang's /generate"),
        ([{"text": "Hi", "output_ids": [1], "meta_info": {"id": "x"}}], "an answer of SGLang's /generate"),
        (b'[{"text": "Hi", "meta_info": {}}]', "an answer of SGLang's /generate"),
        ({"choices": [{"text": "Hi", "index": 0}]}, "`$.choices[0].message` is missing"),
        (chunk({"content": "Hi"}), "`$.choices[0].message` is missing"),
        ([body()], "a message or a text where a delta was expected"),
        ([{"choices": [{"text": "Hi"}]}], "a message or a text where a delta was expected"),
        (
            {"choices": [{"index": 0, "message": {}}, {"index": 1, "message": {}}]},
            "choices of index [0, 1] came; ask with n=1",
        ),
        (body(choice={"index": 1}), "choices of index [1] came"),
        ([chunk({"content": "a"}), chunk({"content": "b"}, index=1)], "event 1 of the stream: one answer expected"),
        (b'{"choices": [{"mess', 'no JSON: Input data was truncated; it begins b\'{"choices"'),
        (b'{"choices": []} {', "trailing characters"),
        (b"data: {]\n\ndata: [DONE]\n\n", "event 0 of the stream: no JSON"),
        (b"Bad gateway", "neither a JSON object nor SSE; it begins b'Bad gateway'"),
        (b'"text"', "neither a JSON object nor SSE"),
        (b"[1]", "Expected `object`, got `int`"),
        (b"\x1f\x8b\x08\x00", "neither a JSON object nor SSE"),
        (None, "bytes, an object or a list of events; got NoneType"),
        ("text", "got str"),
        (b'{"choices":' + b"[" * 100_000, "nested deeper than Python's recursion limit"),
        (bytes(256 * 2**20 + 1), "a body of 268,435,457 bytes; at most 268,435,456 are read"),
        (rb'{"choices":[{"message":{"content":"\ud83d"}}]}', "surrogate"),
        (body({"content": "\ud83d"}), "surrogates not allowed"),
        ([chunk({"content": "\ud83d"}), chunk({"content": "\ude00"})], "surrogates not allowed"),
        (body({"tool_calls": [{"function": {"name": "f", "arguments": "\ud83d"}}]}), "surrogates not allowed"),
        (b'{"choices":[{"message":{"content":"\xff"}}]}', "Invalid UTF-8"),
    ],
)
def test_what_is_no_answer_says_why(answer: Any, words: str) -> None:
    """A clear message, no code, no reason to try again."""
    error = failure(answer)

    assert words in str(error)
    assert (error.code, error.retryable) == (0, False)


def test_a_page_of_html_keeps_its_status() -> None:
    """The status is read from the title where it stands there."""
    page = b"\n<!DOCTYPE html><html><head><title>site | 502: Bad gateway</title></head>"

    assert (failure(page).code, failure(page).retryable, failure(page).raw) == (502, True, page.strip().decode())
    assert "a page of HTML" in str(failure(b"<html>Hello</html>"))
    assert (failure(b"<html>Hello</html>").code, failure(b"<html>").retryable) == (0, False)


def test_a_wrong_type_names_field_and_both_types() -> None:
    """A number sent as a string is a message, not a crash, also in the middle of a stream."""
    usage = {"usage": {"prompt_tokens": "13"}}
    words = "Expected `int | null`, got `str` - at `$.usage.prompt_tokens`"

    assert words in str(failure(body(**usage)))
    assert words in str(failure(encoded(body(**usage))))
    assert str(failure([chunk({"content": "4"}), chunk() | usage])) == f"event 1 of the stream: no chat answer: {words}"


def test_foreign_words_cannot_break_a_terminal() -> None:
    """Lone surrogates become escapes, long texts are cut, what cannot be written is said."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    error = failure(
        {
            "error": {
                "message": "\ud800" + "x" * 1_000,
                "metadata": {"raw": "\ud800" + "y" * 20_000, "provider_name": "\ud800"},
            }
        }
    )

    assert str(error).endswith("\\ud800" + "x" * 499)
    assert (error.raw, error.provider) == ("\\ud800" + "y" * 9_999, "\\ud800")
    assert "nested too deeply" in str(failure({"error": deep}))


@pytest.mark.parametrize(
    ("status", "body", "fields"),
    [
        row(503, b'{"error":{"code":503,"message":"x"}}', (503, True, None, False), id="plain"),
        row(
            429, b'{"error":{"message":"x","metadata":{"limit_source":"pool"}}}', (429, True, "pool", False), id="limit"
        ),
        row(403, b'{"error":{"code":403,"metadata":{"reasons":["a"]}}}', (403, False, None, True), id="flagged"),
        row(403, b'{"error":{"code":403,"metadata":{"flagged_input":"a"}}}', (403, False, None, True), id="input"),
        row(400, b'{"detail":"field required"}', (400, False, None, False), id="detail"),
        row(502, b'{"error":{"code":1210,"message":"x"}}', (502, True, None, False), id="foreign-code"),
        row(500, b"", (500, True, None, False), id="empty"),
        row(502, b"<html><title>504 late</title>", (504, True, None, False), id="page"),
        row(500, b"oops", (500, True, None, False), id="text"),
        row(418, b'{"choices":[]}', (418, False, None, False), id="no-words"),
    ],
)
def test_a_refusal_has_code_limit_and_flag(status: int, body: bytes, fields: tuple[Any, ...]) -> None:
    """The body's own code where it is one of HTTP's errors, else the status; whose limit; what moderation found."""
    error = refusal(status, body)
    assert (error.code, error.retryable, error.limit_source, error.flagged) == fields
