"""The products in `data`, one JSON line each: the README and what git knows, as one text to read.

The files stand there as they are, to be quoted. What can be counted is counted here, under a headline
of its own and last, so that nobody who reads has to add up numbers; nothing may be quoted from there.
A file that cannot be read costs its product, not the others: `broken` names it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
VERSION = re.compile(r"\d+\.\d+")
TAGS_SHOWN = 5
COUNTED = "===== counted from these files ====="


def products(data: Path = DATA) -> list[dict[str, Any]]:
    """Every product that has a README or evidence of its own."""
    names = {path.stem for path in data.glob("texts/*.md")}
    names |= {path.stem for path in data.glob("evidence/*.json")}
    return [_item(data, name) for name in sorted(names)]


def _item(data: Path, name: str) -> dict[str, Any]:
    try:
        return {"id": name, "product": name, "text": material(data, name)}
    except ValueError as error:
        return {"id": name, "product": name, "text": "", "broken": str(error)}


def material(data: Path, name: str) -> str:
    """The parts that there are, each under its headline; what is not there has none."""
    readme, evidence = data / "texts" / f"{name}.md", data / "evidence" / f"{name}.json"
    tags = data / "evidence" / f"{name}.tags.txt"
    parts = []
    counted: list[str] = []
    if readme.exists() and (text := _read(readme, data).strip()):
        parts.append(_part("readme", text))
    if evidence.exists():
        parts += _known(_object(evidence, data), counted)
    if tags.exists():
        parts += _tagged(_read(tags, data).splitlines(), counted)
    if counted:
        parts.append("\n".join([COUNTED, *counted]))
    return "\n\n".join(parts)


def _read(file: Path, data: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "not a text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        raise ValueError(f"{data.name}/{file.relative_to(data)}: {why}") from None


def _object(file: Path, data: Path) -> dict[str, Any]:
    place = f"{data.name}/{file.relative_to(data)}"
    try:
        known = json.loads(_read(file, data))
    except json.JSONDecodeError as error:
        raise ValueError(f"{place}:{error.lineno}: broken JSON: {error.msg}") from None
    if not isinstance(known, dict):
        raise ValueError(f"{place}: not an object")
    for name, kind in (
        ("licence_file_head", str),
        ("commits_by_year", dict),
        ("bytes_by_extension", dict),
    ):
        if not isinstance(known.get(name, kind()), kind):
            raise ValueError(f"{place}: `{name}` is not what it should be")
        if kind is dict and not all(type(n) is int for n in known.get(name, {}).values()):
            raise ValueError(f"{place}: `{name}` holds something else than whole numbers")
    return known


def _part(name: str, text: str) -> str:
    return f"===== {name} =====\n{text}"


def _known(known: dict[str, Any], counted: list[str]) -> list[str]:
    parts = []
    if head := known.get("licence_file_head", "").strip():
        parts.append(_part("licence file", head))
    if years := known.get("commits_by_year"):
        lines = [f'"{year}": {n}' for year, n in sorted(years.items())]
        parts.append(_part("commits by year", ",\n".join(lines)))
        counted.append(f"{sum(years.values())} commits in all")
    if sizes := known.get("bytes_by_extension"):
        ranked = sorted(sizes.items(), key=lambda pair: -pair[1])
        parts.append(
            _part("bytes by file ending", ",\n".join(f'"{end}": {n}' for end, n in ranked))
        )
    return parts


def _tagged(lines: list[str], counted: list[str]) -> list[str]:
    """Only tags with a version in them count; they come in the order of their dates."""
    versions = [line.strip() for line in lines if VERSION.search(line.partition(" ")[2])]
    if not versions:
        return []
    counted.append(f"{len(versions)} version tags in all")
    return [_part("version tags, the last of them", "\n".join(versions[-TAGS_SHOWN:]))]


if __name__ == "__main__":
    for product in products():
        sys.stdout.write(json.dumps(product) + "\n")
