"""A run as all its pages see it."""

from __future__ import annotations

import time
from collections.abc import Mapping

import msgspec

from fanfold.faces.ui.reading import StoreReader
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import AttemptState, RunRecord
from fanfold.observe.status import RunSummary, summarize

STATES: dict[AttemptState, str] = {
    "ok": "replied", "error": "no reply", "in_doubt": "in doubt", "late": "too late",
    "started": "under way",
}  # fmt: skip


class SeenRun(msgspec.Struct, frozen=True):
    """`view` remembers its answers until something happens to the run."""

    reader: StoreReader
    view: StoreView
    record: RunRecord
    summary: RunSummary
    now: float
    query: Mapping[str, str]

    @property
    def runs_now(self) -> bool:
        return self.summary.status == "running"


def seen_run(
    reader: StoreReader, view: StoreView, record: RunRecord, query: Mapping[str, str]
) -> SeenRun:
    remembered, now = reader.over(view, record.no), time.time()
    summary = summarize(remembered.read, record, view.sessions.alive, now, view.sent)
    return SeenRun(reader, remembered, record, summary, now, query)
