"""The pages as data: their code blocks, each with the comment that stands before it.

`<!-- file: NAME -->` the block is that file's content, for the other blocks of the page.
`<!-- run: PROJECT -->` the block is a session at a terminal, run in that folder and compared;
with ` about` behind it all numbers may differ. `<!-- not run -->` a Python block that is not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    page: str
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str | None:
        return self.note.removeprefix("file: ") if self.note.startswith("file: ") else None


def pages() -> list[Path]:
    """The README and all pages under docs/ but the decisions, which tell of the past."""
    found = (ROOT / "docs").glob("*.md")
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(found)]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    return [
        Block(name, text.count("\n", 0, found.start("language")) + 1, found["language"],
              found["note"] or "", found["text"])
        for found in _BLOCK.finditer(text)
    ]  # fmt: skip


def all_blocks(language: str) -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.language == language]


def write_files(page: Path, folder: Path, change: Mapping[str, str] | None = None) -> None:
    """All files that the page shows; `change` has words to put in the place of others."""
    for block in blocks(page):
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            text = block.text
            for old, new in (change or {}).items():
                text = text.replace(old, new)
            path.write_text(text, encoding="utf-8")
