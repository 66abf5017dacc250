"""habits.py: what a file may say, which line holds for which answer, and that nothing unknown is ever made up."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from harness.errors import SetupError
from harness.formats import formats
from harness.habits import COUNT_TRAITS, MAX_CACHED, STYLE_TRAITS, TRAITS, Habit, Habits, dump_habits, load_habits
from tests.corpus import shipped_habits


def line(trait: str, value: str, **fields: Any) -> Habit:
    """A habit of ProviderX."""
    return Habit("ProviderX", trait, value, **fields)


def traits(*lines: Habit, provider: str | None = "ProviderX", **key: Any) -> dict[str, str]:
    """What these lines say of an answer: a K2.5 answer with thinking, stopped, whole, without tools, but for `key`."""
    asked = {
        "model": "moonshotai/kimi-k2.5",
        "format": "kimi-k2.5",
        "thinking": True,
        "finish": "stop",
        "stream": False,
        "tools": False,
    }
    return dict(Habits(lines).traits(provider, **asked | key))


# --- which line holds -----------------------------------------------------------------------------------------------


@pytest.mark.required
def test_what_no_line_says_is_unknown() -> None:
    """No line, another provider, no provider: no trait at all, and so none that could be assumed."""
    known = line("spaces", "none")
    assert traits() == {}
    assert traits(known) == {"spaces": "none"}
    assert traits(known, provider="Other") == {}
    assert traits(known, provider=None) == {}
    assert traits(known, provider="providerx") == {"spaces": "none"}


@pytest.mark.required
@pytest.mark.parametrize(
    ("key", "asked", "others"),
    [
        ({"model": "a/kimi-k2.5"}, {"model": "a/kimi-k2.5"}, [{"model": "b/kimi-k2.5"}]),
        ({"format": "kimi-k2.5"}, {"format": "kimi-k2.5"}, [{"format": "kimi-k2"}]),
        ({"thinking": "on"}, {"thinking": True}, [{"thinking": False}]),
        ({"thinking": "off"}, {"thinking": False}, [{"thinking": True}]),
        ({"finish": "stop"}, {"finish": "stop"}, [{"finish": "tool_calls"}, {"finish": "length"}]),
        ({"stream": "yes"}, {"stream": True}, [{"stream": False}]),
        ({"stream": "no"}, {"stream": False}, [{"stream": True}]),
        ({"tools": "yes"}, {"tools": True}, [{"tools": False}]),
        ({"wire": "compact"}, {"wire": "compact"}, [{"wire": "spaced"}, {"wire": ""}]),
    ],
    ids=str,
)
def test_a_key_holds_for_its_answers_alone(key: dict[str, Any], asked: dict[str, Any], others: list[Any]) -> None:
    """Each part of a key: the line holds where it matches and nowhere else."""
    known = line("content_end", "kept", **key)
    assert traits(known, **asked) == {"content_end": "kept"}
    for other in others:
        assert traits(known, **other) == {}


NARROWER = [
    {},
    {"wire": "compact"},
    {"tools": "no"},
    {"stream": "no"},
    {"finish": "stop"},
    {"thinking": "on"},
    {"format": "kimi-k2.5"},
    {"format": "kimi-k2.5", "thinking": "on", "finish": "stop"},
    {"model": "moonshotai/kimi-k2.5"},
    {"model": "moonshotai/kimi-k2.5", "thinking": "on", "finish": "stop"},
]


@pytest.mark.required
@pytest.mark.parametrize("k", range(1, len(NARROWER)))
def test_the_narrowest_key_holds(k: int) -> None:
    """Of two lines the narrower one holds, whichever comes first in the file."""
    wide, narrow = line("content_end", "lost", **NARROWER[k - 1]), line("content_end", "kept", **NARROWER[k])
    for lines in permutations((wide, narrow)):
        assert traits(*lines, wire="compact") == {"content_end": "kept"}


@pytest.mark.required
def test_lines_that_contradict_each_other_say_nothing() -> None:
    """Two values at one key: unknown, in any order, rather than the one that stands last in the file."""
    rows = line("content_end", "kept"), line("content_end", "lost"), line("content_end", "kept", evidence="table")
    for lines in permutations(rows):
        assert traits(*lines) == {}
    assert traits(*rows, line("content_end", "lost", finish="stop")) == {"content_end": "lost"}


@pytest.mark.required
@pytest.mark.parametrize("trait", sorted(COUNT_TRAITS))
def test_traits_of_the_count_never_cross_formats(trait: str) -> None:
    """Without a model or a format a line on the count says nothing; a style may be the host's in general."""
    known = line(trait, COUNT_TRAITS[trait][0])
    assert traits(known) == {}
    assert traits(replace(known, finish="stop")) == {}
    assert traits(replace(known, format="kimi-k2.5")) == {trait: known.value}
    assert traits(replace(known, format="kimi-k2.5"), format="kimi-k2") == {}
    assert traits(replace(known, model="moonshotai/kimi-k2.5")) == {trait: known.value}


@pytest.mark.required
def test_a_sum_for_a_narrower_key_drops_wider_parts() -> None:
    """offset 1 learned for a model: the format's terminator_billed and think_billed are of another stack."""
    parts = [line(t, "yes", format="kimi-k2.5") for t in ("terminator_billed", "think_billed")]
    total = line("offset", "1", model="moonshotai/kimi-k2.5")
    assert traits(*parts, total) == {"offset": "1"}
    assert traits(*parts, replace(total, model="", format="kimi-k2.5")) == {
        "offset": "1",
        "terminator_billed": "yes",
        "think_billed": "yes",
    }
    narrow = [replace(p, format="", model="moonshotai/kimi-k2.5", finish="stop") for p in parts]
    assert traits(*narrow, total)["think_billed"] == "yes"


def test_looking_up_costs_bounded_memory() -> None:
    """Model names come from answers: a file with a million of them must not keep a million tables."""
    habits = Habits((line("spaces", "none"),))
    for k in range(2 * MAX_CACHED + 10):
        asked = {"format": "kimi-k2.5", "thinking": True, "finish": "stop", "stream": False, "tools": False}
        assert habits.traits("ProviderX", model=f"{k}/kimi-k2.5", **asked) == {"spaces": "none"}  # type: ignore[arg-type]
    assert len(habits._cache) <= MAX_CACHED


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.required
@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Moonshot AI", "Moonshot AI"),
        ("OR/Moonshot AI", "Moonshot AI"),
        ("or/ moonshot ai ", "Moonshot AI"),
        ("api.groq.com", "Groq"),
        ("API.GROQ.COM", "Groq"),
        ("Somebody New", "Somebody New"),
        ("OR/Somebody New", "Somebody New"),
        ("OR/", None),
        ("  ", None),
        ("", None),
        (None, None),
    ],
)
def test_spellings_of_a_provider_are_one_name(spelling: str | None, name: str | None) -> None:
    """The prefix of a log, letter case and host names lead to one name; an unknown name stays as it is."""
    assert shipped_habits().provider_name(spelling) == name


# --- files ----------------------------------------------------------------------------------------------------------

ODD = 'a "quoted" \\ back\nslash\r\t\x00\x1f\x7f é 中 \u2028 \U0001f600'


@pytest.mark.required
def test_a_file_gives_back_what_was_written() -> None:
    """Every field, also names that hold quotes, line ends or control characters: answers name providers and models."""
    rows = (
        line("spaces", "none", n_for=5, n_against=1, first="2026-01-02", last="2026-03-04"),
        line("offset", "1", model=ODD, format="kimi-k2.5", thinking="on", finish="length", evidence="table"),
        Habit(ODD, "chunks", "tokens", stream="yes", tools="no", wire="mixed", evidence="engine"),
    )
    habits = Habits(rows, {ODD.lower(): ODD, "a": "b"}, {ODD: "kimi-k2.5"})
    text = dump_habits(habits, header="Two\nlines")
    again = load_habits(text)
    assert set(again.lines) == set(rows)
    assert (dict(again.aliases), dict(again.implies_format)) == (dict(habits.aliases), dict(habits.implies_format))
    assert text.startswith("# Two\n# lines\n")
    assert dump_habits(again, header="Two\nlines") == text
    assert again.sha256 != load_habits(text + "\n").sha256


@pytest.mark.required
def test_the_order_of_lines_is_fixed() -> None:
    """The same habits are the same text, so that a change is a one-line diff."""
    rows = [line(t, v, format=f) for t, vs in STYLE_TRAITS.items() for v in vs[:1] for f in ("", "kimi-k2")]
    assert dump_habits(Habits(tuple(rows))) == dump_habits(Habits(tuple(reversed(rows))))


ROW = '{ provider = "P", trait = "spaces", value = "none" }'
BROKEN = {
    "no TOML": "habits = [",
    "nests too deeply": "habits = " + "[" * 5000,
    "a number of many digits": "habits = " + "1" * 5000,
    "unknown table": "habit = []",
    "habits is a table": "[habits]\na = 1",
    "aliases is a list": "aliases = [1]",
    "implies_format is a text": 'implies_format = "x"',
    "a line is a text": 'habits = ["x"]',
    "a line is a number": "habits = [5]",
    "no provider": 'habits = [{ trait = "spaces", value = "none" }]',
    "empty provider": 'habits = [{ provider = "", trait = "spaces", value = "none" }]',
    "provider is a number": 'habits = [{ provider = 5, trait = "spaces", value = "none" }]',
    "unknown trait": 'habits = [{ provider = "P", trait = "space", value = "none" }]',
    "trait is a list": 'habits = [{ provider = "P", trait = ["spaces"], value = "none" }]',
    "unknown value": 'habits = [{ provider = "P", trait = "spaces", value = "maybe" }]',
    "unknown key": f"habits = [{ROW[:-2]}, weight = 5 }}]",
    "misspelt finish": f'habits = [{ROW[:-2]}, finish = "lenght" }}]',
    "misspelt thinking": f'habits = [{ROW[:-2]}, thinking = "yes" }}]',
    "stream is a truth value": f"habits = [{ROW[:-2]}, stream = true }}]",
    "wire is another style": f'habits = [{ROW[:-2]}, wire = "wide" }}]',
    "unknown evidence": f'habits = [{ROW[:-2]}, evidence = "hearsay" }}]',
    "a count is a text": f'habits = [{ROW[:-2]}, n_for = "5" }}]',
    "a count is negative": f"habits = [{ROW[:-2]}, n_for = -1 }}]",
    "a date is a date": f"habits = [{ROW[:-2]}, first = 2026-01-01 }}]",
}


@pytest.mark.required
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_refused(text: str) -> None:
    """Whatever is wrong with a file, the error is ours and says so: a line that nobody reads would never hold."""
    with pytest.raises(SetupError):
        load_habits(text)


@pytest.mark.required
def test_an_empty_file_knows_nothing() -> None:
    """No table at all is a valid file without habits."""
    habits = load_habits("")
    assert (habits.lines, dict(habits.aliases), habits.sha256) == ((), {}, Habits().sha256)


# --- the file that ships --------------------------------------------------------------------------------------------


def test_the_shipped_file_is_sound() -> None:
    """Dates, evidence and formats of every line; the recorded stacks imply a format that exists."""
    habits = shipped_habits()
    names = {f.name for f in formats()}
    assert len(habits.lines) > 100
    for habit in habits.lines:
        assert habit.trait in TRAITS
        assert habit.format in {"", *names}, habit
        assert habit.first <= habit.last, habit
        assert not (habit.trait in COUNT_TRAITS and not habit.model and not habit.format), habit
        if habit.evidence == "answers":
            assert habit.n_for >= 5, habit
            assert habit.n_for >= 0.9 * (habit.n_for + habit.n_against), habit
    assert set(habits.implies_format.values()) <= names
    assert set(habits.implies_format) == {"vllm-0.32", "sglang-0.5.23"}


def test_the_shipped_file_does_not_contradict_itself() -> None:
    """No two lines of one key give two values: such a pair would say nothing."""
    held: dict[tuple[str, ...], str] = {}
    for h in shipped_habits().lines:
        key = (h.provider.lower(), h.trait, h.model, h.format, h.thinking, h.finish, h.stream, h.tools, h.wire)
        assert held.setdefault(key, h.value) == h.value, key


def test_the_shipped_file_says_its_trait_of_the_recorded_stacks() -> None:
    """What was measured with true ids: vLLM strips before `</think>`, SGLang numbers calls anew."""
    asked: dict[str, Any] = {"model": "x", "format": "kimi-k2.5", "thinking": True, "finish": "stop"}
    vllm = shipped_habits().traits("vllm-0.32", **asked, stream=False, tools=True)
    sglang = shipped_habits().traits("sglang-0.5.23", **asked, stream=False, tools=True)
    assert (vllm["reasoning_end"], vllm["call_id"], vllm["argument_types"]) == ("lost", "as-sent", "coerced")
    assert (sglang["reasoning_end"], sglang["call_id"], sglang["argument_types"]) == ("kept", "renumbered", "kept")
    assert (vllm["think_billed"], sglang["terminator_billed"]) == ("no", "yes")


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ({}, "any format"),
        ({"format": "kimi-k2"}, "kimi-k2"),
        ({"model": "m", "format": "kimi-k2", "thinking": "on", "finish": "stop"}, "m, thinking on, stop"),
        ({"stream": "no", "tools": "yes", "wire": "spaced"}, "any format, stream no, tools yes, wire spaced"),
    ],
)
def test_a_key_in_words(key: dict[str, Any], words: str) -> None:
    """All that narrows a line is told."""
    assert Habit("P", "call_id", "minted", **key).key == words
