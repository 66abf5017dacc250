"""wire: the JSON of an answer, by hand, beside real ones, and what recorded stacks add on single tokens."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.emulator import Truth
from harness.encoder import load_vocab
from harness.vocab import CONTROL_IDS
from tests.emulator_kit import MODEL, PLAIN, TE, TOOLS, asked, chat, emulator, events, parsed, whole


def shape(value: Any) -> Any:
    """The members of a JSON value and the kinds of their values, null being any kind."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return {"bool": "bool", "int": "number", "float": "number", "str": "str"}.get(type(value).__name__, "null")


def same_shape(one: Any, other: Any) -> bool:
    """Equal members and kinds; null fits any plain value."""
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(same_shape(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return not one or not other or same_shape(one[0], other[0])
    return one == other or "null" in (one, other)


def real(shared: Path, name: str) -> Any:
    """One public answer by its name."""
    with gzip.open(shared / "real" / "responses.jsonl.gz") as lines:
        return next(r["response"] for r in map(json.loads, lines) if r["name"].endswith(name))


def by_kind(chunks: list[Any]) -> dict[tuple[str, ...], Any]:
    """One chunk of each kind: what its delta or message carries, and whether it has a reason or a bill."""
    return {_kind(chunk): chunk for chunk in chunks}


def _kind(chunk: Any) -> tuple[str, ...]:
    choice = chunk["choices"][0]
    said = choice.get("delta") or choice.get("message") or {}
    calls = said.get("tool_calls") or [{}]
    return (
        *sorted(k for k in ("reasoning", "content", "tool_calls") if said.get(k)),
        *(("first",) if calls[0].get("id") else ()),
        *(("finish",) if choice["finish_reason"] else ()),
        *(("usage",) if chunk.get("usage") else ()),
    )


def test_a_whole_answer_has_these_members_and_values() -> None:
    """Text, reasoning, bill and head, each as written here by hand."""
    assert parsed(chat(emulator(), asked())) == {
        "id": "gen-1800000000-UJoEhWDfCaEFazHNm6jY",
        "object": "chat.completion",
        "created": 1_800_000_000,
        "model": MODEL,
        "provider": "Chutes",
        "system_fingerprint": None,
        "choices": [
            {
                "index": 0,
                "logprobs": None,
                "finish_reason": "stop",
                "native_finish_reason": "stop",
                "message": {
                    "role": "assistant",
                    "content": "Hi there!",
                    "refusal": None,
                    "reasoning": "I think.",
                    "reasoning_details": [
                        {"type": "reasoning.text", "text": "I think.", "format": "unknown", "index": 0}
                    ],
                },
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 8,
            "total_tokens": 18,
            "cost": 0.000025,
            "is_byok": False,
            "prompt_tokens_details": {
                "cached_tokens": 0,
                "cache_write_tokens": 0,
                "audio_tokens": 0,
                "video_tokens": 0,
            },
            "cost_details": {
                "upstream_inference_cost": 0.000025,
                "upstream_inference_prompt_cost": 0.000005,
                "upstream_inference_completions_cost": 0.00002,
            },
            "completion_tokens_details": {"reasoning_tokens": 4, "image_tokens": 0, "audio_tokens": 0},
        },
    }


def test_a_stream_shows_a_token_a_chunk_and_ends_with_usage() -> None:
    """Reasoning, content, finish, usage and [DONE], in this order."""
    reply = chat(emulator(), asked(stream=True))
    got = events(reply)
    deltas = [e["choices"][0]["delta"] for e in got]
    assert [d.get("reasoning") for d in deltas][:3] == ["I", " think", "."]
    assert [d["content"] for d in deltas][3:] == ["Hi", " there", "!", "", ""]
    assert [e["choices"][0]["finish_reason"] for e in got] == [None] * 6 + ["stop"] * 2
    assert [e.get("usage", {}).get("completion_tokens") for e in got] == [None] * 7 + [8]
    assert whole(reply).endswith(b"data: [DONE]\n\n")


def test_a_streamed_call_names_itself_once() -> None:
    """Id and name come with the first piece, the arguments piece by piece after it."""
    deltas = [e["choices"][0]["delta"] for e in events(chat(emulator(), asked("call", tools=TOOLS, stream=True)))]
    calls = [c for d in deltas for c in d.get("tool_calls", ())]
    head = {"name": "get_weather", "arguments": ""}
    assert calls[0] == {"index": 0, "id": "functions.get_weather:2", "type": "function", "function": head}
    assert calls[1] == {"index": 0, "function": {"arguments": '{"'}}
    assert "".join(c["function"]["arguments"] for c in calls) == '{"city": "Oslo", "b": 1}'


def test_recorded_stacks_report_ids_where_they_are_asked() -> None:
    """vLLM and SGLang put them into fields of their own; other providers do not know the request's fields."""
    truth = {"hi": Truth(PLAIN, prompt_ids=[1, 2])}
    app = emulator(answers=truth)
    fields: Any = {"return_token_ids": True, "logprobs": True, "return_output_ids_in_sglext": True}
    by = {n: asked(provider={"only": [n]}, **fields) for n in ("vllm-0.32", "sglang-0.5.23", "chutes")}
    vllm, sglang, chutes = (parsed(chat(app, r)) for r in by.values())
    assert (vllm["choices"][0]["token_ids"], vllm["prompt_token_ids"]) == (PLAIN, [1, 2])
    assert [e["token"] for e in vllm["choices"][0]["logprobs"]["content"]][:4] == ["I", " think", ".", "</think>"]
    assert sglang["choices"][0]["response_token_ids"] == PLAIN
    assert sglang["sglext"] == {"output_ids": [PLAIN]}
    assert chutes["choices"][0]["logprobs"] is None
    streamed = events(chat(app, by["vllm-0.32"] | {"stream": True}))
    assert [i for e in streamed for i in e["choices"][0].get("token_ids", ())] == PLAIN
    assert streamed[0]["prompt_token_ids"] == [1, 2]


def test_split_characters_have_wrong_bytes_in_vllms_logprobs_only() -> None:
    """vLLM names the whole character at its last token; SGLang gives each token its own bytes."""
    emoji = "\U0001f600".encode()
    vocab = load_vocab()
    pieces = [vocab.find(emoji[:2]), vocab.find(emoji[2:3]), vocab.find(emoji[3:])]
    app = emulator(answers={"hi": Truth([TE, *(i for i in pieces if i is not None), CONTROL_IDS["<|im_end|>"]])})
    got = {}
    for name in ("vllm-0.32", "sglang-0.5.23"):
        entries = parsed(chat(app, asked(provider={"only": [name]}, logprobs=True)))["choices"][0]["logprobs"][
            "content"
        ]
        got[name] = [bytes(e["bytes"]) for e in entries[1:4]]
    assert got == {"vllm-0.32": [b"", b"", emoji], "sglang-0.5.23": [emoji[:2], emoji[2:3], emoji[3:]]}


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "prompt", "fields"),
    [
        ("kimi-k2.5-0127__06349458f3", "hi", {}),
        ("kimi-k2.5-0127__60fe9b961b", "hi", {"stream": True}),
        ("kimi-k2.5-0127__17cf5fa5f8", "call", {"stream": True, "tools": TOOLS}),
    ],
)
def test_a_real_answer_of_atlascloud_has_the_same_fields(
    shared: Path, name: str, prompt: str, fields: dict[str, Any]
) -> None:
    """Side by side: the same members with the same kinds of values, in the body and in every kind of chunk."""
    theirs = real(shared, name)
    reply = chat(emulator(), asked(prompt, provider={"only": ["atlas-cloud"]}, **fields))
    mine = events(reply) if fields.get("stream") else [parsed(reply)]
    theirs = theirs if isinstance(theirs, list) else [theirs]
    assert set(by_kind(mine)) == set(by_kind(theirs))
    for kind, chunk in by_kind(theirs).items():
        assert same_shape(shape(by_kind(mine)[kind]), shape(chunk)), kind
