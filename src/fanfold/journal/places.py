"""How a user names a store, and folders of the user that are no part of a store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+]+):(?!\\)", re.ASCII)


def scheme_of(place: str) -> str:
    """`postgresql` of `postgresql://host/name`, `memory` of `memory:`; "" for a folder.

    A folder whose name looks like that can be given as `./memory:`.
    """
    found = _URL.match(place)
    return "" if found is None else found["scheme"]


def absolute(place: str | Path) -> str:
    """The same store, named so that it is found from any folder."""
    return str(place) if scheme_of(str(place)) else str(Path(place).absolute())


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """`fanfold` in the user's state folder: XDG_STATE_HOME, else ~/.local/state."""
    state = environ.get("XDG_STATE_HOME") or Path(environ.get("HOME", "~"), ".local", "state")
    return Path(state).expanduser() / "fanfold"
