"""Processes that carry out one run together: `fanfold run plan.yaml --shares 1`, each forked from a process
that has everything imported already."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from contextlib import closing
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from fanfold.faces.cli.main import main
from tests.postgres import end_with_us

_READY = multiprocessing.get_context("forkserver")
_READY.set_forkserver_preload([__name__, "fanfold.faces.cli.run", "fanfold.members.openai"])


class ShareProcess:
    """One of them. What it prints goes into files. `everyone`: all that were started."""

    everyone: ClassVar[list[ShareProcess]] = []

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        self._out = folder / f"{name}.out"
        self.process: ForkServerProcess = _READY.Process(
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
        """Of the process of a session; only where the store is a folder."""
        owner = msgspec.json.decode((Path(self._place) / "live" / session).read_bytes())
        return int(owner["pid"])

    def sessions(self) -> dict[str, int]:
        """How many attempts each made."""
        return dict(self.ask("select session, count(*) from attempts group by session"))
