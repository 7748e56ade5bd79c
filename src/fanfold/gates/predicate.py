"""The gate that is any Python function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from fanfold.errors import BadInput
from fanfold.work.arguments import public
from fanfold.work.ask import Reply
from fanfold.work.outcome import PASS, Verdict, fail, unjudged
from fanfold.work.task import AskPower, Gate, Task

_MOST_ARGUMENTS = 2


@public
def predicate(fn: Callable[..., Any], reason: str | None = None) -> Gate:
    """Any function of the reply's value, or of the value and its Item.

    It returns true or false, or a text: the reason why not. Trap: a function that returns a text
    it merely found, such as `value.get("name")`, fails the reply with it; wrap it in `bool`. An
    async function works too.
    """
    with_item = _takes_item(fn)
    name = getattr(fn, "__name__", type(fn).__name__)
    no = fail(reason or f"the check {name} failed")

    def heard(said: Any) -> Verdict:
        if inspect.isawaitable(said):
            raise TypeError(f"the check {name} returned an awaitable: write it with `async def`")
        if isinstance(said, str) and said.strip():
            return fail(said)
        return PASS if said and not isinstance(said, str) else no

    async def later(*given: Any) -> Verdict:
        return heard(await fn(*given))

    waits = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__)

    def check(task: Task, reply: Reply, ask: AskPower) -> Verdict | Awaitable[Verdict]:
        items = task.ask.items
        if with_item and len(items) != 1:
            return unjudged(f"the check {name} needs one item, `{task.id}` has {len(items)}")
        given = (reply.value, items[0]) if with_item else (reply.value,)
        if waits:
            return later(*given)
        said = fn(*given)
        return PASS if said is True else heard(said)

    return check


def parameters(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """The positional parameters of a function; one nameless when it does not say (a builtin)."""
    try:
        stated = inspect.signature(fn).parameters.values()
    except ValueError:
        return [inspect.Parameter("value", inspect.Parameter.POSITIONAL_ONLY)]
    return [p for p in stated if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _takes_item(fn: Callable[..., Any]) -> bool:
    """Whether the second parameter is for the item: it has no default, or is called `item`."""
    if not callable(fn):
        raise BadInput(f"`predicate` needs a function, not {fn!r}")
    takes = parameters(fn)
    needed = sum(p.default is p.empty for p in takes)
    if not takes or needed > _MOST_ARGUMENTS:
        name = getattr(fn, "__name__", repr(fn))
        raise BadInput(f"the check {name} must take the reply's value, or the value and the item")
    return needed == _MOST_ARGUMENTS or (len(takes) > 1 and takes[1].name == "item")
