"""Arguments written anew where a value misses its declared type, as vLLM 0.32.0 does it in whole bodies. Pure."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_ALIASES = {
    **dict.fromkeys(("str", "text", "varchar", "char", "enum"), "string"),
    **dict.fromkeys(("int", "int32", "int64", "uint", "uint32", "uint64", "long", "short", "unsigned"), "integer"),
    **dict.fromkeys(("float", "float32", "float64", "double"), "number"),
    **dict.fromkeys(("arr", "list", "sequence"), "array"),
    "bool": "boolean",
    "dict": "object",
}
_ENUM_TYPES = (
    (type(None), "null"),
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def coerce_arguments(arguments: str, name: str, tools: Iterable[Mapping[str, Any]]) -> str:
    """The arguments as they came, or dumped again where the schema of the tool changes a value."""
    properties = next((_properties(tool) for tool in tools if tool.get("name") == name), {})
    if not properties:
        return arguments
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    fitted = _fit_object(parsed, properties)
    return arguments if _same(fitted, parsed) else json.dumps(fitted, ensure_ascii=False)


def _properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (tool.get("parameters") or {}).get("properties")
    return found if isinstance(found, dict) else {}


def _fit_object(value: dict[str, Any], properties: Mapping[str, Any]) -> dict[str, Any]:
    schemas = {key: properties.get(key) for key in value}
    return {key: _fit(v, s) if isinstance(s := schemas[key], dict) else v for key, v in value.items()}


def _fit(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        inner = schema.get("properties")
        return _fit_object(value, inner) if isinstance(inner, dict) else value
    if isinstance(value, list):
        items = schema.get("items")
        return [_fit(item, items) for item in value] if isinstance(items, dict) else value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _coerce(text, _types(schema))


def _same(one: Any, other: Any) -> bool:
    """Equal in value and in every type: 1, 1.0 and True are three things."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return all(_same(v, other[k]) for k, v in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _types(schema: Any) -> set[str]:
    """All types that a schema allows; string where it says nothing."""
    if not isinstance(schema, dict):
        return {"string"}
    said = schema.get("type")
    found = {t for t in (said if isinstance(said, list) else [said]) if isinstance(t, str)}
    if isinstance(schema.get("enum"), list):
        found |= {next(name for kind, name in _ENUM_TYPES if isinstance(v, kind)) for v in schema["enum"]}
    for field in ("anyOf", "oneOf", "allOf"):
        for choice in schema[field] if isinstance(schema.get(field), list) else ():
            found |= _types(choice)
    return {_ALIASES.get(t.strip().lower(), t.strip().lower()) for t in found} or {"string"}


def _null(text: str) -> None:
    if text.lower() != "null":
        raise ValueError(text)


def _number(text: str) -> float | int:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return int(number) if number == int(number) else number


def _boolean(text: str) -> bool:
    try:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower().strip()]
    except KeyError:
        raise ValueError(text) from None


def _json(text: str) -> Any:
    parsed = json.loads(text)
    json.dumps(parsed, allow_nan=False)
    return parsed


# In the order in which they are tried; the first that succeeds wins.
_READERS: Mapping[str, Callable[[str], Any]] = {
    "null": _null,
    "integer": int,
    "number": _number,
    "boolean": _boolean,
    "object": _json,
    "array": _json,
    "string": str,
}


def _coerce(text: str, types: set[str]) -> Any:
    for kind in (k for k in _READERS if k in types):
        try:
            return _READERS[kind](text)
        except (ValueError, RecursionError):
            continue
    try:
        return _json(text)
    except (ValueError, RecursionError):
        return text
