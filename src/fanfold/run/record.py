"""A run on record: a new one, or an earlier one that goes on."""

from __future__ import annotations

from typing import Any

import msgspec

from fanfold.clock import Clock
from fanfold.errors import AlreadyRunning, StoreError
from fanfold.journal.contract import Store
from fanfold.journal.facts import AddRun, ReopenRun, RunRecord
from fanfold.run.inherited import store_words
from fanfold.work.raised import error_text
from fanfold.work.task import Budget

_encode = msgspec.json.Encoder().encode
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RESUMABLE = ("running", "paused", "aborted", "killed")


def new_id(clock: Clock, now: float) -> str:
    """Sorts by time: ten letters of milliseconds, then chance."""
    number = (int(now * 1000) << 80) | clock.random_bits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


class Launch(msgspec.Struct, frozen=True):
    """What a run is started with: its plan, the plan's folder, in whose process it is, its tags (it has
    those of the run that started it besides). `shared`: other processes may join it."""

    plan: bytes = b""
    folder: str = ""
    parent: str | None = None
    tags: tuple[str, ...] = ()
    shared: bool = False


def recorded_result(value: Any) -> tuple[bytes, str | None]:
    """As it goes on record, and what is wrong with it. What is no plain JSON (a table of a library, say)
    is for the script alone, and the run ends flagged."""
    try:
        return _encode(value), None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return b"null", f"the result is not plain JSON, so it is not on record: {error_text(error)}"


async def start(
    store: Store, name: str, clock: Clock, budget: Budget, launch: Launch = Launch()
) -> RunRecord:
    """A new run, on record, with a session of this process."""
    await store.recover(clock.now())
    now = clock.now()
    record = RunRecord(
        id=new_id(clock, now), name=name, created=now, session=store.sessions.enter(),
        plan=launch.plan, folder=launch.folder, parent=launch.parent, budget=_encode(budget),
        tags=_tags(store, launch),
    )  # fmt: skip
    dead = _dead_leads(store, name) if launch.shared else ()
    no: int = await store.write(AddRun(record, launch.shared, dead))
    if not no:
        store.sessions.leave(record.session)
        raise AlreadyRunning(f"{name} is already running")
    return msgspec.structs.replace(record, no=no)


def _dead_leads(store: Store, name: str) -> tuple[str, ...]:
    """Sessions of runs of that name that cannot be joined any more."""
    there = [one.session for one in store.read.runs() if one.name == name]
    return tuple(session for session in there if not store.sessions.alive(session))


def _tags(store: Store, launch: Launch) -> tuple[str, ...]:
    above = launch.parent and store.read.find(launch.parent.partition(":")[0])
    return tuple(dict.fromkeys((*launch.tags, *(above.tags if above else ()))))


class Reopening(msgspec.Struct, frozen=True):
    """How an earlier run goes on. `anew`: items whose outcomes are dropped, whatever they are;
    `keep`: all others stay, also those that would go on. `plan`: what it is changed to. `shared`: other
    processes may join it."""

    anew: tuple[str, ...] = ()
    keep: bool = False
    plan: bytes | None = None
    shared: bool = False


async def reopen(
    store: Store, record: RunRecord, clock: Clock, budget: Budget, how: Reopening = Reopening()
) -> RunRecord:
    """An earlier run goes on. Refused while another process carries it out."""
    _refuse_while_alive(store, record)
    await store.recover(clock.now())
    session = store.sessions.enter()
    active = unbooked(store, record)
    fact = ReopenRun(
        record.no, session, _encode(budget), record.session, active, how.anew, how.keep, how.plan,
        how.shared,
    )  # fmt: skip
    if not await store.write(fact):
        store.sessions.leave(session)
        raise _running(store, record)
    return msgspec.structs.replace(
        record, status="running", session=session, budget=_encode(budget), resumed=True,
        active=record.active + active,
    )  # fmt: skip


def _running(store: Store, record: RunRecord) -> AlreadyRunning:
    see = f"fanfold status {record.id}{store_words(store.place)}"
    return AlreadyRunning(f"{record.name} ({record.id}) is already running; see: {see}")


def _refuse_while_alive(store: Store, record: RunRecord) -> None:
    match store.sessions.life(record.session) if record.session else "dead":
        case "alive":
            raise _running(store, record)
        case "unknown":
            raise StoreError(
                f"{store.place}: cannot tell whether another process still runs"
                f" {record.name} (no free file handle, or no permission); try again"
            )


def unbooked(store: Store, record: RunRecord) -> float:
    """Active seconds of a process that died before it could book them, as far as is known: until
    it last began or ended a call. The time since then is nobody's."""
    return store.read.unbooked_seconds(record.no) if record.status == "running" else 0.0
