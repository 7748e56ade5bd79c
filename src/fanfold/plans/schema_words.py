"""Keywords of JSON Schemas in a plan that are probably misspelt. JSON Schema ignores what it does not know,
so a schema that says `requried` is valid, and lets everything pass."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from fanfold.plans.asking import Asking
from fanfold.plans.plan import Plan, askings
from fanfold.work.nearest import nearest, quoted

_ONE = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LISTS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")  # `items` may be one too
_NAMED = (
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties",
)  # fmt: skip
_PLAIN = (
    "const", "contentEncoding", "contentMediaType", "default", "dependentRequired", "deprecated",
    "description", "enum", "examples", "exclusiveMaximum", "exclusiveMinimum", "format", "maxContains",
    "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength",
    "minProperties", "minimum", "multipleOf", "pattern", "readOnly", "required", "title", "type",
    "uniqueItems", "writeOnly",
)  # fmt: skip
KEYWORDS = frozenset((*_ONE, *_LISTS, *_NAMED, *_PLAIN))
_OTHERS = frozenset((
    "disallow", "divisibleBy", "example", "extends", "formatMaximum", "formatMinimum", "id", "instanceof",
    "note", "notes", "nullable", "optional", "propertyOrder", "propertyOrdering", "regexp", "titles",
    "tsType", "typeof",
))  # fmt: skip
"""Of older drafts, of OpenAPI, of other validators: near to one of these, and no slip."""
_LEAST, _LONGER = 0.75, 2  # how like, and by how many letters another length, a slip is


def schema_warnings(plan: Plan) -> tuple[str, ...]:
    """A line for each that is near to a keyword: what was meant nobody can know, so none is refused."""
    found: dict[str, None] = {}
    for _, asking in askings(plan):
        for field, definition in _schemas(asking):
            line = asking.lines.get(field, asking.lines.get(f"{field}_file", asking.line))
            where = plan.file if line is None else f"{plan.file}:{line}"
            for word, meant in slips(definition):
                what = f"{quoted(word)} is no keyword of JSON Schema, which ignores it"
                found[f"{where}: {what}: did you mean {quoted(meant)}?"] = None
    return tuple(found)


def _schemas(asking: Asking) -> Iterator[tuple[str, Any]]:
    """Each with the field in which it is."""
    if asking.schema is not None:
        yield "schema", asking.schema.definition
    yield from (("gate", one) for one in _in_gate(asking.gate))
    for tool in () if asking.tools is None else asking.tools.tools:
        yield "tools", tool.fields.arguments


def _in_gate(gate: Any) -> Iterator[Any]:
    """Those of checks, and what judges must reply, at any depth."""
    if isinstance(gate, list | tuple):
        for one in gate:
            yield from _in_gate(one)
    elif isinstance(gate, dict):
        for kind, given in gate.items():
            if kind == "schema":
                yield given
            elif kind in ("all_of", "any_of", "judge"):
                yield from _in_gate(given)


def slips(schema: Any) -> Iterator[tuple[str, str]]:
    """Words in places of keywords, at any depth, each with the keyword that it is near to."""
    if not isinstance(schema, dict):
        return
    for word, value in schema.items():
        if word in _ONE:
            yield from slips(value)
        elif word in _LISTS:
            for one in value if isinstance(value, list) else [value]:
                yield from slips(one)
        elif word in _NAMED:
            for one in value.values() if isinstance(value, dict) else ():
                yield from slips(one)
        elif meant := _meant(word):
            yield word, meant


def _meant(word: Any) -> str | None:
    """Names with other signs, such as `x-order`, and those of `$…` are somebody's own."""
    if not isinstance(word, str) or not word.isalpha() or word in KEYWORDS | _OTHERS:
        return None
    near = nearest(word, KEYWORDS)
    if near is None or abs(len(near) - len(word)) > _LONGER:
        return None
    like = SequenceMatcher(None, word.casefold(), near.casefold()).ratio()
    return near if like >= _LEAST else None
