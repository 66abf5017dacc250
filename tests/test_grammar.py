"""grammar and its parts: what is drawn is what the names say, and every deviation can be left out by itself."""

from random import Random

import pytest

from harness.encoder import encode_ordinary, load_vocab
from harness.vocab import N_RANKS
from tests.grammar import Draw, draw, plain
from tests.grammar_arguments import WAYS, restyled
from tests.grammar_kinds import HEADERS, KINDS
from tests.grammar_parts import CA, CB, CE, END, SB, SE, TE, TH, Deviation, Slots, render
from tests.grammar_splits import SPLITS, resplit, unreachable

MODEL = "moonshotai/kimi-k2.5"
SLOTS: Slots = {"reasoning": "Look.", "close": TE, "content": "Hi there", "end": END}


def drawn(seed: int) -> Draw:
    return draw(Random(seed), model=MODEL, thinking=seed % 4 > 0, samples_think=seed % 8 == 7)


def test_a_seed_gives_one_draw() -> None:
    """The same seed draws the same answer, another seed another."""
    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


def test_plain_answers_are_canonical_and_well_formed() -> None:
    """Without deviations each text is its own encoding, without marker, white space at its edges or loose parts."""
    for seed in range(300):
        answer = plain(drawn(seed))
        calls = [name.partition(":")[2] for name in answer.slots if name.startswith("call:")]
        marks = [i for i in answer.ids if i >= N_RANKS]
        opened = [TH] * ("open" in answer.slots) + [TE] * ("close" in answer.slots)
        section = [SB, *[CB, CA, CE] * len(calls), SE] if calls else []
        assert marks == ([*opened, *section, END] if answer.slots else [])
        texts = [part for part in answer.slots.values() if isinstance(part, str)]
        assert all(text == text.strip() and not any(i >= N_RANKS for i in encode_ordinary(text)) for text in texts)
        assert [i for i in answer.ids if i < N_RANKS] == [i for text in texts for i in encode_ordinary(text)]


def test_draws_reach_from_nothing_to_3000_ids_and_hold_every_kind() -> None:
    """Lengths, numbers of deviations and all edits occur in a few thousand draws."""
    answers = [drawn(seed) for seed in range(4000)]
    lengths = [len(answer.ids) for answer in answers]
    assert (min(lengths), max(lengths) > 3000) == (0, True)
    assert {len(answer.deviations) for answer in answers} == {0, 1, 2, 3}
    found = [d for answer in answers for d in answer.deviations]
    assert {d.edit for d in found} == {"before", "after", "inside", "instead", "split"}
    names = {d.name for d in found}
    assert {f"header {way}" for way in HEADERS} | {f"arguments {way}" for way in WAYS} <= names
    assert {f"split: {way} in reasoning" for way in SPLITS} <= names


@pytest.mark.parametrize("kind", sorted(set(KINDS), key=lambda k: k.__name__), ids=lambda k: k.__name__)
def test_each_kind_changes_an_answer_in_one_slot(kind: object) -> None:
    """What a kind makes fits the slots that it was given, and with it the ids are others, most often."""
    changed = 0
    for seed in range(60):
        answer = plain(drawn(seed))
        made = kind(Random(seed), answer.slots) if answer.slots else None  # type: ignore[operator]
        if made is not None:
            assert made.slot in answer.slots
            changed += render(answer.slots, [made]) != answer.ids
    assert changed > 5


def test_every_deviation_can_be_left_out() -> None:
    """Without all its deviations a draw is the plain one; without one it keeps the others."""
    answer = next(a for a in map(drawn, range(1000)) if len(a.deviations) == 3)
    first, *rest = answer.deviations
    assert answer.without(first).deviations == tuple(rest)
    for deviation in answer.deviations:
        answer = answer.without(deviation)
    assert answer.ids == plain(answer).ids


EDITED = [
    ((Deviation("", "close", "instead"),), ["Look.Hi there", END]),
    ((Deviation("", "close", "after", (TE,)),), ["Look.", TE, TE, "Hi there", END]),
    ((Deviation("", "content", "before", ("\n",)),), ["Look.", TE, "\nHi there", END]),
    ((Deviation("", "content", "inside", (TH,), 0.25),), ["Look.", TE, "Hi", TH, " there", END]),
    (
        (Deviation("", "content", "inside", (TH,), 1.0), Deviation("", "content", "inside", ("</think>",), 0.0)),
        ["Look.", TE, "</think>Hi there", TH, END],
    ),
    ((Deviation("", "reasoning", "instead", ("\n",)),), ["\n", TE, "Hi there", END]),
]


@pytest.mark.parametrize(("deviations", "parts"), EDITED)
def test_edits(deviations: tuple[Deviation, ...], parts: list[str | int]) -> None:
    """Each edit by hand: neighbouring texts are encoded as one, and marker text never becomes a control id."""
    assert render(SLOTS, deviations) == [i for p in parts for i in ([p] if isinstance(p, int) else encode_ordinary(p))]


@pytest.mark.parametrize(
    ("way", "text", "more"),
    [
        ("one more", "The cat", 1),
        ("one more, in a character", "é", 1),
        ("as many", "http://a.b", 0),
        ("fewer", "Samantha", -1),
    ],
)
def test_splits_spell_the_same_text_in_other_ids(way: str, text: str, more: int) -> None:
    """As many ids, or one more or fewer, as the name says; a text that allows none stays."""
    ids = encode_ordinary(text)
    made = resplit(ids, way, 0.0)
    assert load_vocab().decode(made) == text.encode()
    assert (len(made) - len(ids), made != ids) == (more, True)
    assert resplit([], way, 0.5) == []


def test_a_split_stays_in_its_slot() -> None:
    """The ids of the other slots are not touched, also where two splits stand in one slot."""
    two = tuple(Deviation(way, "content", "split", (), at, way) for way, at in (("one more", 0.0), ("one more", 0.9)))
    made = render(SLOTS, two)
    assert made[: made.index(TE) + 1] == [*encode_ordinary("Look."), TE]
    assert load_vocab().decode(made[made.index(TE) + 1 : -1]) == b"Hi there"
    assert len(made) == len(render(SLOTS, ())) + 2


def test_ids_that_no_encoding_gives() -> None:
    """Two tokens of the vocabulary are never chosen for their own text."""
    assert [load_vocab().ranks[i].decode() for i in unreachable()] == [" I'", "⭐️⭐️"]


@pytest.mark.parametrize("way", WAYS)
def test_arguments_in_every_way(way: str) -> None:
    """Each way is drawn, gives text, and most of them another one than the model's own."""
    plain_text = '{"path": "a/é", "n": 7}'
    texts = {text for seed in range(400) for name, text in [restyled(Random(seed), plain_text)] if name == way}
    assert texts
    assert texts != {plain_text}
