"""fanfold: fan the work out, fold the answers in.

Many language-model and agent calls in parallel, and one result that can be defended.
Names are loaded when they are first used, so `import fanfold` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanfold.errors import FanfoldError, RunStopped
    from fanfold.gates.checks import model, quotes, regex, require
    from fanfold.gates.combine import all_of, any_of
    from fanfold.gates.predicate import predicate
    from fanfold.members.function import function
    from fanfold.patterns import fold
    from fanfold.patterns.fold import collect, concat, sort_by, top
    from fanfold.patterns.how import Folded
    from fanfold.patterns.map_reduce import map_reduce
    from fanfold.run.loop import run_sync
    from fanfold.run.open import open_run
    from fanfold.run.run import Run
    from fanfold.work.task import Budget

__all__ = [
    "Budget", "FanfoldError", "Folded", "Run", "RunStopped", "all_of", "any_of", "collect",
    "concat", "fold", "function", "map_reduce", "model", "open_run", "predicate", "quotes",
    "regex", "require", "run_sync", "sort_by", "top",
]  # fmt: skip

_HOMES = {
    "errors": ("FanfoldError", "RunStopped"),
    "gates.checks": ("model", "quotes", "regex", "require"),
    "gates.combine": ("all_of", "any_of"),
    "gates.predicate": ("predicate",),
    "members.function": ("function",),
    "patterns.fold": ("collect", "concat", "sort_by", "top"),
    "patterns.how": ("Folded",),
    "patterns.map_reduce": ("map_reduce",),
    "run.loop": ("run_sync",),
    "run.open": ("open_run",),
    "run.run": ("Run",),
    "work.task": ("Budget",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "fold":
        return import_module("fanfold.patterns.fold")
    if name not in _HOME:
        raise AttributeError(f"fanfold has no {name!r}")
    return getattr(import_module(f"fanfold.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
