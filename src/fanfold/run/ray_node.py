"""What a node of a Ray cluster does for a run: one ask as a task, an agent as an actor of its own.

A node has a roster of its own: FANFOLD_ROSTER, or where `fanfold` finds one from the user's home.
"""

from __future__ import annotations

import asyncio
import os
from functools import lru_cache
from pathlib import Path

import msgspec

from fanfold.errors import FanfoldError, MemberError, Terminal
from fanfold.journal.queue import misfit_of
from fanfold.members.agents.mirror import Followed
from fanfold.members.roster import find_roster, load_roster
from fanfold.run.executor import LocalExecutor
from fanfold.run.member_sources import ListedMembers
from fanfold.work.ask import Reply
from fanfold.work.file_pieces import FilePiece
from fanfold.work.folders import user_folder
from fanfold.work.member import Request, tell_nobody
from fanfold.work.wire import contents_folder, decode_request, encode_answer, unpacked

ROSTER = "FANFOLD_ROSTER"


class NodeMembers:
    """The members of this node's roster; each is built when it is first asked."""

    def __init__(self) -> None:
        found = find_roster(os.environ.get(ROSTER), None, Path.home())
        self._source = ListedMembers(load_roster(found), found.parent, allow_paid=True, works=True)
        self.executor = LocalExecutor()
        self.files = user_folder("state") / "ray"

    def here(self, request: bytes) -> Request:
        read = unpacked(decode_request(request), contents_folder(str(self.files)))
        return msgspec.structs.replace(read, store=str(self.files), server="")

    async def ask(self, member: str, answerer: str, request: bytes) -> bytes:
        try:
            reply = await self._ask(member, answerer, self.here(request))
            return encode_answer(reply, contents_folder(str(self.files)))
        except Exception as error:
            return encode_answer(error)

    async def _ask(self, member: str, answerer: str, request: Request) -> Reply:
        traits = self._source.traits.get(member)
        if traits is None or traits.at:
            raise Terminal(f"the roster of the node has no {member}", scope="member")
        if why := misfit_of(member, traits.answerer, answerer):
            raise Terminal(why, scope="member")
        try:
            if member not in self.executor.opened:
                self.executor.add(self._source.build(member))
                await self.executor.open(member)
        except MemberError:
            raise
        except FanfoldError as error:
            raise Terminal(str(error), scope="member") from None
        return await self.executor.ask(member, request, tell_nobody)


@lru_cache(1)
def _node() -> tuple[NodeMembers, asyncio.AbstractEventLoop]:
    """Kept for the next tasks of this process."""
    return NodeMembers(), asyncio.new_event_loop()


def carry_out(member: str, answerer: str, request: bytes) -> bytes:
    """One ask, as a task."""
    try:
        node, loop = _node()
    except FanfoldError as error:
        return encode_answer(Terminal(str(error), scope="member"))
    return loop.run_until_complete(node.ask(member, answerer, request))


class AgentActor:
    """One agent, for one attempt. It is there until the run has its answer, whoever asks for it."""

    def __init__(self, member: str, answerer: str, request: bytes) -> None:
        self._node, self._asked = NodeMembers(), (member, answerer, request)
        self._span = self._node.here(request).span
        self._working: asyncio.Task[bytes] | None = None
        self._followed: Followed | None = None

    async def begin(self) -> None:
        if self._working is None:
            self._working = asyncio.create_task(self._node.ask(*self._asked))

    async def answer(self, seconds: float) -> bytes | None:
        """None: it is still at work."""
        if self._working is None:
            return encode_answer(MemberError("its actor was not begun", lost=True))
        done, _ = await asyncio.wait((self._working,), timeout=seconds)
        return self._working.result() if done else None

    async def news(self) -> list[FilePiece]:
        """What has been written into its files since this was asked last."""
        member, _, request = self._asked
        if self._followed is None:
            if member not in self._node.executor.opened:
                return []
            place = self._node.executor.place_of(member, self._node.here(request))
            self._followed = Followed(place, self._span)
        return await asyncio.to_thread(self._followed.news)

    async def end(self, message: str) -> None:
        self._node.executor.end_agents("killed", message)

    async def deliver(self, number: int, text: str) -> bool:
        member, store = self._asked[0], str(self._node.files)
        if member not in self._node.executor.opened:
            return False
        return await self._node.executor.deliver(member, self._span, store, number, text)
