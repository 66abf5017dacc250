"""The law: no answer is accepted with an unmasked id that was not sampled, whatever a host does to it.

Draws from the grammar go through every preset and through made-up hosts. What gets through may only be a breach of the
one premise (a split that keeps the count, or deviations that cancel), and then the verdict must say that it rests on
the count. Hypothesis picks the seeds: draws by `st.randoms` would hold a third of the kinds of deviation. A failure is
made small by `breaches.smallest`.
"""

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.preset_table import PRESETS
from harness.vocab import CONTROL_IDS
from tests.breaches import explain, smallest
from tests.grammar_parts import CA, CB, CE, END, SB, SE, TE, Deviation, Draw, Part
from tests.made_hosts import Twist
from tests.report_soak import HABITS, NAMES, attack, shown, trial_of, wrong_habits
from tests.trials import MODELS, Judged, Trial, run

EXAMPLES = 200
KNOWN = tuple(kind for kind in HABITS if kind != "unknown")


@pytest.mark.parametrize("kinds", [KNOWN, ("unknown",)], ids=["habits-known", "habits-unknown"])
@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
@pytest.mark.parametrize("preset", NAMES)
@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 2**48))
def test_nothing_wrong_is_accepted(preset: str, stream: bool, kinds: tuple[str, ...], seed: int) -> None:
    """No single deviation gets through, and at most a quarter of the ids of an accepted answer is masked."""
    trial = trial_of(Random(seed), preset, kinds, stream)

    judged = run(trial)

    assert judged.verdict.loss_mask.count(0) <= len(judged.verdict.ids.ids) / 4
    if judged.fault:
        breach = explain(trial, judged)
        assert breach.kind in ("split", "cancel"), shown(smallest(breach))
        assert breach.judged.verdict.premise == "count"


def test_the_attack_reaches_every_kind_of_verdict() -> None:
    """A judge that rejects everything would pass the test above: many answers are accepted, some by reported ids."""
    tally = attack(seed=5, n=600)

    counts = {name: tally.total(name) for name in ("exact", "verified", "unverified", "rejected")}
    assert sum(counts.values()) == 600
    assert counts["verified"] > 100
    assert min(counts.values()) > 0


def test_the_attack_sees_what_is_wrong() -> None:
    """With another provider's habits some answers are accepted wrongly: a blind attack would pass every test here."""
    pair = wrong_habits(1, "siliconflow", "wandb", 150)

    assert (pair.host, pair.other) == ("siliconflow", "wandb")
    assert 0 < pair.wrong <= pair.accepted


TEXT = "The answer is told by somebody else, as far as anybody can tell:"
PARTS = ((" (Sam", "antha"), (" [Gl", "oria"), (' "Nat', "alie"), ("\n\nEu", "gene"), (" {Mar", "ilyn"))
HIDDEN = tuple(CONTROL_IDS[name] for name in ("<|im_user|>", "[EOT]", "<|im_system|>"))


def hidden_in_a_word(preset: str) -> list[Judged]:
    """Answers in which a word whose parts are an id shorter than the whole has a control id between them."""
    rows = []
    for k, ((left, right), control, slot) in enumerate(product(PARTS, HIDDEN, ("reasoning", "content"))):
        slots: dict[str, Part] = {"reasoning": TEXT, "close": TE, "content": TEXT, "end": END}
        inside = Deviation("hidden", slot, "after", (left, control, right, " and so on."))
        drawn = Draw(MODELS["kimi-k2.5"], True, slots, (inside,), {"messages": [{"role": "user", "content": "Who?"}]})
        rows.append(run(Trial(drawn, PRESETS[preset], stream=bool(k % 2))))
    return rows


@pytest.mark.parametrize("preset", PRESETS)
def test_a_hidden_control_id_that_keeps_the_count_is_masked(preset: str) -> None:
    """No count can tell it; so the ids of the word are masked, and answers are accepted all the same."""
    rows = hidden_in_a_word(preset)

    assert [row.fault for row in rows] == [""] * 30
    if preset == "sglang-0.5.23":  # shows no control id: half of the answers are streams, whose chunks tell
        accepted = [row.verdict for row in rows if row.verdict.accepted]
        assert len(accepted) == 15
        assert all(2 <= v.loss_mask.count(0) <= 6 for v in accepted)


@pytest.mark.parametrize("preset", ["vllm-0.32", "sglang-0.5.23", "chutes"])
@pytest.mark.parametrize("called", [False, True], ids=["text", "call"])
def test_a_bill_that_is_one_id_short_proves_no_skipped_close(preset: str, called: bool) -> None:
    """Reasoning, `</think>`, and no content: billed one id too low it looks like reasoning that was never closed.

    Every unmasked id was sampled where it stands; a call, whose ids would all stand one place off, is rejected.
    """
    call: dict[str, Part] = {"s": SB, "b": CB, "h": "functions.look:0", "m": CA, "a": '{"at": "it"}', "e": CE, "z": SE}
    slots: dict[str, Part] = {"reasoning": TEXT, "close": TE, **(call if called else {}), "end": END}
    tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    asked = {"messages": [{"role": "user", "content": "Who?"}], **({"tools": tools} if called else {})}
    for stream in (False, True):
        drawn = Draw(MODELS["kimi-k2.5"], True, slots, (), asked)
        judged = run(Trial(drawn, PRESETS[preset], stream, twist=Twist(bill_off=-1)))
        verdict = judged.verdict
        kept = zip(verdict.ids.ids, verdict.loss_mask, judged.answer.ids, strict=False)
        assert all(a == b for a, unmasked, b in kept if unmasked)
        assert judged.fault == ""
        assert not (called and verdict.accepted), (verdict.assumptions, verdict.name)
