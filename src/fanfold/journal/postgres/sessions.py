"""Who is alive: a lease for each session, by the server's clock, which a thread renews.

A session whose lease has ended is dead, whatever became of its process: one that was stopped or cut off
and comes back finds that it may write nothing, and sends nothing more. On the machine of a session its
process can be looked for besides, so that it need not be waited for.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from fanfold.errors import StoreError, StoreFenced
from fanfold.journal.contract import Life, SessionOwner
from fanfold.journal.postgres.connection import (
    Address,
    PostgresConnection,
    Questions,
    server_errors,
)
from fanfold.journal.sqlite.sessions import this_process

NOW = "extract(epoch from clock_timestamp())::float8"
RENEWALS = 30  # in the time of one lease
MARGIN = 0.9  # of a lease is used: clocks do not run at quite the same speed
_RENEW = (
    f"update sessions set until = {NOW} + ? where id in (select value from json_each(?))"
    f" and until > {NOW}"
)
_OF = f"select machine, owner, until > {NOW} from sessions where id = ?"


class LeasedSessions:
    """The sessions of one store. `lost` says why nothing may be sent and written any more."""

    def __init__(self, address: Address, entered: Callable[[str], None]) -> None:
        """`entered` is called with each new session of this process."""
        self._address, self._entered = address, entered
        self._asking = PostgresConnection(address)
        self._asked = Questions(self._asking, address.place, 0.0)
        self._lock = threading.Lock()
        self._held: set[str] = set()
        self._lease = self._until = 0.0
        self._process = os.getpid()
        self._over = threading.Event()
        self.lost = False

    @property
    def held(self) -> tuple[str, ...]:
        return tuple(self._held) if self._process == os.getpid() else ()

    def enter(self) -> str:
        session = secrets.token_hex(8)
        with self._lock, server_errors(self._address.place):
            before, db = _clock(), self._asking
            (self._lease,) = db.execute("select lease from store").fetchone()
            put = f"insert into sessions (id, machine, owner, until) values (?,?,?, {NOW} + ?)"
            owner = msgspec.json.encode(this_process())
            db.execute(put, (session, machine(), owner, self._lease))
            if not self._held:
                self._until = before + self._lease * MARGIN
                self._over = threading.Event()
                work = threading.Thread(target=self._keep, args=(self._over,), daemon=True)
                work.start()
            self._held.add(session)
        self._entered(session)
        return session

    def leave(self, session: str) -> None:
        with self._lock:
            self._held.discard(session)
            if not self._held:
                self._over.set()
            try:
                self._asking.execute("delete from sessions where id = ?", (session,))
            except psycopg.Error:
                self._asking.close()  # its lease ends by itself

    def life(self, session: str) -> Life:
        try:
            with self._lock:
                row = self._asked.execute(_OF, (session,)).fetchone()
        except StoreError:
            return "alive" if session in self._held else "unknown"
        if row is None or not row[2]:
            return "dead"
        return "dead" if row[0] == machine() and _gone(row[1]) else "alive"

    def alive(self, session: str) -> bool:
        return self.life(session) != "dead"

    def owner(self, session: str) -> SessionOwner | None:
        with self._lock:
            row = self._asked.execute(_OF, (session,)).fetchone()
        here = row is not None and row[2] and row[0] == machine()
        return msgspec.json.decode(row[1], type=SessionOwner) if here else None

    def bury(self, sessions: Collection[str]) -> None:
        """They are dead: none of them is ever renewed, also if the server's clock was set back."""
        listed = msgspec.json.encode(list(sessions)).decode()
        gone = "delete from sessions where id in (select value from json_each(?))"
        with self._lock, server_errors(self._address.place):
            self._asking.execute(gone, (listed,))

    def check(self) -> None:
        """Before something is sent: is the lease of this process still good, as far as it can know?"""
        if self._held and not self.lost and _clock() > self._until:
            self.lost = True
        if self.lost:
            raise StoreFenced(
                f"{self._address.place}: this process was cut off from it for longer than its lease"
                f" ({self._lease:g} s), and others may have taken over its calls; it sends and records"
                " nothing more: resume the run"
            )

    def check_held(self, db: Any) -> None:
        """The same by the server, within a transaction that nobody else writes during."""
        self.check()
        held = self.held
        if not held:
            return
        good = f"select count(*) from sessions where until > {NOW} and id in (select value from json_each(?))"
        (count,) = db.execute(good, (msgspec.json.encode(held).decode(),)).fetchone()
        if count < len(held):
            self.lost = bool(set(held) <= self._held)
            self.check()

    def _keep(self, over: threading.Event) -> None:
        """Renews, on a connection of its own, until all sessions have left or the leases are lost."""
        db = PostgresConnection(self._address, wait=5.0)
        while not over.wait(self._lease / RENEWALS) and not self.lost:
            before, held = _clock(), self.held
            try:
                renewed = db.execute(_RENEW, (self._lease, msgspec.json.encode(held).decode()))
            except psycopg.Error:
                db.close()
                continue
            if renewed.rowcount >= len(held):
                self._until = max(self._until, before + self._lease * MARGIN)
            elif set(held) <= self._held:
                self.lost = True
        db.close()

    def close(self) -> None:
        self._over.set()
        self._asking.close()


def machine() -> str:
    """This boot of this machine, and the namespace that process numbers are of; "" where nobody knows."""
    process = this_process()
    known = process.boot and process.namespace
    return f"{process.boot} {process.namespace}" if known else secrets.token_hex(8)


def _gone(owner: bytes) -> bool:
    """A process of this machine that is surely not there any more."""
    process = msgspec.json.decode(owner, type=SessionOwner)
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    try:
        line = Path(f"/proc/{process.pid}/stat").read_bytes()
    except OSError:
        return False
    fields = line.rpartition(b")")[2].split()
    return fields[0] == b"Z" or int(fields[19]) != process.started


def _clock() -> float:
    """One that goes on while the machine sleeps."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
