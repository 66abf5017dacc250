"""harness.cassette_text: recordings -> YAML for eyes, byte for byte."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.cassette import load_recording
from harness.cassette_text import cassette_text
from harness.recording import Interaction, Pair, Provenance, Recording

SSE = b'data: {"choices":[]}\n\n: OPENROUTER PROCESSING\n\ndata: [DONE]\n\n'
ODD = " \n\t\r:#-'\"{}[]|>%&*!\\~`@,?a1\x85\u2028\ufeff\x7f\U0001f600\u6c49"
BODIES = st.one_of(st.binary(), st.text(ODD).map(str.encode), st.text(st.characters(codec="utf-8")).map(str.encode))
HEADERS = st.dictionaries(
    st.text("abc-", min_size=1), st.lists(st.text(st.characters(codec="utf-8")), min_size=1), max_size=2
)


def recording(body: bytes, sent: bytes = b'{"model":"m"}', headers: dict[str, list[str]] | None = None) -> Recording:
    """A cassette with this reply, twice."""
    one = Interaction("POST", "https://host.ai/v1?x=1", sent, 200, body, headers or {}, headers or {}, "OK")
    pair = Pair("a" * 64, "b" * 64, ("response.headers.set-cookie",))
    return Recording("p/s.yaml", (one, one), Provenance("emulator", scenario="s", pairs=(pair, pair)))


@given(BODIES, BODIES, HEADERS)
def test_every_byte_comes_back(body: bytes, sent: bytes, headers: dict[str, list[str]]) -> None:
    """Whatever the bodies and headers are, reading gives what was written, here and in any safe YAML reader."""
    made = recording(body, sent, headers)

    text = cassette_text(made)

    assert load_recording("p/s.yaml", text) == made
    told = yaml.safe_load(text)["interactions"][1]["response"]["body"]["string"]
    assert (told.encode() if isinstance(told, str) else told) == body


@pytest.mark.parametrize(
    ("body", "line"),
    [
        pytest.param(SSE, '        data: {"choices":[]}', id="sse"),
        pytest.param(b'\n         \n{"id": "gen-1"}', '        {"id": "gen-1"}', id="keep-alive-blanks"),
        pytest.param(b'{"a": "\xe6\xb1\x89 \xf0\x9f\x98\x80"}', '        {"a": "\u6c49 \U0001f600"}', id="unicode"),
    ],
)
def test_a_body_stands_line_by_line(body: bytes, line: str) -> None:
    """A person and a diff see each line of JSON and SSE as it came, unescaped."""
    assert line in cassette_text(recording(body)).decode().splitlines()


def test_a_cassette_reads_from_top_to_bottom() -> None:
    """Request, reply, then where it came from; plain words are not quoted."""
    made = Recording(
        "p/hello.yaml",
        (Interaction("POST", "https://h.ai/v1", b"{}", 200, b"x\n", {}, {"content-type": ["text/plain"]}, "OK"),),
        Provenance("live", "2026-11-30T08:00:00Z", scenario="no"),
    )

    assert cassette_text(made).decode() == (
        "interactions:\n"
        "- request:\n"
        "    method: POST\n"
        "    uri: https://h.ai/v1\n"
        "    headers: {}\n"
        "    body: |-\n"
        "      {}\n"
        "  response:\n"
        "    status: {code: 200, message: OK}\n"
        "    headers:\n"
        "      content-type: [text/plain]\n"
        "    body:\n"
        "      string: |+\n"
        "        x\n"
        "metadata:\n"
        "  provenance: live\n"
        '  recorded_at: "2026-11-30T08:00:00Z"\n'
        '  scenario: "no"\n'
        "version: 1\n"
    )


def test_words_that_yaml_takes_for_something_else_are_quoted() -> None:
    """`no`, numbers and dates stay text."""
    words = ["no", "null", "1e3", "2026-11-30", "~", "a: b", "x #y", "", "-"]

    text = cassette_text(recording(b"", headers={"h": words}))

    assert yaml.safe_load(text)["interactions"][0]["response"]["headers"]["h"] == words
    assert json.dumps("a: b").encode() in text
