"""checks.py: each finding on the smallest answer that has it, and none on answers that are sound."""

import time
from typing import Any

import pytest

from harness.asked import same_provider
from harness.checks import CHECKS, Case, check
from harness.formats import formats
from harness.types import ToolCall, Turn, Usage

FORMATS = {f.name: f for f in formats()}
CALL = ToolCall("functions.ping:0", "ping", '{"host": "a"}')
TOOLS = {"tools": [{"type": "function", "function": {"name": "ping"}}]}
RAW = "<|tool_call_begin|>functions.{}<|tool_call_argument_begin|>{{}}<|tool_call_end|>"


def turn(reasoning: str = "", content: str = "", *calls: ToolCall, **fields: Any) -> Turn:
    """A turn that stopped by itself unless `fields` say otherwise."""
    return Turn(reasoning, content, calls, **{"finish_reason": "tool_calls" if calls else "stop"} | fields)


def found(
    answer: Turn,
    *,
    traits: dict[str, str] | None = None,
    request: dict[str, Any] | None = None,
    thinking: bool | None = None,
    provider: str | None = "ProviderX",
    billed: int | None = None,
    fmt: str = "kimi-k2.5",
) -> dict[str, bool]:
    """Code -> fatal, of every finding."""
    case = Case(answer, FORMATS[fmt], thinking, traits or {}, request or {}, provider, same_provider, billed)
    return {finding.code: finding.fatal for finding in check(case)}


SOUND = {
    "reasoning and content": turn("Think.", "Say."),
    "content alone": turn("", "Say."),
    "a call": turn("Think.", "", CALL),
    "a call with finish stop": turn("Think.", "", CALL, finish_reason="stop"),
    "cut in the reasoning": turn("Think", finish_reason="length"),
    "cut in the content": turn("Think.", "Say", finish_reason="length"),
    "near misses": turn("a <|im_end b |im_end|> c", "<thinking> </thinking> chas <| |> <|im_End|> think>"),
    "short runs": turn("a" * 25_000, ("b" * 24_999 + " ") * 4),
    "streamed in order": turn("Think.", "Say.", CALL, order=("reasoning", "content", "call")),
}


@pytest.mark.required
@pytest.mark.parametrize("answer", SOUND.values(), ids=SOUND)
def test_sound_answers_have_no_finding(answer: Turn) -> None:
    """What nothing is wrong with gets no finding, with nothing known of host and request."""
    assert found(answer) == {}


COERCED = {"argument_types": "coerced"}
ODD = ToolCall("call_1", "ping", CALL.arguments)
FINDINGS: list[tuple[str, bool, Turn, dict[str, Any]]] = [
    ("no-finish", True, turn("", "Say.", finish_reason=None), {}),
    ("unknown-finish", True, turn("", "Say.", finish_reason="eos"), {}),
    ("unknown-finish", True, turn("", "Say.", finish_reason="stop|length"), {}),
    ("cut-in-call", True, turn("", "", CALL, finish_reason="length"), {}),
    ("cut-unsaid", True, turn("", "", CALL), {"request": {"max_tokens": 9}, "billed": 9}),
    ("cut-unsaid", True, turn("", "Say."), {"request": {"max_completion_tokens": 9}, "billed": 10}),
    ("stop-strings", True, turn("", "Say."), {"request": {"stop": ["\n"]}}),
    ("calls-lost", True, turn("", "Say.", finish_reason="tool_calls"), {}),
    ("thinks-although-off", True, turn("Think.", "Say."), {"thinking": False}),
    ("thinking-not-told", True, turn("Think.", "Say."), {"traits": {"swallows_think": "yes"}}),
    ("all-reasoning", True, turn("Think.Say."), {}),
    ("all-reasoning", True, turn("Think.Say."), {"traits": {"reasoning_tokens": "ids"}}),
    ("no-reasoning", True, turn("", "Think.Say."), {"thinking": True, "traits": {"spaces": "none"}}),
    ("no-reasoning", True, turn("", "Say."), {"fmt": "kimi-k2-thinking", "traits": {"spaces": "none"}}),
    ("replacement-character", True, turn("", "a\ufffd"), {}),
    ("marker-in-text", False, turn("", "a<|im_end|>"), {}),
    ("marker-in-text", False, turn("a</think>b", "c"), {}),
    ("marker-in-call", True, turn("", "", ToolCall(CALL.id, "ping", '{"a": "</think>"}')), {}),
    ("marker-in-call", True, turn("", "", ToolCall("functions.ping:0<|tool_call_end|>", "ping", "{}")), {}),
    ("marker-in-call", True, turn("", "", ToolCall(CALL.id, "ping", '{"a": "[EOS]"}')), {}),
    ("singular-marker", False, turn("", "<|tool_call_section_begin|>"), {}),
    ("minted-id", True, turn("", "", ODD), {}),
    ("minted-id", True, turn("", "", ODD), {"traits": {"call_id": "as-sent"}}),
    ("minted-id", True, turn("", "", ToolCall("", "ping", "{}")), {}),
    ("keys-maybe-sorted", True, turn("", "", ToolCall(CALL.id, "ping", '{"a": {"z": 1}, "b": {"c": 1, "d": 2}}')), {}),
    ("value-maybe-coerced", True, turn("", "", ToolCall(CALL.id, "ping", '{"n": 5}')), {"traits": COERCED}),
    ("empty-arguments", True, turn("", "", ToolCall(CALL.id, "ping", " ")), {}),
    ("think-shown", True, turn("<think>a", "b"), {"fmt": "kimi-k2-thinking"}),
    ("invalid-json", False, turn("", "", ToolCall(CALL.id, "ping", '{"a": {"b": 1}')), {}),
    ("tool-not-offered", True, turn("", RAW.format("pong:0")), {"request": TOOLS}),
    ("tool-not-offered", True, turn("", RAW.format("pong")), {"request": TOOLS}),
    ("tool-not-offered", True, turn("", "", ToolCall("functions..ping:0", ".ping", "{}")), {"request": TOOLS}),
    ("tool-not-offered", True, turn(RAW.format("pong:0")), {"request": TOOLS}),
    ("tool-not-offered", True, turn("", RAW.format("ping:0") + RAW.format("pong:1")), {"request": TOOLS}),
    ("long-run", True, turn("", "a" * 25_001), {}),
    ("long-run", True, turn(" " * 25_001, "a"), {}),
    ("sealed", True, turn("Think.", "Say.", sealed=True), {}),
    ("zero-bill", True, turn("", "Say."), {"billed": 0}),
    ("channels-interleaved", True, turn("Think.", "Say.", order=("reasoning", "content", "reasoning")), {}),
    ("text-behind-calls", True, turn("", "x", CALL, order=("call", "content"), interludes=("x",)), {}),
    ("blank-text", True, turn("Think.", "\n"), {"traits": {"spaces": "inserted"}}),
    ("blank-text", True, turn(" ", "Say."), {"traits": {"lost_text": "no"}}),
    ("nothing-visible", True, turn(), {}),
    ("gateway-edits", True, turn("", "Say."), {"request": {"transforms": ["middle-out"]}}),
    ("gateway-edits", True, turn("", "Say."), {"request": {"plugins": [{"id": "web"}]}}),
    ("gateway-edits", True, turn("", "Say."), {"request": {"preset": "mine"}}),
    ("gateway-edits", True, turn("", "Say."), {"request": {"model": "moonshotai/kimi-k2.5@preset/mine"}}),
    ("wrong-provider", True, turn("", "Say."), {"request": {"provider": {"only": ["other/int4"]}}}),
    ("wrong-provider", True, turn("", "Say."), {"request": {"provider": {"order": ["other"]}}}),
    ("wrong-provider", True, turn("", "Say."), {"request": {"provider": {"ignore": ["providerx"]}}}),
]


@pytest.mark.required
@pytest.mark.parametrize(
    ("code", "fatal", "answer", "how"), FINDINGS, ids=[f"{k}-{f[0]}" for k, f in enumerate(FINDINGS)]
)
def test_each_finding(code: str, fatal: bool, answer: Turn, how: dict[str, Any]) -> None:
    """The finding is made, and rejects or only tags as it should."""
    assert found(answer, **how).get(code) is fatal


@pytest.mark.required
def test_every_check_is_tried() -> None:
    """No check of the table goes without an answer that it finds something in."""
    silent = set(CHECKS)
    for _, _, answer, how in FINDINGS:
        case = Case(
            answer,
            FORMATS[how.get("fmt", "kimi-k2.5")],
            how.get("thinking"),
            how.get("traits", {}),
            how.get("request", {}),
            "ProviderX",
            same_provider,
            how.get("billed"),
        )
        silent -= {one for one in CHECKS if any(one(case))}
    assert silent == set()


# --- where a finding must stay away ---------------------------------------------------------------------------------


@pytest.mark.required
@pytest.mark.parametrize("way", ["ids", "ids+1", "undercount"])
def test_counted_reasoning_may_prove_its_end(way: str) -> None:
    """Reasoning that is counted by id is left to its witness; a count that is an estimate, or not told, is not."""
    told = turn("Think.Say.", usage=Usage(reasoning_tokens=4))
    assert "all-reasoning" not in found(told, traits={"reasoning_tokens": way})
    assert "all-reasoning" in found(told, traits={"reasoning_tokens": "estimate"})
    assert "all-reasoning" in found(told)


@pytest.mark.required
def test_an_undercount_proves_nothing_of_split_characters() -> None:
    """Streams that count split characters once are silent on such a text, and silence must not open the door."""
    told = turn("Denke über.Sag.", usage=Usage(reasoning_tokens=4))
    assert "all-reasoning" in found(told, traits={"reasoning_tokens": "undercount"})
    assert "all-reasoning" not in found(told, traits={"reasoning_tokens": "ids"})


@pytest.mark.required
def test_a_host_that_parts_reasoning_may_send_none() -> None:
    """No reasoning is no finding where the host is known to part it, shows `</think>`, or thinking may be off."""
    parts = {"reasoning_end": "kept"}
    assert found(turn("", "Say."), thinking=True, traits=parts) == {}
    assert found(turn("", "Say."), traits={"spaces": "none"}) == {}
    assert "no-reasoning" not in found(turn("", "a</think>b"), thinking=True, traits={"spaces": "none"})
    assert found(turn("", "Say."), thinking=True) == {}  # nothing known: unverified, and not rejected


@pytest.mark.required
@pytest.mark.parametrize(
    ("arguments", "sorted_"),
    [
        ('{"a": 1, "b": {"z": 1, "c": 2}}', False),
        ('{"b": 1, "a": {"c": 1, "d": 2}}', False),
        ('{"b": [{"d": 1, "c": 2}]}', False),
        ('{"a": {"z": 1}, "b": {"c": 1, "d": 2}}', True),
        ('{"x": {"a b": 1, "a": 2}}', False),
        ('{"x": {"a": 1, "a b": 2}}', True),
        ('{"x": {"\\u0061": 1, "b": 2}}', True),
        ('{"a": 1}', False),
        ('{"a": {"b": {"c": "d, \\"e\\": f"}}}', False),
        ("", False),
        ('{"x": {"a": 1, "b": 2', True),
    ],
)
def test_keys_are_in_order_object_by_object(arguments: str, sorted_: bool) -> None:
    """A host that sorts does it in every object: the keys of an inner object say nothing of the outer one's.

    `{"a": {"z": ...}, "b": ...}` is sorted although a, z, b is not.
    """
    codes = found(turn("", "", ToolCall(CALL.id, "ping", arguments)))
    assert ("keys-maybe-sorted" in codes) == sorted_


@pytest.mark.required
def test_what_is_known_of_sorting_decides() -> None:
    """A host that keeps keys may send them in order; one that sorts is named as such."""
    answer = turn("", "", ToolCall(CALL.id, "ping", '{"x": {"a": 1, "b": 2}}'))
    assert "keys-maybe-sorted" not in found(answer, traits={"argument_keys": "kept"})
    assert "keys-sorted" in found(answer, traits={"argument_keys": "sorted"})


@pytest.mark.required
@pytest.mark.parametrize(
    ("arguments", "doubt"),
    [
        ('{"n": 5}', True),  # "5" where a number was declared has the same count
        ('{"n": "5"}', True),
        ('{"n": 12.5}', True),
        ('{"n": [1, 2]}', True),
        ('{"n": {"a": "x"}}', True),
        ('{"n": true}', True),
        ('{"n": "null"}', True),
        ('{"n": "NaN"}', True),
        ('{"n": "Oslo"}', False),
        ('{"n":5}', False),  # no dump looks like this: it is as sampled
        ('{"n": 5.50}', False),
        ('{"n": 5', False),
        ("[5]", False),
        ("{}", False),
    ],
)
def test_values_that_may_have_been_coerced(arguments: str, doubt: bool) -> None:
    """A host that dumps arguments anew where a value misses its type: a dump's text with a number in it is in doubt.

    A number and the same number in quotes are often equally many ids, so the bill cannot tell.
    """
    answer = turn("", "", ToolCall(CALL.id, "ping", arguments))
    assert ("value-maybe-coerced" in found(answer, traits=COERCED)) == doubt
    assert "value-maybe-coerced" not in found(answer, traits={"argument_types": "kept"})
    assert "value-maybe-coerced" not in found(answer)  # not known: the ids that differ are masked


@pytest.mark.required
def test_arguments_with_more_spellings_than_can_be_tried() -> None:
    """Where a host may have written them anew, very long arguments are not believed."""
    members = ", ".join(f'"k{k}": "x"' for k in range(3000))
    long = turn("", "", ToolCall(CALL.id, "ping", "{" + members + "}"))
    assert "arguments-too-long" in found(long)
    assert "arguments-too-long" not in found(long, traits={"arguments": "as-sent"})


@pytest.mark.required
def test_more_values_than_can_be_masked_one_by_one() -> None:
    """Where nothing is known of types, a text of very many values is not believed."""
    many = turn("", "", ToolCall(CALL.id, "ping", '{"n": [' + ", ".join("1" * 100) + "]}"))
    assert "value-maybe-coerced" in found(many)
    assert "value-maybe-coerced" not in found(many, traits={"argument_types": "kept"})


@pytest.mark.required
@pytest.mark.parametrize(
    "tools",
    [
        TOOLS["tools"],
        ["ping"],
        [{"name": "ping"}],
        [{"function": {"name": "ping"}}],
        [None, 5, {"function": None}, "ping"],
    ],
    ids=["openai", "names", "bare", "function", "odd"],
)
def test_an_offered_tool_is_found_in_every_spelling(tools: list[Any]) -> None:
    """Tools are read as requests and recordings spell them; a prefix and an index belong to no name."""
    for header in ("functions.ping:0", " functions.ping:12 ", "ping:0", "functions.ping"):
        text = RAW.format("").replace("functions.", header)
        assert "tool-not-offered" not in found(turn("", text), request={"tools": tools})
    assert "tool-not-offered" in found(turn("", RAW.format("functions.ping:0")), request={"tools": tools})


@pytest.mark.required
@pytest.mark.parametrize("request_", [{}, {"tools": []}, {"tools": None}, {"tools": "ping"}], ids=repr)
def test_without_tools_nobody_can_tell_what_was_offered(request_: dict[str, Any]) -> None:
    """A request that does not say its tools rejects no raw call: the bill has to."""
    assert "tool-not-offered" not in found(turn("", RAW.format("pong:0")), request=request_)


@pytest.mark.required
def test_prose_about_a_marker_is_no_call() -> None:
    """A begin marker without an argument marker is not shaped like a call."""
    assert found(turn("", "It writes <|tool_call_begin|>functions.x:0."), request=TOOLS) == {"marker-in-text": False}


@pytest.mark.required
@pytest.mark.parametrize(
    "block",
    [
        {"only": ["providerx"]},
        {"only": ["other", "ProviderX/int4"]},
        {"only": "providerx"},
        {"order": ["provider-x/turbo"]},
        {"only": [], "order": []},
        {"ignore": ["other"]},
        {},
        None,
        "providerx",
    ],
    ids=repr,
)
def test_pins_that_hold(block: Any) -> None:
    """Slug, variant, spelling: the display name that answered is the one that was asked for."""
    assert found(turn("", "Say."), request={"provider": block}) == {}


@pytest.mark.required
@pytest.mark.parametrize("block", [{"only": 5}, {"only": [None]}, {"order": {"a": 1}}, {"only": "x"}], ids=repr)
def test_odd_pins_are_answered_not_raised(block: Any) -> None:
    """A pin that names nobody known is not kept; it crashes nothing."""
    assert "wrong-provider" in found(turn("", "Say."), request={"provider": block})


@pytest.mark.required
def test_a_pin_says_nothing_where_no_provider_is_named() -> None:
    """No display name: nothing to compare."""
    assert found(turn("", "Say."), request={"provider": {"only": ["other"]}}, provider=None) == {}


@pytest.mark.required
def test_a_limit_that_was_not_reached() -> None:
    """Fewer tokens than max_tokens, or `length` said: nothing hidden. A limit that is no number is none."""
    for limit, finish in ((11, "stop"), (10, "length"), ("10", "stop"), (None, "stop")):
        answer = turn("Think.", "Say", finish_reason=finish)
        assert found(answer, request={"max_tokens": limit}, billed=10) == {}


@pytest.mark.required
def test_reasoning_outside_the_count_is_counted() -> None:
    """0 completion tokens beside 60 of reasoning is a bill of 60: no cached copy, and a limit of 60 was reached."""
    answer = turn("Think.", "Say.", usage=Usage(completion_tokens=0, reasoning_tokens=60))
    assert found(answer, billed=60) == {}
    assert "cut-unsaid" in found(answer, billed=60, request={"max_tokens": 60})


# --- odd and hostile texts ------------------------------------------------------------------------------------------

HOSTILE = {
    "an open string of escapes": '{"a": "' + '\\"' * 200_000,
    "quotes": '"' * 200_000,
    "open objects": '{"a":' * 50_000,
    "open lists": "[" * 100_000,
    "colons": ":" * 200_000,
    "nearly long runs": ("a" * 24_999 + " ") * 40,
    "begins of calls": "<|tool_call_begin|>" * 20_000,
    "headers": "<|tool_call_begin|>functions." * 20_000 + ":1" * 20_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_cost_little(text: str) -> None:
    """Every check takes time in proportion to the text: none goes over it again for each of its characters."""
    start = time.perf_counter()
    found(turn(text, text, ToolCall(CALL.id, "ping", text)), request=TOOLS, traits=COERCED)
    assert time.perf_counter() - start < 2
