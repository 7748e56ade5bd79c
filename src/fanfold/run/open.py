"""Opening a run: a new one, or one that was stopped and goes on."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from fanfold.clock import Clock, RealClock
from fanfold.errors import AlreadyRunning, BadInput, RunStopped, StoreError
from fanfold.journal.contract import Store
from fanfold.journal.facts import AddRun, ReopenRun, RunRecord
from fanfold.journal.opening import open_store
from fanfold.members.entry import ScriptedEntry
from fanfold.members.roster import SETTINGS, Roster, RosterSettings, load_roster
from fanfold.run.choose import Company, Given
from fanfold.run.engine import Stop
from fanfold.run.govern import Approve, Govern
from fanfold.run.inherited import inherited, store_words
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.work.check import Check, described, flag, many, text, whole
from fanfold.work.member import Member, Traits
from fanfold.work.options import function, instance, read_budget, stated
from fanfold.work.outcome import Receipt
from fanfold.work.raised import error_text
from fanfold.work.task import Budget

_encode = msgspec.json.Encoder().encode
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RESUMABLE = ("running", "paused", "aborted", "killed")


class Listed:
    """The members of a roster file, built when they are needed."""

    given: frozenset[str] = frozenset()

    def __init__(
        self, roster: Roster, folder: Path, *, allow_paid: bool = False, at_once: int | None = None
    ) -> None:
        self._roster, self._folder = roster, folder
        self.settings = roster.settings.said(allow_paid, at_once)
        self.traits: Mapping[str, Traits] = {id: e.traits for id, e in roster.entries.items()}

    def build(self, id: str) -> Member:
        self._roster.check_keys([id])
        return self._roster.build(id, folder=self._folder)


class Joined:
    """The members of a script: those of its roster, and those that it made itself, beside them."""

    def __init__(self, listed: Listed, *made: Company, settings: RosterSettings) -> None:
        self.settings = settings
        self._homes = {id: part for part in (listed, *made) for id in part.traits}
        self.traits: Mapping[str, Traits] = {id: one.traits[id] for id, one in self._homes.items()}
        self.given = frozenset(id for part in made for id in part.traits)

    def build(self, id: str) -> Member:
        return self._homes[id].build(id)


def new_id(now: float) -> str:
    """Sorts by time: ten letters of milliseconds, then chance."""
    number = (int(now * 1000) << 80) | secrets.randbits(80)
    return "".join(_ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))


class Launch(msgspec.Struct, frozen=True):
    """What a run is started with: its plan, the plan's folder, and in whose process it is."""

    plan: bytes = b""
    folder: str = ""
    parent: str | None = None


async def start(
    journal: Store, name: str, clock: Clock, budget: Budget, launch: Launch = Launch()
) -> RunRecord:
    """A new run, on record, with a session of this process."""
    await journal.recover(clock.now())
    now = clock.now()
    record = RunRecord(
        id=new_id(now), name=name, created=now, session=journal.sessions.enter(),
        plan=launch.plan, folder=launch.folder, parent=launch.parent, budget=_encode(budget),
    )  # fmt: skip
    no: int = await journal.write(AddRun(record))
    return msgspec.structs.replace(record, no=no)


class Again(msgspec.Struct, frozen=True):
    """How an earlier run goes on. `anew`: items whose outcomes are dropped, whatever they are;
    `keep`: all others stay, also those that would go on. `plan`: what it is changed to."""

    anew: tuple[str, ...] = ()
    keep: bool = False
    plan: bytes | None = None


async def reopen(
    journal: Store, record: RunRecord, clock: Clock, budget: Budget, how: Again = Again()
) -> RunRecord:
    """An earlier run goes on. Refused while another process carries it out."""
    _refuse_while_alive(journal, record)
    await journal.recover(clock.now())
    session = journal.sessions.enter()
    active = unbooked(journal, record)
    fact = ReopenRun(
        record.no, session, _encode(budget), record.session, active, how.anew, how.keep, how.plan
    )
    if not await journal.write(fact):
        journal.sessions.leave(session)
        raise _running(journal, record)
    return msgspec.structs.replace(
        record, status="running", session=session, budget=_encode(budget), resumed=True,
        active=record.active + active,
    )  # fmt: skip


def _running(journal: Store, record: RunRecord) -> AlreadyRunning:
    see = f"fanfold status {record.id}{store_words(journal.files)}"
    return AlreadyRunning(f"{record.name} ({record.id}) is already running; see: {see}")


def _refuse_while_alive(journal: Store, record: RunRecord) -> None:
    match journal.sessions.life(record.session) if record.session else "dead":
        case "alive":
            raise _running(journal, record)
        case "unknown":
            raise StoreError(
                f"{journal.files}: cannot tell whether another process still runs"
                f" {record.name} (no free file handle, or no permission); try again"
            )


def unbooked(journal: Store, record: RunRecord) -> float:
    """Active seconds of a process that died before it could book them, as far as is known: until
    it last began or ended a call. The time since then is nobody's."""
    return journal.read.unbooked_seconds(record.no) if record.status == "running" else 0.0


async def finish(journal: Store, run: Run) -> Receipt:
    """Close the books and let go of the session, whatever happens."""
    try:
        return await run.close()
    finally:
        journal.sessions.leave(run.record.session)


class Options(TypedDict, total=False):
    """How a run of a script is carried out; see `Settings`. The first three go before those of the
    roster."""

    max_concurrency: int
    max_wait: float
    allow_paid: bool
    fresh: bool
    keep_prompts: bool
    seed: int
    retry_in_doubt: Collection[str] | None
    govern: Govern
    approve: Approve
    serving: bool
    anew: Collection[str]
    only: bool
    clock: Clock


_OPTIONS: dict[str, Check] = {
    "name": text,
    "budget": read_budget,
    **SETTINGS,
    "fresh": flag,
    "keep_prompts": flag,
    "seed": whole(),
    "retry_in_doubt": many(text),
    "govern": instance(Govern, "Govern(…)"),
    "approve": function,
    "serving": flag,
    "anew": many(text),
    "only": flag,
}


@asynccontextmanager
async def open_quietly(
    name: str,
    *,
    roster: str | Path | Roster | None = None,
    members: Sequence[Member | ScriptedEntry] = (),
    budget: Budget | None = None,
    store: str | Path | None = None,
    **options: Unpack[Options],
) -> AsyncIterator[Run]:
    """What `open_run` of scripts does (`observe/script.py`), but for the line of progress."""
    clock = options.pop("clock", None) or RealClock()
    settings, said = _settings(name, budget, options)
    around = inherited()
    journal = open_store(around.store if store is None else store)
    for line in journal.warnings:
        warnings.warn(line, RuntimeWarning, stacklevel=3)
    try:
        company = _company(roster, _listed(members), said)
        record = await _record(journal, name, settings.budget, clock, around.parent)
        run = Run(journal, record, company, settings, clock)
        try:
            if record.resumed:
                await run.adopt()
            yield run
        except RunStopped:
            if run.stopping is None:
                raise
        except BaseException as error:
            run.kill(error_text(error))
            raise
        finally:
            await finish(journal, run)
        if run.stopping is not None:
            raise RunStopped(_how_to_go_on(run.stopping)) from None
    finally:
        journal.close()


def _how_to_go_on(stop: Stop) -> str:
    """One line: how the run ended, and what to do."""
    remedy = "run the script again to continue"
    if "budget of the month" in stop.reason:
        remedy = f"raise `budget_usd_month` of that member and {remedy}, or wait for the next month"
    elif stop.rest == "unfunded":
        remedy = f"raise `budget` and {remedy}; what is on record is not paid again"
    return f"{stop.status}: {stop.reason}; {remedy}"


def _settings(
    name: str, budget: Budget | None, options: Options
) -> tuple[Settings, dict[str, Any]]:
    """By the same checks as plans: the run's settings, and those that go before its roster's.
    `retry_in_doubt=None` is all of them."""
    told = stated({**options, "name": name, "budget": budget}, _OPTIONS, "open_run()")
    del told["name"]
    for ids in ("retry_in_doubt", "anew"):
        if ids in told:
            told[ids] = frozenset(told[ids])
    if "retry_in_doubt" in options:
        told.setdefault("retry_in_doubt", None)
    said = {name: told.pop(name) for name in SETTINGS if name in told}
    return Settings(**told), said


async def _record(
    journal: Store, name: str, budget: Budget, clock: Clock, parent: str | None
) -> RunRecord:
    earlier = journal.read.find(name)
    if earlier is not None and earlier.status in RESUMABLE:
        return await reopen(journal, earlier, clock, budget)
    return await start(journal, name, clock, budget, Launch(parent=parent))


def _company(
    roster: str | Path | Roster | None,
    members: tuple[Member | ScriptedEntry, ...],
    said: dict[str, Any],
) -> Company:
    """`said` goes before the roster's settings. Keys of one member are hidden from the commands and
    agents of all others, wherever they are stated."""
    if roster is None and not members:
        raise BadInput("a run needs members: give roster='roster.yaml' or members=[...]")
    made = [_checked(one) for one in members]
    found, folder = _roster(roster)
    _refuse_same_ids(found, made)
    own = Roster({one.traits.id: one.entry for one in made if isinstance(one, ScriptedEntry)})
    own, found = _hiding(own, found), _hiding(found, own)
    given = Given(*(one for one in made if not isinstance(one, ScriptedEntry)))
    settings = msgspec.structs.replace(found.settings, **said)
    return Joined(Listed(found, folder), Listed(own, Path.cwd()), given, settings=settings)


def _listed(members: Any) -> tuple[Any, ...]:
    if isinstance(members, str | Mapping) or not isinstance(members, Iterable):
        raise BadInput(f"`members` must be a list, not {described(members)}: members=[…]")
    return tuple(members)


def _checked(one: Any) -> Member | ScriptedEntry:
    if isinstance(one, ScriptedEntry):
        return one
    if not callable(getattr(one, "ask", None)) or not hasattr(one, "traits"):
        how = "wrap a function: ff.function(…)" if callable(one) else "such as ff.openai(…)"
        raise BadInput(f"`members` must be members, not {described(one)}; {how}")
    member: Member = one
    return member


def _roster(roster: str | Path | Roster | None) -> tuple[Roster, Path]:
    """The roster, and the folder that its programs run in."""
    if isinstance(roster, Roster):
        return roster, Path.cwd()
    if roster is None:
        return Roster(), Path.cwd()
    if not isinstance(roster, str | Path):
        raise BadInput(f"`roster` must be a file or a Roster, not {described(roster)}")
    return load_roster(roster), Path(roster).parent


def _refuse_same_ids(roster: Roster, made: Sequence[Member | ScriptedEntry]) -> None:
    seen: set[str] = set()
    for id in (one.traits.id for one in made):
        if id in roster.entries:
            raise BadInput(f"`members`: the roster has a member `{id}` too; give another `id`")
        if id in seen:
            raise BadInput(f"`members`: two are called `{id}`; give one another `id`")
        seen.add(id)


def _hiding(roster: Roster, other: Roster) -> Roster:
    return msgspec.structs.replace(roster, elsewhere=other.hidden)
