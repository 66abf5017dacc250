"""harness.cassette: VCR cassettes -> entries, one a POST; and the shipped ones."""

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import vcr
import yaml

from harness import cassette
from harness.cassette import load_recording, read_cassette
from harness.errors import SetupError
from harness.inputs import Entry, Unusable
from harness.recording import Provenance
from harness.store import read, walk
from tests.conftest import ROOT

BODY: dict[str, Any] = {"choices": [{"message": {"content": "Hi"}}], "provider": "P"}
TEXT = json.dumps(BODY)
SSE = 'data: {"choices":[]}\n\ndata: [DONE]\n\n'


def interaction(body: Any = TEXT, **response: Any) -> dict[str, Any]:
    """One interaction as vcrpy writes it."""
    request = {"method": "POST", "uri": "https://host.ai/v1/chat/completions", "headers": {}, "body": '{"model":"m"}'}
    return {
        "request": request,
        "response": {"status": {"code": 200}, "headers": {}, "body": {"string": body}} | response,
    }


def entries(*interactions: Any) -> list[Entry]:
    """What a cassette with these interactions gives."""
    return list(read_cassette("c", yaml.dump({"version": 1, "interactions": list(interactions)}).encode()))


@pytest.mark.parametrize(
    ("old", "new", "twice"),
    [
        ("version: 1", "interactions: []\nversion: 1", "interactions"),
        ("version: 1", "version: 1\nmetadata: {provenance: hand-made, provenance: emulator}", "provenance"),
        ("version: 1", 'version: 1\nmetadata: {}\n"metadata": {provenance: emulator}', "metadata"),
        ("    method: POST", "    method: GET\n    method: POST", "method"),
        ("      code: 200", "      code: 500\n      code: 200", "code"),
    ],
)
def test_a_member_stated_twice(old: str, new: str, twice: str) -> None:
    """Neither the first nor the last one counts: the cassette is refused, whoever reads it."""
    text = yaml.dump({"version": 1, "interactions": [interaction()]})
    assert old in text
    doubled = text.replace(old, new).encode()
    with pytest.raises(SetupError, match=rf"`{twice}` is stated twice \(line \d+\)"):
        load_recording("c", doubled)
    with pytest.raises(Unusable, match=rf"`{twice}` is stated twice"):
        list(read_cassette("c", doubled))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(interaction(), BODY, id="json"),
        pytest.param(interaction(TEXT.encode()), BODY, id="binary"),
        pytest.param(interaction(SSE), SSE.encode(), id="sse"),
        pytest.param(interaction("<html>"), b"<html>", id="no-json-is-for-the-judge"),
        pytest.param(interaction(""), b"", id="empty-is-for-the-judge"),
        pytest.param(interaction(body=None, parsed_body=BODY) | {}, BODY, id="parsed-body"),
        pytest.param(
            interaction(gzip.compress(TEXT.encode()), headers={"content-encoding": ["gzip"]}), BODY, id="packed-body"
        ),
        pytest.param(interaction(TEXT, headers={"Content-Encoding": ["gzip"]}), BODY, id="unpacked-by-the-recorder"),
    ],
)
def test_bodies(given: dict[str, Any], expected: Any) -> None:
    """A body comes whole, as JSON where it is JSON, byte for byte where it is not."""
    (entry,) = entries(given)

    assert entry.exchange is not None
    assert entry.exchange.response == expected
    assert entry.exchange.request == {"model": "m"}


def test_names_lines_and_providers() -> None:
    """An answer is called PATH:LINE; the uri's host is its provider only where the body names none."""
    text = yaml.dump({"interactions": [interaction(), interaction(SSE)], "version": 1})
    starts = [n for n, line in enumerate(text.splitlines(), 1) if line.startswith("- ")]

    got = [e.exchange for e in read_cassette("c", text.encode())]

    assert [(g.name, g.provider) for g in got if g] == [(f"c:{starts[0]}", None), (f"c:{starts[1]}", "host.ai")]


@pytest.mark.parametrize(("code", "body"), [(404, '{"detail": "x"}'), (502, "<html>"), (500, TEXT)])
def test_a_refused_request_is_an_error_whatever_its_body(code: int, body: str) -> None:
    """A status of 400 and more never becomes an answer: the judge gets an error with that code."""
    (entry,) = entries(interaction(body, status={"code": code}))

    assert entry.exchange is not None
    assert entry.exchange.response == {"error": {"code": code, "message": f"HTTP {code}", "metadata": {"raw": body}}}


def test_an_error_body_stays_as_it_is() -> None:
    """What the host says of its own error is kept."""
    (entry,) = entries(interaction('{"error": {"code": 404, "message": "none"}}', status={"code": 404}))

    assert entry.exchange is not None
    assert entry.exchange.response == {"error": {"code": 404, "message": "none"}}


def test_only_posts_are_answers() -> None:
    """A look at /models in between is passed over; a cassette of nothing else is named."""
    get = interaction("{}")
    get["request"]["method"] = "GET"

    assert [e.exchange.response for e in entries(get, interaction(), get) if e.exchange] == [BODY]
    with pytest.raises(Unusable, match="a cassette without any POST"):
        entries(get)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param(7, "int 7; expected `interactions:`", id="number"),
        pytest.param({"request": {}}, "an object with the keys request; expected", id="no-response"),
        pytest.param(interaction(None), "`response.body.string` is null", id="no-body"),
        pytest.param(interaction('{"meta_info": {}, "text": ""}'), "a body of /generate", id="generate"),
        pytest.param(interaction(b"x", headers={"content-encoding": ["br"]}), "in the encoding 'br'", id="brotli"),
        pytest.param(
            interaction(b"\x1f\x8bxx", headers={"content-encoding": ["gzip"]}), "does not unpack", id="broken-gzip"
        ),
    ],
)
def test_an_interaction_without_an_answer_is_named(given: Any, words: str) -> None:
    """The others are still read."""
    bad, good = entries(given, interaction())

    assert (bad.exchange, good.exchange is None) == (None, False)
    assert words in bad.trouble


def test_a_gzip_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body is unpacked up to a limit only."""
    monkeypatch.setattr(cassette, "MAX_BODY_BYTES", 1000)

    (entry,) = entries(interaction(gzip.compress(b" " * 10_000_000), headers={"Content-Encoding": ["gzip"]}))

    assert "unpacks to more than" in entry.trouble


def test_python_tags_are_refused_alone() -> None:
    """A tag that would build a Python object is refused with its line, and nothing of it is run."""
    text = yaml.dump({"interactions": [interaction("one"), interaction("two")]}).replace(
        "string: one", "string: !!python/object/apply:os.system ['touch /nonexistent']"
    )

    bad, good = read_cassette("c", text.encode())

    assert "python/object/apply:os.system" in bad.trouble
    assert f"refused at line {text[: text.index('!!python')].count(chr(10)) + 1}: " in bad.trouble
    assert good.exchange is not None


@pytest.mark.parametrize("odd", ["!!timestamp x", "!!int x", "!!float x", "!!binary é", "{[a]: b}", "&a [*a]", "!!x y"])
def test_odd_scalars_are_refused_alone(odd: str) -> None:
    """Whatever a scalar does inside the YAML library, it is named and the others are read."""
    text = yaml.dump({"interactions": [interaction("one"), interaction("two")]}).replace(
        "string: one", f"string: {odd}"
    )

    bad, good = read_cassette("c", text.encode())

    assert "expected" in bad.trouble
    assert good.exchange is not None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("a: [1, 2", "no readable YAML", id="cut"),
        pytest.param("a: " + "[" * 5000, "nesting", id="deep"),
        pytest.param("\x00", "no readable YAML", id="control-character"),
    ],
)
def test_broken_yaml_is_named(text: str, words: str) -> None:
    """The parser's words and line are told; nothing is raised, nothing is slow."""
    (entry,) = read_cassette("c", text.encode())

    assert words in entry.trouble


@pytest.mark.parametrize("text", ["", "a: 1", "- 1", "interactions: 3", "interactions: {a: 1}", "x"])
def test_yaml_that_is_no_cassette(text: str) -> None:
    """Any other YAML is named as such."""
    with pytest.raises(Unusable, match="YAML, but no cassette"):
        list(read_cassette("c", text.encode()))


def test_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are counted before any is kept."""
    monkeypatch.setattr(cassette, "MAX_NODES", 50)

    with pytest.raises(Unusable, match="more than 50 YAML nodes"):
        entries(interaction(), interaction(), interaction())


def test_aliases_cannot_blow_up_a_body() -> None:
    """A file with aliases (vcrpy writes some) is read, but never a parsed body that could be built of them."""
    bomb = interaction(None, parsed_body={"choices": []}, headers=(shared := {"a": ["b"]}))
    other = interaction(headers=shared)

    bad, good = entries(bomb, other)

    assert "`parsed_body` in a file with YAML aliases" in bad.trouble
    assert good.exchange is not None


def test_laughs_cost_nothing() -> None:
    """Values that aliases make endless are never written out, wherever they stand."""
    laughs = "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n"
    laughs += "".join(f"l{k}: &l{k} [{', '.join([f'*l{k - 1}'] * 10)}]\n" for k in range(1, 15))
    places = (
        "{request: {method: *l14}, response: {body: {string: x}, headers: *l14}}",
        "{request: {method: POST, uri: *l14, body: *l14}, response: {body: {string: x}, headers: {a: *l14}}}",
        "{request: {}, response: {body: {string: *l14}}}",
        "{request: {}, response: {body: *l14, status: *l14}}",
        "{request: {parsed_body: *l14}, response: {parsed_body: *l14}}",
        "*l14",
    )
    text = laughs + "interactions:\n" + "".join(f"- {place}\n" for place in places)

    assert [bool(e.exchange) for e in read_cassette("c", text.encode())] == [True, True, False, False, False, False]


def one_interaction(**changes: Any) -> bytes:
    """A cassette of one interaction, which these members change."""
    return yaml.dump({"interactions": [interaction() | changes]}).encode()


def test_a_recording_holds_every_interaction() -> None:
    """GETs too, header names in lower case, bodies as bytes, packed ones unpacked."""
    get = interaction("{}", headers={"Retry-After": ["3"]})
    get["request"]["method"] = "GET"
    packed = interaction(gzip.compress(b"x"), headers={"Content-Encoding": "gzip", "A": "b"})

    found = load_recording("p/s.yaml", yaml.dump({"interactions": [get, packed], "metadata": {}}).encode())

    assert [(i.method, i.body, i.headers) for i in found.interactions] == [
        ("GET", b"{}", {"retry-after": ["3"]}),
        ("POST", b"x", {"a": ["b"]}),
    ]
    assert found.interactions[1].request_body == b'{"model":"m"}'
    assert found.provenance == Provenance()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(one_interaction(response={"status": 200, "body": {"string": ""}}), "expected", id="no-code"),
        pytest.param(one_interaction(request=None), "an object with the keys request, response", id="no-request"),
        pytest.param(one_interaction(request={"method": "GET", "uri": "file:///x"}), "http.s. uri", id="file-uri"),
        pytest.param(one_interaction(request={"uri": "https://h"}), "a request without method", id="no-method"),
        pytest.param(
            yaml.dump({"interactions": [interaction(headers={"a": [1]})]}).encode(), "header that is no text", id="head"
        ),
        pytest.param(b"interactions: [&a x, *a]", "YAML aliases", id="alias"),
        pytest.param(b"interactions: []\nmetadata: {provenance: [x]}", "expected one of live", id="provenance"),
        pytest.param(b"interactions: []\nmetadata: !!python/object:os.x {}", "python/object:os.x", id="metadata-tag"),
        pytest.param(b"a: [", "no readable YAML", id="cut"),
        pytest.param(b"a: 1", "no cassette", id="other-yaml"),
        pytest.param(
            yaml.dump({"interactions": [interaction(), interaction("one")]}).replace(
                "string: one", "string: !!python/tuple [x]"
            ).encode(),
            "python/tuple",
            id="one-bad-interaction",
        ),
    ],
)  # fmt: skip
def test_half_a_recording_is_refused_whole(text: bytes, words: str) -> None:
    """What cannot be read, or would build a Python object, refuses the file; nothing of it is replayed."""
    with pytest.raises(SetupError, match=words):
        load_recording("p/s.yaml", text)


SHIPPED = list(walk(str(ROOT / "cassettes")))


def test_shipped_cassettes_say_that_they_are_hand_made() -> None:
    """Nobody may take them for recordings: the first line says it, and what is filled in is named."""
    assert len(SHIPPED) == 4
    for path in SHIPPED:
        text = Path(path).read_text()
        assert text.startswith("# Hand-made from a report, never recorded.\n# The report: ")
        assert "# Filled in here: every other field" in text
        assert load_recording(path, text.encode()).provenance == Provenance("hand-made")


def test_shipped_cassettes_hold_the_reported_facts() -> None:
    """The texts and the error of the report, at the hosts that it names, and no usage that nobody has seen."""
    found = {Path(e.path).relative_to(ROOT).as_posix(): e.exchange for e in read([ROOT / "cassettes"])}
    bodies: dict[str, Any] = {name: e.response for name, e in found.items() if e}

    assert bodies["cassettes/siliconflow/hello.yaml"]["provider"] == "SiliconFlow"
    assert bodies["cassettes/siliconflow/hello.yaml"]["choices"][0]["message"]["content"] == "Hello my friend"
    assert bodies["cassettes/atlas-cloud/hello.yaml"]["choices"][0]["message"]["content"] == "Hello there friend."
    assert bodies["cassettes/chutes/no-endpoints.yaml"] == {
        "error": {"message": "No endpoints found for moonshotai/kimi-k2.5.", "code": 404}
    }
    message = bodies["cassettes/unnamed-host/tool-call-as-text.yaml"]["choices"][0]["message"]
    assert message["content"].startswith("<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0")
    assert message["tool_calls"] is None
    assert not any("usage" in body for body in bodies.values())


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: "/".join(Path(p).parts[-2:]))
def test_shipped_cassettes_replay(path: str) -> None:
    """vcrpy plays each of them back to an HTTP client, body and status as read here."""
    recorded = yaml.safe_load(Path(path).read_text())["interactions"][0]

    with vcr.use_cassette(path, record_mode="none", match_on=["method", "uri", "body"]):
        answer = httpx.post(recorded["request"]["uri"], content=recorded["request"]["body"])

    assert answer.status_code == recorded["response"]["status"]["code"]
    assert answer.text == recorded["response"]["body"]["string"]
    (entry,) = read([path])
    assert entry.exchange is not None
    assert answer.json() == entry.exchange.response
