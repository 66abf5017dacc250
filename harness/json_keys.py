"""JSON text that must not be parsed and dumped again: its blanks, its keys, and the orders that they may have had.

Works on broken JSON too. Knows nothing of providers.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Any

# A text without its closing quote goes to the end: searched again from each quote inside, it would cost its square.
JSON_PIECE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]:]', re.DOTALL)
MEMBERS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],]|[^"{}\[\],]+', re.DOTALL)
JSON_TOKENS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[:,]|[^\s":,]+|\s+', re.DOTALL)
MAX_KEYS = 3


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object, for `object_pairs_hook`; two readers may see two values in one whose key comes twice.

    Raises:
        ValueError: A key comes twice.
    """
    made = dict(pairs)
    if len(made) != len(pairs):
        key = next(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"a member comes twice: {key!r:.60}")
    return made


_ONCE = json.JSONDecoder(object_pairs_hook=once)  # made once: that takes as long as reading a short line


def loads_once(text: bytes | str) -> Any:
    """As `json.loads`, where no object has a key twice.

    Raises:
        ValueError, RecursionError: As there; and a key comes twice.
    """
    return _ONCE.decode(text if isinstance(text, str) else text.decode(json.detect_encoding(text), "surrogatepass"))


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


VALUES = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s":,{}\[\]]+', re.DOTALL)
MAX_VALUES = 64
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|NaN|-?Infinity")
WORDS = {  # a literal -> what a host may have made it of
    "true": ('"true"', '"True"', '"TRUE"', '"1"', "1"),
    "false": ('"false"', '"False"', '"FALSE"', '"0"', "0"),
    "null": ('"null"', '"None"', '"Null"', '"NULL"'),
}


def other_values(arguments: str) -> tuple[str, ...] | None:
    """Texts that a host may have made these arguments of that dumps anew where a value misses its declared type.

    Such a host makes `5` of `"5"` and the other way round; both have one count, so no bill can tell. Each text differs
    in one value. A number that was quoted and not as JSON writes it (`"05"`) is not among them: that is two rare things
    at once. () for what came as it was sampled, since no dump gives it. None where there are more than MAX_VALUES, or
    the text nests too deeply to be told.

    >>> other_values('{"a": 5, "b": "x", "c": "6"}')
    ('{"a": "5", "b": "x", "c": "6"}', '{"a": 5, "b": "x", "c": 6}')
    """
    try:
        value = json.loads(arguments)
        if not isinstance(value, dict) or json.dumps(value, ensure_ascii=False) != arguments:
            return ()
    except RecursionError:
        return None
    except ValueError:
        return ()
    others = [
        arguments[:start] + other + arguments[end:]
        for start, end in _values(arguments)
        for other in _spellings(arguments[start:end])
    ]
    return tuple(others) if len(others) <= MAX_VALUES else None


def _spellings(text: str) -> Iterator[str]:
    """What one value may have been before it was dumped in another type."""
    if text[0] != '"':
        yield from WORDS.get(text, ())
        forms = (text, restyle(text, "compact")) if text not in WORDS else ()
        yield from (json.dumps(form, ensure_ascii=False) for form in dict.fromkeys(forms))
        return
    bare = json.loads(text)
    yield from (word for word, others in WORDS.items() if text in others)
    if NUMBER.fullmatch(bare) or (bare[:1] in ("{", "[") and is_json(bare)):
        yield from dict.fromkeys((bare, restyle(bare, "spaced"), restyle(bare, "compact")))


def _values(text: str) -> Iterator[tuple[int, int]]:
    """Where the values stand in the text of a JSON object: every one but the keys and the object itself."""
    opened: list[int] = []
    found = list(VALUES.finditer(text))
    for piece, behind in zip(found, [*found[1:], None], strict=True):
        if piece[0] in ("{", "["):
            opened.append(piece.start())
        elif piece[0] in ("}", "]"):
            if len(opened) > 1:
                yield opened[-1], piece.end()
            del opened[-1:]
        elif piece[0] not in (":", ",") and (behind is None or behind[0] != ":"):
            yield piece.start(), piece.end()


def balanced(arguments: str) -> bool:
    """Whether a text looks like a JSON object: it opens one, and closes what it opens."""
    pieces = JSON_PIECE.findall(arguments)
    return pieces[:1] == ["{"] and all(pieces.count(a) == pieces.count(b) for a, b in ("{}", "[]"))
