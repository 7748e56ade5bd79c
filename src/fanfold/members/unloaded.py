"""`module:attribute` looked for without importing anything: looking at a plan runs no code of it.

The module's file is found and read; what can only be known by running it is left for the run.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from fanfold.errors import BadInput
from fanfold.members.target import parts_of
from fanfold.work.nearest import remedy


def unloaded(value: Any) -> bool:
    """Stands for a function that is imported only when the plan runs; a preview takes its word."""
    return True


def look_for(
    target: str, folder: str | Path, *, file: str | None = None, line: int | None = None
) -> Any:
    """A stand-in for what `module:attribute` names. BadInput if there is no such module, or if its
    text says plainly that it has no such function."""
    module, names = parts_of(target, file=file, line=line)
    try:
        _look(target, module, names, Path(folder).resolve())
    except BadInput as error:
        raise BadInput(error.what, file=file, line=line) from None
    return unloaded


def _look(target: str, module: str, names: list[str], folder: Path) -> None:
    spec = _spec(module, folder)
    if spec is None:
        what = f"no module named `{module}` here or installed"
        raise BadInput(f"cannot import `{module}` for target `{target}`: {what}")
    if not spec.origin or not spec.origin.endswith(".py"):
        return
    try:
        body: list[ast.stmt] = ast.parse(Path(spec.origin).read_bytes()).body
    except (OSError, ValueError) as error:
        raise BadInput(f"cannot import `{module}` for target `{target}`: {error}") from None
    except SyntaxError as error:
        said = f"{error.msg} ({Path(spec.origin).name}:{error.lineno})"
        raise BadInput(f"cannot import `{module}` for target `{target}`: {said}") from None
    _check_names(target, module, names, body)


def _check_names(target: str, module: str, names: list[str], body: list[ast.stmt]) -> None:
    for position, name in enumerate(names):
        known, open_ended = _defined(body)
        if name not in known:
            if open_ended:
                return
            public = [one for one in known if not one.startswith("_")]
            what = f"`{module}` has no `{name}`: {remedy(name, public)}"
            raise BadInput(f"target `{target}`: {what}")
        made = known[name]
        last = position == len(names) - 1
        if last and isinstance(made, ast.Constant | ast.Dict | ast.List | ast.Set | ast.Tuple):
            raise BadInput(f"target `{target}` is a {_kind(made)}, not a function")
        if not isinstance(made, ast.ClassDef):
            return
        body = made.body


def _kind(node: ast.expr) -> str:
    return (
        type(node.value).__name__ if isinstance(node, ast.Constant) else type(node).__name__.lower()
    )


def _spec(module: str, folder: Path) -> ModuleSpec | None:
    """Where a module would come from: the folder first, but for Python's own modules."""
    top, *below = module.split(".")
    if top in sys.stdlib_module_names:
        spec = BuiltinImporter.find_spec(top) or FrozenImporter.find_spec(top)
        spec = spec or PathFinder.find_spec(top)
    else:
        spec = PathFinder.find_spec(top, [str(folder), *sys.path])
    name = top
    if module in sys.modules and top in sys.stdlib_module_names:
        return sys.modules[module].__spec__ or spec  # `os.path` has no file of that name
    for one in below:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{one}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec


def _defined(body: Iterable[ast.stmt]) -> tuple[dict[str, Any], bool]:
    """The names that a text defines, each with what it is made of; and whether there may be more."""
    known: dict[str, Any] = {}
    open_ended = False
    for statement in _statements(body):
        match statement:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                known[name] = statement
                open_ended = open_ended or name == "__getattr__"
            case ast.Assign(targets=targets, value=value):
                for one in targets:
                    known |= dict.fromkeys(
                        _names(one), value if isinstance(one, ast.Name) else None
                    )
            case ast.AnnAssign(target=one, value=value):
                known |= dict.fromkeys(_names(one), value)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                for alias in aliases:
                    open_ended = open_ended or alias.name == "*"
                    known[alias.asname or alias.name.split(".")[0]] = None
            case ast.Expr() | ast.Delete() | ast.For() | ast.While() | ast.AugAssign():
                open_ended = open_ended or not _is_text(statement)
    return known, open_ended


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a module or class, also inside `if`, `try` and `with`, but not of functions."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for field in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from _statements(handler.body)


def _names(target: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
