"""What the run leaves: a report to read, and the matrix as records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap
from typing import Any

SHOWN = ("licence", "language", "since", "data_end", "commits", "tags", "latest_tag")
OFFERED = ("docker", "kubernetes", "hosted", "install")
NUMBERS = ("commits", "tags")
WIDE = 98
INSTALL = 44  # characters of the commands on the first page; all of them are in matrix.csv
MORE = "<!-- more -->"
HOW = (
    "Every value is quoted from the product's own files, and a gate checked each quote word for word; "
    'the quotes are below. "yes": the README speaks of it; "not stated": it is silent, which does not '
    'mean no. "data end": the last year with commits in the snapshot, not the end of the product. The '
    "material (READMEs and git) has no prices and no independent view of strengths and weaknesses, so "
    "none are compared. The readers of `roster.yaml` are rules, not language models."
)


def told(given: dict[str, Any]) -> str:
    """The member's function for report.md."""
    found = given["steps"]["compare"]
    rows, missing = found["matrix"], found["missing"]
    lines = [f"# {len(rows)} products compared", "", *_table(rows, SHOWN), ""]
    lines += [*_missing(missing), *(f"- {sentence}" for sentence in found["summary"]), ""]
    lines += ["## How to run them", "", *_table(rows, OFFERED), "", *wrap(HOW, WIDE)]
    lines += ["", MORE, "", *_evidence(found.get("evidence", []))]
    return "\n".join(lines) + "\n"


def records(given: dict[str, Any]) -> list[dict[str, str]]:
    """The member's function for the result: a record for each product; one without facts says why."""
    found = given["steps"]["compare"]
    rows = [{**row, "missing": ""} for row in found["matrix"]]
    blank = dict.fromkeys(("product", *SHOWN, *OFFERED), "")
    rows += [
        {**blank, "product": one["product"], "missing": one["why"]} for one in found["missing"]
    ]
    return rows


def _missing(missing: list[dict[str, str]]) -> list[str]:
    if not missing:
        return []
    named = [f"- **{one['product']}**: {one['why'][:80]}" for one in missing]
    return [f"Nothing could be found of {len(missing)}:", "", *named, ""]


def _table(rows: list[dict[str, str]], fields: tuple[str, ...]) -> Iterator[str]:
    """Columns of one width each, so that it can be read as a text too; numbers to the right."""
    head = ["product", *(field.replace("_", " ") for field in fields)]
    cells = [[row["product"], *(_cell(field, row[field]) for field in fields)] for row in rows]
    wide = [max(len(row[n]) for row in [head, *cells]) for n in range(len(head))]
    right = [field in NUMBERS for field in ("product", *fields)]

    def line(row: list[str]) -> str:
        texts = (
            text.rjust(n) if far else text.ljust(n)
            for text, n, far in zip(row, wide, right, strict=True)
        )
        return f"| {' | '.join(texts)} |"

    yield line(head)
    rules = ("-" * (n + 1) + (":" if far else "-") for n, far in zip(wide, right, strict=True))
    yield f"|{'|'.join(rules)}|"
    yield from map(line, cells)


def _cell(field: str, value: str) -> str:
    text = f"{int(value):,}" if field in NUMBERS and value.isdigit() else value.replace("|", "\\|")
    if field == "install" and len(text) > INSTALL:
        return text[:INSTALL].rpartition(",")[0] + ", …"
    return text


def _evidence(facts: list[dict[str, str]]) -> Iterator[str]:
    """Where rules made the matrix: each value with the words it rests on."""
    if facts:
        yield "## The evidence"
    for product, own in groupby(facts, key=lambda fact: fact["product"]):
        yield from ("", f"### {product}", "")
        for fact in own:
            quote = " ".join(fact["evidence"].split()).replace("`", "'")
            yield f"- {fact['field'].replace('_', ' ')}: **{fact['value']}**, from `{quote}`"
