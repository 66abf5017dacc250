"""emulator over loopback: the official SDKs `openrouter` and `openai`, both unmodified, parse it as it is meant."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openrouter import OpenRouter, components
from openrouter import errors as openrouter_errors

from tests.emulator_kit import MODEL, TOOLS, asked, emulator
from tests.served import Served


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """The base URL of an emulator on loopback."""
    with Served(emulator(clock=time.time, keys=frozenset({"sk-emulated"}))) as url:
        yield url


MESSAGES: Any = [{"role": "user", "content": "hi"}]
CALL_MESSAGES: Any = [{"role": "user", "content": "call"}]
PINNED: Any = {"provider": {"only": ["chutes"]}}


@pytest.fixture
def sdk(base_url: str) -> Iterator[OpenRouter]:
    """The official OpenRouter SDK, unmodified."""
    with OpenRouter(api_key="sk-emulated", server_url=base_url, retry_config=None) as client:
        yield client


@pytest.fixture
def oai(base_url: str) -> Iterator[openai.OpenAI]:
    """The official OpenAI SDK, unmodified."""
    with openai.OpenAI(api_key="sk-emulated", base_url=base_url, max_retries=0) as client:
        yield client


def ask_sdk(sdk: OpenRouter, messages: Any = MESSAGES, fault: str = "", **fields: Any) -> Any:
    """One chat request through the official SDK."""
    headers = {"x-emulator-fault": fault} if fault else None
    provider: Any = {"only": ["chutes"]}
    return sdk.chat.send(model=MODEL, messages=messages, provider=provider, http_headers=headers, **fields)


def test_openai_parses_an_answer_a_stream_and_a_call(oai: openai.OpenAI) -> None:
    """Text, bill and finish reason; the chunks; id, name and arguments of the call."""
    said = oai.chat.completions.create(model=MODEL, messages=MESSAGES, extra_body=PINNED)
    message = said.choices[0].message
    assert (message.content, said.choices[0].finish_reason) == ("Hi there!", "stop")
    assert said.usage is not None
    assert (said.usage.prompt_tokens, said.usage.completion_tokens) == (10, 8)
    assert (message.model_extra or {})["reasoning"] == "I think."
    stream = oai.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True, extra_body=PINNED)
    assert "".join(c.choices[0].delta.content or "" for c in stream) == "Hi there!"
    tools: Any = TOOLS
    calling = oai.chat.completions.create(model=MODEL, messages=CALL_MESSAGES, tools=tools, extra_body=PINNED)
    assert calling.choices[0].finish_reason == "tool_calls"
    assert calling.choices[0].message.tool_calls is not None
    call: Any = calling.choices[0].message.tool_calls[0]
    assert (call.id, call.function.name) == ("functions.get_weather:2", "get_weather")
    assert json.loads(call.function.arguments) == {"city": "Oslo", "b": 1}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("401", openai.AuthenticationError),
        ("403-moderation", openai.PermissionDeniedError),
        ("404", openai.NotFoundError),
        ("429-retry-after", openai.RateLimitError),
        ("500", openai.InternalServerError),
        ("402-credits", openai.APIStatusError),
        ("half-body", openai.APIConnectionError),
    ],
)
def test_openai_raises_the_error_that_is_meant(oai: openai.OpenAI, fault: str, error: type[Exception]) -> None:
    """Each status is the exception that the SDK has for it; a body that breaks off is a connection error."""
    with pytest.raises(error):
        oai.chat.completions.create(
            model=MODEL, messages=MESSAGES, extra_body=PINNED, extra_headers={"x-emulator-fault": fault}
        )


def test_openai_sees_an_error_in_mid_stream_and_ignores_comments(oai: openai.OpenAI) -> None:
    """The error ends the iteration with an APIError; comments between events are no chunks."""
    ask: Any = {"model": MODEL, "messages": MESSAGES, "stream": True, "extra_body": PINNED}
    with pytest.raises(openai.APIError, match="Provider returned error"):
        list(oai.chat.completions.create(**ask, extra_headers={"x-emulator-fault": "stream-error"}))
    quiet = list(oai.chat.completions.create(**ask, extra_headers={"x-emulator-fault": "comments"}))
    assert len(quiet) == 8


def test_openai_lists_the_model(oai: openai.OpenAI) -> None:
    """GET /models has the one model."""
    assert [m.id for m in oai.models.list()] == [MODEL]


def test_openrouter_parses_an_answer_and_a_call(sdk: OpenRouter) -> None:
    """Text, reasoning, bill and cost; id, name and arguments of the call."""
    said = ask_sdk(sdk)
    assert isinstance(said, components.ChatResult)
    message = said.choices[0].message
    assert (message.content, message.reasoning, said.choices[0].finish_reason) == ("Hi there!", "I think.", "stop")
    assert said.usage is not None
    assert (said.usage.completion_tokens, said.usage.cost) == (8, 0.000025)
    calling = ask_sdk(sdk, CALL_MESSAGES, tools=TOOLS)
    call = calling.choices[0].message.tool_calls[0]
    assert (call.id, call.function.name) == ("functions.get_weather:2", "get_weather")
    assert calling.choices[0].finish_reason == "tool_calls"


def test_openrouter_parses_a_stream(sdk: OpenRouter) -> None:
    """Chunks, calls in deltas and the bill at the end."""
    with ask_sdk(sdk, stream=True) as stream:
        chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "Hi there!"
    assert "".join(c.choices[0].delta.reasoning or "" for c in chunks) == "I think."
    assert chunks[-1].usage.completion_tokens == 8
    with ask_sdk(sdk, CALL_MESSAGES, tools=TOOLS, stream=True) as stream:
        calls = [c for chunk in stream for c in chunk.choices[0].delta.tool_calls or ()]
    assert calls[0].function.name == "get_weather"
    assert "".join(c.function.arguments for c in calls) == '{"city": "Oslo", "b": 1}'


def test_openrouter_sees_an_error_in_mid_stream(sdk: OpenRouter) -> None:
    """The chunk carries the error and its reason."""
    with ask_sdk(sdk, stream=True, fault="stream-error") as stream:
        last = list(stream)[-1]
    assert (last.error.code, last.error.message) == (502, "Provider returned error")
    assert last.choices[0].finish_reason == "error"


@pytest.mark.parametrize(
    ("fault", "error", "code"),
    [
        ("402-credits", openrouter_errors.PaymentRequiredResponseError, 402),
        ("403-moderation", openrouter_errors.ForbiddenResponseError, 403),
        ("404", openrouter_errors.NotFoundResponseError, 404),
        ("429", openrouter_errors.TooManyRequestsResponseError, 429),
        ("502", openrouter_errors.BadGatewayResponseError, 502),
        ("503", openrouter_errors.ServiceUnavailableResponseError, 503),
    ],
)
def test_openrouter_raises_the_error_that_is_meant(sdk: OpenRouter, fault: str, error: Any, code: int) -> None:
    """Each status is the exception that the SDK has for it, with the code of the body."""
    with pytest.raises(error) as raised:
        ask_sdk(sdk, fault=fault)
    assert raised.value.data.error.code == code


@pytest.mark.filterwarnings("ignore:warning. .. DEPRECATED:DeprecationWarning")  # of the SDK's own RateLimit
def test_openrouter_parses_endpoints_models_generation_and_key(sdk: OpenRouter) -> None:
    """Tag and display name, the model, the bill of one answer, what the key spent."""
    listed = sdk.endpoints.list(author="moonshotai", slug="kimi-k2.5").data.endpoints
    assert {e.tag: e.provider_name for e in listed}["chutes/int4"] == "Chutes"
    models: Any = sdk.models.list()
    assert [m.id for m in models.result.data] == [MODEL]
    said = ask_sdk(sdk)
    data = sdk.generations.get_generation(id=said.id).data
    assert (data.provider_name, data.tokens_completion, data.finish_reason) == ("Chutes", 8, "stop")
    assert sdk.api_keys.get_current_key_metadata().data.usage >= 0.000025
    with pytest.raises(openrouter_errors.NotFoundResponseError):
        sdk.generations.get_generation(id="gen-0")


def test_a_key_that_is_not_known_is_refused_over_loopback(base_url: str) -> None:
    """401 for the SDK too."""
    with (
        OpenRouter(api_key="sk-other", server_url=base_url) as client,
        pytest.raises(openrouter_errors.UnauthorizedResponseError),
    ):
        client.api_keys.get_current_key_metadata()


async def test_a_hang_lasts_as_long_as_the_client(base_url: str) -> None:
    """The client's own timeout ends it, and the server goes on answering."""
    headers = {"authorization": "Bearer sk-emulated", "x-emulator-fault": "hang-midway"}
    async with httpx.AsyncClient(base_url=base_url, timeout=0.5) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.post("/chat/completions", json=asked(stream=True), headers=headers)
        del headers["x-emulator-fault"]
        again = await asyncio.wait_for(client.post("/chat/completions", json=asked(), headers=headers), 5)
    assert again.json()["provider"] == "Chutes"
