"""The conductor: plan the whole batch, fan out, wait for all, let the gate doubt every result, kick
back once, and make the answer of only what passed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, Unpack, cast

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.default import default
from fanfold.patterns.arguments import Folded, PatternOptions, pattern, prompt_for, terms_of
from fanfold.patterns.asked_reduce import (
    AskedReduce,
    begin_synthesis,
    expect_tree,
    named_after,
    synthesis,
)
from fanfold.patterns.prompt import Prompt, check_prompt, make_task, prompt_of, readable
from fanfold.run.judging import call_gate
from fanfold.run.planning import Batch
from fanfold.run.pool import in_order
from fanfold.run.run import Run
from fanfold.run.sources import Rows
from fanfold.work.arguments import public
from fanfold.work.ask import Reply
from fanfold.work.check import whole
from fanfold.work.item import Source
from fanfold.work.kick_back import STATE_OF, KickBacks
from fanfold.work.options import needed, plain_function
from fanfold.work.outcome import PASS, Outcome, Part, Verdict, fail, unjudged
from fanfold.work.task import AskPower, Gate, Place, Reducer, Task, Terms, Who, reads_of

AT_ONCE = 7
MOST = 40

Faults: TypeAlias = Mapping[Any, str | Iterable[str]]
Say: TypeAlias = Callable[[str], object]

_LACKS = "missing or empty: "  # how `require` begins its reason


class OverAll(msgspec.Struct, frozen=True):
    """A gate over all results together, for the conductor. Elsewhere nothing passes it."""

    fn: Callable[[list[Part]], Faults | Awaitable[Faults]]
    each: Gate | None = None

    def __call__(self, task: Task, reply: Reply, ask: AskPower) -> Verdict:
        return unjudged("a gate over all results needs the conductor")


@public
def over_all(
    fn: Callable[[list[Part]], Faults | Awaitable[Faults]], each: Gate | None = None
) -> OverAll:
    """A gate that sees all results at once: two that say the same, a sum that is not 100.

    `fn` gets what passed `each`, in planned order (`id`, `position`, `value`), and returns
    {id: reason or reasons} of those that are to be kicked back. It may be async.
    """
    if not callable(fn):
        raise BadInput(f"`over_all` needs a function of the results, not {fn!r}")
    return OverAll(fn, each)


@pattern
async def conduct(
    run: Run,
    specs: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    synthesise: Reducer | AskedReduce | None = None,
    at_once: int = AT_ONCE,
    most: int = MOST,
    say: Say = print,
    **how: Unpack[PatternOptions],
) -> Folded:
    """Carry out all `specs`, at most `at_once` at a time; when all have returned, the `gate` goes
    over the results, and those that fail are kicked back once (`revise`) with its reasons.

    Only what passed reaches `synthesise`; without it the value is a list of {"id", "value"}.
    `gate` is an ordinary gate for each result, or `over_all(...)`. `say` is told what the gate
    caught, a line at a time. A worker that fails is left out, and the run is flagged. A `keep`
    filters what comes back, before the gate.
    """
    if "concurrency" in how:
        raise BadInput("conduct: say `at_once`, not `concurrency`")
    say = needed("say", say, plain_function)
    rows = _few(specs, most)
    made = prompt_of(prompt, schema, how=how)
    stated = how.get("gate")
    whole = stated if isinstance(stated, OverAll) else None
    if whole is not None:
        how = cast(PatternOptions, {**how, "gate": whole.each})
    terms = terms_of(how, made.schema, "conduct")
    terms = msgspec.structs.replace(terms, concurrency=_whole_number("at_once", at_once))
    synthesise = named_after(synthesise, terms.step)
    await begin_synthesis(run, synthesise)
    check_prompt(made, terms, run.traits(terms))
    source = readable(Rows(rows), [made], reads_of(terms.gate))
    batch = await run.plan(source, terms)
    if isinstance(synthesise, AskedReduce):
        expect_tree(run, synthesise, batch.size)
    outcomes = await conduct_batch(run, batch, terms, made, whole, say)
    value = await synthesis(run, outcomes, synthesise)
    return Folded(value, run.receipt(), run, batch, terms)


def check_size(specs: int, most: int) -> None:
    """Before anything starts: a batch is planned whole, and not larger than it was meant to be."""
    if specs > _whole_number("most", most):
        raise BadInput(f"there are more than {most} specs; raise `most`, or conduct them in phases")


def _few(specs: Source | Iterable[Any], most: int) -> list[Any]:
    if isinstance(specs, str | bytes | Mapping) or not isinstance(specs, Source | Iterable):
        raise BadInput(f"`specs` must be a list, not {type(specs).__name__}")
    items = (item for _, item in specs.walk()) if isinstance(specs, Source) else specs
    rows = list(islice(items, _whole_number("most", most) + 1))
    check_size(len(rows), most)
    return rows


def _whole_number(name: str, given: Any) -> int:
    found: int = needed(name, given, whole(least=1))
    return found


# ── the loop ─────────────────────────────────────────────────────────────────────────────────


async def conduct_batch(
    run: Run,
    batch: Batch,
    terms: Terms,
    prompt: Prompt,
    whole: OverAll | None = None,
    say: Say = print,
) -> list[Outcome]:
    """The loop over a planned batch: how each item ended, in planned order, also in the journal.

    `terms.gate` is for each result, `whole` for all of them. Results are held in memory until the
    last one is judged, so see to `check_size` before the batch is planned.
    """
    prompt = prompt_for(run, terms, prompt)
    run.recall(batch, terms)
    asking = msgspec.structs.replace(
        terms, gate=default(prompt.schema), revise=0, escalate=(), on_failure="skip"
    )
    judging = msgspec.structs.replace(terms, keep=None)  # the filter comes with the ask
    found = [
        ConductedResult(make_task(prompt, item, judging, Place(batch.no, position)), asking)
        for position, item in batch.source.walk()
    ]
    await _fan_out(run, found)
    say(_returned(found))
    await _judge(run, found, whole)
    say(_judged(found))
    _say_caught(say, [one for one in found if one.caught])
    while again := [one for one in found if one.can_go_back]:
        for one in again:
            one.kick_back()
        await _fan_out(run, again)
        await _judge(run, found, whole)
        for one in again:
            if one.has_passed:
                say(f"  gate: result {one.task.id} revised -> passed")
        _say_caught(say, [one for one in found if one.can_go_back])
    say("")
    for one in found:
        one.settle(run)
    await run.flush()
    return [one.outcome for one in found if one.outcome is not None]


class ConductedResult:
    """One worker's result on its way through the gate.

    `ask` has no place and not the stated gate, which comes at the barrier; and whether a failure
    holds or aborts the run is up to the outcome. `own` is the verdict on the result alone,
    `verdict` the one that counts. `outcome`: it has ended.
    """

    __slots__ = ("ask", "kicks", "outcome", "own", "reply", "task", "verdict")

    def __init__(self, task: Task, asking: Terms) -> None:
        self.task, self.ask = task, msgspec.structs.replace(task, place=None, terms=asking)
        self.kicks = KickBacks()
        self.reply: Outcome | None = None
        self.own: Verdict | None = None
        self.verdict: Verdict | None = None
        self.outcome: Outcome | None = None

    @property
    def has_passed(self) -> bool:
        """It has passed, as far as it was judged."""
        return self.verdict is not None and self.verdict.passed

    @property
    def caught(self) -> bool:
        return self.reply is not None and self.verdict is not None and not self.verdict.passed

    @property
    def can_go_back(self) -> bool:
        terms, verdict = self.task.terms, self.verdict
        failed = verdict is not None and verdict.state == "fail"
        return self.outcome is None and failed and self.kicks.remain(terms)

    def kick_back(self) -> None:
        assert self.reply is not None and self.reply.reply is not None and self.verdict is not None
        again = self.kicks.next(self.task, self.ask.ask, self.reply.reply, self.verdict.reasons)
        terms, self.kicks = self.ask.terms, again.kicks
        if again.member is not None:
            terms = msgspec.structs.replace(terms, who=Who(members=(again.member,)))
        self.ask = msgspec.structs.replace(self.ask, ask=again.ask, terms=terms)

    def land(self, run: Run, outcome: Outcome) -> None:
        """A reply waits for the gate. Without one, or filtered out, it has ended."""
        if outcome.state in ("passed", "kicked"):
            self.reply = outcome
            self.own = None if outcome.state == "passed" else Verdict("fail", outcome.reasons)
        else:
            self.outcome = run.settle(self.task, outcome)

    def settle(self, run: Run) -> None:
        if self.outcome is None and self.reply is not None and self.verdict is not None:
            given, said = self.reply, self.verdict
            ended = Outcome(given.id, STATE_OF[said.state], given.reply, said.reasons, given.member)
            self.outcome = run.settle(self.task, ended)


async def _fan_out(run: Run, results: Sequence[ConductedResult]) -> None:
    """Fan out, and wait for all: the barrier."""
    asked = {one.task.id: one for one in results}
    async for outcome in run.stream([one.ask for one in results]):
        asked[outcome.id].land(run, outcome)


async def _judge(run: Run, results: Sequence[ConductedResult], whole: OverAll | None) -> None:
    """Each new result alone, then all that stand together. What is final is written down."""
    new = [one for one in results if one.reply is not None and one.own is None]
    verdicts = await in_order(new, partial(_verdict, run))
    for one, said in zip(new, verdicts, strict=True):
        one.own = said
    live = [one for one in results if one.outcome is None]
    for one in live:
        one.verdict = one.own
    standing = [one for one in live if one.has_passed]
    if whole is None:
        for one in live:
            if not one.can_go_back:
                one.settle(run)
    elif standing:
        for one, said in zip(standing, await _verdicts(whole, standing), strict=True):
            one.verdict = said


async def _verdict(run: Run, result: ConductedResult) -> Verdict:
    assert result.reply is not None and result.reply.reply is not None
    _, verdict = await run.judge(result.task, result.reply.reply)
    return verdict


async def _verdicts(whole: OverAll, standing: Sequence[ConductedResult]) -> list[Verdict]:
    """A gate that raises, or names what is no result, has judged nothing."""
    ids = [one.task.id for one in standing]

    async def judge_all() -> list[Verdict]:
        said = whole.fn([_part(one) for one in standing])
        said = await said if isinstance(said, Awaitable) else said
        faults = {str(id): why for id, why in said.items()}
        strange = next((id for id in faults if id not in ids), None)
        if strange is not None:
            raise BadInput(f"it named {strange!r}, which is no result")
        return [_fault(faults.get(id, ())) for id in ids]

    found = await call_gate(judge_all)
    return [found] * len(ids) if isinstance(found, Verdict) else found


def _part(result: ConductedResult) -> Part:
    assert result.reply is not None and result.task.place is not None
    return Part(result.task.id, result.task.place.position, result.reply.value)


def _fault(why: str | Iterable[str]) -> Verdict:
    reasons = [why] if isinstance(why, str) else [str(reason) for reason in why]
    return fail(*reasons) if any(reasons) else PASS


# ── what is said ─────────────────────────────────────────────────────────────────────────────


def _returned(results: Sequence[ConductedResult]) -> str:
    ended = [one.outcome for one in results if one.outcome is not None]
    gone = [outcome for outcome in ended if outcome.reply is None]
    fanned_out = f"fanned out {len(results)} worker{'' if len(results) == 1 else 's'}"
    if not gone:
        return f"{fanned_out}; all returned"
    listed = "; ".join(f"{outcome.id} {_briefly(outcome.reasons)}" for outcome in gone)
    return f"{fanned_out}; {len(results) - len(gone)} returned, {len(gone)} failed: {listed}"


def _judged(results: Sequence[ConductedResult]) -> str:
    states = [one.verdict.state for one in results if one.verdict is not None]
    line = f"{states.count('pass')} passed, {states.count('fail')} kicked back"
    if left := states.count("unjudged"):
        line += f", {left} unjudged"
    return f"{line} -> revise" if any(one.can_go_back for one in results) else line


def _say_caught(say: Say, caught: Sequence[ConductedResult]) -> None:
    for one in caught:
        assert one.verdict is not None
        what = "kicking back before synthesis" if one.can_go_back else "left out of the synthesis"
        say(f"  gate: result {one.task.id} {_briefly(one.verdict.reasons)} -> {what}")


def _briefly(reasons: Sequence[str]) -> str:
    """On one line, and for a missing field in as few words as there are."""
    return "; ".join(" ".join(_short(reason).split()) for reason in reasons)


def _short(reason: str) -> str:
    if not reason.startswith(_LACKS):
        return reason
    return "missing " + reason.removeprefix(_LACKS).replace("`", "").replace(", ", ",")
