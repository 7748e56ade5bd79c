"""Those who would be asked in a plan that is only looked at: replies on record are found, what is
left to ask is measured, and nobody is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from fanfold.clock import RealClock
from fanfold.errors import BadInput, FanfoldError
from fanfold.journal.contract import StoreView
from fanfold.members.roster import Roster
from fanfold.patterns.prompt import Prompt
from fanfold.plans.header import PlanHeader
from fanfold.plans.preview.standin import NOTHING, Size, StandIns, holds_stand_in
from fanfold.plans.reading import inspecting_resolver
from fanfold.plans.ready import UNLOADED_SCHEMA, Ready
from fanfold.price import dollars, reading_pays
from fanfold.run.choose import Chooser
from fanfold.run.demand import expected_parts
from fanfold.run.executor import LocalExecutor
from fanfold.run.forecast import BYTES_PER_TOKEN, PART_OF_MOST, Forecast, Note
from fanfold.run.limits import Limits
from fanfold.run.meter import Meter, StepMembers
from fanfold.run.remaining import Look, RemainingAsks, Survey
from fanfold.run.tools import ToolLoop
from fanfold.work.ask import REPLY_BYTES, Ask, Message, Params, Reply
from fanfold.work.batch import written
from fanfold.work.member import Member, Request, Tell, Traits
from fanfold.work.outcome import Outcome, Verdict
from fanfold.work.split import estimate_tokens
from fanfold.work.task import Budget, Gate, Task, Terms, ToolUser, Who

_GREW = "{}: replies that the prompts will hold are counted at their usual length"
_TYPED = (
    "{}: the type of its schema is imported only by a run, so replies on record are not found here"
)
_TOOLS = (
    "{}: its tools are imported or started only by a run: what models read of them is not counted, and"
    " replies on record are not found here"
)
_ONLINE = "{}: asks with tools go online, not into batches"
_WORTH = 1024  # tokens; no service keeps less
DAY = 86_400.0  # seconds that a batch may take
_NO_RUN = -1  # replies that serve only the run they are of serve no new one


class Premises(msgspec.Struct, frozen=True, kw_only=True):
    """How the plan would be run. `budget` is the one that counts, the command line's included.

    `measured`: of a larger input, about so many items spread over it represent all.
    """

    budget: Budget = Budget()
    allow_paid: bool = False
    fresh: bool = False
    measured: int = 20_000


class UnopenedMembers:
    """The members of a roster, built as far as a preview needs them: no key is used, and no function
    is imported."""

    def __init__(self, roster: Roster, folder: Path, *, allow_paid: bool) -> None:
        self._roster, self._folder = roster, folder
        self.settings, self.given = roster.settings.with_options(allow_paid), frozenset[str]()
        self.traits: Mapping[str, Traits] = {id: e.traits for id, e in roster.entries.items()}

    def build(self, id: str) -> Member:
        traits = self.traits[id]
        if traits.kind in ("function", "replay"):
            return SilentMember(traits)
        return self._roster.build(id, folder=self._folder)

    def missing(self, id: str) -> str:
        return self._roster.missing(id, folder=None)

    def bad(self, id: str, what: str, field: str) -> BadInput:
        return self._roster.bad(id, what, field)


class SilentMember:
    """A member that is only there to be counted."""

    def __init__(self, traits: Traits) -> None:
        self._traits = traits

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        return Request(ask)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        raise RuntimeError("a preview asks nobody")


class PreviewContext:
    """What the parts of a preview have in common: who is there, what is on record, what replaces
    replies that do not exist yet, and how many items are measured, of how many (`sample`)."""

    def __init__(
        self,
        plan: PlanHeader,
        roster: Roster,
        archive: StoreView | None,
        premises: Premises,
        sample: tuple[int, int],
    ) -> None:
        self.plan, self.premises, self.sample, self._archive = plan, premises, sample, archive
        members = UnopenedMembers(roster, Path(plan.folder), allow_paid=premises.allow_paid)
        self._choose = Chooser(members, Limits(1, Random(0)), LocalExecutor(), RealClock())
        self._most_at_once = roster.settings.max_concurrency
        self.ready = Ready(plan, {}, self, inspecting_resolver)
        self.stand_ins = StandIns()

    def traits(self, terms: Terms) -> list[Traits]:
        return list(self.cast(terms).everyone)

    def reads_messages(self, terms: Terms) -> bool:
        return any(one.takes == "messages" or one.sees_ask for one in self.traits(terms))

    def cast(self, terms: Terms, *, votes: bool = False) -> StepMembers:
        chosen = self._choose.eligible(terms.who).candidates
        members = tuple(one.member for one in chosen)
        better = tuple(
            one.member for id in terms.escalate for one in self._choose.escalation(id).candidates
        )
        past = {} if self._archive is None else {
            one.traits.id: self._archive.read.call_history(
                one.traits.id, one.traits.answerer, terms.step
            )
            for one in (*members, *better) if one.traits.metered
        }  # fmt: skip
        self._choose.check_batch(terms)
        slots = min(terms.concurrency, self._most_at_once)
        extra = 0.0 if terms.hedge is None else terms.hedge.extra
        parts = expected_parts(chosen, slots)
        return StepMembers(terms.step, members, better, slots, past, votes, extra, parts)

    def tools(self, terms: Terms) -> ToolUser | None:
        """Those on offer, as far as they are known without importing or starting anything."""
        return self._choose.tools_for(terms, self._choose.eligible(terms.who))

    def look(self, cast: StepMembers, who: Who) -> Look:
        """The replies that a run would use: of those who may be asked, and of all who would fit."""
        asked = [one.traits for one in cast.members]
        takes = {one.takes for one in asked}
        serve = [*asked, *(one for one in self._choose.accepts(who) if one.takes in takes)]
        accept = frozenset(one.answerer for one in serve)
        archive, fresh = self._archive, self.premises.fresh
        if archive is None or not any(one.shared for one in serve):
            return lambda keys: {}
        return lambda keys: archive.read.known(keys, accept, _NO_RUN, fresh)

    def record(self, name: str, size: Size) -> None:
        """From here on prompts can show what this step gave, as `steps.NAME`."""
        self.ready.results[name] = self.stand_ins.make(size)


def reply_size(cast: StepMembers, params: Params) -> Size:
    """Of one reply: as those on record were, else a quarter of what it may be."""
    longest = [params.max_tokens or one.traits.max_tokens for one in cast.members]
    usual = [
        past.output
        if (past := cast.past.get(one.traits.id)) and past.output
        else most / PART_OF_MOST
        for one, most in zip(cast.members, longest, strict=True)
    ]
    return Size(
        ceil(BYTES_PER_TOKEN * sum(usual) / len(usual)),
        REPLY_BYTES * max((*longest, *(one.traits.max_tokens for one in cast.escalate))),
    )


class AskEstimate:
    """One who would be asked on these terms. `reply` replaces what it would say.

    `judges` are gates that ask a member about each reply.
    """

    def __init__(
        self,
        context: PreviewContext,
        terms: Terms,
        prompt: Prompt,
        *,
        judges: Sequence[Gate] = (),
        votes: bool = False,
    ) -> None:
        self._context, self.terms = context, terms
        self.cast = cast = context.cast(terms, votes=votes)
        takes = tuple(dict.fromkeys(one.traits.takes for one in cast.members))
        self._by_items = "items" in takes
        self._tools = context.tools(terms)
        self._survey = Survey(
            takes, context.look(cast, terms.who), once=cast.metered, tools=self._tools
        )
        self._template = prompt.user
        shows = prompt.user is not None and prompt.user.uses("steps")
        self._steps: dict[str, Any] = prompt.names.get("steps", {}) if shows else {}
        reads = context.reads_messages(terms)
        self.prompt = prompt if reads else Prompt(schema=prompt.schema, params=prompt.params)
        parts = [one.traits.batch for one in cast.members if one.traits.batch is not None]
        batched = terms.batch is not None and self._tools is None
        self._part = max(parts) if parts and batched else None  # of the price
        self._meter = Meter(cast, keeps=self._part is None)
        self.size = reply_size(cast, prompt.params)
        self.reply = context.stand_ins.make(self.size)
        self._grew = False
        self._tasks, self._said, self._alike = 0, tuple[Message, ...](), True
        self._judges, self.judging = judges, dict[Who, AskEstimate]()

    @property
    def who(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(traits.id for traits in self.cast.everyone))

    def take(self, tasks: Sequence[Task]) -> list[Any]:
        """What comes of each: a value on record, a stand-in, or None when it leaves the flow."""
        lefts = self.left(tasks)
        for task, left in zip(tasks, lefts, strict=True):
            self.count(task, left)
        return [self.value(left) for left in lefts]

    def left(self, tasks: Sequence[Task]) -> list[RemainingAsks]:
        """What is left of each. Asks that wait for replies cannot be on record."""
        for task in tasks if self._alike else ():
            self._said = self._said or task.ask.messages
            self._alike = self._alike and task.ask.messages == self._said
        self._tasks += len(tasks)
        whole = [task for task in tasks if not self._waits(task)]
        known = dict(zip(map(id, whole), self._survey.remaining(whole), strict=True))
        return [known.get(id(task)) or self._unwritten(task) for task in tasks]

    def count(self, task: Task, left: RemainingAsks) -> None:
        self._meter.add(left)
        self.count_judges(task, left)

    def count_shard(self, lefts: Sequence[RemainingAsks], ask: Ask) -> None:
        self._meter.add_shard(lefts, ask)

    def value(self, left: RemainingAsks) -> Any:
        if left.reply is not None:
            return left.reply.value
        return None if left.ask is None else self.reply

    def _waits(self, task: Task) -> bool:
        if task.flaw is not None or self._by_items:
            return holds_stand_in([self._steps, *(item.data for item in task.ask.items)])
        return self._context.stand_ins.grown(task.ask) != NOTHING

    def _unwritten(self, task: Task) -> RemainingAsks:
        """A prompt that a stand-in cannot be put into (it computes with a reply) is taken to be its
        own text, and all the replies."""
        self._grew = True
        ask, stand_ins = task.ask, self._context.stand_ins
        if task.flaw is None:
            grown = stand_ins.grown(ask)
        else:
            source = "" if self._template is None else self._template.source
            messages = (*self.prompt.opening, Message("user", source))
            ask = msgspec.structs.replace(ask, messages=messages)
            steps = [item.data.get("steps", {}) for item in ask.items if type(item.data) is dict]
            given = {**self._steps, **{k: v for own in steps for k, v in own.items()}}
            grown = stand_ins.of(given.values())
        if self._tools is not None:
            ask = self._tools.equipped(ask)
        return RemainingAsks(ask, ask, self.terms.revise, typical=grown.typical, most=grown.most)

    def count_judges(self, task: Task, left: RemainingAsks) -> None:
        """One call for each reply: the first, and at worst those to all kick-backs."""
        if left.ask is None or (left.answered and left.reply is None):
            return
        reply = left.reply or Reply(text=self.reply)
        for asked in (one for gate in self._judges for one in asked_by(gate, task, reply)):
            estimated = self.judging.get(asked.terms.who)
            if estimated is None:
                made = AskEstimate(self._context, asked.terms, Prompt())
                estimated = self.judging[asked.terms.who] = made
            (first,) = estimated.left([asked])
            estimated._meter.add(first)
            more = msgspec.structs.replace(first, likely=False, reused=0)
            for _ in range(max(0, left.kicks) + len(self.terms.escalate)):
                estimated._meter.add(more)

    def forecast(self) -> Forecast:
        made = self._in_batches(self._meter.forecast())
        grew = [_GREW] if self._grew and made.most_calls else []
        typed = [_TYPED] if self.prompt.schema is UNLOADED_SCHEMA else []
        tools = self._tools
        unseen = [_TOOLS] if isinstance(tools, ToolLoop) and not tools.loaded else []
        more = (*grew, *typed, *unseen)
        if made.most_calls:
            more = (*more, *self._unsent(), *self._unshared(), *self._all_alike())
        notes = (*made.notes, *(Note(one, made.step) for one in more))
        return msgspec.structs.replace(made, notes=notes)

    def _unsent(self) -> list[str]:
        """Parameters that some of those who would be asked do not have."""
        lacking: dict[tuple[str, ...], list[str]] = {}
        for one in self.cast.everyone:
            if named := one.asked_without(self.prompt.params):
                lacking.setdefault(named, []).append(one.id)
        return [
            f"{{}}: not sent to {', '.join(dict.fromkeys(ids))}, where it would have no effect:"
            f" {', '.join(named)}"
            for named, ids in lacking.items()
        ]

    def _unshared(self) -> Iterator[str]:
        """What a service would keep at a lower price, if it came first."""
        prompt, members = self.prompt, self.cast.members
        if prompt.user is None or prompt.cache == "off" or prompt.alone:
            return
        tokens = estimate_tokens(prompt.user.common_after(prompt.names))
        if tokens >= _WORTH and any(reading_pays(one.traits.price) for one in members):
            yield (
                f"{{}}: {tokens:,} tokens of the prompt are the same for all items, but come after what is"
                " not, so no service keeps them: put them first, or into `context`"
            )

    def _all_alike(self) -> Iterator[str]:
        """A prompt without the item, which is a mistake in most cases."""
        prompt, shown = self.prompt, ("item", "items", "steps")
        if self._tasks < 2 or not self._alike or prompt.user is None or prompt.carries is not None:
            return
        alike = all(one.takes == "messages" for one in self.cast.everyone)
        if alike and not any(map(prompt.user.uses, shown)):
            yield f"{{}}: its prompt shows nothing of an item, so one answer serves all {self._tasks:,}"

    def _in_batches(self, made: Forecast) -> Forecast:
        """Expected at the price of batches. The worst case is that all is asked online in the end."""
        stated, part = self.terms.batch, self._part
        if stated is None or not made.most_calls:
            return made
        if part is None:
            online = [_ONLINE] if self._tools is not None else []
            notes = (*made.notes, *(Note(one, made.step) for one in online))
            return msgspec.structs.replace(made, notes=notes)
        time = written(stated.seconds) if stated.seconds else "the time of the service"
        what = f"{{}}: in batches at {part:g} of the price, within {time}; what is late is asked online"
        return msgspec.structs.replace(
            made,
            p50=None if made.p50 is None else ceil(made.p50 * part),
            variance=made.variance * part * part,
            seconds=stated.seconds or DAY,
            notes=(*made.notes, Note(what, made.step), *self._not_kept(made, part)),
        )

    def _not_kept(self, made: Forecast, part: float) -> Iterator[Note]:
        """A batch service may read what is shared from a cache, or not."""
        saved = self._meter.would_save
        if made.p50 is None or saved <= 0:
            return
        what = "{}: what a batch reads from caches nobody can say: nothing is counted"
        online = made.p50 - saved
        if online < made.p50 * part:
            usd = f"${dollars(round(online)):,.2f}"
            what = f"{what}. Without `batch`, where one ask goes first, all would take about {usd}"
        yield Note(what, made.step)


def asked_by(gate: Gate, task: Task, reply: Reply) -> list[Task]:
    """What a gate would ask about a reply, if each of those it asks were content."""
    found: list[Task] = []

    async def note(asked: Task) -> Outcome:
        found.append(asked)
        return Outcome(asked.id, "passed", Reply(data={"pass": True, "score": 1e9}))

    try:
        said = gate(task, reply, note)
        if not isinstance(said, Verdict):
            said.__await__().send(None)
    except StopIteration:
        pass
    except FanfoldError:
        return []
    return found
