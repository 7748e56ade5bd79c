"""Get a reply for a group of tasks: try, try again, wait for another claimant, or give up."""

from __future__ import annotations

import asyncio

from fanfold.errors import (
    MemberError,
    RateLimited,
    RunStopped,
    StoreError,
    TimedOut,
    Transient,
)
from fanfold.journal.answers import Claim, ClaimHolder
from fanfold.run.aside import MANY, least
from fanfold.run.attempt import attempt, attempt_free
from fanfold.run.dispatch import Grant, NobodyLeft, Unfunded
from fanfold.run.engine import Engine, Mark, Stop
from fanfold.run.limits import PATIENCE
from fanfold.run.pursuit import Group, NoReply, Pursuit
from fanfold.run.race import attempt_hedged
from fanfold.run.retry import Again, GiveUp, after
from fanfold.run.taken import is_lost
from fanfold.run.want import Want
from fanfold.work.member import Traits
from fanfold.work.raised import error_text

LONGEST_UNKNOWN = 60.0  # seconds until a holder that cannot be looked at stops the run
UNKNOWN = (
    "another process has asked the same, and whether it still runs cannot be told (no free file"
    " handle, or no permission); resume when it can"
)
LONGEST_LOOK = 0.5  # seconds between looks at a claim that another process holds


async def obtain(engine: Engine, group: Group) -> None:
    """Replies land in the group's pursuits. Raises NoReply, or RunStopped when the run stops."""
    if group.circle.metered:
        await _obtain_once(engine, group)
    else:
        await _try_until_landed(engine, group)


async def _obtain_once(engine: Engine, group: Group) -> None:
    """What costs is asked once, whoever else wants the same: others' replies are waited for.

    A shard of which others have a part is not asked: its rest goes on one by one.
    """
    alone = len(group.pursuits) == 1
    while True:
        claim = None
        if not await _wait_in_process(engine, group):
            marks = _marks(group)
            for mark in marks:
                if mark in engine.gone:
                    raise NoReply(engine.gone.pop(mark))
            mine = engine.mark_under_way(marks)
            try:
                claim = await _try_until_landed(engine, group)
            finally:
                engine.unmark_under_way(marks, mine)
            if claim is None:
                return
            await _hear(engine, claim)
        if _all_recorded(engine, group) or not alone:
            return


async def _hear(engine: Engine, claim: Claim) -> None:
    """Somebody has the key: wait for them. An attempt in doubt that may not be repeated ends it."""
    if claim.doubt and not claim.held:
        raise NoReply("an earlier attempt is in doubt; resume with --retry-in-doubt", "in_doubt")
    for holder in claim.held:
        await _wait_for(engine, holder)


async def _wait_in_process(engine: Engine, group: Group) -> bool:
    """Another task of this process asks the same content: its reply may serve us too."""
    waited = False
    for mark in _marks(group):
        other = engine.under_way.get(mark)
        if other is not None:
            await asyncio.wait((other,))
            waited = True
    return waited


def _marks(group: Group) -> tuple[Mark, ...]:
    """The same content asked of others, whose replies do not serve here, is not the same."""
    return tuple([(key, who) for key in group.all_keys() for who in group.circle.accept])


def _all_recorded(engine: Engine, group: Group) -> bool:
    """Look again for replies that others may have brought meanwhile."""
    for pursuit in group.pursuits:
        if pursuit.reply is not None:
            continue
        known = engine.recorded(pursuit.ask_keys(), pursuit.circle)
        if known is not None:
            pursuit.recall(known)
        if pursuit.damage:
            raise NoReply(pursuit.damage, "in_doubt")
    return all(pursuit.reply is not None for pursuit in group.pursuits)


async def _try_until_landed(engine: Engine, group: Group) -> Claim | None:
    want = Want(group.ask, group.circle.candidates, group.circle.lane, group.step)
    hedge = group.terms.hedge if group.tell is None else None  # one stream of deltas, not two
    tries = 0
    while True:
        grant = await admitted(engine, want, group.terms.needed)
        try:
            if hedge is None:
                claim = await attempt(engine, group, grant)
            else:
                claim = await attempt_hedged(engine, group, grant, hedge)
            if claim is None or not claim.broke:
                return claim
        except (StoreError, RunStopped):
            raise
        except Exception as error:
            tries = await again(engine, group, want, grant.traits, tries, error)


async def obtain_free(engine: Engine, pursuit: Pursuit) -> None:
    """The short way for a call that costs nothing: no claim, no doubt, one fact when it is over."""
    circle = pursuit.circle
    want = Want(pursuit.ask, circle.candidates, circle.lane, pursuit.step)
    tries = 0
    while True:
        grant = await admitted(engine, want, pursuit.task.terms.needed)
        try:
            return await attempt_free(engine, pursuit, grant)
        except (StoreError, RunStopped):
            raise
        except Exception as error:
            group = Group((pursuit,), pursuit.ask)
            tries = await again(engine, group, want, grant.traits, tries, error)


async def admitted(engine: Engine, want: Want, needed: bool = True) -> Grant:
    """Leave to go, as soon as there is leave. Nobody left, or no money for any ask: the run pauses.
    No money for this one: SetAside.

    Unless the reply is not `needed`, or the run serves: then only this task goes without."""
    try:
        grant = engine.dispatch.admit_now(want) or await engine.dispatch.admit(want)
        engine.counts.retries += want.avoid is not None
        engine.aside.row = 0
        return grant
    except Unfunded as error:
        if engine.serving:
            raise NoReply(str(error), "unfunded") from None
        if error.short is not None:
            error.short.last = engine.aside.row >= MANY or not _another_may_fit(engine, want)
            raise error.short from None
        engine.halt(Stop("paused", str(error), "unfunded"))
        raise engine.stopped() from None
    except NobodyLeft as error:
        if not needed:
            raise NoReply(str(error), "cancelled") from None
        if engine.serving:
            raise NoReply(str(error)) from None
        engine.halt(Stop("paused", str(error)))
        if not want.sent:  # it is not this task that failed
            raise engine.stopped() from None
        raise NoReply(str(error)) from None
    except (RunStopped, StoreError):
        raise
    except Exception as error:  # a member that cannot make a request of this ask
        raise NoReply(error_text(error)) from None


def _another_may_fit(engine: Engine, want: Want) -> bool:
    """A shorter ask of the same kind could be paid."""
    chain = want.step.chain
    return any(engine.ledger.fit(chain, least(want, one))[0] != "never" for one in want.candidates)


async def again(
    engine: Engine, group: Group, want: Want, traits: Traits, tries: int, error: Exception
) -> int:
    """Back off and let the loop try again, or give up by raising NoReply."""
    for pursuit in group.pursuits:
        pursuit.forget()
    gauge = engine.limits.gauges[traits.id]
    want.sent = want.sent or not gauge.never_reached(error)
    if (
        isinstance(error, MemberError)
        and is_lost(error)
        and not engine.may_repeat(group.ids, group.terms, traits)
    ):
        raise NoReply(f"{error}; resume with --retry-in-doubt to repeat it", "in_doubt") from None
    if traits.agent:  # whether a worker is started again is for the operator to say
        raise NoReply(str(error), too_long=getattr(error, "too_long", False)) from None
    if gauge.down and isinstance(error, Transient | TimedOut):
        decision: Again | GiveUp = Again(0.0, counts=False)  # the breaker says when to try again
    else:
        decision = after(error, tries + 1, group.terms.attempts, engine.rng)
    if isinstance(decision, GiveUp):
        raise NoReply(decision.reason, too_long=getattr(error, "too_long", False)) from None
    refused_since = gauge.pool.throttle.first_refusal
    refused = refused_since is not None and engine.clock.monotonic() - refused_since > PATIENCE
    if refused or not isinstance(error, RateLimited):  # a member that is busy has not failed
        want.failed(traits.id)
    want.avoid = traits.id
    if refused and not want.untried:
        raise NoReply(f"{error} (nothing else for {PATIENCE / 60:g} minutes)") from None
    delay = decision.delay
    if isinstance(error, RateLimited):
        want.refusals += 1
        free = want.others_free(traits.id, engine.clock.monotonic())
        delay = 0.0 if free else engine.limits.backoff(want.refusals, error.retry_after)
    if delay:
        await engine.rest(delay)
    return tries + decision.counts


async def _wait_for(engine: Engine, holder: ClaimHolder) -> None:
    """Another process (or task) has claimed the key. Wait for its reply, or find that it died.

    Whoever cannot be looked at counts as alive. After a minute of that the run pauses."""
    pause, unknown_since = 0.02, None
    while engine.journal.read.attempt_state(holder.attempt) == "started":
        life = engine.journal.sessions.life(holder.session)
        if life == "dead":
            await engine.journal.lose((holder.attempt,), engine.clock.now())
            return
        now = engine.clock.monotonic()
        unknown_since = (unknown_since or now) if life == "unknown" else None
        if unknown_since is not None and now - unknown_since > LONGEST_UNKNOWN:
            engine.halt(Stop("paused", UNKNOWN))
        engine.raise_if_stopping()
        await engine.rest(pause)
        engine.raise_if_stopping()
        pause = min(pause * 1.5, LONGEST_LOOK)
