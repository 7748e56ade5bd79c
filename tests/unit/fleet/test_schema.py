"""The JSON Schema of fleet.json accepts every fleet that is read here, and refuses what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from fanfold.fleet.records import fleet_schema
from tests.unit.fleet.test_load import BAD, EVERYTHING

ROOT = Path(__file__).parents[3]
PAGES = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md"]
BLOCK = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)
VALIDATOR = jsonschema_rs.validator_for(fleet_schema())


def fleets() -> list[Any]:
    """Those of the tests' data and of the pages."""
    found = [pytest.param(EVERYTHING, id="everything")]
    for file in sorted((ROOT / "tests" / "data" / "dag_fleet").rglob("fleet.json")):
        found.append(pytest.param(json.loads(file.read_bytes()), id=str(file.relative_to(ROOT))))
    for page in PAGES:
        for n, block in enumerate(BLOCK.findall(page.read_text())):
            if '"workers"' in block:
                found.append(pytest.param(json.loads(block), id=f"{page.name}-{n}"))
    return found


@pytest.mark.parametrize("fleet", fleets())
def test_a_fleet_that_is_read_fits_the_schema(fleet: dict[str, Any]) -> None:
    assert [error.message for error in VALIDATOR.iter_errors(fleet)] == []


def test_null_is_the_same_as_not_there_in_the_schema_too() -> None:
    worker = {"id": "a", "type": None, "model": None, "depends_on": None, "max_turns": None}
    assert VALIDATOR.is_valid({"workers": [worker], "config": {"provider": None}, "fleet_id": None})


BEYOND = ({"target_files": ["../x"]}, "must be a finite number")  # what JSON Schema cannot state


@pytest.mark.parametrize(
    "field", [field for field, words in BAD if field != BEYOND[0] and BEYOND[1] not in words]
)
def test_a_field_that_is_refused_does_not_fit_the_schema(field: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid({"workers": [{"id": "a", **field}]})


@pytest.mark.parametrize("id", ["../x", "a b", "", ".hid", "a\n", "é", "x" * 101, 7, None])
def test_an_id_that_is_refused_does_not_fit_the_schema(id: Any) -> None:
    assert not VALIDATOR.is_valid({"workers": [{"id": id}]})
