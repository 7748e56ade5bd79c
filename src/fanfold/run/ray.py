"""Members `at: workers` on a Ray cluster (`settings: {queue: ray://HOST:10001}`): an ask is a task that Ray
never repeats, an agent a detached actor that outlives the run's process.

Ray keeps no answers: an ask that was under way when the run or a node died is in doubt, except an agent
whose actor lives. Tags are resources of nodes.
"""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fanfold.errors import BadInput, MemberError, Terminal
from fanfold.members.agents.mirror import Mirror
from fanfold.run.ray_node import AgentActor, carry_out
from fanfold.work.ask import Reply
from fanfold.work.member import Event, Request, Tell, Traits
from fanfold.work.wire import contents_folder, decode_answer, encode_request

SPACE = "fanfold"  # the namespace of actors
LOOK = 2.0  # seconds between looks at an agent
TRIES = 3  # to connect
REACHED_WITHIN = 15.0  # seconds for a server to listen that is just starting
A_TAG = 0.001  # of a resource is taken: it says where, not how much


def ray_module() -> Any:
    try:
        import ray  # needs the extra `ray`
    except ImportError:
        raise BadInput("a queue on Ray needs the extra `ray`: pip install 'fanfold[ray]'") from None
    return ray


def _reach(address: SplitResult) -> None:
    """Ray itself would wait for a server that is not there for a minute and a half. Raises OSError, or
    ValueError for a port that is none."""
    until = time.monotonic() + REACHED_WITHIN
    while address.hostname is not None and address.port is not None:
        try:
            socket.create_connection((address.hostname, address.port), REACHED_WITHIN).close()
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
        else:
            return


class RayClient:
    """A run's end. Ray's own threads carry; nothing here waits in one."""

    def __init__(self, address: str) -> None:
        self._ray = ray_module()
        self.identity = address
        self.trouble = ""
        self._opening: asyncio.Future[None] | None = None
        self._actors: dict[str, tuple[str, Any]] = {}  # by span: the item, and who works for it

    def can_find(self, queue: str) -> bool:
        return queue == self.identity

    async def open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.ensure_future(asyncio.to_thread(self._connect))
        await asyncio.shield(self._opening)

    def _connect(self) -> None:
        """A client's server at the head takes long to start where the machine is busy, and is tried
        again. An ask says why there is none."""
        address = self.identity if self.identity != "ray://auto" else "auto"
        given = {"namespace": SPACE, "log_to_driver": False, "logging_level": "error"}
        try:
            _reach(urlsplit(self.identity))
        except (OSError, ValueError) as error:
            self._no_connection(error)
            return
        for _ in range(TRIES):
            try:
                self._ray.init(address=address, **given)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                self._no_connection(error)
                with suppress(Exception):
                    self._ray.shutdown()
            else:
                self.trouble = ""
                return

    def _no_connection(self, error: Exception) -> None:
        said = " ".join(str(error).split())[-200:]
        self.trouble = f"{self.identity}: no connection to Ray: {said}"

    # ── asks ──

    async def ask(self, traits: Traits, request: Request, tell: Tell) -> Reply:
        if self.trouble:
            raise Terminal(self.trouble, scope="member")
        tell(Event("note", f"{traits.id} waits for a node", {"member": traits.id}))
        encoded = await asyncio.to_thread(partial(encode_request, request, whole=True))
        given = (traits.id, traits.offered_as, encoded)
        needs = dict.fromkeys(traits.tags, A_TAG)
        if traits.agent:
            made: Any = self._ray.remote(AgentActor).options(
                name=request.span, namespace=SPACE, lifetime="detached", max_restarts=0,
                max_task_retries=0, num_cpus=0, resources=needs,
            )  # fmt: skip
            actor = await asyncio.to_thread(lambda: made.remote(*given))
            await self._got(actor.begin.remote())
            return await self._agent(traits, request, actor)
        share = 0.1 if traits.remote else 1
        task: Any = self._ray.remote(carry_out).options(
            max_retries=0, num_cpus=share, resources=needs
        )
        ref = await asyncio.to_thread(lambda: task.remote(*given))
        try:
            return _read(await self._got(ref), request)
        except asyncio.CancelledError:
            with suppress(Exception):
                self._ray.cancel(ref, force=True)
            raise

    async def _got(self, ref: Any) -> Any:
        """What Ray says of a task that it lost is that it may have run."""
        try:
            return await asyncio.wrap_future(ref.future())
        except self._ray.exceptions.RayError as error:
            first = (
                str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            )
            raise MemberError(f"Ray lost it: {first[:200]}", lost=True) from None

    async def _agent(self, traits: Traits, request: Request, actor: Any) -> Reply:
        span, items = request.span, request.ask.items
        self._actors[span] = (items[0].id if items else "", actor)
        mirror = Mirror(Path(request.mirror), "a node of Ray", span)
        try:
            while True:
                answer = await self._got(actor.answer.remote(LOOK))
                for piece in await self._got(actor.news.remote()):
                    with suppress(OSError):
                        mirror.put(piece)
                if answer is not None:
                    return _read(answer, request)
        except asyncio.CancelledError:
            actor.end.remote("the run was cancelled")
            raise

    # ── asks of an earlier process ──

    async def has_trace(self, request: Request) -> bool:
        """Nobody can say that it was surely not sent."""
        return True

    async def adopt(self, traits: Traits, request: Request) -> Reply:
        await self.open()
        actor = None
        with suppress(ValueError):
            if traits.agent and not self.trouble:
                actor = await asyncio.to_thread(self._ray.get_actor, request.span, SPACE)
        if actor is None:
            raise MemberError("it was under way on Ray, which keeps no answers", lost=True)
        return await self._agent(traits, request, actor)

    async def deliver(self, span: str, number: int, text: str) -> bool:
        if span not in self._actors:
            return False
        return bool(await self._got(self._actors[span][1].deliver.remote(number, text)))

    def forget(self, span: str) -> None:
        _, actor = self._actors.pop(span, ("", None))
        if actor is not None:
            self._ray.kill(actor)

    async def take_back(self, span: str) -> bool:
        """Ray does not say which tasks have begun."""
        return False

    def leave(self, why: str) -> None:
        """Ray does not say which tasks have begun."""

    def end_agents(self, message: str, item: str) -> None:
        for id, actor in self._actors.values():
            if item in ("", id):
                actor.end.remote(message)

    async def close(self) -> None:
        if self._opening is not None:
            await asyncio.to_thread(self._ray.shutdown)


def _read(answer: bytes, request: Request) -> Reply:
    read = decode_answer(answer, contents_folder(request.store))
    if isinstance(read, MemberError):
        raise read
    return read


async def trouble_with_ray(address: str) -> str | None:
    client = RayClient(address)
    await client.open()
    await client.close()
    return client.trouble or None
