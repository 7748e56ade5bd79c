"""The limits that a host enforces by itself: time, silence, money, turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from fanfold.members.agents.logs import SpendingFiles, Tail
from fanfold.members.agents.worker import LOG, Spec, Why, WorkerLimits
from fanfold.price import dollars

if TYPE_CHECKING:  # a host stays small: it loads the dialects only when it has to meter
    from fanfold.members.agents.dialect import LogReader


_LOOK_FOR_FILES = 2.0  # seconds between searches for files that the meter reads
_SPENDING = 0.5  # seconds between looks while money is spent that only other files tell of
_REST = 5.0  # seconds without a look at most
_ANSWER_GRACE = (
    5.0  # seconds that a program over its limit has to end, once it has given its answer
)

Reached = tuple[Why, str]


class LimitWatch:
    """Says when a limit is reached. `look` is called when the log has grown, and when `rest` is over;
    all times are monotonic.

    Money and turns need a reader of the program's events; without one they are not looked at.
    """

    def __init__(
        self, spec: Spec, place: Path, now: float, reader: LogReader | None = None
    ) -> None:
        self._bounds, self._begun, self._heard = spec.bounds, now, now
        self._place, self._turns = place, spec.bounds.turns
        if spec.listens:  # it sees to its turns itself, until it gets a message
            self._bounds = msgspec.structs.replace(spec.bounds, turns=None)
        self._meters = _SpendingWatch(spec, reader)
        self._meter = (
            None if reader is None else _SpendingLimit(self._bounds, place, self._meters, reader)
        )

    def count_turns(self, reader: Callable[[], LogReader]) -> None:
        """From now on, and those before too."""
        if self._turns is None or self._bounds.turns is not None:
            return
        self._bounds = msgspec.structs.replace(self._bounds, turns=self._turns)
        self._meter = _SpendingLimit(self._bounds, self._place, self._meters, reader())

    def rest(self, now: float) -> float:
        """For how long nothing can be due, as long as nothing is written into the log."""
        bounds, times = self._bounds, [_REST]
        if bounds.seconds is not None:
            times.append(self._begun + bounds.seconds - now)
        if bounds.silence is not None:
            times.append(self._heard + bounds.silence - now)
        if self._meter is not None:
            times.append(self._meter.rest())
        return max(0.01, min(times))

    def look(self, now: float, grown: bool) -> Reached | None:
        """`grown`: the log has grown since the last look."""
        bounds = self._bounds
        if bounds.seconds is not None and now - self._begun >= bounds.seconds:
            return "time", f"ended at its limit of {bounds.seconds:g} s"
        if bounds.silence is None and self._meter is None:
            return None
        quiet = bounds.silence is not None and now - self._heard >= bounds.silence
        spoken = self._meters.have_grown(now, surely=quiet) or grown
        if spoken:
            self._heard = now
        elif quiet:
            return "silence", f"ended after {bounds.silence:g} s without output"
        return None if self._meter is None else self._meter.look(now, spoken)


class _SpendingWatch:
    """The files beside the log that a program writes (`Spec.meter`), as they come and grow."""

    def __init__(self, spec: Spec, reader: LogReader | None) -> None:
        self.sought = spec.meter != ""
        self._files, self._reader = SpendingFiles(spec), reader
        self._searched, self._session = float("-inf"), ""

    def have_grown(self, now: float, *, surely: bool) -> bool:
        """`surely`: look for new ones too, which takes longer and is done only now and then."""
        if not self.sought:
            return False
        session = "" if self._reader is None else self._reader.reading.session
        if surely or session != self._session or now - self._searched >= _LOOK_FOR_FILES:
            self._searched, self._session = now, session
            self._files.search(session)
        return self._files.has_grown()

    def lines(self) -> Iterator[bytes]:
        return self._files.lines()


class _SpendingLimit:
    """What the program has spent, by its events."""

    def __init__(
        self, bounds: WorkerLimits, place: Path, meters: _SpendingWatch, reader: LogReader
    ) -> None:
        self._bounds, self._meters, self._reader = bounds, meters, reader
        self._log = Tail(place / LOG)
        self._over: float | None = None

    def rest(self) -> float:
        """Growth of files beside the log wakes nobody; a closing answer is waited for, but not long."""
        return _SPENDING if self._meters.sought or self._over is not None else _REST

    def look(self, now: float, grown: bool) -> Reached | None:
        if grown:
            try:
                self._read()
            except Exception as error:  # a limit that cannot be measured does not hold
                why: Why = "turns" if self._bounds.usd is None else "budget"
                return why, f"ended because its log cannot be read: {error!r}"
        reached = self._reached()
        if reached is None:
            return None
        self._over = now if self._over is None else self._over
        waits = _ANSWER_GRACE if self._reader.reading.ended else 0.0
        return reached if now - self._over >= waits else None

    def _read(self) -> None:
        for line in self._log.lines():
            self._reader.feed(line)
        for line in self._meters.lines():
            self._reader.meter(line)

    def _reached(self) -> Reached | None:
        """Money at the limit, but turns only above it: an answer in the last one is an answer."""
        bounds, reading = self._bounds, self._reader.reading
        if bounds.usd is not None and (reading.cost or 0) >= bounds.usd:
            spent, most = dollars(reading.cost or 0), dollars(bounds.usd)
            return "budget", f"ended at ${spent:.4f} of its limit of ${most:.4f}"
        if bounds.most is not None and (more := reading.next_call()):
            spent, most = reading.cost or 0, bounds.most
            if spent + more > most:
                return "budget", (
                    f"ended at ${dollars(spent):.4f}: the next call of its context could take"
                    f" ${dollars(more):.4f}, and ${dollars(most):.4f} is reserved for it"
                )
        if bounds.turns is not None and reading.turns > bounds.turns:
            return "turns", f"ended after its limit of {bounds.turns} turns"
        return None
