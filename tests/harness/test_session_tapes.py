"""harness.session_tapes: what a session that records may send, and what it may write."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.cassette_files import read_recording
from harness.cassette_text import cassette_text
from harness.errors import SetupError
from harness.matching import Sent
from harness.openrouter_lists import Endpoint
from harness.preset_table import PRESETS
from harness.recording import Interaction, Provenance, Recording
from harness.session_tapes import PLAYED_KEY, Tolls, base_of, live, played, recorded
from harness.spending import Meter
from harness.transport import Target
from tests.emulator_kit import MODEL
from tests.harness.test_cassette_text import recording
from tests.scenario_truths import recording_app, shipped
from tests.served import Served

PIN = {"only": ["chutes/int4"], "allow_fallbacks": False}
ASKED: dict[str, Any] = {"model": MODEL, **shipped().scenarios[0].request, "provider": PIN}


def tolls(url: str, budget: str = "1") -> Tolls:
    """Prices of this server."""
    return Tolls(Target(url), Meter(Decimal(budget)))


def sent(url: str, body: Any) -> Sent:
    """A chat request."""
    return Sent("POST", f"{url}/chat/completions", body if isinstance(body, bytes) else json.dumps(body).encode())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "no JSON cannot be pinned or priced"),
        ([], "the request is not pinned"),
        (ASKED | {"provider": {"only": ["chutes", "novita"], "allow_fallbacks": False}}, "the request is not pinned"),
        (
            ASKED | {"provider": {"only": ["chutes"], "allow_fallbacks": False}},
            "'chutes' means chutes/int4, chutes/fp8",
        ),
        (ASKED | {"provider": {"only": ["nobody"], "allow_fallbacks": False}}, "no endpoint answers to 'nobody'"),
        (ASKED | {"model": "m/unknown"}, "no prices and endpoints of m/unknown: HTTP 404"),
    ],
)
def test_what_has_no_one_price_is_not_sent(body: Any, words: str) -> None:
    """A request goes to exactly one endpoint, or nowhere."""
    ends = [Endpoint(f"chutes/{q}", PRESETS["chutes"], quantization=q) for q in ("int4", "fp8")]
    with Served(recording_app([], endpoints=ends)) as url, pytest.raises(SetupError, match=words):
        tolls(url).endpoint(sent(url, body))


def test_another_path_has_no_price(tmp_path: Path) -> None:
    """What else bills is not in the listing."""
    with pytest.raises(SetupError, match="the only path with a price"):
        tolls("http://127.0.0.1:1/api/v1").endpoint(Sent("POST", "http://127.0.0.1:1/api/v1/embeddings", b"{}"))


def test_prices_are_read_once_and_stand_on_no_tape(tmp_path: Path) -> None:
    """Two requests in one test: one listing, two interactions; a GET of the test's own is taken and costs nothing."""
    with Served(recording_app(["chutes"])) as url, recorded(tmp_path, "chutes/two", tolls(url)) as use:
        for _ in range(2):
            httpx.post(f"{url}/chat/completions", json=ASKED)
        httpx.get(f"{url}/key")
        use.finish()

    made = read_recording(tmp_path / "chutes" / "two.yaml")
    assert [one.method for one in made.interactions] == ["POST", "POST", "GET"]
    assert made.provenance.kind == "emulator"
    assert Decimal(made.provenance.cost_usd) > 0


def test_answers_of_two_endpoints_are_no_cassette(tmp_path: Path) -> None:
    """A cassette is evidence for one provider."""
    with Served(recording_app(["chutes", "novita"])) as url, recorded(tmp_path, "chutes/two", tolls(url)) as use:
        for pin in ("chutes", "novita"):
            provider = {"only": [pin], "allow_fallbacks": False}
            httpx.post(f"{url}/chat/completions", json=ASKED | {"provider": provider})
        with pytest.raises(SetupError, match="answers of chutes/int4, novita/int4; a cassette holds one's"):
            use.finish()

    assert list(tmp_path.iterdir()) == []


def test_what_was_recorded_live_stays(tmp_path: Path) -> None:
    """Recording on loopback is refused before the test asks anything; a broken file may be replaced."""
    path = tmp_path / "chutes" / "hello.yaml"
    path.parent.mkdir()
    made = recording(b"x")
    path.write_bytes(cassette_text(replace(made, provenance=replace(made.provenance, kind="live"))))

    with pytest.raises(SetupError, match="recorded live"), recorded(tmp_path, "chutes/hello", tolls("http://[::1]/v1")):
        pass
    path.write_bytes(b"[")
    with recorded(tmp_path, "chutes/hello", tolls("http://[::1]/v1")) as use:
        assert use.recording is None


def test_a_played_cassette_says_where_to_call(tmp_path: Path) -> None:
    """The base URL as recorded, else as the first request went; a key that opens nothing."""
    uri = "https://host.ai/api/v1/chat/completions"
    bare = Recording("p/s.yaml", (Interaction("POST", uri, b"{}", 200, b"{}"),), Provenance("hand-made"))
    path = tmp_path / "p" / "s.yaml"
    path.parent.mkdir()
    path.write_bytes(cassette_text(bare))

    with played(tmp_path, "p/s") as use:
        assert (use.target.base_url, use.target.key) == ("https://host.ai/api/v1", PLAYED_KEY)
        assert use.problems() == (f"interaction 1 (POST {uri}) was never asked for",)
    assert base_of(replace(bare, provenance=Provenance("live", base_url="https://b/v1"))) == "https://b/v1"
    assert base_of(Recording("p", ())) == ""


def test_live_calls_stay_in_the_budget() -> None:
    """One fits, the next does not; the sum is told."""
    with Served(recording_app(["chutes"])) as url:
        paid = tolls(url, "0.00145")
        with live(paid) as target:
            assert httpx.post(f"{target.base_url}/chat/completions", json=ASKED).status_code == 200
            with pytest.raises(SetupError, match="it was not sent"):
                httpx.post(f"{target.base_url}/chat/completions", json=ASKED)

    assert paid.said().startswith("cost $0.0000")
    assert paid.said().endswith("of $0.001450")
