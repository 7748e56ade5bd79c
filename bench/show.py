"""The table, for a terminal, as JSON, and as the generated block of docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from pathlib import Path
from typing import Any

from rows import Line

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
HEAD = ("what", "raw", "ours", "ours / raw", "target", "met")


def number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "–"
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}{' ' + unit if unit else ''}"


def cells(line: Line) -> tuple[str, ...]:
    bound = f"{line.target:g} ×" if line.times else f"{line.target:g} {line.unit}"
    ratio = line.ours / line.raw if line.raw and line.ours is not None else None
    met = {True: "yes", False: "no", None: "–"}[line.met]
    return (
        line.what, number(line.raw, line.unit), number(line.ours, line.unit),
        "–" if ratio is None else f"{number(ratio)} ×", f"≤ {bound}", met,
    )  # fmt: skip


def heading() -> str:
    return _plain((*HEAD, ""))


def plain(line: Line) -> str:
    """One line for a terminal, as soon as it is known."""
    return _plain((*cells(line), line.note))


def _plain(row: tuple[str, ...]) -> str:
    what, raw, ours, ratio, target, met, note = row
    return f"{what:<86} {raw:>9} {ours:>9} {ratio:>10} {target:>9} {met:>4}  {note}".rstrip()


def machine(about: dict[str, Any]) -> dict[str, Any]:
    return {
        "python": platform.python_version(), "sqlite": sqlite3.sqlite_version,
        "system": platform.system(), "cores": os.cpu_count(), **about,
    }  # fmt: skip


def as_json(lines: list[Line], about: dict[str, Any]) -> str:
    told = [{**line._asdict(), "value": line.value, "met": line.met} for line in lines]
    return json.dumps({"machine": machine(about), "lines": told}, indent=1, ensure_ascii=False)


def markdown(lines: list[Line], about: dict[str, Any]) -> str:
    said = machine(about)
    where = ", ".join(f"{name} {value}" for name, value in said.items())
    body = [f"| {' | '.join(cells(line))} |" for line in lines]
    table = [f"| {' | '.join(HEAD)} |", "|---|--:|--:|--:|--:|---|", *body]
    return "\n".join([f"Medians. {where}.", "", *table])


def into_page(page: Path, block: str) -> None:
    """Replace what stands between the two marks."""
    text = page.read_text()
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page.name} lacks the marks {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}")
