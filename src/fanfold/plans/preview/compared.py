"""In a preview: items that are compared with one another, so that nothing is asked about them before
the last one has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fanfold.patterns.prompt import Prompt, make_task
from fanfold.plans.asking import Asking
from fanfold.plans.preview.answers import UNKNOWN, judges_of, rows_of
from fanfold.plans.preview.asks import AskEstimate, PreviewContext
from fanfold.plans.preview.standin import Size, holds_stand_in
from fanfold.plans.preview.stations import PassingItem
from fanfold.run.forecast import Forecast, StepPreview
from fanfold.work.blocking import item_path
from fanfold.work.item import Item
from fanfold.work.task import Terms

CHUNK = 64
_REPLY = Size(60, 2000)  # the few fields that such a step gives each item


class ComparedStation:
    """`compared`: what is asked about, of all items. Where that depends on replies that do not exist
    yet, it is a bound."""

    def __init__(
        self, context: PreviewContext, name: str, asking: Asking, terms: Terms, prompt: Prompt
    ) -> None:
        self._name, self._terms = name, terms
        self._estimate = AskEstimate(context, terms, prompt, judges=judges_of(context, asking))
        self._reply = context.stand_ins.make(_REPLY)
        self._items: list[Item] = []
        self._reads: Sequence[str] | None = ()
        self._bound = False
        self._compared: Callable[[Sequence[Item], bool], Iterable[Item]] = lambda items, known: ()

    def over(
        self,
        compared: Callable[[Sequence[Item], bool], Iterable[Item]],
        reads: Sequence[str] | None = (),
        *,
        bound: bool = False,
    ) -> ComparedStation:
        """`compared` is given all items, and whether the fields that it `reads` are known; None: it reads
        all of them. `bound`: it gives as many as there can be."""
        self._compared, self._reads, self._bound = compared, reads, bound
        return self

    @property
    def size(self) -> Size:
        return _REPLY

    def take(self, passing: Sequence[PassingItem], span: range) -> list[PassingItem]:
        self._items += [one.seen() for one in passing]
        return [one.onward(self._name, self._reply) for one in passing]

    def rows(self, times: float | None) -> list[StepPreview]:
        estimated, kind = self._estimate, self._terms.step.rpartition(".")[2]
        if times is None:
            return [
                StepPreview(
                    name=self._terms.step, kind=kind, who=estimated.who, tasks=None, watched=True,
                    forecast=UNKNOWN,
                )
            ]  # fmt: skip
        known = not any(self._awaits(item) for item in self._items)
        tasks = [
            make_task(estimated.prompt, item, self._terms, None)
            for item in self._compared(self._items, known)
        ]
        for first in range(0, len(tasks), CHUNK):
            estimated.take(tasks[first : first + CHUNK])
        rows = rows_of(self._terms.step, kind, estimated, len(tasks), times)
        return rows if known and not self._bound else [_bounded(row) for row in rows]

    def _awaits(self, item: Item) -> bool:
        if self._reads is None:
            return holds_stand_in(item.data)
        return any(awaits_reply(item, field) for field in self._reads)


def awaits_reply(item: Item, field: str) -> bool:
    """Whether what is at `steps.NAME.field` is of a reply that does not exist yet."""
    root, *rest = item_path(field)
    return root == "steps" and holds_stand_in(item.view().get("steps", {}).get(*rest[:1]))


def _bounded(row: StepPreview) -> StepPreview:
    """Only the bounds of it hold."""
    made = row.forecast
    return StepPreview(
        name=row.name, kind=row.kind, who=row.who, tasks=None, most=row.tasks,
        forecast=Forecast(
            step=made.step, worst=made.worst, most_calls=made.most_calls,
            most_tokens=made.most_tokens, notes=made.notes,
        ),
    )  # fmt: skip
