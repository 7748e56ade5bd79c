"""A run as all its pages see it: the figures as they are, or as they were when they take long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import msgspec

from fanfold.faces.ui.reading import LateAnswer, StoreReader
from fanfold.journal.answers import Unsettled
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import AttemptState, RunRecord
from fanfold.observe.status import RunSummary, summarize
from fanfold.run.orders import is_under_way
from fanfold.work.outcome import Receipt

STATES: dict[AttemptState, str] = {
    "ok": "replied", "error": "no reply", "in_doubt": "in doubt", "late": "too late",
    "started": "under way",
}  # fmt: skip


class SeenRun(msgspec.Struct, frozen=True):
    """`late`: there may be newer figures soon; `counted`: there are some."""

    reader: StoreReader
    view: StoreView
    record: RunRecord
    summary: RunSummary
    now: float
    query: Mapping[str, str]
    late: bool = False
    counted: bool = True

    @property
    def runs_now(self) -> bool:
        return self.summary.status == "running"

    def later(self, key: str, make: Callable[[SeenRun], str]) -> LateAnswer[str]:
        """A piece of a page that may take long: as it is, or as it was."""

        def made(view: StoreView) -> str:
            remembered = self.reader.over(view, self.record.no)
            return make(msgspec.structs.replace(self, view=remembered))

        return self.reader.later((self.record.no, key), made)


def seen_run(
    reader: StoreReader, view: StoreView, record: RunRecord, query: Mapping[str, str]
) -> SeenRun:
    found = summary_of(reader, record)
    summary = found.value or _uncounted(view, record)
    counted = found.value is not None
    return SeenRun(reader, view, record, summary, time.time(), query, found.late, counted)


def summary_of(reader: StoreReader, record: RunRecord) -> LateAnswer[RunSummary]:
    def count(view: StoreView) -> RunSummary:
        read = reader.over(view, record.no).read
        return summarize(read, record, view.sessions.alive, time.time(), view.sent, timed=False)

    return reader.later((record.no, record.status, record.session), count)


def _uncounted(view: StoreView, run: RunRecord) -> RunSummary:
    """What is known at once."""
    lives = run.status != "running" or is_under_way(view, run.no)
    receipt = Receipt(run.id, run.name, run.status, run.reason, view.read.planned(run.no))
    none = Unsettled()
    return RunSummary(run, run.status if lives else "crashed", receipt, run.active, none, none)
