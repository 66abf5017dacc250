"""Parsed tool calls -> the ways in which their section can have been sampled.

Headers and arguments reach the wire changed: ids shortened, numbered anew or invented, JSON written anew. Each way back
is an option with a name. Knows nothing of counts: which option is true is for the witnesses.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from harness.formats import Format
from harness.types import Segment, ToolCall

NATIVE = re.compile(r"functions\.(?P<name>.+):(?P<index>\d+)", re.DOTALL)
SHORT = re.compile(r"(?P<name>[^:]+):(?P<index>\d+)", re.DOTALL)
BARE = re.compile(r"(?P<index>\d+)")
UNDERSCORED = re.compile(r"(?P<name>.+)_(?P<index>\d+)", re.DOTALL)
JSON_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|[:,]|[^\s":,]+|\s+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Option:
    """Segments for one place of the answer, with what they assume. The other fields are as in Reading."""

    segments: tuple[Segment, ...]
    assumptions: tuple[str, ...] = ()
    rank: int = 0
    own_witness: str = ""
    rival: bool = False

    def __add__(self, other: "Option") -> "Option":
        """Both, one behind the other."""
        return Option(
            self.segments + other.segments,
            self.assumptions + other.assumptions,
            self.rank + other.rank,
            self.own_witness or other.own_witness,
            self.rival or other.rival,
        )


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


def headers(call: ToolCall, position: int, traits: Mapping[str, str]) -> list[Option]:
    """Ways to write the id between call begin and argument begin; [] where nothing is left of it."""
    style, trait = id_style(call), traits.get("call_id", "")
    digits = _index(call, position)
    common = Segment(
        lead=traits.get("header_edges") != "kept",
        # \p{N}{1,3}: an id for each three digits
        masked_tail=0 if traits.get("call_index") == "kept" else -(-len(digits) // 3),
        inferred=style == "minted",
        channel=f"header:{position}",
    )
    made = [way(call, position) for way in HEADERS.get((trait, style), ())]
    options = [
        Option((replace(common, text=text),), (name,), rival=not trait and k > 0) for k, (text, name) in enumerate(made)
    ]
    if trait == "renumbered" and style == "native":
        bare = replace(common, text=f"{call.name}:{digits}")
        options.append(Option((bare,), ("id-without-prefix",), 1, "no-rival"))
    return options


def restyle(text: str, style: str) -> str:
    """JSON text with its blanks between tokens as `style` says; strings and numbers stay byte for byte.

    >>> restyle('{"a":1, "b": "x y"}', "spaced")
    '{"a": 1, "b": "x y"}'
    """
    pieces = (p for p in JSON_PIECES.findall(text) if not p.isspace())
    if style == "compact":
        return "".join(pieces)
    return "".join(p + " " if p in (":", ",") else p for p in pieces)


def arguments(call: ToolCall, position: int, fmt: Format, traits: Mapping[str, str]) -> list[Option]:
    """Ways in which the arguments can have been written.

    Where the trait is unknown, a way other than as sent is a rival only: the more styles are tried, the more bills
    match one of them by chance.
    """
    edge = is_open("argument_edges", fmt, traits)

    def option(text: str, name: str, rival: bool = False) -> Option:
        segment = Segment(text=text, lead=edge, trail=edge, channel=f"call:{position}")
        return Option((segment,), (name,), rival=rival)

    trait = traits.get("arguments", "")
    styles = {"as-sent": call.arguments}
    if trait != "as-sent":
        styles |= {style: restyle(call.arguments, style) for style in ("spaced", "compact")}
    if trait:
        return [option(styles[trait], f"arguments-{trait}")]
    distinct: dict[str, str] = {}
    for name, text in styles.items():
        distinct.setdefault(text, f"arguments-{name}")
    return [option(text, name, rival=text != call.arguments) for text, name in distinct.items()]


def sections(
    calls: tuple[ToolCall, ...], between: tuple[str, ...], fmt: Format, traits: Mapping[str, str], *, rare: bool
) -> list[Option]:
    """Ways in which a whole section can have been sampled.

    `between` holds the text that a stream showed before each call but the first, and after the last one. One way of
    writing ids and arguments holds for all calls of an answer: a host does not change its mind within a body.
    """
    per_call = [_call_options(call, k, fmt, traits) for k, call in enumerate(calls)]
    if any(not options for options in per_call):
        return []
    names = sorted({o.assumptions for options in per_call for o in options})
    options = []
    for name in names:
        chosen = [_pick(options_of, name) for options_of in per_call]
        told = tuple(dict.fromkeys(n for o in chosen for n in o.assumptions))
        rank = max(o.rank for o in chosen)
        base = Option((), told, rank, "no-rival" if rank else "", any(o.rival for o in chosen))
        options += [base + Option(row, more) for row, more in _closed(chosen, between, fmt)]
        if rare and rank == 0:
            options += [base + Option(row, (n,), 1, rival=True) for row, n in _malformed(chosen, fmt, traits)]
    return [o for o in options if o.rank == 0 or rare]


def _pick(options: list[Option], name: tuple[str, ...]) -> Option:
    return next((o for o in options if o.assumptions == name), options[0])


def _call_options(call: ToolCall, k: int, fmt: Format, traits: Mapping[str, str]) -> list[Option]:
    begin, middle = Option((Segment(control=fmt.call_begin),)), Option((Segment(control=fmt.argument_begin),))
    return [begin + h + middle + a for h, a in product(headers(call, k, traits), arguments(call, k, fmt, traits))]


def _joined(chosen: list[Option], glue: Iterable[tuple[Segment, ...]], fmt: Format) -> tuple[Segment, ...]:
    end = Segment(control=fmt.call_end)
    row: tuple[Segment, ...] = (Segment(control=fmt.section_begin),)
    for option, after in zip(chosen, glue, strict=True):
        row += (*option.segments, end, *after)
    return (*row, Segment(control=fmt.section_end))


def _text(text: str) -> tuple[Segment, ...]:
    return (Segment(text=text, channel="content"),) if text else ()


Row = tuple[tuple[Segment, ...], tuple[str, ...]]


def _closed(chosen: list[Option], between: tuple[str, ...], fmt: Format) -> list[Row]:
    """The well-formed section, or, where a stream showed text between calls, one or several sections around it."""
    if not any(between):
        return [(_joined(chosen, [()] * len(chosen), fmt), ())]
    reopen = (Segment(control=fmt.section_end),), (Segment(control=fmt.section_begin),)
    inside = [*(_text(t) for t in between[:-1]), ()]
    split = [*((*reopen[0], *_text(t), *reopen[1]) if t else () for t in between[:-1]), ()]
    after = _text(between[-1])
    rows = {
        _joined(chosen, split, fmt) + after: ("sections",),
        _joined(chosen, inside, fmt) + after: ("text-in-section",),
    }
    return list(rows.items())


def _malformed(
    chosen: list[Option], fmt: Format, traits: Mapping[str, str]
) -> Iterator[tuple[tuple[Segment, ...], str]]:
    """What a host may turn into the same calls; never believed, but a rival of what has the same count."""
    whole = _joined(chosen, [()] * len(chosen), fmt)
    if traits.get("unclosed_calls") != "vanish":
        yield whole[:-1], "section-unclosed"
        yield whole[:-2], "call-unclosed"
        yield whole[1:-1], "section-without-markers"
    for k in range(len(chosen) - 1):
        glue: list[tuple[Segment, ...]] = [()] * len(chosen)
        glue[k] = (Segment(control=fmt.section_end), Segment(control=fmt.section_begin))
        yield _joined(chosen, glue, fmt), "second-section"
