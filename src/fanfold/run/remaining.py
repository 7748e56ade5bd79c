"""What is left to ask of some tasks, when replies on record are used as a run would use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from fanfold.journal.answers import KnownReply
from fanfold.work.ask import Ask, Reply, Takes
from fanfold.work.outcome import Outcome, Verdict
from fanfold.work.raised import error_text
from fanfold.work.task import Task, ToolUser

MOST_SEEN = 100_000  # asks that are remembered, to find those that are there twice

Look = Callable[[list[bytes]], Mapping[bytes, KnownReply]]
"""The replies on record that serve these keys."""


class RemainingAsks(msgspec.Struct):
    """What one task may still ask, at worst: `ask`, then `kicks` kick-backs, then `first` of those
    it escalates to.

    `ask` None: nothing, its end is on record. `answered`: the reply to `ask` is there, or will be
    as the reply to a twin, so only what may follow is left. `likely` False: all of it only if
    something else goes wrong. `reply` is the one on record that stands. `kicks` is -1 when only
    escalation is left. `typical` and `most` are bytes to be added to the ask for replies that do
    not exist yet.
    """

    ask: Ask | None
    first: Ask
    kicks: int
    reused: int = 0
    answered: bool = False
    likely: bool = True
    reply: Reply | None = None
    typical: int = 0
    most: int = 0

    @property
    def asks(self) -> bool:
        """Whether there is a call to make for it, as far as one can see."""
        return self.ask is not None and self.likely and not self.answered


class Survey:
    """Walks tasks of one step through the replies on record: gate, kick-back, and so on, as far as
    they lead. Nothing is asked; where a judge would be asked, the reply is taken to pass.

    `takes`: how those who may answer take an ask. `once`: the same content is asked only once.
    `careful`: gates and filters of the user's are not called; what they would see is taken to pass.
    `tools`: those that whoever answers may use. A reply on record that calls for some leads no further:
    what they will say is not known.
    """

    def __init__(
        self,
        takes: Sequence[Takes],
        look: Look,
        *,
        once: bool = True,
        careful: bool = False,
        tools: ToolUser | None = None,
    ) -> None:
        self._takes, self._look, self._once, self._careful = takes, look, once, careful
        self._tools = tools
        self._seen: set[bytes] = set()

    def remaining(self, tasks: Sequence[Task]) -> list[RemainingAsks]:
        """Looked up together, so give it some dozens at a time."""
        equip = _as_it_is if self._tools is None else self._tools.equipped
        asks = [task.ask if task.flaw else equip(task.ask) for task in tasks]
        found = [
            RemainingAsks(None if task.flaw else ask, ask, task.terms.revise)
            for task, ask in zip(tasks, asks, strict=True)
        ]
        going = [(task, left) for task, left in zip(tasks, found, strict=True) if left.ask]
        while going:
            going = self._next_round(going)
        return found

    def _next_round(
        self, going: list[tuple[Task, RemainingAsks]]
    ) -> list[tuple[Task, RemainingAsks]]:
        """Those whose reply was on record and did not pass; their kick-backs come next."""
        keyed = [
            (task, left, [left.ask.key(takes) for takes in self._takes])
            for task, left in going
            if left.ask is not None
        ]
        known = self._look([key for _, _, keys in keyed for key in keys])
        onward = []
        for task, left, keys in keyed:
            reply = next((known[key].reply for key in keys if key in known), None)
            if reply is None:
                left.answered = self._once and self._is_twin(keys)
            elif _goes_on(task, left, reply, self._careful):
                onward.append((task, left))
        return onward

    def _is_twin(self, keys: list[bytes]) -> bool:
        twin = any(key in self._seen for key in keys)
        if not twin and len(self._seen) < MOST_SEEN:
            self._seen.update(keys)
        return twin


def _goes_on(task: Task, left: RemainingAsks, reply: Reply, careful: bool) -> bool:
    """Cases: it calls for tools; passed (and kept, or filtered out); to be judged by a member; not to be
    judged; failed, and it is kicked back; failed, and it is escalated; failed for good."""
    left.reused += 1
    if left.ask is not None and left.ask.wants_tools(reply):
        left.answered = True
        return False
    verdict = None if careful and task.terms.nature == "foreign" else _verdict(task, reply)
    if verdict is None:
        left.answered, left.reply = True, reply
    elif verdict.passed:
        left.ask, left.reply = None, reply if _kept(task, reply) else None
    elif verdict.state == "unjudged":
        left.ask = None
    elif left.kicks > 0:
        assert left.ask is not None
        left.ask, left.kicks = left.ask.revised(reply, verdict.reasons), left.kicks - 1
        return True
    elif task.terms.escalate:
        left.ask, left.kicks = left.first, -1
    else:
        left.ask = None
    return False


def _verdict(task: Task, reply: Reply) -> Verdict | None:
    """None: the gate asks a member, which is not done here."""
    try:
        said = task.terms.gate(task, reply, _ask_nobody)
    except Exception as error:
        return Verdict("unjudged", (error_text(error),))
    if isinstance(said, Verdict):
        return said
    give_up = getattr(said, "close", None) or getattr(said, "cancel", None)
    if give_up is not None:
        give_up()
    return None


def _kept(task: Task, reply: Reply) -> bool:
    try:
        return task.terms.keep is None or task.terms.keep(task, reply)
    except Exception:
        return False


def _as_it_is(ask: Ask) -> Ask:
    return ask


async def _ask_nobody(task: Task) -> Outcome:
    raise RuntimeError("a forecast asks nobody")
