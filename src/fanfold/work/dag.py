"""Tasks that depend on one another: are they free of cycles, and which may start now?

Nothing here calls itself, so a chain of thousands is no deeper than a chain of two.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from fanfold.errors import BadInput
from fanfold.work.nearest import nearest, quoted


class Dependent(Protocol):
    """What a graph needs to know of a task. `weight` is how long it takes, in any unit."""

    @property
    def id(self) -> str: ...

    @property
    def depends_on(self) -> tuple[str, ...]: ...

    @property
    def weight(self) -> float: ...


Tasks: TypeAlias = Sequence[Dependent]
_Rank: TypeAlias = tuple[float, int, str]


def check(tasks: Tasks) -> None:
    """BadInput for a duplicate id, a parent that is not there, and a cycle.

    The text for a cycle holds `CYCLE:a,b,…`: its ids in the order in which they would run.
    """
    known: dict[str, int] = {}
    for position, task in enumerate(tasks):
        first = known.setdefault(task.id, position)
        if first != position:
            raise BadInput(
                f"duplicate task id {quoted(task.id)}, at {first} and {position}; make ids unique"
            )
    for task in tasks:
        for parent in task.depends_on:
            if parent not in known:
                raise BadInput(_unknown(task.id, parent, known))
            if parent == task.id:
                raise BadInput(f"task {quoted(task.id)} depends on itself; CYCLE:{task.id}")
    if around := cycle(tasks):
        raise BadInput(
            "these tasks wait for one another, so none of them can start; take one of them out of"
            f" a `depends_on`: CYCLE:{','.join(around)}"
        )


def _unknown(id: str, parent: str, known: Iterable[str]) -> str:
    like = nearest(parent, tuple(known))
    hint = f"did you mean {quoted(like)}?" if like else "no task has an id like it"
    return f"task {quoted(id)} depends on {quoted(parent)}, which is not there: {hint}"


def cycle(tasks: Tasks) -> list[str]:
    """One that the first task which can never start hangs on, in the order in which its tasks would
    run, from the first planned of them on. None: empty. Every parent must be there."""
    free = {task.id for task in ordered(tasks)}
    stuck = {task.id: task for task in tasks if task.id not in free}
    if not stuck:
        return []
    at = next(iter(stuck))
    walked: dict[str, int] = {}
    while at not in walked:
        walked[at] = len(walked)
        at = next(parent for parent in stuck[at].depends_on if parent in stuck)
    around = [id for id, step in walked.items() if step >= walked[at]][::-1]
    start = around.index(next(id for id in stuck if id in set(around)))
    return around[start:] + around[:start]


def ordered(tasks: Tasks) -> list[Dependent]:
    """Parents before their dependents. Tasks on a cycle, or behind one, are left out."""
    waits = {task.id: len(set(task.depends_on)) for task in tasks}
    children = _children(tasks)
    free = deque(task for task in tasks if not waits[task.id])
    found: list[Dependent] = []
    while free:
        task = free.popleft()
        found.append(task)
        for child in children[task.id]:
            waits[child.id] -= 1
            if not waits[child.id]:
                free.append(child)
    return found


def _children(tasks: Tasks) -> dict[str, list[Dependent]]:
    children: dict[str, list[Dependent]] = {task.id: [] for task in tasks}
    for task in tasks:
        for parent in dict.fromkeys(task.depends_on):
            children[parent].append(task)
    return children


def remaining(tasks: Tasks) -> dict[str, float]:
    """The weight of the longest path from each task to an end, with its own weight in it."""
    children = _children(tasks)
    found: dict[str, float] = {}
    for task in reversed(ordered(tasks)):
        after = max((found[child.id] for child in children[task.id]), default=0.0)
        found[task.id] = task.weight + after
    return found


def layers(tasks: Tasks) -> dict[str, int]:
    """How many tasks must run one after another before each of them: 0 for those without parents."""
    found: dict[str, int] = {}
    for task in ordered(tasks):
        found[task.id] = 1 + max((found[parent] for parent in task.depends_on), default=-1)
    return found


class Schedule:
    """Which tasks may start now: those whose parents have ended, longest remaining path first.

    Ties go by planned order, so the same ends in the same order give the same schedule. How a task
    ended is its owner's affair: `end` frees its dependents in any case. Give it checked tasks only.
    """

    def __init__(self, tasks: Tasks) -> None:
        left = remaining(tasks)
        self._ranks: dict[str, _Rank] = {
            task.id: (-left[task.id], position, task.id) for position, task in enumerate(tasks)
        }
        self._waits = {task.id: len(set(task.depends_on)) for task in tasks}
        self._children = _children(tasks)
        self._ready = sorted(self._ranks[id] for id, waits in self._waits.items() if not waits)
        self._under_way: set[str] = set()
        self._ended = 0

    def __repr__(self) -> str:
        waiting = len(self._ranks) - len(self._ready) - len(self._under_way) - self._ended
        return (
            f"Schedule(ready={len(self._ready)}, under_way={len(self._under_way)},"
            f" waiting={waiting}, ended={self._ended})"
        )

    def ready(self, most: int | None = None) -> list[str]:
        """The ids that may start, the most urgent first; at most so many."""
        return [id for _, _, id in self._ready[:most]]

    def start(self, id: str) -> None:
        """It is under way: no longer ready. One that is not ready is a ValueError."""
        place = bisect_left(self._ready, self._ranks[id])
        if place == len(self._ready) or self._ready[place][2] != id:
            raise ValueError(f"{id} is not ready to start")
        del self._ready[place]
        self._under_way.add(id)

    def end(self, id: str) -> list[str]:
        """It is over. What became ready by this, in planned order."""
        if id not in self._under_way:
            raise ValueError(f"{id} was not under way")
        self._under_way.remove(id)
        self._ended += 1
        freed = []
        for child in self._children[id]:
            self._waits[child.id] -= 1
            if not self._waits[child.id]:
                insort(self._ready, self._ranks[child.id])
                freed.append(child.id)
        return freed
