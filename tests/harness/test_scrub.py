"""harness.scrub: what is secret goes, all else stays byte for byte; and no committed file holds any."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cassette import load_recording
from harness.recording import Interaction
from harness.scrub import REMOVED, Scrubber, leaks, leaks_in_text, scalars
from tests.conftest import ROOT
from tests.test_house import files

KEY = "sk-" + "or-v1-0123456789abcdef0123456789abcdef"  # in two parts: the scan of committed files reads this one too
COOKIE = "__cf" + "_bm=FAKE1"
USER, ORG = "user_" + "2aBcDeFgHiJkLmNoPqRsTuVwXy1", "org-" + "FAKE1234"
ONE = Interaction("POST", "https://host.ai/v1/chat/completions", b'{"model": "m"}', 200, b'{"choices": []}')


def scrubbed(one: Interaction, *known: str) -> Interaction:
    """The interaction after scrubbing, which a second scrubbing leaves alone."""
    clean, _ = Scrubber(known).interaction(one)
    assert leaks(clean, known) == ()
    return clean


@pytest.mark.parametrize(
    "name",
    [
        *("Authorization", "AUTHORIZATION", "Set-Cookie", "set-cookie", "sEt-CoOkIe", "Cookie", "OpenAI-Organization"),
        *("x-example-org", "X-User-Id", "cf-ray", "x-request-id", "User-Agent"),
    ],
)
def test_headers_pass_by_a_list(name: str) -> None:
    """Any name beyond the few that are kept goes, in any letter case, in requests and replies."""
    headers = {name: ["org-FAKE"], "Content-Type": ["application/json"], "retry-after": ["3"]}

    clean = scrubbed(replace(ONE, request_headers=headers, headers=headers))

    assert clean.request_headers == clean.headers == {"content-type": ["application/json"], "retry-after": ["3"]}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"error": {"code": 429}, "user_id": "user_FAKE"}, {"error": {"code": 429}, "user_id": REMOVED}),
        ({"error": {"metadata": {"User-ID": 17}}}, {"error": {"metadata": {"User-ID": REMOVED}}}),
        ({"error": {"message": "limit of org-AbC123 reached"}}, {"error": {"message": f"limit of {REMOVED} reached"}}),
        ({"metadata": {"raw": '{"org_id": "o7"}'}}, {"metadata": {"raw": '{"org_id": "[removed]"}'}}),
        ({"error": {"message": f"key {KEY} is bad"}}, {"error": {"message": f"key {REMOVED} is bad"}}),
        ({"error": {"message": f"key {KEY.upper()} is bad"}}, {"error": {"message": f"key {REMOVED} is bad"}}),
        ({"error": {"headers": {"SET-COOKIE": "a=b"}}}, {"error": {"headers": {"SET-COOKIE": REMOVED}}}),
        ({"error": {"message": "Set-Cookie: __cf" "_bm=abc; path=/"}}, {"error": {"message": f"{REMOVED} path=/"}}),
        ({"detail": "ask ann@host.ai"}, {"detail": f"ask {REMOVED}"}),
        ({"user": {"id": 7, "plan": "x"}, "n": 1}, {"user": {"id": REMOVED, "plan": REMOVED}, "n": 1}),
        ({"error": {"headers": {"Set-Cookie": ["a=b", "c=d"]}}}, {"error": {"headers": {"Set-Cookie": [REMOVED] * 2}}}),
        ({"organization": None, "user": ""}, {"organization": None, "user": ""}),
        ({"choices": [{"delta": {"content": f"is {KEY}"}}]}, {"choices": [{"delta": {"content": f"is {REMOVED}"}}]}),
        ({"choices": [], "x": f"Bearer {'a' * 30}"}, {"choices": [], "x": REMOVED}),
    ],
)  # fmt: skip
def test_bodies_lose_what_is_secret(body: Any, expected: Any) -> None:
    """By the name of a member outside of the conversation, by its look anywhere; the same in a stream's events."""
    text = json.dumps(body).encode()

    assert json.loads(scrubbed(replace(ONE, body=text)).body) == expected
    stream = scrubbed(replace(ONE, body=b"data: " + text + b"\n\ndata: [DONE]\n\n")).body
    assert json.loads(stream.split(b"\n")[0][6:]) == expected
    assert stream.endswith(b"\n\ndata: [DONE]\n\n")
    assert json.loads(scrubbed(replace(ONE, request_body=text)).request_body) == expected


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": [{"message": {"content": "user_name, user_id: 7", "tool_calls": [{"id": "user_calls:0"}]}}]}',
        b'{"choices":[{"message":{"tool_calls":[{"function":{"arguments":"{\\"user_id\\": \\"42\\"}"}}]}}]}',
        b'{"messages": [{"role": "user", "content": "write to ann@host.ai", "user": "7"}], "model": "m"}',
        b'{"tools": [{"function": {"parameters": {"properties": {"email": {"type": "string"}}}}}]}',
        b'{"tool_choice": {"type": "function", "function": {"name": "user_lookup"}}}',
        b'data: {"choices":[{"delta":{"content":"sk-learn is not a key"}}]}\r\n\r\n: x\r\n',
        b'\n     \n{"a" :  1.50, "b":"\\u0041\\/", "c": 1e400 }\n',
        'data: {"choices":[{"delta":{"content":"a\u2028b@c.de \x85 \x0c"}}]}\n\n'.encode(),
        b'{"id": "gen-1", "provider": "Moonshot AI", "usage": {"prompt_tokens": 7}}',
        b"\xff\xfe\x00 not text",
        b'{"a": "unclosed',
        b"[]",
        b"",
    ],
)
def test_what_was_said_stays_byte_for_byte(body: bytes) -> None:
    """The conversation may speak of users and addresses; JSON keeps its spelling; broken bodies stay broken."""
    assert scrubbed(replace(ONE, body=body, request_body=body)) == replace(ONE, body=body, request_body=body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("\ufeff" + '{"user_id": "u"}', "\ufeff" + '{"user_id": "[removed]"}'),
        (")]}'\n" + '{"user_id": "u"}', ")]}'\n" + '{"user_id": "[removed]"}'),
        ('<p class="x">{"org": "o"} ann@host.ai</p>', '<p class="x">{"org": "[removed]"} [removed]</p>'),
        (": for org-FAKE\n\n", ": for [removed]\n\n"),
        ('event: error\rdata: {"user_id": "u"}\r\r', 'event: error\rdata: {"user_id": "[removed]"}\r\r'),
        ('{"user\\u005fid": "u", "x": "cut', '{"user\\u005fid": "[removed]", "x": "cut'),
    ],
)
def test_bodies_of_other_forms_lose_it_too(body: str, expected: str) -> None:
    """With a mark in front, within a page, in comments and events of a stream, escaped, broken off."""
    assert scrubbed(replace(ONE, body=body.encode())).body.decode() == expected


def test_the_key_in_use_goes_wherever_it_stands() -> None:
    """Known as it is, it needs no look of its own: path, query, both bodies, escaped, in any letter case."""
    key = 'my"key/Ümlaut'
    one = replace(
        ONE,
        uri="https://host.ai/my%22key%2F%C3%9Cmlaut?q=1",
        request_body=json.dumps({"messages": [{"content": key}]}, ensure_ascii=False).encode(),
        body=json.dumps({"choices": [{"message": {"content": key.upper()}}]}).encode(),
        reason=key,
    )

    clean = scrubbed(one, key)

    assert clean.uri == "https://host.ai/[removed]?q=1"
    assert json.loads(clean.request_body) == {"messages": [{"content": REMOVED}]}
    assert json.loads(clean.body)["choices"][0]["message"]["content"] == REMOVED
    assert clean.reason == REMOVED


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("https://u:p@host.ai/v1", "https://host.ai/v1"),
        ("https://host.ai/v1?api_key=abc&x=1", "https://host.ai/v1?api_key=%5Bremoved%5D&x=1"),
        (f"https://host.ai/v1?x={KEY}", "https://host.ai/v1?x=%5Bremoved%5D"),
        ("https://host.ai/v1?x=a%20b&y", "https://host.ai/v1?x=a%20b&y"),
    ],
)
def test_urls(uri: str, expected: str) -> None:
    """Users, passwords and secret parameters go; any other URL stays as it is written."""
    assert scrubbed(replace(ONE, uri=uri)).uri == expected


def test_what_was_removed_is_told() -> None:
    """By place, never by value."""
    headers = {"set-cookie": [COOKIE], "x-example-org": ["org-FAKE"]}
    body = json.dumps({"user_id": USER, "error": {"message": f"{ORG} and {KEY}"}}).encode()

    _, removed = Scrubber().interaction(replace(ONE, headers=headers, body=body))

    assert removed == ("response.headers.set-cookie", "response.body.user_id", "response.body.error.message")


PLANTED = st.sampled_from([KEY, KEY.upper(), USER, "bearer " + "A1" * 12, "__cf_" + "bm=x1", "Sk-" + "Or-a"])


@given(
    PLANTED, st.text(st.characters(codec="utf-8"), max_size=20), st.sampled_from(["content", "raw", "a", "messages"])
)
def test_planted_keys_never_stay(secret: str, around: str, member: str) -> None:
    """Whatever stands around them and wherever they stand, in JSON written in either way."""
    for escaped in (True, False):
        body = json.dumps({member: f"{around} {secret} {around}"}, ensure_ascii=escaped).encode()
        text = scrubbed(replace(ONE, body=body, request_body=body)).body.decode().lower()
        assert secret.lower() not in text


def test_scalars_have_their_paths() -> None:
    """Of nested and of broken JSON."""
    text = '{"a": {"b": [1, "x", {"c": null}]}, "d": "y"'

    assert [(path, text[i:j]) for path, i, j in scalars(text)] == [
        (("a", "b"), "1"),
        (("a", "b"), '"x"'),
        (("a", "b", "c"), "null"),
        (("d",), '"y"'),
    ]


def test_the_scan_sees_what_it_looks_for() -> None:
    """A file with a key, an account, a cookie or a token in it: the line, and no more than the first letters."""
    text = f"fine\nkey: {KEY}\n{USER.upper()}\n{COOKIE}\nAuthorization: BEARER {'b1' * 10}\n"

    found = list(leaks_in_text(text))

    assert [line for line, _ in found] == [2, 3, 4, 5]
    assert KEY[:12] not in str(found)


def test_no_committed_file_holds_a_secret() -> None:
    """Every file of the project is read, pictures too, in every letter case."""
    ours = files()
    assert len(ours) > 400
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in ours
        for line, what in leaks_in_text(path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_no_committed_cassette_holds_a_secret() -> None:
    """Each is read as a cassette too: headers that nobody allowed, ids of accounts, words of hosts."""
    cassettes = [path for path in files() if path.suffix in (".yaml", ".yml") and "cassettes" in path.parts]
    assert len(cassettes) >= 4
    for path in cassettes:
        found = load_recording(str(path), Path(path).read_bytes())
        assert [leaks(one) for one in found.interactions] == [()] * len(found.interactions), path


@pytest.mark.parametrize("name", ["gen-1700000000-AbC_9", "true", "1", KEY, USER, ORG, "a" * 80, "a" * 81])
def test_a_bare_name_is_scrubbed_as_any_message_is(name: str) -> None:
    """The short way for an answer's id gives what the long way gives, which takes ten times as long."""
    long_way = Scrubber().body(name.encode(), "", []).decode()
    assert Scrubber().said(name) == long_way
    assert (long_way == name) == (name not in (KEY, USER, ORG))
