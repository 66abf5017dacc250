"""Other JSON texts that say the same: what a host that parses arguments and dumps them again may have been given.

Blanks, escapes and spellings of numbers leave no trace in such a dump. Most change the number of ids, and the bill
tells; they are listed for those that do not. Knows nothing of providers.
"""

import json
import re
from collections.abc import Iterator
from decimal import Decimal

PIECES = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s":,{}\[\]]+|\s+', re.DOTALL)
NUMBER = re.compile(r"(-?)(\d+)(\.\d+)?([eE][+-]?\d+)?")
MAX_CHARS = 4 << 20  # of all spellings together: each is encoded
MAX_SLASHES = 16  # of one text, that are escaped one by one
MOST_A_PIECE = MAX_SLASHES + 4  # spellings of one token: slashes one by one, three ways at once, a blank
EXACT_DIGITS = 15  # of a number, that every host keeps
ZEROS = re.compile(r"0{3,}$")


def spellings(text: str, *, anywhere: bool = True) -> tuple[str, ...] | None:
    """Texts that differ from a JSON text in the spelling of one place; None where they are too many to try.

    A blank more or less behind each colon and comma, and with `anywhere` behind each other token; slashes and letters
    escaped or not; a number with other digits where they are lost (behind the point, in the exponent, behind the 15th),
    with an exponent or without one.

    >>> spellings('{"a":0.5}')[-4:]
    ('{"a":0.6}', '{"a":0.50}', '{"a":5e-1}', '{"a":0.5 }')
    """
    pieces = PIECES.findall(text)
    made: list[str] = []
    size, at = 0, 0
    for piece, behind in zip(pieces, [*pieces[1:], ""], strict=True):
        before, rest = text[:at], text[at + len(piece) :]
        blank = behind and (anywhere or (piece in (":", ",") and not behind.isspace()))
        others = [*_others(piece), *([piece + " "] if blank else [])]
        made += [before + other + rest for other in others if other != piece]
        size += len(text) * len(others)
        if size > MAX_CHARS:
            return None
        at += len(piece)
    return tuple(dict.fromkeys(made))


def too_many(text: str) -> bool:
    """Whether `spellings` gives up on a text, told without making them where it is short."""
    return len(text) ** 2 * MOST_A_PIECE > MAX_CHARS and spellings(text) is None


def _others(piece: str) -> Iterator[str]:
    if piece.isspace():
        yield ""
    elif piece[0] == '"':
        yield from _texts(piece)
    elif number := NUMBER.fullmatch(piece):
        yield from _numbers(piece, number)


def _texts(piece: str) -> Iterator[str]:
    value = json.loads(piece)
    plain, escaped = json.dumps(value, ensure_ascii=False), json.dumps(value)
    yield from (plain, escaped)
    slashes = [k for k, c in enumerate(plain) if c == "/"]
    if slashes:
        yield plain.replace("/", "\\/")
    if 1 < len(slashes) <= MAX_SLASHES:
        yield from (f"{plain[:k]}\\{plain[k:]}" for k in slashes)


def _numbers(piece: str, number: "re.Match[str]") -> Iterator[str]:
    sign, whole, part, exponent = number.groups(default="")
    if part or exponent:
        yield sign + whole + _shifted(part + exponent)
        yield sign + whole + part + "0" + exponent if part else f"{sign}{whole}.0{exponent}"
        yield from _scaled(piece, sign)
    elif whole == "0":
        yield whole if sign else "-0"
    elif ZEROS.search(whole):
        yield from _scaled(piece, sign)
    if len(whole) > EXACT_DIGITS:
        yield sign + whole[:EXACT_DIGITS] + _shifted(whole[EXACT_DIGITS:]) + part + exponent


def _shifted(digits: str) -> str:
    """Other digits, as many."""
    return re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), digits)


def _scaled(piece: str, sign: str) -> Iterator[str]:
    """The number with an exponent in the usual ways, and without one."""
    value = abs(Decimal(piece))
    digits, power = value.normalize().as_tuple()[1:]
    if not isinstance(power, int) or abs(power) > 30:  # no model writes that many zeros
        return
    row = "".join(map(str, digits))
    yield f"{sign}{row}e{power}"
    if len(row) > 1:
        yield f"{sign}{row[0]}.{row[1:]}e{power + len(row) - 1}"
    fixed = format(value.normalize(), "f")
    yield from (sign + fixed, f"{sign}{fixed}.0" if "." not in fixed else f"{sign}{fixed}0")
