"""Ways to spoil a project, for tests of what the command line says about it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

Spoil = Callable[[Path], None]
"""Does something to a project's folder."""


def nothing(folder: Path) -> None:
    """The words alone are wrong."""


def put(name: str, text: str | bytes) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return spoil


def change(name: str, old: str, new: str) -> Spoil:
    def spoil(folder: Path) -> None:
        text = (folder / name).read_text()
        assert text.count(old) == 1
        (folder / name).write_text(text.replace(old, new))

    return spoil


def plan(old: str, new: str) -> Spoil:
    return change("plan.yaml", old, new)


def in_map(*lines: str) -> Spoil:
    """More fields for the map of the plan; the first stands in line 9."""
    return plan("  - reduce", "".join(f"      {line}\n" for line in lines) + "  - reduce")


def add(name: str, text: str) -> Spoil:
    return lambda folder: put(name, (folder / name).read_text() + text)(folder)


def in_member(line: str) -> Spoil:
    """One more field for the member of the roster; it stands in line 10."""
    return add("roster.yaml", f"    {line}\n")


def roster(*members: str) -> Spoil:
    return put("roster.yaml", "members:\n" + "".join(f"  - {member}\n" for member in members))


def remove(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def both(*spoils: Spoil) -> Spoil:
    def spoil(folder: Path) -> None:
        for one in spoils:
            one(folder)

    return spoil


def pipe(name: str) -> Spoil:
    """To which nobody ever writes."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


def link(name: str, to: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(to)

    return spoil


# ── stores ───────────────────────────────────────────────────────────────────────────────────

JOURNAL = ".fanfold/journal.db"


def foreign(folder: Path) -> None:
    """Another program's database stands where the journal should be, in `other`."""
    (folder / "other").mkdir()
    db = sqlite3.connect(folder / "other" / "journal.db")
    db.execute("create table theirs (a)")
    db.commit()
    db.close()


def torn(folder: Path) -> None:
    """Cut off in the middle."""
    journal = folder / JOURNAL
    journal.write_bytes(journal.read_bytes()[:8192])


def scratched(folder: Path) -> None:
    """All there, but two pages are rubbish."""
    journal = folder / JOURNAL
    whole = bytearray(journal.read_bytes())
    whole[4096 : 3 * 4096] = b"\xff" * 8192
    journal.write_bytes(whole)


def newer(folder: Path) -> None:
    db = sqlite3.connect(folder / JOURNAL)
    db.execute("pragma user_version = 99")
    db.execute("pragma wal_checkpoint(truncate)")
    db.close()
