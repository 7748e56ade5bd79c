"""fanfold: fan the work out, fold the answers in.

Many language-model and agent calls in parallel, and one result that can be defended.
"""

from fanfold.errors import BadInput, FanfoldError, MemberError, RunStopped, StoreError
from fanfold.gates.checks import model, number_range, quotes, regex, require, schema
from fanfold.gates.combine import all_of, any_of
from fanfold.gates.predicate import predicate
from fanfold.patterns.fold import best, collect, concat, count, merge, sort_by, top, total, union, vote
from fanfold.patterns.map_reduce import Folded, map_reduce
from fanfold.run.open import open_run, run_sync
from fanfold.run.run import Run
from fanfold.work.task import Budget

__all__ = [
    "BadInput", "Budget", "FanfoldError", "Folded", "MemberError", "Run", "RunStopped",
    "StoreError", "all_of", "any_of", "best", "collect", "concat", "count", "function",
    "map_reduce", "merge", "model", "number_range", "open_run", "predicate", "quotes", "regex",
    "require", "run_sync", "schema", "sort_by", "top", "union", "vote",
]  # fmt: skip
