"""The workers of a run as they are now: the journal tells what was settled, their files the rest.

Looking changes nothing, and never ends anything: a worker without a word is shown as that.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from fanfold.fleet.crew import Crew, Post, crew_of
from fanfold.fleet.logs import Follower
from fanfold.fleet.orders import Orders
from fanfold.fleet.waits import Around, with_waits
from fanfold.fleet.worker_view import (
    Trace,
    WorkerView,
    cost_of,
    heard_of,
    settled,
    under_way,
    with_below,
    with_member,
    with_reading,
    with_reasons,
)
from fanfold.journal.facts import Attempt, AttemptState, RunRecord
from fanfold.journal.journal import Archive
from fanfold.journal.read import Ended
from fanfold.members.agents.dialect import Dialect, Reading
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.processes import living
from fanfold.members.agents.worker import Spec, outputs, read_exit, read_host, read_spec
from fanfold.price import nanos
from fanfold.work.outcome import STATES
from fanfold.work.task import Budget

MOST_ITEMS = 100_000
_ANY: tuple[AttemptState, ...] = ("started", "ok", "error", "in_doubt", "late")


class Looker:
    """Looks at the workers of one run, again and again: logs are read on from where they were."""

    def __init__(self, dialects: Mapping[str, Dialect] = DIALECTS) -> None:
        self._dialects = dialects
        self._followers: dict[str, Follower] = {}

    def look(self, archive: Archive, record: RunRecord, now: float) -> list[WorkerView]:
        """For a graph (every fleet is one) each of its tasks, else each attempt that has a worker."""
        scene = scene_of(archive, record, now)
        if scene.of_tasks:
            return self._tasks(scene)
        return [self._attempt(scene, one, name) for name, one in _named(scene.with_places())]

    def _tasks(self, scene: Scene) -> list[WorkerView]:
        tried, ended = scene.tried(), scene.ended()
        tries = {
            post.id: [one for one in tried.get(post.id, ()) if _is_for(one, post)]
            for post in scene.crew.posts
        }
        found = [
            self._task(scene, post, tries[post.id], ended.get(post.id)) for post in scene.crew.posts
        ]
        if not any(one.state == "PENDING" for one in found):
            return found
        around = Around(
            now=scene.now, stopped=scene.stopped, free=scene.free(tried),
            resets=self._resets(scene, tries),
        )  # fmt: skip
        return with_waits(found, scene.crew, around)

    def _resets(self, scene: Scene, tries: Mapping[str, list[Attempt]]) -> dict[str, float]:
        """By pool, when a quota that is used up comes back, as the logs of its workers tell."""
        found = {}
        for id, several in tries.items():
            reading = self._reading(scene.trace(several[-1], id)) if several else None
            if reading is not None and reading.reset_at is not None:
                found[scene.crew.colleague(several[-1].member).pool] = reading.reset_at
        return found

    def _task(
        self, scene: Scene, post: Post, tries: list[Attempt], ended: Ended | None
    ) -> WorkerView:
        trace = scene.trace(tries[-1], post.id) if tries else None
        reading = self._reading(trace)
        again = ended is None and scene.tries_again(tries, trace)
        if ended is not None:
            state = settled(ended.state, trace, reading, scene.over)
        elif again:
            state = "PENDING"
        else:
            state = under_way(tries[-1] if tries else None, trace, reading, scene.alive)
        view = _seen(scene, WorkerView(id=post.id, state=state), tries, trace)
        member = post.member or (tries[-1].member if tries else "")
        reasons = "; ".join(ended.reasons) if ended and state != "PENDING" else ""
        reasons = (tries[-1].error or "") if again else reasons
        view = msgspec.structs.replace(view, depends_on=post.depends_on)
        return self._whole(scene, view, tries, trace, (member, reasons))

    def _attempt(self, scene: Scene, attempt: Attempt, name: str) -> WorkerView:
        trace = scene.trace(attempt, "")
        state = under_way(attempt, trace, self._reading(trace), scene.alive)
        view = _seen(scene, WorkerView(id=name, state=state), [attempt], trace)
        return self._whole(scene, view, [attempt], trace, (attempt.member, attempt.error or ""))

    def _whole(
        self,
        scene: Scene,
        view: WorkerView,
        tries: list[Attempt],
        trace: Trace | None,
        told: tuple[str, str],
    ) -> WorkerView:
        """With cost, last words, the roster's entry, and the reasons of a bad end."""
        reading = self._reading(trace)
        cost = with_below(cost_of(tries, reading, view.state), scene.below(tries))
        view = msgspec.structs.replace(view, cost=cost)
        if reading is not None and trace is not None:
            view = with_reading(view, reading)
            program, dialect = trace.spec.words[0], self._dialects[trace.spec.dialect]
            view = msgspec.structs.replace(view, going_on=dialect.going_on(program, view.session))
        member, reasons = told
        view = with_member(view, member, scene.crew.colleague(member))
        return with_reasons(view, reasons, None if trace is None else trace.exit)

    def _reading(self, trace: Trace | None) -> Reading | None:
        """What its log has told, to its end as of now."""
        if trace is None or trace.spec.dialect not in self._dialects:
            return None
        key = f"{trace.place}:{trace.spec.span}"
        if key not in self._followers:
            dialect = self._dialects[trace.spec.dialect]
            self._followers[key] = Follower(trace.place, trace.spec, dialect)
        return self._followers[key].catch_up(over=trace.over)


class Scene:
    """One look: the store, the run, its crew, the time."""

    def __init__(self, archive: Archive, record: RunRecord, crew: Crew, now: float) -> None:
        self.record, self.crew, self.now = record, crew, now
        self._archive = archive
        self._below: dict[str, tuple[int, int]] | None = None
        self.alive = record.status == "running" and archive.store.alive(record.session)
        self.over = record.status in ("killed", "aborted")

    @property
    def stopped(self) -> str:
        """Why nobody starts anything any more; "" while somebody does."""
        if self.alive:
            why = Orders(self._archive.store.folder, self.record.session).stopping()
            return "" if why is None else f"waits for a resume: the run is stopping: {why}"
        if self.record.status == "running":
            return "waits for a resume: the process of the run died"
        why = f": {self.record.reason}" if self.record.reason else ""
        return f"waits for a resume: the run is {self.record.status}{why}"

    def tries_again(self, tries: list[Attempt], trace: Trace | None) -> bool:
        """Its last attempt failed, but it has not: the run goes on with it."""
        failed = bool(tries) and tries[-1].state == "error"
        return failed and self.alive and not (trace is not None and trace.killed)

    def free(self, tried: Mapping[str, list[Attempt]]) -> int | None:
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
        has = bool(self.crew.posts) and bool(numbers_of(self._archive, self.record))
        return self.crew.fleet or has

    def below(self, tries: list[Attempt]) -> list[tuple[int, int]]:
        """What the runs took that these attempts started, as `Lineage.spent_below` has it."""
        if self._below is None:
            self._below = self._archive.read.lineage.spent_below(self.record.no)
        spans = map(self.span, tries)
        return [self._below[span] for span in spans if span in self._below]

    def span(self, attempt: Attempt) -> str:
        return f"{self.record.id}:{attempt.no}"

    def tried(self) -> dict[str, list[Attempt]]:
        """The attempts of each item, oldest first."""
        found: dict[str, list[Attempt]] = {}
        for attempt in self._archive.read.attempts(self.record.no, MOST_ITEMS):
            for id in attempt.ids:
                found.setdefault(id, []).append(attempt)
        return found

    def ended(self) -> dict[str, Ended]:
        return {
            one.id: one for one in self._archive.read.endings(self.record.no, STATES, MOST_ITEMS)
        }

    def with_places(self) -> list[Attempt]:
        """The attempts that have a place of their own in the store."""
        return [one for _, one in self._archive.read.those(numbers_of(self._archive, self.record))]

    def newest(self, most: int) -> list[Attempt]:
        """The last so many attempts, in whatever state."""
        return self._archive.read.newest(self.record.no, _ANY, most)

    def name_of(self, attempt: Attempt) -> str:
        """The worker of an attempt: the task, or the item that it is about."""
        return attempt.ids[0] if attempt.ids else attempt.member

    def traces(self) -> Iterator[tuple[Trace, str]]:
        """The files of all workers, each with the name it goes by."""
        for attempt in self.with_places():
            if trace := self.trace(attempt, ""):
                yield trace, self.name_of(attempt)
        for post in self.crew.posts if self.crew.fleet else ():
            place = Path(self.crew.folder, "workers", post.id)
            spec = read_spec(place)
            if spec is not None and spec.span.startswith(f"{self.record.id}:"):
                yield trace_of(place, spec), post.id

    def names(self) -> list[str]:
        """The workers that there are, or will be."""
        planned = [post.id for post in self.crew.posts] if self.of_tasks else []
        return list(dict.fromkeys([*planned, *map(self.name_of, self.with_places())]))

    def find(self, worker: str) -> Trace | None:
        """The files of one worker, by its name, `#NUMBER` of an attempt, or both; the newest."""
        name, _, number = worker.partition("#")
        found = [
            trace
            for trace, known in self.traces()
            if (known == name or (not name and number))
            and (not number or trace.spec.span == f"{self.record.id}:{number}")
        ]
        return found[-1] if found else None

    def quiet(self) -> bool:
        """Nobody carries the run out, and none of its workers lives."""
        return not self.alive and not any(trace.lives for trace, _ in self.traces())

    def trace(self, attempt: Attempt, worker: str) -> Trace | None:
        """The files of an attempt's worker; those in a fleet's folder may be of another attempt."""
        span = self.span(attempt)
        places = [self._archive.store.folder / "agents" / self.record.id / str(attempt.no)]
        if worker and self.crew.folder:
            places.append(Path(self.crew.folder, "workers", worker))
        for place in places:
            spec = read_spec(place)
            if spec is not None and spec.span == span:
                return trace_of(place, spec)
        return None


def trace_of(place: Path, spec: Spec) -> Trace:
    """The host tells first that it is there, at last how it ended; look in the same order."""
    host = read_host(place)
    lives = host is not None and (living(host.host) or living(host.program))
    exit = read_exit(place)
    return Trace(place, spec, lives and exit is None, exit, hosted=host is not None)


def workers(archive: Archive, record: RunRecord, now: float) -> list[WorkerView]:
    """One look at the workers of a run."""
    return Looker().look(archive, record, now)


def scene_of(archive: Archive, record: RunRecord, now: float) -> Scene:
    return Scene(archive, record, crew_of(record), now)


def numbers_of(archive: Archive, record: RunRecord) -> list[int]:
    """The attempts of a run that have a place of their own in the store."""
    try:
        names = os.listdir(archive.store.folder / "agents" / record.id)
    except OSError:
        return []
    return sorted(int(name) for name in names if name.isascii() and name.isdecimal())


def _named(attempts: Sequence[Attempt]) -> Iterator[tuple[str, Attempt]]:
    """Each by its item's id; where several have the same one, with the attempt's number."""
    ids = [one.ids[0] if one.ids else "" for one in attempts]
    many = Counter(ids)
    for id, one in zip(ids, attempts, strict=True):
        yield (id if id and many[id] == 1 else f"{id}#{one.no}"), one


def _is_for(attempt: Attempt, post: Post) -> bool:
    """A judge's attempts bear the id of the task too."""
    return not post.who.members or attempt.member in (*post.who.members, *post.who.fallback)


def _seen(scene: Scene, view: WorkerView, tries: list[Attempt], trace: Trace | None) -> WorkerView:
    """With times and numbers: of the newest attempt, and of the files that it left."""
    if tries:
        newest = tries[-1]
        view = msgspec.structs.replace(
            view, attempt=newest.no, tries=len(tries), began=newest.started, ended=newest.ended,
            usage=newest.usage, span=scene.span(newest),
        )  # fmt: skip
    if trace is None:
        return view
    heard, exit = heard_of(trace), trace.exit
    running = view.state == "RUNNING" and heard is not None
    return msgspec.structs.replace(
        view, place=trace.place, session=trace.spec.session, model=trace.spec.model or "",
        folder=trace.spec.folder,
        heard=heard, silent=max(0.0, scene.now - heard) if heard and running else 0.0,
        outputs=tuple(outputs(trace.place)), code=None if exit is None else exit.code,
        ended=view.ended if exit is None else exit.at,
    )  # fmt: skip
