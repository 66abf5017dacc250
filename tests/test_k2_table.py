"""Answers of an invented host that serves Kimi K2, with their ids written by hand from the vocabulary.

No expected id here comes from the code under test: a wrong rule, table or split pattern cannot move both sides.
"""

from typing import Any

import pytest

from harness.encoder import encode_ordinary, load_vocab
from harness.flow import Kit, judge
from harness.formats import formats
from harness.habits import Habit, Habits
from harness.types import Exchange, Verdict
from tests.providerx import AS_SENT, answer, call, codes, masked

pytestmark = pytest.mark.required

IM_END = 163586
HI = [18699, 1459, 13]  # Hi| there|.
LOOK = [26957, 473, 979, 13]  # Looking| that| up|.
OPEN, CLOSE = [163595, 163597], [163599, 163596]
WEATHER = [1150, 21055, 2800, 25]  # .get|_we|ather|:
NATIVE = [41937, *WEATHER, 15]  # functions|...|0
BARE = [618, 21055, 2800, 25, 15]  # get|_we|ather|:|0
SPACED = [8264, 37666, 1289, 414, 36249, 773, 16934]  # {"|city|":| "|Os|lo|"}
COMPACT = [8264, 37666, 7471, 36249, 773, 16934]  # {"|city|":"|Os|lo|"}

CALLED = [*LOOK, *OPEN, *NATIVE, 163598, *SPACED, *CLOSE, IM_END]
SHORT = [*LOOK, *OPEN, *BARE, 163598, *SPACED, *CLOSE, IM_END]
SUMMED = [*LOOK, 646, 5547, 387, 220, 19, 13, *CALLED[4:]]  # | The| sum| is| |4|.
TIGHT = [*LOOK, *OPEN, *NATIVE, 163598, *COMPACT, *CLOSE, IM_END]

SAMPLED = {"terminator_sampled": "yes", "terminator_billed": "yes"}
KNOWN = {**SAMPLED, **AS_SENT, "call_index": "kept"}
UNBILLED = {**KNOWN, "terminator_billed": "no"}
PREFIXED = {**KNOWN, "call_id": "prefixed"}
MINTED = {**KNOWN, "call_id": "minted"}


def judged(message: dict[str, Any], billed: int | None, traits: dict[str, str], finish: str = "stop") -> Verdict:
    """The verdict on an answer of a K2 model, of which the host's traits are known."""
    lines = tuple(Habit("ProviderX", trait, value, format="kimi-k2") for trait, value in traits.items())
    kit = Kit(load_vocab(), encode_ordinary, formats(), Habits(lines))
    return judge(Exchange("k2", {**answer(message, billed, finish), "model": "moonshotai/kimi-k2-0905"}), kit)


def calling(arguments: str, call_id: str | None = None) -> dict[str, Any]:
    """A message with some text and one call."""
    return {"content": "Looking that up.", "tool_calls": [call("get_weather", arguments, call_id)]}


CITY = '{"city": "Oslo"}'
ROWS = [
    pytest.param({"content": "Hi there."}, "stop", 4, KNOWN, [*HI, IM_END], [], id="text"),
    pytest.param({"content": "Hi there."}, "stop", 3, UNBILLED, [*HI, IM_END], [], id="terminator-not-billed"),
    pytest.param(
        {"content": " Hi there.\n"}, "stop", 4, KNOWN, [38237, 1459, 341, IM_END], [], id="blanks-are-sampled"
    ),
    pytest.param({"content": "Hi there."}, "length", 3, KNOWN, HI, [], id="cut"),
    pytest.param(calling(CITY), "tool_calls", len(CALLED), KNOWN, CALLED, [], id="native-id"),
    pytest.param(calling(CITY, "get_weather:0"), "tool_calls", len(SHORT), KNOWN, SHORT, [], id="id-as-sent"),
    pytest.param(calling(CITY, "get_weather:0"), "tool_calls", len(CALLED), PREFIXED, CALLED, [], id="id-prefixed"),
    pytest.param(calling(CITY, "0"), "tool_calls", len(CALLED), PREFIXED, CALLED, [], id="bare-number-prefixed"),
    pytest.param(
        {**calling(CITY, "call_0a1b"), "content": "Looking that up. The sum is 4."},
        "tool_calls",
        len(SUMMED),
        MINTED,
        SUMMED,
        NATIVE,
        id="minted-id-masked",
    ),
    pytest.param(
        calling('{"city":"Oslo"}'), "tool_calls", len(TIGHT), KNOWN, TIGHT, [], id="compact-arguments-stay-compact"
    ),
    pytest.param(
        calling('{"city":"Oslo"}'),
        "tool_calls",
        len(CALLED),
        {**KNOWN, "arguments": "spaced"},
        CALLED,
        [],
        id="compact-arguments-were-spaced",
    ),
]


@pytest.mark.parametrize(("message", "finish", "billed", "traits", "ids", "hidden"), ROWS)
def test_ids_by_hand(
    message: dict[str, Any], finish: str, billed: int, traits: dict[str, str], ids: list[int], hidden: list[int]
) -> None:
    """These ids, these of them masked; and with a bill of one more or less nothing is accepted."""
    verdict = judged(message, billed, traits, finish)
    assert (verdict.name, verdict.ids.ids, masked(verdict)) == ("verified", ids, hidden)
    assert verdict.loss_mask.count(0) == len(hidden)
    assert (verdict.format, verdict.truncated, verdict.premise) == ("kimi-k2", finish == "length", "count")
    for off in (-1, 1):
        assert judged(message, billed + off, traits, finish).name == "rejected"


def test_without_a_bill() -> None:
    """No usage, or no equation: no ids, whatever the text."""
    assert judged({"content": "Hi there."}, None, KNOWN).name == "unverified"
    assert judged({"content": "Hi there."}, 4, {}).name == "unverified"


def test_minted_ids_of_an_unknown_host() -> None:
    """An id that the host made is never encoded."""
    assert codes(judged(calling(CITY, "call_0a1b"), len(CALLED), KNOWN, "tool_calls")) == ["minted-id"]
