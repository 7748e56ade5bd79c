"""Which kinds of steps there are, by their names in a plan file."""

from __future__ import annotations

from typing import Any

from fanfold.plans.steps.ask import Once
from fanfold.plans.steps.command import Command
from fanfold.plans.steps.conduct import Conduct
from fanfold.plans.steps.divide import Divide
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.plans.steps.graph import Graph
from fanfold.plans.steps.group import Group
from fanfold.plans.steps.join import Join
from fanfold.plans.steps.list_files import ListFiles
from fanfold.plans.steps.map import Map
from fanfold.plans.steps.map_reduce import MapReduce
from fanfold.plans.steps.pipeline import Pipeline
from fanfold.plans.steps.rank import Rank
from fanfold.plans.steps.reduce import Reduce
from fanfold.plans.steps.resolve import Resolve
from fanfold.plans.steps.sample import SampleStep
from fanfold.plans.steps.scatter import Scatter
from fanfold.plans.steps.write import Write

KINDS: dict[str, Any] = {
    "list_files": ListFiles,
    "map": Map,
    "command": Command,
    "ensemble": Ensemble,
    "map_reduce": MapReduce,
    "pipeline": Pipeline,
    "divide": Divide,
    "scatter": Scatter,
    "graph": Graph,
    "conduct": Conduct,
    "ask": Once,
    "reduce": Reduce,
    "group": Group,
    "resolve": Resolve,
    "join": Join,
    "rank": Rank,
    "sample": SampleStep,
    "write": Write,
}
