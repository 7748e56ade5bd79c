"""Who waits for a grant: first come, first served among those for the same members; but a step that is
full holds up only itself."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Container

from fanfold.run.demand import Demand, StepState
from fanfold.run.grant import Grant


class Waiter:
    """Somebody who waits for a grant."""

    __slots__ = ("demand", "future", "no", "queued")

    def __init__(self, no: int, demand: Demand) -> None:
        self.no, self.demand, self.queued = no, demand, True
        self.future: asyncio.Future[Grant] = asyncio.get_running_loop().create_future()


class Queues:
    """One for each set of members, in it one for each step. `many`: how many wait in all of them."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[StepState, deque[Waiter]]] = {}
        self._came = self.many = 0

    def add(self, demand: Demand) -> Waiter:
        self._came += 1
        self.many += 1
        waiter = Waiter(self._came, demand)
        self._steps.setdefault(demand.queue, {}).setdefault(demand.step, deque()).append(waiter)
        return waiter

    def leave(self, waiter: Waiter) -> None:
        steps = self._steps[waiter.demand.queue]
        queue = steps[waiter.demand.step]
        queue.remove(waiter)
        waiter.queued = False
        self.many -= 1
        if not queue:
            del steps[waiter.demand.step]
            if not steps:
                del self._steps[waiter.demand.queue]

    def before(self, demand: Demand) -> bool:
        """Whether somebody who waits comes before it."""
        steps = self._steps.get(demand.queue, {})
        return demand.step in steps or not all(step.full for step in steps)

    def first(self, name: str, full: Container[StepState]) -> Waiter | None:
        """Who came first to this queue, of those whose steps are not full."""
        heads = [one[0] for step, one in self._steps.get(name, {}).items() if step not in full]
        return min(heads, key=lambda one: one.no, default=None)

    def names(self) -> list[str]:
        """The queues in which somebody waits, by who came first."""
        return sorted(
            self._steps, key=lambda name: min(one[0].no for one in self._steps[name].values())
        )
