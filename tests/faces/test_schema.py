"""`fanfold schema`: the JSON Schema of what users write agrees with what is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fanfold.members.roster import roster_schema
from fanfold.plans.file import plan_schema
from fanfold.work.document import parse, read
from tests.docs.pages import ROOT, Block, all_blocks
from tests.faces.cli import fanfold

SRC = ROOT / "src" / "fanfold"
FILES = sorted([*SRC.glob("apps/*/*.yaml"), *SRC.glob("faces/cli/starter/*.yaml")])


def whole(value: Any) -> str:
    """Which kind of file it is; "" for a part of one, or something else."""
    if not isinstance(value, dict):
        return ""
    return "plan" if "steps" in value else "roster" if "members" in value else ""


def mistakes(schema: dict[str, Any], value: Any) -> list[str]:
    found = jsonschema_rs.validator_for(schema).iter_errors(value)
    return [f"{'/'.join(map(str, one.instance_path))}: {one.message}" for one in found]


def in_pages(kind: str) -> list[Block]:
    return [block for block in all_blocks("yaml") if whole(parse(block.text, "p").value) == kind]


def shipped(kind: str) -> list[Path]:
    return [path for path in FILES if whole(read(path).value) == kind]


@pytest.mark.parametrize("path", shipped("plan"), ids=str)
def test_every_shipped_plan_fits_the_schema(path: Path) -> None:
    assert mistakes(plan_schema(), read(path).value) == []


@pytest.mark.parametrize("block", in_pages("plan"), ids=str)
def test_every_plan_of_the_pages_fits_the_schema(block: Block) -> None:
    assert mistakes(plan_schema(), parse(block.text, "p").value) == []


@pytest.mark.parametrize("path", shipped("roster"), ids=str)
def test_every_shipped_roster_fits_the_schema(path: Path) -> None:
    assert mistakes(roster_schema(), read(path).value) == []


@pytest.mark.parametrize("block", in_pages("roster"), ids=str)
def test_every_roster_of_the_pages_fits_the_schema(block: Block) -> None:
    assert mistakes(roster_schema(), parse(block.text, "p").value) == []


def test_there_are_plans_and_rosters_to_look_at() -> None:
    """So that those tests cannot pass by finding nothing."""
    assert [
        len(found) > 4 for kind in ("plan", "roster") for found in (shipped(kind), in_pages(kind))
    ] == [True] * 4


WRONG = [
    {"steps": [{"map": {"mebmer": "a"}}]},
    {"steps": [{"mpa": {}}]},
    {"steps": [{"map": {}, "reduce": "concat"}]},
    {"steps": [{"map": {"concurrency": 0}}]},
    {"steps": [{"map": {"budget": "lots"}}]},
    {"steps": [{"pipeline": {"stages": [{"reduce": "concat"}]}}]},
    {"steps": [{"reduce": {"kind": "srt"}}]},
    {"steps": [{"command": {"cmd": ["cat"], "member": "a"}}]},
    {"steps": [{"ask": {"prompt": "x", "attempts": 0}}]},
    {"name": "x"},
]


@pytest.mark.parametrize("plan", WRONG, ids=json.dumps)
def test_what_is_refused_does_not_fit_the_schema(plan: dict[str, Any]) -> None:
    assert mistakes(plan_schema(), plan) != []


@pytest.mark.parametrize("kind", ["plan", "roster", "fleet"])
def test_the_command_prints_it(kind: str, tmp_path: Path) -> None:
    done = fanfold(tmp_path, "schema", kind)
    printed = json.loads(done.out)
    jsonschema_rs.meta.validate(printed)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert printed["title"] == f"fanfold {kind}"
