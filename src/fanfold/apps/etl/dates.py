"""Dates: those in another order or with other signs, written as the column usually writes them."""

from __future__ import annotations

import re
from collections import Counter
from datetime import date
from typing import Any, NamedTuple

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
NUMERIC = re.compile(r"\s*(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})\s*")
NAMED = re.compile(
    r"\s*(?:(\d{1,2})[ ./-])?\s*([A-Za-z]{3,9})\.?[ ./-]\s*(?:(\d{1,2}),?[ ./-]\s*)?(\d{4})\s*"
)
KNOWN = 0.8


class Read(NamedTuple):
    """Three numbers as they stand, the sign between them, and the order if it can be told."""

    numbers: tuple[str, str, str]
    sign: str
    order: str


def learn(counts: Counter[str]) -> dict[str, Any] | None:
    """A column of dates whose commonest style, numeric, leaves no doubt about day and month."""
    total = sum(counts.values())
    styles: Counter[tuple[str, str, bool]] = Counter()
    found = 0
    for value, n in counts.items():
        parts = _numeric(value)
        if parts is None:
            found += n if _named(value) else 0
            continue
        found += n
        padded = all(len(one) > 1 for one in parts.numbers)
        styles[(_years_place(parts), parts.sign, padded)] += n
    if total < 10 or found < KNOWN * total or not styles:
        return None
    (place, sign, padded), many = styles.most_common(1)[0]
    order = _order(counts, place)
    if many < 0.5 * total or order is None:
        return None
    years = {
        len(_year(p, order)) for v in counts if (p := _numeric(v)) and _years_place(p) == place
    }
    return {
        "kind": "date",
        "order": order,
        "sign": sign,
        "padded": padded,
        "short": max(years) <= 2,
    }


def read(value: str, form: dict[str, Any]) -> str | None:
    found = _named(value)
    parts = _numeric(value)
    if parts is not None:
        if _fits(parts, form):
            return value.strip()
        found = _dated(parts, form["order"])
    return None if found is None else _written(found, form)


def _numeric(value: str) -> Read | None:
    match = NUMERIC.fullmatch(value)
    if match is None or max(len(match[1]), len(match[4])) == 3:
        return None
    return Read((match[1], match[3], match[4]), match[2], "")


def _years_place(parts: Read) -> str:
    """`first`, `last`, or `unsure` where the year has two digits too."""
    first, _, last = parts.numbers
    return "first" if len(first) == 4 else "last" if len(last) == 4 else "unsure"


def _order(counts: Counter[str], place: str) -> str | None:
    """dmy, mdy or ymd: from the dates in which a number is too large to be a month."""
    fits: Counter[str] = Counter()
    orders = {"first": ("ymd",), "last": ("mdy", "dmy"), "unsure": ("mdy", "dmy", "ymd")}[place]
    total = 0
    for value, n in counts.items():
        parts = _numeric(value)
        if parts is None or _years_place(parts) != place:
            continue
        total += n
        for order in orders:
            fits[order] += n if _as_date(parts, order) else 0
    ranked = fits.most_common(2)
    if not ranked or ranked[0][1] < 0.95 * total:
        return None
    return None if len(ranked) == 2 and ranked[0][1] == ranked[1][1] else ranked[0][0]


def _year(parts: Read, order: str) -> str:
    return parts.numbers[order.index("y")]


def _as_date(parts: Read, order: str) -> date | None:
    told = {name: int(number) for name, number in zip(order, parts.numbers, strict=True)}
    year = told["y"] if len(_year(parts, order)) == 4 else 2000 + told["y"] % 100
    try:
        return date(year, told["m"], told["d"])
    except ValueError:
        return None


def _dated(parts: Read, usual: str) -> date | None:
    """In the usual order if that makes sense; a year that stands first or last says its own."""
    place = _years_place(parts)
    if place == "first":
        return _as_date(parts, "ymd")
    order = usual if usual != "ymd" or place == "unsure" else "dmy"
    return _as_date(parts, order)


def _named(value: str) -> date | None:
    match = NAMED.fullmatch(value)
    day = match and (match[1] or match[3])
    if match is None or not day or match[2][:3].lower() not in MONTHS:
        return None
    try:
        return date(int(match[4]), MONTHS.index(match[2][:3].lower()) + 1, int(day))
    except ValueError:
        return None


def _fits(parts: Read, form: dict[str, Any]) -> bool:
    order = form["order"]
    long = len(_year(parts, order)) == 4
    return (
        parts.sign == form["sign"] and long != form["short"] and _as_date(parts, order) is not None
    )


def _written(found: date, form: dict[str, Any]) -> str:
    year = f"{found.year % 100:02d}" if form["short"] else str(found.year)
    width = "02d" if form["padded"] else "d"
    told = {"y": year, "m": format(found.month, width), "d": format(found.day, width)}
    return str(form["sign"]).join(told[name] for name in form["order"])
