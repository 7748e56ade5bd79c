"""One worker as it is shown: the record, and how its fields follow from attempt, files and log."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import msgspec

from fanfold.fleet.logs import Follower, last_stamp
from fanfold.fleet.run_plan import Lane, PlannedMember
from fanfold.journal.answers import AttemptRecord
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.members.agents.dialect import WorkerReading
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.hosting import Host
from fanfold.members.agents.processes import living
from fanfold.members.agents.worker import (
    LOG,
    TIMES,
    Exit,
    Spec,
    read_exit,
    read_host,
    read_order,
    read_spec,
)
from fanfold.work.ask import Usage
from fanfold.work.outcome import State

SILENT = 90.0
"""Seconds without output after which a worker that runs is shown as `stuck?`."""
GLYPHS = {"tool": "🔧 ", "done": "✓ ", "failed": "✗ ", "retry": "↻ "}

WorkerState = Literal[
    "PENDING", "RUNNING", "DONE", "FAILED", "KILLED", "IN DOUBT", "UNFUNDED", "SKIPPED"
]
ENDED: tuple[WorkerState, ...] = ("DONE", "FAILED", "KILLED", "SKIPPED")
BAD: tuple[WorkerState, ...] = ("FAILED", "KILLED", "IN DOUBT", "UNFUNDED")
_SETTLED: dict[State, WorkerState] = {
    "passed": "DONE", "kicked": "FAILED", "failed": "FAILED", "skipped": "SKIPPED",
    "unjudged": "FAILED", "unfunded": "UNFUNDED", "in_doubt": "IN DOUBT",
}  # fmt: skip


class Cost(msgspec.Struct, frozen=True):
    """What a worker cost, in nano-dollars, over all its attempts. `usd` None: not known.

    `estimated`: by the list price of the tokens seen so far, or for an account that is not billed by
    the dollar. `at_most`: some of it is an upper bound, since what its last call cost is not known.
    `over`: how much of it exceeds what was reserved.
    """

    usd: int | None = None
    estimated: bool = False
    at_most: bool = False
    over: int = 0


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    """One worker. `silent`: seconds without output, while it runs. `attempt` is its newest, 0 before
    the first, and `tries` how many there were. `place` is None when it left no files.

    `said`: the last message of the agent itself; `last`: that, else what is shown instead. `waits`: why
    it has not started, and `waits_for_budget`: that it is for lack of budget. `failed_parent`: it failed
    only because a parent did. `cap`: nano-dollars that it may spend. `folder` is where it works, and
    `continuing` is the command by which a person continues its session there.
    """

    id: str
    state: WorkerState = "PENDING"
    silent: float = 0.0
    member: str = ""
    model: str = ""
    lane: Lane | None = None
    began: float | None = None
    ended: float | None = None
    heard: float | None = None
    cost: Cost = Cost()
    retries: int = 0
    cap: int | None = None
    said: str = ""
    last: str = ""
    waits: str = ""
    waits_for_budget: bool = False
    error: str = ""
    failed_parent: bool = False
    lines: int = 0
    tail: str = ""
    outputs: tuple[str, ...] = ()
    session: str = ""
    folder: str = ""
    continuing: tuple[str, ...] = ()
    turns: int = 0
    usage: Usage = Usage()
    denied: tuple[str, ...] = ()
    subtype: str = ""
    code: int | None = None
    attempt: int = 0
    tries: int = 0
    depends_on: tuple[str, ...] = ()
    isolated: bool = False
    place: Path | None = None
    span: str = ""

    @property
    def stuck(self) -> bool:
        return self.state == "RUNNING" and self.silent > SILENT

    @property
    def over(self) -> bool:
        """It cost more than was reserved for it, or, in its only attempt, than it may spend."""
        passed = self.tries < 2 and self.cap is not None and (self.cost.usd or 0) > self.cap
        return bool(self.cost.over) or passed

    @property
    def command(self) -> str:
        """The shell command that continues its session; "" while it works, and where there is none."""
        if self.state == "RUNNING" or not (self.continuing and self.folder and self.lines):
            return ""
        return f"cd {shlex.quote(self.folder)} && {shlex.join(self.continuing)}"


class WorkerFiles(msgspec.Struct, frozen=True):
    """What a worker left in its folder. `lives`: it may still write. `hosted`: it has started; before
    that there is nothing but its record."""

    place: Path
    spec: Spec
    lives: bool
    exit: Exit | None
    hosted: bool = True

    @property
    def over(self) -> bool:
        """It writes no more."""
        return not self.lives and (self.hosted or self.exit is not None)

    @property
    def killed(self) -> bool:
        """By the operator, or with the whole run."""
        if self.lives:
            return False
        ended = read_order(self.place) if self.exit is None else self.exit
        return ended is not None and ended.why in ("killed", "cancelled")


# ── what state it is in ──────────────────────────────────────────────────────────────────────


def settled(
    outcome: State, files: WorkerFiles | None, reading: WorkerReading | None, run_over: bool
) -> WorkerState:
    """By the outcome on record. `run_over`: the run was killed or aborted, so what was not reached
    will not be; otherwise it is still to come."""
    killed = files is not None and files.killed
    if outcome == "cancelled":
        return "KILLED" if run_over or killed else "PENDING"
    if outcome == "in_doubt":
        return _at_work(files, reading, run_alive=False)
    return "KILLED" if outcome == "failed" and killed else _SETTLED[outcome]


def under_way(
    newest: AttemptRecord | None,
    files: WorkerFiles | None,
    reading: WorkerReading | None,
    run_alive: bool,
) -> WorkerState:
    """By the newest attempt and its worker, where no outcome is on record."""
    if newest is None:
        return "PENDING"
    match newest.state:
        case "in_doubt":
            return _at_work(files, reading, run_alive=False)
        case "error":
            return "KILLED" if files is not None and files.killed else "FAILED"
        case "ok" | "late":
            return "DONE"
        case "started":
            return _at_work(files, reading, run_alive)


def _at_work(
    files: WorkerFiles | None, reading: WorkerReading | None, run_alive: bool
) -> WorkerState:
    """Its end may not be settled yet, or not until the run is resumed: what is in
    doubt by the journal may live on, or have ended well."""
    if files is None or (files.exit is None and not files.hosted):
        return "RUNNING" if run_alive else "IN DOUBT"
    if files.lives:
        return "RUNNING"
    if files.killed:
        return "KILLED"
    if files.exit is None:
        ended = reading is not None and reading.ended
        return "IN DOUBT" if not ended else "FAILED" if reading and reading.error else "DONE"
    if files.exit.why:
        return "FAILED"
    if reading is None or not reading.ended:  # no result: one that never began, or an end in doubt
        began = reading is not None and reading.lines > 0
        return "IN DOUBT" if began or files.exit.code <= 0 else "FAILED"
    return "FAILED" if reading.error or files.exit.code else "DONE"


# ── what it cost, what it said, what it left ─────────────────────────────────────────────────


def cost_of(tries: list[AttemptRecord], reading: WorkerReading | None, state: WorkerState) -> Cost:
    """What was settled, and what the newest has cost so far by its own log. A bound stays one, also when the
    worker was launched again since; what is in doubt counts as in the receipt."""
    if not tries:
        return Cost()
    *earlier, newest = tries
    before, bound = sum(one.cost for one in earlier), any(one.bound for one in earlier)
    rough, over = reading is not None and not reading.exact, sum(map(_over, tries))
    if state == "IN DOUBT" or (state == "KILLED" and newest.state == "in_doubt"):
        return Cost(before + newest.cost, at_most=True, over=over)
    if newest.state not in ("started", "in_doubt"):
        bound = bound or newest.bound
        return Cost(before + newest.cost, rough and not bound, bound, over)
    if reading is None or reading.cost is None:
        return Cost(before or None, True, bound, over)
    return Cost(before + reading.cost, rough, bound, over)


def with_below(own: Cost, below: list[tuple[int, int]]) -> Cost:
    """With what the runs cost that it started itself."""
    if not below:
        return own
    more, bounds = sum(cost for cost, _ in below), sum(bounds for _, bounds in below)
    at_most = own.at_most or bounds > 0
    return Cost((own.usd or 0) + more, own.estimated, at_most, own.over)


def _over(one: AttemptRecord) -> int:
    """What it cost beyond its reservation; one that reserved nothing had no limit."""
    settled = one.reserved and one.state != "started"
    return max(0, one.cost - one.reserved) if settled else 0


def last_output(files: WorkerFiles) -> float | None:
    """When its log last grew. The host notes it; the time of the file counts too, should the host have died.
    Before its first output, when it was started."""
    noted = last_stamp(files.place / TIMES)
    try:
        status = (files.place / LOG).stat()
    except OSError:
        return noted or files.spec.begun or None
    if not status.st_size:
        return noted or files.spec.begun or status.st_mtime
    return status.st_mtime if noted is None else max(noted, status.st_mtime)


def with_reading(view: WorkerView, reading: WorkerReading) -> WorkerView:
    """With what its log says. What was settled takes precedence over what was read."""
    last = reading.last
    done = GLYPHS.get(last.kind, "") + last.text if last else ""
    return msgspec.structs.replace(
        view, model=view.model or reading.model or "", retries=reading.retries,
        lines=reading.lines, session=reading.session or view.session, turns=reading.turns,
        usage=view.usage if view.usage.total else reading.usage, denied=reading.denied,
        subtype=reading.subtype, error=reading.error, said=reading.said,
        last=reading.said or done, tail=last.name if last else "",
    )  # fmt: skip


def with_member(view: WorkerView, known: PlannedMember) -> WorkerView:
    """With what the roster says. On a subscription no dollar is billed: all cost is an estimate."""
    cost = view.cost
    if known.lane == "subscription" and cost.usd and not cost.at_most:
        cost = msgspec.structs.replace(cost, estimated=True)
    return msgspec.structs.replace(
        view, model=known.model or view.model, lane=known.lane, cost=cost,
        isolated=known.isolated, cap=known.cap,
    )  # fmt: skip


def with_reasons(view: WorkerView, reasons: str, exit: Exit | None) -> WorkerView:
    """Why it did not end well, or has to be tried again; shown where there is no last message. Nothing for
    all others."""
    if view.state not in (*BAD, "PENDING"):
        return msgspec.structs.replace(view, error="")
    found = (
        reasons if view.state == "PENDING" else reasons or view.error or _last_resort(view, exit)
    )
    error = found.removeprefix(f"{view.member}: ")
    last = f"✗ {error}" if error and not view.said else view.last
    return msgspec.structs.replace(view, error=error, last=last)


def _last_resort(view: WorkerView, exit: Exit | None) -> str:
    if exit is None:
        return "exited without reporting a result" if view.state == "IN DOUBT" else ""
    return exit.said or (f"exit code {exit.code}" if exit.code else "")


# ── workers, found by the files they left ────────────────────────────────────────────────────

MOST = 100_000


class FleetWorker(msgspec.Struct, frozen=True):
    """A worker that was started for an attempt; its files are in `host.place`."""

    id: str
    attempt: AttemptRecord
    host: Host


class WorkerCost(msgspec.Struct, frozen=True):
    """By the files of a worker: `cost` in nano-dollars, with the most that a call under way at its end
    can have cost; None where no price is known."""

    cost: int | None
    usage: Usage


def place_of(store: Path, record: RunRecord, attempt: AttemptRecord) -> tuple[Path, Spec] | None:
    """The folder of an attempt's worker. None: its member is not an agent, or the folder is
    that of a later attempt.

    A worker of a fleet has a folder of its own, all others one in the store. The span in it says
    whose it is, so `a` is never taken for `ab`, nor an attempt for the next.
    """
    places = [store / "agents" / record.id / str(attempt.no)]
    if record.folder and len(attempt.ids) == 1:
        places.append(Path(record.folder, "workers", attempt.ids[0]))
    for place in places:
        spec = read_spec(place)
        if spec is not None and spec.span == f"{record.id}:{attempt.no}":
            return place, spec
    return None


def worker_of(store: Path, record: RunRecord, attempt: AttemptRecord) -> FleetWorker | None:
    found = place_of(store, record, attempt)
    if found is None or found[1].where:  # elsewhere: only its run can end it
        return None
    place, spec = found
    return FleetWorker(attempt.ids[0] if attempt.ids else "", attempt, Host(place.absolute(), spec))


def files_in(place: Path, spec: Spec) -> WorkerFiles:
    """A host writes its record first and its exit last; read in the same order. One on another machine
    lives as long as nothing else is heard of it."""
    host = read_host(place)
    lives = host is not None and (bool(spec.where) or living(host.host) or living(host.program))
    exit = read_exit(place)
    return WorkerFiles(place, spec, lives and exit is None, exit, hosted=host is not None)


def cost_at_most(worker: FleetWorker) -> WorkerCost | None:
    """None: its log cannot be read here, or it may still be at work."""
    host = worker.host
    exit, dialect = host.exit(), DIALECTS.get(host.spec.dialect)
    if exit is None or dialect is None:
        return None
    reading = Follower(host.place, host.spec, dialect).catch_up(over=True)
    more = reading.unknown(exit.at)
    known = reading.cost is not None or more
    return WorkerCost((reading.cost or 0) + more if known else None, reading.usage)


def workers_of(archive: StoreView, record: RunRecord) -> list[FleetWorker]:
    """All of the run whose files are still there, oldest first."""
    attempts = archive.read.attempts(record.no, MOST)
    found = (worker_of(archive.files, record, attempt) for attempt in attempts)
    return [worker for worker in found if worker is not None]


def living_workers(archive: StoreView, record: RunRecord) -> list[FleetWorker]:
    return [worker for worker in workers_of(archive, record) if worker.host.alive()]
