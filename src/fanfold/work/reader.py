"""What users write, converted into records: msgspec checks it, and a mistake names file and line.

A field is stated once, in a record: its type, its bounds, its default. `read_record` converts a Node
into it; `schema_of` gives the JSON Schema of the same record. What types cannot say:
- a rule over several fields: `__post_init__` of the record raises `Misfit`;
- a value with a form of its own (a URL, a reference to a key): a class with the class method
  `from_value(value)`, which raises `Misfit` and reads its parts with `read_part`, and `json_schema()`;
- a short form (a scalar where a mapping may stand): a union, `Dollars | Budget`.

The record's class attribute `called` ("a map") is its name in error texts; records of one union by
`kind` share theirs ("a member").
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, TypeVar, Union

import msgspec
from msgspec import Meta, inspect

from fanfold.errors import BadInput
from fanfold.work.check import described
from fanfold.work.document import Node, Place
from fanfold.work.nearest import quoted, remedy

T = TypeVar("T")

_MAX = sys.float_info.max
_MOST, _MOST_COUNTED = 1e9, 10**12
"""Of dollars and seconds, and of what is counted: sums of them fit into the store."""
_LARGEST = (_MAX, -_MAX, _MOST, _MOST_COUNTED)
_MESSAGE = re.compile(r"(?s)(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`)?")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`")

Text: TypeAlias = Annotated[str, Meta(pattern=r"\S")]
"""A text that says something."""
Number: TypeAlias = Annotated[float, Meta(ge=-_MAX, le=_MAX)]
NonNegative: TypeAlias = Annotated[float, Meta(ge=0, le=_MOST)]
Positive: TypeAlias = Annotated[float, Meta(gt=0, le=_MOST)]
Whole: TypeAlias = Annotated[int, Meta(ge=0, le=_MOST_COUNTED)]
Count: TypeAlias = Annotated[int, Meta(ge=1, le=_MOST_COUNTED)]
Word: TypeAlias = Annotated[str, Meta(min_length=1)]
"""A text where a list or a mapping may be instead. Not `Text`: with a pattern in such a union msgspec
0.22 writes past the end of its memory."""
Texts: TypeAlias = Word | tuple[Text, ...]
"""`good_at: legal` is the same as `good_at: [legal]`; see `listed`."""

Stated: TypeAlias = Union[T, msgspec.UnsetType]  # noqa: UP007 (generic)
"""A field that need not be there; UNSET when it is not. Null is not the same as not there."""


class Misfit(ValueError):
    """Raised by a record or a type of its own while it is read: what is wrong with which of its
    fields (or with all of it); the reader adds file and line."""

    def __init__(self, what: str, field: str | None = None) -> None:
        super().__init__(what)
        self.what, self.field = what, field


def listed(given: Any) -> tuple[Any, ...]:
    """One, several or none of them as a tuple."""
    if given is None or given is msgspec.UNSET:
        return ()
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def stated_in(given: msgspec.Struct) -> dict[str, Any]:
    """The fields that a file states."""
    fields = msgspec.structs.asdict(given).items()
    return {name: value for name, value in fields if value is not msgspec.UNSET}


def read_record(node: Node, kind: type[T]) -> T:
    """A Node as the record (or other type) `kind`. Raises BadInput for the first mistake."""
    try:
        return read_part(node.value, kind)
    except _Refused as error:
        raise error.mistake.refusal(node) from None


def read_part(value: Any, kind: type[T], *steps: str | int) -> T:
    """For `from_value`: a part of what was written, `steps` from it, as a record of its own."""
    while True:
        try:
            return msgspec.convert(value, kind, dec_hook=_from_value)
        except msgspec.ValidationError as error:
            mistake = _Mistake(error, value, kind)
            if not mistake.is_whole_number():
                raise _Refused(mistake, steps) from None
            value = _replaced(value, mistake.steps, int(mistake.value))


def read_options(given: Mapping[str, Any], kind: type[T], name: str = "") -> T:
    """The options of a Python call by the rules of files. None is not stated. `name`: of the argument
    that holds them."""
    plain = {
        name: list(value) if isinstance(value, tuple | set | frozenset) else value
        for name, value in given.items() if value is not None
    }  # fmt: skip
    return read_record(Node(plain, "", {}, (name,) if name else ()), kind)


def schema_of(kind: Any, *parts: Any) -> dict[str, Any]:
    """The JSON Schema of a record. `parts` are records that its own types refer to, by name."""
    (top, *_), named = msgspec.json.schema_components(
        [kind, *parts], schema_hook=_own_schema, ref_template="#/$defs/{name}"
    )
    found: dict[str, Any] = _tidied({**top, "$defs": named})
    return found


def _from_value(kind: type, value: Any) -> Any:
    """A type of our own, made from what was written."""
    if not hasattr(kind, "from_value"):
        raise NotImplementedError(f"{kind} cannot be read from a file")
    try:
        return kind.from_value(value)
    except BadInput as error:
        raise Misfit(error.what) from None


def _own_schema(kind: type) -> dict[str, Any]:
    made: dict[str, Any] = (
        kind.json_schema() if hasattr(kind, "json_schema") else {"type": "string"}
    )
    return made


def _tidied(schema: Any) -> Any:
    """Without the bounds that nobody comes near."""
    if isinstance(schema, list):
        return [_tidied(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _tidied(value)
        for name, value in schema.items()
        if not (name in ("maximum", "minimum") and value in _LARGEST)
    }


# ── where a mistake is, and what was expected there ──────────────────────────────────────────


class _Mistake:
    """What msgspec refuses: the steps to it from the top, the value there and the type expected.

    `words` are those in which the record itself says what is expected, if it does.
    """

    def __init__(self, error: msgspec.ValidationError, top: Any, kind: Any) -> None:
        found = _MESSAGE.fullmatch(str(error))
        assert found is not None
        self._what, self._cause = found["what"], error.__cause__
        self.value, self._kind = top, inspect.type_info(kind)
        self.steps: Place = ()
        self._words: str | None = None
        self._unwrap()
        for name, number in _STEP.findall(found["path"] or ""):
            step = name or number
            if step == "...":
                self._descend(_refused_key(error, top, kind, self.steps))
            else:
                self._descend(name or int(number))
        if found["key"]:
            key = _refused_key(error, top, kind, self.steps)
            of_keys = [one for one in _variants(self._kind) if isinstance(one, inspect.DictType)]
            self._kind = of_keys[0].key_type if of_keys else inspect.StrType()
            self.value, self._words = key, None
            self.steps = (*self.steps, key)
            self._unwrap()

    def _descend(self, step: str | int) -> None:
        self._kind, self._words = _inner(self._kind, self.value, step), None
        self.value, self.steps = self.value[step], (*self.steps, step)
        self._unwrap()

    def _unwrap(self) -> None:
        while isinstance(self._kind, inspect.Metadata):
            self._words = (self._kind.extra or {}).get("expected", self._words)
            self._kind = self._kind.type

    def is_whole_number(self) -> bool:
        """`2e6` for a whole number, which YAML gives as a float."""
        whole = any(isinstance(one, inspect.IntType) for one in _variants(self._kind))
        return whole and isinstance(self.value, float) and self.value.is_integer()

    def refusal(self, node: Node) -> BadInput:
        here = _node_at(node, self.steps)
        if isinstance(self._cause, _Refused):
            return self._cause.mistake.refusal(_node_at(here, self._cause.steps))
        if isinstance(self._cause, Misfit):
            return _node_at(here, (self._cause.field,)).bad(self._cause.what)
        field = _FIELD.fullmatch(self._what)
        if field is None:
            return here.bad(self._mismatch(here))
        if field[1] == "contains unknown":
            return _node_at(here, (field[2],)).bad(self._unknown(here, field[2]))
        return here.bad(self._missing(here, field[2]))

    def _unknown(self, here: Node, name: str) -> str:
        record = _record_for(self._kind, self.value)
        if record is None:
            return f"unknown field {quoted(name)}"
        others = [one for one in _records(self._kind) if name in _names(one)]
        if others and record.tag_field:
            of = f"{record.tag_field} {', '.join(str(one.tag) for one in others)}"
            return f"`{name}` is a field of {of}, not of {record.tag_field} {record.tag}"
        return f"unknown field {quoted(name)} in {_as_tagged(record, here)}: {remedy(name, _names(record))}"

    def _missing(self, here: Node, name: str) -> str:
        tags = [str(one.tag) for one in _records(self._kind) if one.tag_field == name]
        if tags:
            called = _called(_records(self._kind)[0], here)
            return f"{called} needs the field `{name}`: one of {', '.join(tags)}"
        return f"{_as_tagged(_record_for(self._kind, self.value), here)} needs the field `{name}`"

    def _mismatch(self, here: Node) -> str:
        kinds = [one for one in _variants(self._kind) if not isinstance(one, inspect.NoneType)]
        for one in kinds:
            if (what := _out_of_bounds(one, self.value)) is not None:
                return f"`{here.name}` {what}"
        if self._words is not None:
            return f"`{here.name}` must be {self._words}, not {described(self.value)}"
        first = kinds[0]
        if len(kinds) == 1 and isinstance(first, inspect.LiteralType):
            words = [str(word) for word in first.values]
            if isinstance(self.value, str):
                return f"unknown {here.name} {quoted(self.value)}: {remedy(self.value, words)}"
            return f"`{here.name}` must be one of {', '.join(words)}, not {described(self.value)}"
        name = f"`{here.name}`" if here.place else here.name
        if all(isinstance(one, inspect.StructType) for one in kinds):
            name = _called(first, here)
        return f"{name} must be {_expected(kinds)}, not {described(self.value)}"


class _Refused(ValueError):
    """A mistake below `steps` of what is read just now."""

    def __init__(self, mistake: _Mistake, steps: tuple[str | int, ...]) -> None:
        super().__init__("refused")
        self.mistake, self.steps = mistake, steps


def _refused_key(error: msgspec.ValidationError, top: Any, kind: Any, steps: Place) -> Any:
    """msgspec does not say which key of a mapping it refuses: the one that it refuses alone."""
    mapping = top
    for step in steps:
        mapping = mapping[step]
    for key, value in mapping.items():
        try:
            msgspec.convert(_replaced(top, steps, {key: value}), kind, dec_hook=_from_value)
        except msgspec.ValidationError as again:
            if str(again) == str(error):
                return key
    raise AssertionError(f"no key is refused alone: {error}")


def _replaced(value: Any, steps: Place, new: Any) -> Any:
    if not steps:
        return new
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[steps[0]] = _replaced(value[steps[0]], steps[1:], new)
    return copy


def _node_at(node: Node, steps: tuple[str | int | None, ...]) -> Node:
    """The node there, or the last on the path that is written down."""
    for step in steps:
        inner = node.value
        if step is None or not (
            isinstance(inner, list) or (isinstance(inner, dict) and step in inner)
        ):
            return node
        node = node.child(step)
    return node


def _variants(kind: inspect.Type) -> list[inspect.Type]:
    """The types of a union, each without its annotations."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if not isinstance(kind, inspect.UnionType):
        return [kind]
    return [inner for one in kind.types for inner in _variants(one)]


def _records(kind: inspect.Type) -> list[inspect.StructType]:
    return [one for one in _variants(kind) if isinstance(one, inspect.StructType)]


def _record_for(kind: inspect.Type, value: Any) -> inspect.StructType | None:
    """The record that a mapping is read as; of several, the one that its tag names."""
    records, given = _records(kind), value if isinstance(value, dict) else {}
    if len(records) == 1:
        return records[0]
    return next((one for one in records if given.get(one.tag_field) == one.tag), None)


def _names(record: inspect.StructType) -> list[str]:
    own = [field.encode_name for field in record.fields]
    return [*own, record.tag_field] if record.tag_field else own


def _inner(kind: inspect.Type, value: Any, step: str | int) -> inspect.Type:
    """The type of a field, a mapping's value or a list's element."""
    if isinstance(value, dict):
        record = _record_for(kind, value)
        for field in () if record is None else record.fields:
            if field.encode_name == step:
                return field.type
        if tags := [str(one.tag) for one in _records(kind) if one.tag_field == step]:
            return inspect.LiteralType(tuple(tags))
    for one in _variants(kind):
        match one:
            case inspect.DictType(value_type=inner) if isinstance(value, dict):
                return inner
            case inspect.ListType(item_type=inner) | inspect.VarTupleType(item_type=inner):
                return inner
    return inspect.AnyType()


# ── in words ─────────────────────────────────────────────────────────────────────────────────


def _called(kind: inspect.Type | None, here: Node) -> str:
    own = getattr(kind.cls, "called", None) if isinstance(kind, inspect.StructType) else None
    return own or (f"`{here.name}`" if here.place else here.name)


def _as_tagged(record: inspect.StructType | None, here: Node) -> str:
    """`a member of kind openai`."""
    called = _called(record, here)
    if record is None or record.tag_field is None:
        return called
    return f"{called} of {record.tag_field} {record.tag}"


def _expected(kinds: list[inspect.Type]) -> str:
    """`a text, a list or a mapping`."""
    words = list(dict.fromkeys(word for one in kinds for word in _phrase(one)))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _phrase(kind: inspect.Type) -> tuple[str, ...]:
    match kind:
        case inspect.IntType():
            return ("a whole number",)
        case inspect.FloatType():
            return ("a number",)
        case inspect.BoolType():
            return ("true", "false")
        case inspect.StructType() | inspect.DictType():
            return ("a mapping",)
        case inspect.ListType() | inspect.VarTupleType():
            return ("a list",)
        case inspect.LiteralType(values=values):
            return tuple(map(str, values))
        case _:
            return ("a text",)


def _out_of_bounds(kind: inspect.Type, value: Any) -> str | None:
    """What is wrong with a value of the right type."""
    match kind:
        case inspect.StrType() if isinstance(value, str) and not value.strip():
            return "is empty"
        case inspect.ListType() | inspect.VarTupleType() if value == []:
            return "is empty"
        case inspect.FloatType() if isinstance(value, float) and not math.isfinite(value):
            return f"must be a finite number, not {described(value)}"
        case inspect.FloatType(gt=gt, ge=ge, le=le) if _is_number(value):
            return _out_of_range(value, gt, ge, le)
        case inspect.IntType(gt=gt, ge=ge, le=le) if _is_number(value) and value % 1 == 0:
            return _out_of_range(value, gt, ge, le)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _out_of_range(value: float, gt: float | None, ge: float | None, le: float | None) -> str | None:
    if ge is not None and value < ge:
        return f"must be {ge:g} or more, not {value}"
    if gt is not None and value <= gt:
        return f"must be more than {gt:g}, not {value}"
    if le is None or value <= le:
        return None
    shown = f", not {value:,.15g}" if abs(value) < _MAX else ""
    return f"must be {le:,.15g} or less{shown}"
