"""Tool declarations: what the official encoder writes, and when it gives up."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.declare import declaration, typescript
from harness.errors import SetupError

HEAD = "# Tools\n\n## functions\nnamespace functions {\n"
TAIL = "\n}\n"


def tool(parameters: object, name: str = "f", description: str | None = None) -> dict[str, Any]:
    """A tool as a request holds it."""
    function: dict[str, Any] = {"name": name, "parameters": parameters}
    if description is not None:
        function["description"] = description
    return {"type": "function", "function": function}


def one_field(schema: object) -> dict[str, Any]:
    """A tool with one required field `v` of this schema."""
    return tool({"type": "object", "properties": {"v": schema}, "required": ["v"]})


def body(tools: list[dict[str, Any]]) -> str:
    """The TypeScript form without the lines that every declaration has."""
    text = typescript(tools)
    assert text is not None
    assert text.startswith(HEAD)
    assert text.endswith(TAIL)
    return text[len(HEAD) : -len(TAIL)]


FIELDS = [
    pytest.param({"type": "string"}, "  v: string", id="string"),
    pytest.param({"type": "integer"}, "  v: number", id="integer-is-number"),
    pytest.param({"type": "boolean"}, "  v: boolean", id="boolean"),
    pytest.param({"type": "null"}, "  v: null", id="null"),
    pytest.param({}, "  v: any", id="empty-schema-is-any"),
    pytest.param(True, "  v: any", id="true-is-any"),
    pytest.param(False, "  v: null", id="false-is-null"),
    pytest.param({"type": ["string", "null"]}, "  v: string | null", id="type-list"),
    pytest.param({"type": ["object", "array"]}, "  v: {} | Array<any>", id="type-list-of-containers"),
    pytest.param({"anyOf": [{"type": "integer"}, {"enum": ["x"]}]}, '  v: number | "x"', id="any-of"),
    pytest.param({"enum": ["a", 1, 2.5, None, True]}, '  v: "a" | 1 | 2.5 | None | True', id="enum-python-spelling"),
    pytest.param({"type": "string", "enum": ["b", "a"]}, '  v: "b" | "a"', id="enum-keeps-its-order"),
    pytest.param({"type": ["null", "integer"], "enum": [1, None]}, "  v: 1 | None", id="enum-nullable"),
    pytest.param({"type": "string", "enum": ['say "hi"']}, '  v: "say "hi""', id="enum-quotes-not-escaped"),
    pytest.param({"type": "array"}, "  v: Array<any>", id="array-without-items"),
    pytest.param({"type": "array", "items": {}}, "  v: Array<any>", id="array-of-anything"),
    pytest.param({"type": "object"}, "  v: {}", id="object-without-fields"),
    pytest.param(
        {"type": "object", "additionalProperties": True}, "  v: {\n    [k: string]: any\n  }", id="open-object"
    ),
    pytest.param(
        {"type": "object", "properties": {"a": True}, "additionalProperties": {"type": "integer"}},
        "  v: {\n    a?: any,\n    [k: string]: number\n  }",
        id="index-signature-last",
    ),
    pytest.param({"type": "object", "additionalProperties": None}, "  v: {}", id="null-additional-is-none"),
    pytest.param(
        {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a"},
        "  // maxLength: 9, minLength: 1, pattern: ^a\n  v: string",
        id="string-bounds-sorted",
    ),
    pytest.param(
        {"type": "integer", "minimum": 0, "maximum": 10, "exclusiveMinimum": 1},
        "  // maximum: 10, minimum: 0\n  v: number",
        id="number-bounds-of-two-kinds-only",
    ),
    pytest.param({"type": "boolean", "minimum": 3}, "  v: boolean", id="bounds-of-another-type-are-dropped"),
    pytest.param(
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "  // maxItems: 3, minItems: 1\n  v: Array<string>",
        id="array-bounds",
    ),
    pytest.param(
        {"type": "array", "items": {"type": "string", "description": "A port"}},
        "  v: Array<\n    // A port\n    string\n  >",
        id="array-item-with-a-comment",
    ),
    pytest.param(
        {
            "type": "array",
            "items": {"type": "object", "description": "D", "properties": {"x": {"type": "number"}}},
        },
        "  v: Array<\n    // D\n    {\n      x?: number\n    }\n  >",
        id="array-of-commented-objects-indents-once-more",
    ),
    pytest.param({"type": "number", "default": 1.0}, "  // Default: 1.0\n  v: number", id="default-float"),
    pytest.param({"type": "boolean", "default": False}, "  // Default: False\n  v: boolean", id="default-python-bool"),
    pytest.param({"type": "string", "default": "é"}, '  // Default: "é"\n  v: string', id="default-raw-unicode"),
    pytest.param(
        {"type": "object", "default": {"b": [1, 2], "a": 1}},
        '  // Default: {"a": 1, "b": [1, 2]}\n  v: {}',
        id="default-object-spaced-and-sorted",
    ),
    pytest.param(
        {"type": "string", "description": "D", "minLength": 2, "default": "x"},
        '  // D\n  // minLength: 2\n  // Default: "x"\n  v: string',
        id="comment-order",
    ),
    pytest.param({"type": "string", "description": "a\n\nb"}, "  // a\n\n  // b\n  v: string", id="blank-line-is-bare"),
]


@pytest.mark.parametrize(("schema", "expected"), FIELDS)
def test_field(schema: object, expected: str) -> None:
    """Each kind of schema is written as the official encoder writes it."""
    assert body([one_field(schema)]) == f"type f = (_: {{\n{expected}\n}}) => any;"


NO_FORM = [
    pytest.param({"oneOf": [{"type": "string"}]}, id="oneOf"),
    pytest.param({"allOf": [{"type": "object"}]}, id="allOf"),
    pytest.param({"const": "x"}, id="const"),
    pytest.param({"description": "no type"}, id="no-type"),
    pytest.param({"$ref": "#/definitions/P"}, id="ref-outside-defs"),
    pytest.param({"$ref": "#/$defs/Missing"}, id="ref-to-nothing"),
    pytest.param({"type": ["string", "date"]}, id="unknown-name-in-type-list"),
    pytest.param({"type": "integer", "enum": ["a"]}, id="enum-value-of-another-type"),
    pytest.param({"type": ["string", "integer", "null"], "enum": ["a"]}, id="enum-with-three-types"),
    pytest.param({"type": ["string", "integer"], "enum": ["a"]}, id="enum-with-two-types-none-null"),
    pytest.param({"type": "array", "items": [{"type": "string"}]}, id="tuple-items"),
    pytest.param({"type": "object", "required": None, "properties": {"a": {}}}, id="required-null"),
    pytest.param({"type": "object", "additionalProperties": "no"}, id="additional-neither-bool-nor-schema"),
    pytest.param({"type": "string", "description": 5}, id="description-no-string"),
    pytest.param("string", id="schema-no-object"),
]


@pytest.mark.parametrize("schema", NO_FORM)
def test_schema_without_typescript_form_falls_back_to_json_for_all_tools(schema: object) -> None:
    """One schema without a TypeScript form sends every tool of the request in the JSON form."""
    tools = [one_field({"type": "string"}), one_field(schema)]

    assert typescript(tools) is None
    assert declaration(tools, "typescript") == declaration(tools, "json")


def test_json_form_is_compact_sorted_and_raw() -> None:
    """The JSON form sorts keys at every depth, has no spaces and leaves letters as they are."""
    tools = [{"type": "function", "function": {"name": "f", "description": "Größe", "a": [{"z": 1, "b": None}]}}]

    expected = '[{"function":{"a":[{"b":null,"z":1}],"description":"Größe","name":"f"},"type":"function"}]'
    assert declaration(tools, "json") == expected


@pytest.mark.parametrize("style", ["json", "typescript"])
def test_options_of_the_request_are_not_declared(style: str) -> None:
    """`strict` asks something of the host; the model does not read it. A field of that name is another thing."""
    plain = tool({"type": "object", "properties": {"strict": {"type": "boolean"}}})
    strict = {"type": "function", "function": {**plain["function"], "strict": True}}

    assert declaration([strict], style) == declaration([plain], style)
    assert "strict" in declaration([plain], style)


def test_fields_are_sorted_required_first() -> None:
    """Required fields come first, each group by name as strings compare (p10 before p2)."""
    names = ["p2", "p10", "p1", "a"]
    schema = {"type": "object", "properties": {n: {"type": "string"} for n in names}, "required": ["p2", "p10"]}

    assert (
        body([tool(schema)])
        == "type f = (_: {\n  p10: string,\n  p2: string,\n  a?: string,\n  p1?: string\n}) => any;"
    )


def test_two_tools_each_with_description() -> None:
    """Tools keep their order, a description is a comment above the type, an empty one is left out."""
    tools = [tool({}, "b", "Second\nline"), tool({}, "a", "")]

    assert body(tools) == "// Second\n// line\ntype b = (_: {}) => any;\ntype a = (_: {}) => any;"


def test_definitions_become_interfaces() -> None:
    """Each of $defs is an interface above the description; a field that refers to it has no comment of its target."""
    schema = {
        "type": "object",
        "properties": {"q": {"type": "array", "items": {"$ref": "#/$defs/P"}}, "p": {"$ref": "#/$defs/P"}},
        "$defs": {
            "P": {"type": "object", "description": "A point", "properties": {"x": {"type": "number"}}},
            "E": {"enum": ["a"]},
        },
    }

    assert body([tool(schema, description="D.")]) == (
        'interface E "a"\n// A point\ninterface P {\n  x?: number\n}\n// D.\n'
        "type f = (_: {\n  p?: P,\n  q?: Array<P>\n}) => any;"
    )


def test_reference_to_the_root_names_the_parameters() -> None:
    """`#` turns the parameters into an interface of that name, whose fields stand by name alone."""
    schema = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"$ref": "#"}},
        "required": ["b"],
        "additionalProperties": False,
    }

    assert body([tool(schema)]) == (
        "interface parameters {\n  a?: parameters,\n  b: string\n}\ntype f = (_: parameters) => any;"
    )


def test_reference_to_the_root_from_a_definition_comes_too_late() -> None:
    """Only a field can turn the parameters into an interface: definitions are read after the parameters were."""
    schema = {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/P"}},
        "$defs": {"P": {"type": "array", "items": {"$ref": "#"}}},
    }

    assert body([tool(schema)]) == "interface P Array<parameters>\ntype f = (_: {\n  p?: P\n}) => any;"


def test_definition_met_later_is_unknown_at_an_earlier_reference() -> None:
    """Definitions of a nested object count from there on only, fields being read by name."""
    nested = {"type": "object", "$defs": {"P": {"type": "string"}}}

    late = {"type": "object", "properties": {"a": {"$ref": "#/$defs/P"}, "b": nested}}
    early = {"type": "object", "properties": {"c": {"$ref": "#/$defs/P"}, "b": nested}}

    assert typescript([tool(late)]) is None
    assert body([tool(early)]) == "interface P string\ntype f = (_: {\n  b?: {},\n  c?: P\n}) => any;"


def test_tools_of_another_kind_have_no_typescript_form() -> None:
    """Only functions are written; with none of them left the JSON form is used."""
    other = {"type": "builtin_function", "function": {"name": "$web_search"}}

    assert body([other, tool({})]) == "type f = (_: {}) => any;"
    assert declaration([other], "typescript") == '[{"function":{"name":"$web_search"},"type":"builtin_function"}]'


def test_input_is_left_as_it_was() -> None:
    """Sorting works on a copy."""
    tools = [tool({"type": "object", "properties": {"b": {}, "a": {}}})]
    before = json.dumps(tools)

    declaration(tools, "typescript")

    assert json.dumps(tools) == before


def test_unknown_style_lists_the_known_ones() -> None:
    """A style that no table line covers is our error and names those that are covered."""
    with pytest.raises(SetupError, match=r"xml.*json.*typescript"):
        declaration([tool({})], "xml")


@pytest.mark.parametrize("bad", ["bash", {"type": "function"}, {"type": "function", "function": {"description": "x"}}])
def test_tool_without_definition_is_a_clear_error(bad: Any) -> None:
    """A bare name, or a tool without function or name, is refused with its place."""
    with pytest.raises(SetupError, match=r"tools\[1\] is"):
        declaration([tool({}), bad], "json")


@pytest.mark.parametrize("style", ["json", "typescript"])
def test_schema_too_deep_is_a_clear_error(style: str) -> None:
    """A schema nested beyond any use is refused with words, not with a stack overflow."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(5_000):
        schema = {"type": "array", "items": schema}

    with pytest.raises(SetupError, match="nested too deeply"):
        declaration([one_field(schema)], style)


@pytest.mark.shared
def test_every_reference_declaration(shared: Path) -> None:
    """All reference pairs of the official encoder agree, and it gave up on exactly the others."""
    lines = [json.loads(x) for x in (shared / "kimi-k2.5/tool_declarations.jsonl").read_text("utf-8").splitlines()]

    pairs = [(x["tools"], x["declaration"]) for x in lines if "declaration" in x]
    given_up = [x["tools"] for x in lines if "error" in x]

    assert (len(pairs), len(given_up)) == (17, 4)
    assert [typescript(tools) for tools, _ in pairs] == [text for _, text in pairs]
    assert [typescript(tools) for tools in given_up] == [None] * len(given_up)
