"""harness.inputs: which JSON values hold an answer, and who is said to have given it."""

from typing import Any

import pytest

from harness.inputs import Entry, Unusable, exchange, golden
from harness.types import Exchange

BODY: dict[str, Any] = {"choices": [{"message": {"content": "Hi"}}]}
NAMED = BODY | {"provider": "Novita"}
EVENT: dict[str, Any] = {"choices": [{"delta": {"content": "Hi"}}]}


def test_a_bare_body_is_an_answer() -> None:
    """A body by itself is taken whole, with nothing said about it."""
    assert exchange("f:1", BODY) == Exchange("f:1", BODY)


def test_a_line_tells_all_that_it_may_tell() -> None:
    """The fields of a line arrive where they belong; `name` wins over PATH:LINE."""
    line = {"name": "n", "request": {"a": 1}, "provider": "P", "model": "m", "thinking": False, "response": [EVENT]}

    assert exchange("f:1", line) == Exchange("n", [EVENT], {"a": 1}, "P", "m", False)


@pytest.mark.parametrize("key", ["true_ids", "output_ids", "variant", "dialogue", "pieces", "engine", "prompt_ids"])
def test_what_else_a_line_knows_is_never_read(key: str) -> None:
    """A line's own truth cannot reach the judge: with it and without it the exchange is the same."""
    line = {"response": BODY, "model": "m"}

    assert exchange("f:1", line | {key: [1, 2, 3]}) == exchange("f:1", line)


@pytest.mark.parametrize(
    ("line", "provider"),
    [
        pytest.param({"provider": "A", "response": NAMED, "index": {"provider": "B"}}, "A", id="line-first"),
        pytest.param(
            {"response": NAMED, "index": {"provider": "B"}, "url": "https://c.ai/v1"}, None, id="then-response"
        ),
        pytest.param(
            {"response": [EVENT, EVENT | {"provider": "N"}], "url": "https://c.ai"}, None, id="any-event-counts"
        ),
        pytest.param({"response": 'data: {"provider":"N"}\n\n', "url": "https://c.ai"}, None, id="sse-text-counts"),
        pytest.param({"response": BODY, "index": {"provider": "OR/B"}, "url": "https://c.ai"}, "OR/B", id="then-index"),
        pytest.param({"response": BODY, "url": "https://api.c.ai:8000/v1"}, "api.c.ai", id="then-host"),
        pytest.param({"response": BODY, "index": {"provider": 3}, "url": "https://c.ai"}, "c.ai", id="odd-index"),
        pytest.param({"response": BODY, "url": "http://[bad"}, None, id="odd-url"),
        pytest.param({"response": BODY}, None, id="nobody-says"),
    ],
)
def test_order_of_those_who_name_the_provider(line: dict[str, Any], provider: str | None) -> None:
    """Line, response (left to the judge: None), index, host of the url."""
    assert exchange("f:1", line).provider == provider


def test_text_inside_an_answer_names_no_provider() -> None:
    """A quoted "provider" in sampled text is no statement of the host."""
    text = 'data: {"choices":[{"delta":{"content":"{\\"provider\\": 1}"}}]}\n\n'

    assert exchange("f:1", {"response": text, "url": "https://c.ai"}).provider == "c.ai"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        pytest.param({"text": "hi", "meta_info": {}}, "a body of /generate", id="generate"),
        pytest.param([{"text": "hi", "meta_info": {}}], "a body of /generate", id="generate-list"),
        pytest.param({"output_ids": [1], "generate": {}}, "a body of /generate", id="generate-line"),
        pytest.param({"response": {"text": "", "meta_info": {}}}, "a body of /generate", id="generate-in-line"),
        pytest.param({"a": 1, "b": 2}, "an object with the keys a, b; expected", id="other-object"),
        pytest.param({}, "an empty object; expected", id="empty-object"),
        pytest.param([], "a list of 0; expected", id="empty-list"),
        pytest.param([1], "a list of 1, int first; expected", id="numbers"),
        pytest.param([BODY, BODY], "a list of 2 whole answers; expected one answer a line", id="array-of-answers"),
        pytest.param([{"response": BODY}], "whole answers", id="array-of-lines"),
        pytest.param(None, "null; expected", id="null"),
        pytest.param("x" * 99, "str 'xxx", id="text"),
        pytest.param({"response": None}, "`response` is null; expected a body", id="no-response"),
        pytest.param({"response": 7}, "`response` is int 7", id="number-response"),
        pytest.param(
            {"response": BODY, "thinking": "on"}, "'thinking' is str 'on'; expected bool or null", id="thinking"
        ),
        pytest.param(
            {"response": BODY, "request": []}, "'request' is a list of 0; expected dict or null", id="request"
        ),
        pytest.param({"response": BODY, "name": 4}, "'name' is int 4; expected str", id="name"),
        pytest.param({"response": BODY, "model": {}}, "'model' is an empty object", id="model"),
    ],
)
def test_what_is_no_answer_is_named(value: Any, words: str) -> None:
    """The message says what came and what was expected."""
    with pytest.raises(Unusable) as error:
        exchange("f:1", value)

    assert words in str(error.value)


@pytest.mark.parametrize("body", [{"error": {"code": 502}}, {"choices": []}])
def test_errors_are_for_the_judge(body: dict[str, Any]) -> None:
    """An error that a host sent is an answer to reject, not an unusable input."""
    assert exchange("f:1", body).response == body
    assert exchange("f:1", {"response": body}).response == body


def test_a_logged_answer_of_any_shape_is_for_the_judge() -> None:
    """`response` says that this came back, so the judge rejects it; the same value alone is just a strange file."""
    assert exchange("f:1", {"response": {"detail": "Not Found"}}).response == {"detail": "Not Found"}
    with pytest.raises(Unusable):
        exchange("f:1", {"detail": "Not Found"})


def test_names_of_entries() -> None:
    """An entry is called by its exchange's name, else by its place."""
    assert Entry("p", 3, Exchange("n", {})).name == "n"
    assert Entry("p", 3, trouble="x").name == "p:3"
    assert Entry("p", 0, trouble="x").name == "p"


GOLDEN: dict[str, Any] = {"name": "n", "engine": "e", "source": "s", "prompt_ids": [], "true_ids": [163839]}


def test_a_golden_is_ids_with_or_without_an_answer() -> None:
    """Of /generate there is no answer to judge; else it is that of the line."""
    alone, both = golden(GOLDEN), golden(GOLDEN | {"response": BODY})

    assert (alone.exchange, alone.true_ids, alone.prompt_ids) == (None, (163839,), ())
    assert both.exchange == Exchange("n", BODY)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "it holds null"),
        ([GOLDEN], "it holds a list of 1, dict first"),
        ({"name": "n"}, "the field 'engine' is missing among an object with the keys name"),
        (GOLDEN | {"true_ids": {"a": 1}}, "the field 'true_ids' is an object with the keys a, expected list"),
        (GOLDEN | {"prompt_ids": [1, -1]}, "prompt_ids[1] is int -1, expected an id in 0..163839"),
        (GOLDEN | {"true_ids": [[1]]}, "true_ids[0] is a list of 1, int first, expected an id"),
        (GOLDEN | {"response": None}, "`response` is null; expected a body"),
    ],
)
def test_what_is_no_golden_says_why(value: Any, words: str) -> None:
    """What came and what was expected."""
    with pytest.raises(Unusable) as caught:
        golden(value)

    assert str(caught.value).startswith(words)
