"""A value that is valid against a JSON Schema: what a model would say when nobody scripted it."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

_DEEP = 4
_FORMATS = {
    "date": "2024-01-31",
    "time": "12:00:00Z",
    "date-time": "2024-01-31T12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example(schema: dict[str, Any]) -> Any:
    """The same value for the same schema, with optional fields filled in a few levels deep.

    It does not read `pattern`, `not`, `if` or `dependent…`: script the data where those matter.
    """
    return _value(schema, schema, 0)


def _value(schema: Any, root: dict[str, Any], depth: int) -> Any:
    if not isinstance(schema, dict):
        return "text"
    schema = _resolved(schema, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match _kind(schema):
        case "object":
            return _object(schema, root, depth)
        case "array":
            first = [_value(inner, root, depth + 1) for inner in schema.get("prefixItems", ())]
            wanted = max(schema.get("minItems", 0), 1 if depth < _DEEP else 0)
            wanted = min(wanted, schema.get("maxItems", wanted))
            return first + [_value(schema.get("items", {}), root, depth + 1) for _ in range(wanted)]
        case "integer":
            return _integer(schema)
        case "number":
            return _number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            known = _FORMATS.get(schema.get("format", ""))
            if known is not None:
                return known
            return "text".ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The schema with its reference followed, its parts joined and its first choice taken."""
    while "$ref" in schema:
        rest = {name: value for name, value in schema.items() if name != "$ref"}
        ref = schema["$ref"]
        found: Any = root
        for step in ref.removeprefix("#").split("/")[1:]:
            found = found[step.replace("~1", "/").replace("~0", "~")]
        schema = {**dict(found), **rest}
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            rest = {name: value for name, value in schema.items() if name != choice}
            schema = _joined(rest, _resolved(schema[choice][0], root))
    for part in schema.get("allOf", ()):
        schema = _joined(schema, _resolved(part, root))
    return schema


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    properties = {**one.get("properties", {}), **other.get("properties", {})}
    required = [*one.get("required", ()), *other.get("required", ())]
    return {**one, **other, "properties": properties, "required": required}


def _kind(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind is None and schema.get("properties"):
        return "object"
    if kind is None and "items" in schema:
        return "array"
    return kind or "string"


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int) -> dict[str, Any]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    made = {
        name: _value(inner, root, depth + 1)
        for name, inner in properties.items()
        if depth < _DEEP or name in required
    }
    extra = schema.get("additionalProperties", {})
    return made | {name: _value(extra, root, depth + 1) for name in required if name not in made}


def _integer(schema: dict[str, Any]) -> int:
    low = ceil(schema.get("minimum", -10e15))
    low = max(low, floor(schema.get("exclusiveMinimum", -10e15)) + 1)
    high = floor(schema.get("maximum", 10e15))
    high = min(high, ceil(schema.get("exclusiveMaximum", 10e15)) - 1)
    step = schema.get("multipleOf", 1)
    return int(ceil(min(max(1, low), high) / step) * step)


def _number(schema: dict[str, Any]) -> float:
    low = max(schema.get("minimum", -10e15), schema.get("exclusiveMinimum", -10e15))
    high = min(schema.get("maximum", 10e15), schema.get("exclusiveMaximum", 10e15))
    if low < 0.5 < high:
        near = 0.5
    elif low >= 0.5:
        near = (low + high) / 2 if high < 10e15 else low + 0.5
    else:
        near = (low + high) / 2 if low > -10e15 else high - 0.5
    step = schema.get("multipleOf")
    return float(near if step is None else ceil(near / step) * step)
