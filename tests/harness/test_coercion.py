"""coercion: arguments written anew where a value misses its declared type."""

from typing import Any

import pytest

from harness.coercion import coerce_arguments

COERCED = [
    ({"type": "string"}, '{"k": 1}', '{"k": "1"}'),
    ({"type": "string"}, '{"k":"1"}', '{"k":"1"}'),
    ({"type": "integer"}, '{"k":"3"}', '{"k": 3}'),
    ({"type": "integer"}, '{"k":"x"}', '{"k":"x"}'),
    ({"type": "number"}, '{"k":1.0}', '{"k": 1}'),
    ({"type": "number"}, '{"k":1.5}', '{"k":1.5}'),
    ({"type": "boolean"}, '{"k":"True"}', '{"k": true}'),
    ({"type": ["string", "null"]}, '{"k":null}', '{"k":null}'),
    ({"type": "bool"}, '{"k":0}', '{"k": false}'),
    ({"type": "object"}, '{"k":"{\\"a\\": 1}"}', '{"k": {"a": 1}}'),
    ({"type": "array", "items": {"type": "string"}}, '{"k":[1,"b"]}', '{"k": ["1", "b"]}'),
    ({"properties": {"x": {"type": "string"}}}, '{"k":{"x":1}}', '{"k": {"x": "1"}}'),
    ({"enum": [1, 2]}, '{"k":"2"}', '{"k": 2}'),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, '{"k":"null"}', '{"k": null}'),
    ({}, '{"k":2}', '{"k": "2"}'),
    ({"type": 5}, '{"k":2}', '{"k": "2"}'),
    ({"type": {"a": 1}, "enum": 5, "anyOf": 5}, '{"k":2}', '{"k": "2"}'),
    ({"type": "string"}, '{"k": 1,,', '{"k": 1,,'),
    ({"type": "string"}, "[1]", "[1]"),
    ({"type": "string"}, '{"other":1}', '{"other":1}'),
    ({"type": "number"}, '{"k":"1e999"}', '{"k":"1e999"}'),
]


@pytest.mark.parametrize(("schema", "arguments", "want"), COERCED)
def test_arguments_are_written_anew_only_where_a_value_changes(
    schema: dict[str, Any], arguments: str, want: str
) -> None:
    """The declared type wins where the value can be read as it; else the text stays byte for byte."""
    tools = [{"name": "f", "parameters": {"properties": {"k": schema}}}]
    assert coerce_arguments(arguments, "f", tools) == want
    assert coerce_arguments(arguments, "g", tools) == arguments
