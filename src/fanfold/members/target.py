"""`module:attribute` to the Python object it names, imported from the plan's folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from fanfold.errors import BadInput
from fanfold.work.nearest import remedy
from fanfold.work.raised import error_text

_own: dict[Path, dict[str, ModuleType]] = {}
"""Modules that came from a plan's folder while another module of that name was in use."""


def resolve_target(
    target: str, folder: str | Path, *, file: str | None = None, line: int | None = None
) -> Any:
    """Import what `module:attribute` names; a callable. BadInput (at `file`, `line`) if it cannot.

    A module of that name in `folder` goes before all others but Python's own. Two folders may hold
    modules of one name: each gets its own, also when they in turn import their neighbours.
    """
    module_name, names = parts_of(target, file=file, line=line)
    try:
        found: Any = _module(module_name, Path(folder).resolve())
    except (Exception, SystemExit) as error:
        what = f"cannot import `{module_name}` for target `{target}`: {_in_short(error)}"
        raise BadInput(what, file=file, line=line) from None
    for name in names:
        if not hasattr(found, name):
            public = [known for known in dir(found) if not known.startswith("_")]
            what = f"target `{target}`: `{module_name}` has no `{name}`: {remedy(name, public)}"
            raise BadInput(what, file=file, line=line)
        found = getattr(found, name)
    if not callable(found):
        what = f"target `{target}` is a {type(found).__name__}, not a function"
        raise BadInput(what, file=file, line=line)
    return found


def parts_of(target: str, *, file: str | None, line: int | None) -> tuple[str, list[str]]:
    """The module, and the way from there to the attribute."""
    module, colon, path = target.partition(":")
    names = path.split(".")
    if not colon or not all(name.isidentifier() for name in (*module.split("."), *names)):
        what = f"target `{target}` must be module:attribute, for example contracts:flag_risks"
        raise BadInput(what, file=file, line=line)
    return module, names


def _module(name: str, folder: Path) -> ModuleType:
    with _first_in_line(folder):
        importlib.invalidate_caches()
        return importlib.import_module(name)


@contextmanager
def _first_in_line(folder: Path) -> Iterator[None]:
    """While inside, `folder` leads the search path and foreign modules of its names are away."""
    names = _names_in(folder)
    foreign = {name: module for name, module in sys.modules.items()
               if _top(name) in names and not _is_from(module, folder)}  # fmt: skip
    for name in foreign:
        del sys.modules[name]
    sys.modules.update(_own.get(folder, {}))
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        taken = {_top(name) for name in foreign}
        mine = {name: module for name, module in sys.modules.items() if _top(name) in taken}
        if mine:
            _own.setdefault(folder, {}).update(mine)
            for name in mine:
                del sys.modules[name]
        sys.modules.update(foreign)


def _names_in(folder: Path) -> set[str]:
    """What can be imported from here, except what would hide Python's own modules."""
    names = {path.stem for path in folder.glob("*.py")}
    names |= {path.parent.name for path in folder.glob("*/__init__.py")}
    return names - sys.stdlib_module_names - {"fanfold", "__main__", "__init__"}


def _top(name: str) -> str:
    return name.partition(".")[0]


def _is_from(module: ModuleType | None, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and folder in Path(file).resolve().parents


def _in_short(error: BaseException) -> str:
    """One line: what went wrong and in which line of the user's module."""
    if isinstance(error, ModuleNotFoundError):
        return f"no module named `{error.name}` here or installed"
    if isinstance(error, SyntaxError):
        return f"{error.msg} ({Path(error.filename or '?').name}:{error.lineno})"
    return " ".join(error_text(error).split())
