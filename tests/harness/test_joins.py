"""harness.joins: a control id within a word that no count can tell masks what it would have changed."""

from random import Random

import pytest

from harness.encoder import encode_ordinary, load_vocab
from harness.joins import masked
from harness.types import Ids, Origin
from harness.vocab import CONTROL_IDS

CANONICAL, INFERRED = int(Origin.CANONICAL), int(Origin.INFERRED)
NAMES = (
    "Samantha",
    "Gloria",
    "Natalie",
    "Eugene",
    "Janet",
    "Logan",
    "Marilyn",
    "Debra",
    "TOML",
    "untruncated",
    "HTTPS",
)
AROUND = (
    " ",
    "",
    "(",
    '"',
    "[",
    "->",
    ".\n\n",
    "  ",
    "\n \t",
    "\u3000",
    "1",
    "中文",
    "，",
    "é",
    "🙂",
    "x_",
    "'s ",
    "\u00a0",
)


def masks(ids: list[int], **traits: str) -> list[bool]:
    """Whether each id is masked, at a host with these traits."""
    row = masked(Ids(ids, bytes([CANONICAL]) * len(ids)), traits, load_vocab(), encode_ordinary)
    assert row.ids == ids
    return [origin == INFERRED for origin in row.origins]


@pytest.mark.required
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" Samantha", [(" Samantha", False)]),
        ("[Janet", [("[", True), ("Jan", True), ("et", True)]),
        ("hello world (Gloria)", [("hello", 0), (" world", 0), (" (", 0), ("G", 1), ("lor", 1), ("ia", 1), (")", 0)]),
        (".\n\nNatalie", [(".\n\n", False), ("N", True), ("atal", True), ("ie", True)]),
        ("The cat sat on the mat.", [(t, False) for t in ("The", " cat", " sat", " on", " the", " mat", ".")]),
        ("", []),
    ],
)
def test_words_whose_parts_are_an_id_shorter(text: str, expected: list[tuple[str, bool]]) -> None:
    """`[J` + `anet` are two ids and `[Janet` three: with a hidden id between them the counts are the same."""
    ids = encode_ordinary(text)
    spelled = [load_vocab().token_bytes(i).decode() for i in ids]
    assert list(zip(spelled, masks(ids), strict=True)) == expected


def unmasked_changes(text: str) -> list[tuple[int, int]]:
    """(cut, place) of ids that another spelling changes and that are not masked, by trying every cut of the text."""
    ids = encode_ordinary(text)
    seen = masks(ids)
    found = []
    for cut in range(1, len(text)):
        parts = [*encode_ordinary(text[:cut]), -1, *encode_ordinary(text[cut:])]
        if len(parts) == len(ids):
            found += [(cut, k) for k, (a, b) in enumerate(zip(ids, parts, strict=True)) if a != b and not seen[k]]
    return found


def test_no_cut_of_a_text_is_missed() -> None:
    """Looking at single words finds what trying every cut of the whole text finds."""
    rng, n_hits = Random(5), 0
    for _ in range(400):
        text = "".join(rng.choice(AROUND) + rng.choice(NAMES)[: rng.randrange(3, 12)] for _ in range(6))
        assert unmasked_changes(text) == [], text
        n_hits += any(masks(encode_ordinary(text)))
    assert n_hits > 300


def test_no_cut_of_a_long_word_is_missed() -> None:
    """Words of hundreds of letters, which are looked at piece by piece."""
    rng, n_hits = Random(6), 0
    for _ in range(25):
        text = "".join(rng.choice(NAMES).lower() for _ in range(20)) + "".join(
            rng.choice("abehinorst") for _ in range(80)
        )
        assert unmasked_changes(text) == [], text
        n_hits += any(masks(encode_ordinary(text)))
    assert n_hits > 20


def test_control_ids_and_parts_of_characters_end_a_word() -> None:
    """What stands beside a control id is a word of its own, and beside half a character nobody can tell."""
    janet, close = encode_ordinary("[Janet"), CONTROL_IDS["</think>"]
    for ids, expected in (
        ([*janet[:1], close, *janet[1:]], [0, 0, 0, 0]),
        ([close, *janet, close], [0, 1, 1, 1, 0]),
        ([*janet, *encode_ordinary("🫨")[:1]], [1, 1, 1, 1]),
    ):
        assert masks(ids) == expected


@pytest.mark.required
def test_calls_of_a_host_that_shows_control_ids() -> None:
    """It cut the call out of a text with all control ids in it: none can hide in the call, others may hide before."""
    janet, names = encode_ordinary("[Janet"), ("section_begin", "begin", "argument_begin", "end", "section_end")
    section, begin, argument, end, close = (
        CONTROL_IDS[f"<|tool_call{'s' if 'section' in n else ''}_{n}|>"] for n in names
    )
    ids = [*janet, section, begin, *janet, argument, *janet, end, close, *janet]
    assert [int(m) for m in masks(ids)] == [1, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1, 1]
    shown = [int(m) for m in masks(ids, control_ids="shown")]
    assert shown == [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1]


@pytest.mark.required
def test_only_where_every_control_id_is_shown_none_can_hide() -> None:
    """Of three traits each must be known to show them."""
    janet = encode_ordinary("[Janet")
    shown = {"control_ids": "shown", "swallows_think": "no", "raw_sections": "shown"}
    assert masks(janet, **shown) == [False] * 3
    for name in shown:
        assert masks(janet, **{k: v for k, v in shown.items() if k != name}) == [True] * 3
    assert masks(janet, **shown | {"control_ids": "vanish"}) == [True] * 3


def test_a_long_run_of_signs_is_masked_whole() -> None:
    """Its ids depend on its length alone, so a cut at one end changes those at the other; words beside it stay."""
    text = "Here:\n# " + "#" * 300 + "\nimport os"
    ids = encode_ordinary(text)
    told = [(load_vocab().token_bytes(i).decode(), m) for i, m in zip(ids, masks(ids), strict=True)]
    assert {m for t, m in told if t.startswith("####")} == {True}
    assert [t for t, m in told if not m] == ["Here", ":\n", "#", "import", " os"]
