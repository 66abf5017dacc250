"""An answer as JSON: OpenRouter's chat completion and its chunks, and what recorded stacks add on single tokens. Pure.

The fields and their order are those of public answers of 2026; the recorded stacks' own fields stand where these
stacks put them. Knows nothing of HTTP and of faults.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from harness.presets import Answer
from harness.stacks import CallDelta, Step, TokenBytes, control_name, spell_whole
from harness.types import Usage

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Head:
    """What stands around an answer.

    Attributes:
        prices: USD a prompt token and a completion token.
    """

    id: str
    created: int
    model: str
    provider: str
    fingerprint: str | None = None
    prices: tuple[float, float] = (5e-7, 2.5e-6)

    def open(self, kind: str) -> Json:
        """The members that the body and every chunk begin with."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "provider": self.provider,
            "system_fingerprint": self.fingerprint,
        }


def body(said: Answer, head: Head) -> Json:
    """The whole chat completion."""
    message: Json = {"role": "assistant", "content": said.content, "refusal": None, "reasoning": said.reasoning or None}
    if said.reasoning:
        message["reasoning_details"] = [_detail(said.reasoning)]
    if said.calls:
        message["tool_calls"] = [
            _call(CallDelta(k, call.arguments, call.id, call.name)) for k, call in enumerate(said.calls)
        ]
    choice = {"index": 0, "logprobs": None, **_finish(said.finish_reason), "message": message}
    return {**head.open("chat.completion"), "choices": [choice], **_usage(said.usage, head)}


def chunks(said: Answer, head: Head, *, empty: bool = False) -> Iterator[Json]:
    """The chunks of a stream; with `empty` also those of tokens that show nothing."""
    for step in said.steps:
        if step.shows or empty:
            yield _chunk(head, _delta(step), _finish(None))
    end = _finish(said.finish_reason)
    yield _chunk(head, {"content": "", "role": "assistant", "reasoning": None}, end)
    if usage := _usage(said.usage, head):
        yield {**_chunk(head, {"content": "", "role": "assistant"}, end), **usage}


def events(listed: Sequence[Json]) -> list[bytes]:
    """Server-sent events of these chunks, `[DONE]` at the end."""
    return [b"data: " + dump(chunk) + b"\n\n" for chunk in listed] + [b"data: [DONE]\n\n"]


def dump(value: Any) -> bytes:
    """JSON as hosts write it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def cost(usage: Usage, prices: tuple[float, float]) -> float:
    """USD that a usage costs."""
    return round((usage.prompt_tokens or 0) * prices[0] + (usage.completion_tokens or 0) * prices[1], 12)


def _finish(reason: str | None) -> Json:
    return {"finish_reason": reason, "native_finish_reason": reason}


def _detail(text: str) -> Json:
    return {"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}


def _call(delta: CallDelta) -> Json:
    function: Json = {"name": delta.name} if delta.name is not None else {}
    function["arguments"] = delta.arguments
    first = {"id": delta.id, "type": "function"} if delta.id is not None else {}
    return {"index": delta.index, **first, "function": function}


def _delta(step: Step) -> Json:
    delta: Json = {"content": None if step.calls else step.content, "role": "assistant"}
    if step.reasoning:
        delta |= {"reasoning": step.reasoning, "reasoning_details": [_detail(step.reasoning)]}
    if step.calls:
        delta["tool_calls"] = [_call(call) for call in step.calls]
    return delta


def _chunk(head: Head, delta: Json, finish: Json) -> Json:
    return {**head.open("chat.completion.chunk"), "choices": [{"index": 0, "delta": delta, **finish}]}


def _usage(usage: Usage, head: Head) -> Json:
    """The member `usage`; nothing where the host does not say it."""
    if usage.completion_tokens is None:
        return {}
    prompt, completion = (
        cost(u, head.prices)
        for u in (Usage(prompt_tokens=usage.prompt_tokens), Usage(completion_tokens=usage.completion_tokens))
    )
    total = round(prompt + completion, 12)
    said = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "cost": total,
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0, "audio_tokens": 0, "video_tokens": 0},
        "cost_details": {
            "upstream_inference_cost": total,
            "upstream_inference_prompt_cost": prompt,
            "upstream_inference_completions_cost": completion,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "image_tokens": 0,
            "audio_tokens": 0,
        },
    }
    return {"usage": said}


def report(answered: Json, said: Answer, request: Mapping[str, Any], style: str, token_bytes: TokenBytes) -> Json:
    """A whole body with the ids and logprobs that its request asked for, in the fields of a stack ("" for none)."""
    choice = answered["choices"][0]
    if style and request.get("logprobs"):
        choice["logprobs"] = {"content": _logprobs(said.ids, request, style, token_bytes)}
    ids, prompt = list(said.ids), list(said.prompt_ids)
    if style == "vllm" and request.get("return_token_ids"):
        choice["token_ids"] = ids
        answered["prompt_token_ids"] = prompt
    if style == "sglang":
        if request.get("return_token_ids"):
            choice |= {"prompt_token_ids": prompt, "response_token_ids": ids}
        if request.get("return_output_ids_in_sglext"):
            answered["sglext"] = {"output_ids": [ids]}
    return answered


def report_chunks(
    listed: Sequence[Json], said: Answer, request: Mapping[str, Any], style: str, token_bytes: TokenBytes
) -> list[Json]:
    """The same for the chunks of a stream, which must hold one for every step (`empty`)."""
    if style == "sglang" and request.get("return_output_ids_in_sglext"):
        *rest, last = listed
        return [*rest, {**last, "choices": [], "usage": None, "sglext": {"output_ids": [list(said.ids)]}}, last]
    if style != "vllm":
        return list(listed)
    wants = request.get("logprobs")
    entries = iter(_logprobs(said.ids, request, style, token_bytes) if wants else ())
    ends = repeat(None)  # what ends a stream reports no id, and says so
    for chunk, step in zip(listed, chain(said.steps, ends), strict=False):
        choice, ids = chunk["choices"][0], list(step.ids) if step else []
        if request.get("return_token_ids"):
            choice["token_ids"] = ids
        if wants:
            choice["logprobs"] = {"content": [next(entries) for _ in ids]}
    if request.get("return_token_ids"):
        listed[0]["prompt_token_ids"] = list(said.prompt_ids)
    return list(listed)


def _logprobs(ids: Sequence[int], request: Mapping[str, Any], style: str, token_bytes: TokenBytes) -> list[Json]:
    """An entry an id. vLLM spells a cut character at its last token and gives the spelling's bytes, wrong for each."""
    pieces = [token_bytes(i) for i in ids]
    texts = [p.decode("utf-8", "replace") for p in pieces]
    if style == "vllm":
        spelt = spell_whole([b"" if control_name(i) else p for i, p in zip(ids, pieces, strict=True)])
        texts = [control_name(i) or text for i, text in zip(ids, spelt, strict=True)]
        pieces = [text.encode() for text in texts]
    if request.get("return_tokens_as_token_ids"):
        texts = [f"token_id:{i}" for i in ids]
    entries = zip(texts, pieces, strict=True)
    return [{"token": t, "logprob": 0.0, "bytes": list(p), "top_logprobs": []} for t, p in entries]
