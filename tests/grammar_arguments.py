"""A call's arguments in other ways than the model's own `{"a": 1}`. Knows nothing of ids."""

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Json = dict[str, Any]


def restyled(rng: Random, plain: str) -> tuple[str, str]:
    """The name of a way, and arguments written in that way."""
    name = rng.choice(list(WAYS))
    return name, WAYS[name](rng, plain, json.loads(plain))


def _dump(value: Any, **how: Any) -> str:
    return json.dumps(value, ensure_ascii=False, **how)


def _with(*changes: Json) -> Callable[[Random, str, Json], str]:
    """One of these members added, or put in the place of another."""
    return lambda rng, plain, parsed: _dump(parsed | rng.choice(changes))


def _end(plain: str, parsed: Json, more: str) -> str:
    return plain[:-1] + (", " if parsed else "") + more + "}"


def _broken(rng: Random, plain: str, _: Json) -> str:
    ends = (plain[:-1], plain + "}", plain[:-1] + ",}", plain + plain, plain + " ok", "x" + plain)
    return rng.choice((*ends, "{'n': 1}", '{"n": }', "{n: 1}"))


NUMBERS = (
    *("1e5", "1E5", "1e-7", "0.00001", "1.50", "19.90", "48.850", "1.00", "-0", "1e6", "[1.50, 2]"),
    *("1.23456789012345678", "12345678901234567890", "0.1e1"),
)
TEXTS = (r'"https:\/\/x.org"', r'"a\/b"', r'"caf\u00e9"', r'"\u4f60"', r'"x\u0041"', r'"\ud83d\ude00"')
NO_OBJECTS = ('"text"', "7", "[1]", "null", "true", "hello", "[]", '[{"n": 1}]')

WAYS: Mapping[str, Callable[[Random, str, Json], str]] = {
    "compact": lambda _, plain, parsed: _dump(parsed, separators=(",", ":")),
    "half compact": lambda rng, plain, parsed: _dump(parsed, separators=rng.choice(((", ", ":"), (",", ": ")))),
    "indented": lambda rng, plain, parsed: _dump(parsed, indent=rng.choice((2, 4))),
    "padded": lambda _, plain, parsed: plain.replace("{", "{ ").replace("}", " }"),
    "escaped": lambda _, plain, parsed: json.dumps(parsed).replace("/", "\\/"),
    "number for text": _with({"path": 1}, {"path": True}, {"path": None}, {"path": 2.5}, {"path": {}}, {"path": []}),
    "text for number": _with(
        {"n": "7"}, {"ok": "true"}, {"x": "0.5"}, {"n": "7", "ok": "false"}, {"options": '{"a": 1}'}
    ),
    "float for integer": _with({"n": 7.0}, {"x": 1.0}, {"x": 3}),
    "undeclared key": _with({"z": 1}, {"z": "y"}, {"z": None}),
    "number as no dump has it": lambda rng, plain, parsed: _end(plain, parsed, f'"x": {rng.choice(NUMBERS)}'),
    "text as no dump has it": lambda rng, plain, parsed: _end(plain, parsed, f'"s": {rng.choice(TEXTS)}'),
    "doubled key": lambda _, plain, parsed: _end(plain, parsed, '"n": 1, "n": 2'),
    "no object": lambda rng, plain, parsed: rng.choice(NO_OBJECTS),
    "broken": _broken,
    "empty": lambda *_: "",
    "only blanks": lambda rng, plain, parsed: rng.choice((" ", "\n")),
    "named inside": lambda _, plain, parsed: _dump({"name": "run", "arguments": parsed}),
}
