"""Real runs with scripted members on the virtual clock, for those who look at them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from fanfold.errors import RunStopped, TimedOut, Transient
from fanfold.gates.checks import require
from fanfold.journal import opening
from fanfold.journal.opening import open_store
from fanfold.journal.questions import ReportQuestions
from fanfold.observe.account import RunAccount, account
from fanfold.observe.status import RunSummary, summarize
from fanfold.patterns.fold import sort_by
from fanfold.patterns.map_reduce import map_reduce
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import finish
from fanfold.run.record import Launch, reopen, start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.testing.clock import EPOCH, VirtualClock, run_virtual
from fanfold.testing.member import Scripted, traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.outcome import PASS, Receipt, Verdict
from fanfold.work.task import Budget, Task
from tests.places import place

Meanwhile = Callable[[Run, VirtualClock], Any]
PLAN = b'{"a plan": true}'


def ran(
    store: Path,
    name: str,
    members: list[Scripted],
    items: Any,
    meanwhile: Meanwhile | None = None,
    **how: Any,
) -> Receipt:
    """A map over `items` to its end; `meanwhile(run, clock)` runs beside it and may be async."""
    budget, resume = how.pop("run_budget", Budget()), how.pop("resume", False)

    async def main(clock: VirtualClock) -> Receipt:
        journal = open_store(store, thread=False)
        try:
            record = await start(journal, name, clock, budget, Launch(PLAN)) if not resume else None
            if record is None:
                earlier = journal.read.find(name)
                assert earlier is not None
                record = await reopen(journal, earlier, clock, budget)
            run = Run(journal, record, GivenMembers(*members), Settings(budget=budget), clock)
            beside = None if meanwhile is None else asyncio.ensure_future(meanwhile(run, clock))
            how.setdefault("prompt", "Review {{ item.text }}")
            with suppress(RunStopped):
                await map_reduce(run, items, **how)
            if beside is not None:
                await beside
            return await finish(journal, run)
        finally:
            journal.close()

    return run_virtual(main)


def contracts(n: int) -> list[dict[str, Any]]:
    return [{"id": f"contract-{i:03}", "text": f"contract {i}"} for i in range(n)]


def number(ask: Ask) -> int:
    """The number of the contract that is asked about."""
    return int(ask.messages[0].content.rsplit(" ", 1)[1])


def reviewer() -> Callable[[Ask, int], Reply | Exception]:
    """Of each ten contracts: 1 lacks its evidence at first, 2 always, 3 is refused with an error,
    4 is lost once, the gate stumbles over 5; the rest is fine."""
    lost: set[int] = set()

    def script(ask: Ask, n: int) -> Reply | Exception:
        contract = number(ask)
        kind = contract % 10
        if kind == 3:
            return Transient("503: overloaded | try\nagain `later`")
        if kind == 4 and contract not in lost:
            lost.add(contract)
            return TimedOut("haiku: no answer within 60 s")
        found = {"severity": ["low", "high", "medium"][contract % 3], "clause": "a | b"}
        if kind != 2 and (kind != 1 or ask.turns):
            found["evidence"] = f"sentence {contract}"
        return Reply(data=found, usage=Usage(300, 40))

    return script


def stumbling(task: Task, reply: Reply, ask: Any) -> Verdict:
    """Demands evidence, and cannot judge contract 5 of each ten."""
    if task.id.endswith("5"):
        raise KeyError("page")
    verdict = require("evidence")(task, reply, ask)
    assert isinstance(verdict, Verdict)
    return PASS if verdict.passed else verdict


STUMBLED = f"the gate raised KeyError: 'page'{place(stumbling, 3)}"


def reviewed(store: Path, n: int = 10, name: str = "contract-review", **how: Any) -> Receipt:
    """The run of the examples: all kinds of outcomes, sorted findings."""
    member = Scripted(reviewer(), traits("haiku"), latency=1.0)
    how.setdefault("run_budget", Budget(usd=5))
    how.setdefault("reduce", sort_by("severity", descending=True))
    return ran(store, name, [member], contracts(n), gate=stumbling, **how)


def answering(text: str = "fine", latency: float = 1.0, **changes: Any) -> Scripted:
    """A member that always gives the same good answer."""
    like = traits("haiku", **changes)
    return Scripted(lambda ask, n: Reply(text, usage=Usage(300, 40)), like, latency)


def out_of_money(store: Path, name: str = "too-dear") -> Receipt:
    """A run that pauses: 40 contracts on a budget for fewer."""
    return ran(store, name, [answering()], contracts(40), prompt="Rate {{ item.text }}",
               run_budget=Budget(usd=0.015))  # fmt: skip


def crashed(store: Path, after: float = 2.5, **how: Any) -> None:
    """The store as it was when a run's process died, some seconds after it began."""
    living = store.with_name(store.name + "-living")

    async def copy(run: Run, clock: VirtualClock) -> None:
        await clock.sleep(after)
        shutil.copytree(living, store)

    members = how.pop("members", None) or [answering()]
    ran(living, "nightly", members, contracts(40), copy, concurrency=4,
        run_budget=Budget(usd=1), **how)  # fmt: skip


@contextmanager
def looked_at(
    store: Path, *, alive: bool = False, after: float = 60.0
) -> Iterator[tuple[ReportQuestions, Any]]:
    """A reader of the store, and `of(name)`, where a run of that name stands `after` the epoch."""
    archive = opening.look(store)
    try:

        def of(name: str) -> RunSummary:
            run = archive.read.find(name)
            assert run is not None
            return summarize(archive.read, run, lambda session: alive, EPOCH + after, archive.sent)

        yield archive.read, of
    finally:
        archive.close()


def with_id(summary: RunSummary, id: str) -> RunSummary:
    """The same with an id that is known beforehand."""
    return msgspec.structs.replace(
        summary,
        run=msgspec.structs.replace(summary.run, id=id),
        receipt=msgspec.structs.replace(summary.receipt, run=id),
    )


def accounted(store: Path, name: str, *, alive: bool = False, id: str = "01J") -> RunAccount:
    """All that a report of a run says, with an id that is known beforehand."""
    archive = opening.look(store)
    try:
        run = archive.read.find(name)
        assert run is not None
        summary = summarize(archive.read, run, lambda session: alive, EPOCH + 60.0, archive.sent)
        found = account(archive, summary, replies=True)
    finally:
        archive.close()
    branch = msgspec.structs.replace(found.tree, run=msgspec.structs.replace(found.tree.run, id=id))
    return msgspec.structs.replace(found, summary=with_id(found.summary, id), tree=branch)
