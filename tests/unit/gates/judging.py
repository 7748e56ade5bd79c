"""Put a reply before a gate, with a task as the run would make it."""

from __future__ import annotations

from typing import Any

from fanfold.work.ask import Ask, Reply
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, Outcome, Verdict
from fanfold.work.task import Gate, Task, Terms


async def ask_nobody(task: Task) -> Outcome:
    raise AssertionError("a pure gate asks nobody")


def task_of(*items: Item) -> Task:
    return Task("c-1", Ask(items=items), Terms("map", lambda task, reply, ask: PASS))


def item(**fields: Any) -> Item:
    return Item("c-1", fields)


def judge(gate: Gate, reply: Reply, *items: Item) -> Any:
    return gate(task_of(*items), reply, ask_nobody)


def verdict(gate: Gate, data: Any, *items: Item) -> Verdict:
    """What the gate says of this data, at once."""
    said = judge(gate, Reply(data=data), *items)
    assert isinstance(said, Verdict)
    return said
