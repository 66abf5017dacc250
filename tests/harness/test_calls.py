"""calls.py: parsed tool calls to the ways in which their section can have been sampled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.calls import HEADERS, Option, headers, id_style, sections
from harness.encoder import encode_ordinary
from harness.habits import TRAITS
from harness.ids import build
from harness.types import Reading, ToolCall
from tests.harness.chat import K25
from tests.harness.segments import shown

row = pytest.param

Traits = dict[str, str]


STYLES = [
    row("functions.get_weather:0", "get_weather", "native", id="native"),
    row("functions.a.b:12", "b", "native", id="native-with-a-dot"),
    row("functions.f:0\n", "f", "minted", id="a-line-behind-the-index"),
    row("functions.f:", "f", "minted", id="no-index"),
    row("functions.:1", "", "minted", id="no-name"),
    row("get_weather:0", "get_weather", "short", id="short"),
    row("get_weather:0", "other", "minted", id="short-of-another-name"),
    row("0", "f", "bare", id="bare"),
    row("17", "f", "bare", id="bare-of-two-digits"),
    row("get_weather_0", "get_weather", "underscored", id="underscored"),
    row("get_weather_0", "get", "minted", id="underscored-of-another-name"),
    row("call_06c901ba18e7", "f", "minted", id="minted"),
    row("call_0", "f", "minted", id="minted-with-a-number"),
    row("chatcmpl-tool-3", "f", "minted", id="minted-by-vllm"),
    row("", "f", "minted", id="none"),
    row("call_0", "call", "underscored", id="a-tool-named-call"),
]


@pytest.mark.required
@pytest.mark.parametrize(("call_id", "name", "style"), STYLES)
def test_id_style(call_id: str, name: str, style: str) -> None:
    """The shape of an id; where it could be anything, it is the host's own."""
    assert id_style(ToolCall(call_id, name, "{}")) == style


WAYS = [
    # trait, id on the wire, [(header, assumption, rival)]
    row("as-sent", "functions.f:3", [("functions.f:3", "id-as-sent", "")], id="as-sent-native"),
    row("as-sent", "f:3", [("f:3", "id-as-sent", "")], id="as-sent-short"),
    row("as-sent", "3", [("3", "id-as-sent", "")], id="as-sent-bare"),
    row("as-sent", "f_3", [("f_3", "id-as-sent", "")], id="as-sent-underscored"),
    row("as-sent", "call_x", [], id="as-sent-minted-is-gone"),
    row("prefixed", "functions.f:3", [("functions.f:3", "id-as-sent", "")], id="prefixed-native"),
    row("prefixed", "f:3", [("functions.f:3", "id-prefixed", "")], id="prefixed-short"),
    row("prefixed", "3", [("functions.f:3", "id-prefixed", "")], id="prefixed-bare"),
    row("prefixed", "f_3", [("functions.f:3", "id-prefixed", "")], id="prefixed-underscored"),
    row("prefixed", "call_x", [], id="prefixed-minted-is-gone"),
    row("renumbered", "functions.f:3", [("functions.f:3", "id-as-sent", "")], id="renumbered"),
    row("renumbered", "f:3", [], id="renumbered-but-short"),
    row("minted", "call_x", [("functions.f:1", "id-prefixed", "")], id="minted-by-position"),
    row("minted", "call_7", [("functions.f:1", "id-prefixed", "")], id="minted-number-is-no-index"),
    row("minted", "functions.f:3", [("functions.f:3", "id-as-sent", "")], id="minted-host-shows-one"),
    row("", "functions.f:3", [("functions.f:3", "id-as-sent", "")], id="unknown-native"),
    row("", "f:3", [("f:3", "id-as-sent", ""), ("functions.f:3", "id-prefixed", "trait")], id="unknown-short"),
    row("", "3", [("3", "id-as-sent", ""), ("functions.f:3", "id-prefixed", "trait")], id="unknown-bare"),
    row("", "f_3", [("f_3", "id-as-sent", ""), ("functions.f:3", "id-prefixed", "trait")], id="unknown-underscored"),
    row("", "call_x", [], id="unknown-minted-is-gone"),
]


@pytest.mark.required
@pytest.mark.parametrize(("trait", "call_id", "ways"), WAYS)
def test_headers(trait: str, call_id: str, ways: list[tuple[str, str, str]]) -> None:
    """A known trait gives one way back to the sampled id, an unknown one every way; a minted id leaves none."""
    options = headers(ToolCall(call_id, "f", "{}"), 1, K25, {"call_id": trait} if trait else {})

    assert [(o.segments[0].text, *o.assumptions, o.rival) for o in options] == ways
    assert {len(o.segments) for o in options} <= {1}
    assert {o.segments[0].channel for o in options} <= {"header:1"}


@pytest.mark.required
def test_every_known_trait_has_its_headers() -> None:
    """The table covers each value of the trait `call_id`, and the unknown one, for ids as the format writes them."""
    assert {trait for trait, style in HEADERS if style == "native"} == {*TRAITS["call_id"], ""}


MASKS = [
    row("functions.f:3", {}, [4, 3, 3, 4], id="nothing-known"),
    row("functions.f:3", {"header_edges": "kept"}, [3, 3, 3, 4], id="edges-kept"),
    row("functions.f:3", {"header_edges": "lost"}, [4, 3, 3, 4], id="edges-lost"),
    row("functions.f:3", {"header_edges": "kept", "call_index": "rewritten"}, [3, 3, 3, 4], id="index-rewritten"),
    row("functions.f:3", {"header_edges": "kept", "call_index": "kept"}, [3, 3, 3, 3], id="index-kept"),
    row("functions.f:1234", {"header_edges": "kept"}, [3, 3, 3, 4, 4], id="four-digits-are-two-ids"),
    row("functions.f:123", {"header_edges": "kept"}, [3, 3, 3, 4], id="three-digits-are-one-id"),
    row("call_x", {"call_id": "minted", "call_index": "kept"}, [4, 4, 4, 4], id="minted"),
]


@pytest.mark.required
@pytest.mark.parametrize(("call_id", "traits", "origins"), MASKS)
def test_what_of_a_header_may_have_been_rewritten_is_masked(call_id: str, traits: Traits, origins: list[int]) -> None:
    """The index, unless it is known to be kept; the first id, where a blank may be lost; all of a minted id."""
    option = headers(ToolCall(call_id, "f", "{}"), 0, K25, traits)[0]

    assert list(build(Reading(option.segments), encode_ordinary).origins) == origins


HIDDEN = [
    row({"call_id": "renumbered"}, "functions.wikipedia:0", [4, 4, 3, 4], id="renumbered"),
    row({"call_id": "prefixed"}, "wikipedia:0", [4, 4, 3, 4], id="prefixed-short"),
    row({"call_id": "prefixed"}, "0", [4, 4, 3, 4], id="prefixed-bare"),
    row({"call_id": "prefixed"}, "wikipedia_0", [4, 4, 3, 4], id="prefixed-underscored"),
    row({"call_id": "prefixed"}, "functions.wikipedia:0", [3, 3, 3, 4], id="prefixed-native-shows-it"),
    row({"call_id": "as-sent"}, "functions.wikipedia:0", [3, 3, 3, 4], id="as-sent-shows-it"),
    row({}, "functions.wikipedia:0", [3, 3, 3, 4], id="unknown-native-shows-it"),
]


@pytest.mark.required
@pytest.mark.parametrize(("traits", "call_id", "origins"), HIDDEN)
def test_a_prefix_that_the_host_writes_may_not_have_been_sampled(
    traits: Traits, call_id: str, origins: list[int]
) -> None:
    """`functions|.wikipedia|:|0` and `w|ikipedia|:|0` are four ids each: where the host hides it, both are masked."""
    call = ToolCall(call_id, "wikipedia", "{}")
    option = headers(call, 0, K25, traits | {"header_edges": "kept"})[0]

    built = build(Reading(option.segments), encode_ordinary)

    assert built.ids == [41937, 48748, 25, 15]
    assert list(built.origins) == origins


@pytest.mark.required
def test_a_prefix_of_another_count_masks_nothing() -> None:
    """`get_weather:0` is an id less than `functions.get_weather:0`: the bill tells."""
    traits = {"call_id": "renumbered", "header_edges": "kept", "call_index": "kept"}
    option = headers(ToolCall("functions.get_weather:0", "get_weather", "{}"), 0, K25, traits)[0]

    assert list(build(Reading(option.segments), encode_ordinary).origins) == [3] * 6


AS_SENT = "arguments-as-sent"
KNOWN = {"call_id": "as-sent", "arguments": "as-sent", "terminator_sampled": "yes"}
F0, G1 = ToolCall("functions.f:0", "f", "{}"), ToolCall("functions.g:1", "g", '{"a":1}')
ONE = "<calls_section_begin><call_begin>functions.f:0<call_argument_begin>{}<call_end><calls_section_end>"
TWO = ONE.replace(
    "<calls_section_end>", '<call_begin>functions.g:1<call_argument_begin>{"a":1}<call_end><calls_section_end>'
)


def told(options: list[Option]) -> list[tuple[str, tuple[str, ...], int, str]]:
    """(text, assumptions, rank, rival) of each option."""
    return [(shown(o.segments), o.assumptions, o.rank, o.rival) for o in options]


@pytest.mark.required
def test_a_section_by_known_traits_is_one_reading() -> None:
    """Section, calls and arguments in the grammar of the format."""
    assert told(sections((F0,), K25, KNOWN, rare=False)) == [(ONE, ("id-as-sent", AS_SENT), 0, "")]
    assert told(sections((F0, G1), K25, KNOWN, rare=False)) == [(TWO, ("id-as-sent", AS_SENT), 0, "")]


@pytest.mark.required
def test_the_ends_of_a_section_that_are_not_certain() -> None:
    """The last id is certain where a terminator is sampled behind it; the first, unless `open_begin` says otherwise."""
    [closed] = sections((F0,), K25, KNOWN | {"terminator_sampled": "no"}, rare=False)
    assert shown(closed.segments) == ONE.replace("<calls_section_end>", "~<calls_section_end>")
    [opened] = sections((F0,), K25, KNOWN, rare=False, open_begin=True)
    assert shown(opened.segments) == ONE.replace("<calls_section_begin>", "~<calls_section_begin>")


@pytest.mark.required
def test_a_call_that_leaves_no_header_leaves_no_section() -> None:
    """One minted id among calls, and none of it can be read."""
    assert sections((F0, ToolCall("call_x", "g", "{}")), K25, KNOWN, rare=True) == []


@pytest.mark.required
def test_malformed_sections_are_rivals() -> None:
    """What a host may show as the same calls is listed with `rare`, and never believed."""
    rows = told(sections((F0, G1), K25, KNOWN, rare=True))

    plain = ("id-as-sent", AS_SENT)
    seam = "<call_end><call_begin>"
    assert rows == [
        (TWO, plain, 0, ""),
        (TWO.removesuffix("<calls_section_end>"), (*plain, "section-unclosed"), 1, "malformed"),
        (TWO.removesuffix("<call_end><calls_section_end>"), (*plain, "call-unclosed"), 1, "malformed"),
        (
            TWO.removeprefix("<calls_section_begin>").removesuffix("<calls_section_end>"),
            (*plain, "section-without-markers"),
            1,
            "malformed",
        ),
        (
            TWO.replace(seam, "<call_end><calls_section_end><calls_section_begin><call_begin>"),
            (*plain, "second-section"),
            1,
            "malformed",
        ),
    ]


@pytest.mark.required
def test_unclosed_calls_that_vanish_are_no_rivals() -> None:
    """Where an unclosed call leaves no trace, a call that came was closed."""
    rows = told(sections((F0, G1), K25, KNOWN | {"unclosed_calls": "vanish"}, rare=True))

    assert [(r[1][-1], r[3]) for r in rows] == [(AS_SENT, ""), ("second-section", "malformed")]


@pytest.mark.required
def test_a_hidden_prefix_is_a_rival_for_each_call() -> None:
    """Any one call may have been written without its prefix where the host writes it."""
    traits = KNOWN | {"call_id": "renumbered", "unclosed_calls": "vanish"}

    rows = told(sections((F0, G1), K25, traits, rare=True))

    assert [r[0] for r in rows if r[1][-1] == "id-without-prefix"] == [
        TWO.replace("functions.f:0", "f:0"),
        TWO.replace("functions.g:1", "g:1"),
    ]
    assert {r[3] for r in rows if r[1][-1] == "id-without-prefix"} == {"malformed"}


@pytest.mark.required
def test_one_way_of_writing_holds_for_all_calls() -> None:
    """Calls that share a style are written alike; one that knows a single way to write its id keeps that way."""
    calls = (F0, ToolCall("f:1", "f", '{"a":1}'), ToolCall("functions.f:2", "f", '{"b":1}'))

    rows = told(sections(calls, K25, {"call_id": "prefixed", "terminator_sampled": "yes"}, rare=False))

    texts = {"as-sent": ('{"a":1}', '{"b":1}'), "spaced": ('{"a": 1}', '{"b": 1}')}
    assert sorted(
        {(a in r[0], b in r[0], r[3]) for a, b in texts.values() for r in rows if a in r[0] or b in r[0]}
    ) == [
        (True, True, ""),
        (True, True, "trait"),
    ]


names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
made_calls = st.lists(
    st.tuples(
        st.sampled_from(("functions.{n}:{k}", "{n}:{k}", "{k}", "{n}_{k}", "call_x")), names, st.text(max_size=9)
    ),
    min_size=1,
    max_size=3,
).map(lambda rows: tuple(ToolCall(i.format(n=n, k=k), n, a) for k, (i, n, a) in enumerate(rows)))
some_traits = st.fixed_dictionaries(
    {}, optional={t: st.sampled_from(TRAITS[t]) for t in ("call_id", "arguments", "unclosed_calls", "argument_keys")}
)


@given(made_calls, some_traits, st.booleans())
def test_sections_of_any_calls(calls: tuple[ToolCall, ...], traits: Traits, rare: bool) -> None:
    """At most one plain reading; every reading holds a call begin and an argument begin for each call."""
    options = sections(calls, K25, traits, rare=rare)

    assert sum(1 for o in options if not o.rival and o.rank == 0) <= 1
    assert all(o.rank == 0 or (rare and o.rival == "malformed") for o in options)
    for option in options:
        controls = [s.control for s in option.segments]
        assert controls.count(K25.call_begin) == controls.count(K25.argument_begin) == len(calls)
