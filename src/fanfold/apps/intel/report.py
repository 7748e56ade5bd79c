"""What the run leaves: a report to read, and the matrix as records."""

from __future__ import annotations

from typing import Any

SHOWN = ("licence", "language", "since", "last_active", "commits", "releases", "latest_release")
OFFERED = ("docker", "kubernetes", "managed_cloud", "install")
MORE = "<!-- more -->"
HOW = """\
Every fact was quoted from the product's README or from what git knows of it (`fanfold report intel`
has the replies with their quotes); a gate checks each quote word for word. With `roster.yaml` the
readers are rules (`reader.py`), no language model: they know the usual words for a licence, a
language, a way to install, and nothing of what a product is good for."""


def told(given: dict[str, Any]) -> str:
    """The member's function for report.md."""
    found = given["steps"]["compare"]
    rows, missing = found["matrix"], found["missing"]
    lines = [f"# {len(rows)} products compared", "", *_table(rows, SHOWN), ""]
    lines += [*_missing(missing), *(f"- {sentence}" for sentence in found["summary"]), "", HOW]
    lines += ["", MORE, "", "## How to run them", "", *_table(rows, OFFERED)]
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


def _table(rows: list[dict[str, str]], fields: tuple[str, ...]) -> list[str]:
    head = ["product", *(field.replace("_", " ") for field in fields)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row["product"], *(row[field] for field in fields)]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines
