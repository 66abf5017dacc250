"""Rules that no other required test saw break: each stands here because a mutant once survived.

Their ids are written by hand or in parts (tests/test_k2_table.py, tests/providerx.py).
"""

from typing import Any

import pytest

from harness import types
from harness.types import Ids, Reading
from harness.verdict import Trial, decide
from tests.harness.answers import chunk
from tests.providerx import AS_SENT, MODEL, OFFSET, answer, call, codes, ids, masked, section
from tests.providerx import judged as judged_k25
from tests.test_k2_table import CALLED, CITY, HI, IM_END, KNOWN, calling, judged

pytestmark = pytest.mark.required

K25 = {**OFFSET, **AS_SENT}


def without(traits: dict[str, str], *names: str) -> dict[str, str]:
    """The traits but these, which are then unknown."""
    return {k: v for k, v in traits.items() if k not in names}


# --- what nobody knows is masked or rejected, never assumed ---------------------------------------------------------


def test_a_terminator_that_may_not_have_been_sampled_is_masked() -> None:
    """Not billed, and nobody knows whether the host lets the model write it: context only, as the section's end."""
    unknown = {**without(KNOWN, "terminator_sampled"), "terminator_billed": "no"}
    verdict = judged(calling(CITY), len(CALLED) - 1, unknown, "tool_calls")
    assert (verdict.name, verdict.ids.ids, masked(verdict)) == ("verified", CALLED, [163596, IM_END])
    assert verdict.loss_mask[-3:] == [1, 0, 0]


@pytest.mark.parametrize("billed", range(len(CALLED) - 1, len(CALLED) + 3))
def test_a_space_that_a_detokenizer_may_have_put_there(billed: int) -> None:
    """A space before a control id, from an unknown detokenizer: one id more or none, so no bill may choose."""
    message = {**calling(CITY), "content": "Looking that up. "}
    verdict = judged(message, billed, without(KNOWN, "spaces"), "tool_calls")
    assert (verdict.name, codes(verdict)) == ("rejected", ["ambiguous"])


def test_a_space_of_a_known_detokenizer() -> None:
    """Known to be put there it is no id; known to be sampled it is one, 220."""
    message = {**calling(CITY), "content": "Looking that up. "}
    inserted = judged(message, len(CALLED), {**KNOWN, "spaces": "inserted"}, "tool_calls")
    kept = judged(message, len(CALLED) + 1, KNOWN, "tool_calls")
    assert (inserted.ids.ids, kept.ids.ids) == (CALLED, [*CALLED[:4], 220, *CALLED[4:]])


# --- what is billed -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("thinking", "right"), [(True, 6), (False, 4)])
def test_the_prompts_think_is_billed_with_thinking_on_alone(thinking: bool, right: int) -> None:
    """With thinking off the prompt ends in `</think>`, and nothing before the answer is billed."""
    expected = [*([163607] if thinking else []), *HI, IM_END]
    for billed in range(2, 9):
        verdict = judged_k25(
            answer({"content": "Hi there."}, billed), {**K25, "think_billed": "yes"}, thinking=thinking
        )
        assert verdict.ids.ids == (expected if billed == right else [])


@pytest.mark.parametrize(
    ("way", "told", "name"), [("estimate", 9, "verified"), ("ids", 2, "verified"), ("ids", 9, "rejected")]
)
def test_an_estimate_is_no_witness(way: str, told: int, name: str) -> None:
    """reasoning_tokens that a host guesses neither prove nor disprove; those that it counts do."""
    right = ids("Hm.", "</think>", "Hi there.", "<|im_end|>")
    body = answer(
        {"reasoning": "Hm.", "content": "Hi there."}, len(right), completion_tokens_details={"reasoning_tokens": told}
    )
    verdict = judged_k25(body, {**K25, "reasoning_tokens": way})
    assert (verdict.name, verdict.ids.ids) == (name, right if name == "verified" else [])


# --- what a stream shows ---------------------------------------------------------------------------------------------


def streamed(*pieces: str, billed: int) -> list[dict[str, Any]]:
    """A stream of content in these pieces."""
    usage = {"completion_tokens": billed}
    rows = [chunk({"content": piece}) for piece in pieces]
    return [*rows, {**chunk(finish="stop"), "model": MODEL, "provider": "ProviderX", "usage": usage}]


@pytest.mark.parametrize(
    ("pieces", "trusted", "name"),
    [
        (("Hi", " there."), True, "verified"),
        (("Hi th", "ere."), True, "rejected"),
        (("Hi th", "ere."), False, "verified"),
    ],
)
def test_a_chunk_that_ends_inside_an_id(pieces: tuple[str, str], trusted: bool, name: str) -> None:
    """Where chunks are known to end on ids, one that ends within ` there` speaks against the whole split."""
    traits = {**K25, "chunks": "tokens"} if trusted else K25
    verdict = judged_k25(streamed(*pieces, billed=4), traits, thinking=False)
    assert (verdict.name, verdict.ids.ids) == (name, [*HI, IM_END] if name == "verified" else [])


@pytest.mark.parametrize("finish", ["content_filter", "end_turn", "eos", "stop|tool_calls", "STOP"])
def test_only_known_ends_are_ends(finish: str) -> None:
    """Any other finish reason is unknown, however well the bill fits."""
    right = ids("Hm.", "</think>", "Hi there.", "<|im_end|>")
    body = answer({"reasoning": "Hm.", "content": "Hi there."}, len(right), finish)
    assert codes(judged_k25(body, K25)) == ["unknown-finish"]


def test_an_error_in_the_finish_is_an_error() -> None:
    """finish_reason `error` is the host's error, not an answer with an odd end."""
    assert codes(judged_k25(answer({"content": "Hi there."}, 4, "error"), K25)) == ["provider-error"]


def test_of_several_choices_none_is_taken() -> None:
    """Two choices, or one that is not the first: the bill is for all of them, so none can be held against it."""
    body = answer({"content": "Hi there."}, 4)
    assert judged_k25(body, K25, thinking=False).name == "verified"
    second = {**body["choices"][0], "index": 1}
    for choices in ([*body["choices"], second], [second]):
        verdict = judged_k25({**body, "choices": choices}, K25, thinking=False)
        assert (verdict.name, codes(verdict)) == ("rejected", ["provider-error"])


# --- what may be left standing ----------------------------------------------------------------------------------------


def trial(row: list[int], bill: str, name: str, *, ambiguous: str = "", rival: Any = "") -> Trial:
    """A reading of these ids of which the bill says this."""
    said = types.Testimony("bill", bill, "")  # type: ignore[arg-type]
    return Trial(Reading((), assumptions=(name,), rival=rival), Ids(row, b"\3" * len(row), ambiguous), (said,))


def test_two_lengths_never_stand_together() -> None:
    """Two readings that the bill allows, one with a terminator that is not billed: neither is taken."""
    rows = [trial([1, 2, 3], "supports", "a"), trial([1, 2, 3, 4], "supports", "b", rival="spelled")]
    outcome = decide(rows, lambda: (), lost_text=False)
    assert (outcome.name, outcome.ids.ids, [f.code for f in outcome.findings]) == ("rejected", [], ["ambiguous"])


def test_a_length_that_is_not_certain_is_never_picked() -> None:
    """Keys whose order changes the count: the bill that fits one order proves nothing, nor where another stands."""
    unsure = trial([1, 2, 3], "supports", "a", ambiguous="other orders", rival="malformed")
    sure = trial([1, 2, 3], "supports", "b")
    for rows in ([unsure], [sure, unsure], [unsure, sure]):
        outcome = decide(rows, lambda: (), lost_text=False)
        assert (outcome.name, [f.text for f in outcome.findings]) == ("rejected", ["other orders"])


def test_keys_that_may_have_been_sorted() -> None:
    """A host that may sort keys: where both orders have one count, the ids that differ are masked."""
    text = "The user asks for both of them, so a call with the two letters is what comes next."
    message = {"reasoning": text, "tool_calls": [call("f", '{"a": "p", "b": "q"}')]}
    right = ids(text, "</think>") + section("f", '{"a": "p", "b": "q"}') + [IM_END]
    traits = {**without(K25, "argument_keys"), "call_index": "kept"}
    verdict = judged_k25(answer(message, len(right), "tool_calls"), traits)
    assert (verdict.name, verdict.ids.ids, masked(verdict)) == ("verified", right, [64, 79, 65, 80])
    kept = judged_k25(answer(message, len(right), "tool_calls"), {**traits, "argument_keys": "kept"})
    assert (kept.ids.ids, masked(kept)) == (right, [])
