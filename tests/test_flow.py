"""flow.judge: from an answer to a verdict, in the one order; and that no answer, however odd, makes it raise."""

import copy
import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness.asked import same_provider
from harness.encoder import encode_prompt_text
from harness.errors import ProviderError
from harness.flow import completion_tokens, judge
from harness.habits import Habit, Habits
from harness.response import parse
from harness.types import Exchange, Origin, Usage, Verdict
from tests.harness.answers import chunk, piece
from tests.providerx import AS_SENT, MODEL, OFFSET, UNKNOWN, answer, call, codes, ids, judged, kit, masked, section

KNOWN = {**OFFSET, **AS_SENT}
TALK = {"reasoning": "Think of it.", "content": "Say it."}
TALK_IDS = ids("Think of it.", "</think>", "Say it.", "<|im_end|>")
N = len(TALK_IDS)


def reporting(body: dict[str, Any], token_ids: list[int]) -> dict[str, Any]:
    """The same body, its choice carrying ids."""
    body = copy.deepcopy(body)
    body["choices"][0]["token_ids"] = token_ids
    return body


# --- the four verdicts ----------------------------------------------------------------------------------------------


@pytest.mark.required
def test_exact() -> None:
    """Ids that the host reported, and that are the answer: each has the origin `reported`, none is masked."""
    verdict = judged(reporting(answer(TALK, N), TALK_IDS), KNOWN)
    assert (verdict.name, verdict.ids.ids, verdict.premise) == ("exact", TALK_IDS, "none")
    assert set(verdict.ids.origins) == {Origin.REPORTED}
    assert verdict.loss_mask == [1] * N


@pytest.mark.required
def test_verified() -> None:
    """The bill speaks for the one reading: control ids from the format, text encoded by us, on the count's premise."""
    verdict = judged(answer(TALK, N), KNOWN)
    assert (verdict.name, verdict.ids.ids, verdict.premise) == ("verified", TALK_IDS, "count")
    controls = {i for i, o in zip(verdict.ids.ids, verdict.ids.origins, strict=True) if o == Origin.TEMPLATE}
    assert controls == {163607, 163586}
    assert set(verdict.ids.origins) == {Origin.TEMPLATE, Origin.CANONICAL}
    assert [(w.witness, w.says) for w in verdict.witnesses if w.says != "silent"] == [("bill", "supports")]


@pytest.mark.required
def test_unverified() -> None:
    """No witness spoke: no usage, or an equation that nobody knows. No ids are given."""
    for verdict in (judged(answer(TALK), KNOWN), judged(answer(TALK, N)), judged(answer(TALK, N), AS_SENT)):
        assert (verdict.name, verdict.ids.ids, verdict.premise, codes(verdict)) == (
            "unverified",
            [],
            None,
            ["no-witness"],
        )


@pytest.mark.required
@pytest.mark.parametrize("billed", [N - 2, N - 1, N + 1, N + 2, 10 * N])
def test_rejected_by_the_bill(billed: int) -> None:
    """Every other bill contradicts every reading."""
    verdict = judged(answer(TALK, billed), KNOWN)
    assert (verdict.name, verdict.ids.ids, codes(verdict)) == ("rejected", [], ["bill-mismatch"])
    assert verdict.completion_tokens == billed


@pytest.mark.required
def test_rejected_by_a_check_before_the_bill_is_heard() -> None:
    """A fatal finding rejects whatever the bill says; a tag travels with an accepted answer."""
    assert judged(answer({**TALK, "content": "a\ufffd"}, N), KNOWN).name == "rejected"
    tagged = judged(answer({**TALK, "content": "<|tool_call_section_begin|>"}, 5 + 8 + 1), KNOWN)
    assert (tagged.name, codes(tagged)) == ("verified", ["singular-marker"])


@pytest.mark.required
def test_a_fatal_finding_rejects_reported_ids_too() -> None:
    """Ids mend what only text cannot show; they do not mend an unknown finish or the wrong provider."""
    body = reporting(answer(TALK, N), TALK_IDS)
    assert judged({**body, "choices": [{**body["choices"][0], "finish_reason": "eos"}]}, KNOWN).name == "rejected"
    assert judged(body, KNOWN, {"provider": {"only": ["other"]}}).name == "rejected"
    minted = {"reasoning": "Look.", "tool_calls": [call("ping", '{"a": "b"}', "call_1")]}
    row = ids("Look.", "</think>") + section("ping", '{"a": "b"}') + ids("<|im_end|>")
    verdict = judged(reporting(answer(minted, len(row), "tool_calls"), row), KNOWN)
    assert (verdict.name, verdict.ids.ids) == ("exact", row)
    assert [(f.code, f.fatal) for f in verdict.findings] == [("minted-id", False)]


@pytest.mark.required
def test_too_many_readings() -> None:
    """More readings than are listed: rejected with that reason, not guessed and not raised."""
    names = "<|im_user|><|im_system|><|im_middle|><think><|media_pad|><|media_end|>"
    verdict = judged(answer({"reasoning": names, "content": names}, 30), KNOWN)
    assert verdict.name == "rejected"
    assert codes(verdict)[-1] == "search-bound"


# --- which format, which habits, which mode -------------------------------------------------------------------------


@pytest.mark.required
@pytest.mark.parametrize(
    ("line", "said", "override", "fmt"),
    [
        (None, MODEL, None, "kimi-k2.5"),
        ("kimi-k2.6", "served-model", None, "kimi-k2.5"),
        ("served-model", "kimi-k2-0905", None, "kimi-k2"),
        (None, "moonshotai/kimi-k2-thinking", None, "kimi-k2-thinking"),
        ("kimi-k2-thinking", MODEL, "kimi-k2", "kimi-k2"),
        (None, "kimi-k3", None, None),
        (None, "kimi-k3", MODEL, "kimi-k2.5"),
        (MODEL, "moonshotai/kimi-k2-thinking", None, None),
        (None, None, None, None),
        (MODEL, MODEL, "kimi-k3", None),
    ],
)
def test_which_format(line: str | None, said: str | None, override: str | None, fmt: str | None) -> None:
    """`--model`, else the line's model, else the response's; two models of two formats are no model at all."""
    body = {**answer(TALK, N), "model": said}
    verdict = judge(Exchange("x", body, model=line), kit(KNOWN), model=override)
    assert verdict.format == fmt
    if fmt is None:
        assert (verdict.name, codes(verdict)) == ("rejected", ["unknown-format"])


@pytest.mark.required
def test_a_recorded_stack_implies_its_format() -> None:
    """Habits of a stack that served one model: its answers are of that format, whatever they call themselves."""
    habits = Habits((Habit("engine", "spaces", "none"),), implies_format={"engine": "kimi-k2.5"})
    verdict = judge(
        Exchange("x", {**answer(TALK, N), "model": "tiny"}), replace(kit(), habits=habits), provider="engine"
    )
    assert verdict.format == "kimi-k2.5"


@pytest.mark.required
def test_whose_habits() -> None:
    """The caller's word, else the line's, else the response's; `unknown` takes none, and compares pins all the same."""
    body = answer(TALK, N)
    other = {**body, "provider": "Other"}
    assert judged(body, KNOWN).name == "verified"
    assert judged(other, KNOWN).name == "unverified"
    assert judged(other, KNOWN, provider="ProviderX").name == "verified"
    assert judge(Exchange("x", other, provider="ProviderX"), kit(KNOWN)).name == "verified"
    assert judge(Exchange("x", body, provider="OR/ProviderX"), kit(KNOWN)).name == "verified"
    assert judged(body, KNOWN, provider="unknown").name == "unverified"
    pinned = {"provider": {"only": ["providerx"]}}
    assert codes(judged(body, KNOWN, pinned, provider="unknown")) == ["no-witness"]
    assert codes(judged(body, KNOWN, pinned, provider="Other")) == ["no-witness"]
    assert codes(judged(other, KNOWN, pinned, provider="ProviderX")) == ["wrong-provider"]


@pytest.mark.required
def test_a_line_cannot_hide_who_answered() -> None:
    """A pin is held against the response's own provider, not against what the line says."""
    other = Exchange("x", {**answer(TALK, N), "provider": "Other"}, {"provider": {"only": ["providerx"]}}, "ProviderX")
    assert codes(judge(other, kit(KNOWN))) == ["wrong-provider"]


@pytest.mark.required
@pytest.mark.parametrize(
    ("line", "request_", "message", "mode"),
    [
        (None, {}, TALK, True),
        (None, {}, {"content": "Say."}, None),
        (False, {"thinking": True}, {"content": "Say."}, False),
        (None, {"chat_template_kwargs": {"thinking": False}}, {"content": "Say."}, False),
        (None, {"thinking": {"type": "disabled"}}, {"content": "Say."}, False),
        (None, {"reasoning": {"enabled": True}}, TALK, True),
        (None, {"reasoning": {"enabled": "false"}}, {"content": "Say."}, None),
    ],
)
def test_which_mode(line: bool | None, request_: dict[str, Any], message: dict[str, Any], mode: bool | None) -> None:
    """The line's field, else the request, else what the text shows, else unknown: recorded with the verdict."""
    assert judged(answer(message, 9), KNOWN, request_, thinking=line).thinking is mode


@pytest.mark.required
def test_an_unknown_mode_is_a_reading_of_each() -> None:
    """No reasoning and no switch: one id more with `</think>`, so no bill may pick one of the two."""
    for billed in range(1, 6):
        assert not judged(answer({"content": "Say."}, billed), KNOWN).accepted
    assert judged(answer({"content": "Say."}, 3), KNOWN, thinking=False).ids.ids == ids("Say.", "<|im_end|>")
    assert judged(answer({"content": "Say."}, 4), KNOWN, thinking=True).ids.ids == ids("</think>", "Say.", "<|im_end|>")


@pytest.mark.required
def test_reasoning_that_may_stand_in_the_content() -> None:
    """Thinking on, no reasoning: where the host is not known to part the two, `</think>` may have been removed.

    `Think.Say.` with `</think>` in front and `Think.` `</think>` `Say.` have one count.
    """
    sampled = ids("Think.", "</think>", "Say.", "<|im_end|>")
    assert len(sampled) == len(ids("</think>", "Think.Say.", "<|im_end|>"))
    unsure = {k: v for k, v in KNOWN.items() if k != "reasoning_end"}
    verdict = judged(answer({"content": "Think.Say."}, len(sampled)), unsure, thinking=True)
    assert (verdict.name, codes(verdict)) == ("rejected", ["no-reasoning"])


@pytest.mark.required
def test_a_raw_section_ended_as_a_text_or_as_calls_do() -> None:
    """A section as text under `stop`: what is known of texts alone, or of calls alone, is not known of it."""
    raw = (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}"
        "<|tool_call_end|><|tool_calls_section_end|>"
    )
    row = ids("Look.", "</think>", "Now.") + section("ping", "{}") + ids("<|im_end|>")

    def known_for(*finishes: str) -> Verdict:
        lines = [Habit("ProviderX", t, v, format="kimi-k2.5", finish=f) for f in finishes for t, v in KNOWN.items()]
        body = answer({"reasoning": "Look.", "content": f"Now.{raw}"}, len(row))
        return judge(Exchange("x", body), replace(kit(), habits=Habits(tuple(lines))))

    assert known_for("stop").name == "unverified"
    assert known_for("tool_calls").name == "unverified"
    assert known_for("stop", "tool_calls").ids.ids == row


# --- bills, ends, blindness -----------------------------------------------------------------------------------------


@pytest.mark.required
@pytest.mark.parametrize(
    ("usage", "tokens", "notes"),
    [
        (None, None, []),
        (Usage(10, None, 20), None, []),
        (Usage(None, 7), 7, []),
        (Usage(10, 7, None), 7, []),
        (Usage(10, 7, 17, 5), 7, []),
        (Usage(100, 293, 714, 321), 614, ["reasoning-outside"]),
        (Usage(10, 0, 70, 60), 60, ["reasoning-outside"]),
        (Usage(10, 7, 18, 5), None, ["totals-disagree"]),
        (Usage(10, 7, 16, None), None, ["totals-disagree"]),
        (Usage(0, 0, 0), 0, []),
    ],
)
def test_what_was_billed(usage: Usage | None, tokens: int | None, notes: list[str]) -> None:
    """Reasoning counted beside completion_tokens is added; totals that disagree are no bill. Both are noted."""
    told, found = completion_tokens(usage)
    assert (told, [f.code for f in found], any(f.fatal for f in found)) == (tokens, notes, False)


@pytest.mark.required
@pytest.mark.parametrize(
    ("traits", "billed"),
    [
        ({"terminator_billed": "yes", "think_billed": "no"}, N),
        ({"terminator_billed": "no", "think_billed": "no"}, N - 1),
        ({"terminator_billed": "yes", "think_billed": "yes"}, N + 1),
        ({"terminator_billed": "no", "think_billed": "yes"}, N),
        ({"offset": "1"}, N),
        ({"offset": "0"}, N - 1),
    ],
    ids=str,
)
def test_the_offset_is_a_sum_of_traits(traits: dict[str, str], billed: int) -> None:
    """A billed terminator and a billed `<think>` each add one; the ids are the same under each equation."""
    known = AS_SENT | {"terminator_sampled": "yes"} | traits
    for k in range(N - 2, N + 3):
        assert judged(answer(TALK, k), known).ids.ids == (TALK_IDS if k == billed else [])


@pytest.mark.required
def test_a_cut_answer_is_a_prefix() -> None:
    """`length`: no terminator, `truncated`, and nothing masked at its end."""
    cut = answer({"reasoning": "Think of it.", "content": "Say it."}, N - 1, "length")
    verdict = judged(cut, KNOWN)
    assert (verdict.name, verdict.truncated, verdict.ids.ids) == ("verified", True, TALK_IDS[:-1])
    open_end = judged(cut, {**KNOWN, "content_end": "lost"})
    assert (open_end.ids.ids, masked(open_end)) == (TALK_IDS[:-2], [])
    assert judged(answer(TALK, N, "length"), KNOWN).name == "rejected"


@pytest.mark.required
def test_blind_forgets_what_was_reported() -> None:
    """Without reports the same answer is verified by its bill; false ids then change nothing."""
    for row in (TALK_IDS, [1, 2, 3]):
        blind = judged(reporting(answer(TALK, N), row), KNOWN, blind=True)
        assert blind == judged(answer(TALK, N), KNOWN)
    assert judged(reporting(answer(TALK, N), [1, 2, 3]), KNOWN).name == "rejected"


@pytest.mark.required
def test_what_else_a_request_holds_is_not_read() -> None:
    """True ids, variants and dialogues beside the request change no verdict."""
    plain = judged(answer(TALK, N), KNOWN, {"max_tokens": 99})
    odd = {"true_ids": [1], "output_ids": [2], "variant": "x", "dialogue": "y", "max_tokens": 99}
    assert judged({**answer(TALK, N), **odd}, KNOWN, odd) == plain


@pytest.mark.required
def test_one_verdict_for_every_framing() -> None:
    """A body as bytes, as an object, as a stream of events: one answer, one row of ids."""
    body = answer(TALK, N)
    head = {"provider": "ProviderX", "model": MODEL}
    usage = {"choices": [], "usage": {"completion_tokens": N}}
    stream = [head | chunk({"reasoning": "Think of it."}), chunk({"content": "Say it."}), chunk(finish="stop"), usage]
    sse = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in stream)
    for response in (body, json.dumps(body).encode(), stream, sse):
        verdict = judged(response, KNOWN)
        assert (verdict.name, verdict.ids.ids) == ("verified", TALK_IDS)


@pytest.mark.required
@pytest.mark.parametrize(
    ("pin", "name", "same"),
    [
        ("siliconflow/int4", "SiliconFlow", True),
        ("moonshotai", "Moonshot AI", True),
        ("atlas-cloud/int4", "AtlasCloud", True),
        ("Moonshot AI", "Moonshot AI", True),
        ("deepinfra/turbo", "DeepInfra", True),
        ("siliconflow", "SiliconFlow2", False),
        ("novita", "Nebius", False),
        ("", "Nebius", False),
    ],
)
def test_slugs_and_display_names(pin: str, name: str, same: bool) -> None:
    """A slug names the host whose display name has the same letters; a variant behind a slash does not count."""
    assert same_provider(pin, name) is same


# --- nothing raises -------------------------------------------------------------------------------------------------

ODD: list[Any] = [None, 0, -1, 1.5, 1e308, 10**30, True, "", "x", "\ud800", "\x00", [], {}, [None], {"a": None}]
ODD += [["x"], {"\ud800": 1}, "<|tool_calls_section_begin|>", "a" * 30_000, float("nan")]
WHOLE = {
    **answer(
        {**TALK, "tool_calls": [call("ping", '{"a": "b"}')], "reasoning_details": [{"type": "reasoning.text"}]},
        25,
        "tool_calls",
        prompt_tokens=5,
        completion_tokens_details={"reasoning_tokens": 3},
    ),
    "created": 1,
    "prompt_token_ids": [1],
}
STREAM = [
    {"provider": "ProviderX", "model": MODEL, **chunk({"reasoning": "Think."})},
    chunk({"content": "Say"}, token_ids=[1]),
    chunk(piece(0, "functions.ping:0", "ping", '{"a"')),
    chunk(piece(0, arguments=": 1}")),
    chunk(finish="tool_calls"),
    {"choices": [], "usage": {"completion_tokens": 20}},
]
REQUEST = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call("a", "{}")]}],
    "tools": [{"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}],
    "max_tokens": 50,
    "provider": {"only": ["providerx"], "ignore": []},
    "thinking": {"type": "enabled"},
    "reasoning": {"enabled": True},
    "chat_template_kwargs": {"thinking": True},
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of everything inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def bent(value: Any, rng: random.Random) -> Any:
    """The value with something inside it gone, renamed or odd."""
    value = copy.deepcopy(value)
    *path, last = rng.choice(list(places(value)))
    inner = value
    for key in path:
        inner = inner[key]
    if isinstance(inner, dict) and rng.random() < 0.3:
        moved = inner.pop(last)
        inner |= {} if rng.random() < 0.5 else {rng.choice(("error", "text", "delta", "message", "index")): moved}
    else:
        inner[last] = copy.deepcopy(rng.choice(ODD))
    return value


@pytest.mark.required
@pytest.mark.parametrize("seed", range(8))
def test_odd_answers_and_requests_raise_nothing(seed: int) -> None:
    """Anything in the place of anything: a verdict, never an exception, and ids only where it is accepted."""
    rng = random.Random(seed)
    kits = [replace(kit(traits), encode_prompt=encode_prompt_text) for traits in (UNKNOWN, KNOWN)]
    for _ in range(150):
        response = bent(rng.choice((WHOLE, STREAM)), rng)
        request = bent(REQUEST, rng) if rng.random() < 0.7 else REQUEST
        for known in kits:
            verdict = judge(Exchange("x", response, request, thinking=rng.choice((None, True))), known)
            assert verdict.accepted or verdict.ids.ids == []
            assert len(verdict.ids.ids) == len(verdict.ids.origins) == len(verdict.loss_mask)
            assert verdict.accepted or verdict.findings


HOSTILE = {
    "an open string of escapes": '{"a": "' + '\\"' * 200_000,
    "quotes": '"' * 200_000,
    "open objects": '{"a":' * 50_000,
    "blanks": " " * 300_000 + "x",
    "markers": "<|im_user|>" * 20_000,
    "closes": "</think>" * 20_000,
    "begins": "<" * 200_000,
    "digits": "1" * 200_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_cost_little(text: str) -> None:
    """A verdict takes time in proportion to the answer, in whichever place the text stands."""
    start = time.perf_counter()
    for message in ({"reasoning": text, "content": text}, {"tool_calls": [call("ping", text)]}):
        for traits in (KNOWN, OFFSET):
            assert not judged(answer(message, 50), traits).accepted
    assert time.perf_counter() - start < 4


@pytest.mark.required
@pytest.mark.parametrize(
    "response",
    [b"", b"   ", b"\x00\xff", b"[]", b"{}", b"[1]", b"null", b"data: x\n\n", b"{" * 9_999, [], {}, [None], ["x"]],
    ids=lambda r: repr(r)[:20],
)
def test_what_is_no_answer_is_rejected(response: Any) -> None:
    """Not an answer: rejected with the reason, whatever is known of the host."""
    verdict = judged(response, KNOWN, model=MODEL)
    assert (verdict.name, codes(verdict), verdict.ids.ids) == ("rejected", ["provider-error"], [])
    with pytest.raises(ProviderError):
        parse(response)
