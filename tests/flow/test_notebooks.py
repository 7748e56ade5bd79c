"""Results in notebooks and as tables, also when the run is closed; what a model wrote is text."""

from __future__ import annotations

import asyncio
import csv
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.gates.checks import number_range
from fanfold.members.function import function
from fanfold.observe.progress import NotebookProgress, notebook_display
from fanfold.observe.script import open_run
from fanfold.patterns.arguments import Folded
from fanfold.patterns.map_reduce import map_reduce

EVIL = "=cmd|' /C calc'!A0<script>alert(1)</script>"


def read(text: str) -> dict[str, Any]:
    return {"n": len(text), "said": EVIL}


async def folded(store: Path) -> Folded:
    async with open_run("r", members=[function(read)], store=store, progress=False) as run:
        return await map_reduce(
            run, ["a", "bb", "ccc"], members=["read"], gate=number_range("n", high=2)
        )


@pytest.fixture
def result(tmp_path: Path) -> Folded:
    return asyncio.run(folded(tmp_path / "store"))


def test_each_planned_item_is_a_row_and_no_cell_is_a_formula(
    result: Folded, tmp_path: Path
) -> None:
    first, second, third = result.rows()
    assert first == {"id": first["id"], "state": "passed", "n": 1, "said": EVIL}
    assert (second["n"], third["state"], "above 2" in third["reasons"]) == (2, "kicked", True), (
        third
    )
    result.to_csv(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["n"] for row in rows] == ["1", "2", ""]
    assert rows[0]["said"] == f"'{EVIL}"


def test_parquet_has_typed_columns(result: Folded, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    result.to_parquet(tmp_path / "r.parquet")
    table = parquet.read_table(tmp_path / "r.parquet")
    assert table.column("n").to_pylist() == [1, 2, None]
    assert table.column("said").to_pylist()[:2] == [EVIL, EVIL]


def test_a_frame_has_the_same_rows_or_says_what_to_install(result: Folded) -> None:
    try:
        import pandas  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        with pytest.raises(BadInput, match="pip install pandas"):
            result.to_pandas()
    else:
        assert list(result.to_pandas()["n"])[:2] == [1, 2]
        del pandas


def test_they_show_themselves_and_what_a_model_wrote_is_text(result: Folded) -> None:
    shown = result._repr_html_()
    assert "2 of 3 passed, 1 kicked" in shown and shown.count("<table>") == 2
    assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_progress_is_a_bar_that_is_updated_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whatever IPython is there: its display gives a handle."""
    assert notebook_display() is None
    shown: list[str] = []

    def display(thing: Any, display_id: bool) -> Any:
        assert display_id
        shown.append(thing._repr_html_())
        return SimpleNamespace(update=lambda new: shown.append(new._repr_html_()))

    kernel = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: kernel))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))

    async def work() -> None:
        async with open_run("<b>", members=[function(read)], store=tmp_path) as run:
            await map_reduce(run, ["a", "bb"], members=["read"])

    asyncio.run(work())
    assert shown[-1].startswith('<progress value="2" max="2"></progress> <code>&lt;b&gt;')
    assert NotebookProgress.__doc__
