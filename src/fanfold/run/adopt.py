"""A resumed run looks for the agents that its dead process left at work, and takes them over.

A worker that is still there is waited for, one that ended meanwhile is harvested from its log. The
attempt is the same as before: its reply lands under its key, where the task finds it, and nothing
is paid again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from fanfold.errors import CalledOff, MemberError, Terminal
from fanfold.journal.answers import LostAttempt
from fanfold.journal.facts import UNSENT, AdoptAttempts, EndAttempt, ItemEnding, NewReply
from fanfold.run.engine import Engine
from fanfold.run.ledger import Sum
from fanfold.run.taken import actual_of, bounded, is_lost, one_line, spent_on
from fanfold.run.want import Candidate
from fanfold.work.ask import Reply
from fanfold.work.member import Adopts, Traits, tell_nobody
from fanfold.work.usage import with_plausible_usage

Find = Callable[[str], Candidate | None]


async def adopt_all(engine: Engine, find: Find) -> int:
    """Those of this run whose members know of them; how many. They are carried on beside the run's
    tasks; a task that wants the same waits for them."""
    agents = {}
    for lost in engine.journal.read.attempts_in_doubt(engine.no):
        candidate = find(lost.member) if len(lost.keys) == 1 else None
        if candidate is not None and candidate.traits.agent:
            agents[lost.no] = (lost, candidate)
    if not agents:
        return 0
    taken = await engine.journal.write(AdoptAttempts(engine.no, engine.session, tuple(agents)))
    for number in taken:
        lost, candidate = agents[number]
        engine.reopen(lost.step, Sum(lost.cost, lost.tokens, 1))
        if cast(Adopts, candidate.member).has_trace(_span(engine, lost), engine.store):
            _take_over(engine, lost, candidate)
        else:
            await _never_began(engine, lost, candidate.traits)
    return len(engine.adopted)


def _span(engine: Engine, lost: LostAttempt) -> str:
    return f"{engine.id}:{lost.no}"


def _take_over(engine: Engine, lost: LostAttempt, candidate: Candidate) -> None:
    """From here on it counts as under way: its money, its slot, its key."""
    task = asyncio.ensure_future(_carry_on(engine, lost, candidate))
    engine.adopted.add(task)
    task.add_done_callback(engine.adopted.discard)


async def _never_began(engine: Engine, lost: LostAttempt, traits: Traits) -> None:
    """A worker's trace is durable before it is started. There is none: the process died before."""
    await engine.journal.write(
        EndAttempt(run=engine.no, attempt=lost.no, state="error", error=UNSENT, lost="unsent",
            at=engine.clock.now(), answerer=lost.answerer, released=lost.keys,
            monthly=traits.budget_usd_month is not None)
    )  # fmt: skip
    engine.close_again(lost.step, Sum(lost.cost, lost.tokens, 1), Sum())


async def _carry_on(engine: Engine, lost: LostAttempt, candidate: Candidate) -> None:
    gauge, member = candidate.gauge, cast(Adopts, candidate.member)
    permit = engine.limits.take(gauge, engine.clock.monotonic(), 0)
    marks = tuple((key, lost.answerer) for key in lost.keys)
    mine = engine.mark_under_way(marks)
    try:
        reply = await member.adopt(_span(engine, lost), engine.store, tell_nobody)
        if reply is None:
            raise MemberError(f"{lost.member}: nothing is left of it", lost=True)
        await _land(engine, lost, candidate.traits, with_plausible_usage(reply))
    except MemberError as error:
        await _fail(engine, lost, candidate, error)
    finally:
        engine.limits.give(gauge, permit)
        engine.unmark_under_way(marks, mine)


async def _land(engine: Engine, lost: LostAttempt, traits: Traits, reply: Reply) -> None:
    reserved = Sum(lost.cost, lost.tokens, 1)
    actual = actual_of(traits, reserved, reply)
    engine.counts.used(reply.usage)
    landed = NewReply(
        lost.keys[0], lost.answerer, lost.member, reply, actual.usd, not traits.shared
    )
    await engine.journal.write(
        EndAttempt(run=engine.no, attempt=lost.no, usage=reply.usage, cost=actual.usd,
            tokens=actual.tokens, at=engine.clock.now(), released=lost.keys,
            unusable=reply.unusable, answerer=lost.answerer, landed=(landed,),
            monthly=traits.budget_usd_month is not None)
    )  # fmt: skip
    engine.close_again(lost.step, reserved, actual)


async def _fail(
    engine: Engine, lost: LostAttempt, candidate: Candidate, error: MemberError
) -> None:
    """It brought nothing: its item has failed, unless it is in doubt as before. One that was only
    called off with its run may be started anew."""
    traits, reserved = candidate.traits, Sum(lost.cost, lost.tokens, 1)
    spent, doubt = spent_on(error, reserved), is_lost(error)
    over = not (doubt or isinstance(error, CalledOff) or lost.ids[0] in engine.anew)
    engine.counts.used(error.usage)
    await engine.journal.write(
        EndAttempt(run=engine.no, attempt=lost.no, state="in_doubt" if doubt else "error",
            usage=error.usage, cost=spent.usd, tokens=spent.tokens, bound=bounded(error),
            error=one_line(error),
            at=engine.clock.now(), answerer=lost.answerer, released=() if doubt else lost.keys,
            endings=_endings(engine, lost, error) if over else (),
            monthly=traits.budget_usd_month is not None)
    )  # fmt: skip
    engine.close_again(lost.step, reserved, spent)
    if isinstance(error, Terminal) and error.scope != "ask":
        engine.limits.trip(candidate.gauge, error.scope, str(error), None)
    if over:
        engine.gone.update({(key, lost.answerer): str(error) for key in lost.keys})


def _endings(engine: Engine, lost: LostAttempt, error: MemberError) -> tuple[ItemEnding, ...]:
    """In the same fact, so that no crash in between has the worker started again."""
    places = engine.journal.read.item_positions(engine.no, lost.ids[0])
    if len(places) != 1:
        return ()
    ((batch, position),) = places
    return (ItemEnding(batch, position, lost.step, "failed", (one_line(error),), lost.member),)
