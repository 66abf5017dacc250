"""The 106-id layout of a tool-calling answer.

The first public reconstruction of such an answer had 106 ids, of which only the positions of the control ids are known.
The text here is our own, made so that its control ids stand at the same positions.
"""

import pytest

from harness.encoder import encode_ordinary, load_vocab, tiktoken_encoding
from harness.vocab import CONTROL_IDS, N_RANKS

REASONING = (
    "The user wants to travel from Lyon to Turin tomorrow morning. There is a tool that lists departures for a "
    "station, so I should call it instead of guessing. It needs the name of the station and the day.\n\nThey didn't "
    "say which station: Lyon has two of them, and the main one is Part-Dieu."
)
CONTENT = "I will look up the trains from Lyon to Turin."
CALL_ID = "functions.get_departures:0"
ARGUMENTS = '{"from": "Lyon", "to": "Turin"}'

# Position, what stands there, its ids.
LAYOUT = [
    (
        0,
        REASONING,
        "1008 2742 11333 308 6462 658 94126 308 14783 259 21899 8801 13 3449 387 261 4453 473 16402 16590 2650 395 "
        "261 12197 11 971 374 1765 2390 483 6554 318 68743 13 1344 4044 276 1530 318 276 12197 316 276 2422 1481 "
        "12718 10521 3637 1155 12197 25 94126 924 2069 318 1397 11 316 276 2777 1101 387 6110 12460 51754 13",
    ),
    (66, "</think>", "163607"),
    (67, CONTENT, "40 748 1799 979 276 38646 658 94126 308 14783 259 13"),
    (79, "<|tool_calls_section_begin|>", "163595"),
    (80, "<|tool_call_begin|>", "163597"),
    (81, CALL_ID, "41937 1150 3791 10067 2650 25 15"),
    (88, "<|tool_call_argument_begin|>", "163598"),
    (89, ARGUMENTS, "8264 3701 1289 414 43 53575 665 414 1753 1289 414 59520 259 16934"),
    (103, "<|tool_call_end|>", "163599"),
    (104, "<|tool_calls_section_end|>", "163596"),
    (105, "<|im_end|>", "163586"),
]
IDS = [int(word) for _, _, ids in LAYOUT for word in ids.split()]
TEXT = "".join(text for _, text, _ in LAYOUT)


@pytest.mark.parametrize(("position", "text", "ids"), LAYOUT, ids=[str(position) for position, _, _ in LAYOUT])
def test_each_part_stands_at_its_position(position: int, text: str, ids: str) -> None:
    """Encoded by itself, each part gives its ids, and they begin where the layout says."""
    expected = [int(word) for word in ids.split()]
    got = [CONTROL_IDS[text]] if text in CONTROL_IDS else encode_ordinary(text)

    assert got == expected
    assert IDS[position : position + len(expected)] == expected


def test_the_layout_has_106_ids() -> None:
    """106 ids, seven of them control ids, at the seven known positions."""
    assert len(IDS) == 106
    assert {k: i for k, i in enumerate(IDS) if i >= N_RANKS} == {
        66: 163607,
        79: 163595,
        80: 163597,
        88: 163598,
        103: 163599,
        104: 163596,
        105: 163586,
    }


def test_the_layout_reads_back() -> None:
    """The ids decode to the whole text, and the reference, told to see control tokens, finds the same ids in it."""
    assert load_vocab().decode_text(IDS) == TEXT
    assert tiktoken_encoding().encode(TEXT, allowed_special="all") == IDS


def test_the_layout_as_plain_text_is_another_answer() -> None:
    """Where every marker is spelled in ordinary tokens the same text has other ids, and more of them."""
    spelled = encode_ordinary(TEXT)

    assert load_vocab().decode_text(spelled) == TEXT
    assert not any(i >= N_RANKS for i in spelled)
    assert len(spelled) == 140


@pytest.mark.parametrize(
    ("text", "n_ids"),
    [
        pytest.param('{"from":"Lyon","to":"Turin"}', 11, id="compact"),
        pytest.param(' {"from": "Lyon", "to": "Turin"}', 14, id="one-space-in-front"),
        pytest.param('{"from": "Lyon", "to": "Turin"} ', 15, id="one-space-behind"),
    ],
)
def test_arguments_written_otherwise(text: str, n_ids: int) -> None:
    """Arguments that mean the same and are written otherwise are other ids, not always another number of them."""
    ids = encode_ordinary(text)

    assert ids != encode_ordinary(ARGUMENTS)
    assert len(ids) == n_ids
