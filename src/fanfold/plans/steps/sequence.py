"""Steps one after the other, as they are read: what each can see of those before it."""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.plans.condition import read_condition
from fanfold.plans.header import Input
from fanfold.plans.reading import StepContext
from fanfold.plans.steps.kind import Step, StepEntry
from fanfold.work.document import Node


class StepSequence:
    """Reads them in order. What comes before the sequence is in `reading`."""

    def __init__(self, reading: StepContext) -> None:
        self._reading = reading
        self._replies, self._results = list(reading.replies), list(reading.results)
        self._ended = dict(reading.ended)
        self.steps: list[Any] = []
        self.targets = reading.targets
        self.when = reading.when
        self.input: Input | None = None

    def read(self, node: Node, entries: tuple[StepEntry, ...]) -> None:
        for n, entry in enumerate(entries):
            self._read_one(node.child(n).child(entry.kind), entry)
        if not self.steps:
            raise node.bad("`steps` is empty; a plan needs at least a `map`")

    def _read_one(self, node: Node, entry: StepEntry) -> None:
        kind, written = entry.kinds[entry.kind], node
        if isinstance(node.value, dict):
            own = {name: part for name, part in node.value.items() if name not in entry.common}
            node = Node(own, node.file, node.lines, node.place)
        if entry.kind == "write" and not self.steps:
            raise node.bad("`write` comes before any other step; there is nothing to write")
        made = kind.read(node, entry.given, self._around(kind.starts_anew(entry.given)))
        if not isinstance(made, Input):
            self._add(node, made)
            self._note_condition(written, made)
        elif self.input is not None or self.steps:
            raise node.bad(f"`{entry.kind}` must be the first step, and there can be only one")
        elif node is not written and node.value != written.value:
            raise written.child("when").bad(f"`{entry.kind}` is the input; it has no `when`")
        else:
            self.input = made

    def _around(self, anew: bool) -> StepContext:
        """Items of its own, or of a produced list, have no replies of earlier steps yet."""
        replies = () if anew else tuple(self._replies)
        results = [*self._results, *self._replies] if anew else list(self._results)
        lists_files = self._reading.lists_files or self.input is not None
        return msgspec.structs.replace(
            self._reading, replies=replies, results=results, ended=dict(self._ended),
            lists_files=lists_files,
        )  # fmt: skip

    def _note_condition(self, node: Node, step: Step) -> None:
        if isinstance(node.value, dict) and "when" in node.value:
            seen = [*self._reading.earlier, *(n for one in self.steps[:-1] for n in one.names)]
            self.when[step.name] = read_condition(node.child("when"), self._reading, seen)

    def _add(self, node: Node, step: Step) -> None:
        taken = [name for earlier in self.steps for name in earlier.names]
        for name in step.names:
            if name in taken:
                raise node.bad(f"a second step `{name}`; give it a `name` of its own")
            taken.append(name)
        self.steps.append(step.settled())
        if step.produced_by is not None:
            self._ended |= dict.fromkeys(self._replies, step.name)
            self._replies = []
        self._replies += [name for name in step.reply_names if name not in self._replies]
        self._results += [name for name in step.result_names if name not in self._results]
