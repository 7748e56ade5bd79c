"""Members are asked about a sample of a plan's items, each content once: what `tune` judges ways by.

They are asked in rounds, each about more items. Who is surely beaten by somebody no dearer is not asked
again. All of it is one run: on record, within its budget, and what is on record is not asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from contextlib import aclosing
from hashlib import sha256
from heapq import nsmallest
from statistics import mean

import msgspec

from fanfold.errors import BadInput
from fanfold.journal import opening
from fanfold.members.roster import DEFAULT_ROSTER
from fanfold.observe.script import open_run
from fanfold.patterns.arguments import prompt_for
from fanfold.patterns.map_reduce import sharding_of
from fanfold.patterns.prompt import make_tasks
from fanfold.plans.carry import check_fields
from fanfold.plans.inputs import is_stream, open_input
from fanfold.plans.load import candidates, import_all
from fanfold.plans.prepare import Job
from fanfold.plans.ready import Ready
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.plans.steps.map import Map
from fanfold.price import FREE, Price, cost, dollars
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.tune.bounds import lower, upper
from fanfold.tune.features import item_features
from fanfold.tune.policy import Labelled, LabelledReply, Single
from fanfold.tune.variants import AskingStep, StepVariant, TriedVariant, sizes_of, variants_of
from fanfold.work.ask import Usage
from fanfold.work.fields import MISSING, Path, leaves, path_of
from fanfold.work.item import Item, Source
from fanfold.work.member import Traits
from fanfold.work.nearest import remedy
from fanfold.work.outcome import Outcome
from fanfold.work.shard import ShardSize
from fanfold.work.task import Terms, Who
from fanfold.work.truth import Truth, read_truth
from fanfold.work.vote import ballot

ROUNDS = (0.25, 0.5, 1.0)  # of the sample
RISK = 0.01  # that somebody is left out who is not beaten, in all rounds together


class TuningSample(msgspec.Struct, frozen=True):
    """What is asked: these members about these items, in the words of the step, of which there may be
    several `variants`: the best of them is `chosen` first. `sizes`: about how many items in one ask each
    member is asked. `field`: of a reply, that is compared. `kept`: who is asked about all items, also
    when beaten."""

    variants: tuple[StepVariant, ...]
    members: tuple[str, ...]
    items: tuple[Item, ...]
    truth: Truth
    field: Path = ()
    best: int = 0
    sizes: tuple[int, ...] = (1,)
    kept: frozenset[str] = frozenset()

    def asked(self, sizes: Sequence[int]) -> dict[str, Single]:
        """Every member with every size, by name."""
        every = (Single(member, size) for size in sizes for member in self.members)
        return {one.text(): one for one in every}

    @property
    def chosen(self) -> StepVariant:
        return self.variants[self.best]

    @property
    def step(self) -> AskingStep:
        return self.chosen.step


class AskedSample(msgspec.Struct, frozen=True):
    """`left_out`: who was not asked any more, and after how many items. `usd`: what asking took;
    `sample` is None where the replies were there already."""

    items: list[Labelled]
    left_out: dict[str, int] = {}
    usd: float = 0.0
    calls: int = 0
    sample: TuningSample | None = None
    variants: tuple[TriedVariant, ...] = ()


# ── what is to be asked ──────────────────────────────────────────────────────────────────────


class SampleOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is typed of the sample: what is right, who is tried, of which step, on how many items."""

    truth: str | None = None
    members: str = ""
    step: str | None = None
    field: str | None = None
    sample: int = 400
    prompts: str | None = None
    revise: str | None = None
    shards: str | None = None


def sample_of(job: Job, typed: SampleOptions, kept: Iterable[str] = ()) -> TuningSample:
    """What is typed, checked: nothing is asked yet."""
    truth, members, step, field = typed.truth, typed.members, typed.step, typed.field
    if truth is None:
        raise BadInput("what is right? --truth labels.csv, item.FIELD, gate, or member:ID")
    known, tuned = read_truth(truth), _step(job, step)
    named = [id for id in (word.strip() for word in members.split(",")) if id]
    if known.kind == "member":
        named = [*named, known.name] if named else named
    tried = _members(job, tuned, named)
    if known.kind == "member" and known.name not in tried:
        raise BadInput(f"--truth member:{known.name}: {remedy(known.name, tried)}")
    if known.kind == "gate" and tuned.gate is None and tuned.schema is None:
        plan = job.stored.plan
        raise BadInput("--truth gate: the step has no gate", file=plan.file, line=tuned.line)
    plan = job.stored.plan
    assert plan.input is not None
    once = plan.input.kind in ("command", "http") or is_stream(plan.input)
    spool = opening.spool(job.options.store) / job.stored.spool if once else None
    source = open_input(plan.input, plan.folder, spool=spool)
    check_fields(plan, source.walk())
    if field is None and isinstance(tuned, Ensemble):
        field = tuned.field
    variants = variants_of(plan, tuned, typed.prompts, typed.revise)
    sizes = sizes_of(plan, tuned, typed.shards)
    if known.kind == "member" and 1 not in sizes:
        raise BadInput("--truth member:ID: who is taken as right is asked alone; add 1 to --shards")
    items = drawn(source, known, typed.sample)
    return TuningSample(
        variants,
        tried,
        items,
        known,
        path_of(field),
        sizes=sizes,
        kept=frozenset((*kept, known.name)),
    )


def _step(job: Job, name: str | None) -> AskingStep:
    """The step that asks about the items of the input: the first, and a map or an ensemble."""
    plan = job.stored.plan
    if plan.input is None:
        raise BadInput("it has no input: tune needs items to try members on", file=plan.file)
    step = next(one for one in plan.steps if one.takes_items)
    if name is not None and name != step.name:
        names = [one.name for one in plan.steps]
        what = f"only the first step, `{step.name}`, can be tuned"
        if name not in names:
            what = f"there is no step `{name}`: {remedy(name, names)}"
        raise BadInput(what, file=plan.file)
    if not isinstance(step, Map | Ensemble):
        what = f"the step that is tuned must be a map or an ensemble, not `{step.name}`"
        raise BadInput(what, file=plan.file, line=step.line)
    for field in ("command", "over"):
        if getattr(step, field, None) is not None:
            what = f"a step with `{field}` cannot be tuned"
            raise BadInput(what, file=plan.file, line=step.lines.get(field, step.line))
    if step.fields_read("steps"):
        raise BadInput("its prompt reads other steps", file=plan.file, line=step.line)
    return step


def _members(job: Job, step: AskingStep, named: Sequence[str]) -> tuple[str, ...]:
    """Those who are named, or all of the roster that fit what the step needs."""
    roster = job.roster
    allowed = roster.settings.allow_paid or job.options.allow_paid
    if named:
        for id in named:
            if id not in roster.entries:
                what = f"--members: there is no member `{id}` in the roster"
                raise BadInput(f"{what}: {remedy(id, roster.entries)}")
        found = list(dict.fromkeys(named))
    else:
        fit = candidates(Who(needs=step.who.needs), roster)
        found = [
            id for id in fit
            if (allowed or roster.entries[id].traits.tier != "paid")
            and not roster.entries[id].traits.agent
        ]  # fmt: skip
    if len(found) < 2:
        what = f"there is only {found[0]}" if found else "there is nobody"
        hint = "" if allowed else "; members of tier paid need --allow-paid"
        raise BadInput(f"{what} to choose from: name others with --members{hint}")
    return tuple(found)


def drawn(source: Source, truth: Truth, most: int) -> tuple[Item, ...]:
    """Of the items whose answer is known so many, as chance would have it, and always the same."""
    known = (item for _, item in source.walk() if truth.known_for(item))
    found = nsmallest(most, known, key=lambda one: sha256(f"sample {one.id}".encode()).digest())
    truth.check(tuple(found))
    return tuple(found)


# ── asking ───────────────────────────────────────────────────────────────────────────────────


async def ask_about(sample: TuningSample, job: Job) -> AskedSample:
    """As a run of its own, named after the plan: done again, it goes on, and asks nothing twice."""
    plan, options = job.stored.plan, job.options
    import_all(plan)
    opened = open_run(
        options.name or f"tune-{plan.name}", roster=job.stored.roster or DEFAULT_ROSTER,
        budget=options.budget, store=options.store,
        allow_paid=options.allow_paid or job.roster.settings.allow_paid,
    )  # fmt: skip
    async with opened as run:
        ready = Ready(plan, {}, run)
        tried = [await _tried(run, ready, sample, n) for n in range(len(sample.variants))]
        best = max(range(len(tried)), key=lambda n: (tried[n].share, -tried[n].usd_1000, -n))
        sample = msgspec.structs.replace(sample, best=best)
        items, left_out = await _rounds(run, ready, sample)
        told = run.statistics()
    more = tuple(tried) if len(tried) > 1 else ()
    return AskedSample(items, left_out, dollars(told.cost), told.calls, sample, more)


async def _tried(run: Run, ready: Ready, sample: TuningSample, number: int) -> TriedVariant:
    """A variant, by all members on the items of the first round; one alone is not tried."""
    variant = sample.variants[number]
    if len(sample.variants) == 1:
        return TriedVariant(variant.name, 1.0, 0.0, 0)
    own = msgspec.structs.replace(sample, best=number)
    asked = own.asked(own.sizes[:1])
    terms = {
        id: _terms(ready, own.step, f"{id} ({variant.name})", one) for id, one in asked.items()
    }
    traits = {id: run.traits(terms[id])[0] for id in asked}
    rows = own.items[: round(ROUNDS[0] * len(own.items))]
    outcomes = {id: await _ask(run, ready, own, terms[id], one, rows) for id, one in asked.items()}
    there = {item.id for item in rows}
    labelled = [one for one in _labelled(own, outcomes, traits, run, terms) if one.id in there]
    replies = [reply for item in labelled for id, reply in item.replies.items()]
    share = sum(reply.right for reply in replies) / max(1, len(replies))
    usd = 1000 * sum(reply.usd for reply in replies) / max(1, len(replies))
    return TriedVariant(variant.name, share, usd, len(labelled))


async def _rounds(
    run: Run, ready: Ready, sample: TuningSample
) -> tuple[list[Labelled], dict[str, int]]:
    """Round after round; and who was left out."""
    every = sample.asked(sample.sizes)
    outcomes: dict[str, dict[str, Outcome]] = {id: {} for id in every}
    terms = {id: _terms(ready, sample.step, id, one) for id, one in every.items()}
    traits = {id: run.traits(terms[id])[0] for id in every}
    asked, left_out, done = list(every), dict[str, int](), 0
    for part in ROUNDS:
        end = round(part * len(sample.items))
        rows = sample.items[done:end]
        streams = (_ask(run, ready, sample, terms[id], every[id], rows) for id in asked)
        found = await asyncio.gather(*streams, return_exceptions=True)
        for id, answers in zip(asked, found, strict=True):
            if isinstance(answers, BaseException):
                raise answers
            outcomes[id] |= answers
        done = end
        labelled = _labelled(sample, outcomes, traits, run, terms)
        _check_right(sample, labelled[:done])
        if done < len(sample.items):
            beaten = _beaten(labelled[:done], asked) - sample.kept
            left_out |= dict.fromkeys(beaten, done)
            asked = [id for id in asked if id not in beaten]
    return labelled, left_out


def _check_right(sample: TuningSample, items: Sequence[Labelled]) -> None:
    """Where nobody is ever right, labels and replies speak of different things: no more is spent."""
    if any(reply.right for item in items for reply in item.replies.values()):
        return
    said = ((id, item, reply) for item in items for id, reply in item.replies.items())
    first = next((one for one in said if one[2].answer is not None), None)
    what = f"no reply is right, of {len(sample.members)} members on {len(items)} items"
    if first is None:
        lacking = f" and has the field {'.'.join(sample.field)}" if sample.field else ""
        raise BadInput(f"{what}: none passed the gate{lacking}")
    id, item, reply = first
    truth = next(sample.truth.of(one) for one in sample.items if one.id == item.id)
    more = "; which --field of it is compared?" if str(reply.answer).startswith("{") else ""
    raise BadInput(f"{what}: of {item.id} {id} says {reply.answer}, and right is {truth}{more}")


def _terms(ready: Ready, step: AskingStep, called: str, who: Single) -> Terms:
    alone = msgspec.structs.replace(step, who=Who(members=(who.member,)), escalate=(), hedge=None)
    return ready.terms(alone, f"{step.name} by {called}")


async def _ask(
    run: Run, ready: Ready, sample: TuningSample, terms: Terms, who: Single, items: Sequence[Item]
) -> dict[str, Outcome]:
    """An answer out of a shard is on record as one that was asked alone, so another size is another
    sample: it does not take what the first one said."""
    batch = await run.plan(Rows(items), terms, name=f"{terms.step}, from {items[0].id}")
    made = prompt_for(run, terms, ready.prompt(sample.step))
    prompt = msgspec.structs.replace(made, sample=sample.sizes.index(who.at_once))
    tasks = make_tasks(run.remaining(batch, terms), batch.no, terms, prompt)
    size = ShardSize(items=who.at_once) if who.at_once > 1 else None
    sharding = sharding_of(prompt, size, len(items))
    async with aclosing(run.stream(tasks, sharding, terms=terms)) as landing:
        return {outcome.id: outcome async for outcome in landing}


def _labelled(
    sample: TuningSample,
    outcomes: dict[str, dict[str, Outcome]],
    traits: dict[str, Traits],
    run: Run,
    terms: dict[str, Terms],
) -> list[Labelled]:
    seconds = {
        id: mean(run.store.read.latencies(one.id, one.answerer, terms[id].step) or [0.0])
        / Single.named(id).at_once
        for id, one in traits.items()
    }
    found, features = [], item_features(sample.items, sample.truth)
    for item in sample.items:
        truth = sample.truth.of(item)
        if sample.truth.kind == "member":
            truth = _answer(outcomes[sample.truth.name].get(item.id), sample.field)
            if truth is None:
                continue  # who is taken as right has said nothing
        replies = {
            id: _reply(own[item.id], sample, truth, _price_of(id, traits[id]), seconds[id])
            for id, own in outcomes.items()
            if item.id in own
        }
        found.append(Labelled(item.id, replies, features.get(item.id, {})))
    return found


def _reply(
    outcome: Outcome, sample: TuningSample, truth: str | None, price: Price, seconds: float
) -> LabelledReply:
    answer = _answer(outcome, sample.field)
    by_gate = sample.truth.kind == "gate"
    right = outcome.state == "passed" if by_gate else answer is not None and answer == truth
    return LabelledReply(answer, right, _usd(outcome, price), seconds)


def _answer(outcome: Outcome | None, field: Path) -> str | None:
    if outcome is None or outcome.state != "passed":
        return None
    value = next((leaf for _, leaf in leaves(outcome.value, field)), MISSING)
    return None if value is MISSING else ballot(value)


def _price_of(called: str, traits: Traits) -> Price:
    """Of its answer about one item: those of one ask share what a call costs."""
    price = traits.price or FREE
    return msgspec.structs.replace(price, call=price.call / Single.named(called).at_once)


def _usd(outcome: Outcome, price: Price) -> float:
    """What it took; of a reply that was on record, what it took then."""
    if outcome.cost:
        return dollars(outcome.cost)
    reply = outcome.reply
    if reply is None:
        return 0.0
    if reply.cost_usd is not None:
        return reply.cost_usd
    usage = outcome.usage or reply.usage or Usage()
    return dollars(cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write))


def _beaten(items: Sequence[Labelled], members: Collection[str]) -> set[str]:
    """Who is worse than somebody no dearer, by bounds that hold for all at once."""
    of = {id: [item.replies[id] for item in items if id in item.replies] for id in members}
    risk = RISK / (len(of) * (len(ROUNDS) - 1))
    usd = {id: mean(one.usd for one in own) for id, own in of.items() if own}
    right = {id: (sum(one.right for one in own), len(own)) for id, own in of.items() if own}
    return {
        id for id in usd
        if any(usd[other] <= usd[id] and lower(*right[other], risk) > upper(*right[id], risk)
                for other in usd if other != id)
    }  # fmt: skip
