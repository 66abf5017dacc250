"""faults: each way to misbehave, one by one."""

import json
import zlib

import pytest

from harness.errors import SetupError
from harness.faults import BOMB_BYTES, FAULTS, Stop, find_fault
from tests.emulator_kit import CHAT, asked, chat, emulator, events, over_asgi, parsed, whole

STATUS = {
    "401": (401, None, "No auth"),
    "402-credits": (402, None, "can only afford 30104"),
    "402-key-limit": (402, None, "Key limit"),
    "402-in-flight": (402, "7", "In-flight"),
    "403-moderation": (403, None, "Provider returned error"),
    "403-guardrail": (403, None, "guardrail"),
    "403-budget": (403, None, "budget"),
    "404": (404, None, "No endpoints found for moonshotai/kimi-k2.5."),
    "408": (408, None, "timed out"),
    "429": (429, None, "Provider returned error"),
    "429-retry-after": (429, "30", "Provider returned error"),
    "429-gateway": (429, None, "Rate limit exceeded"),
    "500": (500, None, "Internal"),
    "502": (502, None, "Provider returned error"),
    "503": (503, None, "No available model provider"),
    "200-error": (200, None, "Provider returned error"),
}
CHANGED = {
    "",
    "200-error-beside-choices",
    "200-error-in-choice",
    "stream-error",
    "hang",
    "hang-midway",
    "half-body",
    "no-done",
    "empty-body",
    "blank-body",
    "not-json",
    "comments",
    "keep-alive",
    "wrong-provider",
    "wrong-model",
    "hidden-tokens",
    "wrong-usage",
    "missing-usage",
    "zero-usage",
    "gzip-bomb",
}


def test_every_fault_has_a_test() -> None:
    """The faults that ship are those named here, and an unknown one is an error that lists them."""
    assert set(FAULTS) == set(STATUS) | CHANGED
    with pytest.raises(SetupError, match=r"no fault '418'; faults: 401, 402-credits"):
        find_fault("418")
    assert chat(emulator(), asked(), "418").status == 400


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", STATUS)
def test_errors_come_with_status_header_and_body(name: str, stream: bool) -> None:
    """In the place of an answer, whether a stream was asked for or not."""
    status, retry_after, message = STATUS[name]
    reply = chat(emulator(), asked(stream=stream), name)
    error = parsed(reply)["error"]
    assert (reply.status, reply.headers.get("retry-after")) == (status, retry_after)
    assert message in error["message"]
    assert error["code"] == (502 if status == 200 else status)


def test_faults_from_the_constructor_come_one_a_request() -> None:
    """A 429, then an answer, then nothing more in the queue; a header goes first."""
    app = emulator(faults=["429", ""])
    assert [chat(app, asked()).status for _ in range(3)] == [429, 200, 200]
    assert chat(emulator(faults=["429"]), asked(), "502").status == 502


def test_errors_inside_a_200() -> None:
    """Beside the choices, in the choice, and in the middle of a stream."""
    app = emulator()
    beside = parsed(chat(app, asked(), "200-error-beside-choices"))
    assert (beside["error"]["code"], beside["choices"][0]["finish_reason"]) == (502, "stop")
    inside = parsed(chat(app, asked(), "200-error-in-choice"))["choices"][0]
    assert (inside["finish_reason"], inside["error"]["code"]) == ("error", 502)
    midway = events(chat(app, asked(stream=True), "stream-error"))
    assert len(midway) == 5
    assert (midway[-1]["error"]["code"], midway[-1]["choices"][0]["finish_reason"]) == (502, "error")


async def test_hangs_wait_for_the_client_to_go() -> None:
    """No byte at all, or half of them; then nothing until the disconnect."""
    data = json.dumps(asked(stream=True)).encode()
    silent = await over_asgi(emulator(faults=["hang"]), "POST", CHAT, data)
    assert [m["type"] for m in silent] == ["http.response.start"]
    half = await over_asgi(emulator(faults=["hang-midway"]), "POST", CHAT, data)
    assert half[-1] == {"type": "http.response.body", "body": b'data: {"i', "more_body": True}


async def test_a_half_body_ends_without_its_end() -> None:
    """The last message says that more will come, and none does: the server must close."""
    sent = await over_asgi(emulator(faults=["half-body"]), "POST", CHAT, json.dumps(asked()).encode())
    body = b"".join(m["body"] for m in sent[1:])
    assert (sent[-1]["more_body"], len(body)) == (True, len(whole(chat(emulator(), asked()))) // 2)
    assert Stop.CUT in tuple(chat(emulator(), asked(), "half-body").parts)


def test_framing_faults_leave_the_answer_whole() -> None:
    """Comments between events, blanks before JSON and a missing [DONE] change no value."""
    app = emulator()
    plain = [e["choices"][0]["delta"] for e in events(chat(app, asked(stream=True)))]
    for name in ("comments", "keep-alive", "no-done"):
        reply = chat(app, asked(stream=True), name)
        assert [e["choices"][0]["delta"] for e in events(reply)] == plain
        assert whole(reply).startswith({"comments": b": OPENROUTER", "keep-alive": b"\n  "}.get(name, b"data: "))
        assert (b"[DONE]" in whole(reply)) == (name != "no-done")
    assert whole(chat(app, asked(), "keep-alive")).startswith(b"\n         \n{")
    assert parsed(chat(app, asked(), "comments"))["object"] == "chat.completion"


def test_bodies_that_are_none() -> None:
    """Nothing, blanks only, and a page of HTML, all with status 200."""
    got = {n: chat(emulator(), asked(), n) for n in ("empty-body", "blank-body", "not-json")}
    assert {n: (r.status, whole(r).strip()) for n, r in got.items()} == {
        "empty-body": (200, b""),
        "blank-body": (200, b""),
        "not-json": (200, b"<html>busy</html>"),
    }


def test_faults_of_the_bill_and_the_head() -> None:
    """27 hidden tokens, one too many, none said, all zero; another host, another model."""
    app = emulator()
    usage = {n: parsed(chat(app, asked(), n)).get("usage") for n in ("hidden-tokens", "wrong-usage", "zero-usage")}
    counts = {n: (u["completion_tokens"], u["total_tokens"]) for n, u in usage.items()}
    assert counts == {"hidden-tokens": (35, 45), "wrong-usage": (9, 19), "zero-usage": (0, 0)}
    assert "usage" not in parsed(chat(app, asked(), "missing-usage"))
    assert all("usage" not in e for e in events(chat(app, asked(stream=True), "missing-usage")))
    assert parsed(chat(app, asked(), "wrong-provider"))["provider"] == "vllm-0.32"
    assert parsed(chat(app, asked(), "wrong-model"))["model"] == "moonshotai/kimi-k2-0905"


def test_a_gzip_bomb_is_small_and_unpacks_to_a_gigabyte() -> None:
    """A thousandth of its size on the wire; it is valid gzip, and the answer stands at its very end."""
    reply = chat(emulator(), asked(), "gzip-bomb")
    assert reply.headers["content-encoding"] == "gzip"
    unpacker, packed, unpacked, tail = zlib.decompressobj(31), 0, 0, b""
    for part in reply.parts:
        assert isinstance(part, bytes)
        packed += len(part)
        piece = unpacker.decompress(part)
        unpacked, tail = unpacked + len(piece), piece[-2000:]
    assert unpacker.eof
    assert packed < 2_000_000 < BOMB_BYTES < unpacked
    assert json.loads(tail)["provider"] == "Chutes"
