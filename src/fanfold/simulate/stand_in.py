"""Stand-ins for the members of a plan, and for its gates: the run itself is the real one.

No code of the user's is run: functions are not imported, programs not started, gates go by rates.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fanfold.clock import VirtualClock
from fanfold.errors import BadInput, MemberError, RateLimited, Terminal, Transient
from fanfold.gates import kinds as gates
from fanfold.gates.combine import PendingVerdict
from fanfold.journal.facts import NameStep, StartAttempt
from fanfold.journal.stream import Commit
from fanfold.members.roster import Roster
from fanfold.plans.asking import Asking, judges_in
from fanfold.plans.header import PlanHeader
from fanfold.plans.output import Output
from fanfold.plans.preview.asks import UnopenedMembers
from fanfold.plans.reading import inspecting_resolver
from fanfold.plans.ready import Knows, Ready
from fanfold.run.forecast import BYTES_PER_TOKEN, PART_OF_MOST
from fanfold.simulate.behaviour import Behaviour, DrawnFault, PastCall, StatedBehaviour, assumed
from fanfold.simulate.history import CallRecords
from fanfold.simulate.replies import said
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Member, Request, Tell, Traits
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import AskPower, Gate, Task, Terms, asking, known_as
from fanfold.work.usage import LONGEST_TOKEN

UNREACHED = 0.1  # seconds until a connection is refused
VECTOR = 8  # numbers in a stand-in for an embedding


class Premise(msgspec.Struct, frozen=True):
    """What is known of all members, before anything is simulated."""

    roster: Roster
    folder: Path
    allow_paid: bool
    records: CallRecords
    stated: dict[str, StatedBehaviour] = {}


class SeededClock(VirtualClock):
    """Names of runs by the seed too."""

    def __init__(self, seed: int) -> None:
        self.random_bits = Random(seed).getrandbits  # type: ignore[assignment]


class SimulatedWorld:
    """One simulated run: what all its stand-ins know. `traits`: theirs; `outages`: from when until when a
    member cannot be reached. Chance goes by the seed and by what is asked, so that the same ask takes the
    same time whatever is changed around it. `used`: how members behaved that were asked, by step. `share`:
    so much of the whole input is simulated, with so much of the budget."""

    def __init__(
        self, premise: Premise, traits: Mapping[str, Traits], outages: dict[str, tuple[float, float]],
        seed: int, *, share: float = 1.0,
    ) -> None:  # fmt: skip
        self.share = share
        self.premise, self.traits, self.outages, self.seed = premise, traits, outages, seed
        self.used: dict[tuple[str, str], Behaviour] = {}
        self._step_of: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self._times: Counter[tuple[str, ...]] = Counter()

    def heard(self, commit: Commit) -> None:
        """Which attempt is of which step is on record before it is sent."""
        for fact, answer in zip(commit.facts, commit.answers, strict=True):
            if type(fact) is StartAttempt:
                self._step_of[answer.attempt] = fact.step
            elif type(fact) is NameStep:
                self._names[fact.no] = fact.name

    def step(self, request: Request) -> str:
        return self._names.get(self._step_of.get(int(request.span.partition(":")[2] or 0), -1), "")

    def behaviour(self, member: str, step: str) -> Behaviour:
        found = self.used.get((member, step))
        if found is None:
            traits = self.premise.roster.entries[member].traits
            found = self.premise.records.behaviour(traits, step) or assumed(traits)
            if (stated := self.premise.stated.get(member)) is not None:
                found = stated.over(found)
            self.used[member, step] = found
        return found

    def most_taken(self, traits: Traits, request: Request) -> Usage:
        """No call of this member takes more tokens for such an ask, at whichever step."""
        stated, how = self.premise.stated.get(traits.id), Behaviour()
        how = how if stated is None else stated.over(how)
        past = (self.premise.records.dearest(traits.id), PastCall(0.0))
        usages = [_usage(traits, request, how, call) for call in past]
        inputs = [one.total - one.output for one in usages]
        return Usage(
            min(request.input_tokens, max(inputs)),
            min(request.output_tokens, max(one.output for one in usages)),
        )

    def chance(self, *of: str) -> Random:
        """Each time another one, and the same in every run of this seed."""
        self._times[of] += 1
        return Random(f"{self.seed} {' '.join(of)} {self._times[of]}")

    def values(self, step: str) -> list[Any]:
        """Replies of a step on record; those of voters are as the votes came out."""
        values = self.premise.records.values
        return values.get(step) or values.get(step.partition("#")[0].removesuffix(".vote")) or []

    def verdict(self, task: Task, reply: Reply) -> Verdict:
        """As often as the replies of its member were refused at this step."""
        named, member = task.terms.who.members, reply.model
        if member not in self.traits:
            member = named[0] if len(named) == 1 else None
        if member is None:  # made of several replies
            return PASS
        how, which = self.behaviour(member, task.terms.step), (task.terms.step, task.id)
        rate = how.kicked_again if self._times["gate", *which, member] else how.kicked
        drawn = self.chance("gate", *which, member).random()
        return fail("the gate refuses the reply") if drawn < rate else PASS


class StandInMember:
    """In place of a member: its price, limits and worst case are the real ones."""

    def __init__(self, built: Member, traits: Traits, world: SimulatedWorld) -> None:
        self._built, self.traits, self._world = built, traits, world

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def end(self, why: str, said: str, item: str = "") -> None:
        """No agent is at work."""

    def prepare(self, ask: Ask) -> Request:
        """What is reserved beyond what calls take, and given back, is as small a part of the budget as it
        is in the whole."""
        request, share = self._built.prepare(ask), self._world.share
        if share == 1.0 or self.traits.agent:
            return request
        taken = self._world.most_taken(self.traits, request)
        return msgspec.structs.replace(
            request,
            input_tokens=ceil(taken.input + (request.input_tokens - taken.input) * share),
            output_tokens=ceil(taken.output + (request.output_tokens - taken.output) * share),
        )

    async def ask(self, request: Request, tell: Tell) -> Reply:
        world, id = self._world, self.traits.id
        start, end = world.outages.get(id, (0.0, 0.0))
        if start <= asyncio.get_running_loop().time() < end:
            await asyncio.sleep(UNREACHED)
            raise Transient(f"{id}: no connection, as is simulated")
        step = world.step(request)
        how, key = world.behaviour(id, step), request.ask.key("both").hex()
        chance = world.chance(id, key)
        if (wrong := how.fault(chance)) is not None:
            await asyncio.sleep(wrong.seconds)
            raise _error(id, wrong)
        call = how.call(chance)
        await asyncio.sleep(call.seconds)
        return self._reply(request, how, call, step)

    def _counts(self, request: Request, how: Behaviour, call: PastCall) -> bool:
        """Whether its replies say how many tokens they took: of programs those that are known to."""
        if self.traits.agent or self.traits.takes == "items":
            return False
        stated = (how.input, how.output) != (None, None)
        return bool(request.input_tokens or request.output_tokens or call.usage or stated)

    def _reply(self, request: Request, how: Behaviour, call: PastCall, step: str) -> Reply:
        """What is said follows from the ask alone: voters agree."""
        world, ask = self._world, msgspec.structs.replace(request.ask, sample=0)
        usage = _usage(self.traits, request, how, call)
        usd = how.usd if how.usd is not None else call.usd if self.traits.agent else None
        if self.traits.kind == "embedding":
            vectors = [[0.0] * (VECTOR - 1) + [1.0] for _ in ask.items]
            return Reply(data=vectors if len(vectors) > 1 else vectors[0], usage=usage)
        chance = Random(f"{world.seed} {ask.key('both').hex()}")
        data = said(ask, usage.output or PART_OF_MOST, world.values(step), chance)
        reported = usage if self._counts(request, how, call) else None
        return Reply(data=data, usage=reported, cost_usd=usd, model=self.traits.id)


def _usage(traits: Traits, request: Request, how: Behaviour, call: PastCall) -> Usage:
    """As in the call that was drawn, for as many items; else by the length of the ask. Within its worst
    case, and not less than any tokenizer needs."""
    size = sum(len(one.content) for one in request.ask.conversation())
    past, times = call.usage or Usage(), max(1, len(request.ask.items)) / call.items
    read, wrote = round(past.cache_read * times), round(past.cache_write * times)
    most = request.ask.params.max_tokens or traits.max_tokens
    given, output = how.input, how.output
    if given is None:
        given = round(past.input * times) if call.usage else size // BYTES_PER_TOKEN
    if output is None:
        output = round(past.output * times) if call.usage else most // PART_OF_MOST
    given = max(given, size // LONGEST_TOKEN + 1 - read - wrote)
    given = min(given, max(0, (request.input_tokens or given + read + wrote) - read - wrote))
    return Usage(given, max(1, min(output, request.output_tokens or most)), read, wrote)


def _error(id: str, wrong: DrawnFault) -> MemberError:
    match wrong.fault:
        case "refused":
            return RateLimited(f"{id}: rate limited, as is simulated", retry_after=wrong.wait)
        case "rejected":
            return Terminal(f"{id}: the request was refused, as is simulated", scope="ask")
        case "lost":
            return Transient(f"{id}: no answer, as is simulated", lost=True)
    return Transient(f"{id}: an error, as is simulated")


class StandInMembers:
    """All members of a roster, stood in for. `traits` may differ from the roster's: other limits, say."""

    given = frozenset[str]()

    def __init__(self, premise: Premise, world: SimulatedWorld) -> None:
        self._unopened = UnopenedMembers(
            premise.roster, premise.folder, allow_paid=premise.allow_paid
        )
        self.settings = msgspec.structs.replace(self._unopened.settings, queue=None)
        self.traits, self._world = world.traits, world

    def build(self, id: str) -> StandInMember:
        return StandInMember(self._unopened.build(id), self.traits[id], self._world)

    def missing(self, id: str) -> str:
        return self._unopened.missing(id)

    def bad(self, id: str, what: str, field: str) -> BadInput:
        return self._unopened.bad(id, what, field)


def stood_in(traits: Traits, proven: bool) -> Traits:
    """Asked here, whoever would ask it; each call is on record. `proven`: it has answered before."""
    remote = traits.remote and not proven
    return msgspec.structs.replace(
        traits, metered=True, at="", tags=(), hosts=None, tools=None, batch=None, keeps_time=False,
        remote=remote,
    )  # fmt: skip


class StandInReady(Ready):
    """A plan's terms with stand-ins for gates. Judges are asked, so that they cost and take their time;
    what comes of it goes by rates. Filters are applied to replies on record; without these all is kept."""

    def __init__(
        self, world: SimulatedWorld, plan: PlanHeader, results: dict[str, Any], run: Knows | None
    ) -> None:
        super().__init__(plan, results, run, inspecting_resolver)
        self._world = world

    def terms(self, asked: Asking, step: str, keep: str | None = None) -> Terms:
        judges = [
            gates.from_plan({"judge": given}, self.resolve) for _, given in judges_in(asked.gate)
        ]
        bare = msgspec.structs.replace(asked, gate=None, batch=None, tools=None)
        made = super().terms(bare, step, keep if self._world.values(step) else None)
        return msgspec.structs.replace(made, gate=_gate(self._world, judges))


def _gate(world: SimulatedWorld, judges: list[Gate]) -> Gate:
    def check(task: Task, reply: Reply, ask: AskPower) -> Any:
        if not judges:
            return world.verdict(task, reply)

        async def judged() -> Verdict:
            for one in judges:
                verdict = one(task, reply, ask)
                if not isinstance(verdict, Verdict):
                    await verdict
            return world.verdict(task, reply)

        return PendingVerdict(judged)

    return known_as("asks" if judges else "pure", asking(check, parts=judges))


class NoOutput(Output):
    """Nothing is written."""

    def value(self, *given: Any) -> None: ...

    def parts(self, *given: Any) -> None: ...

    def with_input(self, *given: Any) -> None: ...

    def each(self, *given: Any) -> None: ...
