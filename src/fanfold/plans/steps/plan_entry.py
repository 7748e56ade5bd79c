"""All steps of a plan: those of the table, and `repeat`, which is made of them."""

from __future__ import annotations

from collections import ChainMap
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, Union

from fanfold.plans.steps.kind import Step, StepEntry
from fanfold.plans.steps.repeat import Repeat
from fanfold.plans.steps.table import KINDS

if TYPE_CHECKING:
    AnyStep: TypeAlias = Step
else:
    _OF_TABLE = tuple(kind for kind in KINDS.values() if issubclass(kind, Step))
    AnyStep = Union[(*_OF_TABLE, Repeat)]
    """The records of a stored plan."""


class PlanEntry(StepEntry):
    """A step of a plan as it is written."""

    kinds: ClassVar[ChainMap[str, Any]] = ChainMap(KINDS, {"repeat": Repeat})
    common = ("when",)
