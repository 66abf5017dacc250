"""Kinds of trouble that users of such APIs reported with switches, framing, bills and gateways; see `test_cases`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.encoder import encode_ordinary, encode_prompt_text
from harness.errors import ProviderError
from harness.flow import completion_tokens, judge
from harness.formats import formats
from harness.prompt import render
from harness.response import parse
from harness.types import Exchange, Usage
from tests.providerx import AS_SENT, MODEL, OFFSET, UNKNOWN, answer, call, codes, ids, judged, kit, masked, section

K25 = next(f for f in formats() if f.name == "kimi-k2.5")
KNOWN = {**OFFSET, **AS_SENT}
ARGUMENTS = '{"city": "Oslo"}'
SECTION = section("get_weather", ARGUMENTS)
END = ids("<|im_end|>")


# --- 020: the thinking switch ---------------------------------------------------------------------------------------


@pytest.mark.required
@pytest.mark.parametrize(
    ("thinking", "tail"), [(True, [163588, 69702, 163601, 163606]), (False, [163588, 69702, 163601, 163606, 163607])]
)
def test_020_ends_of_the_prompt(thinking: bool, tail: list[int]) -> None:
    """The prompt ends in `<think>` with thinking on, in the closed pair with thinking off."""
    user = [{"role": "user", "content": "2+2"}]
    row = render(user, None, format=K25, thinking=thinking, encode=encode_prompt_text).ids
    assert row[-len(tail) :] == tail


@pytest.mark.required
def test_020_on_and_off() -> None:
    """On: the output starts with the reasoning. Off: with the content. The mode that was asked for is recorded."""
    on = judged(answer({"reasoning": "Ok.", "content": "4"}, 5), KNOWN, {"reasoning": {"enabled": True}})
    assert (on.name, on.ids.ids, on.thinking) == ("verified", ids("Ok.", "</think>", "4", "<|im_end|>"), True)
    off = judged(answer({"reasoning": None, "content": "4"}, 2), KNOWN, {"reasoning": {"enabled": False}})
    assert (off.name, off.ids.ids, off.thinking) == ("verified", ids("4", "<|im_end|>"), False)


@pytest.mark.required
@pytest.mark.parametrize("billed", [None, 2, 5, 6])
def test_020_off_and_thinks_all_the_same(billed: int | None) -> None:
    """Thinking was off and reasoning came: a contradiction, whatever the bill."""
    verdict = judged(answer({"reasoning": "Ok.", "content": "4"}, billed), KNOWN, {"reasoning": {"enabled": False}})
    assert (verdict.name, codes(verdict)) == ("rejected", ["thinks-although-off"])


@pytest.mark.required
@pytest.mark.parametrize("content", ["", None, [], [{"type": "text", "text": ""}]], ids=repr)
def test_020_empty_content_in_the_history(content: Any) -> None:
    """Empty content of an earlier turn renders to nothing between its think pair and its section."""
    calls = [{"id": "functions.a:0", "type": "function", "function": {"name": "a", "arguments": "{}"}}]
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": content, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "functions.a:0", "content": "done"},
    ]
    row = render(messages, None, format=K25, thinking=True, encode=encode_prompt_text).ids
    at = row.index(163595)
    assert row[at - 3 : at] == [163601, 163606, 163607]


# --- 021, 022, 025: framing, errors and bills -----------------------------------------------------------------------


def events(*payloads: Any) -> bytes:
    """A stream of events, raw characters left raw."""
    return b"".join(b"data: " + json.dumps(p, ensure_ascii=False).encode() + b"\n\n" for p in payloads) + (
        b"data: [DONE]\n\n"
    )


def delta(text: str | None, finish: str | None = None) -> dict[str, Any]:
    """An event with some content or an end."""
    return {"choices": [{"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}]}


@pytest.mark.required
def test_021_comments_are_ignored() -> None:
    """Keep-alive comments hold no text."""
    turn = parse(b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n" + events(delta("Hi"), delta(None, "stop")))
    assert (turn.content, turn.finish_reason) == ("Hi", "stop")


@pytest.mark.required
def test_021_a_line_separator_is_text() -> None:
    """U+2028 inside a text cuts no line: one event, ids [64, 390, 101, 65]; and a stream without an end is rejected."""
    turn = parse(events(delta("a\u2028b")))
    assert (turn.content, turn.chunks) == ("a\u2028b", {"content": ("a\u2028b",)})
    assert encode_ordinary(turn.content) == [64, 390, 101, 65]
    assert codes(judged(events(delta("a\u2028b")), KNOWN, model=MODEL)) == ["no-finish"]


@pytest.mark.required
def test_021_blanks_before_a_body() -> None:
    """A body may begin with keep-alive blanks; a body of blanks alone is a failure worth another try."""
    body = json.dumps(answer({"content": "4"})).encode()
    assert parse(b"\n         \n" + body) == parse(body)
    with pytest.raises(ProviderError) as caught:
        parse(b"\n    \n")
    assert caught.value.retryable
    verdict = judged(b"\n    \n", KNOWN)
    assert (verdict.name, codes(verdict), verdict.ids.ids) == ("rejected", ["provider-error"], [])


RAW_ERROR = '{"error":{"message":"worker limit"}}'
META = {"provider_name": "ProviderX", "raw": RAW_ERROR}
FAILURES = [
    pytest.param(
        {"error": {"code": 502, "message": "Provider returned error", "metadata": META}}, 502, RAW_ERROR, id="top-level"
    ),
    pytest.param(
        {**answer({"content": None}, 0), "error": {"code": 429, "message": "slow down", "metadata": {"raw": "limit"}}},
        429,
        "limit",
        id="beside-choices",
    ),
    pytest.param(
        {
            "provider": "ProviderX",
            "choices": [
                {"index": 0, "finish_reason": "error", "error": {"code": 500}, "message": {"content": "Partial tex"}}
            ],
        },
        500,
        None,
        id="in-choice",
    ),
]


@pytest.mark.required
@pytest.mark.parametrize(("body", "code", "raw"), FAILURES)
def test_022_a_body_that_is_an_error(body: dict[str, Any], code: int, raw: str | None) -> None:
    """HTTP 200 proves nothing: the code, the host and its words are kept, and no sample is made."""
    with pytest.raises(ProviderError) as caught:
        parse(body)
    error = caught.value
    assert (error.code, error.raw, error.provider, error.retryable) == (code, raw, "ProviderX", True)
    verdict = judged(body, KNOWN)
    assert (verdict.name, codes(verdict), verdict.ids.ids) == ("rejected", ["provider-error"], [])


@pytest.mark.required
def test_025_usage_in_an_event_without_choices() -> None:
    """The last event has usage and no choice: the text is whole, the cost is booked, the bill is heard."""
    usage = {"prompt_tokens": 13, "completion_tokens": 6, "total_tokens": 19, "cost": 0.00002}
    stream = events(delta("4", "stop"), {"choices": [], "usage": usage})
    turn = parse(stream)
    assert (turn.content, turn.usage) == ("4", Usage(13, 6, 19, None, 0.00002))
    verdict = judged(stream, KNOWN, thinking=False, model=MODEL, provider="ProviderX")
    assert (verdict.name, verdict.completion_tokens, codes(verdict)) == ("rejected", 6, ["bill-mismatch"])


@pytest.mark.required
def test_025_reasoning_outside_the_count() -> None:
    """293 completion tokens and 321 reasoning tokens, 714 in all of which 100 are prompt: 614, and it is noted."""
    tokens, notes = completion_tokens(Usage(100, 293, 714, 321))
    assert (tokens, [(n.code, n.fatal) for n in notes]) == (614, [("reasoning-outside", False)])


@pytest.mark.required
def test_025_no_usage() -> None:
    """Without a bill no check is possible: unverified, and no tokens are made up."""
    verdict = judged(answer({"reasoning": "Ok.", "content": "4"}), KNOWN)
    assert (verdict.name, verdict.completion_tokens, codes(verdict)) == ("unverified", None, ["no-witness"])


# --- 024, 028, 031: ends, pins, gateways ----------------------------------------------------------------------------


@pytest.mark.required
def test_024_stop_beside_calls_is_valid() -> None:
    """`stop` with tool calls: the section, then 163586."""
    message = {"content": None, "tool_calls": [call("get_weather", ARGUMENTS)]}
    verdict = judged(answer(message, len(SECTION) + 2), KNOWN, thinking=True)
    assert (verdict.name, verdict.ids.ids) == ("verified", ids("</think>") + SECTION + END)


@pytest.mark.required
@pytest.mark.parametrize(
    ("finish", "text", "code"),
    [
        (None, "Half an ans", "no-finish"),
        ("tool_calls", "Ok.", "calls-lost"),
        ("eos_token", "Ok.", "unknown-finish"),
    ],
)
def test_024_incomplete_by_its_finish(finish: Any, text: str, code: str) -> None:
    """No finish reason, a lost call, an unlisted word: rejected although the bill would fit."""
    right = len(ids(text)) + 1
    assert judged(answer({"content": text}, right), KNOWN, thinking=False).name == "verified"
    verdict = judged(answer({"content": text}, right, finish), KNOWN, thinking=False)
    assert (verdict.name, codes(verdict)) == ("rejected", [code])


@pytest.mark.required
@pytest.mark.parametrize("block", [{"order": ["siliconflow/int4"]}, {"only": ["siliconflow"]}, {"only": "siliconflow"}])
def test_028_another_host_answered(block: dict[str, Any]) -> None:
    """A pin, hard or soft, and another display name in the answer: discarded."""
    body = {**answer({"reasoning": "Ok.", "content": "4"}, 5), "provider": "OtherHost"}
    assert codes(judged(body, KNOWN, {"provider": block})) == ["wrong-provider"]
    asked = {**body, "provider": "SiliconFlow"}
    assert "wrong-provider" not in codes(judged(asked, KNOWN, {"provider": block}))


@pytest.mark.required
@pytest.mark.parametrize(
    "request_",
    [
        {"plugins": [{"id": "context-compression"}]},
        {"transforms": ["middle-out"]},
        {"response_format": {"type": "json_object"}, "plugins": [{"id": "response-healing"}]},
        {"preset": "mine"},
        {"model": "@preset/mine"},
    ],
    ids=["compression", "transforms", "healing", "preset", "preset-in-model"],
)
def test_031_a_gateway_that_may_edit(request_: dict[str, Any]) -> None:
    """Compression, middle-out, healing and presets change prompts or answers: rejected although the bill fits."""
    body = answer({"reasoning": "Ok.", "content": "4"}, 5)
    assert judged(body, KNOWN, {"transforms": [], "plugins": []}).name == "verified"
    verdict = judged(body, KNOWN, request_)
    assert (verdict.name, codes(verdict)) == ("rejected", ["gateway-edits"])


@pytest.mark.required
def test_031_a_cached_answer() -> None:
    """All counters zero: an earlier answer again, discarded."""
    body = answer({"reasoning": "Ok.", "content": "4"}, 0, prompt_tokens=0, total_tokens=0)
    assert codes(judged(body, KNOWN)) == ["zero-bill"]


# --- 032, 034: white space and reported ids -------------------------------------------------------------------------

STRIPPED = {"reasoning": "All good, I will stop here.", "content": "Done."}


@pytest.mark.required
def test_032_what_the_bill_can_see() -> None:
    """Sampled with a newline before `</think>` and blank lines behind it: 13 ids; the stripped wire has 12."""
    sampled = ids("All good, I will stop here.\n", "</think>", "\n\nDone.", "<|im_end|>")
    wire = ids("All good, I will stop here.", "</think>", "Done.", "<|im_end|>")
    assert (sampled[6:12], len(sampled)) == ([2397, 341, 163607, 382, 25702, 13], 13)
    assert (wire[6:11], len(wire)) == ([2397, 13, 163607, 25702, 13], 12)
    for traits in (OFFSET, KNOWN, {**KNOWN, "reasoning_end": "lost", "content_start": "lost"}):
        assert judged(answer(STRIPPED, 13), traits).name == "rejected"


@pytest.mark.required
@pytest.mark.parametrize("edge", [UNKNOWN, {"reasoning_end": "lost"}], ids=["unknown", "lost"])
def test_032_what_the_bill_cannot_see_is_masked(edge: dict[str, str]) -> None:
    """`.` and `.\\n` are one id each: where the host may strip, the id before `</think>` is context only."""
    traits = {k: v for k, v in KNOWN.items() if k != "reasoning_end"} | edge
    verdict = judged(answer(STRIPPED, 12), traits)
    assert (verdict.name, masked(verdict)) == ("verified", [13])
    assert verdict.loss_mask == [1] * 7 + [0] + [1] * 4
    assert masked(judged(answer(STRIPPED, 12), KNOWN)) == []


def reported(message: dict[str, Any], token_ids: list[int], billed: int | None = None) -> dict[str, Any]:
    """A body whose choice carries ids."""
    body = answer(message, billed)
    body["choices"][0]["token_ids"] = token_ids
    return body


@pytest.mark.required
def test_034_ids_that_do_not_cover_the_text() -> None:
    """Two ids for a sentence: rejected; the bill cannot mend it."""
    message = {"reasoning": "The user wants the weather in Oslo.", "content": "Done."}
    for billed in (None, 2, 12):
        verdict = judged(reported(message, [1008, 2742], billed), KNOWN)
        assert (verdict.name, codes(verdict)) == ("rejected", ["ids-contradict-answer"])


@pytest.mark.required
def test_034_no_prompt_ids_is_not_an_empty_prompt() -> None:
    """`prompt_token_ids: null`: the output may be exact, the prompt stays unverified."""
    body = {**reported({"content": "Done."}, [25702, 13, 163586], 3), "prompt_token_ids": None}
    verdict = judged(body, KNOWN, thinking=False)
    assert (verdict.name, verdict.ids.ids, verdict.prompt) == ("exact", [25702, 13, 163586], "unverified")
    turn = parse(body)
    assert turn.reported is not None
    assert turn.reported.prompt_ids is None


@pytest.mark.required
def test_034_logprobs_null_falls_back_to_the_count() -> None:
    """No logprobs: the bill is the witness, and the verdict says that its premise is the count."""
    body = answer({"content": "4"}, 2)
    body["choices"][0]["logprobs"] = None
    verdict = judged(body, KNOWN, thinking=False)
    assert (verdict.name, verdict.premise) == ("verified", "count")
    assert next((w.witness, w.says) for w in verdict.witnesses) == ("bill", "supports")


# --- all of them, with nothing known --------------------------------------------------------------------------------


def responses(value: Any) -> Iterator[Any]:
    """Everything in a case that can stand as an answer."""
    if isinstance(value, dict):
        if "choices" in value or "error" in value:
            yield value
        for key, inner in value.items():
            if key in ("sse", "body") and isinstance(inner, str):
                yield inner.encode()
            yield from responses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from responses(inner)


@pytest.mark.shared
def test_with_unknown_habits_nothing_is_accepted(shared: Path) -> None:
    """Every answer of the optional folder's cases: no bill can be read, so nothing is accepted; and nothing crashes."""
    n = 0
    for path in sorted((shared / "cases").glob("*.json")):
        case = json.loads(path.read_text())["input"]
        requests = [case.get("request") or {}, {}, *(v.get("request") or {} for v in case.get("variants") or ())]
        for response in responses(case):
            for request in requests:
                for thinking in (None, True, False):
                    exchange = Exchange(path.name, response, request, thinking=thinking)
                    verdict = judge(exchange, kit(), model=MODEL)
                    assert verdict.name in ("unverified", "rejected"), path.name
                    assert verdict.ids.ids == []
            n += 1
    assert n >= 25
