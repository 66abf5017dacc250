"""Kinds of trouble that users of such APIs reported with reasoning and tool calls, each as an answer of our own.

"The offset is known" means: ProviderX is known to sample its terminator and to bill every id, and nothing else of it is
known. Where the right value needs more, the test names what more has to be known of the host.
"""

from typing import Any

import pytest

from harness import ids as ids_stage
from harness import readings
from harness.encoder import encode_ordinary
from harness.formats import formats
from harness.response import parse
from tests.providerx import AS_SENT, OFFSET, UNKNOWN, answer, call, codes, ids, judged, masked, section

pytestmark = pytest.mark.required

K25 = next(f for f in formats() if f.name == "kimi-k2.5")
KNOWN = {**OFFSET, **AS_SENT}
REASONING = "The user wants the weather in Oslo."
ARGUMENTS = '{"city": "Oslo"}'
RAW = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    f"{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>"
)
SECTION = section("get_weather", ARGUMENTS)
END = ids("<|im_end|>")
OFFERED = {"tools": [{"type": "function", "function": {"name": "get_weather"}}]}


def listed(message: dict[str, Any], traits: dict[str, str], finish: str = "stop") -> list[list[int]]:
    """The ids of every reading, common and rare, in thinking mode."""
    turn = parse(answer(message, finish=finish))
    rows = (r for rare in (False, True) for r in readings.readings(turn, K25, True, traits, rare=rare))
    return [ids_stage.build(row, encode_ordinary).ids for row in rows]


# --- 001, 003: sections as raw text ---------------------------------------------------------------------------------

LEAKED = {"reasoning": REASONING, "content": "Let me look that up." + RAW, "tool_calls": None}
LEAKED_IDS = ids(REASONING, "</think>", "Let me look that up.") + SECTION + END


def test_001_a_leaked_section_that_the_bill_confirms() -> None:
    """34 billed: the markers were control ids, and the answer is never passed on as prose nor stripped."""
    verdict = judged(answer(LEAKED, 34), OFFSET, OFFERED)
    assert (verdict.name, verdict.ids.ids, len(LEAKED_IDS)) == ("verified", LEAKED_IDS, 34)
    assert 163607 in LEAKED_IDS
    assert LEAKED_IDS[-1] == 163586
    assert codes(verdict) == ["marker-in-text"]


def test_001_both_readings_are_listed() -> None:
    """Markers as control ids and as ordinary text are both built: 34 ids and 64."""
    rows = listed(LEAKED, OFFSET)
    assert LEAKED_IDS in rows
    assert ids(REASONING, "</think>") + encode_ordinary(LEAKED["content"] or "") + END in rows
    assert {34, 64} <= {len(row) for row in rows}


def test_001_the_text_reading_needs_a_host_that_loses_nothing() -> None:
    """64 billed: ordinary text, but only where nothing else can have been hidden; else quarantine."""
    spelled = ids(REASONING, "</think>") + encode_ordinary(LEAKED["content"] or "") + END
    assert judged(answer(LEAKED, 64), KNOWN, OFFERED).name == "rejected"
    verdict = judged(answer(LEAKED, 64), {**KNOWN, "lost_text": "no"}, OFFERED)
    assert (verdict.name, verdict.ids.ids) == ("verified", spelled)
    assert 163595 not in verdict.ids.ids


@pytest.mark.parametrize("billed", [33, 35, 50, 63, 65])
def test_001_a_bill_that_neither_fits(billed: int) -> None:
    """Any other bill is a quarantine."""
    assert judged(answer(LEAKED, billed), OFFSET, OFFERED).name == "rejected"


def test_001_a_tool_that_was_not_offered() -> None:
    """The second signal: a call of a tool that nobody offered is rejected, bill or no bill."""
    verdict = judged(answer(LEAKED, 34), OFFSET, {"tools": [{"type": "function", "function": {"name": "ping"}}]})
    assert verdict.name == "rejected"
    assert "tool-not-offered" in codes(verdict)


SINGULAR = RAW.replace("tool_calls_section", "tool_call_section")
SINGULAR_IDS = (
    ids(REASONING, "</think>", "<|tool_call_section_begin|>") + SECTION[1:-1] + ids("<|tool_call_section_end|>") + END
)


def test_003_a_singular_section_marker_is_text() -> None:
    """The singular spelling is eight ordinary ids and never 163595; the sample is tagged."""
    verdict = judged(answer({"reasoning": REASONING, "content": SINGULAR}, 42), OFFSET)
    assert (verdict.name, verdict.ids.ids, len(SINGULAR_IDS)) == ("verified", SINGULAR_IDS, 42)
    assert verdict.ids.ids[9:17] == [27, 91, 20960, 21568, 31722, 37763, 91, 29]
    assert not {163595, 163596} & set(verdict.ids.ids)
    assert "singular-marker" in codes(verdict)


def test_003_all_markers_as_text() -> None:
    """59 ids where every marker was spelled: a reading, and the only one that a bill of 59 lets stand."""
    message = {"reasoning": REASONING, "content": SINGULAR}
    spelled = ids(REASONING, "</think>", SINGULAR) + END
    assert len(spelled) == 59
    assert spelled in listed(message, OFFSET)
    verdict = judged(answer(message, 59), {**KNOWN, "lost_text": "no"})
    assert (verdict.name, verdict.ids.ids) == ("verified", spelled)


# --- 002: no </think> before the section ----------------------------------------------------------------------------

SKIPPED = ids(REASONING) + SECTION + END
CLOSED = ids(REASONING, "</think>") + SECTION + END
PARSED = {"reasoning": REASONING, "content": None, "tool_calls": [call("get_weather", ARGUMENTS)]}
BY_ID = {**KNOWN, "reasoning_tokens": "ids+1", "unclosed_calls": "vanish"}


def told(billed: int, reasoning_tokens: int) -> dict[str, Any]:
    """The parsed answer with its bill and its count of reasoning."""
    details = {"reasoning_tokens": reasoning_tokens}
    return answer(PARSED, billed, "tool_calls", completion_tokens_details=details)


def test_002_raw_section_inside_the_reasoning() -> None:
    """27 billed: 163595 follows the last reasoning id directly, and no 163607 is put in."""
    verdict = judged(answer({"reasoning": REASONING + RAW, "content": None}, 27), OFFSET)
    assert (verdict.name, verdict.ids.ids, len(SKIPPED)) == ("verified", SKIPPED, 27)
    assert 163607 not in verdict.ids.ids


@pytest.mark.parametrize("traits", [OFFSET, KNOWN], ids=["offset", "as-sent"])
def test_002_repaired_is_rejected_on_the_bill_alone(traits: dict[str, str]) -> None:
    """27 billed and nothing but the bill: a skipped `</think>` needs a witness of its own.

    A section whose end marker was never sampled has the same 27 ids, and so may arguments written anew: the bill cannot
    tell. The reading is listed all the same.
    """
    assert judged(told(27, 8), traits).name == "rejected"
    assert SKIPPED in listed(PARSED, traits, "tool_calls")


def test_002_repaired_is_verified_where_reasoning_is_counted_by_id() -> None:
    """8 reasoning tokens through `</think>` would be 9 with it: two witnesses, and unclosed sections vanish here."""
    verdict = judged(told(27, 8), BY_ID)
    assert (verdict.name, verdict.ids.ids) == ("verified", SKIPPED)
    assert verdict.assumptions[0] == "close-skipped"
    assert SKIPPED in listed(PARSED, BY_ID, "tool_calls")


def test_002_closed_normally() -> None:
    """28 billed: 163607 stands before 163595; both bills are tried against both streams."""
    assert len(CLOSED) == 28
    for traits in (KNOWN, BY_ID):
        verdict = judged(told(28, 9), traits)
        assert (verdict.name, verdict.ids.ids) == ("verified", CLOSED)
    assert judged(told(28, 8), BY_ID).name == "rejected"
    assert judged(told(27, 9), BY_ID).name == "rejected"


def test_002_without_a_bill_nothing_is_put_in() -> None:
    """No usage: no ids at all, instead of 163607 by habit."""
    verdict = judged(answer(PARSED, finish="tool_calls"), KNOWN)
    assert (verdict.name, verdict.ids.ids) == ("unverified", [])


# --- 005, 006: call ids ---------------------------------------------------------------------------------------------

MINTED = {"reasoning": "Searching.", "tool_calls": [call("search", '{"q": "x"}', "call_0a1b2c3d4e5f")]}
MINTED_IDS = ids("Searching.", "</think>") + section("search", '{"q": "x"}') + END


@pytest.mark.parametrize("billed", [None, len(MINTED_IDS), len(MINTED_IDS) + 10])
def test_005_a_minted_id_is_rejected(billed: int | None) -> None:
    """The default: the sampled id is gone, whatever was billed; the 14 ids of the minted one were never sampled."""
    assert len(encode_ordinary("call_0a1b2c3d4e5f")) == 14
    verdict = judged(answer(MINTED, billed, "tool_calls"), KNOWN, OFFERED)
    assert (verdict.name, codes(verdict)) == ("rejected", ["minted-id"])


def test_005_a_host_that_is_known_to_mint() -> None:
    """Ids billed as `functions.NAME:IDX`: the four header ids are context only, and the length is checked."""
    minting = {**KNOWN, "call_id": "minted"}
    verdict = judged(answer(MINTED, len(MINTED_IDS), "tool_calls"), minting)
    assert (verdict.name, verdict.ids.ids) == ("verified", MINTED_IDS)
    assert masked(verdict) == ids("functions.search:0") == [41937, 20329, 25, 15]
    assert judged(answer(MINTED, len(MINTED_IDS) + 1, "tool_calls"), minting).name == "rejected"
    assert judged(answer(MINTED, None, "tool_calls"), minting).name == "unverified"


def test_005_at_most_a_quarter_is_masked() -> None:
    """Where the inferred header is more than a quarter of the answer, nothing is accepted."""
    short = answer({"tool_calls": [call("search", "{}", "call_1")]}, 12, "tool_calls")
    verdict = judged(short, {**KNOWN, "call_id": "minted"}, thinking=True)
    assert (verdict.name, codes(verdict)) == ("rejected", ["too-many-masked"])


@pytest.mark.parametrize("traits", [UNKNOWN, {"call_index": "kept"}, {"call_index": "rewritten"}])
def test_006_the_index_counts_over_the_conversation(traits: dict[str, str]) -> None:
    """`functions.search:2` is a valid first call. Its digit is context only, unless the host is known to keep it."""
    message = {"reasoning": "One more.", "tool_calls": [call("search", '{"q": "y"}', "functions.search:2")]}
    right = ids("One more.", "</think>") + section("search", '{"q": "y"}', 2) + END
    verdict = judged(answer(message, len(right), "tool_calls"), {**KNOWN, **traits})
    assert (verdict.name, verdict.ids.ids) == ("verified", right)
    assert masked(verdict) == ([] if traits.get("call_index") == "kept" else [17])


def test_006_no_bill_can_tell_the_digit() -> None:
    """A rewritten digit keeps the count: that is why it is masked."""
    assert (ids("functions.search:2"), ids("functions.search:0")) == ([41937, 20329, 25, 17], [41937, 20329, 25, 15])


# --- 008, 010, 012, 013: what a host filters, strips, cuts or breaks ------------------------------------------------


def test_008_the_placeholder_was_sampled() -> None:
    """`(no content)` that arrives is kept: three ids."""
    right = [*ids(REASONING, "</think>"), 72433, 3646, 8, *SECTION, *END]
    verdict = judged(answer({**PARSED, "content": "(no content)"}, len(right), "tool_calls"), KNOWN)
    assert (verdict.name, verdict.ids.ids) == ("verified", right)


def test_008_a_filtered_placeholder_is_tagged() -> None:
    """Content null and exactly three ids too many on the bill: tagged and quarantined; two or four are no such tag."""
    verdict = judged(answer(PARSED, 31, "tool_calls"), KNOWN)
    assert (verdict.name, codes(verdict)) == ("rejected", ["bill-mismatch", "placeholder-filtered"])
    for billed in (30, 32):
        assert codes(judged(answer(PARSED, billed, "tool_calls"), KNOWN)) == ["bill-mismatch"]


@pytest.mark.parametrize("billed", [None, 11, 12, 13])
def test_010_all_in_the_reasoning(billed: int | None) -> None:
    """A stop, content null and no call: the place of 163607 is unknown, and no bill can bring it back."""
    verdict = judged(answer({"reasoning": "Simple sum.The result is 4.", "content": None}, billed), KNOWN)
    assert (verdict.name, codes(verdict)) == ("rejected", ["all-reasoning"])


def test_012_cut_within_the_reasoning() -> None:
    """`length`: exactly the reasoning's ids, no 163607, no 163586, marked as truncated."""
    text = "First compare the tenths digit. Nine is larger than"
    verdict = judged(answer({"reasoning": text, "content": None}, 11, "length"), OFFSET)
    assert (verdict.name, verdict.ids.ids, verdict.truncated) == ("verified", encode_ordinary(text), True)
    assert len(verdict.ids.ids) == 11
    assert judged(answer({"reasoning": text, "content": None}, 12, "length"), OFFSET).name == "rejected"


def test_013_unbalanced_arguments_are_what_was_sampled() -> None:
    """JSON validity is no criterion: encoded as it is, tagged, held against the bill."""
    text = '{"input": {"key": "value"}'
    message = {"content": None, "tool_calls": [call("write", text)]}
    right = ids("</think>") + section("write", text) + END
    verdict = judged(answer(message, len(right), "tool_calls"), KNOWN, thinking=True)
    assert (verdict.name, verdict.ids.ids, codes(verdict)) == ("verified", right, ["invalid-json"])
    assert judged(answer(message, len(right) + 1, "tool_calls"), KNOWN, thinking=True).name == "rejected"


def test_013_two_calls_run_together() -> None:
    """A marker or U+FFFD inside arguments: bytes were lost, and nothing is repaired."""
    text = '{"command": "mkdir a"}\ufffd.functions.bash:1 <|tool_call_argument_begin|> {"command": "ls"}'
    verdict = judged(answer({"content": None, "tool_calls": [call("bash", text)]}, 40, "tool_calls"), KNOWN)
    assert verdict.name == "rejected"
    assert {"replacement-character", "marker-in-call"} <= set(codes(verdict))
