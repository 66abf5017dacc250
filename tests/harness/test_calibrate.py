"""calibrate.py: what one answer can say of its provider, and that what is learned of it makes no verdict wrong."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from harness.calibrate import evidence
from harness.flow import judge
from harness.habits import Habits
from harness.learn import Evidence, Way, learn
from harness.preset_table import PRESETS
from harness.presets import answer as answer_of
from harness.types import Exchange, Origin
from harness.wire import Head, body, chunks
from tests.harness.answers import chunk, framed, piece
from tests.providerx import MODEL, answer, call, ids, kit, section

PLAIN = Way("as-sent", "as-sent")


def said(
    response: Any, request: Mapping[str, Any] | None = None, thinking: bool | None = True, **line: Any
) -> Evidence:
    """The evidence of an answer that has some."""
    found = evidence(Exchange("x", response, request or {}, thinking=thinking, **line), kit())
    assert found is not None
    return found


TALK = {"reasoning": "Think of it", "content": "Say it"}
TALK_IDS = ids("Think of it", "</think>", "Say it")
CALLING = {"reasoning": "Look", "tool_calls": [call("ping", '{"a": "b", "c": "d"}')]}
CALLING_IDS = ids("Look", "</think>") + section("ping", '{"a": "b", "c": "d"}')


# --- the bill -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("excess", [-2, 0, 1, 2, 30])
def test_the_excess_of_a_talk(excess: int) -> None:
    """completion_tokens less the ids before the terminator."""
    found = said(answer(TALK, len(TALK_IDS) + excess, created=1))
    assert found.excess == {PLAIN: excess}
    assert (found.provider, found.model, found.format) == ("ProviderX", MODEL, "kimi-k2.5")
    assert (found.thinking, found.finish, found.thinks_in_prompt) == (True, "stop", True)


def test_the_excess_of_a_call_in_every_way() -> None:
    """Arguments as sent, spaced, compact; a native id reads alike with and without its prefix."""
    found = said(answer(CALLING, len(CALLING_IDS) + 1, "tool_calls"))
    spaced, compact = (len(ids(text)) for text in ('{"a": "b", "c": "d"}', '{"a":"b","c":"d"}'))
    assert found.excess[PLAIN] == found.excess[Way("spaced", "prefixed")] == 1
    assert found.excess[Way("compact", "as-sent")] == 1 + spaced - compact
    assert (found.finish, found.wire) == ("tool_calls", "spaced")


def test_a_short_id_is_read_both_ways() -> None:
    """`ping:0` was sampled as it came, or with `functions.` in front."""
    message = {"reasoning": "Look", "tool_calls": [call("ping", "{}", "ping:0")]}
    found = said(answer(message, 20, "tool_calls"))
    assert found.excess[PLAIN] - found.excess[Way("as-sent", "prefixed")] == len(ids("functions.ping:0")) - len(
        ids("ping:0")
    )


def test_an_invented_id_is_read_in_one_way_only() -> None:
    """What stood in its place can only be `functions.NAME:IDX`."""
    message = {"reasoning": "Look", "tool_calls": [call("ping", '{"a": 1}', "call_8f")]}
    ways = said(answer(message, 20, "tool_calls")).excess
    assert {way.call_id for way in ways} == {"minted"}


def test_no_bill_no_excess() -> None:
    """Without usage, or with totals that disagree, an answer says nothing of the count, but may of other things."""
    for body_ in (answer(TALK), answer(TALK, 9, prompt_tokens=5, total_tokens=99)):
        assert said(body_).excess == {}
        assert said(body_).edge_spaces is False


def test_reasoning_outside_the_count_is_added() -> None:
    """A host that counts reasoning beside completion_tokens bills the sum."""
    outside = {"prompt_tokens": 5, "total_tokens": 5 + len(TALK_IDS) + 1, "reasoning_tokens": 3}
    assert said(answer(TALK, len(TALK_IDS) - 2, **outside)).excess == {PLAIN: 1}


# --- the rest of what an answer says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("created", "date"),
    [(0, ""), (None, ""), (1_764_460_800, "2025-11-30"), (1_764_460_800_000, ""), (-(10**15), ""), (10**18, "")],
)
def test_dates_that_are_none(created: Any, date: str) -> None:
    """Unix seconds are a day; milliseconds and nonsense are no date, and no crash."""
    assert said({**answer(TALK, 9), "created": created}).date == date


def test_edges_speak_by_what_arrived() -> None:
    """White space that came through shows that it is kept; a text that has none there shows nothing.

    `Think` is followed by no newline at a host that strips and at one that does not; only the end of a content, where
    lost white space would have been billed, speaks too.
    """
    edges = {
        ("Think", "Say"): {"content_end"},
        ("Think", "Say."): set(),
        (" Think\n", "\n\nSay.\n"): {"reasoning_start", "reasoning_end", "content_start", "content_end"},
        ("Think.", "3"): {"content_end"},
    }
    for (reasoning, content), told in edges.items():
        assert said(answer({"reasoning": reasoning, "content": content}, 9)).told_edges == told


@pytest.mark.parametrize(
    ("reasoning", "content", "spaces"),
    [
        ("Think.", "Say.", False),
        (" Think. ", " Say.", True),
        (" Think.", " Say.", False),
        (" Think. ", "Say.", False),
    ],
)
def test_spaces_at_the_edges(reasoning: str, content: str, spaces: bool) -> None:
    """A detokenizer that puts spaces next to control ids does it at every edge that has one."""
    assert said(answer({"reasoning": reasoning, "content": content}, 9)).edge_spaces is spaces


def test_reasoning_tokens_against_ids() -> None:
    """Told less the ids before `</think>`; where the model samples `<think>` itself, that id is one of them."""
    n = len(ids("Think of it"))
    details = {"completion_tokens_details": {"reasoning_tokens": n + 1}}
    assert said(answer(TALK, 9, **details)).reasoning_excess == 1
    thinking = {**answer(TALK, 9, **details), "model": "moonshotai/kimi-k2-thinking"}
    assert said(thinking).reasoning_excess == 0
    assert said(answer(TALK, 9)).reasoning_excess is None
    assert said(answer({"content": "Say"}, 9, **details), thinking=False).reasoning_excess is None


@pytest.mark.parametrize(
    ("arguments", "unsorted"),
    [
        ('{"a": 1, "b": 2}', False),
        ('{"b": 1, "a": 2}', True),
        ('{"a": {"z": 1}, "b": 2}', False),
        ('{"a": {"z": 1, "c": 2}}', True),
        ('{"a": 1}', None),
        ("", None),
    ],
)
def test_keys_out_of_order(arguments: str, unsorted: bool | None) -> None:
    """Object by object: `{"a": {"z": 1}, "b": 2}` is what a host that sorts makes, no proof of another."""
    message = {"reasoning": "Look", "tool_calls": [call("ping", arguments)]}
    assert said(answer(message, 20, "tool_calls")).keys_unsorted is unsorted


def test_chunks_on_and_off_boundaries() -> None:
    """A chunk that ends inside a canonical id is seen; without an inner boundary, nothing is said."""
    events = [chunk({"reasoning": "Think"}), chunk({"content": "Hello"}), chunk({"content": " world"})]
    assert said(framed([*events, chunk(finish="stop")]), provider="ProviderX", model=MODEL).split == {"chunks": False}
    broken = [chunk({"content": "Hel"}), chunk({"content": "lo wor"}), chunk({"content": "ld"})]
    assert said(framed([*broken, chunk(finish="stop")]), provider="ProviderX", model=MODEL).split == {"chunks": True}
    assert said(answer(TALK, 9)).split == {}


def test_arguments_are_counted_as_they_were_split() -> None:
    """Arguments that a stream shows in other tokens than the canonical ones are counted so."""
    rows = [piece(0, "functions.ping:0", "ping", '{"a": "'), *(piece(0, arguments=p) for p in ("Hel", "lo", '"}'))]
    usage = {"choices": [], "usage": {"completion_tokens": 30}}
    stream = framed([chunk({"reasoning": "Look"}), *map(chunk, rows), chunk(finish="tool_calls"), usage])
    whole = answer({"reasoning": "Look", "tool_calls": [call("ping", '{"a": "Hello"}')]}, 30, "tool_calls")
    found = said(stream, provider="ProviderX", model=MODEL)
    assert found.split["chunks_arguments"] is True
    assert found.excess[PLAIN] == said(whole).excess[PLAIN] - 1


# --- answers that say nothing ---------------------------------------------------------------------------------------

MUTE: dict[str, tuple[Any, dict[str, Any]]] = {
    "an error": ({"error": {"code": 500, "message": "x"}}, {}),
    "nothing": (b"", {}),
    "no provider": ({**answer(TALK, 9), "provider": None}, {}),
    "another format": ({**answer(TALK, 9), "model": "moonshotai/kimi-k3"}, {}),
    "two models": ({**answer(TALK, 9), "model": "moonshotai/kimi-k2-thinking"}, {"model": MODEL}),
    "no finish": (answer(TALK, 9, None), {}),
    "a lost call": (answer(TALK, 9, "tool_calls"), {}),
    "a cut call": (answer(CALLING, 9, "length"), {}),
    "U+FFFD": (answer({**TALK, "content": "a\ufffd"}, 9), {}),
    "a marker": (answer({**TALK, "content": "a</think>b"}, 9), {}),
    "a bracketed marker": (answer({**TALK, "content": "[EOS]"}, 9), {}),
    "all reasoning": (answer({"reasoning": "Think"}, 9), {}),
    "a zero bill": (answer(TALK, 0), {}),
    "a long run": (answer({**TALK, "content": "a" * 30_000}, 9), {}),
    "max_tokens reached": (answer(TALK, 9), {"request": {"max_tokens": 9}}),
    "stop strings": (answer(TALK, 9), {"request": {"stop": ["x"]}}),
    "a healed answer": (answer(TALK, 9), {"request": {"plugins": [{"id": "response-healing"}]}}),
    "thinking off and on": (answer(TALK, 9), {"thinking": False}),
    "thinking unknown": (answer({"content": "Say"}, 9), {"thinking": None}),
}


@pytest.mark.parametrize(("response", "line"), MUTE.values(), ids=MUTE)
def test_answers_that_prove_nothing(response: Any, line: dict[str, Any]) -> None:
    """An error, a cut, a leak, an edit: what the bill says of them is not about the provider's way of counting."""
    assert evidence(Exchange("x", response, **{"thinking": True} | line), kit()) is None


def test_hostile_markers_crash_nothing() -> None:
    """Every control name in both texts: more readings than are ever listed, and no exception."""
    names = "[BOS][EOS][EOT][UNK][PAD]"
    assert evidence(Exchange("x", answer({"reasoning": names, "content": names}, 9), thinking=True), kit()) is None


# --- learned, then judged -------------------------------------------------------------------------------------------

TOOLS = [{"type": "function", "function": {"name": name}} for name in ("get_weather", "search")]
MODELS = {"kimi-k2.5": MODEL, "kimi-k2": "moonshotai/kimi-k2-0905", "kimi-k2-thinking": "moonshotai/kimi-k2-thinking"}
TEXTS = (
    "The user wants to know what it is like there",
    "Let me see.",
    "Now I look it up:\n",
    "One moment!",
    "That is 3",
    " Well",
    "\n\nDone.\n",
)


def dialogue(rng: random.Random, alike: bool, mode: str) -> list[int]:
    """The ids of an answer of the grammar: all of one shape where `alike`, else of many."""
    parts = ["<think>"] if mode == "sampled" else []
    parts += [] if mode == "off" else [TEXTS[0] if alike else rng.choice(TEXTS), "</think>"]
    row = ids(*parts, *([] if alike or rng.random() < 0.4 else [rng.choice(TEXTS)]))
    if alike or rng.random() < 0.6:
        row += ids("<|tool_calls_section_begin|>")
        for k in range(1 if alike else rng.choice((1, 1, 2, 3))):
            name = "get_weather" if alike else rng.choice(("get_weather", "search"))
            city, more = (
                rng.choice(("Oslo", "Rome", "Paris")),
                "" if alike else rng.choice(("", ', "n": 5', ', "a": [1]')),
            )
            row += section(name, f'{{"city": "{city}"{more}}}', k)[1:-1]
        row += ids("<|tool_calls_section_end|>")
    elif not row or row[-1] == 163607:
        row += ids("Say it")
    return row + ids("<|im_end|>")


def batch(preset: str, family: str, rng: random.Random, alike: bool) -> Iterator[tuple[Exchange, list[int]]]:
    """Answers of a preset, with the ids that were sampled for them."""
    made, stream = PRESETS[preset], rng.random() < 0.5
    thinking = family == "kimi-k2.5" and rng.random() < 0.7
    mode = "sampled" if family == "kimi-k2-thinking" else "on" if thinking else "off"
    request = {"tools": TOOLS, "stream": stream}
    for k in range(24):
        row = dialogue(rng, alike, mode)
        told = answer_of(row, request, thinking, made, kit().vocab.token_bytes, nonce=str(k))
        head = Head("x", 0, MODELS[family], made.provider)
        response: Any = list(chunks(told, head)) if stream else body(told, head)
        yield Exchange(f"{k}", response, request, thinking=thinking if family == "kimi-k2.5" else None), list(told.ids)


def wrong(exchange: Exchange, true_ids: list[int], habits: Habits) -> str:
    """How an accepted answer differs from the truth where it claims to know; "" where it does not.

    A terminator that may have been sampled and not billed stands at the end, masked.
    """
    verdict = judge(exchange, replace(kit(), habits=habits))
    row, origins = list(verdict.ids.ids), verdict.ids.origins
    if not verdict.accepted:
        return ""
    if len(row) == len(true_ids) + 1 and origins[-1] == Origin.INFERRED and row[-1] == 163586:
        row.pop()
    if len(row) != len(true_ids):
        return f"{len(row)} ids, {len(true_ids)} sampled, {verdict.assumptions}"
    differ = [k for k, (a, b) in enumerate(zip(row, true_ids, strict=True)) if a != b and origins[k] != Origin.INFERRED]
    return f"ids differ at {differ}, {verdict.assumptions}" if differ else ""


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("preset", PRESETS)
def test_learned_habits_are_never_silently_wrong(preset: str, family: str) -> None:
    """Learned on half of a host's answers, alike or not, and judged on all: what is accepted is what was sampled."""
    for seed in range(4):
        rng = random.Random(f"{preset} {family} {seed}")
        rows = list(batch(preset, family, rng, alike=seed % 2 == 0))
        found = [e for exchange, _ in rows[:12] if (e := evidence(exchange, kit())) is not None]
        habits = Habits(tuple(learn(found)[0]))
        assert [w for exchange, truth in rows if (w := wrong(exchange, truth, habits))] == []


def test_answers_of_one_shape_do_not_teach_a_wrong_prefix() -> None:
    """Moonshot sends `get_weather:0`, bills `functions.get_weather:0` and stops at the section's end.

    One-call answers have the count of `get_weather:0` with a terminator. Learning that would make every one of them
    wrong, and each would be accepted.
    """
    rows = list(batch("moonshotai", "kimi-k2", random.Random(1), alike=True))
    found = [e for exchange, _ in rows if (e := evidence(exchange, kit())) is not None]
    habits, unknown = learn(found)
    assert len(found) == 24
    assert not {"call_id", "terminator_billed"} & {h.trait for h in habits}
    assert any(u.why.startswith("several equations fit") for u in unknown)
    verdict = judge(rows[0][0], replace(kit(), habits=Habits(tuple(habits))))
    assert verdict.name == "unverified"


def test_what_is_learned_makes_answers_verifiable() -> None:
    """The other side: from varied answers of a plain host enough is learned to accept most of its answers."""
    rows = list(batch("fireworks", "kimi-k2", random.Random(3), alike=False))
    found = [e for exchange, _ in rows if (e := evidence(exchange, kit())) is not None]
    habits = Habits(tuple(learn(found)[0]))
    told = [judge(exchange, replace(kit(), habits=habits)) for exchange, _ in rows]
    assert sum(v.accepted for v in told) >= 12
