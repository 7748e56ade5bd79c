"""One try of one group of tasks by one member: claim, ask, settle, each step a durable fact."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import msgspec

from fanfold.errors import (
    InvalidReply,
    TimedOut,
)
from fanfold.journal.answers import Claim
from fanfold.journal.facts import (
    UNSENT,
    EndAttempt,
    ItemEnding,
    KeepPrompt,
    NewReply,
    RecordFailure,
    ReleaseClaims,
    StartAttempt,
)
from fanfold.run.dispatch import Grant
from fanfold.run.engine import Engine
from fanfold.run.ledger import ONE_CALL, Sum
from fanfold.run.overrun import OF_THE_USER, overrun
from fanfold.run.pursuit import NOWHERE, Group, Pursuit
from fanfold.run.taken import actual_of, bounded, is_bound, is_lost, one_line, spent_on
from fanfold.work.ask import Reply
from fanfold.work.member import Event, Request, Tell, Traits, tell_nobody
from fanfold.work.usage import with_plausible_usage

CANCELLED = "cancelled in mid-call"
SHUT = Claim(broke="now")  # a breaker opened while it was claimed: another, or later


async def attempt(engine: Engine, group: Group, grant: Grant) -> Claim | None:
    """None: the replies have landed in the group. A Claim: somebody else has (or had) the key, or
    the member's budget of the month does not suffice; then it is shut, and another may take it.

    Raises what the member raised, after it was written down and the money was settled.
    """
    number = await begin(engine, group, grant)
    if isinstance(number, Claim):
        return number
    if group.tell is not None:
        group.tell(Event("note", f"{grant.traits.id} is asked", {"member": grant.traits.id}))
    try:
        reply = await ask(grant, group.tell)
    except asyncio.CancelledError:
        give_up(engine, grant, number)
        group.lost(CANCELLED)
        raise
    except Exception as error:
        await failed(engine, group, grant, number, error)
        raise
    await land(engine, group, grant, number, reply)
    return None


async def begin(engine: Engine, group: Group, grant: Grant, beside: int = 0) -> int | Claim:
    """Leave no call without a fact: the attempt's number, 0 for one that costs nothing. A Claim:
    somebody else has the key, and nothing may be sent. `beside`: an attempt of ours may have it."""
    number = 0
    engine.pulse.beat()
    if grant.traits.id not in engine.opened:
        await _open(engine, grant)
    if grant.traits.metered:
        claim = await _claim(engine, group, grant, beside)
        if not claim.attempt:
            engine.dispatch.settle(grant, Sum())
            if claim.broke:
                await _wait_for_money(engine, grant, claim)
            return claim
        number = claim.attempt
    grant.request = _spanned(engine, grant.request, number)
    if engine.keep_prompts:
        _keep_prompt(engine, group, grant)
    engine.counts.calls += 1
    group.step.calls += 1
    for pursuit in group.pursuits:
        pursuit.calls += 1
    if number and grant.gauge.shut_since(grant.permit):
        call_off(engine, group, grant, number)
        return SHUT
    return number


async def ask(grant: Grant, tell: Tell | None) -> Reply:
    """Usage that no call can have is no usage: the worst case stands."""
    return _believed(grant, await _ask(grant, tell))


def _believed(grant: Grant, reply: Reply) -> Reply:
    """Only where a model gets our words as they are can usage be compared with them."""
    if grant.traits.kind in OF_THE_USER:
        return with_plausible_usage(reply)
    return with_plausible_usage(
        reply, [message.content for message in grant.request.ask.conversation()]
    )


async def attempt_free(engine: Engine, pursuit: Pursuit, grant: Grant) -> None:
    """One try that costs nothing and has no effects: reply and outcome are written down at once."""
    traits = grant.traits
    engine.pulse.beat()
    if traits.id not in engine.opened:
        await _open(engine, grant)
    grant.request = _spanned(engine, grant.request)
    if engine.keep_prompts:
        _keep_prompt(engine, Group((pursuit,), pursuit.ask), grant)
    engine.counts.calls += 1
    pursuit.step.calls += 1
    pursuit.calls += 1
    try:
        if traits.timeout <= 0:
            reply = await grant.member.ask(grant.request, tell_nobody)
        else:
            reply = await _ask(grant, None)
        reply = _believed(grant, reply)
    except asyncio.CancelledError:
        engine.dispatch.settle(grant, Sum())
        raise
    except Exception as error:
        await failed(engine, Group((pursuit,), pursuit.ask), grant, 0, error)
        raise
    if grant.permit.probe or not grant.gauge.pool.calm:
        engine.limits.good(grant.gauge, grant.permit, grant.order)
    engine.dispatch.settle(grant, ONE_CALL)
    key = pursuit.key(traits.takes)
    ending = pursuit.receive(reply, traits.id, 0, 0)
    if pursuit.pending:
        _begin_judging(engine, (pursuit,))
    fact = EndAttempt(
        run=engine.no, at=engine.clock.now(), endings=() if ending is None else (ending,),
        landed=(NewReply(key, traits.answerer, traits.id, reply, 0, not traits.shared),),
        unplaced=pursuit.step.no if pursuit.place is NOWHERE else None,
    )  # fmt: skip
    pursuit.row = (await engine.journal.write(fact))[0]


def _keep_prompt(engine: Engine, group: Group, grant: Grant) -> None:
    """For whoever looks at it later. Nothing waits for it, and nothing depends on it."""
    traits = grant.traits
    with suppress(UnicodeEncodeError):  # a text that cannot be sent either
        said = msgspec.json.encode(grant.request.ask.conversation())
        engine.journal.note(
            KeepPrompt(
                engine.no, group.step.no, traits.id, group.ids, group.keys(traits.takes), said
            )
        )


def _spanned(engine: Engine, request: Request, number: int = 0) -> Request:
    """The request, saying what it is sent for."""
    span = f"{engine.id}:{number}" if number else engine.id
    return Request(
        request.ask, request.body, request.input_tokens, request.output_tokens, span, engine.store,
        request.most,
    )  # fmt: skip


async def _open(engine: Engine, grant: Grant) -> None:
    try:
        await engine.open_member(grant.member)
    except BaseException:
        engine.dispatch.settle(grant, Sum())
        raise


async def _claim(engine: Engine, group: Group, grant: Grant, beside: int) -> Claim:
    traits = grant.traits
    now = engine.clock.now()
    fact = StartAttempt(
        run=engine.no, step=group.step.no, session=engine.session, member=traits.id,
        answerer=traits.answerer, keys=group.keys(traits.takes), ids=group.ids,
        accept=group.circle.accept, reserved=grant.reserved.usd, reserved_tokens=grant.reserved.tokens,
        at=now, fresh=engine.fresh, monthly=engine.months.draw(traits, now),
        take_over=engine.may_repeat(group.ids, group.terms, traits), why=grant.why, beside=beside,
    )  # fmt: skip
    try:
        claim: Claim = await engine.journal.write(fact)
    except BaseException:
        engine.dispatch.settle(grant, Sum())
        engine.journal.note(
            ReleaseClaims(engine.session, traits.answerer, fact.keys, fact.at, beside)
        )
        raise
    return claim


async def _wait_for_money(engine: Engine, grant: Grant, claim: Claim) -> None:
    """Before it is tried again. What nobody here has under way may be held by a process that died:
    from now on that counts as spent."""
    engine.months.shut(grant.gauge, claim)
    if claim.broke == "now" and not grant.gauge.in_flight:
        await engine.journal.recover(engine.clock.now())


async def _ask(grant: Grant, tell: Tell | None) -> Reply:
    """A member that does not keep its own time is cut off a little after it."""
    traits = grant.traits
    if traits.keeps_time or traits.timeout <= 0:
        return await grant.member.ask(grant.request, tell or tell_nobody)
    try:
        async with asyncio.timeout(traits.timeout * 1.05 + 1.0):
            return await grant.member.ask(grant.request, tell or tell_nobody)
    except TimeoutError:
        raise TimedOut(f"{traits.id}: no answer within {traits.timeout:g} s") from None


# ── what came of it ──────────────────────────────────────────────────────────────────────────


async def land(engine: Engine, group: Group, grant: Grant, number: int, reply: Reply) -> None:
    """A reply: free the slot, settle the money, and make reply and outcome durable together."""
    traits, now = grant.traits, engine.clock.monotonic()
    actual = actual_of(traits, grant.reserved, reply)
    if reply.usage is not None:
        engine.counts.used(reply.usage)
        grant.gauge.correct(now, grant.permit.tokens, grant.reserved.tokens, reply.usage.total)
    engine.limits.good(grant.gauge, grant.permit, grant.order)
    _stop_if_over(engine, grant, reply, actual)
    engine.dispatch.settle(grant, actual)
    landed, endings = _file(group, traits, reply, actual.usd)
    _begin_judging(engine, group.pursuits)
    fact = EndAttempt(
        run=engine.no, attempt=number, usage=reply.usage, cost=actual.usd, tokens=actual.tokens,
        unusable=reply.unusable, at=engine.clock.now(), took=_took(engine, grant),
        released=group.keys(traits.takes) if number else (),
        answerer=traits.answerer, landed=landed, endings=endings,
        error=None if landed else "the reply named none of the items",
        monthly=traits.budget_usd_month is not None, bound=is_bound(traits, reply),
    )  # fmt: skip
    try:
        group.filed(await engine.journal.write(fact))
    except InvalidReply as error:  # a text that no file can hold
        await engine.journal.write(_unreadable(fact, error))
        raise
    finally:
        _settled(engine, grant)


def _stop_if_over(engine: Engine, grant: Grant, reply: Reply, actual: Sum) -> None:
    """Before the slot is free: nothing else goes to a member that takes more than was reserved."""
    why = overrun(grant.traits, grant.request, grant.reserved, reply, actual)
    if why:
        engine.limits.trip(grant.gauge, "member", why, None)


def _begin_judging(engine: Engine, pursuits: tuple[Pursuit, ...]) -> None:
    """Gates of the user's come when the reply is durable; that they began is on record then too."""
    if pursuits[0].task.terms.nature == "foreign":
        engine.judgings.begin_with(tuple(p.mark() for p in pursuits if p.pending))


def _took(engine: Engine, grant: Grant) -> float:
    """By a clock that does not jump; the stamps of a call are only for people."""
    return engine.pulse.beat() - grant.started


def _settled(engine: Engine, grant: Grant) -> None:
    """What a call took is on record: those who wait for the member's money may try again."""
    if grant.traits.budget_usd_month is not None and engine.months.settled(grant.gauge):
        engine.dispatch.poke()


def _unreadable(fact: EndAttempt, error: InvalidReply) -> EndAttempt:
    """It was paid for, but there is nothing that could be kept of it."""
    changes = {"state": "error", "error": str(error), "landed": (), "endings": ()}
    kept: EndAttempt = msgspec.structs.replace(fact, **changes)
    return kept


def _file(
    group: Group, traits: Traits, reply: Reply, spent: int
) -> tuple[tuple[NewReply, ...], tuple[ItemEnding, ...]]:
    """Take the reply apart, judge each part, and make the records."""
    private = not traits.shared
    if group.apart is None:
        pursuit = group.pursuits[0]
        key = pursuit.key(traits.takes)
        ending = pursuit.receive(reply, traits.id, spent, 0)
        landed = NewReply(key, traits.answerer, traits.id, reply, spent, private)
        return (landed,), () if ending is None else (ending,)
    parts = group.take_apart(reply)
    shares = _shares(spent, len(parts))
    landeds, endings = [], []
    for n, (pursuit, part) in enumerate(parts):
        key = pursuit.key(traits.takes)
        landeds.append(NewReply(key, traits.answerer, traits.id, part, shares[n], private))
        ending = pursuit.receive(part, traits.id, shares[n], n)
        if ending is not None:
            endings.append(ending)
    return tuple(landeds), tuple(endings)


def _shares(total: int, count: int) -> list[int]:
    each = total // max(count, 1)
    return [each + (total - each * count if n == 0 else 0) for n in range(count)]


async def failed(engine: Engine, group: Group, grant: Grant, number: int, error: Exception) -> None:
    """No reply. Refund what was surely not carried out; what may have been counts as spent."""
    engine.dispatch.failed(grant, group.ids, error)
    traits = grant.traits
    if not traits.metered:
        engine.dispatch.settle(grant, ONE_CALL)
        fact = RecordFailure(
            run=engine.no, step=group.step.no, session=engine.session, member=traits.id,
            answerer=traits.answerer, ids=group.ids, error=one_line(error), at=engine.clock.now(),
        )  # fmt: skip
        await engine.journal.write(fact)
        return
    lost, usage = is_lost(error), getattr(error, "usage", None)
    spent = spent_on(error, grant.reserved)
    engine.counts.used(usage)
    engine.dispatch.settle(grant, spent)
    await engine.journal.write(
        EndAttempt(run=engine.no, attempt=number, state="in_doubt" if lost else "error", usage=usage,
            cost=spent.usd, tokens=spent.tokens, bound=bounded(error),
            error=one_line(error), at=engine.clock.now(), took=_took(engine, grant),
            answerer=traits.answerer, released=() if lost else group.keys(traits.takes),
            endings=group.failing(str(error)) if traits.agent and not lost else (),
            monthly=traits.budget_usd_month is not None)
    )  # fmt: skip
    _settled(engine, grant)


def give_up(engine: Engine, grant: Grant, number: int) -> None:
    """Cancelled in mid-call: the reservation counts as spent, and the attempt is in doubt."""
    engine.dispatch.settle(grant, grant.reserved if number else Sum())
    if number:
        engine.journal.note(
            EndAttempt(run=engine.no, attempt=number, state="in_doubt", cost=grant.reserved.usd, bound=True,
                tokens=grant.reserved.tokens, error=CANCELLED, at=engine.clock.now(),
                took=_took(engine, grant),
                monthly=grant.traits.budget_usd_month is not None)
        )  # fmt: skip


def call_off(engine: Engine, group: Group, grant: Grant, number: int) -> None:
    """It was never sent: all is given back."""
    engine.counts.calls -= 1
    group.step.calls -= 1
    for pursuit in group.pursuits:
        pursuit.calls -= 1
    engine.dispatch.settle(grant, Sum())
    engine.journal.note(
        EndAttempt(run=engine.no, attempt=number, state="error", error=UNSENT, lost="unsent",
            at=engine.clock.now(), took=_took(engine, grant), answerer=grant.traits.answerer,
            released=group.keys(grant.traits.takes),
            monthly=grant.traits.budget_usd_month is not None)
    )  # fmt: skip


def come_late(engine: Engine, group: Group, grant: Grant, number: int, reply: Reply | None) -> None:
    """Another's answer came first. What it took is known when it answered too; else, called off,
    its reservation counts as spent. Either way there is no doubt about the key."""
    spent = grant.reserved if reply is None else actual_of(grant.traits, grant.reserved, reply)
    usage = None if reply is None else reply.usage
    engine.counts.used(usage)
    if reply is not None:
        _stop_if_over(engine, grant, reply, spent)
    engine.dispatch.settle(grant, spent)
    engine.journal.note(
        EndAttempt(run=engine.no, attempt=number, state="late", usage=usage, cost=spent.usd,
            tokens=spent.tokens, unusable="" if reply is None else reply.unusable,
            error="another answer came first", at=engine.clock.now(),
            took=_took(engine, grant),
            bound=reply is None or is_bound(grant.traits, reply),
            answerer=grant.traits.answerer, released=group.keys(grant.traits.takes),
            monthly=grant.traits.budget_usd_month is not None)
    )  # fmt: skip
