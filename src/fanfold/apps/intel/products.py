"""The products in `data`, one JSON line each: the README and what git knows, as one text to read.

What can be counted is counted here, so that nobody who reads has to add up numbers.
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


def products(data: Path = DATA) -> list[dict[str, Any]]:
    """Every product that has a README or evidence of its own."""
    names = {path.stem for path in data.glob("texts/*.md")}
    names |= {path.stem for path in data.glob("evidence/*.json")}
    return [{"id": name, "product": name, "text": material(data, name)} for name in sorted(names)]


def material(data: Path, name: str) -> str:
    """The parts that there are, each under its headline; what is not there has none."""
    readme, evidence = data / "texts" / f"{name}.md", data / "evidence" / f"{name}.json"
    tags = data / "evidence" / f"{name}.tags.txt"
    parts = []
    if readme.exists() and (text := readme.read_text(encoding="utf-8").strip()):
        parts.append(_part("readme", text))
    if evidence.exists():
        known = json.loads(evidence.read_text(encoding="utf-8"))
        parts += _counted(known)
    if tags.exists():
        parts += _tagged(tags.read_text(encoding="utf-8").splitlines())
    return "\n\n".join(parts)


def _part(name: str, text: str) -> str:
    return f"===== {name} =====\n{text}"


def _counted(known: dict[str, Any]) -> list[str]:
    parts = []
    if head := known.get("licence_file_head", "").strip():
        parts.append(_part("licence file", head))
    if years := known.get("commits_by_year"):
        lines = [f"{year}: {n}" for year, n in sorted(years.items())]
        whole = f"{sum(years.values())} commits in all, from {min(years)} to {max(years)}"
        parts.append(_part("commits by year", "\n".join([*lines, whole])))
    if sizes := known.get("bytes_by_extension"):
        ranked = sorted(sizes.items(), key=lambda pair: -pair[1])
        parts.append(_part("bytes by file ending", "\n".join(f"{end}: {n}" for end, n in ranked)))
    return parts


def _tagged(lines: list[str]) -> list[str]:
    """Only tags with a version in them count; they come in the order of their dates."""
    versions = [line.strip() for line in lines if VERSION.search(line.partition(" ")[2])]
    if not versions:
        return []
    whole = f"{len(versions)} version tags; the latest: {versions[-1]}"
    return [_part("version tags", "\n".join([*versions[-TAGS_SHOWN:], whole]))]


if __name__ == "__main__":
    for product in products():
        sys.stdout.write(json.dumps(product) + "\n")
