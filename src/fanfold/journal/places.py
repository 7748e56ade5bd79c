"""How a user names a store."""

from __future__ import annotations

import re
from pathlib import Path

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+]+):(?!\\)", re.ASCII)


def scheme_of(place: str) -> str:
    """`postgresql` of `postgresql://host/name`, `memory` of `memory:`; "" for a folder.

    A folder whose name looks like that can be given as `./memory:`.
    """
    found = _URL.match(place)
    return "" if found is None else found["scheme"]


def shown(place: str | Path) -> str:
    """As it may be printed: a URL without what stands before its host, and without its query."""
    text = str(place)
    return re.sub("//.*@", "//", text.partition("?")[0]) if scheme_of(text) else text


def absolute(place: str | Path) -> str:
    """The same store, named so that it is found from any folder."""
    return str(place) if scheme_of(str(place)) else str(Path(place).absolute())
