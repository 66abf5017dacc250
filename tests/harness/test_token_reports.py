"""token_reports.py: ids, bytes and prompt ids that a host sent, each whole or None."""

from typing import Any

import pytest

from harness.response import parse
from harness.types import Reported
from tests.harness.answers import body, chunk, encoded, framed

pytestmark = pytest.mark.required

row = pytest.param


def entry(token: str, data: bytes | None) -> dict[str, Any]:
    """A logprob entry."""
    return {"token": token, "logprob": -0.1, "bytes": None if data is None else list(data), "top_logprobs": []}


def logprobs(*entries: dict[str, Any]) -> dict[str, Any]:
    """The `logprobs` member of a choice."""
    return {"logprobs": {"content": list(entries)}}


HI = logprobs(entry("H", b"H"), entry("i", b"i"), entry("<|im_end|>", b"<|im_end|>"))
BYTES = (b"H", b"i", b"<|im_end|>")
NAMED = logprobs(entry("token_id:5", b"H"), entry("token_id:6", b"i"))

BODIES = [
    row(body(), None, id="nothing"),
    row(body(choice={"logprobs": None, "token_ids": None}, prompt_token_ids=None), None, id="nulls"),
    row(body(choice={"token_ids": [5, 6]}), Reported(ids=(5, 6)), id="vllm"),
    row(body(choice={"token_ids": [5]}, prompt_token_ids=None), Reported(ids=(5,)), id="no-prompt-ids-is-none"),
    row(body(choice={"token_ids": None}, prompt_token_ids=[1, 2]), Reported(prompt_ids=(1, 2)), id="prompt-only"),
    row(
        body(choice={"response_token_ids": [5, 6], "prompt_token_ids": [1]}),
        Reported(ids=(5, 6), prompt_ids=(1,)),
        id="sglang",
    ),
    row(body(sglext={"output_ids": [[5, 6]], "input_ids": [1]}), Reported(ids=(5, 6), prompt_ids=(1,)), id="sglext"),
    row(
        body(choice={"response_token_ids": [5, 6]}, sglext={"output_ids": [[5, 6]]}),
        Reported(ids=(5, 6)),
        id="both-equal",
    ),
    row(body(choice={"response_token_ids": [5]}, sglext={"output_ids": [[5, 6]]}), None, id="both-differ"),
    row(body(choice={"token_ids": [5], "response_token_ids": [6]}), None, id="two-names-differ"),
    row(body(choice={"token_ids": [5], "response_token_ids": [5]}), Reported(ids=(5,)), id="two-names-equal"),
    row(
        body(choice={"prompt_token_ids": [1], "token_ids": [5]}, prompt_token_ids=[2]),
        Reported(ids=(5,)),
        id="prompts-differ",
    ),
    row(body(choice={"token_ids": []}, prompt_token_ids=[]), None, id="empty-is-not-whole"),
    row(body(sglext={"output_ids": [[5], [6]]}), None, id="two-outputs"),
    row(body(sglext=None), None, id="null-sglext"),
    row(body(choice=HI), Reported(token_bytes=BYTES), id="logprob-bytes"),
    row(body(choice=logprobs(entry("H", b"H"), entry("i", None))), None, id="an-entry-without-bytes"),
    row(body(choice=logprobs()), None, id="no-entries"),
    row(body(choice={"logprobs": {"content": None}}), None, id="null-entries"),
    row(body(choice={"logprobs": {"tokens": ["H"], "token_logprobs": [-1]}}), None, id="old-form"),
    row(body(choice=NAMED), Reported(ids=(5, 6), token_bytes=(b"H", b"i")), id="token-id-names"),
    row(
        body(choice=logprobs(entry("token_id:5", b"token_id:5"), entry("token_id:6", b"token_id:6"))),
        Reported(ids=(5, 6)),
        id="bytes-of-the-name-are-no-bytes",
    ),
    row(
        body(choice=logprobs(entry("token_id:5", b"H"), entry("i", b"i"))),
        Reported(token_bytes=(b"H", b"i")),
        id="some-names",
    ),
    row(body(choice=logprobs(entry("token_id:x", b"H"))), Reported(token_bytes=(b"H",)), id="a-name-that-is-no-number"),
    row(body(choice=NAMED | {"token_ids": [5, 7]}), Reported(token_bytes=(b"H", b"i")), id="names-and-ids-differ"),
]


@pytest.mark.parametrize(("answer", "expected"), BODIES)
def test_reports_of_a_body(answer: dict[str, Any], expected: Reported | None) -> None:
    """Each place where hosts put ids is read; places that contradict each other and parts with a gap are None."""
    assert parse(answer).reported == expected
    assert parse(encoded(answer)).reported == expected


ROLE = {
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}],
    "prompt_token_ids": [1, 2],
}
STREAMS = [
    row(
        [ROLE, chunk({"content": "H"}, token_ids=[5]), chunk({}, token_ids=[6, 7]), chunk({}, "stop", token_ids=[8])],
        Reported(ids=(5, 6, 7, 8), prompt_ids=(1, 2)),
        id="whole",
    ),
    row(
        [chunk({"content": "H"}, token_ids=[5]), chunk({"content": "i"}), chunk({}, "stop", token_ids=[8])],
        None,
        id="text-without-ids",
    ),
    row(
        [
            chunk({"content": "H"}, token_ids=[5]),
            chunk({"content": "i"}, token_ids=None),
            chunk({}, "stop", token_ids=[8]),
        ],
        None,
        id="text-with-null-ids",
    ),
    row([chunk({"content": "H"}, token_ids=[5]), chunk({}, "stop")], None, id="end-without-ids"),
    row(
        [chunk({"content": "H"}, token_ids=[5]), chunk({}, "stop", token_ids=[8]), {"choices": [], "usage": {}}],
        Reported(ids=(5, 8)),
        id="usage-needs-no-ids",
    ),
    row(
        [chunk({"content": "H"}, token_ids=[5, 6]), chunk({"content": "i"}, "stop", token_ids=[])],
        Reported(ids=(5, 6)),
        id="held-back-text",
    ),
    row(
        [
            chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]}),
            chunk({}, "tool_calls", token_ids=[5]),
        ],
        None,
        id="call-without-ids",
    ),
    row(
        [
            chunk({"content": "H"}),
            chunk({}, "stop"),
            {"choices": [], "sglext": {"output_ids": [[5, 6]], "input_ids": [1]}},
        ],
        Reported(ids=(5, 6), prompt_ids=(1,)),
        id="sglext-in-an-event-of-its-own",
    ),
    row(
        [
            chunk({"reasoning": "H"}, **logprobs(entry("H", b"H"))),
            chunk({"content": "i"}, **logprobs(entry("</think>", b"</think>"), entry("i", b"i"))),
            chunk({}, "stop", **logprobs(entry("", b""))),
        ],
        Reported(token_bytes=(b"H", b"</think>", b"i", b"")),
        id="logprobs",
    ),
    row(
        [chunk({"content": "H"}, **logprobs(entry("H", b"H"))), chunk({"content": "i"}, "stop")],
        None,
        id="some-logprobs",
    ),
]


@pytest.mark.parametrize(("events", "expected"), STREAMS)
def test_reports_of_a_stream(events: list[dict[str, Any]], expected: Reported | None) -> None:
    """Ids are joined; where a delta with text, a call or the end came without, the part is None."""
    assert parse(events).reported == expected
    assert parse(framed(events)).reported == expected
