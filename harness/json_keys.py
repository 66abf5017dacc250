"""JSON text that must not be parsed and dumped again: its blanks, its keys, and the orders that they may have had.

Works on broken JSON too. Knows nothing of providers.
"""

import json
import re
from collections.abc import Iterable
from itertools import permutations

# A text without its closing quote goes to the end: searched again from each quote inside, it would cost its square.
JSON_PIECE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]:]', re.DOTALL)
MEMBERS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],]|[^"{}\[\],]+', re.DOTALL)
JSON_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[:,]|[^\s":,]+|\s+', re.DOTALL)
MAX_KEYS = 3


def key_rows(arguments: str) -> list[list[str]]:
    """The keys of each object in a JSON text, in the order of the text; in one pass, for broken JSON too."""
    rows: list[list[str]] = []
    opened: list[list[str]] = []
    last = ""
    for piece in JSON_PIECE.findall(arguments):
        if piece in ("{", "["):
            opened.append([])
            rows.append(opened[-1])
        elif piece in ("}", "]"):
            del opened[-1:]
        elif piece == ":" and last.startswith('"') and opened:
            opened[-1].append(last)
        last = piece
    return [[_unquoted(key) for key in row] for row in rows]


def _unquoted(key: str) -> str:
    try:
        return str(json.loads(key))
    except ValueError:
        return key[1:-1]


def keys_sorted(arguments: str) -> bool | None:
    """Whether the keys of every object are in order, as a host that sorts leaves them; None without two keys."""
    rows = [row for row in key_rows(arguments) if len(row) > 1]
    return all(row == sorted(row) for row in rows) if rows else None


def key_orders(text: str) -> tuple[str, ...] | None:
    """The other orders in which the keys of a flat JSON object may have been written.

    () where there are none. None where they are too many to list: more than MAX_KEYS keys, two in an inner object or
    array, or text that is no object.

    >>> key_orders('{"a": 1, "b": 2}')
    ('{"b": 2, "a": 1}',)
    """
    if not (text.startswith("{") and text.endswith("}")):
        return None
    members, nested = _members(text)
    if nested or len(members) > MAX_KEYS:
        return None
    bare = [m.strip() for m in members]
    pads = [(m[: len(m) - len(m.lstrip())], m[len(m.rstrip()) :]) for m in members]  # blanks keep their places
    rows = (",".join(a + m + z for (a, z), m in zip(pads, order, strict=True)) for order in permutations(bare))
    return tuple("{" + row + "}" for row in dict.fromkeys(rows) if row != ",".join(members))


def _members(text: str) -> tuple[list[str], bool]:
    """The members of the outer object, and whether an inner object or array has more than one."""
    depth, members, nested = 0, [""], False
    for piece in MEMBERS.findall(text):
        depth -= piece in ("}", "]")
        if depth == 1 and piece == ",":
            members.append("")
        elif depth:
            members[-1] += piece
            nested = nested or (depth > 1 and piece == ",")
        depth += piece in ("{", "[")
    return members, nested


def restyle(text: str, style: str) -> str:
    """JSON text with its blanks between tokens as `style` says; strings and numbers stay byte for byte.

    >>> restyle('{"a":1, "b": "x y"}', "spaced")
    '{"a": 1, "b": "x y"}'
    """
    pieces = (p for p in JSON_TOKENS.findall(text) if not p.isspace())
    if style == "compact":
        return "".join(pieces)
    return "".join(p + " " if p in (":", ",") else p for p in pieces)


def one_blank(text: str) -> tuple[str, ...]:
    """The text with one blank more or less behind each colon and comma between tokens, one change at a time.

    >>> one_blank('{"a": 1}')
    ('{"a":1}',)
    """
    pieces = JSON_TOKENS.findall(text)
    out = []
    for k, piece in enumerate(pieces[:-1]):
        if piece in (":", ","):
            blank = pieces[k + 1].isspace()
            out.append("".join([*pieces[: k + 1], *([] if blank else [" "]), *pieces[k + 1 + blank :]]))
    return tuple(out)


def is_json(text: str) -> bool:
    """Whether a host could have parsed the text and dumped it again."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def wire_style(texts: Iterable[str]) -> str:
    """How JSON texts came: "spaced", "compact", "mixed"; "" where they hold nothing that could tell."""
    styles = set()
    for text in texts:
        forms = {style: restyle(text, style) for style in ("spaced", "compact")}
        if forms["spaced"] != forms["compact"]:
            styles.add(next((style for style, form in forms.items() if form == text), "mixed"))
    return styles.pop() if len(styles) == 1 else "mixed" if styles else ""


OTHER_VALUE = re.compile(
    r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[\[{].*[\]}]|True|False|None|NaN|-?Infinity", re.DOTALL
)


def maybe_coerced(arguments: str) -> bool:
    """Whether a host that dumps arguments anew where a value misses its declared type may have made this text.

    A number and the same number in quotes have one count, so no bill can tell.
    """
    try:
        value = json.loads(arguments)
        if not isinstance(value, dict) or json.dumps(value, ensure_ascii=False) != arguments:
            return False  # as it was sampled: no dump looks like this
    except RecursionError:
        return True
    except ValueError:
        return False
    return any(not isinstance(v, str) or OTHER_VALUE.fullmatch(v) is not None for v in value.values())


def balanced(arguments: str) -> bool:
    """Whether a text looks like a JSON object: it opens one, and closes what it opens."""
    pieces = JSON_PIECE.findall(arguments)
    return pieces[:1] == ["{"] and all(pieces.count(a) == pieces.count(b) for a, b in ("{}", "[]"))
