"""What is handed over when work is delegated, what comes back, and who may take it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from fanfold.errors import BadInput
from fanfold.members.route import Need, lacking, obstacles
from fanfold.patterns.asked_reduce import PART_NAMES, AskedReduce
from fanfold.patterns.prompt import Prompt, prompt_of
from fanfold.patterns.reduce import Landing, Reducing, grow
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.work.ask import Params, Usage
from fanfold.work.member import Traits
from fanfold.work.nearest import remedy
from fanfold.work.outcome import Outcome, Part, State
from fanfold.work.split import estimate_tokens
from fanfold.work.task import Task, Terms

Status = Literal["ok", "no_fit", "error", "kicked", "unfunded"]

MOST_NAMED = 5  # members whose obstacles are told when nobody fits
_STATUS: dict[State, Status] = {"passed": "ok", "kicked": "kicked", "unfunded": "unfunded"}


class DelegatedTask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task for somebody else. Who takes it: `member`, else whoever is good at all `needs`,
    else (`local`) somebody on this machine, else anyone.

    `prompt` is data: it is sent as it is, never rendered.
    """

    prompt: str
    member: str | None = None
    needs: tuple[str, ...] | str = ()
    local: bool = False
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    schema: dict[str, Any] | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        return (self.needs,) if isinstance(self.needs, str) else self.needs


def delegated_task(given: Any) -> DelegatedTask:
    """From what a caller wrote: an object, or just the prompt. BadInput says what is wrong with it."""
    if isinstance(given, DelegatedTask):
        task = given
    else:
        given = {"prompt": given} if isinstance(given, str) else given
        if not isinstance(given, Mapping):
            raise BadInput(f"a task is an object with a `prompt`, not {type(given).__name__}")
        _refuse_unknown(given)
        try:
            task = msgspec.convert(dict(given), DelegatedTask)
        except msgspec.ValidationError as error:
            raise BadInput(f"this task cannot be read: {error}") from None
    if not task.prompt.strip():
        raise BadInput("this task has an empty `prompt`")
    try:
        task.prompt.encode()
    except UnicodeEncodeError:
        raise BadInput("this task's `prompt` is not valid Unicode text") from None
    return task


def _refuse_unknown(given: Mapping[Any, Any]) -> None:
    known = DelegatedTask.__struct_fields__
    for name in given:
        if name not in known:
            raise BadInput(f"a task has no field `{name}`: {remedy(str(name), known)}")
    if "prompt" not in given:
        raise BadInput("a task needs a `prompt`: everything its member has to know")


# ── what comes back ──────────────────────────────────────────────────────────────────────────


class DelegatedResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one delegated task ended. `text` or `data` is there when it is `ok`, else `message`.

    `no_fit` is no error: no member is eligible, so whoever delegates does it. `kicked`: the reply
    never passed its gate. `id` names it in a later `reduce`.
    """

    index: int = 0
    status: Status
    id: str | None = None
    text: str | None = None
    data: Any = None
    message: str | None = None
    member: str | None = None
    cost_usd: float = 0.0
    tokens: Usage = Usage()

    def plain(self) -> dict[str, Any]:
        """For those who read JSON: without what is not there."""
        used = self.tokens
        whole = {
            "index": self.index, "status": self.status, "id": self.id, "text": self.text,
            "data": self.data, "message": self.message, "member": self.member,
        }  # fmt: skip
        return {
            **{name: value for name, value in whole.items() if value is not None},
            "cost_usd": self.cost_usd,
            "tokens": {"input": used.total - used.output, "output": used.output},
        }


def delegated_result(index: int, outcome: Outcome) -> DelegatedResult:
    reply = outcome.reply
    common = {
        "index": index, "id": outcome.id, "member": outcome.member,
        "cost_usd": dollars(outcome.cost),
        "tokens": _used(outcome),
    }  # fmt: skip
    if outcome.state == "passed" and reply is not None:
        said = {"text": reply.text} if reply.data is None else {"data": reply.data}
        return DelegatedResult(status="ok", **said, **common)  # type: ignore[arg-type]
    message = "; ".join(outcome.reasons) or f"it ended {outcome.state}"
    return DelegatedResult(status=_STATUS.get(outcome.state, "error"), message=message, **common)  # type: ignore[arg-type]


def _used(outcome: Outcome) -> Usage:
    """Of the last reply; one that was on record took nothing now."""
    usage = None if outcome.reply is None or not outcome.calls else outcome.reply.usage
    return usage or Usage()


# ── who may take it ──────────────────────────────────────────────────────────────────────────


class DelegationRules(msgspec.Struct, frozen=True):
    """What holds for all tasks of a desk. `without`: those who lead, who are never asked.
    `priced`: there is a dollar budget, so a price must be known. `broken`: why some cannot be used.
    `leading`: it is not delegated work, so it does not matter who takes that."""

    allow_paid: bool
    priced: bool
    without: frozenset[str] = frozenset()
    broken: Mapping[str, str] = {}
    leading: bool = False


def eligible(
    members: Iterable[Traits], task: DelegatedTask, rules: DelegationRules
) -> tuple[str, ...] | str:
    """The ids of those who may take it; or, when there are none, why not, in one sentence."""
    known = list(members)
    if task.member is not None:
        known = [traits for traits in known if traits.id == task.member]
    obstacles = {traits.id: _obstacles(traits, task, rules) for traits in known}
    free = tuple(id for id, found in obstacles.items() if not found)
    if free:
        return free
    nearest = sorted(obstacles.items(), key=lambda one: len(one[1]))[:MOST_NAMED]
    described = "; ".join(f"{id} {' and '.join(found)}" for id, found in nearest)
    return described or "there is nobody to delegate to"


def _obstacles(traits: Traits, task: DelegatedTask, rules: DelegationRules) -> list[str]:
    """All that keeps it from the task, the heaviest first: the rules of every run (`members/route`)
    and those of delegation."""
    named = (traits.id,) if task.member is not None else ()
    tags = () if named else task.tags
    found = obstacles(traits, Need(
        members=named, needs=tags, tokens=estimate_tokens(task.prompt), max_tokens=task.max_tokens,
        dollars=rules.priced, allow_paid=rules.allow_paid, closed=rules.broken,
    ))  # fmt: skip
    local = task.local and not named and not tags
    checks = [
        (traits.id in rules.without, "is the one who delegates"),
        (not (traits.can_delegate or rules.leading), "takes no delegated work"),
        ("disabled" in found, "is disabled"),
        ("closed" in found, f"cannot be used: {rules.broken.get(traits.id)}"),
        (not {"paid not allowed", "paid not enabled"}.isdisjoint(found),
            "is paid, which is not allowed here"),
        ("price unknown" in found, "has no known price"),
        ("not good at it" in found, f"is not good at {', '.join(lacking(traits, tags))}"),
        (local and traits.tier != "local", "is not local"),
        ("context too small" in found, f"takes at most {traits.context} tokens"),
    ]  # fmt: skip
    return [why for there, why in checks if there]


# ── results that a member makes one of ───────────────────────────────────────────────────────────


FAN_IN = 10
OPTIONS = (*DelegatedTask.__struct_fields__, "fan_in")


def reduce_options(given: dict[str, Any]) -> tuple[DelegatedTask, int]:
    """What a caller says of an asked reduce: the task, and how many parts go into one ask."""
    for name in given:
        if name not in OPTIONS:
            raise BadInput(f"reduce `ask` has no option `{name}`: known: {', '.join(OPTIONS)}")
    fan_in = given.get("fan_in", FAN_IN)
    if not isinstance(fan_in, int) or isinstance(fan_in, bool) or fan_in < 2:
        raise BadInput(f"reduce `ask`: `fan_in` is a whole number of at least 2, not {fan_in!r}")
    return delegated_task(
        {name: value for name, value in given.items() if name != "fan_in"}
    ), fan_in


async def reduce_by_asking(
    run: Run, parts: list[Part], task: DelegatedTask, terms: Terms, fan_in: int
) -> DelegatedResult:
    """One answer of these parts, by a member. A part that does not pass ends it."""
    asking = _Asking()
    reduction = Reducing(AskedReduce(_instruction(task), terms, fan_in, asking), fan_in)
    await grow(run, len(parts), _landings(parts), reduction)
    return asking.result()


class _Asking:
    """Carries the asks out; remembers what they took, and the first that did not pass or the last."""

    def __init__(self) -> None:
        self._cost, self._used = 0, Usage()
        self._deciding: Outcome | None = None

    async def __call__(self, run: Run, task: Task) -> Outcome:
        outcome = await run.do(task)
        self._cost += outcome.cost
        self._used += delegated_result(0, outcome).tokens
        if self._deciding is None or self._deciding.state == "passed":
            self._deciding = outcome
        return outcome

    def result(self) -> DelegatedResult:
        if self._deciding is None:
            return DelegatedResult(status="ok", message="there was nothing to reduce")
        made = delegated_result(0, self._deciding)
        changes = {"id": None, "cost_usd": dollars(self._cost), "tokens": self._used}
        whole: DelegatedResult = msgspec.structs.replace(made, **changes)
        return whole


def _instruction(task: DelegatedTask) -> Prompt:
    """The caller's text is a name in a fixed template, so it is not one itself."""
    made = prompt_of("{{ instruction }}", task.schema, PART_NAMES | {"instruction"})
    params = Params(max_tokens=task.max_tokens)
    return msgspec.structs.replace(made, params=params, names={"instruction": task.prompt})


async def _landings(parts: Iterable[Part]) -> AsyncGenerator[Landing, None]:
    for part in parts:
        yield part.position, part
