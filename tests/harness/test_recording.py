"""harness.recording: provenance, hashes that bind a reply to its request, canonical bodies."""

from dataclasses import replace
from typing import Any

import pytest

from harness.errors import SetupError
from harness.recording import (
    Interaction,
    Provenance,
    Recording,
    canonical,
    complaints,
    metadata_of,
    pair_of,
    provenance_of,
)

ONE = Interaction("POST", "https://host.ai/v1/chat/completions", b'{"prompt": "A"}', 200, b'{"said": "a"}')
TWO = replace(ONE, request_body=b'{"prompt": "B"}', body=b'{"said": "b"}')
LIVE = Provenance(
    "live",
    "2026-11-30T08:00:00Z",
    "https://openrouter.ai/api/v1",
    "moonshotai/kimi-k2.5",
    "hello",
    "siliconflow/int4",
    "SiliconFlow",
    "int4",
    "0.00012",
    (pair_of(ONE, ["response.headers.set-cookie"]), pair_of(TWO)),
)


def test_provenance_goes_there_and_back() -> None:
    """What is written as metadata is read as the same value."""
    assert provenance_of(metadata_of(LIVE)) == LIVE
    assert metadata_of(LIVE)["provenance"] == "live"
    assert provenance_of(metadata_of(Provenance("hand-made"))) == Provenance("hand-made")


@pytest.mark.parametrize("metadata", [None, {}, {"recorded_by": "vcr"}, [], "live"])
def test_a_file_that_does_not_say_is_evidence_of_nothing(metadata: Any) -> None:
    """A cassette of another tool is `unstated`."""
    found = provenance_of(metadata)

    assert (found.kind, found.is_live, found.at) == ("unstated", False, None)


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"provenance": "Live"}, "expected one of live, emulator, hand-made, engine"),
        ({"provenance": ["live"]}, "expected one of"),
        ({"provenance": "live", "model": 7}, "`metadata.model` is 7; expected text"),
        ({"provenance": "live", "recorded_at": "yesterday"}, "expected 2026-11-30T08:00:00Z"),
        ({"provenance": "live", "recorded_at": "2026-11-30T08:00:00"}, "no time zone"),
        ({"provenance": "live", "exchanges": {}}, "no list of objects"),
        ({"provenance": "live", "exchanges": [7]}, "no list of objects"),
        ({"provenance": "live", "exchanges": [{"request_sha256": "x"}]}, "something else than sha256"),
    ],
)
def test_a_statement_that_cannot_be_is_refused(metadata: Any, words: str) -> None:
    """What came and what was expected stands in the error."""
    with pytest.raises(SetupError, match=words):
        provenance_of(metadata)


def test_only_live_is_evidence() -> None:
    """Of the four kinds one counts; its time is UTC."""
    assert [Provenance(kind).is_live for kind in ("live", "emulator", "hand-made", "engine")] == [True] + [False] * 3
    assert LIVE.at is not None
    assert LIVE.at.timestamp() == 1_796_025_600


@pytest.mark.parametrize(
    ("interactions", "words"),
    [
        ((ONE, TWO), ()),
        ((replace(ONE, body=TWO.body), replace(TWO, body=ONE.body)), ("the reply of interaction 1 is not",) * 1),
        ((replace(ONE, request_body=b'{"prompt": "C"}'), TWO), ("the request of interaction 1 is not",)),
        ((ONE,), ("1 interactions, 2 hashes",)),
        ((TWO, ONE), ("the request of interaction 1 is not",)),
    ],
)
def test_swapped_and_edited_bodies_are_seen(interactions: tuple[Interaction, ...], words: tuple[str, ...]) -> None:
    """A reply belongs to its request: every change of either is named."""
    found = complaints(Recording("p/s.yaml", interactions, LIVE))

    assert bool(found) == bool(words)
    assert found[:1] == () or found[0].startswith(words[0])


def test_a_recording_without_hashes_is_no_recording() -> None:
    """A hand-made file states none; one that says it was recorded must."""
    assert complaints(Recording("p/s.yaml", (ONE,), Provenance("hand-made"))) == ()
    assert complaints(Recording("p/s.yaml", (ONE,), Provenance("live"))) == ("no hashes, though it says `live`",)


@pytest.mark.parametrize(
    ("body", "other", "equal"),
    [
        (b'{"a": 1, "b": [1.0]}', b'{"b":[1],"a":1}', True),
        (b'{"a": true}', b'{"a": 1}', False),
        (b'{"a": [1, 2]}', b'{"a": [2, 1]}', False),
        (b'{"a": "\\u0041"}', b'{"a": "A"}', True),
        (b'{"a": null}', b"{}", False),
        (b"not json ", b"not json", False),
        (b'{"a": NaN}', b'{"a":NaN}', False),
        (b"[" * 100_000, b"[" * 100_000, True),
    ],
)
def test_canonical_bodies(body: bytes, other: bytes, equal: bool) -> None:
    """The same JSON value in another spelling is the same request; anything else is not."""
    assert (canonical(body) == canonical(other)) is equal


@pytest.mark.parametrize(
    ("path", "name"),
    [("cassettes/novita/hello.yaml", "novita/hello"), ("a\\b\\c.yml", "b/c"), ("alone.yaml", "alone")],
)
def test_a_recording_is_called_by_folder_and_scenario(path: str, name: str) -> None:
    """Whatever the separators are."""
    assert Recording(path, ()).name == name
