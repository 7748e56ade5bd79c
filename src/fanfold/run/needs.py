"""Calls that are needed and were not made yet, as far as one can see: what a second request must leave
money for. Too many are counted rather than too few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from fanfold.work.task import Terms, Who


class NeededCalls:
    """By step. Patterns say how many tasks will come (`add`), each is taken off when it is first sent,
    or ends without."""

    def __init__(self) -> None:
        self._left: Counter[str] = Counter()
        self._asks: dict[str, int] = {}
        self._flows: dict[int, tuple[str, ...]] = {}
        self.whos: dict[str, Who] = {}  # who is asked there, as far as it was said

    def __repr__(self) -> str:
        return f"<NeededCalls {dict(self._left)}>"

    def __contains__(self, step: str) -> bool:
        return step in self._left

    @property
    def total(self) -> int:
        return self._left.total()

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Steps at which calls are needed, and how many."""
        return iter([(step, many) for step, many in self._left.items() if many])

    def expect(self, terms: Terms, items: int) -> None:
        """So many items will be asked about on these terms."""
        self.whos[terms.step] = terms.who
        self.planned(terms.step, items)

    def add(self, step: str, many: int = 1) -> None:
        self._left[step] = max(0, self._left[step] + many)

    def least(self, step: str, many: int) -> None:
        """So many, also where some of them were added before."""
        self._left[step] = max(self._left[step], many)

    def times(self, step: str, asks: int) -> None:
        """Each item there takes so many asks."""
        self._left[step] = self._left[step] // self._asks.get(step, 1) * asks
        self._asks[step] = asks

    def planned(self, step: str, items: int) -> None:
        """So many items will come there; fewer, below 0."""
        self.add(step, items * self._asks.get(step, 1))

    def drop(self, step: str) -> None:
        """Nothing more comes there."""
        self._left[step] = 0

    def flow(self, batch: int, steps: Sequence[str], size: int) -> None:
        """The items of a batch go through these steps, of which the first is counted already."""
        self._flows[batch] = tuple(steps)
        for step in steps[1:]:
            self.planned(step, size)

    def leave(self, batch: int, step: str) -> None:
        """An item goes no further than this step."""
        flow = self._flows.get(batch, ())
        for later in flow[flow.index(step) + 1 :] if step in flow else ():
            self.planned(later, -1)
