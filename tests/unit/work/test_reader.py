"""Files as records: msgspec checks them, and a mistake is told with file, line and remedy."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pytest
from msgspec import Meta, Struct

from fanfold.errors import BadInput
from fanfold.work.document import parse
from fanfold.work.reader import (
    Count,
    Misfit,
    Positive,
    Text,
    Texts,
    listed,
    read_options,
    read_part,
    read_record,
    schema_of,
)


class Allowance(Struct, forbid_unknown_fields=True):
    called: ClassVar[str] = "an allowance"
    usd: Positive | None = None
    calls: Count | None = None

    def __post_init__(self) -> None:
        if self.usd is None and self.calls is None:
            raise Misfit("state `usd` or `calls`")
        if self.usd is not None and self.calls is not None:
            raise Misfit("state `usd` or `calls`, not both", "calls")


class Money(float):
    """`$2`, or a number."""

    @classmethod
    def from_value(cls, value: Any) -> Money:
        if isinstance(value, str) and value.startswith("$"):
            value = float(value[1:])
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Misfit("must be an amount such as $2")
        return cls(value)

    @staticmethod
    def json_schema() -> dict[str, Any]:
        return {"type": ["number", "string"]}


class Cat(Struct, forbid_unknown_fields=True, tag_field="kind", tag="cat"):
    called: ClassVar[str] = "an animal"
    id: Text
    lives: Count = 9


class Dog(Struct, forbid_unknown_fields=True, tag_field="kind", tag="dog"):
    called: ClassVar[str] = "an animal"
    id: Text
    tricks: Texts = ()


class Keeper:
    """A mapping with one key, the role, which says how the rest is read."""

    def __init__(self, role: str, fields: Allowance) -> None:
        self.role, self.fields = role, fields

    @classmethod
    def from_value(cls, value: Any) -> Keeper:
        if not isinstance(value, dict) or len(value) != 1:
            raise Misfit("a keeper has one role")
        (role,) = value
        return cls(role, read_part(value[role], Allowance, role))


class Zoo(Struct, forbid_unknown_fields=True):
    called: ClassVar[str] = "a zoo"
    name: Text
    animals: tuple[Cat | Dog, ...] = ()
    allowance: Annotated[
        Positive | Allowance | None, Meta(extra={"expected": "dollars or a mapping of usd, calls"})
    ] = None
    weights: dict[str, Positive] = {}
    variables: dict[
        Annotated[str, Meta(pattern="^[A-Z]+$", extra={"expected": "in capitals"})], str
    ] = {}
    mode: Literal["open", "closed"] = "open"
    guided: bool | Literal["always"] = False
    ticket: Money | None = None
    keepers: tuple[Keeper, ...] = ()
    stop: Annotated[tuple[Text, ...], Meta(min_length=1)] | None = None


BAD = [
    ("- a", "z.yaml:1: a zoo must be a mapping, not a list"),
    ("animals: []", "z.yaml:1: a zoo needs the field `name`"),
    ("name: z\nanimal: []", "z.yaml:2: unknown field `animal` in a zoo: did you mean `animals`?"),
    ("name: 7", "z.yaml:1: `name` must be a text, not the number 7"),
    ("name: ' '", "z.yaml:1: `name` is empty"),
    ("name:", "z.yaml:1: `name` must be a text, not empty"),
    ("name: z\nstop: []", "z.yaml:2: `stop` is empty"),
    ("name: z\nstop:\n- a\n- 3", "z.yaml:4: `stop[1]` must be a text, not the number 3"),
    ("name: z\nmode: opn", "z.yaml:2: unknown mode `opn`: did you mean `open`?"),
    ("name: z\nmode: 3", "z.yaml:2: `mode` must be one of closed, open, not the number 3"),
    ("name: z\nguided: maybe",
     "z.yaml:2: `guided` must be true, false or always, not the text 'maybe'"),
    ("name: z\nallowance: lots",
     "z.yaml:2: `allowance` must be dollars or a mapping of usd, calls, not the text 'lots'"),
    ("name: z\nallowance: 0", "z.yaml:2: `allowance` must be more than 0, not 0"),
    ("name: z\nallowance:\n  usd: .inf",
     "z.yaml:3: `usd` must be a finite number, not the number inf"),
    ("name: z\nallowance:\n  usd: .nan",
     "z.yaml:3: `usd` must be a finite number, not the number nan"),
    ("name: z\nallowance:\n  usd: 1e308",
     "z.yaml:3: `usd` must be 1,000,000,000 or less, not 1e+308"),
    (f"name: z\nallowance:\n  calls: {10**20}",
     "z.yaml:3: `calls` must be 1,000,000,000,000 or less, not 1e+20"),
    (f"name: z\nallowance:\n  calls: {10**12 + 1}",
     "z.yaml:3: `calls` must be 1,000,000,000,000 or less, not 1,000,000,000,001"),
    ("name: z\nallowance:\n  usd: true", "z.yaml:3: `usd` must be a number, not true"),
    ("name: z\nallowance:\n  calls: 2.5",
     "z.yaml:3: `calls` must be a whole number, not the number 2.5"),
    ("name: z\nallowance:\n  calls: 0.0", "z.yaml:3: `calls` must be 1 or more, not 0"),
    ("name: z\nallowance: {}", "z.yaml:2: state `usd` or `calls`"),
    ("name: z\nallowance:\n  usd: 1\n  calls: 2", "z.yaml:4: state `usd` or `calls`, not both"),
    ("name: z\nweights:\n  a: 1\n  b: 0\n  c: 0", "z.yaml:4: `b` must be more than 0, not 0"),
    ("name: z\nvariables:\n  A: x\n  b: y", "z.yaml:4: `b` must be in capitals, not the text 'b'"),
    ("name: z\nkeepers:\n- x", "z.yaml:3: a keeper has one role"),
    ("name: z\nkeepers:\n- head: {usd: 2e0}\n- vet:\n    calls: 2e3\n    cals: 3",
     "z.yaml:6: unknown field `cals` in an allowance: did you mean `calls`?"),
    ("name: z\nticket: cheap", "z.yaml:2: must be an amount such as $2"),
    ("name: z\nanimals:\n- felix", "z.yaml:3: an animal must be a mapping, not the text 'felix'"),
    ("name: z\nanimals:\n- id: a", "z.yaml:3: an animal needs the field `kind`: one of cat, dog"),
    ("name: z\nanimals:\n- kind: cta\n  id: a", "z.yaml:3: unknown kind `cta`: did you mean `cat`?"),
    ("name: z\nanimals:\n- kind: cat", "z.yaml:3: an animal of kind cat needs the field `id`"),
    ("name: z\nanimals:\n- kind: cat\n  id: a\n  tricks: [sit]",
     "z.yaml:5: `tricks` is a field of kind dog, not of kind cat"),
    ("name: z\nanimals:\n- kind: cat\n  id: a\n  livse: 3",
     "z.yaml:5: unknown field `livse` in an animal of kind cat: did you mean `lives`?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD)
def test_a_mistake_names_its_line_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        read_record(parse(text, "z.yaml"), Zoo)
    assert str(error.value) == message


def test_what_is_right_becomes_the_record() -> None:
    text = """
name: z
animals:
- {kind: dog, id: rex, tricks: sit}
- {kind: cat, id: felix, lives: 7e0}
allowance: {calls: 2e3}
weights: {a: 1}
guided: always
ticket: $2
"""
    zoo = read_record(parse(text, "z.yaml"), Zoo)
    assert zoo == Zoo(
        name="z", animals=(Dog(id="rex", tricks="sit"), Cat(id="felix", lives=7)),
        allowance=Allowance(calls=2000), weights={"a": 1.0}, guided="always", ticket=Money(2.0),
    )  # fmt: skip
    assert [listed(one) for one in ("sit", ["sit", "run"], None)] == [("sit",), ("sit", "run"), ()]


def test_json_is_read_by_the_same_rules() -> None:
    with pytest.raises(BadInput, match=r"^z\.json:3: `name` must be a text, not the number 7$"):
        read_record(parse('{"mode":\n "open",\n "name": 7}', "z.json", as_json=True), Zoo)


def test_the_options_of_a_call_are_checked_by_the_same_rules() -> None:
    assert read_options({"usd": 2, "calls": None}, Allowance) == Allowance(usd=2.0)
    with pytest.raises(BadInput, match=r"^`usd` must be more than 0, not 0$"):
        read_options({"usd": 0}, Allowance)


def test_the_schema_falls_out_of_the_same_record() -> None:
    schema = schema_of(Zoo)
    assert schema["$defs"]["Allowance"] == {
        "title": "Allowance",
        "type": "object",
        "properties": {
            "usd": {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}],
                    "default": None},
            "calls": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}],
                      "default": None},
        },
        "required": [],
        "additionalProperties": False,
    }  # fmt: skip
    assert schema_of(Zoo)["$defs"]["Zoo"]["properties"]["ticket"]["anyOf"][0] == {
        "type": ["number", "string"]
    }
