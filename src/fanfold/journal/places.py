"""Folders of the user that are no part of a store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`fanfold` in the user's state folder: XDG_STATE_HOME, else ~/.local/state."""
    state = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "~"), ".local", "state")
    return Path(state).expanduser() / "fanfold"
