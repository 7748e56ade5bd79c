"""Structured replies: how a schema is put to a model, and finding the JSON in what it says. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from fanfold.work.ask import Schema
from fanfold.work.nesting import decode_json

_TRIES = 64
_NODES = 1000
_FENCE = re.compile(r"```[\w-]*[ \t]*\r?\n(.*?)```", re.DOTALL)
_scan = json.JSONDecoder().raw_decode
_FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "uri", "uuid"}
_PLAIN = {"type", "title", "description", "default", "const", "required"}


# ── finding JSON ─────────────────────────────────────────────────────────────────────────────


def find(text: str) -> Any:
    """The JSON value in a reply: the whole text, a fenced block, or the longest object or array in
    the prose. None if there is none.
    """
    for candidate in (text, *_FENCE.findall(text)):
        found, value = _decoded(candidate)
        if found:
            return value
    return _longest(text)


def entire(text: str) -> Any:
    """The JSON object or array that a text is, alone or in one fenced block. None if it is none."""
    fenced = _FENCE.fullmatch(text.strip())
    inner = fenced[1] if fenced else text
    return _decoded(inner)[1] if inner.lstrip()[:1] in ("{", "[") else None


def _decoded(text: str) -> tuple[bool, Any]:
    try:
        return True, decode_json(text)
    except ValueError:
        return False, None


def _longest(text: str) -> Any:
    """Looks at so many openings only: a text of nothing but brackets must not take forever."""
    best, size, at = None, 0, 0
    for _ in range(_TRIES):
        places = [place for place in (text.find("{", at), text.find("[", at)) if place >= 0]
        start = min(places, default=-1)
        if start < 0:
            break
        end = _closing(text, start)
        at = max(end, start + 1)
        if end - start > size:
            found, value = _decoded(text[start:end])
            best, size = (value, end - start) if found else (best, size)
    return best


def _closing(text: str, start: int) -> int:
    try:
        return int(_scan(text, start)[1])
    except (ValueError, RecursionError):
        return -1


# ── asking for JSON ──────────────────────────────────────────────────────────────────────────


def in_words(schema: Schema) -> str:
    """For a schema that the API cannot take: the model is told, and the gate checks."""
    definition = msgspec.json.encode(schema.definition).decode()
    return f"Reply with nothing but JSON that is valid against this JSON Schema:\n{definition}"


def is_object(definition: dict[str, Any]) -> bool:
    return definition.get("type") == "object"


def closed(definition: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as constrained decoding takes it: objects closed, bounds and patterns left out.

    Whatever fits the result has the shape of the schema; what was left out is for the gate. None
    if it cannot be said so: recursion, open maps, a root that is no object.
    """
    if not is_object(definition):
        return None
    try:
        return _Closing(definition).schema(definition, ())
    except _Inexpressible:
        return None


class _Inexpressible(Exception):
    pass


class _Closing:
    """Definitions are put in where they are used, so their sum is bounded."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root, self._left = root, _NODES

    def schema(self, schema: Any, above: tuple[str, ...]) -> dict[str, Any]:
        """`above` are the references that led here."""
        self._left -= 1
        if self._left < 0 or not isinstance(schema, dict):
            raise _Inexpressible
        if "$ref" in schema:
            ref = schema["$ref"]
            if ref in above:
                raise _Inexpressible
            return self.schema(_without(schema, "$ref", self._referred(ref)), (*above, ref))
        if len(schema.get("allOf", ())) == 1:
            return self.schema(_without(schema, "allOf", schema["allOf"][0]), above)
        made = {name: value for name, value in schema.items() if name in _PLAIN}
        if "items" in schema:
            made["items"] = self.schema(schema["items"], above)
        return made | _values(schema) | self._choices(schema, above) | self._fields(schema, above)

    def _choices(self, schema: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        """Closed objects cannot be joined with others, so only a plain choice can be said."""
        names = [name for name in ("anyOf", "oneOf", "allOf") if name in schema]
        if not names:
            return {}
        if names not in (["anyOf"], ["oneOf"]) or "properties" in schema:
            raise _Inexpressible
        return {"anyOf": [self.schema(choice, above) for choice in schema[names[0]]]}

    def _fields(self, schema: dict[str, Any], above: tuple[str, ...]) -> dict[str, Any]:
        fields, kind = schema.get("properties"), schema.get("type")
        if fields:
            properties = {name: self.schema(field, above) for name, field in fields.items()}
            return {"properties": properties, "additionalProperties": False}
        if kind == "object" or (isinstance(kind, list) and "object" in kind):
            raise _Inexpressible
        return {}

    def _referred(self, ref: Any) -> Any:
        found: Any = self._root if isinstance(ref, str) and ref.startswith("#/") else None
        for step in str(ref).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            found = found.get(step) if isinstance(found, dict) else None
        return found


def _without(schema: dict[str, Any], name: str, instead: Any) -> dict[str, Any]:
    if not isinstance(instead, dict):
        raise _Inexpressible
    return {**instead, **{key: value for key, value in schema.items() if key != name}}


def _values(schema: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if "enum" in schema:
        if any(isinstance(value, dict | list) for value in schema["enum"]):
            raise _Inexpressible
        made["enum"] = schema["enum"]
    if schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
    if schema.get("minItems") in (0, 1):
        made["minItems"] = schema["minItems"]
    return made
