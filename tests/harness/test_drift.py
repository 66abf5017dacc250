"""harness.drift: a host that changed is told under the right name, one that did not is left alone."""

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.drift import Drift, chance, compare
from harness.types import Exchange
from tests.drift_kit import PLANTS, SCENARIOS, plain, reasoning_lost, record
from tests.harness.test_sightings import body, call, kit, stream
from tests.report_drift import alarms, told

SAMPLED = ("chutes", "moonshotai")


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_change_has_its_name(name: str) -> None:
    """Each of the ten, at a host that did not do it before, alone, and with the recordings that show it."""
    right, others = told(name, "chutes", kit())
    assert (bool(right), others) == (True, [])
    assert {d.touches_ids for d in right} == {name != "chunks merged"}
    keys = {f"chutes/{s.name.replace(' ', '-')}" for s in SCENARIOS}
    assert all(d.shown_by and set(d.shown_by) <= keys and d.provider == "Chutes" for d in right)


@pytest.mark.parametrize("name", sorted(set(PLANTS) - {"whitespace before </think> stripped"}))
def test_another_sample_hides_no_change(name: str) -> None:
    """The model says something else each time: numbers and equations still tell; two blanks too few never could."""
    assert told(name, "chutes", kit(), seed=2)[0] != []


@pytest.mark.parametrize("host", SAMPLED)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_host_that_did_not_change_is_left_alone(host: str, seed: int) -> None:
    """Whether the model samples the same or something else; all 42 re-recordings: `make drift-planted`."""
    assert alarms(host, seed, kit()) == []


def test_a_field_under_a_name_that_nobody_reads() -> None:
    """Reasoning that is lost to us is told by its fields: the old name, the new one, and what is gone for good."""
    old, new = record(plain("chutes"), 1, 1), record(replace(plain("chutes"), rewrite=reasoning_lost), 1, 2)
    found = compare(old, new, kit()).drifts
    assert [(d.aspect, d.old, d.new, d.touches_ids) for d in found] == [
        ("fields", "choices[].delta.reasoning", "choices[].delta.thoughts", True),
        ("fields", "choices[].message.reasoning", "choices[].message.thoughts", True),
        ("fields", "choices[].message.reasoning_details", "gone", True),
    ]


# --- by hand: (old answers, new answers) -> what is told --------------------------------------------------------------


def changed(old: list[Any], new: list[Any], request: dict[str, Any] | None = None) -> list[Drift]:
    """What is told of answers that stand for each other by their place."""
    asked = {"model": "moonshotai/kimi-k2.5", "messages": [{"role": "user", "content": "hi"}], **(request or {})}
    sides = [{f"k{k}": Exchange(f"k{k}", answer, asked) for k, answer in enumerate(side)} for side in (old, new)]
    return list(compare(sides[0], sides[1], kit()).drifts)


def names(found: list[Drift]) -> list[tuple[str, str, str]]:
    """Aspect, before, now."""
    return [(d.aspect, d.old, d.new) for d in found]


def text(content: str, tokens: int = 9, **more: Any) -> dict[str, Any]:
    """An answer that is this content."""
    return {**body(content=content, tokens=tokens), **more}


def test_one_answer_that_says_the_same_is_enough() -> None:
    """A blank that one of two equal answers lacks was taken by the host."""
    found = changed([text("Hello there. ")], [text("Hello there.")])
    assert names(found) == [("content_end", "kept", "lost")]
    assert (found[0].shown_by, found[0].why) == (("k0",), "1 answers that say the same")


def test_another_answer_without_a_blank_is_no_change() -> None:
    """Five answers with a blank and five others without may be chance; six against six are not."""
    for n, expected in ((5, []), (6, [("content_end", "kept", "lost")])):
        old = [text(f"Hello number {k}. ") for k in range(n)]
        new = [text(f"Bye number {k}.") for k in range(n)]
        assert names(changed(old, new)) == expected


def test_a_host_that_always_mixed_changed_nothing() -> None:
    """Ids invented in some answers before and in others now."""

    def answer(minted: bool) -> dict[str, Any]:
        return body("tool_calls", tokens=20, content="", tool_calls=[call("call_1" if minted else "functions.f:0")])

    mixed, other = [answer(k % 2 == 0) for k in range(6)], [answer(k % 2 == 1) for k in range(6)]
    assert changed(mixed, other) == []
    assert names(changed(mixed, [answer(True)] * 6)) == []
    assert names(changed([answer(False)] * 6, mixed)) == [("call_id", "native", "minted")]


def test_what_no_model_writes_is_told_at_once() -> None:
    """One invented id among other words is proof."""
    old = [body("tool_calls", content="One", tool_calls=[call("functions.get_weather:0")])]
    new = [body("tool_calls", content="Two", tool_calls=[call("call_1")])]
    assert names(changed(old, new)) == [("call_id", "native", "minted")]


def test_bills() -> None:
    """Of the same text another number is billed: one answer to the byte, or two in the same words."""
    assert names(changed([text("Hello there.", 4)], [text("Hello there.", 31)])) == [
        ("completion_tokens", "as before", "+27")
    ]
    assert changed([text("Hello there.", 4)], [text("Hello  there.", 5)]) == []  # the model may have split it so
    twice = changed([text("Hello there.", 4)] * 2, [text("Hello  there.", 5)] * 2, {"thinking": False})
    assert names(twice) == [("terminator_billed", "no", "yes")]


def test_a_bill_that_could_be_either_part() -> None:
    """All answers think, and no prompt bill is told: one more token may be the terminator or `<think>`."""
    usage = {"completion_tokens": 9}
    old = [{**body(reasoning="Hm", content="Hi"), "usage": usage}]
    new = [{**body(reasoning="Hm", content="Hi"), "usage": {"completion_tokens": 10}}]
    assert names(changed(old, new)) == [("offset", "as before", "+1")]


def test_one_prompt_and_two_bills() -> None:
    """The same request billed otherwise: the prompt was rendered otherwise; another request tells nothing."""
    new = text("Bye", usage={"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 41})
    assert names(changed([text("Hello")], [new])) == [("prompt_tokens", "as before", "+2")]
    sides = [
        {"k": Exchange("k", answer, {"messages": [{"role": "user", "content": asked}]})}
        for answer, asked in ((text("Hello"), "a"), (new, "b"))
    ]
    assert compare(sides[0], sides[1], kit()).drifts == ()


def test_usage_that_no_longer_comes() -> None:
    """The bill is a field like any other, and verdicts are made of it."""
    gone = text("Hello there")
    del gone["usage"]
    found = changed([text("Hello there")], [gone])
    assert [(*n, d.touches_ids) for n, d in zip(names(found), found, strict=True)] == [
        ("fields", "usage", "gone", True)
    ]


def test_a_field_that_comes_touches_no_ids() -> None:
    """A new field is told once, at the place where it begins, and ends no command with 1."""
    found = changed([text("Hello there")], [text("Hello there", service={"tier": "x", "more": [1]})])
    assert (names(found), found[0].touches_ids) == ([("fields", "absent", "service")], False)


def test_a_field_that_comes_with_another_answer_is_no_change() -> None:
    """Calls bring fields of their own, and so does reasoning in one of a few answers."""
    old = [text("Hello there"), text("Good day")]
    new = [
        body("tool_calls", content="", tool_calls=[call("functions.get_weather:0")]),
        body(reasoning="Hm", content="Good evening"),
    ]
    assert names(changed(old, new)) == []


def test_errors_are_told() -> None:
    """An answer that is an error now is told, and touches no ids."""
    found = changed([text("Hello")], [{"error": {"code": 404, "message": "No endpoints found"}}])
    assert (names(found), found[0].touches_ids) == ([("answered", "answer", "error 404")], False)
    assert changed([{"error": {"code": 404}}], [{"error": {"code": 404}}]) == []


def test_another_provider_or_model_answers() -> None:
    """A pin that did not hold, and a model under another name, each touch ids."""
    other = text("Hello there", provider="Novita", model="moonshotai/kimi-k2.6")
    found = changed([text("Hello there")], [other])
    assert names(found) == [("provider", "Chutes", "Novita"), ("model", "moonshotai/kimi-k2.5", "moonshotai/kimi-k2.6")]
    assert all(d.touches_ids for d in found)


def test_chunks_that_grow() -> None:
    """Twice the tokens a chunk is another way of streaming; a third more is not."""
    words = ["Hello", " there", " my", " friend", " of", " old"]
    pairs = ["".join(words[k : k + 2]) for k in range(0, 6, 2)]
    nearly = ["".join(words[:2]), *words[2:]]
    assert names(changed([stream("content", *words)], [stream("content", *pairs)])) == [
        ("chunk_size", "1.0 tokens a chunk", "2.0 tokens a chunk")
    ]
    assert changed([stream("content", *words)], [stream("content", *nearly)]) == []


def test_a_count_that_stays_is_no_change() -> None:
    """A host that counts reasoning as before and strips a blank of it changed the blank alone."""

    def answer(reasoning: str, counted: int) -> dict[str, Any]:
        made = body(reasoning=reasoning, content="Hi")
        made["usage"]["completion_tokens_details"] = {"reasoning_tokens": counted}
        return made

    blank, none = "Look at it.\n\n", "Look at it."
    assert names(changed([answer(blank, 5)], [answer(none, 5)])) == [("reasoning_end", "kept", "lost")]
    assert names(changed([answer(none, 4)], [answer(none, 5)])) == [("reasoning_tokens", "ids", "ids+1")]


def test_what_has_no_counterpart_is_named() -> None:
    """Keys on one side alone are listed, and nothing is told of them."""
    one, two = Exchange("a", text("Hello there. ")), Exchange("b", text("Hello there."))
    found = compare({"a": one, "c": one}, {"b": two, "c": one}, kit())
    assert (found.drifts, found.n_pairs, found.only_old, found.only_new) == ((), 1, ("a",), ("b",))
    assert found.touches_ids is False


def test_requests_that_differ_are_told() -> None:
    """Pairs whose requests are not the same, each with the members; an unknown request is not held against one."""
    asked = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}]}
    others = {"a": asked, "b": {**asked, "max_tokens": 6}, "c": {**asked, "messages": [], "seed": 1}, "d": {}}
    old = {key: Exchange(key, text("Hello there."), asked) for key in others}
    new = {key: Exchange(key, text("Hello there."), request) for key, request in others.items()}
    found = compare(old, new, kit())
    assert found.other_requests == {"b": ("max_tokens",), "c": ("messages", "seed")}
    assert found.n_pairs == 4


def test_chance() -> None:
    """Fisher's exact test: known values, symmetric, 1 where nothing differs."""
    assert round(chance(5, 5, 0, 5), 5) == 0.00794
    assert round(chance(1, 10, 11, 14), 6) == 0.002759  # the textbook's 2x2 table 1 9 / 11 3
    assert chance(3, 6, 3, 6) == 1.0
    assert chance(2, 9, 7, 8) == pytest.approx(chance(7, 8, 2, 9))


def test_a_comparison_can_be_written_down() -> None:
    """Every member of a drift is plain, so that machines may read it."""
    found = changed([text("Hello there. ")], [text("Hello there.")])[0]
    assert json.loads(json.dumps([getattr(found, name) for name in ("provider", "model", "shown_by")])) == [
        "Chutes",
        "moonshotai/kimi-k2.5",
        ["k0"],
    ]
