"""runners.roundtrip: non-canonical places are found, placed and counted once, by kind, and nothing else is."""

import pytest

from harness.encoder import encode_ordinary, load_vocab
from harness.inputs import Golden
from harness.store import read_golden
from harness.vocab import CONTROL_IDS
from runners.roundtrip import Place, Tally, group, measure, runs, splits
from tests.conftest import ROOT

THINK, CLOSE, SECTION, CALL, ARGUMENTS, CALL_END, SECTION_END, END = (
    CONTROL_IDS[name]
    for name in ("<think>", "</think>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>",
                 "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>", "<|im_end|>")
)  # fmt: skip


def golden(*true_ids: int, prompt: tuple[int, ...] = (THINK,), name: str = "a", source: str = "s") -> Golden:
    """A golden of these ids."""
    return Golden(name, "E 1", source, None, true_ids, prompt)


def measured(*goldens: Golden) -> Tally:
    """The one tally of these goldens."""
    (tally,) = measure(goldens, load_vocab(), encode_ordinary)
    return tally


def ids(text: str) -> list[int]:
    """Canonical ids."""
    return encode_ordinary(text)


def bytewise(text: str) -> list[int]:
    """The same text, an id a byte."""
    found = [load_vocab().find(bytes([b])) for b in text.encode()]
    return [i for i in found if i is not None]


WHOLE = [*ids("I see."), CLOSE, *ids("Well:"), SECTION, *ids("\n"), CALL, *ids("functions.f:0"), ARGUMENTS,
         *ids('{"a": 1}'), CALL_END, SECTION_END, END]  # fmt: skip


def test_kinds_follow_the_markers() -> None:
    """Each run of ordinary ids with the kind that the control id in front of it began."""
    found = [(run.kind, load_vocab().decode_text(run.ids), run.last) for run in runs(golden(*WHOLE))]

    assert found == [
        ("reasoning", "I see.", False), ("content", "Well:", False), ("between", "\n", False),
        ("header", "functions.f:0", False), ("arguments", '{"a": 1}', False),
    ]  # fmt: skip
    assert [WHOLE[run.at] for run in runs(golden(*WHOLE))] == [run.ids[0] for run in runs(golden(*WHOLE))]


@pytest.mark.parametrize(
    ("true_ids", "prompt", "kinds"),
    [
        (ids("x"), (THINK,), ["reasoning"]),
        (ids("x"), (THINK, CLOSE), ["content"]),
        (ids("x"), (), ["content"]),
        ([THINK, *ids("x"), CLOSE, *ids("y")], (1,), ["reasoning", "content"]),
        ([*ids("x"), CONTROL_IDS["[EOS]"], *ids("y")], (THINK,), ["reasoning", "reasoning"]),
        ([*ids("x"), SECTION, CALL, *ids("h")], (THINK,), ["reasoning", "header"]),
        ([CLOSE, CALL, *ids("h"), CALL_END, SECTION_END, *ids("y"), END], (THINK,), ["header", "content"]),
        ([CLOSE, END], (THINK,), []),
    ],
)
def test_where_a_sequence_begins(true_ids: list[int], prompt: tuple[int, ...], kinds: list[str]) -> None:
    """The prompt's last id tells thinking from not; sampled `<think>` and missing sections are met too."""
    assert [run.kind for run in runs(golden(*true_ids, prompt=prompt))] == kinds


def test_canonical_ids_come_back() -> None:
    """Nothing is listed, and every id is counted in its kind."""
    tally = measured(golden(*WHOLE))

    assert (tally.sequences, tally.equal, tally.places) == (1, 1, [])
    counts = {kind: (c.runs, c.equal, c.ids, c.places) for kind, c in tally.kinds.items()}
    n = [len(ids(t)) for t in ("I see.", "Well:", "functions.f:0", '{"a": 1}', "\n")]
    assert counts == {
        "reasoning": (1, 1, n[0], 0), "content": (1, 1, n[1], 0), "header": (1, 1, n[2], 0),
        "arguments": (1, 1, n[3], 0), "between": (1, 1, n[4], 0),
    }  # fmt: skip


def test_a_non_canonical_place() -> None:
    """`Sam|antha` for `S|aman|tha`: one place, with its id number, what was sampled and what encoding gives."""
    vocab = load_vocab()
    sampled = [vocab.find(b" Sam"), vocab.find(b"antha")]
    assert None not in sampled
    row = [*ids("I see"), *[i for i in sampled if i is not None], *ids(" too.")]
    assert vocab.decode_text(row) == "I see Samantha too."

    tally = measured(golden(*row, CLOSE, END))

    (place,) = tally.places
    assert (place.name, place.kind, place.at, list(place.sampled)) == ("a", "reasoning", 2, sampled)
    assert vocab.decode_text(place.canonical) == " Samantha"
    assert place.canonical != place.sampled
    count = tally.kinds["reasoning"]
    assert (count.runs, count.equal, count.places, count.rate) == (1, 0, 1, 1 / len(row))


def test_places_are_as_short_as_can_be() -> None:
    """Two splits in one run are two places; where both rows have a boundary again a place ends."""
    row = [*bytewise("hello"), *ids(" and"), *bytewise(" world"), *ids("!")]

    found = list(splits(row, ids("hello and world!"), load_vocab()))

    assert [(begin, end, load_vocab().decode_text(split)) for begin, end, split in found] == [
        (0, 5, "hello"), (6, 12, " world")
    ]  # fmt: skip


def test_the_cut_end_of_an_answer_is_no_evidence() -> None:
    """Where the rest of the word is missing any split may be right: counted apart, and the run is held for equal."""
    row = [*ids("I see"), *bytewise(" wor")]

    cut, whole = measured(golden(*row)), measured(golden(*row, END))

    assert (cut.kinds["reasoning"].places, cut.kinds["reasoning"].cut, cut.equal) == (0, 1, 1)
    assert (whole.kinds["reasoning"].places, whole.kinds["reasoning"].cut, whole.equal) == (1, 0, 0)


def test_bytes_that_are_no_text() -> None:
    """Half a character cannot be encoded: neither equal nor a place, and its ids are in no rate."""
    half = load_vocab().find(b"\xf0\x9f")
    assert half is not None

    tally = measured(golden(*ids("I see"), half, CLOSE, *ids("ok"), END))

    assert (tally.equal, tally.places) == (0, [])
    count = tally.kinds["reasoning"]
    assert (count.runs, count.ids, count.no_text, count.rate) == (0, 0, 1, None)
    assert tally.kinds["content"].equal == 1


def test_a_generation_counts_once() -> None:
    """The /generate golden and the chat goldens of one generation are one sequence; another prompt is another."""
    row = (*bytewise("hello"), END)

    tally = measured(golden(*row), golden(*row, name="b"), golden(*row, name="c", prompt=(1, THINK)))

    assert (tally.sequences, tally.repeats, [p.name for p in tally.places]) == (2, 1, ["a", "c"])


def test_sources_are_kept_apart() -> None:
    """Ids that somebody chose and ids of a real model are never one rate."""
    tallies = measure([golden(END), golden(END, source="real")], load_vocab(), encode_ordinary)

    assert [(t.engine, t.source, t.sequences) for t in tallies] == [("E 1", "s", 1), ("E 1", "real", 1)]


def test_the_shipped_goldens() -> None:
    """A recorded dialogue whose ids were chosen to be non-canonical: found in header and arguments, to the id."""
    path = ROOT / "golden/sglang-0.5.23-generate/noncanonical_args.json"

    tally = measured(read_golden(path))

    kinds = {kind: count.places for kind, count in tally.kinds.items()}
    assert kinds == {"reasoning": 0, "content": 0, "header": 3, "arguments": 6, "between": 0}
    assert tally.places[2] == Place(
        "sglang-0.5.23-generate/noncanonical_args", "header", 18, (62, 83, 72, 76, 68), (6618,)
    )


def test_as_json() -> None:
    """Sums, rates and pieces for programs."""
    told = group(measured(golden(*bytewise("hello"), END)), load_vocab())

    assert {key: told[key] for key in ("engine", "sequences", "equal", "repeats", "ids", "places", "rate")} == {
        "engine": "E 1", "sequences": 1, "equal": 0, "repeats": 0, "ids": 5, "places": 1, "rate": 0.2,
    }  # fmt: skip
    assert told["kinds"]["reasoning"] == {
        "runs": 1, "equal": 0, "ids": 5, "places": 1, "cut": 0, "no_text": 0, "rate": 0.2,
    }  # fmt: skip
    (place,) = told["non_canonical"]
    assert place["sampled_pieces"] == ["'h'", "'e'", "'l'", "'l'", "'o'"]
    assert place["canonical_pieces"] == ["'hello'"]
