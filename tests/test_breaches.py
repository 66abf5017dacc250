"""breaches and made_hosts: what counts as a fault, and what a made-up host does, by hand."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from harness.encoder import encode_ordinary
from harness.presets import Answer
from harness.stacks import CallDelta, Step, fold
from harness.types import Ids, Origin, ToolCall, Usage, Verdict
from tests import breaches
from tests.breaches import explain, is_resplit, reduced
from tests.grammar_parts import END, SE, TE, Deviation, Draw
from tests.made_hosts import Twist, draw_twist, rechunked, settled, traits, twisted
from tests.trials import PRESETS, Judged, Trial, ended

CAT, C_AT, THE = encode_ordinary(" cat"), [*encode_ordinary(" c"), *encode_ordinary("at")], encode_ordinary("The")
SLOTS = {"reasoning": "Look.", "close": TE, "content": "Hi", "end": END}
CLOSE = Deviation("no close", "close", "instead")
SPLIT = Deviation("split: one more in content", "content", "split", (), 0.0, "one more")
TAIL = Deviation("blank", "content", "after", ("\n\n",))
SAME = Deviation("other text", "content", "instead", ("Ho",))  # as many ids


def verdict(ids: list[int], masked: tuple[int, ...] = (), **more: Any) -> Verdict:
    origins = bytes(Origin.INFERRED if k in masked else Origin.CANONICAL for k in range(len(ids)))
    return replace(Verdict("verified", Ids(ids, origins), premise="count"), **more)


RESPLITS = [
    ([*THE, *CAT, *C_AT], (), [*THE, *C_AT, *CAT], True, "as-many-ids"),
    ([*THE, *CAT], (), [*THE, *CAT], True, "the-same"),
    ([*THE, *CAT], (), [*THE, *C_AT], False, "another-length"),
    ([*THE, *CAT], (), [*CAT, *THE], False, "another-text"),
    ([*THE, *CAT], (0, 1), [*CAT, *THE], True, "all-masked"),
    ([TE, *CAT], (), [END, *CAT], False, "control-ids"),
]


@pytest.mark.parametrize(("said", "masked", "truth", "same", "_"), RESPLITS, ids=[r[-1] for r in RESPLITS])
def test_a_split_that_keeps_the_count(
    said: list[int], masked: tuple[int, ...], truth: list[int], same: bool, _: str
) -> None:
    """Only ordinary ids that spell the same bytes in as many ids, or masked ones, are another split."""
    assert is_resplit(verdict(said, masked), tuple(truth)) is same


def test_a_masked_end_says_that_nobody_knows_it() -> None:
    """Masked control ids behind the truth's end do not count; unmasked ones do."""
    assert ended(verdict([*THE, SE, END], (1, 2)), (*THE, END)).ids.ids == THE
    assert ended(verdict([*THE, END], (1,)), tuple(THE)).ids.ids == THE
    assert ended(verdict([*THE, END], (1,)), (*THE, TE, END)).ids.ids == THE
    assert ended(verdict([*THE, END], (1,)), (*THE, END)).ids.ids == [*THE, END]
    assert ended(verdict([*THE, END]), tuple(THE)).ids.ids == [*THE, END]
    assert ended(verdict([*THE, END]), (*THE, TE, END)).ids.ids == [*THE, END]


def trial(*deviations: Deviation, **more: Any) -> Trial:
    return Trial(Draw("moonshotai/kimi-k2.5", True, SLOTS, deviations), PRESETS["wandb"], **more)


def wrong_where(*needed: Deviation, premise: Any = "count", accepted: tuple[Deviation, ...] = ()) -> Any:
    """A judge that is wrong where all of these deviations are there, and rejects all but `accepted` else."""

    def run(asked: Trial) -> Judged:
        ids = asked.draw.ids
        answer = Answer(tuple(ids), "Look.", "Hi", (), "stop", Usage())
        wrong = set(needed) <= set(asked.draw.deviations)
        right = not wrong and set(asked.draw.deviations) <= set(accepted)
        said = verdict([*THE, *ids], premise=premise, name="verified" if wrong or right else "rejected")
        return Judged(answer, None, said, "ids differ" if wrong else "")  # type: ignore[arg-type]

    return run


JUDGED = [
    ((CLOSE,), (CLOSE,), {}, "fault", "one-deviation"),
    ((CLOSE, TAIL, SPLIT), (CLOSE, SPLIT), {}, "cancel", "two-that-cancel"),
    ((CLOSE, SPLIT), (CLOSE, SPLIT), {"premise": "none"}, "fault", "not-by-the-count"),
    ((CLOSE, SAME), (CLOSE, SAME), {}, "cancel", "one-that-keeps-the-count-is-caught-alone"),
    ((CLOSE, SAME), (CLOSE, SAME), {"accepted": (SAME,)}, "fault", "one-opens-the-door-for-another"),
    ((), (), {}, "fault", "none-at-all"),
]


@pytest.mark.parametrize(("held", "needed", "how", "kind", "_"), JUDGED, ids=[r[-1] for r in JUDGED])
def test_what_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, held: Any, needed: Any, how: dict[str, Any], kind: str, _: str
) -> None:
    """Only two deviations that each change the count, and a verdict that rests on it, are a breach of the premise."""
    run = wrong_where(*needed, **how)
    monkeypatch.setattr(breaches, "run", run)
    breach = explain(trial(*held), run(trial(*held)))
    assert (breach.kind, breach.names) == (kind, tuple(sorted(d.name for d in needed)))


def test_a_wrong_bill_is_a_deviation_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a right model it is a fault that it gets through; where it is not needed it is left out."""
    off = trial(CLOSE, twist=Twist(bill_off=1))
    monkeypatch.setattr(breaches, "run", wrong_where())
    assert reduced(off, wrong_where()(off))[0].twist == Twist()
    assert breaches.bill_is_off(off)


CALL = ToolCall("functions.f:7", "f", '{"b": 1, "a": true}')
STEPS = (
    *(Step(reasoning="\nSo"), Step(reasoning=" it."), Step(content="Hi"), Step(content=" \n")),
    *(Step(calls=(CallDelta(0, "", CALL.id, "f"),)), Step(calls=(CallDelta(0, CALL.arguments),))),
)
SAID = Answer((), "\nSo it.", "Hi \n", (CALL,), "tool_calls", Usage(5, 20, 25), STEPS)

TWISTS = [
    (Twist(), "\nSo it.", "Hi \n", CALL.id, CALL.arguments),
    (Twist(lost=frozenset({"reasoning_start", "content_end"})), "So it.", "Hi", CALL.id, CALL.arguments),
    (Twist(spaces=True), " \nSo it. ", " Hi \n ", CALL.id, f" {CALL.arguments} "),
    (
        Twist(spaces=True, lost=frozenset({"reasoning_end", "argument_edges"})),
        " \nSo it.",
        " Hi \n ",
        CALL.id,
        CALL.arguments,
    ),
    (Twist(call_id="short", arguments="compact"), "\nSo it.", "Hi \n", "f:7", '{"b":1,"a":true}'),
    (Twist(call_id="bare", arguments="sorted"), "\nSo it.", "Hi \n", "7", '{"a":true,"b":1}'),
    (Twist(call_id="underscored"), "\nSo it.", "Hi \n", "f_7", CALL.arguments),
    (Twist(call_id="renumbered", arguments="spaced"), "\nSo it.", "Hi \n", "functions.f:0", CALL.arguments),
]


@pytest.mark.parametrize(("twist", "reasoning", "content", "call_id", "arguments"), TWISTS)
def test_what_a_made_up_host_says(twist: Twist, reasoning: str, content: str, call_id: str, arguments: str) -> None:
    """Each way of a host, in the body and in the stream that adds up to it."""
    made = twisted(SAID, twist)
    assert (made.reasoning, made.content, made.calls) == (reasoning, content, (ToolCall(call_id, "f", arguments),))
    assert fold(made.steps) == (made.reasoning, made.content, made.calls)


def test_what_is_true_of_a_made_up_host() -> None:
    """Its traits say what it does; a bill that is off is no trait; raw markers leave no spaces to insert."""
    told = traits(Twist(frozenset({"content_end"}), True, "bare", "sorted", 1))
    assert (told["content_end"], told["content_start"], told["argument_edges"]) == ("lost", "kept", "lost")
    assert (told["spaces"], told["call_id"], told["arguments"]) == ("inserted", "prefixed", "spaced")
    assert told["argument_keys"] == "sorted"
    assert twisted(SAID, Twist(bill_off=-2)).usage == Usage(5, 18, 23)
    assert settled(replace(SAID, content="<|im_user|>"), Twist(spaces=True)) == Twist()
    assert settled(SAID, Twist(spaces=True)) == Twist(spaces=True)


def test_chunks_keep_their_boundaries() -> None:
    """Where only the edges change, chunks end where they ended; else the text comes in one."""
    assert rechunked(["\n", "So", " it", ". "], " So it.") == [" So", " it", "."]
    assert rechunked(["a", "b"], "c") == ["c"]
    assert rechunked(["\n"], "") == []


def test_hosts_are_drawn_from_every_way() -> None:
    """Some seeds strip, some insert, some miscount."""
    twists = [draw_twist(Random(seed)) for seed in range(200)]
    assert {len(t.lost) for t in twists} >= {0, 2, 5}
    assert {t.bill_off for t in twists} == {-2, -1, 0, 1, 2, 3}
    assert len({t.call_id for t in twists}) == 6


def test_a_split_may_leave_a_trace() -> None:
    """A chunk that ends with a sampled id, within an accepted one, is a trace; one that ends where both end is none."""
    rows = [*C_AT, *CAT], [*CAT, *C_AT]  # sampled, said
    steps = tuple(Step(content=text, ids=(i,)) for text, i in zip((" c", "at", " cat"), rows[0], strict=True))
    said = Judged(replace(SAID, ids=tuple(rows[0]), steps=steps), None, verdict(rows[1]))  # type: ignore[arg-type]
    assert breaches.traced(said)
    whole = (Step(content=" cat", ids=tuple(C_AT)), steps[2])
    assert not breaches.traced(replace(said, answer=replace(said.answer, steps=whole)))
    assert not breaches.traced(replace(said, answer=replace(said.answer, steps=())))
