"""runners.backoff: every failure has its line, and waits are never shorter than asked for."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ProviderError
from harness.faults import FAULTS, Stop
from harness.response import parse
from harness.transport import NotSentError, UnansweredError
from runners.backoff import ENDS, KINDS, LONGEST_S, Act, Charge, Failure, of_answer, of_error, of_reply, wait_s
from runners.backoff import retry_after_s as asked

NOW = 1_800_000_000.0

MEANT = {
    # fault of the emulator -> (kind, what happens next, what is booked, Retry-After)
    "401": ("key", Act.STOP_RUN, Charge.NOTHING, None),
    "402-credits": ("credits", Act.STOP_RUN, Charge.NOTHING, None),
    "402-key-limit": ("key-limit", Act.STOP_RUN, Charge.NOTHING, None),
    "402-in-flight": ("in-flight-budget", Act.HOLD, Charge.NOTHING, 7.0),
    "403-moderation": ("refused", Act.END, Charge.NOTHING, None),
    "403-guardrail": ("refused", Act.END, Charge.NOTHING, None),
    "403-budget": ("key-budget", Act.STOP_RUN, Charge.NOTHING, None),
    "404": ("no-endpoints", Act.STOP_RUN, Charge.NOTHING, None),
    "408": ("timeout", Act.RETRY, Charge.WHOLE, None),
    "429": ("provider-rate-limit", Act.RETRY, Charge.NOTHING, None),
    "429-retry-after": ("provider-rate-limit", Act.RETRY, Charge.NOTHING, 30.0),
    "429-gateway": ("rate-limit", Act.HOLD, Charge.NOTHING, None),
    "500": ("host-error", Act.RETRY, Charge.NOTHING, None),
    "502": ("host-error", Act.RETRY, Charge.NOTHING, None),
    "503": ("host-error", Act.RETRY, Charge.NOTHING, None),
    "200-error": ("host-error", Act.RETRY, Charge.TOLD, None),
    "not-json": ("no-answer", Act.RETRY, Charge.TOLD, None),
}


def _of_fault(name: str) -> Failure:
    made = FAULTS[name].instead
    assert made is not None
    reply = made("ProviderX")
    body = b"".join(part for part in reply.parts if not isinstance(part, Stop))
    return _failure(reply.status, dict(reply.headers), body)


def _failure(status: int, headers: dict[str, str], body: bytes) -> Failure:
    if status != 200:
        return of_reply(status, headers, body, NOW)
    with pytest.raises(ProviderError) as caught:
        parse(body)
    return of_answer(caught.value, headers, NOW)


@pytest.mark.parametrize("name", MEANT)
def test_each_fault_has_its_meaning(name: str) -> None:
    """Codes that share a number are told apart."""
    found = _of_fault(name)
    assert (found.kind.name, found.kind.act, found.charge, found.retry_after_s) == MEANT[name]


def test_no_fault_is_left_out() -> None:
    """Every fault of the emulator that comes in the place of an answer has its line here."""
    assert {name for name, fault in FAULTS.items() if fault.instead} == set(MEANT)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (402, {"error": {"code": 402, "message": "Insufficient credits"}}, "payment"),
        (403, {"error": {"code": 403, "message": "Your region is not supported"}}, "forbidden"),
        (404, {"error": {"code": 404, "message": "Not Found"}}, "not-found"),
        (400, {"error": {"code": 400, "message": "maximum context length"}}, "bad-request"),
        (413, {"error": {"code": 413, "message": "too large"}}, "bad-request"),
        (422, {"detail": "messages: field required"}, "bad-request"),
        (524, {"error": {"code": 524, "message": "timed out"}}, "timeout"),
        (504, {"error": {"code": 504, "message": "timed out"}}, "timeout"),
        (529, {"error": {"code": "overloaded_error", "message": "busy"}}, "host-error"),
        (502, {"error": {"code": 1210, "message": "odd"}}, "host-error"),
        (429, {"error": {"code": 429, "message": "slow down"}}, "rate-limit"),
        (429, {"error": {"code": 429, "message": "x", "metadata": {"provider_name": "P"}}}, "provider-rate-limit"),
    ],
)
def test_other_replies(status: int, body: dict[str, Any], kind: str) -> None:
    """The status stands in where the body's code is missing, a word or none of HTTP's."""
    assert of_reply(status, {}, json.dumps(body).encode(), NOW).kind.name == kind


@pytest.mark.parametrize(
    ("status", "body", "kind", "charge"),
    [
        (502, b"<html><title>502 Bad gateway</title></html>", "gateway-page", Charge.WHOLE),
        (500, b"", "host-error", Charge.NOTHING),
        (503, b"no healthy upstream", "gateway-page", Charge.WHOLE),
        (403, b"<html>blocked</html>", "forbidden", Charge.NOTHING),
        (200, b"\n    \n", "no-answer", Charge.TOLD),
        (200, b'{"id":"gen-1","choices":[]}', "no-answer", Charge.TOLD),
        (200, b'{"error":{"code":504,"message":"late"}}', "timeout", Charge.WHOLE),
    ],
)
def test_pages_and_empty_bodies(status: int, body: bytes, kind: str, charge: Charge) -> None:
    """A page between us and the API may hide a billed answer; a body of status 200 may be billed whatever it says."""
    found = _failure(status, {}, body)
    assert (found.kind.name, found.charge) == (kind, charge)


def test_what_a_transport_raises() -> None:
    """Never sent costs nothing; sent and unanswered costs all that was reserved."""
    assert (of_error(NotSentError("x")).kind.name, of_error(NotSentError("x")).charge) == ("not-sent", Charge.NOTHING)
    for error in (UnansweredError("y"), ProviderError("a reply without end")):
        assert (of_error(error).kind.name, of_error(error).charge) == ("unanswered", Charge.WHOLE)


@pytest.mark.shared
def test_the_public_cases(shared: Path) -> None:
    """402, 403, 404 and 429 as public reports show them."""
    wanted = {
        "402-credit": ("credits", Act.STOP_RUN),
        "402-inflight": ("in-flight-budget", Act.HOLD),
        "403-flag": ("refused", Act.END),
        "429": ("provider-rate-limit", Act.RETRY),
        "027": ("parameters", Act.STOP_DATASET),
        "top-level": ("host-error", Act.RETRY),
        "beside-choices": ("provider-rate-limit", Act.RETRY),
        "in-choice": ("host-error", Act.RETRY),
        "blank-only-body": ("no-answer", Act.RETRY),
    }
    found = {}
    for number in ("021", "022", "027", "029"):
        (path,) = (shared / "cases").glob(f"{number}-*.json")
        case = json.loads(path.read_text())["input"]
        for variant in case.get("variants", [case | {"name": number}]):
            if "status" in variant:
                body = variant["body"]
                data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                failure = _failure(variant["status"], variant.get("headers", {}), data)
                found[variant["name"]] = (failure.kind.name, failure.kind.act)
                assert wait_s(failure, 1, 0.0) >= float(variant.get("headers", {}).get("retry-after", 0))
    assert found == wanted


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("86400", LONGEST_S),
        ("soon", None),
        ("-3", None),
        ("", None),
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    """Seconds or a date; never negative, never longer than we are willing to sleep in one go."""
    assert asked({"retry-after": value}, NOW) == seconds
    assert asked({}, NOW) is None


def test_waits_double_to_a_cap_and_never_undercut_the_host() -> None:
    """Without jitter the doubling is exact; jitter only adds, up to a quarter."""
    limit = Failure(KINDS["provider-rate-limit"], "", Charge.NOTHING)
    assert [wait_s(limit, n, 0.0) for n in (1, 2, 3, 4, 5, 2000)] == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0]
    asked_for = Failure(KINDS["provider-rate-limit"], "", Charge.NOTHING, retry_after_s=500.0)
    assert (wait_s(asked_for, 1, 0.0), wait_s(asked_for, 1, 0.5)) == (500.0, 562.5)
    assert (wait_s(asked_for, 0, 0.0), wait_s(limit, 0, 0.5)) == (500.0, 0.0)


def test_the_table_is_sound() -> None:
    """What is tried again may be tried more than once and waits; what stops says what to do; ends are named."""
    for kind in KINDS.values():
        again = kind.act in (Act.RETRY, Act.HOLD)
        assert again == (kind.max_tries > 1) == (kind.first_s > 0), kind.name
        stops = {kind.act, kind.exhausted} & {Act.STOP_RUN, Act.STOP_DATASET}
        assert bool(stops) == bool(kind.remedy), kind.name
        assert kind.act is not Act.END or kind.name in ENDS


def test_an_answer_in_a_packing_that_nobody_reads_says_so() -> None:
    """It is no answer, and its text names the packing."""
    with pytest.raises(ProviderError) as caught:
        parse(b"\x0b\x01\x80a")
    failure = of_answer(caught.value, {"content-encoding": "br"}, 0.0)
    assert failure.kind is KINDS["no-answer"]
    assert failure.text.startswith("the host packed its reply (br), which nobody asked for: ")


@pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 308])
def test_a_status_that_no_api_gives_ends_the_run(status: int) -> None:
    """A wrong base URL: nothing was sampled, and no other prompt would fare better; whatever the body says."""
    failure = of_reply(status, {"location": "https://elsewhere/"}, b'{"error":{"code":500,"message":"x"}}', 0.0)

    assert (failure.kind.name, failure.kind.act, failure.charge) == ("no-api", Act.STOP_RUN, Charge.NOTHING)
    assert (failure.text, failure.status) == (f"HTTP {status} to https://elsewhere/ in the place of an answer", status)
    assert "check the base URL" in failure.kind.remedy
    assert of_reply(status, {}, b"", 0.0).text == f"HTTP {status} in the place of an answer"
