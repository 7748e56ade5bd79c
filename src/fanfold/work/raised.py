"""An exception of the user's code in one line: what, and in which line of which of their files."""

from __future__ import annotations

import logging
import os
import sysconfig
import traceback
from asyncio import CancelledError
from functools import partial
from pathlib import Path
from types import TracebackType

from fanfold.work.text import from_here

_log = logging.getLogger("fanfold.raised")
_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_APPS = _PACKAGE + "apps" + os.sep
_LIBRARIES = tuple(
    path + os.sep for name in ("stdlib", "platstdlib") if (path := sysconfig.get_paths().get(name))
)
_LONGEST = 300  # characters of its text


def error_text(error: BaseException) -> str:
    """`KeyError: 'price' (rules.py:12)`. The place is the innermost one in a file that is neither
    fanfold's nor a library's; without such a file there is none. Of a group, its first error. The traceback
    goes to the log `fanfold.raised`, for `--debug`. What asyncio cancelled, by Ctrl-C say, is no mistake."""
    error, *others = singly(error)
    if isinstance(error, CancelledError):
        return "cancelled"
    text = _message(error)
    place = _place(error.__traceback__)
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("%s", place, exc_info=error)
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    what = f"{what} ({place})" if place else what
    return f"{what}, and {len(others)} more" if others else what


def singly(error: BaseException) -> list[BaseException]:
    """What a group of errors is made of, such as a task group raises; of any other error, that one."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [one for each in error.exceptions for one in singly(each)]


def name_of(function: object) -> str:
    """What users call a function of theirs; of what has no name, its type."""
    while isinstance(function, partial):
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__name__
    return str(name).rpartition("<locals>.")[2]


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # their class, their `__str__`
        return "(without a message)"
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _place(trace: TracebackType | None) -> str:
    found = ""
    for frame, line in traceback.walk_tb(trace):
        file = frame.f_code.co_filename
        if _is_users(file):
            found = f"{_short(file)}:{line}"
    return found


def _is_users(file: str) -> bool:
    if file.startswith("<") or "site-packages" in file or "dist-packages" in file:
        return False
    return not file.startswith((_PACKAGE, *_LIBRARIES)) or file.startswith(_APPS)


def _short(file: str) -> str:
    """As it is named from here, when it is below; else its name."""
    below = from_here(file)
    return below if below != file else Path(file).name
