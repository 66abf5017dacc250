"""traces.py: what there is to show of an answer: its ids, the readings that were tried, and where witnesses part."""

from collections.abc import Mapping
from typing import Any

import pytest

from harness.flow import judge
from harness.traces import FOUND, REPORTED, UNREAD, Trace, first_difference, trace
from harness.types import Exchange, Origin
from tests.harness.answers import chunk, framed
from tests.providerx import AS_SENT, MODEL, OFFSET, UNKNOWN, answer, call, ids, kit

KNOWN = {**OFFSET, **AS_SENT}
TALK = {"reasoning": "Think of it.", "content": "Say it."}
TALK_IDS = ids("Think of it.", "</think>", "Say it.", "<|im_end|>")
N = len(TALK_IDS)


def traced(response: Any, traits: Mapping[str, str] = UNKNOWN, **how: Any) -> Trace:
    """What there is to show of a response of ProviderX."""
    exchange, used = Exchange("case", response, provider="ProviderX", model=MODEL), kit(traits)
    return trace(exchange, judge(exchange, used, **how), used, **how)


def streamed(*texts: str, billed: int) -> bytes:
    """A stream of content whose chunks are these texts, without reasoning."""
    events = [chunk({"content": text}) for text in texts] + [chunk({}, "stop")]
    return framed([*events, {"choices": [], "usage": {"completion_tokens": billed}}])


def test_a_bill_that_contradicts() -> None:
    """The ids of the reading, and the bill's words; a count has no place."""
    got = traced(answer(TALK, N + 3), KNOWN)
    assert got.ids.ids == TALK_IDS
    assert [(p.witness, p.at, p.reason) for p in got.partings] == [
        ("bill", None, f"{N - 1} ids before the end + 1 = {N}, billed {N + 3}")
    ]
    assert got.note == ""


def test_the_reading_of_the_verdict_comes_first_and_rare_ones_follow() -> None:
    """Rank 0, then what was tried once no common reading stood; each with its ids and what each witness said."""
    got = traced(answer(TALK, N + 3), KNOWN)
    assert [t.reading.rank for t in got.trials] == [0] + [1] * (len(got.trials) - 1)
    assert len(got.trials) > 1
    assert got.trials[0].ids == got.ids
    assert all(t.says("bill") == "contradicts" for t in got.trials)


def test_readings_that_all_fit() -> None:
    """Where no witness speaks against any, they part from each other: here a detokenizer may have put in blanks."""
    unknown = {trait: value for trait, value in KNOWN.items() if trait != "spaces"}
    got = traced(answer({"reasoning": " a", "content": " b"}, 4), unknown)
    assert [t.ids.ids for t in got.trials] == [
        ids(" a", "</think>", " b", "<|im_end|>"),
        ids("a", "</think>", "b", "<|im_end|>"),
    ]
    assert [(p.witness, p.at, "detokenizer-spaces" in p.reason) for p in got.partings] == [("reading", 0, True)]


@pytest.mark.parametrize("billed", [24, 27])
def test_readings_of_two_lengths(billed: int) -> None:
    """Where the finding is that two may be true, the bill that excludes one of them does not hide the other."""
    unknown = {trait: value for trait, value in KNOWN.items() if trait != "arguments"}
    got = traced(
        answer({"reasoning": "Hm.", "tool_calls": [call("ping", '{"a": 1, "b": "x y"}')]}, billed, "tool_calls"),
        unknown,
    )
    assert [len(t.ids.ids) for t in got.trials] == [27, 24]
    assert [(p.witness, p.at) for p in got.partings] == [("bill", None)] * (billed == 24) + [("reading", 14)]


@pytest.mark.parametrize(
    ("texts", "at"),
    [
        pytest.param(("Hello wor", "ld, and good", "bye."), [2, 5], id="two-ids-cut"),
        pytest.param(("Hello", " world, and goodbye."), [], id="none"),
    ],
)
def test_chunks_that_end_inside_ids(texts: tuple[str, ...], at: list[int]) -> None:
    """Each id that a chunk cut has its place: here behind `</think>`, ` world` and ` goodbye`."""
    row = ids("</think>", "Hello world, and goodbye.", "<|im_end|>")
    got = traced(streamed(*texts, billed=len(row) + 9), {**KNOWN, "chunks": "tokens"})
    assert got.ids.ids == row
    assert [p.at for p in got.partings if p.witness == "chunks"] == at


def test_ids_that_the_host_reported() -> None:
    """They are what is shown; the report's doubt comes first, then the first id that the text gives otherwise."""
    body = answer(TALK, N)
    body["choices"][0]["token_ids"] = [*TALK_IDS[:2], 5, *TALK_IDS[3:]]
    got = traced(body, KNOWN)
    assert (got.ids.ids[2], set(got.ids.origins), got.note) == (5, {Origin.REPORTED}, REPORTED)
    assert [(p.witness, p.at) for p in got.partings] == [("reported", None), ("text", 2)]
    assert got.trials[0].ids.ids == TALK_IDS
    assert traced(body, KNOWN, blind=True).ids.ids == TALK_IDS


def test_a_finding_before_any_reading() -> None:
    """The readings are there for the eye, and the note says that they were not asked."""
    got = traced(answer({**TALK, "content": "a\ufffd"}, N), KNOWN)
    assert (got.note, got.ids.ids) == (FOUND, ids("Think of it.", "</think>", "a\ufffd", "<|im_end|>"))


@pytest.mark.parametrize("response", [{"error": {"code": 429, "message": "no"}}, {"choices": []}])
def test_no_answer(response: Any) -> None:
    """Nothing to show, and the note says why."""
    got = traced(response, KNOWN)
    assert (got.ids.ids, got.trials, got.partings, got.note) == ([], (), (), UNREAD)


def test_an_unknown_format() -> None:
    """The same where nobody knows how the model writes."""
    assert traced(answer(TALK, N), KNOWN, model="gpt-4").note == UNREAD


def test_too_many_readings() -> None:
    """No reading, and why."""
    names = "<|im_user|><|im_system|><|im_middle|><think><|media_pad|><|media_end|>"
    got = traced(answer({"reasoning": names, "content": names}, 30), KNOWN)
    assert (got.trials, got.note) == ((), "more than 512 readings: none was tried")


@pytest.mark.parametrize(
    ("a", "b", "at"), [([1, 2], [1, 2], None), ([1, 2], [1, 3], 1), ([1, 2], [1], 1), ([], [4], 0)]
)
def test_first_difference(a: list[int], b: list[int], at: int | None) -> None:
    """Where two rows part; a shorter row parts at its end."""
    assert first_difference(a, b) == at
