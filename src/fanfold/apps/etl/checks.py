"""What may be changed: only cells that were asked about, each with a reason."""

from __future__ import annotations

from typing import Any

MOST = 3


def only_asked(value: dict[str, Any], item: Any) -> bool | str:
    """The gate of the stage `clean`."""
    asked = {
        (row["row"], sign["column"]): sign["value"]
        for row in item.data["rows"]
        for sign in row["signs"]
    }
    wrong = [why for change in value["changes"] if (why := _wrong(change, asked))]
    cells = [(change["row"], change["column"]) for change in value["changes"]]
    wrong += [
        f"row {r}, {c}: changed twice" for r, c in dict.fromkeys(cells) if cells.count((r, c)) > 1
    ]
    return "; ".join(wrong[:MOST]) or True


def _wrong(change: dict[str, Any], asked: dict[tuple[int, str], str]) -> str | None:
    cell = (change["row"], change["column"])
    place = f"row {cell[0]}, {cell[1]}"
    if cell not in asked:
        return f"{place}: this cell has no sign, leave it as it is"
    if change["from"] != asked[cell]:
        return f"{place}: it holds {asked[cell]!r}, not {change['from']!r}"
    if change["to"] == change["from"]:
        return f"{place}: nothing is changed; name only cells that you change"
    if not change["reason"].strip():
        return f"{place}: there is no reason"
    return None
