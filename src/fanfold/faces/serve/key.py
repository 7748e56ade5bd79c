"""The key that clients of the endpoint must show: a new one, or one kept elsewhere."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from hmac import compare_digest
from pathlib import Path

from fanfold.errors import BadInput


def new_key() -> str:
    return f"ff-{secrets.token_urlsafe(32)}"


def read_key(reference: str, environ: Mapping[str, str] = os.environ) -> str:
    """From env:NAME or file:PATH. What stands there instead may be the key itself: not repeated."""
    how, _, name = reference.partition(":")
    if how not in ("env", "file") or not name:
        raise BadInput("--key is env:NAME or file:PATH, never the key itself")
    try:
        found = environ.get(name, "") if how == "env" else _content(name)
    except (OSError, UnicodeDecodeError):
        found = ""
    if not found.strip():
        raise BadInput(f"--key {reference}: there is no key; set it, or leave --key out")
    return found.strip()


def _content(name: str) -> str:
    return Path(name).expanduser().read_text(encoding="utf-8")


def shown(authorization: str, key: str) -> bool:
    """Does an Authorization header show this key? It takes as long for every wrong one."""
    how, _, said = authorization.partition(" ")
    same = compare_digest(said.strip().encode("utf-8", "replace"), key.encode())
    return same and how.lower() == "bearer"
