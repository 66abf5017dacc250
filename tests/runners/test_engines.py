"""runners.engines: what SGLang and vLLM say of themselves, and how they are asked for the ids of a text."""

import json
from typing import Any

import pytest

from harness.errors import ProviderError, SetupError
from harness.vocab import is_ids
from runners.engines import FLAGS, Told, generated, identify, tokenized
from tests.runners.capture_kit import PLAIN, VLLM
from tests.runners.standin import StandIn, asking

NO_PATH = (404, b'{"detail":"Not Found"}')


def told(engine: StandIn, name: str | None = None, version: str | None = None) -> Told:
    """What the stand-in says of itself."""
    with asking(engine) as server:
        return identify(server, name, version)


def test_sglang_tells_its_flags() -> None:
    """Version, model, and the flags that bear on answers: no key, no unset flag, no folder of somebody's machine."""
    found = told(StandIn([]))

    assert found == Told(
        "sglang", "0.5.23", "kimi-k2.5", {"model_path": "small", "reasoning_parser": "kimi_k2", "tp_size": 1}
    )
    assert found.title == "SGLang 0.5.23"
    assert not {"api_key", "admin_api_key", "ssl_keyfile_password"} & FLAGS


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.5"),
        ("/data/k2/", "k2"),
        ("~/hub/models--moonshotai--Kimi-K2.5/snapshots/abc", "models--moonshotai--Kimi-K2.5/snapshots/abc"),
    ],
)
def test_paths_lose_the_machine(path: str, kept: str) -> None:
    """What names model and revision stays."""
    info = {"version": "1", "model_path": path}

    assert told(StandIn([], faults={"/get_server_info": lambda _: info})).flags == {"model_path": kept}


def test_the_new_name_of_the_info_path() -> None:
    """Servers that know /server_info alone tell as much."""
    info = {"version": "0.6.0", "tp_size": 2}
    faults = {"/get_server_info": lambda _: NO_PATH, "/server_info": lambda _: info}

    assert told(StandIn([], faults=faults)) == Told("sglang", "0.6.0", "kimi-k2.5", {"tp_size": 2})


def test_vllm_tells_its_version_alone() -> None:
    """Its flags must be typed."""
    found = told(StandIn([], "vllm"))

    assert (found, found.title) == (Told("vllm", "0.32.0", "kimi-k2.5", {}), "vLLM 0.32.0")


def test_what_is_typed_goes_first() -> None:
    """A server that does not say who it is can be named."""
    models = {"data": [{"id": "k2", "owned_by": "somebody"}]}
    faults = {"/v1/models": lambda _: models, "/version": lambda _: NO_PATH}

    assert told(StandIn([], "vllm", faults=faults), "vllm", "0.33.1") == Told("vllm", "0.33.1", "k2", {})


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/models", {"data": [{"id": "k2", "owned_by": "llama.cpp"}]}, "owned_by 'llama.cpp'; expected one of"),
        ("/v1/models", {"data": []}, "name it with --engine"),
        ("/v1/models", [1], "name it with --engine"),
        ("/v1/models", NO_PATH, "name it with --engine"),
        ("/v1/models", {"data": [{"owned_by": "sglang"}]}, "names no model"),
        ("/get_server_info", {"tp_size": 1}, "does not tell its version (got None); name it with --engine-version"),
        ("/get_server_info", {"version": "../x"}, "does not tell its version"),
    ],
)
def test_a_server_that_does_not_say(path: str, body: Any, words: str) -> None:
    """What came, what was expected, which option helps."""
    with pytest.raises(SetupError) as caught:
        told(StandIn([], faults={path: lambda _: (200, json.dumps(body).encode()) if body != NO_PATH else body}))

    assert words in str(caught.value)


def test_an_engine_that_is_none() -> None:
    """A wrong --engine is named as such."""
    with pytest.raises(SetupError, match=r"--engine ollama; expected one of \['sglang', 'vllm'\]"):
        told(StandIn([]), "ollama")


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_both_ways_to_ask_for_ids(engine: str) -> None:
    """/tokenize, and where that is missing the echo of a prompt: the same ids, control tokens by their names."""
    text = "I</think>} \n/* x"
    asked = Told(engine, "1", "kimi-k2.5", {})
    old = StandIn([], engine, faults={"/tokenize": lambda _: NO_PATH})

    with asking(StandIn([], engine)) as new_way, asking(old) as old_way:
        rows = [tokenized(way, asked, text) for way in (new_way, old_way)]

    assert rows[0] == rows[1]
    assert rows[0] is not None
    assert rows[0][:2] == [40, 163607]
    assert [path for path, _ in old.asked][-1] == {"sglang": "/generate", "vllm": "/v1/completions"}[engine]


def test_no_way_to_ask_for_ids() -> None:
    """An echo without ids tells nothing, and that is said, not guessed."""
    faults = {"/tokenize": lambda _: NO_PATH, "/generate": lambda _: {"output_ids": [1], "meta_info": {}}}
    with asking(StandIn([], faults=faults)) as server:
        assert tokenized(server, Told("sglang", "1", "m", {}), "x") is None


def test_vllm_is_asked_with_ids() -> None:
    """/v1/completions with the ids as prompt, greedy, for ids; a server too old to give them is named."""
    dialogue = VLLM["d01_plain"]
    asked = Told("vllm", "0.32.0", "kimi-k2.5", {})
    engine = StandIn([dialogue], "vllm")

    with asking(engine) as server:
        found = generated(server, asked, dialogue.prompt_ids, 150)

        engine.faults["/v1/completions"] = lambda _: {"choices": [{"text": "x"}], "usage": {"prompt_tokens": 10}}
        with pytest.raises(ProviderError, match=r"without output ids .* vLLM 0\.10\.2 or newer"):
            generated(server, asked, dialogue.prompt_ids, 150)

    assert found.ids == dialogue.output_ids
    sent = {"model": "kimi-k2.5", "prompt": dialogue.prompt_ids, "temperature": 0, "max_tokens": 150}
    assert engine.asked[0] == ("/v1/completions", sent | {"return_token_ids": True})


@pytest.mark.parametrize("value", [[True], [-1], [163840], ["1"], [1.0], "12", None, {"0": 1}])
def test_what_is_no_row_of_ids(value: Any) -> None:
    """Only integers of the vocabulary are ids."""
    assert not is_ids(value)
    assert is_ids(PLAIN.output_ids)
