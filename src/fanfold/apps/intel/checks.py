"""The gates: every field is accounted for, and the matrix says what was found, no more and no less."""

from __future__ import annotations

from typing import Any

from compare import row_of
from products import COUNTED
from reader import FIELDS

MOST = 3


def accounted(value: dict[str, Any], item: Any) -> bool | str:
    """Of a product's facts: this product, each field once, as a fact or as absent, and quotes that are
    from the product's files, not from what was counted beside them."""
    if broken := item.data.get("broken"):
        return str(broken)
    wrong = []
    files = " ".join(item.data.get("text", "").rpartition(COUNTED)[0].split())
    if files:
        wrong += [
            f"`{fact['field']}` is not quoted from the product's files"
            for fact in value["facts"]
            if " ".join(fact["evidence"].split()) not in files
        ]
    if value["product"] != item.data["product"]:
        wrong.append(f"`product` is {item.data['product']!r}, not {value['product']!r}")
    named = [fact["field"] for fact in value["facts"]] + value["absent"]
    wrong += [
        f"`{field}` is neither in `facts` nor in `absent`" for field in FIELDS if field not in named
    ]
    wrong += [f"`{field}` stands there twice" for field in FIELDS if named.count(field) > 1]
    blank = [fact["field"] for fact in value["facts"] if not fact["value"].strip()]
    wrong += [f"`{field}` has no value; put it into `absent`" for field in blank]
    return "; ".join(wrong[:MOST]) or True


def faithful(value: dict[str, Any], item: Any) -> bool | str:
    """Of the matrix: a row for each product that was found, with its facts; the others are named."""
    wanted = {part["value"]["product"]: row_of(part["value"]) for part in item.data["parts"]}
    rows = {row["product"]: row for row in value["matrix"]}
    lacking = {one["id"] for one in item.data["missing"]}
    wrong = [f"there is no row for {name}" for name in wanted if name not in rows]
    wrong += [
        f"nothing was found of {name}, so it has no row" for name in rows if name not in wanted
    ]
    for name, row in rows.items():
        for field, found in wanted.get(name, {}).items():
            if row[field] != found:
                wrong.append(f"{name}, {field}: found was {found!r}, not {row[field]!r}")
    named = {one["product"] for one in value["missing"]}
    wrong += [f"{name} must be named in `missing`" for name in sorted(lacking - named)]
    return "; ".join(wrong[:MOST]) or True
