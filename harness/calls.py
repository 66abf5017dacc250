"""Parsed tool calls -> the ways in which their section can have been sampled.

Headers and arguments reach the wire changed: ids shortened, numbered anew or invented, JSON written anew. Each way back
is an option with a name. Knows nothing of counts: which option is true is for the witnesses.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

from harness.formats import Format
from harness.json_keys import is_json, key_orders, keys_sorted, other_values, restyle
from harness.json_spellings import spellings
from harness.types import Segment, ToolCall

NATIVE = re.compile(r"functions\.(?P<name>.+):(?P<index>\d+)", re.DOTALL)
SHORT = re.compile(r"(?P<name>[^:]+):(?P<index>\d+)", re.DOTALL)
BARE = re.compile(r"(?P<index>\d+)")
UNDERSCORED = re.compile(r"(?P<name>.+)_(?P<index>\d+)", re.DOTALL)
Row = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Option:
    """Segments for one place of the answer, with what they assume. The other fields are as in Reading."""

    segments: tuple[Segment, ...]
    assumptions: tuple[str, ...] = ()
    rank: int = 0
    own_witness: tuple[str, ...] = ()
    rival: Literal["", "trait", "spelled", "malformed"] = ""

    def __add__(self, other: "Option") -> "Option":
        """Both, one behind the other."""
        if other is NOTHING:
            return self
        return Option(
            self.segments + other.segments,
            self.assumptions + other.assumptions,
            self.rank + other.rank,
            self.own_witness or other.own_witness,
            self.rival or other.rival,
        )


NOTHING = Option(())


def is_open(edge: str, fmt: Format, traits: Mapping[str, str]) -> bool:
    """Whether white space is known to be lost at an edge, or may be and may have been there."""
    known = traits.get(edge)
    return known == "lost" or (known is None and edge not in fmt.blank_free)


def id_style(call: ToolCall) -> str:
    """native, short, bare, underscored or minted: the shape of a call id on the wire."""
    if NATIVE.fullmatch(call.id):
        return "native"
    match = SHORT.fullmatch(call.id)
    if match and match["name"] == call.name:
        return "short"
    if BARE.fullmatch(call.id):
        return "bare"
    match = UNDERSCORED.fullmatch(call.id)
    return "underscored" if match and match["name"] == call.name else "minted"


def _index(call: ToolCall, position: int) -> str:
    match = re.search(r"(\d+)$", call.id)
    return match[1] if match and id_style(call) != "minted" else str(position)


def _as_sent(call: ToolCall, position: int) -> tuple[str, str]:
    return call.id, "id-as-sent"


def _prefixed(call: ToolCall, position: int) -> tuple[str, str]:
    return f"functions.{call.name}:{_index(call, position)}", "id-prefixed"


HEADERS = {
    # (trait, style on the wire) -> ways to write the header; "" is an unknown trait: every way, of equal rank
    ("as-sent", "native"): (_as_sent,),
    ("as-sent", "short"): (_as_sent,),
    ("as-sent", "bare"): (_as_sent,),
    ("as-sent", "underscored"): (_as_sent,),
    ("prefixed", "native"): (_as_sent,),
    ("prefixed", "short"): (_prefixed,),
    ("prefixed", "bare"): (_prefixed,),
    ("prefixed", "underscored"): (_prefixed,),
    ("renumbered", "native"): (_as_sent,),
    ("minted", "minted"): (_prefixed,),
    ("minted", "native"): (_as_sent,),
    ("", "native"): (_as_sent,),
    ("", "short"): (_as_sent, _prefixed),
    ("", "bare"): (_as_sent, _prefixed),
    ("", "underscored"): (_as_sent, _prefixed),
}

PREFIX_UNSEEN = {("renumbered", "native"), *(("prefixed", style) for style in ("short", "bare", "underscored"))}
"""Where the host wrote or dropped `functions.`: an id sampled without it looks the same and may have the same count."""


def headers(call: ToolCall, position: int, fmt: Format, traits: Mapping[str, str]) -> list[Option]:
    """Ways to write the id between call begin and argument begin; [] where nothing is left of it."""
    style, trait = id_style(call), traits.get("call_id", "")
    digits = _index(call, position)
    common = Segment(
        lead=is_open("header_edges", fmt, traits),
        # \p{N}{1,3}: an id for each three digits
        masked_tail=0 if traits.get("call_index") == "kept" else -(-len(digits) // 3),
        inferred=style == "minted",
        channel=f"header:{position}",
        lookalikes=(f"{call.name}:{digits}",) if (trait, style) in PREFIX_UNSEEN else (),
    )
    made = [way(call, position) for way in HEADERS.get((trait, style), ())]
    return [
        Option((replace(common, text=text),), (name,), rival="trait" if k else "")
        for k, (text, name) in enumerate(made)
    ]


def arguments(call: ToolCall, position: int, fmt: Format, traits: Mapping[str, str]) -> list[Option]:
    """Ways in which the arguments can have been written.

    Where the trait is unknown, a way other than as sent is a rival only: the more styles are tried, the more bills
    match one of them by chance. Where it is known that a host writes them anew, the other styles are lookalikes: most
    have another count, and where one has the same, the ids that differ are masked.
    """
    trait = traits.get("arguments", "")
    texts = {"as-sent": call.arguments}
    if trait != "as-sent" and is_json(call.arguments):  # what is no JSON cannot have been written anew
        texts |= {style: restyle(call.arguments, style) for style in ("spaced", "compact")}
    # as they came: what no dump gives was not dumped anew. A host that is known to coerce is refused by a check.
    anywhere = "argument_inner" not in fmt.blank_free
    types = () if "argument_types" in traits else other_values(call.arguments) or ()
    if trait:
        name = trait if trait in texts else "as-sent"
        others = spellings(texts[name], anywhere=anywhere) if name != "as-sent" else ()
        alike = None if others is None else (*types, *texts.values(), *others)
        return [_argument_option(texts[name], f"arguments-{name}", position, fmt, traits, alike)]
    distinct: dict[str, str] = {}
    for name, text in texts.items():
        distinct.setdefault(text, f"arguments-{name}")
    others = spellings(call.arguments, anywhere=anywhere) if len(texts) > 1 else ()
    alike = None if others is None else (*types, *others)
    return [
        replace(
            _argument_option(text, name, position, fmt, traits, alike),
            rival="trait" if text != call.arguments else "",
        )
        for text, name in distinct.items()
    ]


def _argument_option(
    text: str, name: str, position: int, fmt: Format, traits: Mapping[str, str], alike: tuple[str, ...] | None
) -> Option:
    """One way; `alike` are the texts that may have been sampled in its stead, None where they are too many to try."""
    edge = is_open("argument_edges", fmt, traits)
    kept = traits.get("argument_keys") == "kept" or not keys_sorted(text)
    segment = Segment(
        text=text,
        lead=edge,
        trail=edge,
        inferred=alike is None,
        channel=f"call:{position}",
        alternates=() if kept else key_orders(text) or (),
        lookalikes=tuple(s for s in dict.fromkeys(alike or ()) if s != text),
    )
    return Option((segment,), (name,))


def sections(
    calls: tuple[ToolCall, ...],
    fmt: Format,
    traits: Mapping[str, str],
    *,
    rare: bool,
    open_begin: bool = False,
    between: tuple[str, ...] = (),
) -> list[Option]:
    """Ways in which a whole section can have been sampled.

    One way of writing ids and arguments holds for all calls of an answer: a host does not change its mind within a
    body. `open_begin` marks a section whose first id may stand elsewhere. Its last id is certain only where the
    terminator is known to be sampled behind it: elsewhere a terminator may stand in its place, billed alike. `between`
    is text that a stream showed behind each call.
    """
    per_call = [_call_options(call, k, fmt, traits) for k, call in enumerate(calls)]
    if any(not options for options in per_call):
        return []
    names = sorted({o.assumptions for options in per_call for o in options})
    options = []
    for chosen in dict.fromkeys(tuple(_pick(options_of, name) for options_of in per_call) for name in names):
        told = tuple(dict.fromkeys(n for o in chosen for n in o.assumptions))
        base = Option((), told, rival=next((o.rival for o in chosen if o.rival), ""))
        whole = _joined(chosen, fmt, open_begin, open_end=traits.get("terminator_sampled") != "yes")
        if any(between):
            parted = _parted(whole, between, fmt) if rare else ()
            options += [replace(base, rival=rival) + Option(row, (n,), 1, ("bill",)) for row, n, rival in parted]
            continue
        options.append(base + Option(whole))
        if rare:
            malformed = [*_malformed(whole, fmt, traits), *_unprefixed(whole)]
            options += [replace(base, rival="malformed") + Option(row, (n,), 1) for row, n in malformed]
    return options


def _pick(options: list[Option], name: tuple[str, ...]) -> Option:
    """The option with this name, or the one that shares most of it: a call may know only one way to write its id."""
    return max(options, key=lambda o: len(set(o.assumptions) & set(name)))


def _call_options(call: ToolCall, k: int, fmt: Format, traits: Mapping[str, str]) -> list[Option]:
    begin, middle = Option((Segment(control=fmt.call_begin),)), Option((Segment(control=fmt.argument_begin),))
    return [begin + h + middle + a for h, a in product(headers(call, k, fmt, traits), arguments(call, k, fmt, traits))]


def _joined(chosen: tuple[Option, ...], fmt: Format, open_begin: bool, open_end: bool) -> Row:
    end = Segment(control=fmt.call_end)
    calls = tuple(segment for option in chosen for segment in (*option.segments, end))
    begin = Segment(control=fmt.section_begin, inferred=open_begin)
    return (begin, *calls, Segment(control=fmt.section_end, inferred=open_end))


def _unprefixed(whole: Row) -> Iterator[tuple[Row, str]]:
    """The section with one call's id as a model writes it that leaves the prefix out, where a host would hide that."""
    for k, segment in enumerate(whole):
        if segment.channel.startswith("header:") and segment.lookalikes:
            bare = replace(segment, text=segment.lookalikes[0], lookalikes=())
            yield (*whole[:k], bare, *whole[k + 1 :]), "id-without-prefix"


def _parted(whole: Row, between: tuple[str, ...], fmt: Format) -> Iterator[tuple[Row, str, Literal["", "malformed"]]]:
    """One text between two calls: within their section, or, with two ids more, between two sections.

    The second is a rival only: a stack that merges such text may swallow markers in it just as well.
    """
    shown = [(k, text) for k, text in enumerate(between) if text]
    if len(shown) != 1:
        return
    call, text = shown[0]
    seam = [k + 1 for k, s in enumerate(whole) if s.control == fmt.call_end][call]
    segment = Segment(text=text, channel="content")
    end, begin = Segment(control=fmt.section_end), Segment(control=fmt.section_begin)
    yield (*whole[:seam], segment, *whole[seam:]), "text-in-section", ""
    yield (*whole[:seam], end, segment, begin, *whole[seam:]), "two-sections", "malformed"


def _malformed(whole: Row, fmt: Format, traits: Mapping[str, str]) -> Iterator[tuple[Row, str]]:
    """What a host may turn into the same calls; never believed, but a rival of what has the same count."""
    if traits.get("unclosed_calls") != "vanish":
        yield whole[:-1], "section-unclosed"
        yield whole[:-2], "call-unclosed"
        yield whole[1:-1], "section-without-markers"
    seams = [k + 1 for k, s in enumerate(whole[:-2]) if s.control == fmt.call_end]
    for k in seams:
        reopened = (Segment(control=fmt.section_end), Segment(control=fmt.section_begin))
        yield whole[:k] + reopened + whole[k:], "second-section"
