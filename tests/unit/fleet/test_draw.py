"""A fleet drawn layer by layer: as the original draws it, and where that would go wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fanfold.fleet.draw import layered, mermaid_of
from fanfold.fleet.load import outline
from fanfold.fleet.records import Fleet
from tests.unit.fleet.fleets import worker

DATA = Path(__file__).parents[2] / "data" / "dag_fleet"


def fleet(folder: Path, *workers: dict[str, Any]) -> Fleet:
    (folder / "fleet.json").write_text(json.dumps({"workers": workers}))
    return outline(folder)


def test_it_looks_as_the_original_but_for_what_belongs_to_loops() -> None:
    """Its line on stopping and its spaces at the ends of lines are left out."""
    drawn = [line.rstrip() for line in (DATA / "dag-viz.ascii.txt").read_text().splitlines()]
    expected = [line for line in drawn if "Stop:" not in line]
    at = expected.index("  4 workers across 3 layers")
    assert layered(outline(DATA)).splitlines() == [
        *expected[: at - 1],
        "  4 workers across 3 layers",
        "  Layer 0 starts first; layers 1-2 start after dependencies complete",
    ]


def test_the_mermaid_chart_is_the_same_to_the_letter() -> None:
    assert mermaid_of(outline(DATA)) + "\n" == (DATA / "dag-viz.mermaid.txt").read_text()


def test_a_wide_layer_goes_on_in_the_next_row(tmp_path: Path) -> None:
    workers = [worker(f"w{n}", type="research") for n in range(5)]
    drawn = layered(fleet(tmp_path, *workers), width=60).splitlines()
    assert max(map(len, drawn)) <= 60
    assert drawn == [
        "",
        "  Fleet: fleet  (dag)",
        "",
        "  Layer 0 (LAUNCH)",
        "  +---------------+    +---------------+",
        "  | w0 (research) |    | w1 (research) |",
        "  | deps: none    |    | deps: none    |",
        "  +---------------+    +---------------+",
        "  +---------------+    +---------------+",
        "  | w2 (research) |    | w3 (research) |",
        "  | deps: none    |    | deps: none    |",
        "  +---------------+    +---------------+",
        "  +---------------+",
        "  | w4 (research) |",
        "  | deps: none    |",
        "  +---------------+",
        "",
        "  5 workers across 1 layer",
    ]


def test_two_layers(tmp_path: Path) -> None:
    drawn = layered(fleet(tmp_path, worker("a"), worker("b", "a"))).splitlines()
    assert drawn[-2:] == [
        "  2 workers across 2 layers",
        "  Layer 0 starts first; layer 1 starts after dependencies complete",
    ]


@pytest.mark.parametrize("id", ["end", "x-end", "a.b", "_a", "a--b", "Graph", "style_1"])
def test_an_id_that_mermaid_would_misread_gets_another_name(tmp_path: Path, id: str) -> None:
    lines = mermaid_of(fleet(tmp_path, worker(id), worker("b", id, model='m"x'))).splitlines()
    assert lines[3:6] == [
        f'    worker0["{id}<br/>write"]',
        '    b["b<br/>write · m#34;x"]',
        "    worker0 --> b",
    ]
