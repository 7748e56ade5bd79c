"""A model that leads by tools: it says which to use, they are used, it hears what came of it, until
it answers. Every word of it is an ordinary ask of the run, so what is on record is not paid again.
"""

from __future__ import annotations

from collections.abc import Awaitable

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.default import standard
from fanfold.patterns.delegate import Desk
from fanfold.patterns.toolbox import ASKING, our_name, steady, use
from fanfold.patterns.tools import INSTRUCTIONS, desk_tools
from fanfold.run.branch import open_branch
from fanfold.run.choose import Company
from fanfold.run.pool import in_order
from fanfold.run.run import Run
from fanfold.work.ask import Ask, Call, Message, Reply, Schema, Tools
from fanfold.work.member import Event, Tell
from fanfold.work.outcome import PASS, Outcome, Verdict
from fanfold.work.task import AskPower, Gate, Task, known_as

MOST_ROUNDS = 12  # times that tools are used for one answer; then it is due
MOST_CALLS = 32  # of tools in one reply
NAME = "delegates"
_encode = msgspec.json.Encoder().encode


class Session:
    """One who leads, at one request. What it delegates is a run of its own below the attempt that
    first wanted it. Only steady things are told to it, and calls of one reply are numbered in its
    order, so that the next time all asks are the same.
    """

    def __init__(self, run: Run, company: Company, leading: str, tell: Tell | None = None) -> None:
        self._run, self._company, self._leading, self._tell = run, company, leading, tell
        self._desk = Desk(run, company, without=(leading,))
        self._branch: Run | None = None

    def equipped(self, ask: Ask) -> Ask:
        """The ask with tools and with what they are for; as it is when nobody can be delegated to."""
        menu = self._desk.menu()
        if not menu:
            return ask
        messages = (Message("system", INSTRUCTIONS), *ask.messages)
        tools = Tools.of(desk_tools(menu))
        return msgspec.structs.replace(ask, messages=messages, tools=tools)

    async def answer(self, task: Task) -> Outcome:
        """Ask, use tools, ask again, at most so many times; then it must answer without them."""
        ask = task.ask
        try:
            for left in range(MOST_ROUNDS, -1, -1):
                step = Task(task.id, ask, task.terms)
                outcome = await self._run.do(step, self._tell)
                reply = outcome.reply
                if outcome.state != "passed" or reply is None or not (left and reply.calls):
                    break
                results = await self._used(reply, outcome.reused)
                ask = ask.after(reply, results, last=left == 1)
        finally:
            if self._branch is not None:
                await self._branch.close()
        return outcome

    async def _used(self, reply: Reply, reused: bool) -> tuple[str, ...]:
        calls = reply.calls[:MOST_CALLS]
        names = ", ".join(dict.fromkeys(one.name for one in calls))
        if self._tell is not None:
            self._tell(Event("note", f"{self._leading} uses {names}", {"tools": names}))
        if self._branch is None and any(our_name(one.name) in ASKING for one in calls):
            self._branch = await open_branch(self._run, NAME, self._span(reused))
            self._desk = Desk(self._branch, self._company, without=(self._leading,))
        done = await in_order(calls, self._one)
        refused = _told({"error": f"not done: at most {MOST_CALLS} calls in one reply"})
        return (*done, *([refused] * (len(reply.calls) - len(calls))))

    def _span(self, reused: bool) -> str:
        """The attempt that brought the last reply; the run, when that was on record."""
        run = self._run.record
        attempts = [] if reused else self._run.journal.read.newest(run.no, ("ok",), 1)
        return f"{run.id}:{attempts[0].no}" if attempts else run.id

    async def _one(self, call: Call) -> str:
        try:
            return _told(steady(await use(self._desk, call.name, call.given)))
        except BadInput as error:
            return _told({"error": str(error)})


def _told(found: object) -> str:
    return _encode(found).decode()


def leading_gate(schema: Schema | None) -> Gate:
    """A reply that wants tools used is no answer yet and passes, as long as it may want that."""
    whole = standard(None, schema)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict | Awaitable[Verdict]:
        tools = task.ask.tools
        if reply.calls and tools is not None and not tools.closed:
            return PASS
        return whole(task, reply, ask)

    return known_as("pure", check)
