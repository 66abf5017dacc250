"""calls.py: how the arguments of a call can have been written."""

import pytest

from harness.calls import arguments, is_open
from harness.encoder import encode_ordinary, load_vocab
from harness.formats import Format
from harness.ids import build
from harness.json_keys import restyle
from harness.json_spellings import too_many
from harness.types import Origin, Reading, ToolCall
from tests.harness.chat import K2, K25

pytestmark = pytest.mark.required

row = pytest.param
INFERRED = Origin.INFERRED

Traits = dict[str, str]
AS_SENT, SPACED, COMPACT = "arguments-as-sent", "arguments-spaced", "arguments-compact"

WRITTEN = [
    # trait, arguments on the wire, [(text, assumption, rival)]
    row("as-sent", '{"a":1}', [('{"a":1}', AS_SENT, "")], id="as-sent"),
    row("spaced", '{"a":1,"b":[1,2]}', [('{"a": 1, "b": [1, 2]}', SPACED, "")], id="spaced"),
    row("compact", '{"a": 1}', [('{"a":1}', COMPACT, "")], id="compact"),
    row("spaced", "{}", [("{}", SPACED, "")], id="nothing-to-space"),
    row("spaced", '{"a":"x y', [('{"a":"x y', AS_SENT, "")], id="broken-json-was-not-written-anew"),
    row("", '{"a":1}', [('{"a":1}', AS_SENT, ""), ('{"a": 1}', SPACED, "trait")], id="unknown-compact"),
    row("", '{"a": 1}', [('{"a": 1}', AS_SENT, ""), ('{"a":1}', COMPACT, "trait")], id="unknown-spaced"),
    row(
        "",
        '{"a" : 1}',
        [('{"a" : 1}', AS_SENT, ""), ('{"a": 1}', SPACED, "trait"), ('{"a":1}', COMPACT, "trait")],
        id="unknown-and-neither",
    ),
    row("", "{}", [("{}", AS_SENT, "")], id="unknown-and-no-blank-could-be"),
    row("", "", [("", AS_SENT, "")], id="unknown-and-empty"),
    row("", '{"a":', [('{"a":', AS_SENT, "")], id="unknown-and-broken"),
]


@pytest.mark.parametrize(("trait", "text", "ways"), WRITTEN)
def test_arguments(trait: str, text: str, ways: list[tuple[str, str, str]]) -> None:
    """A known style fixes how arguments were sampled; of an unknown one, what came is plain and the rest are rivals."""
    options = arguments(ToolCall("functions.f:0", "f", text), 2, K25, {"arguments": trait} if trait else {})

    assert [(o.segments[0].text, *o.assumptions, o.rival) for o in options] == ways
    assert {o.segments[0].channel for o in options} == {"call:2"}


def test_arguments_written_anew_mask_what_another_style_would_change() -> None:
    """`":true` compact and `": true` spaced have one count: the ids that differ are masked, for no bill can tell."""
    [option] = arguments(ToolCall("functions.f:0", "f", '{"a":true}'), 0, K2, {"arguments": "spaced"})

    built = build(Reading(option.segments), encode_ordinary)

    assert [(i, o) for i, o in zip(built.ids, built.origins, strict=True)] == [
        (8264, 3),  # {"
        (64, 3),  # a
        (1289, 3),  # ":
        (1653, 4),  # ` true` where compact has `true`
        (92, 3),  # }
    ]


EDGES = [
    row({}, K25, True, id="nothing-known"),
    row({}, K2, False, id="a-family-that-never-writes-blanks-there"),
    row({"argument_edges": "lost"}, K2, True, id="known-lost"),
    row({"argument_edges": "kept"}, K25, False, id="known-kept"),
]


@pytest.mark.parametrize(("traits", "fmt", "expected"), EDGES)
def test_an_edge_is_open_unless_something_is_known(traits: Traits, fmt: Format, expected: bool) -> None:
    """White space may be lost where the host is known to lose it, or where neither host nor family rules it out."""
    [option] = arguments(ToolCall("functions.f:0", "f", "{}"), 0, fmt, traits)

    assert (option.segments[0].lead, option.segments[0].trail) == (expected, expected)
    assert is_open("argument_edges", fmt, traits) is expected


ORDERS = [
    row({"argument_keys": "kept"}, '{"a": 1, "b": 2}', (), id="kept"),
    row({"argument_keys": "sorted"}, '{"a": 1, "b": 2}', ('{"b": 2, "a": 1}',), id="sorted"),
    row({}, '{"a": 1, "b": 2}', ('{"b": 2, "a": 1}',), id="unknown-and-in-order"),
    row({}, '{"b": 2, "a": 1}', (), id="unknown-and-not-in-order"),
    row({}, '{"a": 1}', (), id="one-key"),
]


@pytest.mark.parametrize(("traits", "text", "others"), ORDERS)
def test_keys_that_came_in_order_may_have_been_sorted(traits: Traits, text: str, others: tuple[str, ...]) -> None:
    """The other orders stand beside the text, unless the host is known to keep them or they show that it did."""
    options = arguments(ToolCall("functions.f:0", "f", text), 0, K25, traits | {"arguments": "as-sent"})

    assert [o.segments[0].alternates for o in options] == [others]


RETYPED = [
    # traits, arguments on the wire, where the ids are INFERRED
    row({"arguments": "as-sent"}, '{"a": 5, "b": "x"}', [" ", ","], id="unknown"),
    row({"arguments": "as-sent", "argument_types": "kept"}, '{"a": 5, "b": "x"}', [], id="kept"),
    row({"arguments": "as-sent"}, '{"b": "x", "a": "5"}', [' "', '"}'], id="a-number-in-quotes"),
    row({"arguments": "as-sent"}, '{"a": true, "b": "x"}', [], id="a-word-in-quotes-has-another-count"),
    row({"arguments": "spaced"}, '{"a":5,"b":"x"}', [], id="a-compact-text-is-no-such-dump"),
    row({"arguments": "spaced", "argument_types": "kept"}, '{"a":19.9,"b":"x"}', ["9"], id="a-zero-may-be-lost"),
    row({"argument_types": "kept"}, '{"a": 19.9, "b": "x"}', ["9"], id="and-where-nothing-is-known-of-the-host"),
    row({"arguments": "as-sent", "argument_types": "kept"}, '{"a": 19.9, "b": "x"}', [], id="as-it-was-sampled"),
]


@pytest.mark.parametrize(("traits", "text", "inferred"), RETYPED)
def test_a_value_that_may_have_been_written_anew_is_masked(traits: Traits, text: str, inferred: list[str]) -> None:
    """`5` and `"5"` have one count: where nothing tells whether a host fits types, the ids that differ are masked."""
    option = arguments(ToolCall("functions.f:0", "f", text), 0, K2, {"argument_keys": "kept", **traits})[0]
    made = build(Reading(option.segments), encode_ordinary)

    marked = [
        load_vocab().token_bytes(i).decode() for i, o in zip(made.ids, made.origins, strict=True) if o == INFERRED
    ]
    assert marked == inferred


def test_blanks_that_a_family_never_writes() -> None:
    """A blank before a brace is looked for, but for the family that was never seen to write one."""
    call, traits = ToolCall("functions.f:0", "f", '{"a":1}'), {"arguments": "spaced", "argument_types": "kept"}
    assert '{"a": 1 }' in arguments(call, 0, K25, traits)[0].segments[0].lookalikes
    assert '{"a": 1 }' not in arguments(call, 0, K2, traits)[0].segments[0].lookalikes


def test_what_has_too_many_spellings_is_masked_whole() -> None:
    """Spaced out, a text may pass the limit that it keeps as it came: then none of its ids is believed."""
    wire = "{" + ",".join(f'"k{k}":[1,2,3]' for k in range(140)) + "}"
    assert not too_many(wire)
    assert too_many(restyle(wire, "spaced"))
    [option] = arguments(ToolCall("functions.f:0", "f", wire), 0, K25, {"arguments": "spaced"})
    made = build(Reading(option.segments), encode_ordinary)
    assert set(made.origins) == {INFERRED}
