"""Numbers: units spelled in several ways, signs for per cent, noise behind the point."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from statistics import median
from typing import Any

NUMBER = re.compile(
    r"\s*([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?)(\s*)([^\d\s][^\d]*)?"
)
KNOWN = 0.9
ONE_SPELLING = 0.9
NOISE = 10  # digits behind the point that no scale shows
TINY = 1e-13  # of a number; what sums of floating-point numbers are off by
LONGEST_UNIT = 30
MOST_UNITS = 12
LEAST_SHARE = 0.03
SAME_SCALE = 8.0


def learn(counts: Counter[str]) -> dict[str, Any] | None:
    """A column of numbers. With one spelling of the unit it belongs to the form; with several the
    bare number is the form, and `units` are those on the same scale, with a factor each."""
    spellings, sizes = Counter[str](), defaultdict(list)
    for value, n in counts.items():
        parts = split(value)
        if parts is not None:
            spellings[parts[1]] += n
            sizes[parts[1].strip()].extend([float(parts[0].replace(",", ""))] * min(n, 50))
    total, found = counts.total(), spellings.total()
    if total < 10 or found < KNOWN * total or not _measures(spellings, sizes):
        return None
    usual, many = spellings.most_common(1)[0]
    alone = many >= ONE_SPELLING * found
    form: dict[str, Any] = {"kind": "number", "unit": usual if alone else "", "bare": not alone}
    long = sum(n for value, n in counts.items() if _digits(value) >= NOISE)
    form["exact"] = 2 * long > found
    form["units"] = {} if alone and usual else _same_scale(_usual_units(spellings, sizes))
    return form


def _measures(spellings: Counter[str], sizes: dict[str, list[float]]) -> bool:
    """Few units, each with several numbers; else it is a text that begins with a number."""
    if spellings[""] >= ONE_SPELLING * spellings.total():
        return True
    named = {unit: numbers for unit, numbers in sizes.items() if unit}
    several = sum(len(numbers) for numbers in named.values() if len(set(numbers)) > 1)
    covered = sum(n for _, n in spellings.most_common(MOST_UNITS))
    told = sum(len(numbers) for numbers in named.values())
    return covered >= 0.98 * spellings.total() and several >= 0.5 * told


def _usual_units(spellings: Counter[str], sizes: dict[str, list[float]]) -> dict[str, list[float]]:
    """Those that are common here, and longer ones that begin with such a one. What stands behind
    one or two numbers only may as well be a slip of the pen."""
    counted: Counter[str] = Counter()
    for spelling, n in spellings.items():
        counted[spelling.strip()] += n
    least = max(3, LEAST_SHARE * counted.total())
    common = {unit for unit, n in counted.items() if n >= least}
    return {
        unit: numbers
        for unit, numbers in sizes.items()
        if unit in common
        or any(one and unit.lower().startswith(f"{one.lower()} ") for one in common)
    }


def split(value: str) -> tuple[str, str] | None:
    """The number and what stands behind it, with the blank before that."""
    match = NUMBER.fullmatch(value)
    if match is None or len(match[3] or "") > LONGEST_UNIT:
        return None
    unit = match[3] or ""
    return match[1], f"{match[2]}{unit.rstrip()}" if unit else ""


def read(value: str, form: dict[str, Any]) -> str | None:
    parts = split(value)
    if parts is None:
        return None
    number, unit = parts
    clean = number if form["exact"] else _quiet(number)
    if unit == form["unit"]:
        return value.strip() if clean == number else clean + unit
    if form["unit"]:
        return clean + form["unit"] if _spelled_alike(unit, form["unit"]) else None
    factor = form["units"].get(unit.strip())
    return None if factor is None else _scaled(clean, factor, form["bare"])


def _same_scale(sizes: dict[str, list[float]]) -> dict[str, float]:
    """Units whose numbers are as large as the bare ones (or those of the commonest unit): they mean
    the same. Per cent that are a hundred times as large are divided."""
    measured = sizes.get("") or max(sizes.values(), key=len)
    middle = median(measured)
    found: dict[str, float] = {}
    for unit, numbers in sizes.items():
        ratio = median(numbers) / middle if middle else 1.0
        if 1 / SAME_SCALE < ratio < SAME_SCALE:
            found[unit] = 1.0
        elif unit == "%" and 100 / SAME_SCALE < ratio < 100 * SAME_SCALE:
            found[unit] = 0.01
    return found


def _scaled(number: str, factor: float, bare: bool) -> str:
    if factor != 1.0:
        number = format(float(number.replace(",", "")) * factor, ".10g")
    return re.sub(r"\.0*$", "", number) if bare or factor != 1.0 else number


def _digits(number: str) -> int:
    return len(number.partition(".")[2])


def _quiet(number: str) -> str:
    """0.059000000000000004 is 0.059: what a computer adds by itself. Digits that say something stay."""
    if _digits(number) < NOISE or "e" in number.lower():
        return number
    exact = float(number.replace(",", ""))
    rounded = format(exact, ".10g")
    added = abs(exact - float(rounded)) <= TINY * abs(exact)
    return rounded if added and len(rounded) < len(number) - 3 else number


def _spelled_alike(unit: str, usual: str) -> bool:
    """Without case and signs the same word, nothing at all, or one sign away from it."""
    ours, theirs = (re.sub(r"[^a-z%]", "", one.lower()) for one in (usual, unit))
    if not theirs or ours == theirs:
        return True
    return (
        len(ours) == len(theirs) > 3 and sum(a != b for a, b in zip(ours, theirs, strict=True)) == 1
    )
