"""Keywords of JSON Schemas that are probably misspelt are named before a run starts; none is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fanfold.plans.prepare import Options, prepare
from fanfold.plans.schema_words import slips

PLAN = """\
input: {count: 1}
steps:
  - map:
      member: m
      prompt: x
      schema: {type: object, requried: [zz]}
      gate:
        - any_of: [{schema: {itmes: {}}}, {judge: {prompt: x, member: m, schema: {enmu: [1]}}}]
  - graph: {member: m, schema_file: s.json, tasks: [{id: a, prompt: x}, {id: b, prompt: x}]}
  - map: {name: fine, member: m, prompt: x, schema: {type: object, required: [zz]}}
"""


def test_each_is_named_once_with_its_place_and_what_may_be_meant(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(PLAN)
    (tmp_path / "s.json").write_text('{"Type": "object"}')
    (tmp_path / "roster.yaml").write_text("members:\n  - {id: m, kind: command, cmd: [cat]}\n")
    file = str(tmp_path / "p.yaml")
    assert prepare(file, Options()).warnings == tuple(
        f"{file}:{line}: `{word}` is no keyword of JSON Schema, which ignores it: did you mean"
        f" `{meant}`?"
        for line, word, meant in [
            (6, "requried", "required"), (7, "itmes", "items"), (7, "enmu", "enum"), (9, "Type", "type"),
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "found"),
    [
        ({"tpye": "object"}, ["type"]),
        ({"addtionalProperties": False}, ["additionalProperties"]),
        ({"minlength": 3}, ["minLength"]),
        ({"properties": {"a": {"itmes": {}}}}, ["items"]),
        ({"$defs": {"a": {"anyOf": [{"enmu": [1]}]}}}, ["enum"]),
        ({"items": [{"patern": "a"}], "not": {"formt": "date"}}, ["pattern", "format"]),
        ({"if": True, "items": {"then": {"requird": []}}}, ["required"]),
    ],
)
def test_at_any_depth(schema: Any, found: list[str]) -> None:
    assert [meant for _, meant in slips(schema)] == found


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"properties": {"tpye": {}, "requried": {}}, "patternProperties": {"itmes": {}}},
        {"const": {"tpye": 1}, "enum": [{"tpye": 1}], "default": {"tpye": 1}, "examples": [{"tpye": 1}]},
        {"$defs": {"tpye": {}}, "definitions": {"tpye": {}}, "dependencies": {"itmes": ["a"]}},
        {"x-tpye": 1, "$comments": "a", "x-requried": True, "type_": 1},
        {"example": 1, "nullable": True, "discriminator": {}, "markdownDescription": "a", "label": "b",
         "propertyOrdering": ["a"], "errorMessage": "c", "divisibleBy": 2, "id": "d", "note": "e"},
    ],
)  # fmt: skip
def test_data_names_and_the_words_of_others_are_no_slips(schema: Any) -> None:
    assert list(slips(schema)) == []
