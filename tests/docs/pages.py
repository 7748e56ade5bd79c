"""The pages as data: their code blocks, each with the comment that stands before it.

`<!-- file: NAME -->` the block is that file's content, for the blocks after it.
`<!-- change: NAME -->` the block is a change of that file: lines that go with `-` before them, lines
that come with `+`, and lines around them. `<!-- run: PROJECT -->` the block is a session at a
terminal, run in that folder and compared; a `cd` holds for the rest of it; with ` about` behind it
all numbers may differ. `<!-- not run -->` a Python block that is not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
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
        """The file that the block shows, or shows a change of."""
        word, _, name = self.note.partition(": ")
        return name if word in ("file", "change") else None


def pages() -> list[Path]:
    """The README and all pages under docs/ but the decisions, which tell of the past."""
    found = (ROOT / "docs").glob("*.md")
    return [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted(found)]


@cache
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


def write_files(page: Path, folder: Path) -> None:
    """All files that the page shows, as they are at its end."""
    for block in blocks(page):
        if block.file:
            write_file(block, folder)


def write_file(block: Block, folder: Path, change: Mapping[str, str] | None = None) -> None:
    """The file that a block shows; `change` has words to put in the place of others."""
    assert block.file
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    text = block.text
    if block.language == "diff":
        text = _changed(path.read_text(encoding="utf-8"), block)
    for old, new in (change or {}).items():
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def _changed(text: str, block: Block) -> str:
    """The lines with `-` and those around them must be there as they stand, in one place."""
    lines = block.text.splitlines(keepends=True)
    old = "".join(line[1:] for line in lines if line[0] != "+")
    new = "".join(line[1:] for line in lines if line[0] != "-")
    assert text.count(old) == 1, f"{block}: {block.file} has not these lines"
    return text.replace(old, new)
