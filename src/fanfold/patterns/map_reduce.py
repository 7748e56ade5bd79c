"""MapReduce: the same ask over many items, then many passed replies into one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.gates.default import standard
from fanfold.run.pursuit import Pursuit
from fanfold.run.run import Batch, Run
from fanfold.run.sources import source_of
from fanfold.run.stream import Sharding
from fanfold.work.ask import Ask, Message, Params, Reply, Schema
from fanfold.work.item import Item, Source
from fanfold.work.outcome import Receipt
from fanfold.work.split import estimate_tokens, shard_ask, take_apart
from fanfold.work.task import Budget, Gate, InDoubt, OnFailure, Place, Reducer, Task, Terms, Who
from fanfold.work.template import Template

KNOWN_NAMES = frozenset({"item", "items", "steps", "task"})


class Prompt(msgspec.Struct, frozen=True):
    """How items become an ask. Without a prompt only functions and commands can be asked."""

    user: Template | None = None
    system: Template | None = None
    schema: Schema | None = None
    params: Params = Params()
    names: dict[str, Any] = {}

    def ask(self, items: tuple[Item, ...]) -> Ask:
        messages: tuple[Message, ...] = ()
        if self.user is not None:
            views = [item.view() for item in items]
            given = self._given(views)
            messages = (Message("user", self.user.render(**given)),)
            if self.system is not None:
                messages = (Message("system", self.system.render(**given)), *messages)
        return Ask(messages, items, (), self.schema, self.params)

    def rendered_together(self, items: tuple[Item, ...]) -> str | None:
        """One text for a whole shard, when the prompt was written for several items."""
        if self.user is None or not self.user.uses("items"):
            return None
        return self.user.render(**self._given([item.view() for item in items]))

    def _given(self, views: list[dict[str, Any]]) -> dict[str, Any]:
        steps = views[0].get("steps", {})
        return {**self.names, "item": views[0], "items": views, "steps": steps}


class How(TypedDict, total=False):
    """The terms of a map: who answers, how replies are judged, what happens when it goes wrong."""

    step: str
    member: str
    members: Sequence[str]
    needs: Sequence[str]
    use: int
    gate: Gate
    revise: int
    escalate: Sequence[str]
    on_failure: OnFailure
    in_doubt: InDoubt
    attempts: int
    concurrency: int
    budget: Budget
    keep: Callable[[Any], bool]
    shard: int


class Folded(msgspec.Struct, frozen=True):
    """The result, and the account as it stood when the result was made."""

    value: Any
    receipt: Receipt


async def map_reduce(
    run: Run,
    items: Source | Iterable[Any],
    *,
    prompt: str | None = None,
    schema: dict[str, Any] | type | None = None,
    reduce: Reducer | None = None,
    **how: Unpack[How],
) -> Folded:
    """Ask `prompt` about each item, gate the replies, and reduce what passed.

    Without `reduce` the value is None and the replies stay in the journal: a million of them
    never sit in memory. `shard=n` sends n items in one ask.
    """
    made = Schema.of(_definition(schema)) if schema is not None else None
    user = None if prompt is None else Template(prompt, name="prompt", known=KNOWN_NAMES)
    asked = Prompt(user, None, made)
    shard = how.get("shard")
    terms = _terms(how, made)
    batch = await run.plan(source_of(items, run.spool), terms)
    sharding = None if shard is None else sharding_of(asked, items=shard)
    await map_batch(run, batch, terms, asked, sharding)
    value = fold(run, batch, terms, reduce)
    return Folded(value, run.receipt())


async def map_batch(
    run: Run, batch: Batch, terms: Terms, prompt: Prompt, shard: Sharding | None = None
) -> None:
    """Carry every item of a batch through one step. The replies are in the journal afterwards."""
    if not run.reads_messages(terms):
        prompt = Prompt(schema=prompt.schema, params=prompt.params)
    tasks = make_tasks(run.remaining(batch, terms), batch, terms, prompt)
    await run.drain(tasks, shard)


def make_tasks(
    items: Iterable[tuple[int, Item]], batch: Batch, terms: Terms, prompt: Prompt
) -> Iterator[Task]:
    """A prompt that cannot be rendered for one item is that item's flaw, not the run's."""
    for position, item in items:
        place = Place(batch.no, position)
        try:
            yield Task(item.id, prompt.ask((item,)), terms, place)
        except FanfoldError as error:
            yield Task(item.id, Ask(items=(item,)), terms, place, str(error))


def fold(run: Run, batch: Batch, terms: Terms, reduce: Reducer | None) -> Any:
    """The pure reduce, over what passed, in planned order."""
    if reduce is None:
        return None
    value = reduce(run.passed(batch, terms))
    run.set_result(value)
    return value


def sharding_of(prompt: Prompt, *, items: int | None = None, tokens: int | None = None) -> Sharding:
    """How several of these asks become one, and its reply several again."""

    def together(
        pursuits: tuple[Pursuit, ...],
    ) -> tuple[Ask, Callable[[Reply], dict[str, Reply]]]:
        asks = [(pursuit.task.id, pursuit.ask) for pursuit in pursuits]
        whole = tuple(item for _, ask in asks for item in ask.items)
        ids = [id for id, _ in asks]
        made = shard_ask(asks, prompt.rendered_together(whole))
        typed = prompt.schema is not None or pursuits[0].circle.takes == ("items",)
        return made, lambda reply: take_apart(reply, ids, typed)

    return Sharding(together, _size, items, tokens)


def _size(task: Task) -> int:
    return sum(estimate_tokens(message.content) for message in task.ask.messages) or 1


def _terms(how: How, schema: Schema | None) -> Terms:
    members = how.get("members", ())
    who = Who(
        tuple([how["member"]] if "member" in how else members), tuple(how.get("needs", ())),
        how.get("use"),
    )  # fmt: skip
    keep = how.get("keep")
    return Terms(
        step=how.get("step", "map"), gate=standard(how.get("gate"), schema), who=who,
        revise=how.get("revise", 1), escalate=tuple(how.get("escalate", ())),
        on_failure=how.get("on_failure", "skip"), in_doubt=how.get("in_doubt"),
        attempts=how.get("attempts", 4), concurrency=how.get("concurrency", 8),
        budget=how.get("budget", Budget()),
        keep=None if keep is None else lambda task, reply: bool(keep(reply.value)),
    )  # fmt: skip


def _definition(schema: dict[str, Any] | type) -> dict[str, Any]:
    """A JSON Schema as it is, or that of a pydantic model."""
    if isinstance(schema, dict):
        return schema
    definition = getattr(schema, "model_json_schema", None)
    if definition is None:
        raise BadInput("schema must be a JSON Schema (a dict) or a pydantic model class")
    made: dict[str, Any] = definition()
    return made
