"""The stage `report`, a section for each table; and what the whole run leaves behind."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import shorten, wrap
from typing import Any

SHOWN = 12
WIDE = 30
LONG = 95
MORE = "<!-- more -->"
HOW = """\
The stages `fetch`, `learn`, `analyse` and `report` are plain functions. `clean` is answered by
whom the roster has for it: in `roster.yaml` a set of rules (`repair.py`), no language model. A
change needs a sign that something is wrong and evidence in the table itself; what has only the
sign stays as it is and is listed as suspect. The cleaned tables are in `cleaned/`; all changes,
each with its reason, are in `changes.csv`."""


def section(item: dict[str, Any]) -> dict[str, Any]:
    """The member's function: what there is to say about one table."""
    told = item["steps"]["analyse"]
    lines = [f"## {item['id']}", "", _fetched(told), "", *_fixed(told), *_suspect(told)]
    lines += ["", MORE, "", *_examples(told), *_dependencies(told), *_columns(told)]
    changes = [{"table": item["id"], **change} for change in item["steps"]["clean"]["changes"]]
    return {"table": item["id"], "text": "\n".join(lines), "told": told, "changes": changes}


def told(parts: Iterable[Any]) -> str:
    """report.md: the short part of each table first, the long parts behind it."""
    sections = [part.value for part in parts]
    short, long = [], []
    for one in sections:
        first, _, rest = one["text"].partition(f"{MORE}\n")
        short.append(first.rstrip())
        long.append(f"## {one['table']}, in detail\n{rest.rstrip()}")
    cells = sum(len(one["changes"]) for one in sections)
    rows = sum(one["told"]["rows"] for one in sections)
    head = f"# Cleaned: {cells:,} cells in {rows:,} rows of {_many(len(sections), 'table')}"
    return "\n\n".join([head, *short, HOW, MORE, *long]) + "\n"


def changes(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """changes.csv: every changed cell, with what it held, the rule and the reason."""
    return [change for part in parts for change in part.value["changes"]]


def fixed(parts: Iterable[Any]) -> list[dict[str, Any]]:
    """The result: how many cells were changed, by table, column and rule, each with an example."""
    return [
        {"table": part.value["table"], "column": one["column"], "rule": one["rule"],
         "cells": one["cells"], "from": one["examples"][0]["from"], "to": one["examples"][0]["to"]}
        for part in parts
        for one in part.value["told"]["fixed"]
    ]  # fmt: skip


# ── pieces of a section ──────────────────────────────────────────────────────────────────────


def _fetched(told: dict[str, Any]) -> str:
    again = told["requests"] - told["pages"]
    failed = f" ({again} failed and asked again)" if again else ""
    return (
        f"{_many(told['rows'], 'row')}, {_many(told['pages'], 'page')} in"
        f" {_many(told['requests'], 'request')}{failed}, {_many(told['suspicious'], 'row')} with a sign of"
        " error."
    )


def _fixed(told: dict[str, Any]) -> list[str]:
    if not told["fixed"]:
        return ["Nothing was changed."]
    rows = []
    for one in told["fixed"][:SHOWN]:
        shown = one["examples"][0]
        change = f"{_cell(shown['from'])} → {_cell(shown['to'])}"
        rows.append([one["column"], one["rule"], f"{one['cells']:,}", change])
    return _table(["column", "rule", "cells", "for example"], rows)


def _suspect(told: dict[str, Any]) -> list[str]:
    if not told["suspect"]:
        return ["", *_unjudged(told)]
    many = ", ".join(f"{one['cells']} in {one['column']}" for one in told["suspect"][:4])
    first = told["suspect"][0]
    shown = (
        f"First: row {first['row'] + 1}, {first['column']} {_cell(first['from'])}: {first['why']}"
    )
    cut = wrap(shorten(shown, 2 * LONG, placeholder=" …"), LONG)
    return ["", f"Still suspect, not changed: {many}.", *cut, *_unjudged(told)]


def _unjudged(told: dict[str, Any]) -> list[str]:
    """What is not known: that nothing was found must not sound as if nothing were there."""
    lines = []
    for one in told["ragged"][:SHOWN]:
        lines.append(
            f"{one['place']}: {one['cells']} cells for {len(told['columns'])} columns; not judged."
        )
    names, of = told["unjudged"], len(told["columns"])
    if len(names) == of:
        why = f"only {told['rows']} rows" if told["rows"] < 20 else "nothing in it repeats"
        return [*lines, f"This table cannot be judged: {why}. Errors in it stay unseen."]
    if names:
        listed = ", ".join(names)
        said = f"Not judged: {len(names)} of {of} columns, texts that hardly repeat ({listed})."
        lines += wrap(said, LONG)
    return [
        *lines,
        "Otherwise no cell contradicts the rest of the table; other errors stay unseen.",
    ]


def _examples(told: dict[str, Any]) -> list[str]:
    rows = [
        [one["column"], _cell(example["from"]), _cell(example["to"]), example["reason"][:80]]
        for one in told["fixed"]
        for example in one["examples"]
    ]
    return ["", *_table(["column", "from", "to", "why"], rows)] if rows else []


def _dependencies(told: dict[str, Any]) -> list[str]:
    rows = [
        [one["by"], one["of"], one["kind"], *(f"{share:.1%}" for share in one["agree"])]
        for one in told["dependencies"]
    ]
    head = ["column", "says", "as", "rows that agree before", "after"]
    return ["", *_table(head, rows)] if rows else []


def _columns(told: dict[str, Any]) -> list[str]:
    rows = [
        [one["column"], _pair(one["different"]), _pair(one["empty"]),
         f"{one['least']:g} / {one['median']:g} / {one['most']:g}" if "least" in one else ""]
        for one in told["columns"]
    ]  # fmt: skip
    return ["", *_table(["column", "values", "empty", "least / median / most"], rows)]


def _pair(numbers: list[int]) -> str:
    before, after = numbers
    return f"{before:,}" if before == after else f"{before:,} → {after:,}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Columns of one width each, so that it can be read as a text too."""
    escaped = [head, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    wide = [max(len(row[n]) for row in escaped) for n in range(len(head))]
    first, *rest = (
        f"| {' | '.join(cell.ljust(n) for cell, n in zip(row, wide, strict=True))} |"
        for row in escaped
    )
    return [first, f"|{'|'.join('-' * (n + 2) for n in wide)}|", *rest]


def _cell(value: str) -> str:
    short = value if len(value) <= WIDE else f"{value[: WIDE - 1]}…"
    return f"`{short}`" if short else "(empty)"


def _many(n: int, word: str) -> str:
    return f"{n:,} {word}" if n == 1 else f"{n:,} {word}s"
