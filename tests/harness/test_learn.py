"""learn.py: what evidence makes of a provider, at which key, and what it leaves unknown."""

from typing import Any

import pytest

from harness.habits import COUNT_TRAITS, Habit, Habits
from harness.learn import Evidence, Unknown, Way, learn

pytestmark = pytest.mark.required

PLAIN, SPACED, PREFIXED = Way("as-sent", "as-sent"), Way("spaced", "as-sent"), Way("as-sent", "prefixed")


def answer(excess: int | dict[Way, int] | None = 1, **fields: Any) -> Evidence:
    """Evidence of one answer of ProviderX, K2 text unless `fields` say otherwise."""
    made: dict[str, Any] = {
        "provider": "ProviderX",
        "model": "kimi-k2",
        "format": "kimi-k2",
        "thinking": False,
        "finish": "stop",
        "date": "2026-01-01",
        "excess": {} if excess is None else {PLAIN: excess} if isinstance(excess, int) else excess,
    }
    return Evidence(**made | fields)


def learned(rows: list[Evidence], known: tuple[Habit, ...] = ()) -> dict[str, str]:
    """Trait -> value, of rows of one key."""
    return {h.trait: h.value for h in learn(rows, known)[0]}


def unknown(rows: list[Evidence]) -> dict[str, str]:
    """Trait -> why it stays unknown."""
    return {u.trait: u.why for u in learn(rows)[1]}


# --- numbers --------------------------------------------------------------------------------------------------------


def test_five_answers_make_a_habit() -> None:
    """Five that agree, with their numbers and dates; four leave it unknown, with the reason."""
    rows = [answer(date=f"2026-0{k}-01") for k in (3, 1, 5, 2, 4)]
    (habit,) = (h for h in learn(rows)[0] if h.trait == "terminator_billed")
    assert (habit.value, habit.n_for, habit.n_against, habit.evidence) == ("yes", 5, 0, "answers")
    assert (habit.first, habit.last) == ("2026-01-01", "2026-05-01")
    assert (habit.model, habit.thinking, habit.finish) == ("kimi-k2", "off", "stop")
    assert learned(rows[:4]) == {}
    assert unknown(rows[:4])["terminator_billed"] == "best equation (+1) fits 4 of 4 answers"


def test_a_tenth_may_differ() -> None:
    """9 of 10 agree: set, with the one against it; 8 of 10: unknown."""
    (habit,) = (h for h in learn([answer()] * 9 + [answer(5)])[0] if h.trait == "terminator_billed")
    assert (habit.n_for, habit.n_against) == (9, 1)
    assert "terminator_billed" not in learned([answer()] * 8 + [answer(5)] * 2)


def test_no_evidence_no_habit() -> None:
    """Nothing in, nothing out; answers without a bill teach nothing of it."""
    assert learn([]) == ([], [])
    rows = [answer(None)] * 9
    assert learned(rows) == {}
    assert unknown(rows)["terminator_billed"] == "no answer says what was billed"


def test_an_answer_without_a_date() -> None:
    """Dates that are not known are left out of first and last."""
    (habit,) = (h for h in learn([answer(date="")] * 5)[0] if h.trait == "terminator_billed")
    assert (habit.first, habit.last) == ("", "")


# --- keys -----------------------------------------------------------------------------------------------------------


def test_the_narrowest_key_that_has_five() -> None:
    """A model with five answers has its own line; models with fewer share the line of their format."""
    rows = [answer(model="kimi-k2-a")] * 5 + [answer(model="kimi-k2-b")] * 3 + [answer(model="kimi-k2-c")] * 3
    keys = {(h.model, h.format) for h in learn(rows)[0] if h.trait == "terminator_billed"}
    assert keys == {("kimi-k2-a", ""), ("", "kimi-k2")}
    alone = [answer(model="kimi-k2-b")] * 3 + [answer(model="kimi-k2-c")] * 3
    assert {(h.model, h.format) for h in learn(alone)[0] if h.trait == "terminator_billed"} == {("", "kimi-k2")}


@pytest.mark.parametrize(
    "other",
    [{"provider": "Other"}, {"thinking": True}, {"finish": "length"}, {"format": "kimi-k2.5", "model": "kimi-k2.5"}],
    ids=str,
)
def test_evidence_does_not_cross_keys(other: dict[str, Any]) -> None:
    """Three answers here and four there are seven nowhere."""
    rows = [answer()] * 3 + [answer(**other)] * 4
    assert not [h for h in learn(rows)[0] if h.trait in COUNT_TRAITS]


def test_every_count_line_names_a_model_or_a_format() -> None:
    """Traits of the count never cross formats, so no line without either is made."""
    rows = [answer(k % 2, model=f"kimi-k2-{k % 2}", told_edges=frozenset({"content_end"})) for k in range(20)]
    habits = learn(rows)[0]
    assert {h.trait for h in habits} >= {"terminator_billed", "content_end"}
    for habit in habits:
        assert (habit.trait not in COUNT_TRAITS) or habit.model or habit.format


def test_two_back_ends_behind_one_name() -> None:
    """One writes arguments compactly and bills its terminator, one spaced and does not: a key each."""
    compact = answer({PLAIN: 1, SPACED: -1}, finish="tool_calls", wire="compact")
    spaced = [answer({PLAIN: 0, SPACED: k}, finish="tool_calls", wire="spaced") for k in (1, 2, 0, 3, 0)]
    habits = learn([compact] * 5 + spaced)[0]
    told = {(h.wire, h.value) for h in habits if h.trait == "terminator_billed"}
    assert told == {("compact", "yes"), ("spaced", "no")}


# --- the equation ---------------------------------------------------------------------------------------------------


def test_answers_that_are_all_alike_teach_nothing_of_the_count() -> None:
    """One short id each: neither the prefix nor the terminator is proven, and nothing of either is set."""
    alike = [answer({PLAIN: 1, PREFIXED: 0}, finish="tool_calls")] * 20
    assert not {"terminator_billed", "call_id", "offset"} & set(learned(alike))
    assert unknown(alike)["terminator_billed"].startswith("several equations fit")
    two = [answer({PLAIN: 2, PREFIXED: 0}, finish="tool_calls")] * 5
    assert learned(alike + two) == {"terminator_billed": "no", "call_id": "prefixed"}


def test_what_is_known_from_elsewhere_settles_it() -> None:
    """A measured table says that no terminator is billed here: then the prefix is what fits."""
    alike = [answer({PLAIN: 1, PREFIXED: 0}, finish="tool_calls")] * 20
    table = Habit("ProviderX", "terminator_billed", "no", format="kimi-k2", finish="tool_calls", evidence="table")
    assert learned(alike, (table,)) == {"terminator_billed": "no", "call_id": "prefixed"}


def test_a_table_that_the_answers_contradict_is_not_confirmed() -> None:
    """Every answer says +1 and a table says +0: nothing is learned rather than the table's word made evidence."""
    table = Habit("ProviderX", "terminator_billed", "no", format="kimi-k2", evidence="table")
    assert "terminator_billed" not in learned([answer(1)] * 20, (table,))


def test_learned_traits_give_the_learned_sum() -> None:
    """For every possible excess the traits that are set add up to it, and to nothing else."""
    for thinks in (False, True):
        for excess in range(-1, 4):
            fmt = "kimi-k2.5" if thinks else "kimi-k2"
            rows = [answer(excess, thinking=thinks, thinks_in_prompt=thinks, format=fmt, model=fmt)] * 6
            told = learned(rows)
            if told:
                parts = sum(told.get(t) == "yes" for t in ("terminator_billed", "think_billed"))
                assert parts + int(told.get("offset", 0)) == excess


# --- styles ---------------------------------------------------------------------------------------------------------


def test_chunks_are_trusted_by_their_boundaries() -> None:
    """Boundaries of text on canonical ids; of arguments also where their split alone explains the bill."""
    assert learned([answer(split={"chunks": False})] * 5)["chunks"] == "tokens"
    assert "chunks" not in learned([answer(split={"chunks": True})] * 5)
    assert "chunks" not in learned([answer(split={"chunks": False})] * 8 + [answer(split={"chunks": True})] * 2)
    split = {"chunks_arguments": True}
    assert learned([answer(split=split)] * 5)["chunks_arguments"] == "tokens"
    assert "chunks_arguments" not in learned([answer(split=split)] * 5 + [answer(7, split=split)] * 5)


@pytest.mark.parametrize("edge", ["reasoning_start", "reasoning_end", "content_start", "content_end"])
def test_an_edge_is_kept_where_the_bill_says_so(edge: str) -> None:
    """Answers that speak for an edge count only where the learned equation explains their bill."""
    speaking = answer(told_edges=frozenset({edge}))
    assert learned([speaking] * 5)[edge] == "kept"
    assert edge not in learned([answer()] * 9)
    assert edge not in learned([answer()] * 20 + [answer(2, told_edges=frozenset({edge}))] * 5)
    assert edge not in learned([answer(None, told_edges=frozenset({edge}))] * 5)


def test_nothing_is_ever_learned_to_be_lost() -> None:
    """White space that never arrives may never have been there: `lost` is for measured tables."""
    rows = [answer(k, told_edges=frozenset({"content_end", "reasoning_end"})) for k in (1, 1, 1, 1, 1, 2, 2, 2)]
    assert not [h for h in learn(rows)[0] if h.value == "lost"]


@pytest.mark.parametrize(("excess", "value"), [(0, "ids"), (1, "ids+1")])
def test_reasoning_counted_by_id(excess: int, value: str) -> None:
    """Ids before `</think>`, or through it; anything else, or a mixture, is no count by id."""
    assert learned([answer(reasoning_excess=excess)] * 5)["reasoning_tokens"] == value
    assert "reasoning_tokens" not in learned([answer(reasoning_excess=excess)] * 4)
    assert "reasoning_tokens" not in learned([answer(reasoning_excess=k) for k in (0, 0, 0, 0, 0, 1, 1, 1, 1, 1)])
    assert "reasoning_tokens" not in learned([answer(reasoning_excess=k) for k in (2, 3, -5, 7, 2, 2, 2, 2)])


def test_spaces_of_a_detokenizer() -> None:
    """A space at every edge, or at none; undecided below nine tenths."""
    assert learned([answer(edge_spaces=True)] * 5)["spaces"] == "inserted"
    assert learned([answer(edge_spaces=False)] * 5)["spaces"] == "none"
    assert "spaces" not in learned([answer(edge_spaces=True)] * 5 + [answer(edge_spaces=False)] * 4)
    assert "spaces" not in learned([answer(edge_spaces=None)] * 9)


def test_unsorted_keys_show_that_keys_are_kept() -> None:
    """Keys out of order were not sorted; keys in order speak for nothing, and never for sorting."""
    assert learned([answer(keys_unsorted=True)] * 5 + [answer(keys_unsorted=False)] * 50)["argument_keys"] == "kept"
    assert "argument_keys" not in learned([answer(keys_unsorted=True)] * 4 + [answer(keys_unsorted=False)] * 50)


# --- the result -----------------------------------------------------------------------------------------------------


def test_every_habit_can_be_looked_up_again() -> None:
    """What was learned for a key is what the habits say of an answer of that key."""
    rows = [answer(told_edges=frozenset({"content_end"}), edge_spaces=False)] * 6
    habits = Habits(tuple(learn(rows)[0]))
    asked: dict[str, Any] = {"format": "kimi-k2", "thinking": False, "finish": "stop", "stream": False, "tools": False}
    told = habits.traits("ProviderX", model="kimi-k2", **asked)
    assert told == {"terminator_billed": "yes", "content_end": "kept", "spaces": "none"}


def test_what_stays_unknown_is_named() -> None:
    """Each trait that could have been told says why it was not, with its provider and key."""
    rows = [answer(reasoning_excess=4, split={"chunks": True})] * 6
    told = learn(rows)[1]
    assert Unknown("ProviderX", "stop", "chunks", "0 answers for 'tokens', 6 against") in told
    assert Unknown("ProviderX", "stop", "reasoning_tokens", "0 answers for 'ids+1', 6 against") in told
    assert len({(u.provider, u.key, u.trait) for u in told}) == len(told)
