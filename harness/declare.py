"""Tool definitions of a request -> the text that declares them in the prompt.

Two styles: compact sorted JSON (K2), and the TypeScript-like form of K2.5 and later, which falls back to JSON for the
whole request where one schema has no such form. Every detail follows the official encoder, oddities included (Python's
spelling of enum values, quotes not escaped): the aim is its bytes, not good TypeScript. The TypeScript form is held
against its reference output; the JSON form is checked by real prompt bills only.

Knows nothing of ids, messages or formats.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from harness.errors import SetupError

STEP = "  "
UNION_NAMES = MappingProxyType(
    {
        "string": "string",
        "number": "number",
        "integer": "number",
        "boolean": "boolean",
        "null": "null",
        "object": "{}",
        "array": "Array<any>",
    }
)
"""How a name inside a list of types is written."""

BOUNDS = MappingProxyType(
    {
        "string": ("maxLength", "minLength", "pattern"),
        "number": ("maximum", "minimum"),
        "integer": ("maximum", "minimum"),
        "array": ("maxItems", "minItems"),
    }
)
"""The constraints that a type shows in its comment, in this order; all others are dropped."""

ENUM_VALUES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,)}
)
"""What an enum of a declared type may hold (null apart); other types are not checked."""

REQUEST_OPTIONS = frozenset({"strict"})
"""Fields of a function that ask something of the host; by real prompt bills Moonshot AI and Novita leave them out."""


class _NoForm(Exception):
    """This schema has no TypeScript form."""


@dataclass(slots=True)
class _Scope:
    """Definitions met so far in one function: a reference sees only those read before it."""

    definitions: dict[str, Any] = field(default_factory=dict)
    refers_to_root: bool = False


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    optional: bool
    text: str


def declaration(tools: Sequence[Mapping[str, Any]], style: str) -> str:
    """The declaration of `tools` in a style of STYLES.

    Raises:
        SetupError: The style is unknown, a tool is none, or the tools are nested beyond what can be read.
    """
    if style not in STYLES:
        raise SetupError(f"tool declaration style {style!r} is not one of {sorted(STYLES)}; add a line to STYLES")
    for i, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise SetupError(
                f'tools[{i}] is {str(tool)[:80]!r}, expected {{"type": "function", "function": {{"name": ...}}}}; '
                "without its definition the prompt cannot be rendered"
            )
    try:
        return STYLES[style](tools)
    except RecursionError:
        raise SetupError(
            "a tool's schema is nested too deeply to be declared; flatten it or leave the tool out"
        ) from None


def compact_json(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools as JSON: keys sorted at every depth, no spaces, letters as they are, options of the request left out.

    compact_json([{"type": "function", "function": {"name": "f"}}]) == '[{"function":{"name":"f"},"type":"function"}]'
    """
    declared = [{**tool, "function": _without_options(tool["function"])} for tool in tools]
    return json.dumps(_sorted(declared), separators=(",", ":"), ensure_ascii=False)


def _without_options(function: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in function.items() if key not in REQUEST_OPTIONS}


def typescript(tools: Sequence[Mapping[str, Any]]) -> str | None:
    """The tools in the TypeScript-like form; None where a schema has none, or where no tool is a function."""
    functions = [t["function"] for t in _sorted(tools) if t.get("type") == "function" and t.get("function")]
    if not functions:
        return None
    try:
        types = "\n".join(map(_function, functions))
    except _NoForm:
        return None
    return f"# Tools\n\n## functions\nnamespace functions {{\n{types}\n}}\n"


STYLES: Mapping[str, Callable[[Sequence[Mapping[str, Any]]], str]] = MappingProxyType(
    {"json": compact_json, "typescript": lambda tools: typescript(tools) or compact_json(tools)}
)


def _sorted(value: Any) -> Any:
    """A copy whose keys are sorted at every depth."""
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_sorted(item) for item in value]
    return value


def _need(truth: object) -> None:
    """Give up on this form unless `truth`."""
    if not truth:
        raise _NoForm


def _function(function: Mapping[str, Any]) -> str:
    """Interfaces of the definitions, the description, the type: one block."""
    scope = _Scope()
    parameters = function.get("parameters") or {}
    _need(isinstance(parameters, dict))
    fields, extra = _members(parameters, "", scope)
    blocks = []
    named = scope.refers_to_root  # by a field; a definition that refers to the root comes too late to name it
    if named:  # this interface alone keeps its fields by name and shows no index signature
        blocks.append(f"interface parameters {_braces([f.text for f in fields], '')}")
    for name, schema in list(scope.definitions.items()):  # those met while writing these get no interface
        _need(isinstance(schema, dict))
        written = _type(schema, "", scope)
        blocks.append(f"{_comment(schema.get('description'), '')}interface {name} {written}")
    argument = "parameters" if named else _braces(_in_order(fields) + extra, "")
    blocks.append(f"{_comment(function.get('description'), '')}type {function.get('name')} = (_: {argument}) => any;")
    return "\n".join(blocks)


def _comment(text: Any, indent: str) -> str:
    """Comment lines of a description; a blank line stays bare."""
    if not text:
        return ""
    _need(isinstance(text, str))
    return "".join(f"{indent}// {line}\n" if line else "\n" for line in text.split("\n"))


def _notes(schema: Any, indent: str) -> str:
    """Everything that stands above a type: its description, then its bounds."""
    if not isinstance(schema, dict):
        return ""
    bounds = BOUNDS.get(_kind(schema), ())
    shown = ", ".join(f"{key}: {schema[key]}" for key in bounds if key in schema)
    return _comment(schema.get("description"), indent) + (f"{indent}// {shown}\n" if shown else "")


def _kind(schema: Mapping[str, Any]) -> str:
    """The first keyword that decides, else the name of the type."""
    for keyword in ("$ref", "anyOf", "enum"):
        if keyword in schema:
            return keyword
    if not schema:
        return "any"
    named = schema.get("type")
    if isinstance(named, list):
        return "union"
    if not isinstance(named, str):
        raise _NoForm
    return named


def _type(schema: Any, indent: str, scope: _Scope) -> str:
    """A schema as a type; lines after the first stand at `indent` or deeper."""
    if isinstance(schema, bool):
        return "any" if schema else "null"
    _need(isinstance(schema, dict))
    kind = _kind(schema)
    if kind in WRITERS:
        return WRITERS[kind](schema, indent, scope)
    return "number" if kind == "integer" else kind


def _reference(schema: Mapping[str, Any], indent: str, scope: _Scope) -> str:
    target = schema["$ref"]
    if target == "#":
        scope.refers_to_root = True
        return "parameters"
    _need(isinstance(target, str) and target.startswith("#/$defs/"))
    name = target.rsplit("/", 1)[-1]
    _need(isinstance(scope.definitions.get(name), dict))
    return str(name)


def _any_of(schema: Mapping[str, Any], indent: str, scope: _Scope) -> str:
    _need(isinstance(schema["anyOf"], list))
    return " | ".join(_type(option, indent, scope) for option in schema["anyOf"])


def _union(schema: Mapping[str, Any], indent: str, scope: _Scope) -> str:
    _need(all(isinstance(name, str) and name in UNION_NAMES for name in schema["type"]))
    return " | ".join(UNION_NAMES[name] for name in schema["type"])


def _enum(schema: Mapping[str, Any], indent: str, scope: _Scope) -> str:
    values, declared = schema["enum"], schema.get("type")
    _need(isinstance(values, list))
    if isinstance(declared, list):
        _need(len(declared) == 1 or (len(declared) == 2 and "null" in declared))
        declared = next((name for name in declared if name != "null"), "null")
    if isinstance(declared, str) and declared in ENUM_VALUES:
        _need(all(value is None or isinstance(value, ENUM_VALUES[declared]) for value in values))
    return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)


def _array(schema: Mapping[str, Any], indent: str, scope: _Scope) -> str:
    items = schema.get("items")
    if not items:
        return "Array<any>"
    notes = _notes(items, indent + STEP)
    if not notes:
        return f"Array<{_type(items, indent, scope)}>"
    return f"Array<\n{notes}{indent}{STEP}{_type(items, indent + STEP, scope)}\n{indent}>"


def _object(schema: Mapping[str, Any], indent: str, scope: _Scope) -> str:
    fields, extra = _members(schema, indent, scope)
    return _braces(_in_order(fields) + extra, indent)


def _members(schema: Mapping[str, Any], indent: str, scope: _Scope) -> tuple[list[_Field], list[str]]:
    """Fields by name, and the index signature (one text or none). Reads in the order that decides what is defined."""
    scope.definitions.update(schema.get("$defs") or {})
    extra = []
    additional = schema.get("additionalProperties")
    if additional is not None:
        _need(isinstance(additional, bool | dict))
        written = {True: "any", False: "never"}.get(additional) if isinstance(additional, bool) else None
        extra.append(f"{indent}{STEP}[k: string]: {written or _type(additional, indent + STEP, scope)}")
    properties, required = schema.get("properties", {}), schema.get("required", [])
    _need(isinstance(properties, dict) and isinstance(required, list))
    fields = [
        _Field(name, name not in required, _field(name, value, name not in required, indent + STEP, scope))
        for name, value in properties.items()
    ]
    return fields, extra


def _field(name: str, schema: Any, optional: bool, indent: str, scope: _Scope) -> str:
    written = _type(schema, indent, scope)
    default = schema.get("default") if isinstance(schema, dict) else None
    notes = _notes(schema, indent)
    if default is not None:
        shown = repr(default) if isinstance(default, int | float) else json.dumps(default, ensure_ascii=False)
        notes += f"{indent}// Default: {shown}\n"
    return f"{notes}{indent}{name}{'?' if optional else ''}: {written}"


def _in_order(fields: Sequence[_Field]) -> list[str]:
    """Required fields, then optional ones; each group by name."""
    return [f.text for f in sorted(fields, key=lambda f: (f.optional, f.name))]


def _braces(members: Sequence[str], indent: str) -> str:
    return "{\n" + ",\n".join(members) + f"\n{indent}}}" if members else "{}"


WRITERS: Mapping[str, Callable[[Mapping[str, Any], str, _Scope], str]] = MappingProxyType(
    {"$ref": _reference, "anyOf": _any_of, "union": _union, "enum": _enum, "array": _array, "object": _object}
)
"""How each kind of schema is written; a name that is not here is a plain type."""
