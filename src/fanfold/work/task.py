"""One unit of work: an ask with its item id, its gate and its terms."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET

from fanfold.work.arguments import Checked
from fanfold.work.ask import Ask, Reply
from fanfold.work.batch import BatchPolicy
from fanfold.work.item import Item
from fanfold.work.outcome import Outcome, Part, Verdict
from fanfold.work.reader import Count, Misfit, Positive, Stated, read_options
from fanfold.work.routed import Route
from fanfold.work.tool import StatedTools
from fanfold.work.truth import Truth

OnFailure = Literal["skip", "abort", "hold"]
InDoubt = Literal["retry", "hold"]
Spread = Literal["overflow", "best"]


class BudgetFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A budget as it is written. Nothing of it may be 0: leave it out instead."""

    called: ClassVar[str] = "a budget"
    usd: Stated[Positive] = UNSET
    tokens: Stated[Count] = UNSET
    calls: Stated[Count] = UNSET
    seconds: Stated[Positive] = UNSET

    def __post_init__(self) -> None:
        if all(amount is UNSET for amount in msgspec.structs.astuple(self)):
            raise Misfit("`budget` is empty; state one of usd, tokens, calls, seconds")


class HedgeFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A hedge as it is written; `extra` is a share of the calls."""

    called: ClassVar[str] = "a hedge"
    extra: Positive
    after: Stated[Positive] = UNSET

    def __post_init__(self) -> None:
        if self.extra > 1:
            what = f"`extra` is a share of the calls, such as 0.05, not {self.extra:g}"
            raise Misfit(what, "extra")


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=Checked):
    """What may be spent; any of them. `seconds` are active seconds: a pause does not count.

    Nothing of it may be 0: leave it out instead. (What is left of one may be, see `of`.)
    """

    usd: float | None = None
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None

    @staticmethod
    def of(**remaining: float | None) -> Budget:
        """What remains of a budget, which may be nothing."""
        return msgspec.structs.replace(Budget(), **remaining)

    def check(self) -> None:
        if given := _given(self):
            read_options(given, BudgetFields)


class Hedge(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=Checked):
    """A second request for an ask that takes long; the first good reply wins.

    `extra`: at most so many more calls, as a share (0.05: one for twenty). `after`: seconds to wait
    first; None is longer than 95 % of the member's calls at this step took.
    """

    extra: float
    after: float | None = None

    def check(self) -> None:
        read_options(_given(self), HedgeFields)


def _given(record: msgspec.Struct) -> dict[str, Any]:
    return {
        name: value for name, value in msgspec.structs.asdict(record).items() if value is not None
    }


class Who(msgspec.Struct, frozen=True):
    """Who may answer: the named members, or those good at `needs`, or anyone. `use`: at most so many;
    0: nobody is asked.

    `fallback`: these, in order, but each only when all before it are closed or have failed.
    `among`: the router chooses, but only among these. `why`: why these members, for the record of
    an attempt. `spread`: when the best of those who fit cannot take a call now, the next best does,
    or it waits for the best. `tools`: they are given tools, so they must take them.
    """

    members: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    use: int | None = None
    fallback: tuple[str, ...] = ()
    among: tuple[str, ...] = ()
    why: str = "named"
    spread: Stated[Spread] = UNSET
    tools: Stated[bool] = UNSET


NOBODY = Who(use=0)
"""Of a step that asks no member: what becomes of its items follows from all of them."""


class AnswerWatch(msgspec.Struct, frozen=True):
    """A sample of a step's answers, `rate` of the items, is checked against what is right (`truth`, or by
    a `gate` of its own): at least `target` of them should be. `field`: of replies, that is compared."""

    truth: Truth
    target: float
    rate: float
    budget: Budget = Budget()
    on_drift: Literal["warn", "pause"] = "warn"
    field: str = ""
    gate: Gate | None = None


class Terms(msgspec.Struct, frozen=True, metaclass=Checked):
    """What all tasks of one step have in common.

    `needed` False: others can do without the reply (one voter of several). When no member is left to
    ask, such a task ends `cancelled` and the run continues; else the run pauses.
    `claim_ahead` False: the next calls may turn out not to be needed, so none is claimed before there
    is a slot for it. `nature`: what gate and filter do, between them; it follows from them.
    `called`: how later steps know it, where `step` says more: in which round it was.
    `batch`: asks go to the batch service of their member.
    `route`: who of `who` answers goes by the item; `routed` are the terms of each of them then.
    `tools`: what those who answer may use, whatever tools they have themselves.
    `watch`: a sample of the answers is checked. `optional`: nobody waits for the reply, so when it cannot
    be paid it ends `unfunded` and the run continues.
    """

    step: str
    gate: Gate
    who: Who = Who()
    revise: int = 1
    escalate: tuple[str, ...] = ()
    on_failure: OnFailure = "skip"
    in_doubt: InDoubt | None = None
    attempts: int = 4
    concurrency: int = 8
    budget: Budget = Budget()
    keep: Callable[[Task, Reply], bool] | None = None
    needed: bool = True
    hedge: Hedge | None = None
    batch: BatchPolicy | None = None
    claim_ahead: bool = True
    nature: Nature = "foreign"
    called: str = ""
    route: Route | None = None
    routed: dict[str, Terms] = {}
    tools: StatedTools | ToolUser | None = None
    watch: AnswerWatch | None = None
    optional: bool = False

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "nature", nature_of(self.gate, self.keep))
        none = isinstance(self.tools, StatedTools) and not self.tools.tools
        if self.tools is not None and not none and not self.who.tools:
            who = msgspec.structs.replace(self.who, tools=True)
            msgspec.structs.force_setattr(self, "who", who)
        if self.route is not None:
            last, why = self.who.fallback, self.route.why
            whos = {
                id: Who((id,), fallback=last, why=why, tools=self.who.tools)
                for id in self.route.members
            }
            own = {
                id: msgspec.structs.replace(self, who=who, route=None) for id, who in whos.items()
            }
            msgspec.structs.force_setattr(self, "routed", own)

    def for_item(self, item: Item) -> Terms:
        """The terms on which this item is asked about."""
        return self if self.route is None else self.routed[self.route.member(item)]

    @property
    def at_once(self) -> int:
        """So many tasks are under way at the same time; those in batches take no slots."""
        return self.concurrency if self.batch is None else max(self.concurrency, self.batch.most)

    @property
    def seen_as(self) -> str:
        """The name by which later steps read its replies."""
        return self.called or self.step

    @property
    def whos(self) -> tuple[Who, ...]:
        """Who may answer, first and after each escalation."""
        better = (Who(members=(id,), tools=self.who.tools) for id in self.escalate)
        return (self.who, *better)


class Place(msgspec.Struct, frozen=True, gc=False):
    """The place of an item in the plan: the batch of the run, and the position in it."""

    batch: int
    position: int


class Task(msgspec.Struct, frozen=True, gc=False):
    """`flaw`: why no ask could be made of the item; it fails with that, and only it."""

    id: str
    ask: Ask
    terms: Terms
    place: Place | None = None
    flaw: str | None = None


class ToolsUsed(NamedTuple):
    """What tools gave, a text for each call of a reply; `failed` are the numbers of errors."""

    results: tuple[str, ...]
    failed: tuple[int, ...] = ()


class ToolUser(Protocol):
    """Tools, for a loop in which a model calls them: what it reads of them, and how calls are carried
    out. At most so many `rounds`, then an answer is due."""

    @property
    def rounds(self) -> int: ...

    def equipped(self, ask: Ask) -> Ask:
        """The ask with what is on offer."""
        ...

    async def use(self, task: Task, ask: Ask, reply: Reply, do: AskPower, run: str) -> ToolsUsed:
        """Carry out what the reply calls for, with the power to ask in the run of this id.
        FanfoldError: the task cannot go on."""
        ...


AskPower: TypeAlias = Callable[[Task], Awaitable[Outcome]]
"""The run's own `do`, passed to those who need to ask (a judge, an asked reduce)."""

Gate: TypeAlias = Callable[[Task, Reply, AskPower], Verdict | Awaitable[Verdict]]
"""A check. Pure ones return a Verdict at once; a judge returns an awaitable."""


def asking(gate: Gate, own: Iterable[Terms] = (), parts: Iterable[Gate] = ()) -> Gate:
    """Note whom a gate asks, itself and in its parts, so that a run can look for them beforehand."""
    vars(gate)["asks"] = (*own, *(terms for part in parts for terms in asks_of(part)))
    return gate


def asks_of(gate: Gate) -> tuple[Terms, ...]:
    """The terms on which a gate asks members, at any depth; none of a pure one."""
    own: tuple[Terms, ...] = getattr(gate, "asks", ())
    return own + tuple(terms for one in own for terms in asks_of(one.gate))


class ItemRead(NamedTuple):
    """A field of an item without which a check can judge none, and what states it."""

    reader: str
    field: str


def reading(gate: Gate, own: Iterable[ItemRead] = (), parts: Iterable[Gate] = ()) -> Gate:
    """Note what a gate reads of an item, itself and in its parts, so that a name that is misspelt shows
    before anything is asked. The replies of earlier steps, `steps`, come with the item."""
    found = (*own, *(one for part in parts for one in reads_of(part)))
    vars(gate)["reads"] = tuple(one for one in found if one.field != "steps")
    return gate


def reads_of(gate: Gate) -> tuple[ItemRead, ...]:
    found: tuple[ItemRead, ...] = getattr(gate, "reads", ())
    return found


Nature = Literal["pure", "asks", "foreign"]
"""What a gate does: a built-in check of task and reply; it asks a member; or, by default, it runs
code of the user's, which may do anything, even end the process."""
_NATURES: tuple[Nature, ...] = ("pure", "asks", "foreign")
_NATURE = "_fanfold_nature"


def nature_of(*checks: Callable[..., Any] | None) -> Nature:
    """Of a gate or a filter; of several the strongest. None has none."""
    natures: list[Nature] = [
        getattr(check, _NATURE, "foreign") for check in checks if check is not None
    ]
    return max(natures, key=_NATURES.index, default="pure")


Marked = TypeVar("Marked", bound=Callable[..., Any])


def known_as(nature: Nature, check: Marked) -> Marked:
    """The same check, marked with what it does."""
    setattr(check, _NATURE, nature)
    return check


Reducer: TypeAlias = Callable[[Iterable[Part]], Any]
"""Many passed replies into one value. Parts come in planned order, one at a time."""
