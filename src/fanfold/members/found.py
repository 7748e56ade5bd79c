"""Where the roster is, and who is named in it; without building anything."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fanfold.work.document import read

DEFAULT_ROSTER = Path(__file__).with_name("default_roster.yaml")
"""The one that counts when there is no other: it needs no account."""


def find_roster(
    explicit: str | Path | None,
    plan_named: str | None,
    plan_folder: str | Path,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """Which roster counts: `--roster`, the plan's, FANFOLD_ROSTER, roster.yaml beside the plan, the
    user's own, at last DEFAULT_ROSTER. A stated one need not exist; reading it will say so.
    """
    folder = Path(plan_folder)
    if explicit:
        return Path(explicit)
    if plan_named:
        return folder / Path(plan_named).expanduser()
    if environ.get("FANFOLD_ROSTER"):
        return Path(environ["FANFOLD_ROSTER"]).expanduser()
    home = Path(environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~"), ".config"))
    usual = (folder / "roster.yaml", home.expanduser() / "fanfold" / "roster.yaml")
    return next((path for path in usual if path.is_file()), DEFAULT_ROSTER)


def member_names(file: Path) -> list[str]:
    """The ids in a roster, whatever else is wrong with it; BadInput if it is no YAML."""
    top = read(file).value
    members = top.get("members") if isinstance(top, dict) else top
    entries = members if isinstance(members, list) else []
    found = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return [id for id in found if isinstance(id, str)]
