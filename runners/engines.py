"""How SGLang and vLLM are asked: ids in and ids out, chat answers, what they say of themselves. A table row an engine.

Knows nothing of goldens and files, and believes no tokenizer: that is `probes`'s business.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import ProviderError, SetupError
from harness.response import EventStream, loads
from harness.vocab import N_IDS, is_ids
from runners.engine_http import Server

Json = dict[str, Any]
CHAT = "/v1/chat/completions"
ENDINGS = frozenset({"stop", "length"})
VERSION = re.compile(r"[0-9A-Za-z.+_\-]{1,60}")
NO_SUCH_PATH = frozenset({404, 405, 501})
# fmt: off
FLAGS = frozenset({
    "attention_backend", "chat_template", "chunked_prefill_size", "context_length", "device", "disable_radix_cache",
    "dp_size", "dtype", "enable_deterministic_inference", "ep_size", "kv_cache_dtype", "model_path", "pp_size",
    "quantization", "reasoning_parser", "revision", "sampling_backend", "sampling_defaults", "speculative_algorithm",
    "speculative_draft_model_path", "tokenizer_mode", "tokenizer_path", "tool_call_parser", "tp_size",
    "trust_remote_code",
})
# fmt: on
"""The flags that are kept of those an engine tells: they bear on answers, and no restart changes them. Never a key."""


@dataclass(frozen=True, slots=True)
class Told:
    """What an engine says of itself.

    Attributes:
        model: The name under which it serves its model.
        flags: Those of FLAGS that it tells and that are set; {} where it tells none.
    """

    engine: str
    version: str
    model: str
    flags: Mapping[str, Any]

    @property
    def title(self) -> str:
        """As people write it: `SGLang 0.5.23`."""
        return f"{ENGINES[self.engine].title} {self.version}"


@dataclass(frozen=True, slots=True)
class Generated:
    """What came for ids: output ids [T], and the body as it came."""

    ids: list[int]
    body: Json


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine's ways.

    Attributes:
        path, request, read: Where ids go, (told, prompt_ids, max_tokens) -> body, and answer -> (output_ids, number of
            prompt ids that it read, why it ended).
        id_fields: What a chat request asks so that the answer carries its ids.
        echo: (told, text) -> path and body of a request for one token whose answer names the text's ids; and answer ->
            these ids. For servers without `/tokenize`.
        info: Paths that may tell version and flags.
    """

    title: str
    path: str
    request: Callable[[Told, list[int], int], Json]
    read: Callable[[Json], tuple[Any, Any, Any]]
    id_fields: Mapping[str, Any]
    echo: Callable[[Told, str], tuple[str, Json]]
    read_echo: Callable[[Json], Any]
    info: tuple[str, ...]


def _sglang_request(_: Told, prompt_ids: list[int], max_tokens: int) -> Json:
    return {"input_ids": prompt_ids, "sampling_params": {"temperature": 0, "max_new_tokens": max_tokens}}


def _sglang_read(body: Json) -> tuple[Any, Any, Any]:
    meta = body["meta_info"]
    return body["output_ids"], meta["prompt_tokens"], meta["finish_reason"]["type"]


def _sglang_echo(_: Told, text: str) -> tuple[str, Json]:
    sampling = {"temperature": 0, "max_new_tokens": 1}
    return "/generate", {"text": text, "sampling_params": sampling, "return_logprob": True, "logprob_start_len": 0}


def _vllm_request(told: Told, prompt_ids: list[int], max_tokens: int) -> Json:
    asked = {"model": told.model, "prompt": prompt_ids, "temperature": 0, "max_tokens": max_tokens}
    return {**asked, "return_token_ids": True}


def _vllm_echo(told: Told, text: str) -> tuple[str, Json]:
    asked = {"model": told.model, "prompt": text, "temperature": 0, "max_tokens": 1, "add_special_tokens": False}
    return "/v1/completions", {**asked, "return_token_ids": True}


def _choice(body: Json) -> Json:
    choice = body["choices"][0]
    return choice if isinstance(choice, dict) else {}


ENGINES: Mapping[str, Engine] = {
    "sglang": Engine(
        title="SGLang",
        path="/generate",
        request=_sglang_request,
        read=_sglang_read,
        # return_token_ids is refused for streams
        id_fields={"return_input_ids_in_sglext": True, "return_output_ids_in_sglext": True},
        echo=_sglang_echo,
        read_echo=lambda body: [entry[1] for entry in body["meta_info"]["input_token_logprobs"]],
        info=("/get_server_info", "/server_info", "/get_model_info", "/model_info"),
    ),
    "vllm": Engine(
        title="vLLM",
        path="/v1/completions",
        request=_vllm_request,
        read=lambda body: (_choice(body)["token_ids"], body["usage"]["prompt_tokens"], _choice(body)["finish_reason"]),
        id_fields={"return_token_ids": True},
        echo=_vllm_echo,
        read_echo=lambda body: _choice(body)["prompt_token_ids"],
        info=("/version",),
    ),
}


def identify(server: Server, engine: str | None, version: str | None) -> Told:
    """Which engine answers, its version, model and flags; what is typed goes before what it says.

    Raises:
        SetupError: It does not say, or is no engine that is known.
    """
    listed = _object(_optional(server, "/v1/models")).get("data")
    first = _object(listed[0]) if isinstance(listed, list) and listed else {}
    name = engine or str(first.get("owned_by", "")).lower()
    if name not in ENGINES:
        came = f"--engine {engine}" if engine else f"/v1/models says owned_by {first.get('owned_by')!r:.80}"
        raise SetupError(f"{server.url}: {came}; expected one of {sorted(ENGINES)}: name it with --engine")
    info = server_info(server, name)
    found = version or info.get("version")
    if not isinstance(found, str) or not VERSION.fullmatch(found):
        raise SetupError(f"{server.url} does not tell its version (got {found!r:.80}); name it with --engine-version")
    model = first.get("id") or info.get("served_model_name")
    if not isinstance(model, str) or not model:
        raise SetupError(f"{server.url}/v1/models names no model; expected an engine that serves one")
    flags = {key: _shortened(info[key]) for key in sorted(FLAGS & info.keys()) if _is_set(info[key])}
    return Told(name, found, model, flags)


def server_info(server: Server, engine: str) -> Json:
    """Whatever the engine tells of itself, flags that were never set included; {} where it has no such path."""
    infos = [_object(_optional(server, path)) for path in ENGINES[engine].info]
    return {key: value for table in reversed(infos) for key, value in table.items()}


def _optional(server: Server, path: str) -> Any:
    try:
        return server.get(path)
    except ProviderError as error:
        if error.code in NO_SUCH_PATH:
            return {}
        raise


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _is_set(value: Any) -> bool:
    return isinstance(value, str | int | float) and value is not False and value != ""


def _shortened(value: Any) -> Any:
    """A path without the folders that only say whose machine it is."""
    if not isinstance(value, str) or not value.startswith(("/", "~")):
        return value
    parts = value.rstrip("/").split("/")
    cached = [k for k, part in enumerate(parts) if part.startswith("models--")]
    return "/".join(parts[cached[-1] :] if cached else parts[-1:])


def tokenized(server: Server, told: Told, text: str) -> list[int] | None:
    """The ids that the engine makes of a text; None where it has no way to tell."""
    path, body = ENGINES[told.engine].echo(told, text)
    asked = {"model": told.model, "prompt": text, "add_special_tokens": False}
    for where, request, read in (
        ("/tokenize", asked, lambda answer: answer["tokens"]),
        (path, body, ENGINES[told.engine].read_echo),
    ):
        try:
            ids = _dug(read, server.post(where, request))
        except ProviderError as error:
            if error.code in NO_SUCH_PATH:
                continue
            raise
        if is_ids(ids) and ids:
            return list(ids)
    return None


def generated(server: Server, told: Told, prompt_ids: list[int], max_tokens: int) -> Generated:
    """What the engine samples for these prompt ids, greedily.

    Raises:
        ProviderError: No ids came, or the engine read another prompt.
    """
    engine = ENGINES[told.engine]
    body = server.post(engine.path, engine.request(told, prompt_ids, max_tokens))
    read = _dug(engine.read, body)
    where = server.url + engine.path
    if read is None:
        keys = sorted(body)[:8] if isinstance(body, dict) else type(body).__name__
        raise ProviderError(
            f"{where} answered without output ids (got {keys}); expected SGLang's /generate with output_ids, or vLLM "
            "0.10.2 or newer with token_ids: update the engine"
        )
    ids, n_prompt, ended = read
    if not is_ids(ids):
        raise ProviderError(f"{where} gave {ids!r:.80} as output ids; expected integers in 0..{N_IDS - 1}")
    if not ids:
        raise ProviderError(f"{where} sampled nothing; expected at least one id: raise --max-tokens or the context")
    if ended not in ENDINGS:
        raise ProviderError(f"{where} ended with {ended!r:.60}; expected one of {sorted(ENDINGS)}")
    if n_prompt != len(prompt_ids):
        raise ProviderError(f"{where} read a prompt of {n_prompt} ids, {len(prompt_ids)} were sent")
    return Generated(list(ids), body)


def _dug(read: Callable[[Json], Any], body: Any) -> Any:
    try:
        return read(body)
    except (KeyError, IndexError, TypeError):
        return None


def chat_answer(server: Server, request: Json) -> Json | list[Any]:
    """The body of a chat answer, or its events where the request asks for a stream.

    Raises:
        ProviderError: No answer, or a stream that was cut.
    """
    if not request.get("stream"):
        body = server.post(CHAT, request)
        if not isinstance(body, dict):
            raise ProviderError(f"{server.url}{CHAT} answered {type(body).__name__}; expected a chat-completion object")
        return body
    stream = EventStream()
    payloads = stream.feed(server.post_bytes(CHAT, request))
    if not stream.done:
        raise ProviderError(f"{server.url}{CHAT}: the stream ended after {len(payloads)} events without [DONE]")
    return [loads(payload) for payload in payloads]
