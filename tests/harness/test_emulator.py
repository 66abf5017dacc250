"""emulator, openrouter_lists: the app, its endpoints and its routing, without a socket."""

import json
from typing import Any

import pytest

from harness.emulator import KEPT, Truth
from harness.errors import SetupError
from harness.openrouter_lists import Endpoint
from harness.preset_table import PRESETS
from tests.emulator_kit import CHAT, LIST, MODEL, PLAIN, asked, chat, emulator, over_asgi, parsed


async def test_asgi_messages_carry_status_headers_and_body() -> None:
    """A request in two pieces gets a start and a body that ends."""
    sent = await over_asgi(emulator(), "POST", CHAT, json.dumps(asked()).encode())
    assert (sent[0]["status"], sent[0]["headers"]) == (200, [(b"content-type", b"application/json")])
    assert json.loads(b"".join(m["body"] for m in sent[1:]))["provider"] == "Chutes"
    assert [m["more_body"] for m in sent[1:]] == [True, False]


async def test_lifespan_starts_and_stops_and_other_protocols_are_refused() -> None:
    """Servers ask for the lifespan first; a websocket is an error."""
    coming, sent = ["lifespan.startup", "lifespan.shutdown"], list[str]()

    async def receive() -> Any:
        return {"type": coming.pop(0)}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await emulator()({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    with pytest.raises(SetupError, match="websocket"):
        await emulator()({"type": "websocket"}, receive, send)


@pytest.mark.parametrize(
    ("request_data", "status", "message"),
    [
        (b"{", 400, "not a request"),
        (b"[]", 400, "must be an object, got a list"),
        (json.dumps({"model": MODEL}).encode(), 400, "`messages` must be a list of messages, at least one, got null"),
        (asked(model="moonshotai/kimi-k9"), 400, "moonshotai/kimi-k9 is not a valid model ID"),
        (asked("unheard of"), 400, "no answer is known for the prompt 'unheard of'"),
        (asked(provider={"only": ["deepinfra"]}), 404, f"No endpoints found for {MODEL}."),
        (asked(provider={"only": ["chutes/fp8"]}), 404, "No endpoints found"),
        (asked(provider={"quantizations": ["fp8"]}), 404, "No endpoints found"),
        (asked(provider={"order": ["nowhere"], "allow_fallbacks": False}), 404, "No endpoints found"),
        (asked(logprobs=True, provider={"require_parameters": True}), 404, "can handle the requested parameters"),
    ],
)
def test_bad_requests_are_refused_with_a_reason(request_data: Any, status: int, message: str) -> None:
    """What came and what was expected stands in the error; nothing is answered."""
    reply = chat(emulator(), request_data)
    error = parsed(reply)["error"]
    assert (reply.status, error["code"]) == (status, status)
    assert message in error["message"]


@pytest.mark.parametrize(
    ("block", "provider"),
    [
        ({"only": ["chutes/int4"]}, "Chutes"),
        ({"order": ["groq", "chutes"]}, "Groq"),
        ({"order": ["nowhere", "novita"]}, "Novita"),
        ({"order": ["groq"], "ignore": ["groq"]}, "vllm-0.32"),
        ({"only": ["groq", "chutes"], "order": ["chutes"]}, "Chutes"),
        ({}, "vllm-0.32"),
    ],
)
def test_the_provider_block_chooses_the_endpoint(block: dict[str, Any], provider: str) -> None:
    """`only` is the list, `order` a wish, `ignore` a ban; a pin is a tag or its slug."""
    assert parsed(chat(emulator(), asked(provider=block)))["provider"] == provider


def test_answers_may_be_a_function_of_the_request() -> None:
    """The function sees the whole request and may know no answer."""
    app = emulator(answers=lambda request: Truth(PLAIN) if request["seed"] == 1 else None)
    assert parsed(chat(app, asked(seed=1)))["choices"][0]["message"]["content"] == "Hi there!"
    assert chat(app, asked(seed=2)).status == 400
    assert [r["seed"] for r in app.requests] == [1, 2]


def test_paths_methods_and_keys_that_are_wrong() -> None:
    """Unknown path 404, wrong method 405, unknown key 401; the right key is let through."""
    app = emulator(keys=frozenset({"sk-1"}))
    good = {"authorization": "Bearer sk-1"}
    assert app.reply("GET", LIST, {}).status == 401
    assert app.reply("GET", LIST, {"authorization": "Bearer sk-2"}).status == 401
    assert app.reply("GET", LIST, good).status == 200
    assert app.reply("POST", LIST, good).status == 405
    assert app.reply("GET", "/api/v1/credits", good).status == 404
    assert app.reply("GET", "/api/v1/models/a/b/endpoints", good).status == 404


def test_endpoints_map_tags_to_display_names() -> None:
    """One endpoint a preset, with the tag that a pin may name and the name that answers carry."""
    listed = parsed(emulator().reply("GET", LIST, {}))["data"]["endpoints"]
    names = {e["tag"]: e["provider_name"] for e in listed}
    assert names["siliconflow/int4"] == "SiliconFlow"
    assert len(names) == len(PRESETS)
    assert listed[0]["pricing"] == {
        "prompt": "0.0000005000",
        "completion": "0.0000025000",
        "request": "0",
        "image": "0",
    }


def test_a_generation_can_be_asked_for_once_its_time_has_come() -> None:
    """404 for the first seconds, then the same bill as the answer's."""
    now = [1000.0]
    app = emulator(clock=lambda: now[0], generation_delay=5.0)
    said = parsed(chat(app, asked()))
    query = f"id={said['id']}"
    early = app.reply("GET", "/api/v1/generation", {}, query)
    assert (early.status, parsed(early)["error"]["code"]) == (404, 404)
    now[0] += 5
    data = parsed(app.reply("GET", "/api/v1/generation", {}, query))["data"]
    assert (data["tokens_prompt"], data["native_tokens_completion"], data["native_tokens_reasoning"]) == (10, 8, 4)
    assert (data["provider_name"], data["streamed"], data["total_cost"]) == ("Chutes", False, 0.000025)
    assert app.reply("GET", "/api/v1/generation", {}, "id=gen-0").status == 404


def test_the_key_counts_what_was_spent_and_old_generations_are_forgotten() -> None:
    """Two answers cost 50 micro-dollars; memory is bounded."""
    app = emulator(key_limit=1.0)
    for _ in range(2):
        chat(app, asked())
    data = parsed(app.reply("GET", "/api/v1/key", {}))["data"]
    assert (data["usage"], data["limit_remaining"], data["limit"]) == (0.00005, 0.99995, 1.0)
    ids = [parsed(chat(app, asked()))["id"] for _ in range(KEPT + 1)]
    assert [app.reply("GET", "/api/v1/generation", {}, f"id={i}").status for i in (ids[0], ids[-1])] == [404, 200]


def test_endpoints_can_be_chosen() -> None:
    """An emulator with one endpoint of its own has no other."""
    only = (Endpoint("chutes/fp8", PRESETS["chutes"], quantization="fp8", parameters=("max_tokens",)),)
    app = emulator(endpoints=only)
    assert parsed(chat(app, asked(max_tokens=2, provider={"require_parameters": True})))["provider"] == "Chutes"
    assert chat(app, asked(seed=1, provider={"require_parameters": True})).status == 404
    assert chat(app, asked(provider={"quantizations": ["int4"]})).status == 404
    assert [e["tag"] for e in parsed(app.reply("GET", LIST, {}))["data"]["endpoints"]] == ["chutes/fp8"]


def test_prompts_in_parts_are_one_text() -> None:
    """The text parts of the last user message are the key of the answer."""
    parts = [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]
    request = asked()
    request["messages"] = [{"role": "user", "content": "no"}, {"role": "user", "content": parts}]
    assert parsed(chat(emulator(), request))["choices"][0]["message"]["content"] == "Hi there!"
