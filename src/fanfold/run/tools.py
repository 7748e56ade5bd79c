"""The tools that models call in a run: opened once, each a member that is asked like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import msgspec

from fanfold.errors import FanfoldError, RunStopped, StoreError
from fanfold.members.tool_sources import open_tools, unopened
from fanfold.members.tools import FAILED, ToolMember
from fanfold.run.executor import Executor
from fanfold.run.pool import in_order
from fanfold.work.ask import Ask, Call, Reply, Tool, ToolBounds, Tools
from fanfold.work.member import Member
from fanfold.work.outcome import PASS, Outcome, State, Verdict
from fanfold.work.task import AskPower, Gate, Task, Terms, ToolsUsed, ToolUser, Who, known_as
from fanfold.work.tool import StatedTool, StatedTools, ToolResult, call_ask

SHARED_ASK = "items that share an ask cannot use tools; leave out `shard` or `tools`"


class ToolStopped(FanfoldError):
    """A call of a tool did not come to its end: it is in doubt, say. What asked for it ends like it."""

    def __init__(self, reason: str, state: State) -> None:
        super().__init__(reason)
        self.state: State = state


def _any_result(task: Task, reply: Reply, ask: AskPower) -> Verdict:
    return PASS


ANY: Gate = known_as("pure", _any_result)


class Toolbox:
    """All tools of a run and of its branches. The same tool in two steps is opened once."""

    def __init__(self, executor: Executor, add: Callable[[Member], None]) -> None:
        self._executor, self._add = executor, add
        self._opening: dict[bytes, asyncio.Future[tuple[ToolMember, ...]]] = {}
        self._made: dict[bytes, ToolLoop] = {}
        self._known: dict[int, ToolLoop] = {}  # by the identity of what they keep
        self._ids: set[str] = set()

    def loop(self, stated: StatedTools) -> ToolLoop:
        """One for all who state the same."""
        known = self._known.get(id(stated))
        if known is not None:
            return known
        mark = stated.mark()
        made = self._made.get(mark)
        if made is None:
            made = self._made[mark] = ToolLoop(stated)
        made.spellings.append(stated)
        self._known[id(stated)] = made
        return made

    async def get_ready(self, tools: ToolUser | None) -> None:
        """Before it is offered: all that models read of it is known."""
        if isinstance(tools, ToolLoop) and not tools.is_open:
            await tools.open(self)

    async def open(self, stated: StatedTool) -> tuple[ToolMember, ...]:
        """Several may come here at once. BadInput: it cannot be had."""
        mark = stated.mark()
        if mark not in self._opening:
            self._opening[mark] = asyncio.ensure_future(self._open(stated))
        return await asyncio.shield(self._opening[mark])

    async def _open(self, stated: StatedTool) -> tuple[ToolMember, ...]:
        members = await open_tools(stated)
        for member in members:
            name = id = member.traits.id
            while id in self._ids:
                id = f"{name}#{len(self._ids)}"
            self._ids.add(id)
            member.known_as(id)
            self._add(member)
            await self._executor.open(id)
        return members


class ToolLoop:
    """The tools of a step, or of a member. Until they are opened, what is known of them without that
    represents them: enough to look at a plan."""

    def __init__(self, stated: StatedTools) -> None:
        self.stated, self.rounds = stated, stated.rounds
        self.spellings: list[StatedTools] = []
        self._members: dict[str, ToolMember] | None = None
        self._tools = _offer([tool for one in stated.tools for tool in unopened(one)], stated)

    @property
    def loaded(self) -> bool:
        """Whether all that models will read is known."""
        return self._members is not None or all(
            one.fields.kind == "command" for one in self.stated.tools
        )

    @property
    def is_open(self) -> bool:
        return self._members is not None

    async def open(self, box: Toolbox) -> None:
        found = [(one, await box.open(one)) for one in self.stated.tools]
        members = _by_name(found)
        self._tools = _offer([member.tool for member in members.values()], self.stated)
        self._members = members

    def equipped(self, ask: Ask) -> Ask:
        made: Ask = msgspec.structs.replace(ask, tools=self._tools)
        return made

    async def use(self, task: Task, ask: Ask, reply: Reply, do: AskPower, run: str) -> ToolsUsed:
        """Those of one reply at once, as far as limits allow. One that is not there, or one too many,
        is answered with an error. What one raises comes when all have ended."""
        assert self._members is not None, "the tools are not open"
        use = _Use(self._members, do, run, task, ask)
        numbered = list(enumerate(reply.calls))[: self.stated.calls]
        found: list[ToolResult] = []
        for one in await in_order(numbered, use.one):
            if isinstance(one, FanfoldError):
                raise one
            found.append(one)
        many = f"not done: at most {self.stated.calls} calls in one reply"
        found += [_error(many)] * (len(reply.calls) - len(found))
        failed = tuple(number for number, one in enumerate(found) if one.failed)
        return ToolsUsed(tuple(one.text for one in found), failed)


def _offer(tools: Iterable[Tool], stated: StatedTools) -> Tools:
    most = max(one.fields.max_bytes for one in stated.tools)
    return Tools.of(tuple(tools), ToolBounds(stated.rounds, stated.calls, most))


def _by_name(
    found: Iterable[tuple[StatedTool, tuple[ToolMember, ...]]],
) -> dict[str, ToolMember]:
    made: dict[str, ToolMember] = {}
    for stated, members in found:
        for member in members:
            if (name := member.tool.name) in made:
                raise stated.bad(f"two tools are called `{name}`; leave one out, or rename it")
            made[name] = member
    return made


class _Use:
    """The calls of one reply, each an ask of its tool under the item's id: so looking at the item shows
    them, and the operator's word on it holds for them."""

    def __init__(
        self, members: Mapping[str, ToolMember], do: AskPower, run: str, task: Task, ask: Ask
    ) -> None:
        self._members, self._do, self._run = members, do, run
        self._task, self._ask = task, ask

    async def one(self, numbered: tuple[int, Call]) -> ToolResult | FanfoldError:
        try:
            return await self._used(*numbered)
        except (RunStopped, StoreError):
            raise
        except FanfoldError as error:
            return error

    async def _used(self, number: int, call: Call) -> ToolResult:
        member = self._members.get(call.name)
        if member is None:
            there = ", ".join(self._members)
            return _error(f"there is no tool `{call.name}`; there are: {there}")
        task, terms = self._task, self._task.terms
        whose = (self._run, terms.step, task.id) if member.effects else (self._run,)
        held = terms.in_doubt or "hold"
        asked = Task(
            task.id,
            call_ask(self._ask, call, number, whose),
            Terms(
                f"{terms.step}.tools", ANY, Who((member.traits.id,), why=f"call of {call.name}"),
                revise=0, attempts=1, in_doubt=held if member.effects else "retry",
                concurrency=max(terms.concurrency, 16), claim_ahead=False,
            ),
        )  # fmt: skip
        return _result(call, await self._do(asked))


def _result(call: Call, outcome: Outcome) -> ToolResult:
    reply = outcome.reply
    if outcome.state != "passed" or reply is None:
        why = "; ".join(outcome.reasons) or outcome.state
        raise ToolStopped(f"tool {call.name}: {why}", outcome.state)
    return ToolResult(reply.text, failed=reply.reason == FAILED)


def _error(what: str) -> ToolResult:
    return ToolResult(msgspec.json.encode({"error": what}).decode(), failed=True)
