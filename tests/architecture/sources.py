"""The source code as data: modules, their imports and functions, read without running them."""

from __future__ import annotations

import ast
import gc
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"
Node = TypeVar("Node", bound=ast.AST)


class Import(NamedTuple):
    """`module` imports `target` (a full dotted name) in line `line`."""

    module: str
    target: str
    line: int
    in_function: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"


class Function(NamedTuple):
    module: str
    name: str
    lines: int


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    return {name_of(path): path for path in sorted((SRC / "fanfold").rglob("*.py"))}


def name_of(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """`fanfold.run.ledger` is in `run`; `fanfold` itself is the front door, `fanfold`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "fanfold"


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def nodes(module: str, *kinds: type[Node]) -> list[Node]:
    """All of these kinds in its tree."""
    return [node for kind in kinds for node in cast(list[Node], _by_kind()[module][kind])]


@cache
def _by_kind() -> dict[str, dict[type, list[ast.AST]]]:
    """Gone through once. They are a million objects, and none of them is garbage: nobody need look."""
    was_on = gc.isenabled()
    gc.disable()
    found: dict[str, dict[type, list[ast.AST]]] = {}
    for module in modules():
        kinds = found[module] = defaultdict(list)
        for node in ast.walk(tree(module)):
            kinds[type(node)].append(node)
    gc.freeze()
    if was_on:
        gc.enable()
    return found


@cache
def imports() -> tuple[Import, ...]:
    return tuple(found for module in modules() for found in _imports(module))


def _imports(module: str) -> list[Import]:
    return [
        Import(module, target, node.lineno, in_function)
        for node, in_function in _statements(tree(module))
        for target in _targets(module, node)
    ]


def _statements(node: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.stmt, bool]]:
    """All below it; an expression holds none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        if isinstance(child, ast.stmt):
            yield child, in_function
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _statements(child, in_function or function)


def _targets(module: str, node: ast.AST) -> list[str]:
    """The modules that an import statement reaches; for `from package import name` its submodule."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    origin = node.module or ""
    if node.level:
        package = module.split(".")
        drop = node.level - (modules()[module].name == "__init__.py")
        origin = ".".join([*package[: len(package) - drop], *filter(None, [node.module])])
    found = {f"{origin}.{alias.name}" for alias in node.names}
    return sorted({name if name in modules() else origin for name in found})


def ours() -> list[Import]:
    return [found for found in imports() if found.target.split(".")[0] == "fanfold"]


def foreign() -> list[tuple[Import, str]]:
    """Imports of third-party packages, each with the package's name."""
    named = [(found, found.target.split(".")[0]) for found in imports()]
    known = {*sys.stdlib_module_names, "fanfold"}
    return [
        (found, package)
        for found, package in named
        if package not in known and not _is_neighbour(found.module, package)
    ]


def _is_neighbour(module: str, name: str) -> bool:
    """In the folder of an application modules know each other by their bare names."""
    return room(module) == "apps" and f"{module.rpartition('.')[0]}.{name}" in modules()


@cache
def functions() -> tuple[Function, ...]:
    """Every function with the number of lines of its body."""
    return tuple(
        Function(module, node.name, (node.end_lineno or 0) - node.body[0].lineno + 1)
        for module in modules()
        for node in nodes(module, ast.FunctionDef, ast.AsyncFunctionDef)
    )


SKIPPED = {"__pycache__", "build", "dist", "results", "node_modules"}
BINARY = {".png", ".jpg", ".gif", ".ico", ".whl", ".gz", ".db", ".sqlite", ".pyc"}


def text_files() -> list[Path]:
    """All text files of the project. Of the hidden ones only CI and the ignore file count."""
    tops = [top for top in ROOT.iterdir() if not top.name.startswith(".")]
    tops += [ROOT / ".ci", ROOT / ".gitignore"]
    found = [path for top in tops for path in (top.rglob("*") if top.is_dir() else [top])]
    return [p for p in found if p.is_file() and p.suffix not in BINARY and not SKIPPED & {*p.parts}]
