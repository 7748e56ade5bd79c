"""What workers say and do, each event with its true time: of one worker (`fanfold view`), or of all
workers of a run together with the facts of the journal (`fanfold feed`)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from fanfold.fleet.logs import Follower, LogEvent
from fanfold.fleet.look import RunSnapshot
from fanfold.fleet.worker_view import WorkerFiles
from fanfold.journal.answers import AttemptRecord
from fanfold.journal.facts import AttemptState, RunRecord
from fanfold.journal.following import StoreFollower
from fanfold.members.agents.dialect import Dialect
from fanfold.members.agents.dialects import DIALECTS
from fanfold.observe.amounts import money
from fanfold.observe.table import cells_wide, cut, cut_name, one_line, wrapped
from fanfold.observe.waits import wait_text

T = TypeVar("T")
FIRST_WINDOW = 4  # lines of a log that are read at first, for each event that is wanted
STAMP = 10  # columns of a time and the gap after it
MOST_LINES = 200  # of one message
LONGEST_RAW = 1 << 20
AGENT, EVENT = 15, 30
GAP = "  "
LONGEST_TEXT = 4000
MOST_FACTS = 1000
GLYPHS = {
    "text": "", "thought": "… ", "tool": "🔧 ", "result": "→ ", "system": "· ", "retry": "↻ ",
    "done": "✓ ", "failed": "✗ ",
}  # fmt: skip
_ENDED: tuple[AttemptState, ...] = ("ok", "error", "in_doubt", "late")
_WORDS: dict[AttemptState, str] = {
    "started": "started", "ok": "ended", "error": "failed", "in_doubt": "in_doubt", "late": "late",
}  # fmt: skip


def _follower(files: WorkerFiles, dialect: Dialect, lines: int | None = None) -> Follower:
    return Follower(files.place, files.spec, dialect, lines=lines)


def _last(
    files: WorkerFiles, dialect: Dialect, most: int, read: Callable[[Follower], Iterable[T]]
) -> tuple[Follower, list[T]]:
    """The newest events of a log. Of a huge one only as much of its end is read as has so many."""
    window = max(most, 1) * FIRST_WINDOW
    while True:
        follower = _follower(files, dialect, window)
        found = deque(read(follower), maxlen=most)
        if follower.whole or len(found) == most:
            return follower, list(found)
        window *= 8


# ── one worker ───────────────────────────────────────────────────────────────────────────────


class WorkerStream:
    """What one worker says. `last` first, then `more` again and again."""

    def __init__(self, files: WorkerFiles, dialects: Mapping[str, Dialect] = DIALECTS) -> None:
        self._files = files
        self._dialect = dialects[files.spec.dialect]
        self._follower = _follower(files, self._dialect, 0)

    def last(self, lines: int, *, over: bool) -> list[LogEvent]:
        """The newest so many."""
        self._follower, found = _last(
            self._files, self._dialect, lines, lambda one: one.read(over=over)
        )
        return found

    def more(self, *, over: bool) -> Iterator[LogEvent]:
        return self._follower.read(over=over)

    def last_raw(self, lines: int, *, over: bool) -> list[str]:
        """The last so many lines of the log as they are, without control characters."""
        self._follower = _follower(self._files, self._dialect, lines)
        return list(deque(self.more_raw(over=over), maxlen=lines))

    def more_raw(self, *, over: bool) -> Iterator[str]:
        return (plain(line[:LONGEST_RAW]) for line in self._follower.raw(over=over))


def plain(line: bytes) -> str:
    """Text for a terminal; control characters and bytes that are no text are escaped."""
    text = line.decode("utf-8", "backslashreplace").rstrip("\r")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def view_lines(event: LogEvent, width: int) -> list[str]:
    """`12:03:04  text`, its own line breaks kept, wrapped at the width of the terminal."""
    room = max(20, width - STAMP)
    paragraphs = (GLYPHS[event.told.kind] + event.told.text).splitlines() or [""]
    whole = list(
        chain.from_iterable(wrapped(part, room, MOST_LINES) for part in paragraphs[:MOST_LINES])
    )
    first, *rest = [one_line(part, room) for part in whole[:MOST_LINES]]
    return [f"{_clock(event.at)}  {first}".rstrip(), *(" " * STAMP + part for part in rest if part)]


def closing_line(files: WorkerFiles, width: int) -> str:
    """How it ended."""
    exit = files.exit
    if exit is None:
        return "── exited without a record of how it ended"
    how = exit.said or (f"ended: {exit.why}" if exit.why else "")
    code = f"exit code {exit.code}" if exit.code >= 0 else f"signal {-exit.code}"
    return one_line(f"── ended at {_clock(exit.at)}, {code}" + (f": {how}" if how else ""), width)


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%H:%M:%S")


# ── all workers of a run ─────────────────────────────────────────────────────────────────────


class FeedEvent(NamedTuple):
    """One line of the feed. `agent` is a worker's id, or "" for the run itself; `event` is what its
    program calls it, `kind` the same for all programs."""

    at: float
    agent: str
    event: str
    text: str
    kind: str = "fact"


class FeedFilter(NamedTuple):
    """What is shown: only of this worker; only of this type, which is a kind (`tool`), an event
    (`result/success`) or the first part of one (`result`)."""

    agent: str | None = None
    type: str | None = None

    def fits(self, one: FeedEvent) -> bool:
        if self.agent is not None and one.agent != self.agent:
            return False
        words = (one.kind, one.event, one.event.partition("/")[0], one.event.partition(".")[0])
        return self.type is None or self.type in words


class RunFeed:
    """The events of a run. `last` first, then `more` again and again; each is given once."""

    def __init__(self, wanted: FeedFilter, dialects: Mapping[str, Dialect] = DIALECTS) -> None:
        self._wanted, self._dialects = wanted, dialects
        self._followers: dict[str, Follower] = {}
        self._given: set[tuple[int, str]] = set()
        self._follower = StoreFollower()

    def last(self, run: RunSnapshot, lines: int) -> list[FeedEvent]:
        """The newest so many, in the order of their times."""
        streams: list[Iterable[FeedEvent]] = [self._facts(run)]
        for files, name in self._workers(run):
            streams.append(self._recent(files, name, lines))
        merged = heapq.merge(*streams, key=_time)
        return list(deque(filter(self._wanted.fits, merged), maxlen=lines))

    def more(self, run: RunSnapshot) -> list[FeedEvent]:
        """What came since, of all workers that there are by now, in the order of its times."""
        streams: list[Iterable[FeedEvent]] = [self._facts(run)]
        for files, name in self._workers(run):
            key = files.spec.span
            if key not in self._followers:
                self._followers[key] = _follower(files, self._dialects[files.spec.dialect])
            streams.append(_events(self._followers[key], name, over=files.over))
        return list(filter(self._wanted.fits, heapq.merge(*streams, key=_time)))

    def _workers(self, run: RunSnapshot) -> Iterator[tuple[WorkerFiles, str]]:
        wanted = self._wanted.agent
        for files, name in run.all_files():
            if files.spec.dialect in self._dialects and wanted in (None, name):
                yield files, name

    def _recent(self, files: WorkerFiles, name: str, lines: int) -> list[FeedEvent]:
        def read(follower: Follower) -> Iterator[FeedEvent]:
            return filter(self._wanted.fits, _events(follower, name, over=files.over))

        follower, found = _last(files, self._dialects[files.spec.dialect], lines, read)
        self._followers[files.spec.span] = follower
        return found

    def _facts(self, run: RunSnapshot) -> list[FeedEvent]:
        """What the journal has of the attempts and of the end of the run, as far as it was not given."""
        found = []
        for attempt in run.changed(self._follower, MOST_FACTS):
            found += _of_attempt(attempt, run.name_of(attempt))
        record = run.record
        if (noted := run.waits()) is not None:
            text = "; ".join(wait_text(one, noted.at) for one in noted.waits) or "nothing waits"
            event = FeedEvent(noted.at, "", "run/waits", text)
            found.append(((record.no, f"waits {noted.at}"), event))
        if record.ended is not None:
            found.append(((record.no, f"run {record.status} {record.ended}"), _of_run(record)))
        fresh = [(key, one) for key, one in found if key not in self._given]
        self._given.update(key for key, _ in fresh)
        return sorted((one for _, one in fresh), key=_time)


def _time(one: FeedEvent) -> float:
    return one.at


def _events(follower: Follower, name: str, *, over: bool) -> Iterator[FeedEvent]:
    for one in follower.read(over=over):
        told = one.told
        yield FeedEvent(one.at, name, told.name or told.kind, told.text, told.kind)


def _of_attempt(one: AttemptRecord, name: str) -> list[tuple[tuple[int, str], FeedEvent]]:
    asked = f"attempt {one.no}, {one.member}"
    reserved = f", at most {money(one.reserved)} reserved" if one.reserved else ""
    found = [
        ((one.no, "started"), FeedEvent(one.started, name, "attempt/started", asked + reserved))
    ]
    if one.state in _ENDED and one.ended is not None:
        text = f"{asked}, {money(one.cost, at_most=one.bound)}" + (
            f": {one.error}" if one.error else ""
        )
        event = f"attempt/{_WORDS[one.state]}"
        found.append(((one.no, one.state), FeedEvent(one.ended, name, event, text)))
    return found


def _of_run(record: RunRecord) -> FeedEvent:
    return FeedEvent(record.ended or 0.0, "", f"run/{record.status}", record.reason or "")


def feed_line(one: FeedEvent, width: int) -> str:
    """`time  agent(15)  event(30)  text`; in a narrow terminal the event has less room."""
    event = EVENT if width >= 100 else 18
    agent = cut_name(one_line(one.agent or "-"), AGENT)
    parts = [_clock(one.at), _padded(agent, AGENT), _padded(one.event, event)]
    return cut(GAP.join([*parts, one_line(one.text, LONGEST_TEXT)]), width).rstrip()


def _padded(text: str, wide: int) -> str:
    text = one_line(text, wide)
    return text + " " * (wide - cells_wide(text))


def feed_json(one: FeedEvent) -> dict[str, Any]:
    stamp = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
    return {"at": stamp.replace("+00:00", "Z"), "agent": one.agent or None, "event": one.event,
            "kind": one.kind, "text": one.text}  # fmt: skip
