"""Carry a task to its outcome, from wherever it stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from fanfold.run.aside import APART, SetAside
from fanfold.run.engine import Engine
from fanfold.run.obtain import obtain, obtain_free
from fanfold.run.pursuit import Group, NoReply, Pursuit
from fanfold.work.task import Task

T = TypeVar("T")


async def carry(pursuit: Pursuit) -> None:
    """It may have nothing yet, a recorded reply, or its part of a shard's reply."""
    while True:
        if pursuit.damage:
            return pursuit.end_without(NoReply(pursuit.damage, "in_doubt"))
        if pursuit.reply is None:
            try:
                if pursuit.circle.metered:
                    await obtain(pursuit.engine, Group((pursuit,), pursuit.ask))
                else:
                    await obtain_free(pursuit.engine, pursuit)
            except NoReply as gone:
                return pursuit.end_without(gone)
        if pursuit.pending:
            await pursuit.judge()
        if pursuit.final is not None:
            return pursuit.conclude()
        pursuit.kick_back()


async def carry_or_set_aside(pursuit: Pursuit) -> None:
    """The same for one item among many: when it cannot be paid, the others go on without it."""
    try:
        await carry(pursuit)
    except SetAside as gone:
        pursuit.set_aside(gone)


async def carry_apart(engine: Engine, task: Task, way: Callable[[Task], Awaitable[T]]) -> T | None:
    """One planned item by a way of its own. None: something inside cannot be paid; its outcome is
    `unfunded`, and the others go on."""
    before = APART.set(True)
    try:
        return await way(task)
    except SetAside as gone:
        unpaid = Pursuit(engine, task, engine.circle(task.terms.who))
        unpaid.end_without(NoReply(str(gone), "unfunded"))
        return None
    finally:
        APART.reset(before)


async def carry_shard(group: Group) -> None:
    """Ask for all at once; then each goes its own way. Who was forgotten is asked again alone."""
    first = group.pursuits[0]
    try:
        await obtain(first.engine, group)
    except SetAside:
        pass  # one by one they may fit
    except NoReply as gone:
        if gone.state != "failed":
            for pursuit in group.pursuits:
                pursuit.end_without(gone)
            return
    for pursuit in group.pursuits:
        await carry_or_set_aside(pursuit)
