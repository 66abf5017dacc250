"""harness.matching: the same request or not, and where the nearest recorded one parts."""

import json
from typing import Any

import pytest

from harness.matching import Sent, nearest, same

URL = "https://host.ai/v1/chat/completions"


def sent(body: Any, uri: str = URL, method: str = "POST") -> Sent:
    """A request with a JSON body."""
    return Sent(method, uri, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("recorded", "asked", "equal"),
    [
        (sent({"a": 1, "b": 2}), sent({"b": 2, "a": 1.0}), True),
        (sent({}), sent({}, "HTTPS://HOST.ai:443/v1/chat/completions"), True),
        (sent({}, URL + "?a=1&b=2"), sent({}, URL + "?b=2&a=1"), True),
        (sent({}), sent({}, method="post"), True),
        (sent({}), sent({}, method="PUT"), False),
        (sent({}), sent({}, URL + "?a=1"), False),
        (sent({}), sent({}, "http://host.ai/v1/chat/completions"), False),
        (sent({"prompt": "A"}), sent({"prompt": "B"}), False),
        (sent({"a": True}), sent({"a": 1}), False),
        (sent({"a": None}), sent({}), False),
        (Sent("POST", "https://h:x/", b""), Sent("POST", "https://h:x/", b""), True),
    ],
)
def test_method_url_and_body_decide(recorded: Sent, asked: Sent, equal: bool) -> None:
    """Spelling does not matter, values do: two prompts to one URL are never one request."""
    assert same(recorded, asked) is equal


@pytest.mark.parametrize(
    ("asked", "number", "said"),
    [
        (sent({"m": [{"content": "A"}], "temperature": 0.7}), 0, "body.temperature: recorded 0, asked 0.7"),
        (sent({"m": [{"content": "C"}], "temperature": 0.0}), 0, 'body.m[0].content: recorded "A", asked "C"'),
        (sent({"m": [{"content": "B"}], "seed": 1}), 1, "body.seed: recorded nothing, asked 1"),
        (sent({"m": [{"content": "B"}]}, URL + "/x"), 1, f'url.path: recorded "{URL[15:]}", asked "{URL[15:]}/x"'),
        (sent({"m": [{"content": "B"}]}, method="GET"), 1, 'method: recorded "POST", asked "GET"'),
        (sent({"m": [{"content": "A"}]}), 0, "body.temperature: recorded 0, asked nothing"),
        (sent({"m": [{"content": "x" * 200}], "temperature": 0}), 0, 'body.m[0].content: recorded "A", asked "xxx'),
    ],
)
def test_a_miss_names_the_nearest_and_its_first_other_field(asked: Sent, number: int, said: str) -> None:
    """The recorded request with the fewest other fields, counted from 0, and one field with both values."""
    recorded = [sent({"m": [{"content": "A"}], "temperature": 0.0}), sent({"m": [{"content": "B"}]})]

    found = nearest(asked, recorded)

    assert found is not None
    assert found[0] == number
    assert str(found[1]).startswith(said)
    assert len(str(found[1])) < 200


def test_nothing_is_near_where_nothing_is_recorded() -> None:
    """No recorded request, or none that differs: no difference to name."""
    assert nearest(sent({}), []) is None
    assert nearest(sent({}), [sent({})]) is None


def test_bodies_that_are_no_json_are_compared_as_bytes() -> None:
    """And shown as such."""
    found = nearest(Sent("POST", URL, b"\xff"), [Sent("POST", URL, b"x")])

    assert found is not None
    assert str(found[1]) == "body: recorded b'x', asked b'\\xff'"
