"""One item of a run: its input, what was sent about it and what came back. Nothing is run for that.

Prompts are rendered again from the plan that the run was started with. The key of a reply on record
tells whether that is what was sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fanfold.errors import BadInput, FanfoldError
from fanfold.journal.answers import AttemptRecord, GivenReply, KeptPrompt, PlannedItem, StepEnding
from fanfold.journal.contract import StoreView
from fanfold.journal.facts import RunRecord
from fanfold.journal.questions import ReportQuestions
from fanfold.plans.asking import Asking
from fanfold.plans.ballots import asked_of_all, cast, vote_step
from fanfold.plans.flow import leg
from fanfold.plans.inputs import is_stream, open_input, spool_file
from fanfold.plans.plan import Plan
from fanfold.plans.prepare import Stored, stored_with
from fanfold.plans.reading import inspecting_resolver
from fanfold.plans.ready import Ready
from fanfold.plans.retrace import NONE_YET, keys_of, retraced
from fanfold.plans.steps.ensemble import QUESTION, Ensemble
from fanfold.plans.steps.kind import OwnItem
from fanfold.plans.steps.plan_entry import AnyStep
from fanfold.run.item_view import InputView, ItemView, PromptView, StepView, VoteView
from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item, Source, hash_of
from fanfold.work.nearest import alike
from fanfold.work.task import Task

_SPOOLED = ("command", "http")
KEEP = "state `keep: prompts` in the plan to have prompts stored"
CHANGED = "the input has changed since, so this is not what was sent"
Values = dict[str, Any]


def find_item(archive: StoreView, record: RunRecord, id: str) -> list[ItemView]:
    """Each item of that id; a run may have one in several batches. BadInput: there is none."""
    read = archive.read
    planned = read.find_items(record.no, id)
    if not planned:
        ids = read.item_ids(record.no)
        like = " or ".join(map(repr, alike(id, ids)))
        known = f"did you mean {like}?" if like else f"there are: {', '.join(ids[:8]) or 'none'}"
        raise BadInput(f"no item {id!r} in run {record.name}; {known}")
    stored = stored_with(record) if record.plan else None
    return [_Item(archive, record, stored, one).view() for one in planned]


def first_prompt(plan: Plan, source: Source | None) -> tuple[str, Item, Ask] | None:
    """What the first step would send about the first item; None where that is not known before."""
    entry = next(source.walk(), None) if source is not None else None
    for step in plan.steps:
        own = next(step.own_items(), None)
        if own is not None:
            return step.name, *step.own_ask(own, Ready(plan, {}, None, inspecting_resolver), {})
        if step.takes_items and step.produced_by is None:
            name, stage = next(step.item_asks())
            if entry is None or isinstance(stage, str):
                return None
            return (
                name,
                entry[1],
                Ready(plan, {}, None, inspecting_resolver).prompt(stage).ask((entry[1],)),
            )
    return None


class _Item:
    """What is on record about one item, put beside what the plan says of it."""

    def __init__(
        self, archive: StoreView, record: RunRecord, stored: Stored | None, planned: PlannedItem
    ) -> None:
        self._read: ReportQuestions = archive.read
        self._record, self._stored, self._planned = record, stored, planned
        self._folder = archive.files
        self._names = self._read.step_names(record.no)
        self._endings = self._read.step_endings(record.no, planned)
        self._values = {
            self._names[one.step]: one.reply.value
            for one in self._endings
            if one.state == "passed" and one.reply is not None
        }

    def view(self) -> ItemView:
        shown, item = self._input()
        asks = dict(self._asks(item))
        kept = self._read.kept_prompts(self._record.no, self._planned.id)
        tried = self._read.item_attempts(self._record.no, self._planned.id)
        by_step = {self._names[one.step]: one for one in self._endings}
        asked = {one.step for one in tried} | {one.step for one in kept}
        own = {self._names[step] for step in asked if self._is_of_batch(step)}
        steps = [name for name in self._names if name in by_step or name in asks or name in own]
        views = [
            self._step(name, by_step.get(name), asks.get(name), kept, tried, shown)
            for name in steps
        ]
        return ItemView(self._planned.id, self._planned.of, shown, tuple(views))

    def _is_of_batch(self, step: int) -> bool:
        """An id may occur in several batches: an attempt is of the one whose steps it is at."""
        if self._planned.of == "input":
            return True
        return self._names[step] == self._planned.of or step in {e.step for e in self._endings}

    def _step(
        self,
        name: str,
        ending: StepEnding | None,
        ask: Ask | Task | str | None,
        kept: list[KeptPrompt],
        tried: list[AttemptRecord],
        given: InputView,
    ) -> StepView:
        number, vote = self._names.index(name), self._vote(name)
        sent = [one for one in kept if one.step == number]
        attempts = tuple(one for one in tried if one.step == number)
        prompts = (
            self._sent(sent, ending) if sent else self._made_again(ask, ending, given, attempts)
        )
        if vote is not None:
            prompts = asked_of_all(
                self._rendered(ask.ask if isinstance(ask, Task) else ask, ending, given)
            )
        if ending is None:
            return StepView(name, prompts=prompts, attempts=attempts)
        return StepView(
            name, ending.state, ending.reasons, ending.member, ending.cost, ending.calls, prompts,
            ending.reply, attempts, ending.damaged, self._cast(vote, ask, ending, given, tried),
            "" if vote is None else vote.decided_by(),
        )  # fmt: skip

    def _vote(self, name: str) -> Ensemble | None:
        return None if self._stored is None else vote_step(self._stored.plan, name)

    def _cast(
        self,
        vote: Ensemble | None,
        ask: Ask | Task | str | None,
        ending: StepEnding,
        given: InputView,
        tried: list[AttemptRecord],
    ) -> tuple[VoteView, ...]:
        if self._stored is None or vote is None or not isinstance(ask, Task) or given.note:
            return ()
        return cast(self._read, self._stored, vote, ask, ending, tried)

    # ── prompts ──

    def _sent(self, sent: list[KeptPrompt], ending: StepEnding | None) -> tuple[PromptView, ...]:
        replies = self._read.replies_to(one.key for one in sent)
        last = None if ending is None else (ending.key, ending.member)
        return tuple(
            PromptView(
                "stored", one.messages, "", one.member,
                None if (one.key, one.member) == last else _by(one.member, replies.get(one.key)),
            )
            for one in sent
        )  # fmt: skip

    def _made_again(
        self,
        ask: Ask | Task | str | None,
        ending: StepEnding | None,
        given: InputView,
        tried: tuple[AttemptRecord, ...],
    ) -> tuple[PromptView, ...]:
        if isinstance(ask, Task):
            found = () if given.note else retraced(self._read, ask, ending, tried)
            return found or self._rendered(ask.ask, ending, given)
        return self._rendered(ask, ending, given)

    def _rendered(
        self, ask: Ask | str | None, ending: StepEnding | None, given: InputView
    ) -> tuple[PromptView, ...]:
        if ask is None or isinstance(ask, str):
            why = ask or "it is not known how it was made"
            return (PromptView("unknown", note=f"{why}; {KEEP}"),)
        keys = keys_of(ask)
        replies = self._read.replies_to(keys)
        if ending is not None and ending.key in keys:
            return (PromptView("matches", ask.messages),)
        if replies:  # the first ask of several: what came back was kicked back
            given_first = next(iter(replies.values()))[-1]
            return (
                PromptView(
                    "matches", ask.messages, member=given_first.member, reply=given_first.reply
                ),
            )
        if given.note:
            return (PromptView("changed", ask.messages, CHANGED),)
        if ending is not None and ending.key is not None:
            note = f"it is not what was sent: it depends on more than the item; {KEEP}"
            return (PromptView("changed", ask.messages, note),)
        return (PromptView("unchecked", ask.messages, NONE_YET),)

    def _asks(self, item: Item | None) -> Iterator[tuple[str, Ask | Task | str]]:
        """By step: what it was asked there, or why that is not known."""
        if self._stored is None:
            return
        plan, id = self._stored.plan, self._planned.id
        for step in plan.steps:
            if own := _own(step, id):
                yield step.name, self._own_ask(plan, step, own)
        if self._planned.of == "input" and item is not None:
            yield from self._through(plan, item)

    def _through(self, plan: Plan, item: Item) -> Iterator[tuple[str, Ask | Task | str]]:
        """An item of the input, through the steps as far as it came."""
        first = next((n for n, step in enumerate(plan.steps) if step.takes_items), None)
        if first is None:
            return
        seen, earlier = item, Values()
        for step in leg(plan.steps, first):
            for name, asking in step.item_asks():
                yield name, _asked(plan, name, asking, seen)
                if name not in self._values:
                    return
                earlier[name] = self._values[name]
                seen = Item(item.id, {**item.view(), "steps": dict(earlier)})

    def _own_ask(self, plan: Plan, step: AnyStep, own: OwnItem) -> Ask | str:
        replies = {id: value for id in own.waits_for for value in self._passed(id)}
        try:
            return step.own_ask(own, Ready(plan, {}, None, inspecting_resolver), replies)[1]
        except FanfoldError as error:
            return f"it cannot be rendered: {error}"

    def _passed(self, id: str) -> Iterator[Any]:
        """The reply of another item of the same step, if it passed."""
        for other in self._read.find_items(self._record.no, id):
            if other.batch == self._planned.batch:
                for one in self._read.step_endings(self._record.no, other):
                    if one.state == "passed" and one.reply is not None:
                        yield one.reply.value

    # ── the input ──

    def _input(self) -> tuple[InputView, Item | None]:
        stored, planned = self._stored, self._planned
        if stored is None:
            return InputView(False, note="a script gave it, and only the script can again"), None
        if planned.of != "input":
            return self._made(stored.plan)
        if stored.plan.input is None:
            return InputView(True, where=f"{stored.plan.file} (one question)"), QUESTION
        try:
            source = _opened(stored, self._folder)
            found = next(_at(source, planned.position), None)
        except FanfoldError as error:
            return InputView(False, note=str(error)), None
        if found is None or found.id != planned.id:
            return InputView(
                False, note="the input has changed since: it is not there any more"
            ), None
        where = source.where(planned.position)
        note = "" if hash_of(found.data) == planned.hash else "the input has changed since"
        return InputView(True, found.data, where, note), found

    def _made(self, plan: Plan) -> tuple[InputView, None]:
        """What a step brought along itself; or what an earlier step gave."""
        for step in plan.steps:
            if own := _own(step, self._planned.id):
                return InputView(True, own.data, f"{plan.file}, {step.name}"), None
        return InputView(
            False, note=f"step {self._planned.of} worked on what another step gave"
        ), None


def _at(source: Source, position: int) -> Iterator[Item]:
    for at, item in source.walk(bytes([1]) * position):
        if at >= position:
            yield item
            return


def _opened(stored: Stored, folder: Path) -> Any:
    """The input, as far as it can be read without running or fetching anything."""
    spec, spool = stored.plan.input, folder / "inputs" / stored.spool
    assert spec is not None
    if (spec.kind in _SPOOLED or is_stream(spec)) and not spool_file(spec, spool).exists():
        raise FanfoldError("what the input gave then is not kept any more")
    return open_input(spec, stored.plan.folder, spool=spool)


# ── what a plan asks ─────────────────────────────────────────────────────────────────────────


def _own(step: AnyStep, id: str) -> OwnItem | None:
    return next((own for own in step.own_items() if own.id == id), None)


def _asked(plan: Plan, step: str, asking: Asking | str, item: Item) -> Ask | Task | str:
    """With its terms, where these are known without an import."""
    if isinstance(asking, str):
        return asking
    ready = Ready(plan, {}, None, inspecting_resolver)
    try:
        ask = ready.prompt(asking).ask((item,))
        known = asking.schema_type is None
        return Task(item.id, ask, ready.terms(asking, step)) if known else ask
    except FanfoldError as error:
        return f"it cannot be rendered: {error}"


def _by(member: str, given: list[GivenReply] | None) -> Reply | None:
    """The newest of that member's; of another one if it has none."""
    newest = given[::-1] if given else []
    return next(
        (one.reply for one in newest if one.member == member), newest[0].reply if newest else None
    )
