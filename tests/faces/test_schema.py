"""`fanfold schema`: the JSON Schema of what users write agrees with what is read."""

from __future__ import annotations

import json
from functools import cache
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


@cache
def schema(kind: str) -> Any:
    """It is read into what checks by it once, not for each file."""
    return jsonschema_rs.validator_for(plan_schema() if kind == "plan" else roster_schema())


def mistakes(kind: str, value: Any) -> list[str]:
    found = schema(kind).iter_errors(value)
    return [f"{'/'.join(map(str, one.instance_path))}: {one.message}" for one in found]


@cache
def parsed(text: str) -> Any:
    return parse(text, "p").value


def in_pages(kind: str) -> list[Block]:
    return [block for block in all_blocks("yaml") if whole(parsed(block.text)) == kind]


def shipped(kind: str) -> list[Path]:
    return [path for path in FILES if whole(parsed(path.read_text(encoding="utf-8"))) == kind]


@pytest.mark.parametrize("path", shipped("plan"), ids=str)
def test_every_shipped_plan_fits_the_schema(path: Path) -> None:
    assert mistakes("plan", read(path).value) == []


@pytest.mark.parametrize("block", in_pages("plan"), ids=str)
def test_every_plan_of_the_pages_fits_the_schema(block: Block) -> None:
    assert mistakes("plan", parsed(block.text)) == []


@pytest.mark.parametrize("path", shipped("roster"), ids=str)
def test_every_shipped_roster_fits_the_schema(path: Path) -> None:
    assert mistakes("roster", read(path).value) == []


@pytest.mark.parametrize("block", in_pages("roster"), ids=str)
def test_every_roster_of_the_pages_fits_the_schema(block: Block) -> None:
    assert mistakes("roster", parsed(block.text)) == []


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
    assert mistakes("plan", plan) != []


@pytest.mark.parametrize("kind", ["plan", "roster", "fleet"])
def test_the_command_prints_it(kind: str, tmp_path: Path) -> None:
    done = fanfold(tmp_path, "schema", kind)
    printed = json.loads(done.out)
    jsonschema_rs.meta.validate(printed)
    assert printed["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert printed["title"] == f"fanfold {kind}"
