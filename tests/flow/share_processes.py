"""Processes that carry out one run together: `fanfold run plan.yaml --shares 1`, each forked from a process
that has everything imported already."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from fanfold.faces.cli.main import main
from fanfold.testing.running import RunningServer
from tests.faces.project import write_project
from tests.flow.answering import all_answered
from tests.flow.ready import READY
from tests.postgres import end_with_us
from tests.waiting import wait_until

ITEMS, SLOTS = 960, 12
"""More than three processes take before they have an answer, and those that are answered meanwhile:
there is something left for the last one that joins, however late."""
RUN = ("run", "plan.yaml", "--shares", "1", "--allow-paid", "--json", "--quiet")
EXPECTED = " / ".join(f"Say word {n}" for n in range(ITEMS))
RPM = 3000


class ShareProcess:
    """One of them. What it prints goes into files. `everyone`: all that were started."""

    everyone: ClassVar[list[ShareProcess]] = []

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self._out = folder / f"{name}.out"
        self.process: ForkServerProcess = READY.Process(
            target=_performed, args=(str(folder), str(self._out), words)
        )
        self.process.start()
        self.everyone.append(self)

    def end(self) -> int | None:
        self.process.join()
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    @property
    def receipt(self) -> dict[str, Any]:
        """Of the one that led in the end; it prints one object, the others a line for people."""
        found: dict[str, Any] = msgspec.json.decode(self._out.read_bytes())
        return found

    @property
    def led(self) -> bool:
        return self._out.read_bytes().startswith(b"{")

    def said(self) -> str:
        return self._out.read_text() + self._out.with_suffix(".err").read_text()


def end_everyone() -> None:
    """Whatever a test left at work."""
    for one in ShareProcess.everyone:
        one.kill()
    ShareProcess.everyone.clear()


def _performed(folder: str, out: str, words: tuple[str, ...]) -> None:
    end_with_us()
    os.chdir(folder)
    for number, name in ((1, out), (2, str(Path(out).with_suffix(".err")))):
        file = os.open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(file, number)
    main(list(words))


class StoreRows:
    """The rows of a store, looked at from outside."""

    def __init__(self, place: str) -> None:
        self._place = place

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        if "://" not in self._place:
            file = Path(self._place) / "journal.db"
            if not file.exists():
                return []
            with closing(sqlite3.connect(file, timeout=60)) as db:
                there = db.execute("select 1 from sqlite_master where name = 'ranges'").fetchone()
                return db.execute(question).fetchall() if there else []
        address, _, schema = self._place.partition("?schema=")
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}") as db:
            (there,) = db.execute("select to_regclass('ranges')").fetchone()
            return db.execute(question).fetchall() if there else []

    def joined(self) -> list[tuple[Any, ...]]:
        return self.ask("select session from sharers where gone = 0")

    def sharers(self) -> list[str]:
        """The sessions that work now: each has a portion, and calls in flight; who leads first."""
        return [
            session
            for (session,) in self.ask(
                "select s.session from sharers s where s.low < s.high and exists (select 1 from attempts a"
                " where a.session = s.session and a.state = 'started') order by s.joined"
            )
        ]

    def pid(self, session: str) -> int:
        """Of the process of a session."""
        if "://" in self._place:
            ((said,),) = self.ask(f"select owner from sessions where id = '{session}'")
        else:
            said = (Path(self._place) / "live" / session).read_bytes()
        return int(msgspec.json.decode(said)["pid"])

    def lead(self) -> str:
        ((session,),) = self.ask("select session from runs")
        return str(session)

    def sessions(self) -> dict[str, int]:
        """How many attempts each made."""
        return dict(self.ask("select session, count(*) from attempts group by session"))


def while_answering(model: RunningServer, over: Callable[[], object]) -> None:
    """What is under way is answered again and again, until it is true. The slower the machine, the longer it
    takes until all have noticed all: so a few times only."""
    for n in range(11):
        with suppress(AssertionError):
            return wait_until(over, seconds=0.5 * 2**n)
        model.release()
    raise AssertionError("it never came true")


class Together:
    """A project, its store, and the processes that carry its run out. Nothing is answered before `go`."""

    def __init__(
        self,
        folder: Path,
        place: str,
        model: RunningServer,
        items: int = ITEMS,
        slots: int = SLOTS,
        rpm: int = 10 * RPM,
    ) -> None:
        self.folder, self.place, self.model = folder / "project", place, model
        write_project(self.folder, model.url, items=items, concurrency=slots)
        limits = f"concurrency: {slots}, rpm: {rpm}"
        roster = self.folder / "roster.yaml"
        roster.write_text(roster.read_text().replace("concurrency: 8", limits))
        self.rows = StoreRows(place)
        self.started: list[ShareProcess] = []

    def start(self, many: int, *words: str) -> list[ShareProcess]:
        """All of them at once: whoever is first starts the run, the others join it."""
        words = (*(words or RUN), "--store", self.place)
        first = len(self.started)
        new = [ShareProcess(self.folder, f"p{first + n}", *words) for n in range(many)]
        self.started += new
        return new

    def at_work(self, many: int) -> list[str]:
        """Their sessions, once so many work at the same time; who leads comes first. A portion is given
        up when the calls that it was for have ended, so some are answered, a few at a time."""
        wait_until(lambda: self._joined() >= many)
        while_answering(self.model, lambda: len(self.rows.sharers()) >= many)
        return self.rows.sharers()

    def _joined(self) -> int:
        """Whoever has ended before it joined says why: it is not waited for."""
        for one in self.started:
            assert one.process.exitcode in (None, -9), one.said()
        return len(self.rows.joined())

    def answering(self, do: Callable[[], object]) -> None:
        """Meanwhile some of what is under way is answered: what others left must come to its end."""
        thread = threading.Thread(target=do)
        thread.start()
        while_answering(self.model, lambda: not thread.is_alive())

    def go(self, but: ShareProcess | None = None) -> None:
        """From now on all calls are answered, until all processes have ended, or all but that one."""
        with all_answered(self.model):
            for one in self.started:
                if one is not but:
                    one.end()

    def asked(self) -> Counter[str]:
        return Counter(one.prompt for one in self.model.books().asked)

    @property
    def leader(self) -> ShareProcess:
        """Who led in the end."""
        (one,) = [one for one in self.started if one.process.exitcode != -9 and one.led]
        return one

    def busy(self) -> list[str]:
        """The sessions that work on some positions."""
        return [
            one for (one,) in self.rows.ask("select distinct session from ranges where done = 0")
        ]

    def process_of(self, session: str) -> ShareProcess:
        (process,) = [one for one in self.started if one.process.pid == self.rows.pid(session)]
        return process
