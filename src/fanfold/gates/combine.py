"""Gates made of gates.

As long as every part answers at once the answer is given at once: no coroutine is made. Parts that
ask a member (they return an awaitable) come last and only while they can still change the verdict,
because they cost money.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal

from fanfold.errors import BadInput
from fanfold.work.arguments import public
from fanfold.work.ask import Reply
from fanfold.work.options import check_gate
from fanfold.work.outcome import PASS, Verdict
from fanfold.work.task import AskPower, Gate, Task, asking, known_as, nature_of, reading


@public
def all_of(*gates: Gate) -> Gate:
    """Passes when every part passes. One fail fails it, else one unjudged leaves it unjudged.

    The reasons of all parts that answer at once are collected; a part that asks is asked only
    while nothing has failed.
    """
    _check("all_of", gates)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict | Awaitable[Verdict]:
        verdicts, waiting = _call_all(gates, task, reply, ask)
        if waiting and not any(verdict.state == "fail" for verdict in verdicts):
            return _one_by_one(verdicts, waiting, last_word="fail")
        _drop(waiting)
        return _strongest(verdicts, "fail") if verdicts else PASS

    if len(gates) == 1:
        return gates[0]
    return known_as(nature_of(*gates), reading(asking(check, parts=gates), parts=gates))


@public
def any_of(*gates: Gate) -> Gate:
    """Passes when one part passes. Else one unjudged leaves it unjudged: it might have passed.

    A part that asks is asked only when no other has passed.
    """
    _check("any_of", gates)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict | Awaitable[Verdict]:
        verdicts, waiting = _call_all(gates, task, reply, ask)
        if len(verdicts) + len(waiting) < len(gates):  # somebody is in neither list: it passed
            _drop(waiting)
            return PASS
        if waiting:
            return _one_by_one(verdicts, waiting, last_word="pass")
        return _strongest(verdicts, "unjudged")

    return gates[0] if len(gates) == 1 else known_as(nature_of(*gates), asking(check, parts=gates))


def _check(name: str, gates: tuple[Any, ...]) -> None:
    if not gates:
        raise BadInput(f"`{name}` has no gates in it: give at least one")
    for gate in gates:
        if isinstance(gate, list | tuple):
            raise BadInput(f"`{name}` takes the gates one by one, not as a list: {name}(*gates)")
        check_gate(f"each part of `{name}`", gate)


def _call_all(
    gates: tuple[Gate, ...], task: Task, reply: Reply, ask: AskPower
) -> tuple[list[Verdict], list[Awaitable[Verdict]]]:
    """What the parts say: the verdicts that are no pass, and those still to be awaited."""
    verdicts: list[Verdict] = []
    waiting: list[Awaitable[Verdict]] = []
    try:
        for gate in gates:
            said = gate(task, reply, ask)
            if said is PASS:
                continue
            if not isinstance(said, Verdict):
                waiting.append(said)
            elif said.state != "pass":
                verdicts.append(said)
    except BaseException:
        _drop(waiting)
        raise
    return verdicts, waiting


class PendingVerdict:
    """A verdict still to be asked for. Not a coroutine, so that nothing is left over when it is
    closed, or dropped, before it began."""

    def __init__(
        self, ask: Callable[[], Awaitable[Verdict]], waiting: list[Awaitable[Verdict]] | None = None
    ) -> None:
        self._ask, self._waiting = ask, waiting or []

    def __await__(self) -> Generator[Any, Any, Verdict]:
        return self._ask().__await__()

    def close(self) -> None:
        _drop(self._waiting)


def _one_by_one(
    verdicts: list[Verdict], waiting: list[Awaitable[Verdict]], last_word: Literal["pass", "fail"]
) -> PendingVerdict:
    """The parts that ask, one after the other until one says `last_word`."""

    async def ask() -> Verdict:
        try:
            while waiting:
                said = await waiting.pop(0)
                if said.state == last_word:
                    return said
                if said.state != "pass":
                    verdicts.append(said)
        finally:
            _drop(waiting)
        return _strongest(verdicts, "unjudged") if verdicts else PASS

    return PendingVerdict(ask, waiting)


def _strongest(verdicts: list[Verdict], strongest: Literal["fail", "unjudged"]) -> Verdict:
    """One verdict out of several that are no pass: the strongest state, and its reasons."""
    chosen = [verdict for verdict in verdicts if verdict.state == strongest] or verdicts
    reasons = dict.fromkeys(reason for verdict in chosen for reason in verdict.reasons)
    return Verdict(chosen[0].state, tuple(reasons))


def _drop(waiting: list[Awaitable[Verdict]]) -> None:
    """Give up what is not to be awaited any more: a coroutine is closed, a future is cancelled."""
    while waiting:
        one = waiting.pop()
        give_up = getattr(one, "close", None) or getattr(one, "cancel", None)
        if give_up is not None:
            give_up()
