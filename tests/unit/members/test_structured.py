from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.members.structured import closed, find, in_words
from fanfold.work.ask import Schema

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (' \n[1, 2]\n', [1, 2]),
        ("42", 42),
        ('"yes"', "yes"),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('Here it is:\n```\n{"a": 1}\n```\nAnything else?', {"a": 1}),
        ('```python\nx = {}\n```\nand\n```json\n[1]\n```', [1]),
        ('Sure! {"a": {"b": "}"}} Hope that helps.', {"a": {"b": "}"}}),
        ('As [1] says, {"a": 1, "b": 2}.', {"a": 1, "b": 2}),
        ('{broken {"a": 1}', {"a": 1}),
        ('```json\n{"a": "```"}\n```', {"a": "```"}),
        ("no JSON here", None),
        ("", None),
        ('{"a": 1', None),
        ("[NaN]", None),
        ('["\\ud800"]', None),
        ("\ud800 {}", {}),
        ("[" * 100_000, None),
        ("[1, " * 50_000, None),
    ],
)  # fmt: skip
def test_the_json_in_a_text_is_found(text: str, value: Any) -> None:
    assert find(text) == value


@given(JSON.filter(lambda value: isinstance(value, dict | list) and value))
def test_any_object_or_array_is_found_plain_fenced_and_in_prose(value: Any) -> None:
    text = msgspec.json.encode(value).decode()
    assert find(text) == find(f"```json\n{text}\n```") == find(f"Look: {text} - fine?") == value


@given(st.text(alphabet='[]{}",:1a `\n\\', max_size=300))
def test_whatever_the_text_is_what_is_found_is_a_value_of_json(text: str) -> None:
    found = find(text)
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_in_words_the_schema_stands_whole() -> None:
    assert in_words(Schema.of({"type": "array"})) == (
        'Reply with nothing but JSON that is valid against this JSON Schema:\n{"type":"array"}'
    )


def thing(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "additionalProperties": False}


NUMBER, TEXT = {"type": "number"}, {"type": "string"}


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "object", "properties": {"a": NUMBER}}, thing(a=NUMBER)),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}},
             "required": ["a"], "minProperties": 1},
            thing(a={"type": "integer"}) | {"required": ["a"]},
        ),
        (
            thing(a={"type": "array", "items": thing(b=TEXT), "minItems": 1, "maxItems": 3}),
            thing(a={"type": "array", "items": thing(b=TEXT), "minItems": 1}),
        ),
        (
            thing(a={"type": "string", "format": "date", "pattern": "^2"}, b={"enum": ["x", None]}),
            thing(a={"type": "string", "format": "date"}, b={"enum": ["x", None]}),
        ),
        (
            thing(a={"oneOf": [NUMBER, {"type": "null"}]}),
            thing(a={"anyOf": [NUMBER, {"type": "null"}]}),
        ),
        (
            thing(a={"$ref": "#/$defs/p", "description": "d"})
            | {"$defs": {"p": {"type": "object", "properties": {"x": NUMBER}}}},
            thing(a=thing(x=NUMBER) | {"description": "d"}),
        ),
        (thing(a={"allOf": [{"$ref": "#/$defs/p"}]}) | {"$defs": {"p": TEXT}}, thing(a=TEXT)),
        ({"type": "array", "items": NUMBER}, None),
        ({"type": "object"}, None),
        (thing(a={"type": "object", "additionalProperties": NUMBER}), None),
        (thing(a={"type": ["object", "null"]}), None),
        (thing(a={"$ref": "#/$defs/p"}) | {"$defs": {"p": thing(b={"$ref": "#/$defs/p"})}}, None),
        (thing(a={"$ref": "#"}), None),
        (thing(a={"$ref": "#/$defs/none"}), None),
        (thing(a={"$ref": "https://example.invalid/x"}), None),
        (thing(a=True), None),
        (thing(a={"enum": [{"b": 1}]}), None),
        (thing(a={"allOf": [thing(b=TEXT), thing(c=TEXT)]}), None),
        (thing(a=NUMBER) | {"anyOf": [thing(b=TEXT)]}, None),
    ],
)  # fmt: skip
def test_a_schema_is_closed_or_cannot_be_said(given: dict[str, Any], made: Any) -> None:
    assert closed(given) == made


def test_a_schema_that_grows_beyond_measure_cannot_be_said() -> None:
    levels = {
        f"l{n}": thing(a={"$ref": f"#/$defs/l{n + 1}"}, b={"$ref": f"#/$defs/l{n + 1}"})
        for n in range(40)
    }
    assert closed(thing(a={"$ref": "#/$defs/l0"}) | {"$defs": levels | {"l40": TEXT}}) is None
