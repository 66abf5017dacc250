"""harness.scenarios: what is asked, and the request that one endpoint alone may answer."""

import json
from decimal import Decimal
from typing import Any

import pytest

from harness.catalog import Endpoint
from harness.errors import SetupError
from harness.scenarios import scenarios_of
from tests.scenario_truths import ANSWERS, shipped

HEAD = 'model = "m"\n[[scenario]]\nname = "s"\nmax_tokens = 5\n'
ASK = 'messages = [{role = "user", content = "hi"}]\n'
END = Endpoint("novita/int4", "Novita", "int4", Decimal("1e-6"), Decimal("2e-6"))


def test_the_shipped_file_covers_what_providers_do() -> None:
    """At least 24 scenarios, each with a reason; every kind that is known to go wrong is among them."""
    found = {s.name: s.request for s in shipped().scenarios}

    assert len(found) == 31
    assert set(found) == set(ANSWERS)
    assert all(len(s.why) > 15 for s in shipped().scenarios)
    assert found["hello"]["messages"] == [{"role": "user", "content": "Say hello in 3 words"}]
    asked: dict[str, Any] = {
        "streamed": [n for n, r in found.items() if r.get("stream")],
        "tools": [n for n, r in found.items() if r.get("tools")],
        "forced": [n for n, r in found.items() if r.get("tool_choice")],
        "no thinking": [n for n, r in found.items() if r.get("reasoning") == {"enabled": False}],
        "logprobs": [n for n, r in found.items() if r.get("logprobs")],
        "history": [n for n, r in found.items() if any(m["role"] == "tool" for m in r["messages"])],
        "markers": [n for n, r in found.items() if "<|im_end|>" in r["messages"][-1]["content"]],
        "cut": [n for n, r in found.items() if r["max_tokens"] <= 40],
        "raw calls": [
            n for n, r in found.items() if "functions." in r["messages"][0]["content"] and not r.get("tools")
        ],
    }
    assert {what: len(names) for what, names in asked.items()} == {
        **{"streamed": 10, "tools": 12, "forced": 4, "no thinking": 5, "logprobs": 2, "history": 2, "markers": 1},
        **{"cut": 4, "raw calls": 1},
    }


def test_a_request_is_pinned_and_whole() -> None:
    """`only`, no fallbacks, the quantization, required parameters; tools are written out; other bytes stay."""
    scenario = shipped().picked(["forced-call"])[0]

    body = json.loads(scenario.body("m", END))

    assert body["provider"] == {
        "only": ["novita/int4"],
        "allow_fallbacks": False,
        "require_parameters": True,
        "quantizations": ["int4"],
    }
    assert (body["model"], body["tool_choice"], body["max_tokens"]) == ("m", "required", 1024)
    assert [(t["type"], t["function"]["name"]) for t in body["tools"]] == [("function", "save_note")]
    assert body["tools"][0]["function"]["parameters"]["required"] == ["title", "text"]
    assert "写" in shipped().picked(["han-code"])[0].body("m", END).decode()


def test_what_an_endpoint_does_not_offer_is_told() -> None:
    """With required parameters it would answer 404; an endpoint that lists none is asked."""
    scenario = shipped().picked(["logprobs"])[0]
    offered = Endpoint("a", "A", "int4", Decimal(0), Decimal(0), supported_parameters=frozenset({"max_tokens"}))

    assert scenario.lacking(offered) == ("logprobs",)
    assert scenario.lacking(END) == ()
    assert json.loads(scenario.body("m", Endpoint("a", "A", "unknown", Decimal(0), Decimal(0))))["provider"] == {
        "only": ["a"],
        "allow_fallbacks": False,
        "require_parameters": True,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model = ", "no readable TOML"),
        ("model = " + "1" * 5000, "no readable TOML"),
        ("a = 1", "no file of scenarios; expected"),
        ('model = "m"\nscenario = []', "0 scenarios; expected 1 to 500"),
        (HEAD, "scenario s: no `messages`"),
        (HEAD.replace("max_tokens = 5", "max_tokens = 0") + ASK, "scenario s: no `max_tokens`"),
        (HEAD.replace("max_tokens = 5", "max_tokens = -5") + ASK, "max_tokens of at least 1"),
        (HEAD.replace("max_tokens = 5", "max_tokens = true") + ASK, "`max_tokens`; expected another kind of value"),
        (HEAD + 'messages = [{content = "hi"}]', "messages with a `role`"),
        (HEAD + ASK + "temprature = 1", "`temprature`; expected one of messages, max_tokens"),
        (HEAD + ASK + 'stream = "yes"', "`stream`; expected another kind of value than 'yes'"),
        (HEAD + ASK + 'tools = ["f"]', "the tool 'f' is not declared"),
        (HEAD.replace('"s"', '"../s"') + ASK, "has the name '../s'"),
        (HEAD.replace('"s"', '"S S"') + ASK, "has the name 'S S'"),
        (HEAD + ASK + HEAD.partition("\n")[2] + ASK, "two scenarios are called 's'"),
        ('model = "m"\n[[scenario]]\n', "scenario 1 has the name None"),
    ],
)
def test_what_is_no_scenario_is_named(text: str, words: str) -> None:
    """Which one, which member, and what was expected."""
    with pytest.raises(SetupError) as caught:
        scenarios_of(text)

    assert words in str(caught.value)


def test_scenarios_are_picked_by_name() -> None:
    """In the order asked, each once; a name that none has lists the names."""
    assert [s.name for s in shipped().picked(["unicode", "hello", "unicode"])] == ["unicode", "hello"]
    assert len(shipped().picked([])) == 31
    with pytest.raises(SetupError, match="no scenario 'helo'; scenarios: hello, plain-short"):
        shipped().picked(["helo"])
