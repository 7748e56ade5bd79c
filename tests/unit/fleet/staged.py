"""A fleet on the stage: a store with its facts, and the folders of its workers, made by hand."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec

from fanfold.fleet.job import prepare_fleet
from fanfold.journal import opening
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import (
    AdoptAttempts,
    CloseRun,
    EndAttempt,
    EndItems,
    ItemEnding,
    LoseAttempts,
    NameStep,
    PlanBatch,
    PlanItems,
    RunRecord,
    StartAttempt,
)
from fanfold.journal.opening import open_store
from fanfold.members.agents.processes import identify
from fanfold.members.agents.worker import (
    EXIT,
    HOST,
    KILL,
    LOG,
    SPEC,
    TIMES,
    Exit,
    HostRecord,
    KillOrder,
    Process,
    Spec,
    Why,
)
from fanfold.plans.prepare import Options
from fanfold.price import Price, nanos
from fanfold.run.record import Launch, start
from fanfold.testing.clock import EPOCH, VirtualClock
from fanfold.work.ask import Usage
from fanfold.work.outcome import State
from tests.unit.fleet.fleets import worker, write_fleet

LOGS = Path(__file__).parents[2] / "data" / "agent_clis"
GONE = Process(1, 1, "another boot")
encode = msgspec.json.encode


class Stage:
    """One run of a fleet. Times are seconds after `epoch`; the run's process is this one, until it
    `crashes` or ends. `script`: the run of a script instead, whose agents left their files in the
    store."""

    def __init__(
        self,
        root: Path,
        workers: list[dict[str, Any]],
        *,
        name: str = "demo",
        epoch: float = EPOCH,
        script: bool = False,
        **config: Any,
    ) -> None:
        self.epoch, self._script = epoch, script
        self.root = write_fleet(root, workers, fleet_name=name, config=config)
        programs = {"PATH": str(root)}
        for program in ("claude", "codex"):
            (root / program).write_text("#!/bin/sh\n")
            (root / program).chmod(0o755)
        self.job = prepare_fleet(self.root, Options(), programs)
        self.store = root / ".fanfold"
        self.journal = open_store(self.store, thread=False)
        self._runner = asyncio.Runner()
        self.record: RunRecord = self._runner.run(self._start())
        self._places: dict[str, Path] = {}
        self._ids = [one["id"] for one in workers]
        self._plan()

    async def _start(self) -> RunRecord:
        launch = Launch(b"" if self._script else encode(self.job.stored), str(self.root))
        return await start(self.journal, self.job.name, VirtualClock(), self.job.budget, launch)

    def write(self, fact: Any) -> Any:
        async def written() -> Any:
            return await self.journal.write(fact)

        return self._runner.run(written())

    def _plan(self) -> None:
        run = self.record.no
        self.write(NameStep(run, 0, "fleet"))
        self.write(PlanItems([(run, 0, n, id, b"") for n, id in enumerate(self._ids)]))
        self.write(PlanBatch(run, 0, "fleet", "", len(self._ids), 0))

    # ── what happens in the journal ──

    def starts(self, id: str, at: float, reserved: float = 0.5) -> int:
        fact = StartAttempt(
            run=self.record.no, step=0, session=self.record.session, member=id, answerer=id,
            keys=(f"{id} {at}".encode(),), ids=(id,), accept=(), reserved=nanos(reserved),
            reserved_tokens=0, at=self.epoch + at,
        )  # fmt: skip
        attempt: int = self.write(fact).attempt
        self.journal.sent.mark(attempt)
        return attempt

    def ends(self, id: str, attempt: int, at: float, usd: float, error: str | None = None) -> None:
        """With its outcome: passed, or failed for that reason."""
        state: State = "failed" if error else "passed"
        self.write(
            EndAttempt(
                run=self.record.no, attempt=attempt, state="error" if error else "ok",
                usage=Usage(1000, 100), cost=nanos(usd), error=error, at=self.epoch + at,
                endings=(self._ending(id, state, error),),
            )
        )  # fmt: skip

    def fails(self, attempt: int, at: float, error: str) -> None:
        """An attempt, but not its task: it is tried again."""
        self.write(
            EndAttempt(run=self.record.no, attempt=attempt, state="error", usage=Usage(), cost=0,
                error=error, at=self.epoch + at, endings=())
        )  # fmt: skip

    def settles(self, id: str, state: State, reason: str, by_parent: bool = False) -> None:
        """An outcome without an attempt."""
        ending = msgspec.structs.replace(self._ending(id, state, reason), by_parent=by_parent)
        self.write(EndItems(self.record.no, (ending,)))

    def _ending(self, id: str, state: State, reason: str | None) -> ItemEnding:
        reasons = (reason,) if reason else ()
        return ItemEnding(0, self._ids.index(id), 0, state, reasons, id)

    def crashes(self) -> None:
        """The supervisor is gone: its lock with it, and the attempts of its session are in doubt."""
        self.journal.sessions.leave(self.record.session)
        numbers = [no for no, _ in self.journal.read.open_attempts()]
        self.write(LoseAttempts(tuple(numbers), self.epoch + 60))

    def adopted(self, *attempts: int) -> None:
        self.write(AdoptAttempts(self.record.no, self.record.session, attempts))

    def closes(self, status: str, at: float, reason: str | None = None) -> None:
        self.write(
            CloseRun(run=self.record.no, status=status, reason=reason, at=self.epoch + at, active=at,
                     result=None, rest="cancelled" if status == "killed" else None)
        )  # fmt: skip
        self.journal.sessions.leave(self.record.session)

    def close(self) -> None:
        self.journal.sessions.leave(self.record.session)
        self.journal.close()
        self._runner.close()

    def look(self) -> tuple[StoreView, RunRecord]:
        archive = opening.look(self.store)
        record = archive.read.find(self.record.id)
        assert record is not None
        return archive, record

    # ── what workers leave in their folders ──

    def place(self, id: str) -> Path:
        return self._places.get(id, self.root / "workers" / id)

    def works(
        self, id: str, attempt: int, log: str | bytes, *, dialect: str = "claude", at: float = 0.0,
        seconds: float = 1.0, model: str | None = None, price: Price | None = None,
    ) -> Path:  # fmt: skip
        """Its folder: a spec, and the log, whose lines came `seconds` apart."""
        place = self.place(id)
        if self._script:
            place = self._places[id] = self.store / "agents" / self.record.id / str(attempt)
        place.mkdir(parents=True, exist_ok=True)
        spec = Spec(
            span=f"{self.record.id}:{attempt}", id=id, dialect=dialect, words=(dialect,),
            folder=str(self.root), model=model, price=price, begun=self.epoch + at,
            session=f"session-of-{id}",
        )  # fmt: skip
        (place / SPEC).write_bytes(encode(spec))
        lines = sample(log) if isinstance(log, str) else log
        write_log(place, lines, self.epoch + at, seconds)
        return place

    def hosted(self, id: str, *, alive: bool) -> None:
        here = identify(os.getpid())
        assert here is not None
        host = here if alive else GONE
        record = HostRecord(host=host, program=host, at=self.epoch)
        (self.place(id) / HOST).write_bytes(encode(record))

    def lives(self, id: str) -> None:
        """Started again: what it left when it ended before is gone."""
        (self.place(id) / EXIT).unlink()
        self.hosted(id, alive=True)

    def exits(self, id: str, code: int, at: float, why: Why = "", said: str = "") -> None:
        self.hosted(id, alive=False)
        exit = Exit(code=code, at=self.epoch + at, why=why, said=said)
        (self.place(id) / EXIT).write_bytes(encode(exit))

    def ordered(self, id: str, at: float) -> None:
        order = KillOrder("killed", "killed by the operator", self.epoch + at)
        (self.place(id) / KILL).write_bytes(encode(order))

    def writes(self, id: str, name: str, text: str) -> None:
        file = self.place(id) / "output" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def sample(name: str) -> bytes:
    """The log of a real program, from the samples."""
    return (LOGS / f"{name}.jsonl").read_bytes()


def write_log(place: Path, lines: bytes, began: float, seconds: float) -> None:
    """The log, and when each of its lines came."""
    (place / LOG).write_bytes(lines)
    offset, times = 0, []
    for n, line in enumerate(lines.splitlines(keepends=True), 1):
        offset += len(line)
        times.append(f"{offset} {began + n * seconds:.3f}\n")
    (place / TIMES).write_text("".join(times))
    last = began + len(times) * seconds
    os.utime(place / LOG, (last, last))


def small_fleet(root: Path, **config: Any) -> Stage:
    """A diamond of both programs, and one beside it: a done, b failed, c running, d waits, e done
    by codex; looked at ten minutes after it began."""
    stage = Stage(
        root,
        [
            worker("a", model="haiku"), worker("b", "a", model="sonnet"),
            worker("c", "a", model="sonnet"), worker("d", "b", "c"),
            worker("e-by-codex", provider="codex", model="gpt-5.5", reasoning_effort="high"),
        ],
        **{"max_budget_fleet": 5.0, **config},
    )  # fmt: skip
    a = stage.starts("a", 0)
    stage.works("a", a, "c01_trivial", at=0)
    stage.writes("a", "finding.md", "five\n")
    stage.exits("a", 0, 5)
    stage.ends("a", a, 5, 0.006975)
    e = stage.starts("e-by-codex", 1)
    stage.works(
        "e-by-codex", e, "x01_trivial", dialect="codex", at=1, price=Price(1.25, 10.0, 0.125)
    )
    stage.exits("e-by-codex", 0, 9)
    stage.ends("e-by-codex", e, 9, 0.0019)
    b = stage.starts("b", 6)
    stage.works("b", b, "c10_budget", at=6)
    stage.exits("b", 1, 20)
    stage.ends("b", b, 20, 0.63, "b: stopped at its budget of $0.5")
    c = stage.starts("c", 7, 1.2)
    stage.works("c", c, b"".join(sample("c04_default_perm").splitlines(keepends=True)[:-1]), at=7)
    stage.hosted("c", alive=True)
    stage.settles("d", "failed", "parent: b failed", by_parent=True)
    return stage
