"""The workers of a run as they are now: the journal has what was settled, their files have the rest.

Looking changes nothing, and never ends anything: a worker without output is shown as such.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from fanfold.fleet.logs import Follower
from fanfold.fleet.run_plan import PlannedTask, run_plan
from fanfold.fleet.runs import may_run
from fanfold.fleet.waits import Waiting, with_waits
from fanfold.fleet.worker_view import (
    WorkerFiles,
    WorkerView,
    cost_of,
    files_in,
    last_output,
    place_of,
    settled,
    under_way,
    with_below,
    with_member,
    with_reading,
    with_reasons,
)
from fanfold.journal.answers import AttemptRecord, EndedItem
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import AttemptState, NoteWaits, RunRecord
from fanfold.journal.following import StoreFollower, attempts_in
from fanfold.members.agents.dialect import Dialect, WorkerReading
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.worker import outputs, read_spec
from fanfold.price import nanos
from fanfold.run.orders import halted
from fanfold.work.outcome import STATES
from fanfold.work.task import Budget

MOST_ITEMS = 100_000
_ANY: tuple[AttemptState, ...] = ("started", "ok", "error", "in_doubt", "late")


class WorkerReader:
    """Reads the workers of one run, again and again: each log is read on from where it was."""

    def __init__(self, dialects: Mapping[str, Dialect] = DIALECTS) -> None:
        self._dialects = dialects
        self._followers: dict[str, Follower] = {}

    def read(self, archive: StoreView, record: RunRecord, now: float) -> list[WorkerView]:
        """For a graph (every fleet is one) each of its tasks, else each attempt that has a worker."""
        run = RunSnapshot(archive, record, now)
        if run.of_tasks:
            return self._tasks(run)
        return [self._attempt(run, one, name) for name, one in _named(run.with_places())]

    def _tasks(self, run: RunSnapshot) -> list[WorkerView]:
        tried, ended = run.tried(), run.ended()
        tries = {
            task.id: [one for one in tried.get(task.id, ()) if _is_for(one, task)]
            for task in run.plan.tasks
        }
        found = [
            self._task(run, task, tries[task.id], ended.get(task.id)) for task in run.plan.tasks
        ]
        if not any(one.state == "PENDING" for one in found):
            return found
        waiting = Waiting(
            now=run.now, stopped=run.stopped, free=run.free(tried),
            resets=self._resets(run, tries),
        )  # fmt: skip
        return with_waits(found, run.plan, waiting)

    def _resets(
        self, run: RunSnapshot, tries: Mapping[str, list[AttemptRecord]]
    ) -> dict[str, float]:
        """By pool, when a quota that is used up is renewed, by the logs of its workers."""
        found = {}
        for several in tries.values():
            reading = self._reading(run.files(several[-1])) if several else None
            if reading is not None and reading.reset_at is not None:
                found[run.plan.member(several[-1].member).pool] = reading.reset_at
        return found

    def _task(
        self,
        run: RunSnapshot,
        task: PlannedTask,
        tries: list[AttemptRecord],
        ended: EndedItem | None,
    ) -> WorkerView:
        files = run.files(tries[-1]) if tries else None
        reading = self._reading(files)
        again = ended is None and run.tries_again(tries, files)
        if ended is not None:
            state = settled(ended.state, files, reading, run.over)
        elif again:
            state = "PENDING"
        else:
            state = under_way(tries[-1] if tries else None, files, reading, run.alive)
        member = task.member or (tries[-1].member if tries else "")
        view = _seen(run, WorkerView(id=task.id, state=state, member=member), tries, files)
        reasons = "; ".join(ended.reasons) if ended and state != "PENDING" else ""
        reasons = (tries[-1].error or "") if again else reasons
        view = msgspec.structs.replace(
            view, depends_on=task.depends_on,
            failed_parent=ended is not None and ended.by_parent,
        )  # fmt: skip
        return self._whole(run, view, tries, files, reasons)

    def _attempt(self, run: RunSnapshot, attempt: AttemptRecord, name: str) -> WorkerView:
        files = run.files(attempt)
        state = under_way(attempt, files, self._reading(files), run.alive)
        view = WorkerView(id=name, state=state, member=attempt.member)
        view = _seen(run, view, [attempt], files)
        return self._whole(run, view, [attempt], files, attempt.error or "")

    def _whole(
        self,
        run: RunSnapshot,
        view: WorkerView,
        tries: list[AttemptRecord],
        files: WorkerFiles | None,
        reasons: str,
    ) -> WorkerView:
        """With cost, last message, the roster's entry, and the reasons of a bad end."""
        reading = self._reading(files)
        cost = with_below(cost_of(tries, reading, view.state), run.below(tries))
        view = msgspec.structs.replace(view, cost=cost)
        if reading is not None and files is not None:
            view = with_reading(view, reading)
            program, dialect = files.spec.words[0], self._dialects[files.spec.dialect]
            view = msgspec.structs.replace(
                view, continuing=dialect.resume_command(program, view.session)
            )
        view = with_member(view, run.plan.member(view.member))
        return with_reasons(view, reasons, None if files is None else files.exit)

    def _reading(self, files: WorkerFiles | None) -> WorkerReading | None:
        """What its log says, up to its present end."""
        if files is None or files.spec.dialect not in self._dialects:
            return None
        key = f"{files.place}:{files.spec.span}"
        if key not in self._followers:
            dialect = self._dialects[files.spec.dialect]
            self._followers[key] = Follower(files.place, files.spec, dialect)
        return self._followers[key].catch_up(over=files.over)


class RunSnapshot:
    """A run at one moment: its store, its record, its plan, the time. `alive`: its process is not surely
    dead."""

    def __init__(self, archive: StoreView, record: RunRecord, now: float) -> None:
        self.record, self.plan, self.now = record, run_plan(record), now
        self._archive = archive
        self._below: dict[str, tuple[int, int]] | None = None
        self.alive = may_run(archive.files, record)
        self.over = record.status in ("killed", "aborted")

    @property
    def stopped(self) -> str:
        """Why no worker is started any more; "" while some are."""
        if self.alive:
            order = halted(self._archive.read, self.record.no)
            if order is None or order.what == "pause":
                return "" if order is None else f"waits for a resume: paused by {order.by}"
            return f"waits for a resume: the run is stopping: {order.value or order.by}"
        if self.record.status == "running":
            return "waits for a resume: the process of the run died"
        why = f": {self.record.reason}" if self.record.reason else ""
        return f"waits for a resume: the run is {self.record.status}{why}"

    def tries_again(self, tries: list[AttemptRecord], files: WorkerFiles | None) -> bool:
        """Its last attempt failed, but it has not: the run tries it again."""
        failed = bool(tries) and tries[-1].state == "error"
        return failed and self.alive and not (files is not None and files.killed)

    def free(self, tried: Mapping[str, list[AttemptRecord]]) -> int | None:
        """Nano-dollars that are neither spent nor reserved; None without a limit."""
        limit = msgspec.json.decode(self.record.budget or b"{}", type=Budget).usd
        if limit is None:
            return None
        once = {one.no: one for tries in tried.values() for one in tries}.values()
        taken = sum(one.reserved if one.state == "started" else one.cost for one in once)
        return nanos(limit) - taken - sum(cost for cost, _ in self.below(list(once)))

    @property
    def of_tasks(self) -> bool:
        """It is a fleet, or another graph in which agents have worked."""
        has = bool(self.plan.tasks) and bool(numbers_of(self._archive, self.record))
        return self.plan.fleet or has

    def below(self, tries: list[AttemptRecord]) -> list[tuple[int, int]]:
        """The cost of the runs that these attempts started, as `spent_below` gives it."""
        if self._below is None:
            self._below = self._archive.read.spent_below(self.record.no)
        spans = map(self.span, tries)
        return [self._below[span] for span in spans if span in self._below]

    def span(self, attempt: AttemptRecord) -> str:
        return f"{self.record.id}:{attempt.no}"

    def tried(self) -> dict[str, list[AttemptRecord]]:
        """The attempts of each item, oldest first."""
        found: dict[str, list[AttemptRecord]] = {}
        for attempt in self._archive.read.attempts(self.record.no, MOST_ITEMS):
            for id in attempt.ids:
                found.setdefault(id, []).append(attempt)
        return found

    def ended(self) -> dict[str, EndedItem]:
        return {
            one.id: one for one in self._archive.read.endings(self.record.no, STATES, MOST_ITEMS)
        }

    def with_places(self) -> list[AttemptRecord]:
        """The attempts that have a place of their own in the store."""
        return [
            one
            for _, one in self._archive.read.attempts_by_number(
                numbers_of(self._archive, self.record)
            )
        ]

    def changed(self, follower: StoreFollower, most: int) -> list[AttemptRecord]:
        """The attempts that changed since the last look, in their order; at first the last so many."""
        news, no = follower.news(self._archive), self.record.no
        if news is None:
            return self._archive.read.newest(no, _ANY, most)[::-1]
        numbers = sorted(attempts_in(news))
        return [one for run, one in self._archive.read.attempts_by_number(numbers) if run == no]

    def waits(self) -> NoteWaits | None:
        """Why calls wait, as the process of the run last noted it."""
        return self._archive.read.waits(self.record.no)

    def name_of(self, attempt: AttemptRecord) -> str:
        """The worker of an attempt: the task, or the item that it is about."""
        return attempt.ids[0] if attempt.ids else attempt.member

    def all_files(self) -> Iterator[tuple[WorkerFiles, str]]:
        """The files of all workers, each with the name of its worker."""
        for attempt in self.with_places():
            if files := self.files(attempt):
                yield files, self.name_of(attempt)
        for task in self.plan.tasks if self.plan.fleet else ():
            place = Path(self.plan.folder, "workers", task.id)
            spec = read_spec(place)
            if spec is not None and spec.span.startswith(f"{self.record.id}:"):
                yield files_in(place, spec), task.id

    def names(self) -> list[str]:
        """The workers that there are, or will be."""
        planned = [task.id for task in self.plan.tasks] if self.of_tasks else []
        return list(dict.fromkeys([*planned, *map(self.name_of, self.with_places())]))

    def find(self, worker: str) -> WorkerFiles | None:
        """The files of one worker, by its name, `#NUMBER` of an attempt, or both; the newest."""
        name, _, number = worker.partition("#")
        found = [
            files
            for files, known in self.all_files()
            if (known == name or (not name and number))
            and (not number or files.spec.span == f"{self.record.id}:{number}")
        ]
        return found[-1] if found else None

    def quiet(self) -> bool:
        """Neither the process of the run nor any of its workers lives."""
        return not self.alive and not any(files.lives for files, _ in self.all_files())

    def files(self, attempt: AttemptRecord) -> WorkerFiles | None:
        """Of the worker of an attempt, if it is still its own."""
        found = place_of(self._archive.files, self.record, attempt)
        return None if found is None else files_in(*found)


def numbers_of(archive: StoreView, record: RunRecord) -> list[int]:
    """The attempts of a run that have a place of their own in the store."""
    try:
        names = os.listdir(archive.files / "agents" / record.id)
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _named(attempts: Sequence[AttemptRecord]) -> Iterator[tuple[str, AttemptRecord]]:
    """Each by its item's id; where several have the same one, with the attempt's number."""
    ids = [one.ids[0] if one.ids else "" for one in attempts]
    many = Counter(ids)
    for id, one in zip(ids, attempts, strict=True):
        yield (id if id and many[id] == 1 else f"{id}#{one.no}"), one


def _is_for(attempt: AttemptRecord, task: PlannedTask) -> bool:
    """A judge's attempts bear the id of the task too."""
    return not task.who.members or attempt.member in (*task.who.members, *task.who.fallback)


def _seen(
    run: RunSnapshot, view: WorkerView, tries: list[AttemptRecord], files: WorkerFiles | None
) -> WorkerView:
    """With times and numbers: of the newest attempt, and of the files that it left."""
    if tries:
        newest = tries[-1]
        view = msgspec.structs.replace(
            view, attempt=newest.no, tries=len(tries), began=newest.started, ended=newest.ended,
            usage=newest.usage, span=run.span(newest),
        )  # fmt: skip
    if files is None:
        return view
    heard, exit = last_output(files), files.exit
    running = view.state == "RUNNING" and heard is not None
    return msgspec.structs.replace(
        view, place=files.place, session=files.spec.session, model=files.spec.model or "",
        folder=files.spec.folder,
        heard=heard, silent=max(0.0, run.now - heard) if heard and running else 0.0,
        outputs=tuple(outputs(files.place)), code=None if exit is None else exit.code,
        ended=view.ended if exit is None else exit.at,
    )  # fmt: skip
