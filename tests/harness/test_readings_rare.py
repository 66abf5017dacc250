"""readings.py: what a model does once in a while, each with the witnesses that must speak for it."""

import pytest

from harness.readings import readings
from harness.types import Turn
from tests.harness.chat import K25
from tests.harness.segments import shown
from tests.harness.test_readings import CALL, CALLED, END, KNOWN, SECTION, Traits, answer

row = pytest.param

RARE = [
    # turn, traits, readings of rank 1 that may be believed: (text, last assumption, own witness)
    row(answer("Hm.", "Yes."), {}, [], id="nothing-rare-in-plain-text"),
    row(
        answer("Hm.", "", CALL),
        {"reasoning_tokens": "ids+1"},
        [(f"Hm.{SECTION}{END}", "close-skipped", ("reasoning_tokens", "shortest"))],
        id="straight-into-a-section",
    ),
    row(answer("Hm.", "", CALL), {"reasoning_tokens": "ids"}, [], id="a-section-and-a-count-that-is-the-same-with-it"),
    row(answer("Hm.", "So:", CALL), {}, [], id="content-came-so-the-reasoning-ended"),
    row(answer("Hm."), {}, [(f"Hm.~{END}", "close-skipped", ("reasoning_tokens", "shortest"))], id="all-reasoning"),
    row(
        answer("", "Yes."),
        {"reasoning_end": "lost"},
        [(f"~\n\n</think>Yes.{END}", "blank-reasoning", ("reasoning_tokens",))],
        id="blank-reasoning-that-was-stripped",
    ),
    row(answer("", "Yes."), {"reasoning_end": "kept"}, [], id="blank-reasoning-would-have-come"),
    row(
        answer("Hm.", "Yes."),
        {"swallows_think": "yes", "control_ids": "shown"},
        [],
        id="think-again-whose-place-is-gone",
    ),
    row(answer("Hm.", "Yes."), {"swallows_think": "yes"}, [], id="think-again-where-other-ids-may-vanish"),
    row(
        answer("", "a[EOS]b"),
        {},
        [(f"</think>a[EOS]b{END}", "spelled [EOS]", ("no-rival",))],
        id="a-spelled-marker",
    ),
]


@pytest.mark.required
@pytest.mark.parametrize(("turn", "traits", "expected"), RARE)
def test_what_a_model_does_once_in_a_while(
    turn: Turn, traits: Traits, expected: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    """Each rare reading does one rare thing and names the witness that must speak for it."""
    rows = readings(turn, K25, True, KNOWN | traits, rare=True)

    last = [[a for a in r.assumptions if a not in CALLED][-1] for r in rows]
    assert [(shown(r.segments), a, r.own_witness) for r, a in zip(rows, last, strict=True) if not r.rival] == expected
    assert {r.rank for r in rows} <= {1}


@pytest.mark.required
def test_never_two_rare_things_at_once() -> None:
    """With a marker in the reasoning and a section behind it, either is rare, never both."""
    turn = answer("a[EOS]b", "", CALL)

    rows = readings(turn, K25, True, KNOWN, rare=True)

    rare = [{a for a in r.assumptions if a not in (*CALLED, "markers-as-control")} for r in rows]
    assert {frozenset(names) for names in rare} == {
        frozenset({"spelled [EOS]"}),
        frozenset({"close-skipped"}),
        frozenset({"think-again"}),
    }
