"""BPE boundaries: a table of text pairs that stand directly before and behind a control id.

A control id is a wall: no token, no run of white space and no contraction reaches over it, though most of these pairs
would be other ids if they touched. Every pair is tried around each of the 256 control ids.
"""

import pytest

from harness.encoder import encode_ordinary, load_vocab, tiktoken_encoding
from harness.vocab import CONTROL_IDS


def _ids(text: str) -> list[int]:
    return [int(word) for word in text.split()]


# Text before, its ids, text behind, its ids, and the ids of the two where nothing stands between them.
PAIRS = [
    # spaces
    ("word", "2906", " word", "6268", "2906 6268"),
    ("word ", "2906 220", "word", "2906", "2906 6268"),
    ("word ", "2906 220", " word", "6268", "2906 220 6268"),
    ("word  ", "2906 256", "  word", "220 6268", "2906 274 6268"),
    (" ", "220", " ", "220", "256"),
    ("   ", "274", "   ", "274", "1659"),
    ("\t", "197", "\tx", "18241", "197 18241"),
    ("a\u00a0", "64 5406", "\u00a0b", "5406 65", "64 5406 5406 65"),
    ("a\u3000", "64 14224", "\u3000b", "14224 65", "64 14224 14224 65"),
    # newlines
    ("end.\n", "517 341", "\nstart", "198 5402", "517 1481 5402"),
    ("end.", "517 13", "\n\nstart", "382 5402", "517 1481 5402"),
    ("end.\n\n", "517 1481", "start", "5402", "517 1481 5402"),
    ("end. \n", "517 13 1420", " \n start", "1420 1804", "517 13 24885 1804"),
    ("x\r\n", "87 462", "\r\ny", "462 88", "87 2298 88"),
    ("\n", "198", "\n", "198", "382"),
    ("\n\n\n", "3898", "\n\n", "382", "89468"),
    (" \n", "1420", "\n ", "198 220", "4698 220"),
    ("a\u2028", "64 390 101", "\u2028b", "390 101 65", "64 390 101 390 101 65"),
    ("}\n", "896", "}", "92", "896 92"),
    # code
    ("```", "3251", "```", "3251", "79336 1764"),
    ("```\n", "11512", "```python\n", "3251 12644 198", "11512 3251 12644 198"),
    ("x = 1\n```", "87 327 220 16 198 3251", "\n\n```\n", "382 11512", "87 327 220 16 198 6438 11512"),
    ("`code`", "63 2431 63", "`code`", "63 2431 63", "63 2431 1764 2431 63"),
    ("    return", "274 745", "    return x", "274 745 1288", "274 745 274 745 1288"),
    ("}\n/*", "896 1700", "*/ x", "3676 1288", "896 7717 14 1288"),
    ("//", "408", "/ x", "14 1288", "5101 1288"),
    ("f(", "69 7", "x)", "87 8", "69 3940 8"),
    ("a->", "64 569", "b::c", "65 680 66", "64 569 65 680 66"),
    ("</p>", "993 79 29", "<p>", "18440 29", "993 79 3318 79 29"),
    ("<", "27", "think>", "39964 29", "27 39964 29"),
    ("<|", "27 91", "|>", "91 29", "27 9640 29"),
    ("</", "993", "/>", "14205", "27 408 29"),
    # json
    ('{"a":1}', "8264 64 1289 16 92", '{"a":1}', "8264 64 1289 16 92", "8264 64 1289 16 3338 1 64 1289 16 92"),
    ('{"a":', "8264 64 1289", "1}", "16 92", "8264 64 1289 16 92"),
    ('["', "3530", '"]', "3956", "58 2796 60"),
    ("{}", "13071", "{}", "13071", "89332 92"),
    ("{", "90", "}", "92", "13071"),
    ('"', "1", '"', "1", "2796"),
    ("\\", "59", "n", "77", "2423"),
    # digits
    ("1", "16", "2", "17", "1042"),
    ("12", "1042", "34", "3587", "6694 19"),
    ("123", "6694", "456", "12972", "6694 12972"),
    ("1234", "6694 19", "5", "20", "6694 2899"),
    ("3.", "18 13", "14", "1626", "18 13 1626"),
    ("-", "12", "1", "16", "12 16"),
    ("10", "795", "%", "4", "795 4"),
    ("v2", "85 17", ".5", "13 20", "85 17 13 20"),
    ("2026-", "2975 21 12", "11-30", "1228 12 1341", "2975 21 12 1228 12 1341"),
    # words
    ("un", "445", "believable", "48966 29377", "445 48966 29377"),
    ("Hello", "19180", "World", "14350", "19180 14350"),
    ("camel", "156983", "Case", "8081", "156983 8081"),
    ("SNAKE_", "50 10435 4010 62", "case", "9827", "50 10435 4010 39188"),
    ("a", "64", "a", "64", "7028"),
    ("naïve", "4768 44187 367", "té", "83 1941", "4768 44187 24889 1941"),
    # contractions
    ("I", "40", "'m", "14404", "17172"),
    ("don", "22676", "'t", "1769", "88709"),
    ("they", "33766", "'ll go", "6683 970", "33766 6683 970"),
    ("WE", "24386", "'VE", "6 4571", "24386 6 4571"),
    ("it'", "277 6", "s", "82", "64072"),
    ("'", "6", "tis", "141175", "1769 289"),
    ("rock 'n", "19297 542 77", "' roll", "6 9163", "19297 542 77 6 9163"),
    # han
    ("世", "1395", "界", "1620", "2243"),
    ("中国", "1199", "人民", "3083", "22363"),
    ("世界", "2243", "。", "292", "2243 292"),
    ("你好", "33845", "world", "23617", "33845 23617"),
    ("world", "23617", "你好", "33845", "23617 33845"),
    ("漢字", "1435 95 1855", "かな", "15593 11839", "1435 95 1855 15593 11839"),
    ("「", "6139", "」", "6153", "6139 6153"),
    ("1", "16", "年", "532", "16 532"),
    # emoji
    ("👍", "64390 235", "🏽", "92949 121", "64390 235 92949 121"),
    ("👨\u200d", "64390 101 67963", "👩", "64390 102", "64390 101 67963 64390 102"),
    ("🇫", "32166 104", "🇷", "32166 115", "32166 104 32166 115"),
    ("☕", "53547 243", "\ufe0f", "31615", "53547 243 31615"),
    ("🙂", "5885 46813", "🙂", "5885 46813", "5885 46813 5885 46813"),
    ("a🙂", "64 5885 46813", "🙂 a", "5885 46813 261", "64 5885 46813 5885 46813 261"),
    ("e", "68", "\u0301", "37484", "68 37484"),
    ("क", "13175", "\u094dष", "50258", "67995"),
    # punct
    ("..", "690", ".", "13", "1614"),
    ("!", "0", "!!", "4605", "20118"),
    ("—", "3442", "—", "3442", "35086"),
    ("“", "1686", "”", "1207", "1686 1207"),
    ("$", "3", "$x$", "94857 3", "19181 87 3"),
    ("#", "2", "# x", "2 1288", "798 1288"),
    ("-", "12", "--", "344", "4675"),
    ("(", "7", ")", "8", "539"),
]
ROWS = [(a, _ids(a_ids), b, _ids(b_ids), _ids(glued)) for a, a_ids, b, b_ids, glued in PAIRS]


@pytest.mark.parametrize(("before", "before_ids", "behind", "behind_ids", "glued"), ROWS)
def test_a_pair_around_every_control_id(
    before: str, before_ids: list[int], behind: str, behind_ids: list[int], glued: list[int]
) -> None:
    """Around each of the 256 control ids both texts keep their own ids, as the reference finds in the marked text."""
    assert encode_ordinary(before) == before_ids
    assert encode_ordinary(behind) == behind_ids
    for name, control in CONTROL_IDS.items():
        ids = [*before_ids, control, *behind_ids]
        assert tiktoken_encoding().encode(f"{before}{name}{behind}", allowed_special="all") == ids
        assert load_vocab().decode_text(ids) == f"{before}{name}{behind}"


@pytest.mark.parametrize(("before", "before_ids", "behind", "behind_ids", "glued"), ROWS)
def test_a_pair_with_nothing_between(
    before: str, before_ids: list[int], behind: str, behind_ids: list[int], glued: list[int]
) -> None:
    """Where the control id is lost and the texts touch, the ids are those of the last column."""
    assert encode_ordinary(before + behind) == glued
    assert tiktoken_encoding().encode_ordinary(before + behind) == glued


@pytest.mark.parametrize("text", [text for row in ROWS for text in (row[0], row[2])])
def test_a_control_id_at_either_end(text: str) -> None:
    """A text has the same ids in front of a control id, behind one, and between two."""
    end, ids = CONTROL_IDS["<|im_end|>"], encode_ordinary(text)
    encode = tiktoken_encoding().encode

    assert encode(f"{text}<|im_end|>", allowed_special="all") == [*ids, end]
    assert encode(f"<|im_end|>{text}", allowed_special="all") == [end, *ids]
    assert encode(f"<|im_end|>{text}<|im_end|>", allowed_special="all") == [end, *ids, end]


def test_the_table_is_wide_enough() -> None:
    """At least 60 pairs, and more than half of them would be other ids without the wall: the table can tell."""
    assert len(ROWS) == 85
    assert sum(row[1] + row[3] != row[4] for row in ROWS) == 46
