"""Types of the user's as schemas, and replies as such types: pydantic models, msgspec records, dataclasses,
typed dicts."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from fanfold.errors import BadInput
from fanfold.work.check import described

T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


def definition_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type. Its root is the object itself, no reference to one: services want
    that."""
    own = getattr(kind, "model_json_schema", None)
    if own is not None and isinstance(kind, type):
        return cast(dict[str, Any], own())
    if not isinstance(kind, type) or kind.__module__ == "builtins":
        raise _no_schema(kind)
    try:
        made = msgspec.json.schema(kind)
    except TypeError as error:
        first = str(error).splitlines()[0].rstrip(":")
        raise BadInput(f"`schema`: {kind.__name__} has no JSON Schema: {first}") from None
    name = made.get("$ref", "").removeprefix("#/$defs/")
    if not name:
        raise _no_schema(kind)
    shared = made["$defs"]
    root = shared[name]
    if b'"#/$defs/%s"' % name.encode() not in _encode(shared):  # it does not refer to itself
        del shared[name]
    return {**root, "$defs": shared} if shared else dict(root)


def _no_schema(kind: Any) -> BadInput:
    what = (
        "`schema` must be a JSON Schema (a dict) or a type (a pydantic model, a msgspec Struct, …)"
    )
    return BadInput(f"{what}, not {described(kind)}")


def as_type(value: Any, kind: type[T]) -> T:
    """A reply as the type. BadInput with the first thing that does not fit. Pydantic gets JSON, so that
    a strict model takes a date from its text."""
    validate = getattr(kind, "model_validate_json", None)
    try:
        found: T = msgspec.convert(value, kind) if validate is None else validate(_encode(value))
    except (ValueError, TypeError) as error:  # both libraries raise such
        first = str(error).splitlines()[0]
        raise BadInput(f"a reply is no {kind.__name__}: {first}") from None
    return found
