"""Small files that are there after a power cut, whole or not at all."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

import msgspec


def keep(file: Path, record: msgspec.Struct) -> None:
    """Write a record and wait until it is on the disk. Raises OSError and leaves what was there."""
    put(file, msgspec.json.encode(record))
    settle(file.parent)


def put(file: Path, content: bytes) -> None:
    """As `keep`, but its name may be lost until the folder is settled too."""
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}.new")
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(handle, "wb") as stream:
            _give_to_owner(handle, file.parent)
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        os.replace(new, file)
    except OSError:
        with suppress(OSError):
            new.unlink()
        raise


def _give_to_owner(handle: int, folder: Path) -> None:
    """What root writes into another user's folder, such as an order to end a worker, is to be read
    there."""
    if os.geteuid() == 0:
        owner = os.stat(folder)
        os.fchown(handle, owner.st_uid, owner.st_gid)


def settle(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
