"""Which host an ask goes to: the one with a free slot; until then it waits, and may be taken back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fanfold.run.hosts import HostClient, HostGroup
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Message, Reply
from fanfold.work.batch import NeverSubmitted
from fanfold.work.member import Request, SshHosts, tell_nobody

MODEL = traits("model")


def request(number: int) -> Request:
    return Request(Ask((Message("user", "hello"),)), span=f"run:{number}")


class Hosts:
    """A group with one host, which has one slot and answers when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.answer = list[str](), asyncio.Event()
        monkeypatch.setattr(HostClient, "free", property(lambda host: 1 - host.busy))
        monkeypatch.setattr(HostClient, "trouble", lambda *_: "")
        monkeypatch.setattr(HostClient, "ask", self._ask)
        self.group = HostGroup(SshHosts(("ssh://mill/",)))

    async def _ask(self, _: Any, asked: Request, __: Any) -> Reply:
        self.asked.append(asked.span)
        await self.answer.wait()
        return Reply("yes")

    async def put(self, number: int) -> asyncio.Task[Reply]:
        """Until it is with the host or waits for a slot."""
        task = asyncio.create_task(self.group.ask(MODEL, request(number), tell_nobody))
        await asyncio.sleep(0)
        return task


def test_what_waits_for_a_slot_is_taken_back_and_never_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        hosts = Hosts(monkeypatch)
        tasks = [await hosts.put(number) for number in range(3)]
        assert await hosts.group.take_back("run:1")
        assert not await hosts.group.take_back("run:1"), "once"
        hosts.answer.set()
        with pytest.raises(NeverSubmitted):
            await tasks[1]
        assert [(await tasks[n]).text for n in (0, 2)] == ["yes", "yes"]
        assert hosts.asked == ["run:0", "run:2"]

    asyncio.run(body())


def test_one_that_was_cancelled_while_it_waited_passes_its_turn_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        hosts = Hosts(monkeypatch)
        tasks = [await hosts.put(number) for number in range(3)]
        hosts.answer.set()
        await tasks[0]
        tasks[1].cancel()  # in the moment in which the slot is offered to it
        assert (await tasks[2]).text == "yes"
        assert hosts.asked[-1] == "run:2"

    asyncio.run(body())
