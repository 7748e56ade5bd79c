"""fanfold: fan the work out, fold the answers in.

Many language-model and agent calls in parallel, and one result that can be defended.
Names are loaded when they are first used, so `import fanfold` is quick.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fanfold.errors import FanfoldError, RunStopped
    from fanfold.gates.checks import predicate, quotes, regex, require, shape
    from fanfold.gates.combine import all_of, any_of
    from fanfold.gates.judge import judge
    from fanfold.members.agents.agent import agent
    from fanfold.members.anthropic import anthropic
    from fanfold.members.command import command
    from fanfold.members.function import function
    from fanfold.members.openai import openai
    from fanfold.observe.script import open_run, run_sync
    from fanfold.patterns import fold
    from fanfold.patterns.arguments import Folded
    from fanfold.patterns.asked_reduce import asked
    from fanfold.patterns.conductor import conduct
    from fanfold.patterns.divide import divide_and_conquer
    from fanfold.patterns.ensemble import ensemble
    from fanfold.patterns.fold import collect, concat, sort_by, top
    from fanfold.patterns.graph import graph
    from fanfold.patterns.group import group
    from fanfold.patterns.join import join
    from fanfold.patterns.map_reduce import map_reduce
    from fanfold.patterns.pipeline import pipeline, stage
    from fanfold.patterns.rank import rank
    from fanfold.patterns.resolve import resolve
    from fanfold.patterns.sample import sample
    from fanfold.patterns.scatter import scatter_gather
    from fanfold.plans.rows import read_items
    from fanfold.run.run import Run
    from fanfold.work.blocking import Block
    from fanfold.work.task import Budget
    from fanfold.work.tool import tool

__all__ = [
    "Block", "Budget", "FanfoldError", "Folded", "Run", "RunStopped", "agent", "all_of",
    "anthropic", "any_of", "asked", "collect", "command", "concat", "conduct",
    "divide_and_conquer", "ensemble", "fold", "function", "graph", "group", "join", "judge",
    "map_reduce", "open_run", "openai", "pipeline", "predicate", "quotes", "rank",
    "read_items", "regex", "require", "resolve", "run_sync", "sample", "scatter_gather", "shape",
    "sort_by", "stage", "tool", "top",
]  # fmt: skip

_HOMES = {
    "errors": ("FanfoldError", "RunStopped"),
    "gates.checks": ("predicate", "quotes", "regex", "require", "shape"),
    "gates.combine": ("all_of", "any_of"),
    "gates.judge": ("judge",),
    "members.agents.agent": ("agent",),
    "members.anthropic": ("anthropic",),
    "members.command": ("command",),
    "members.function": ("function",),
    "members.openai": ("openai",),
    "observe.script": ("open_run", "run_sync"),
    "patterns.arguments": ("Folded",),
    "patterns.asked_reduce": ("asked",),
    "patterns.conductor": ("conduct",),
    "patterns.divide": ("divide_and_conquer",),
    "patterns.ensemble": ("ensemble",),
    "patterns.fold": ("collect", "concat", "sort_by", "top"),
    "patterns.graph": ("graph",),
    "patterns.map_reduce": ("map_reduce",),
    "patterns.pipeline": ("pipeline", "stage"),
    "patterns.scatter": ("scatter_gather",),
    "patterns.group": ("group",),
    "patterns.join": ("join",),
    "patterns.rank": ("rank",),
    "patterns.resolve": ("resolve",),
    "patterns.sample": ("sample",),
    "plans.rows": ("read_items",),
    "work.blocking": ("Block",),
    "run.run": ("Run",),
    "work.task": ("Budget",),
    "work.tool": ("tool",),
}
_RENAMED = {"model": "shape"}  # the old names work for a while
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        text = f"fanfold.{name} is called fanfold.{new} now; the old name will be removed"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module(__name__), new)
    if name == "fold":
        return import_module("fanfold.patterns.fold")
    if name not in _HOME:
        raise AttributeError(f"fanfold has no {name!r}{_hint(name)}")
    return getattr(import_module(f"fanfold.{_HOME[name]}"), name)


def _hint(name: str) -> str:
    """Where the name is instead, or the nearest one."""
    if name.startswith("_"):
        return ""
    if hasattr(import_module("fanfold.patterns.fold"), name):
        return f"; there is fanfold.fold.{name}"
    near = import_module("fanfold.work.nearest").nearest(name, __all__)
    return f"; did you mean {near!r}?" if near else ""


def __dir__() -> list[str]:
    return __all__
