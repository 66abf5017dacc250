"""harness.proof: what cassettes prove of a provider, and every reason why they prove nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.cassette_text import cassette_text
from harness.evidence import read_cassettes
from harness.flow import judge
from harness.proof import Proof, Wanted, prove, some
from harness.recording import Interaction, Recording, pair_of
from harness.ticket import TicketProvider
from harness.transport import target
from tests.emulator_kit import MODEL
from tests.gate_kit import CAST, PLAYED, URL, recording
from tests.harness.test_sightings import kit

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
WANTED = Wanted(target(URL, None, offline=True), MODEL, NOW, timedelta(days=7))
TAG = CAST[0]
Change = Callable[[Recording], Recording]


def proof(place: Path, *changes: Change, pin: str = TAG, wanted: Wanted = WANTED, n: int = 3) -> Proof:
    """What n cassettes prove; the changes are made to the first ones, in order."""
    for k, scenario in enumerate(PLAYED[:n]):
        made = recording(scenario, TAG, NOW - timedelta(days=1, seconds=-k))
        for change in changes[k : k + 1]:
            made = change(made)
        (place / "chutes").mkdir(exist_ok=True)
        (place / "chutes" / f"{k}.yaml").write_bytes(cassette_text(made))
    return prove(pin, read_cassettes(place, place), wanted, lambda exchange: judge(exchange, kit()))


def stated(**members: Any) -> Change:
    """Members of the provenance set otherwise."""
    return lambda made: replace(made, provenance=replace(made.provenance, **members))


def sent(**members: Any) -> Change:
    """Another interaction, with hashes that belong to it."""

    def change(made: Recording) -> Recording:
        one = replace(made.interactions[0], **members)
        return replace(made, interactions=(one,), provenance=replace(made.provenance, pairs=(pair_of(one),)))

    return change


def answered(**members: Any) -> Change:
    """Members of the answer set otherwise, with hashes that belong to it."""

    def change(made: Recording) -> Recording:
        body = json.loads(made.interactions[0].body) | members
        return sent(body=json.dumps(body).encode())(made)

    return change


@pytest.mark.parametrize("pin", [TAG, "chutes", "Chutes/INT4"])
def test_cassettes_that_prove_a_provider(tmp_path: Path, pin: str) -> None:
    """The provider as the listing called it, and each cassette with its hash and time."""
    found = proof(tmp_path, pin=pin)
    assert (found.reasons, found.provider) == ((), TicketProvider("chutes/int4", "Chutes", "int4"))
    assert [(c.path, c.recorded_at) for c in found.cassettes] == [
        (f"chutes/{k}.yaml", f"2026-02-28T12:00:0{k}Z") for k in range(3)
    ]


ODD: list[Any] = [
    pytest.param(stated(kind="hand-made"), (), id="others-are-enough"),
    pytest.param(stated(base_url="https://openrouter.ai/api/v1"), (), id="of-another-place"),
    pytest.param(
        stated(recorded_at="2026-02-22T11:59:59Z"),
        (f"{TAG}: 1 cassettes are older than 7 days; record them again: chutes/0.yaml",),
        id="a-second-too-old",
    ),
    pytest.param(stated(recorded_at="2026-02-22T12:00:00Z"), (), id="just-in-time"),
    pytest.param(
        stated(recorded_at="2026-03-01T12:00:01Z"),
        (f"{TAG}: 1 cassettes were made in the future; look at the clock: chutes/0.yaml",),
        id="from-the-future",
    ),
    pytest.param(
        stated(recorded_at=""),
        (f"{TAG}: 1 cassettes do not say when they were made: chutes/0.yaml",),
        id="without-a-date",
    ),
    pytest.param(
        stated(pairs=()), ("chutes/0.yaml: no hashes, though it says `emulator`",), id="without-hashes"
    ),
    pytest.param(
        lambda made: replace(made, interactions=(replace(made.interactions[0], body=b"{}"),)),
        (
            "chutes/0.yaml: the reply of interaction 1 is not the one that was recorded for this request",
        ),
        id="an-edited-answer",
    ),
    pytest.param(
        sent(uri="https://openrouter.ai/api/v1/chat/completions"),
        ("chutes/0.yaml: asked https://openrouter.ai/api/v1/chat/completions, not http://127.0.0.1:9/api/v1",),
        id="asked-elsewhere",
    ),
    pytest.param(
        answered(provider="Novita"),
        ("chutes/0.yaml: evidence of another provider: Novita answered, not Chutes",),
        id="another-provider",
    ),
    pytest.param(
        answered(provider=None),
        ("chutes/0.yaml: evidence of another provider: nobody that it names answered, not Chutes",),
        id="no-provider",
    ),
    pytest.param(
        answered(model="moonshotai/kimi-k2"),
        (
            "chutes/0.yaml: evidence of another model: moonshotai/kimi-k2 answered, not moonshotai/kimi-k2.5",
            "chutes/0.yaml: billed another prompt than its request's; answers may have been exchanged",
        ),
        id="another-model",
    ),
    pytest.param(
        answered(model="moonshotai/kimi-k2.6"),
        ("chutes/0.yaml: evidence of another model: moonshotai/kimi-k2.6 answered, not moonshotai/kimi-k2.5",),
        id="another-model-of-the-family",
    ),
    pytest.param(answered(model="moonshotai/kimi-k2.5-0127"), (), id="the-model-with-its-date"),
    pytest.param(
        stated(provider="chutes/fp8", quantization="fp8"), (), id="another-variant-is-not-of-this-tag"
    ),
    pytest.param(
        stated(quantization="fp8"),
        (
            f"{TAG}: its cassettes are of several endpoints "
            "(chutes/int4 = Chutes (fp8), chutes/int4 = Chutes (int4)); name one tag",
        ),
        id="two-quantizations",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reasons"), ODD)
def test_one_odd_cassette(tmp_path: Path, change: Change, reasons: tuple[str, ...]) -> None:
    """What does not speak for the provider is passed over; what claims to and cannot be true refuses all."""
    found = proof(tmp_path, change)
    assert found.reasons == reasons
    assert (found.provider is None, found.cassettes == ()) == (bool(reasons), bool(reasons))


def test_a_request_that_pins_nobody(tmp_path: Path) -> None:
    """Without `only`, or with another pin beside it, anybody may have answered."""
    for block in (None, {"order": [TAG]}, {"only": []}, {"only": [TAG, "novita"]}, {"only": [7]}):
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "provider": block}
        found = proof(tmp_path, sent(request_body=json.dumps(body).encode()))
        expected = f"chutes/0.yaml: its request does not pin {TAG} with `only`; anybody may have answered"
        assert expected in found.reasons, block


def test_an_error_is_nobodys_answer(tmp_path: Path) -> None:
    """A recorded refusal lowers the share of good answers; it is no answer of a stranger."""
    refusal = b'{"error": {"code": 429, "message": "slow down"}}'
    assert proof(tmp_path, sent(status=429, body=refusal)).reasons == ()
    assert proof(tmp_path, sent(status=429, body=refusal), sent(status=429, body=refusal + b" ")).reasons == (
        f"{TAG}: unverified: 1 of 3 recorded answers are exact or verified, expected 50% at least",
    )


def test_the_share_that_must_verify(tmp_path: Path) -> None:
    """As asked for; one good answer at least, whatever is asked for."""
    worse = answered(choices=[{"index": 0, "message": {"content": "Another text."}, "finish_reason": "stop"}])
    assert proof(tmp_path, worse).reasons == ()
    strict = replace(WANTED, min_verified=0.9)
    expected = f"{TAG}: unverified: 2 of 3 recorded answers are exact or verified, expected 90% at least"
    assert proof(tmp_path, worse, wanted=strict).reasons == (expected,)
    none = replace(WANTED, min_verified=0.0)
    (tmp_path / "alone").mkdir()
    alone = proof(tmp_path / "alone", worse, wanted=none, n=1)
    assert alone.reasons == (f"{TAG}: unverified: 0 of 1 recorded answers are exact or verified, expected 0% at least",)


def test_a_prompt_that_was_not_ours_is_no_good_answer(tmp_path: Path) -> None:
    """The answer's ids are right, but the bill says that another prompt was read."""

    def longer(made: Recording) -> Recording:
        usage = json.loads(made.interactions[0].body)["usage"]
        more = {"prompt_tokens": usage["prompt_tokens"] + 7, "total_tokens": usage["total_tokens"] + 7}
        return answered(usage=usage | more)(made)

    found = proof(tmp_path, longer, n=1)
    assert found.reasons == (
        "chutes/0.yaml: billed another prompt than its request's; answers may have been exchanged",
        f"{TAG}: unverified: 0 of 1 recorded answers are exact or verified, expected 50% at least",
    )


def test_the_same_reply_twice(tmp_path: Path) -> None:
    """A reply that stands in two cassettes was copied: two requests never have one answer."""
    reply: list[Interaction] = []

    def first(made: Recording) -> Recording:
        reply[:] = made.interactions
        return made

    found = proof(tmp_path, first, lambda made: sent(body=reply[0].body)(made))
    assert "chutes/1.yaml: the same reply stands in chutes/0.yaml; two requests never have one answer" in found.reasons


def test_nothing_at_all(tmp_path: Path) -> None:
    """What was found in its stead is counted by kind, model and place."""
    found = proof(tmp_path, stated(kind="hand-made"), stated(model="m"), n=2)
    assert found.reasons == (
        f"{TAG}: no recording of {MODEL} at {URL} speaks for it "
        f"(found 1 emulator of m at {URL}, 1 hand-made of {MODEL} at {URL})",
    )
    assert proof(tmp_path, pin="novita", n=1).reasons == (
        f"novita: no recording of {MODEL} at {URL} speaks for it (found none at all)",
    )


def test_a_cassette_that_cannot_be_read(tmp_path: Path) -> None:
    """In the provider's own folder it is a reason; in another's it is that one's."""
    (tmp_path / "chutes").mkdir()
    (tmp_path / "chutes" / "z.yaml").write_text("interactions: [")
    (tmp_path / "novita").mkdir()
    (tmp_path / "novita" / "z.yaml").write_text("interactions: [")
    assert [r.partition(":")[0] for r in proof(tmp_path).reasons] == ["chutes/z.yaml"]


def test_some() -> None:
    """The first three of many."""
    assert some(["a", "b", "c", "d"]) == "a, b, c and 1 more"
