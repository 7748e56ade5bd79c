"""Where the roster is, and who is named in it; without building anything."""

from __future__ import annotations

import os
from pathlib import Path

from fanfold.work.document import read
from fanfold.work.files import expanded
from fanfold.work.folders import user_folder

DEFAULT_ROSTER = Path(__file__).with_name("default_roster.yaml")
"""The one that counts when there is no other: it needs no account."""


def find_roster(
    explicit: str | Path | None,
    plan_named: str | None,
    plan_folder: str | Path,
) -> Path:
    """Which roster counts: `--roster`, the plan's, FANFOLD_ROSTER, roster.yaml beside the plan, the
    user's own, DEFAULT_ROSTER. A stated one need not exist; reading it will say so.
    """
    folder = Path(plan_folder)
    if explicit:
        return Path(explicit)
    if plan_named:
        return folder / expanded(plan_named)
    if os.environ.get("FANFOLD_ROSTER"):
        return expanded(os.environ["FANFOLD_ROSTER"])
    beside = folder / "roster.yaml"
    if beside.is_file():
        return beside
    own = user_folder("config") / "roster.yaml"
    return own if own.is_file() else DEFAULT_ROSTER


def member_names(file: Path) -> list[str]:
    """The ids in a roster, whatever else is wrong with it; BadInput if it is no YAML."""
    top = read(file).value
    members = top.get("members") if isinstance(top, dict) else top
    entries = members if isinstance(members, list) else []
    found = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return [id for id in found if isinstance(id, str)]
