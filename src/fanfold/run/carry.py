"""Carry a task to its outcome, from wherever it stands."""

from __future__ import annotations

from collections.abc import Awaitable

from fanfold.errors import RunStopped, StoreError
from fanfold.run.obtain import obtain, obtain_free
from fanfold.run.pursuit import Group, NoReply, Pursuit, raised
from fanfold.work.outcome import Outcome, Verdict


async def carry(pursuit: Pursuit) -> Outcome:
    """It may have nothing yet, a recorded reply, or its part of a shard's reply."""
    while True:
        if pursuit.reply is None:
            try:
                if pursuit.circle.metered:
                    await obtain(pursuit.engine, Group((pursuit,), pursuit.ask))
                else:
                    await obtain_free(pursuit.engine, pursuit)
            except NoReply as gone:
                return pursuit.end_without(gone)
        if pursuit.judging is not None:
            pursuit.decide(await _judged(pursuit.judging))
            pursuit.judging = None
        if pursuit.final is not None:
            return pursuit.outcome()
        pursuit.kick_back()


async def carry_shard(group: Group) -> list[Outcome]:
    """Ask for all at once; then each goes its own way. Who was forgotten is asked again alone."""
    first = group.pursuits[0]
    try:
        await obtain(first.engine, group)
    except NoReply as gone:
        if gone.state != "failed":
            return [pursuit.end_without(gone) for pursuit in group.pursuits]
    return [await carry(pursuit) for pursuit in group.pursuits]


async def _judged(judging: Awaitable[Verdict]) -> Verdict:
    """A judge that cannot judge leaves the reply unjudged; a stopping run stops."""
    try:
        return await judging
    except (RunStopped, StoreError):
        raise
    except Exception as error:
        return raised(error)
