"""Get a reply for a group of tasks: try, try again, wait for another claimant, or give up."""

from __future__ import annotations

import asyncio
from fanfold.errors import MemberError, RunStopped, StoreError
from fanfold.journal.apply import Lose
from fanfold.journal.facts import Claim, Holder
from fanfold.run.attempt import attempt, is_lost
from fanfold.run.dispatch import Grant, NobodyLeft, Unfunded, Want
from fanfold.run.engine import Engine, Stop
from fanfold.run.pursuit import Group, NoReply
from fanfold.run.retry import PATIENCE, GiveUp, after
from fanfold.work.member import Traits

LONGEST_LOOK = 0.5  # seconds between looks at a claim that another process holds


async def obtain(engine: Engine, group: Group) -> None:
    """Replies land in the group's pursuits. Raises NoReply, or RunStopped when the run stops."""
    while True:
        if engine.journal.low_on_space:
            engine.halt(Stop("paused", "the disk is full; make room, then resume"))
        if group.circle.metered and await _wait_in_process(engine, group):
            return
        claim = await _try_until_landed(engine, group)
        if claim is None:
            return
        if claim.doubt and not claim.held:
            raise NoReply("an earlier attempt is in doubt; resume with --retry-in-doubt", "in_doubt")
        for holder in claim.held:
            await _wait_for(engine, holder)
        if _all_recorded(engine, group):
            return


async def _wait_in_process(engine: Engine, group: Group) -> bool:
    """Another task of this process asks the same content: its reply will serve us too."""
    for pursuit in group.pursuits:
        for takes in group.circle.takes:
            other = engine.under_way.get(pursuit.key(takes))
            if other is not None:
                await asyncio.wait((other,))
                return _all_recorded(engine, group)
    return False


def _all_recorded(engine: Engine, group: Group) -> bool:
    """Look again for replies that others may have brought meanwhile."""
    for pursuit in group.pursuits:
        known = engine.recorded(pursuit.ask_keys(), pursuit.circle)
        if known is not None:
            pursuit.recall(known)
    return all(pursuit.reply is not None for pursuit in group.pursuits)


async def _try_until_landed(engine: Engine, group: Group) -> Claim | None:
    circle = group.circle
    want = Want(group.ask, circle.candidates, circle.lane, group.step)
    keys = [p.key(t) for p in group.pursuits for t in circle.takes] if circle.metered else []
    mine = engine.mark_under_way(keys)
    tries = 0
    try:
        while True:
            grant = await _admit(engine, want)
            try:
                return await attempt(engine, group, grant)
            except (StoreError, RunStopped):
                raise
            except Exception as error:
                tries = await _again(engine, group, want, grant.member.traits, tries, error)
    finally:
        engine.unmark_under_way(keys, mine)


async def _admit(engine: Engine, want: Want) -> Grant:
    try:
        return await engine.dispatch.admit(want)
    except Unfunded as error:
        engine.halt(Stop("paused", str(error), "unfunded"))
        raise engine.stopped() from None
    except NobodyLeft as error:
        engine.halt(Stop("paused", str(error)))
        if want.avoid is None:  # never sent: it is not this task that failed
            raise engine.stopped() from None
        raise NoReply(str(error)) from None


async def _again(
    engine: Engine, group: Group, want: Want, traits: Traits, tries: int, error: Exception
) -> int:
    """Back off and let the loop try again, or give up by raising NoReply."""
    if isinstance(error, MemberError) and is_lost(error) and not engine.may_repeat(group.ids, group.terms, traits):
        raise NoReply(f"{error}; resume with --retry-in-doubt to repeat it", "in_doubt") from None
    decision = after(error, tries + 1, group.terms.attempts, engine.rng)
    if isinstance(decision, GiveUp):
        raise NoReply(decision.reason) from None
    pool = engine.limits.gauges[traits.id].pool
    refused_since = pool.first_refusal
    if refused_since is not None and engine.clock.monotonic() - refused_since > PATIENCE:
        raise NoReply(f"{error} (nothing else for {PATIENCE / 60:g} minutes)") from None
    want.avoid = traits.id
    engine.counts.retries += 1
    if decision.delay:
        await engine.rest(decision.delay)
    return tries + decision.counts


async def _wait_for(engine: Engine, holder: Holder) -> None:
    """Another process (or task) has claimed the key. Wait for its reply, or find that it died."""
    pause = 0.02
    while engine.journal.read.attempt_state(holder.attempt) == "started":
        if not engine.journal.store.alive(holder.session):
            await engine.journal.write(Lose((holder.attempt,), engine.clock.now()))
            return
        await engine.rest(pause)
        engine.raise_if_stopping()
        pause = min(pause * 1.5, LONGEST_LOOK)
