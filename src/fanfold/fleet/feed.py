"""One stream of events across the workers of a run: what they say, and what the journal has of them.

Every line has its true time: the event's own, else when it came into the log.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fanfold.fleet.logs import Follower
from fanfold.fleet.look import Scene
from fanfold.fleet.worker_view import Trace
from fanfold.journal.facts import Attempt, AttemptState, RunRecord
from fanfold.members.agents.dialect import Dialect
from fanfold.members.agents.dialects import DIALECTS
from fanfold.observe.amounts import money
from fanfold.observe.table import cells_wide, cut, cut_name, one_line

AGENT, EVENT = 15, 30
GAP = "  "
LONGEST_TEXT = 4000
FIRST_WINDOW = 4  # lines of a log that are read at first, for each event that is wanted
MOST_FACTS = 1000
_ENDED: tuple[AttemptState, ...] = ("ok", "error", "in_doubt", "late")
_WORDS: dict[AttemptState, str] = {
    "started": "started", "ok": "ended", "error": "failed", "in_doubt": "in_doubt", "late": "late",
}  # fmt: skip


class Happening(NamedTuple):
    """One line of the feed. `agent` is a worker's id, or "" for the run itself; `event` is what its
    program calls it, `kind` what it is in all of them alike."""

    at: float
    agent: str
    event: str
    text: str
    kind: str = "fact"


class Wanted(NamedTuple):
    """What of it is shown: only of this worker; only of this type, which is a kind (`tool`), an event
    (`result/success`) or the first part of one (`result`)."""

    agent: str | None = None
    type: str | None = None

    def fits(self, one: Happening) -> bool:
        if self.agent is not None and one.agent != self.agent:
            return False
        words = (one.kind, one.event, one.event.partition("/")[0], one.event.partition(".")[0])
        return self.type is None or self.type in words


class Feed:
    """The events of a run. `last` first, then `more` again and again; each is told once."""

    def __init__(self, wanted: Wanted, dialects: Mapping[str, Dialect] = DIALECTS) -> None:
        self._wanted, self._dialects = wanted, dialects
        self._followers: dict[str, tuple[str, Follower]] = {}
        self._told: set[tuple[int, str]] = set()

    def last(self, scene: Scene, lines: int) -> list[Happening]:
        """The newest so many, in the order of their times."""
        streams: list[Iterable[Happening]] = [self._facts(scene)]
        for trace, name in scene.traces():
            if self._of_interest(trace, name):
                streams.append(self._recent(trace, name, lines))
        merged = heapq.merge(*streams, key=_order)
        return list(deque(filter(self._wanted.fits, merged), maxlen=lines))

    def more(self, scene: Scene) -> list[Happening]:
        """What came since, of all workers that are there by now, in the order of its times."""
        streams: list[Iterable[Happening]] = [self._facts(scene)]
        for trace, name in scene.traces():
            if self._of_interest(trace, name):
                key = trace.spec.span
                if key not in self._followers:
                    self._followers[key] = (name, self._follower(trace))
                follower = self._followers[key][1]
                streams.append(_happenings(follower, name, over=trace.over))
        return list(filter(self._wanted.fits, heapq.merge(*streams, key=_order)))

    def _of_interest(self, trace: Trace, name: str) -> bool:
        asked = self._wanted.agent
        return trace.spec.dialect in self._dialects and (asked is None or asked == name)

    def _recent(self, trace: Trace, name: str, lines: int) -> list[Happening]:
        """From the end of a log as much as holds so many events; all of it when it has fewer."""
        window = max(lines, 1) * FIRST_WINDOW
        while True:
            follower = self._follower(trace, window)
            came = _happenings(follower, name, over=trace.over)
            found = deque(filter(self._wanted.fits, came), maxlen=lines)
            if follower.whole or len(found) == lines:
                self._followers[trace.spec.span] = (name, follower)
                return list(found)
            window *= 8

    def _follower(self, trace: Trace, lines: int | None = None) -> Follower:
        dialect = self._dialects[trace.spec.dialect]
        return Follower(trace.place, trace.spec, dialect, lines=lines)

    def _facts(self, scene: Scene) -> list[Happening]:
        """What the journal has of the attempts, and that the run stopped; what was not told yet."""
        found = []
        for attempt in reversed(scene.newest(MOST_FACTS)):
            found += _of_attempt(attempt, scene.name_of(attempt))
        record = scene.record
        if record.ended is not None:
            found.append(((record.no, f"run {record.status} {record.ended}"), _of_run(record)))
        fresh = [(key, one) for key, one in found if key not in self._told]
        self._told.update(key for key, _ in fresh)
        return sorted((one for _, one in fresh), key=_order)


Fact = tuple[tuple[int, str], Happening]


def _order(one: Happening) -> float:
    return one.at


def _happenings(follower: Follower, name: str, *, over: bool) -> Iterator[Happening]:
    for said in follower.read(over=over):
        told = said.told
        yield Happening(said.at, name, told.name or told.kind, told.text, told.kind)


def _of_attempt(one: Attempt, name: str) -> list[Fact]:
    asked = f"attempt {one.no}, {one.member}"
    reserved = f", at most {money(one.reserved)} reserved" if one.reserved else ""
    found = [
        ((one.no, "started"), Happening(one.started, name, "attempt/started", asked + reserved))
    ]
    if one.state in _ENDED and one.ended is not None:
        text = f"{asked}, {money(one.cost, at_most=one.bound)}" + (
            f": {one.error}" if one.error else ""
        )
        event = f"attempt/{_WORDS[one.state]}"
        found.append(((one.no, one.state), Happening(one.ended, name, event, text)))
    return found


def _of_run(record: RunRecord) -> Happening:
    text = record.reason or ""
    return Happening(record.ended or 0.0, "", f"run/{record.status}", text)


# ── for people and for programs ──────────────────────────────────────────────────────────────


def feed_line(one: Happening, width: int) -> str:
    """`time  agent(15)  event(30)  text`; in a narrow terminal the event has less room."""
    stamp = datetime.fromtimestamp(one.at, UTC).astimezone().strftime("%H:%M:%S")
    event = EVENT if width >= 100 else 18
    agent = cut_name(one_line(one.agent or "-"), AGENT)
    parts = [stamp, _padded(agent, AGENT), _padded(one.event, event)]
    return cut(GAP.join([*parts, one_line(one.text, LONGEST_TEXT)]), width).rstrip()


def _padded(text: str, wide: int) -> str:
    text = one_line(text, wide)
    return text + " " * (wide - cells_wide(text))


def feed_json(one: Happening) -> dict[str, Any]:
    stamp = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
    return {"at": stamp.replace("+00:00", "Z"), "agent": one.agent or None, "event": one.event,
            "kind": one.kind, "text": one.text}  # fmt: skip
