"""`module:attribute` to the Python object it names: imported from the plan's folder, or only looked for,
which runs no code of a plan."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec, PathFinder
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
    folder = Path(folder).resolve()
    if why := _hidden(module_name, folder):
        raise BadInput(f"target `{target}`: {why}", file=file, line=line)
    try:
        found: Any = _module(module_name, folder)
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


def _hidden(module: str, folder: Path) -> str | None:
    """Why a file of the folder, which the target must mean, would not be the one that is used: Python has
    loaded another by that name."""
    top = _top(module)
    if top not in sys.modules or (top not in sys.stdlib_module_names and module != "fanfold"):
        return None
    used = getattr(sys.modules[top], "__file__", None)
    files = (
        [f"{top}.py"] if module == top else []
    )  # what is below a name is in no file of that name
    for name in (*files, f"{top}/__init__.py"):
        file = folder / name
        if file.is_file() and (used is None or Path(used).resolve() != file.resolve()):
            whose = "fanfold" if top == "fanfold" else "Python"
            what = f"`{top}` is a module of {whose} itself, which goes before {name} here"
            return f"{what}; rename the {'file' if name == f'{top}.py' else 'folder'}"
    return None


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


def unloaded(value: Any) -> bool:
    """In place of a function that is imported only when the plan runs; a preview trusts that it is one."""
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
    if why := _hidden(module, folder):
        raise BadInput(f"target `{target}`: {why}")
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
    """Where a module would come from: the folder first, but for ours and those of Python's own that are
    loaded."""
    top, *below = module.split(".")
    if top in sys.stdlib_module_names and top in sys.modules:
        spec = BuiltinImporter.find_spec(top) or FrozenImporter.find_spec(top)
        spec = spec or PathFinder.find_spec(top)
    elif top == "fanfold":
        spec = sys.modules[top].__spec__
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
