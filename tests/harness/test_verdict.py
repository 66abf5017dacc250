"""verdict.py: what is left when every witness has spoken, and nothing else, is accepted."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import types
from harness.types import Finding, Ids, Reading
from harness.verdict import NOTHING, Outcome, Trial, certified, decide, merged

row = pytest.param

SPEECH = {"+": "supports", "-": "contradicts", "0": "silent"}
WITNESSES = {"reason": "reasoning_tokens"}


def trial(ids: list[int], bill: str = "+", *names: str, marks: str = "", more: str = "", **fields: Any) -> Trial:
    """A trial: its ids, what the bill says of it, its assumptions; `more` as in "chunks-" or "reason+"."""
    said = {"bill": bill} | {word[:-1]: word[-1] for word in more.split()}
    testimony = tuple(types.Testimony(WITNESSES.get(w, w), SPEECH[s], f"{w} {s}") for w, s in said.items())  # type: ignore[arg-type]
    origins = bytes(int(m) for m in marks or "3" * len(ids))
    ambiguous = fields.pop("ambiguous", "")
    return Trial(Reading((), assumptions=names, **fields), Ids(ids, origins, ambiguous), testimony)


def decided(
    common: Sequence[Trial], rare: Sequence[Trial] | None = None, *, lost_text: bool = False
) -> tuple[str, list[int], list[int], list[str]]:
    """Name, ids, origins and codes of what is decided; the rare trials must not be asked for where there are none."""

    def ask() -> Sequence[Trial]:
        assert rare is not None, "rare readings were asked for"
        return rare

    out = decide(common, ask, lost_text=lost_text)
    return out.name, out.ids.ids, list(out.ids.origins), [f.code for f in out.findings]


REJECTED: Any = ("rejected", [], [])

COMMON = [
    row([trial([1, 2])], ("verified", [1, 2], [3, 3], []), id="the-bill-speaks-for-it"),
    row([trial([1, 2], "0")], ("unverified", [], [], ["no-witness"]), id="nobody-speaks"),
    row(
        [trial([1, 2], "0", more="chunks+ reason+")],
        ("unverified", [], [], ["no-witness"]),
        id="chunks-alone-are-blind",
    ),
    row(
        [trial([1, 2, 3, 4]), trial([1, 9, 3, 4], "+", "x", rival="spelled")],
        ("verified", [1, 2, 3, 4], [3, 4, 3, 3], []),
        id="a-rival-of-the-same-count-masks",
    ),
    row(
        [trial([1, 2, 3, 4]), trial([1, 9, 3, 4], "-", "x", rival="spelled")],
        ("verified", [1, 2, 3, 4], [3, 3, 3, 3], []),
        id="a-contradicted-rival-does-not",
    ),
    row(
        [trial([1, 2, 3, 4]), trial([1, 2, 3, 9], "+", "x")],
        ("verified", [1, 2, 3, 4], [3, 3, 3, 4], []),
        id="two-plain-readings-of-one-count",
    ),
    row(
        [trial([1, 2, 3, 4], "+", "x"), trial([1, 2, 9, 4], "+")],
        ("verified", [1, 2, 3, 4], [3, 3, 4, 3], []),
        id="fewest-assumptions-stand-for-all",
    ),
    row(
        [trial([1, 2, 3], "+"), trial([1, 9, 3], "+", "x", rival="trait")],
        (*REJECTED, ["too-many-masked"]),
        id="a-third-masked-is-too-much",
    ),
    row([trial([1, 2, 3, 4], marks="4333")], ("verified", [1, 2, 3, 4], [4, 3, 3, 3], []), id="a-quarter-masked"),
    row([trial([1, 2, 3, 4], marks="4334")], (*REJECTED, ["too-many-masked"]), id="half-masked"),
    row(
        [trial([1, 2], "+"), trial([1, 2, 3], "-", "x", rival="trait")],
        (*REJECTED, ["ambiguous"]),
        id="an-unknown-trait-changes-the-length",
    ),
    row(
        [trial([1, 2], "-"), trial([1, 2, 3], "-", "x")],
        (*REJECTED, ["ambiguous"]),
        id="two-lengths-and-neither-fits",
    ),
    row(
        [trial([1, 2], "0"), trial([1, 2, 3], "0", "x")],
        ("unverified", [], [], ["no-witness"]),
        id="two-lengths-and-no-bill",
    ),
    row(
        [trial([1, 2], "+"), trial([1, 2, 3], "-", "x", more="reason-")],
        ("verified", [1, 2], [3, 3], []),
        id="another-witness-threw-the-other-length-out",
    ),
    row(
        [trial([1, 2], "+"), trial([1, 2, 3], "-", "x", rival="spelled")],
        ("verified", [1, 2], [3, 3], []),
        id="spelled-markers-may-have-another-length",
    ),
    row(
        [trial([1, 2], "+"), trial([1, 2, 3], "0", "x", more="chunks-")],
        ("verified", [1, 2], [3, 3], []),
        id="a-mode-without-equation-that-the-chunks-throw-out",
    ),
    row(
        [trial([1, 2], ambiguous="call:0: other orders")],
        (*REJECTED, ["ambiguous"]),
        id="a-length-that-hangs-on-the-order-of-keys",
    ),
    row([trial([1, 2], "0", ambiguous="x")], ("unverified", [], [], ["no-witness"]), id="the-same-without-a-bill"),
]


@pytest.mark.parametrize(("common", "expected"), COMMON)
def test_common_readings(common: list[Trial], expected: tuple[str, list[int], list[int], list[str]]) -> None:
    """Readings by known traits: accepted where one length stands and the rivals are masked; rare ones are not asked."""
    assert decided(common) == expected


PLAIN = trial([1, 2, 3, 4], "-")
UNPROVEN = (*REJECTED, ["bill-mismatch"])
MASKED = (*REJECTED, ["too-many-masked"])


def skipped(bill: str = "+", more: str = "reason+", *own: str) -> Trial:
    """A rare reading with a witness of its own."""
    return trial([1, 2, 4], bill, "skipped", rank=1, own_witness=own or ("reasoning_tokens",), more=more)


def spelled(ids: list[int]) -> Trial:
    """A rare reading that needs nothing but that no other has its count."""
    return trial(ids, "+", "spelled", rank=1, own_witness=("no-rival",))


MALFORMED = trial([1, 9, 4], "+", "section-unclosed", rank=1, rival="malformed")
OTHER = trial([1, 9, 4], "+", "unproven", rank=1, own_witness=("chunks",))
UNSURE = trial([1, 2], "+", "x", rank=1, own_witness=("chunks",), more="chunks+", ambiguous="call:0: other orders")
BOTH = ("reasoning_tokens", "singly")

RARE = [
    row([], False, UNPROVEN, id="no-rare-reading"),
    row([skipped()], False, ("verified", [1, 2, 4], [3, 3, 3], []), id="its-own-witness-speaks"),
    row([skipped("+", "reason0")], False, UNPROVEN, id="its-own-witness-is-silent"),
    row([skipped("+", "")], False, UNPROVEN, id="its-own-witness-was-not-heard"),
    row([trial([1, 2, 4], "+", "x", rank=1)], False, UNPROVEN, id="no-witness-of-its-own"),
    row([skipped("-")], False, UNPROVEN, id="the-bill-speaks-against-it"),
    row([skipped("0")], False, UNPROVEN, id="the-bill-must-speak-too"),
    row([skipped("+", "reason+ singly0", *BOTH)], False, UNPROVEN, id="one-of-two-witnesses-is-not-enough"),
    row([skipped("+", "reason+ singly+", *BOTH)], False, ("verified", [1, 2, 4], [3, 3, 3], []), id="both-witnesses"),
    row(
        [spelled([1, 2, 7, 8, 4])], False, ("verified", [1, 2, 7, 8, 4], [3] * 5, []), id="nothing-else-has-this-count"
    ),
    row([spelled([1, 2, 7, 8, 4])], True, UNPROVEN, id="text-may-have-been-lost-instead"),
    row([spelled([1, 2])], True, ("verified", [1, 2], [3, 3], []), id="lost-text-makes-nothing-shorter"),
    row([skipped(), MALFORMED], False, MASKED, id="a-rival-of-the-same-deficit"),
    row([MALFORMED], False, UNPROVEN, id="a-rival-is-never-believed"),
    row([skipped(), OTHER], False, MASKED, id="an-unproven-reading-of-the-same-count-masks-too"),
    row([UNSURE], False, (*REJECTED, ["ambiguous"]), id="a-rare-reading-of-an-uncertain-length"),
]


@pytest.mark.parametrize(("rare", "lost_text", "expected"), RARE)
def test_rare_readings(
    rare: list[Trial], lost_text: bool, expected: tuple[str, list[int], list[int], list[str]]
) -> None:
    """What the model does once in a while is believed where no common reading fits and its own witnesses speak."""
    assert decided([PLAIN], rare, lost_text=lost_text) == expected


def test_a_length_that_hangs_on_the_order_of_keys_and_does_not_fit() -> None:
    """What the bill contradicts is a mismatch, whatever its keys."""
    assert decided([trial([1, 2], "-", ambiguous="call:0: other orders")], []) == UNPROVEN


def test_a_common_rival_stands_against_rare_readings() -> None:
    """A rival of rank 0 that the bill supports masks what a rare reading of its count would say."""
    rival = trial([1, 9, 4, 5], "+", "spelled", rival="spelled")
    rare = trial([1, 2, 4, 5], "+", "close-skipped", rank=1, own_witness=("reasoning_tokens",), more="reason+")
    plain = trial([1, 2, 3, 4, 5], "-")

    assert decided([plain, rival], [rare]) == ("verified", [1, 2, 4, 5], [3, 4, 3, 3], [])
    assert decided([plain, rival], []) == (*REJECTED, ["bill-mismatch"])


def test_readings_of_two_lengths_after_the_bill() -> None:
    """Two modes with two equations can both fit the bill with two lengths: rejected."""
    rare = [
        trial([1, 2], "+", "a", rank=1, own_witness=("chunks",), more="chunks+"),
        trial([1, 2, 3], "+", "b", rank=1, own_witness=("chunks",), more="chunks+"),
    ]

    outcome = decide([PLAIN], lambda: rare, lost_text=False)

    assert outcome == Outcome(
        "rejected", NOTHING, rare[0], (Finding("ambiguous", "usage", "readings of 2, 3 ids all fit: a | b"),)
    )


TOLD = [
    row(
        [trial([1, 2], "+"), trial([1, 2, 3], "-", "a", "b")],
        [],
        Finding("ambiguous", "usage", "unknown traits give readings of 2, 3 ids: a+b | plain"),
        id="lengths",
    ),
    row(
        [trial([1], "0", more="chunks+")],
        [],
        Finding("no-witness", "usage", "bill: bill 0; chunks: chunks +", False),
        id="silent",
    ),
    row([trial([1], "-", more="chunks+")], [], Finding("bill-mismatch", "usage", "bill: bill -"), id="mismatch"),
    row([], [], Finding("bill-mismatch", "usage", "no reading is possible"), id="no-reading"),
    row(
        [trial([1], "-")],
        [trial([2], "+", "x", "y", rank=1, rival="malformed"), trial([3], "+", rank=1, rival="malformed")],
        Finding("bill-mismatch", "usage", "bill: bill -; would fit, unproven: y"),
        id="what-would-fit",
    ),
    row(
        [trial([1], marks="4")],
        [],
        Finding("too-many-masked", "ids", "1 of 1 ids would be masked, at most a quarter may: plain"),
        id="masked",
    ),
]


@pytest.mark.parametrize(("common", "rare", "finding"), TOLD)
def test_the_finding_says_why(common: list[Trial], rare: list[Trial], finding: Finding) -> None:
    """Each verdict that is no acceptance carries one finding, in numbers and names."""
    assert decide(common, lambda: rare, lost_text=True).findings == (finding,)


def test_the_trial_that_stands_for_the_verdict() -> None:
    """Of several standing trials the one with the fewest assumptions is shown; of none, the plain one."""
    common = [trial([1, 2, 3, 4], "+", "a"), trial([1, 2, 3, 4], "+"), trial([1, 2, 3, 4], "+", "a", "b")]

    assert decide(common, tuple, lost_text=False).trial == common[1]
    assert decide([PLAIN], tuple, lost_text=False).trial == PLAIN
    assert decide([], tuple, lost_text=False).trial is None
    two_lengths = [trial([1], "-"), trial([1, 2], "+")]
    assert decide(two_lengths, tuple, lost_text=False).trial == two_lengths[0]


def test_a_witness_that_was_not_heard_is_silent() -> None:
    """No testimony is silence, never support."""
    one = trial([1], "0", more="chunks-")

    assert [one.says(w) for w in ("bill", "chunks", "singly", "")] == ["silent", "contradicts", "silent", "silent"]
    assert (one.supported, one.contradicted, one.contradicted_beside_bill) == (False, True, True)
    two = trial([1], "-", more="chunks+")
    assert (two.supported, two.contradicted, two.contradicted_beside_bill) == (False, True, False)


rows_of_one_length = st.integers(0, 6).flatmap(
    lambda n: st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=n, max_size=n),
            st.lists(st.sampled_from((2, 3, 4)), min_size=n, max_size=n).map(bytes),
        ),
        min_size=1,
        max_size=4,
    )
)


@given(rows_of_one_length)
def test_merged_believes_only_what_all_rows_say(rows: list[tuple[list[int], bytes]]) -> None:
    """An id keeps its origin where every row has it and none infers it; everywhere else it is INFERRED."""
    out = merged([Ids(ids, origins) for ids, origins in rows])

    first, origins = rows[0]
    assert out.ids == first
    for k, i in enumerate(first):
        sure = all(ids[k] == i and marks[k] != 4 for ids, marks in rows)
        assert out.origins[k] == (origins[k] if sure else 4)


CERTIFIED = [
    row([], [], id="nothing"),
    row([3, 3], [3, 3], id="nothing-masked"),
    row([3, 4, 4], [3], id="masked-end"),
    row([4, 3, 4], [4, 3], id="a-masked-start-stays"),
    row([4, 4], [], id="all-masked"),
]


@pytest.mark.parametrize(("origins", "kept"), CERTIFIED)
def test_certified(origins: list[int], kept: list[int]) -> None:
    """A cut answer ends with an id that is certain."""
    ids = list(range(len(origins)))

    assert certified(Ids(ids, bytes(origins))) == Ids(ids[: len(kept)], bytes(kept))
