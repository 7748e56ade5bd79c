"""A run's end of the queue on another machine, over the system's ssh, which starts a worker there.

Calls wait for a connection that is lost, and are repeated over the next one. What the far end says before
it is ready, on its stderr, is why it is not.
"""

from __future__ import annotations

import asyncio
import shlex
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from fanfold.errors import StoreError, StoreUnavailable
from fanfold.journal import queue_calls as calls
from fanfold.journal.queue import WIRE, MessageState, QueuedAsk, QueueState, WorkerOffer
from fanfold.work.file_pieces import FilePiece, FileSizes
from fanfold.work.member import SshHosts

CONNECTING = 60.0  # seconds until a worker that says nothing is given up
GIVE_UP = 600.0  # seconds in which a lost connection is tried again
LONGEST = 15.0  # seconds between tries
ALIVE = 10.0  # seconds between signs of life
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=3")
_NOT_FOUND = 127  # what a shell ends with


class ConnectionLost(Exception):
    """The far end is gone, or cannot be reached."""


class Link:
    """One connection, from the far end's greeting to its loss."""

    def __init__(
        self, process: Process, hello: calls.Hello, told: Callable[[calls.Told], None]
    ) -> None:
        self.hello, self._process, self._told = hello, process, told
        self._pending: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self.lost = False
        self._tasks = [asyncio.ensure_future(work) for work in (self._read(), self._stay())]

    async def call(self, call: calls.Call) -> Any:
        if self.lost:
            raise ConnectionLost
        self._number += 1
        number, stdin = self._number, self._process.stdin
        assert stdin is not None
        pending = self._pending[number] = asyncio.get_running_loop().create_future()
        try:
            stdin.write(calls.frame(calls.CallFrame(number, call)))
            await stdin.drain()
            value = await pending
        except (OSError, RuntimeError):
            raise ConnectionLost from None
        finally:
            self._pending.pop(number, None)
        return calls.returned(call, value)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                match await calls.read_said(self._process.stdout):
                    case calls.Returned(number, value, error):
                        self._settle(number, value, error)
                    case calls.Told() as told:
                        self._told(told)
        except (OSError, EOFError):
            self._cut()

    def _settle(self, number: int, value: Any, error: str) -> None:
        pending = self._pending.get(number)
        if pending is None or pending.done():
            return
        if error:
            pending.set_exception(StoreError(error))
        else:
            pending.set_result(value)

    def _cut(self) -> None:
        self.lost = True
        for pending in self._pending.values():
            if not pending.done():
                pending.set_exception(ConnectionLost())
        self._told(calls.Told())

    async def _stay(self) -> None:
        with suppress(ConnectionLost, StoreError):
            while True:
                await asyncio.sleep(ALIVE)
                await self.call(calls.Alive())

    async def close(self) -> None:
        """The worker there finishes what it has, and ends."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self.lost = True
        await ended(self._process)


async def ended(process: Process) -> None:
    """Our end of the connection is closed, and the ssh that held it is gone."""
    if process.stdin is not None:
        process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await process.wait()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class SshQueue:
    """The run's half of a `Queue`."""

    def __init__(self, url: str, hosts: SshHosts) -> None:
        self.url, self._hosts = url, hosts
        self._heard: Callable[[str], None] = lambda payload: None
        self._link: Link | None = None
        self._linking = asyncio.Lock()
        self.identity = self.session = self.trouble = ""
        self.offer: WorkerOffer | None = None
        self.draining = False

    def heard_by(self, heard: Callable[[str], None]) -> SshQueue:
        """`heard` is called when something may have changed."""
        self._heard = heard
        return self

    # ── the connection ──

    async def enter(self, worker: WorkerOffer | None = None) -> None:
        """Raises StoreUnavailable when it cannot be reached, in one line."""
        try:
            await self._linked()
        except ConnectionLost as error:
            self.trouble = f"{self.url}: {error}"
            raise StoreUnavailable(self.trouble) from None

    async def leave(self) -> None:
        if self._link is not None:
            await self._link.close()

    def check(self) -> None:
        """Its far end holds a lock as long as it lives."""

    async def _call(self, call: calls.Call) -> Any:
        """Repeated until it has an answer, or the host is given up."""
        loop = asyncio.get_running_loop()
        since, pause = loop.time(), 0.5
        while True:
            try:
                return await (await self._linked()).call(call)
            except ConnectionLost as error:
                now = loop.time()
                if str(error) and now > since + GIVE_UP:
                    said = f"{self.url}: no connection for {GIVE_UP / 60:g} minutes: {error}"
                    raise StoreUnavailable(said) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST)

    async def _linked(self) -> Link:
        async with self._linking:
            if self._link is not None and not self._link.lost:
                return self._link
            if self._link is not None:
                await self._link.close()
            self._link = await self._connect()
            return self._link

    async def _connect(self) -> Link:
        process = await asyncio.create_subprocess_exec(
            *ssh_words(self.url, self._hosts), stdin=PIPE, stdout=PIPE, stderr=PIPE,
            start_new_session=True,
        )  # fmt: skip
        complaints = asyncio.ensure_future(_complaints(process))
        try:
            async with asyncio.timeout(CONNECTING):
                return await self._joined(process, await _greeting(process))
        except TimeoutError:
            why = f"no answer within {CONNECTING:g} s"
        except ConnectionLost as error:
            why = str(error) or "the connection was lost at once"
        except (OSError, EOFError):
            await ended(process)
            await asyncio.wait((complaints,), timeout=2.0)
            said = complaints.result() if complaints.done() else ""
            why = _why(process, said, self._hosts.program)
        except BaseException:
            await ended(process)
            raise
        await ended(process)
        raise ConnectionLost(why)

    async def _joined(self, process: Process, hello: calls.Hello) -> Link:
        if hello.worker.wire != WIRE:
            version = hello.worker.version
            raise ConnectionLost(f"its fanfold is {version}, which has another form of asks")
        if self.identity and hello.identity != self.identity:
            raise ConnectionLost("its folder was removed, and with it what was put into it")
        link = Link(process, hello, self._on_told)
        if self.session:
            await link.call(calls.Rejoin(self.session))
        self.identity, self.session, self.offer = hello.identity, hello.session, hello.worker
        return link

    def _on_told(self, told: calls.Told) -> None:
        self.draining |= told.draining
        self._heard("")

    # ── a run's end ──

    async def put(self, asks: Sequence[QueuedAsk]) -> frozenset[str]:
        found: frozenset[str] = await self._call(calls.Put(tuple(asks)))
        return found

    async def own(self, spans: Collection[str]) -> None:
        await self._call(calls.Own(tuple(spans)))

    async def answers(self, but: Collection[str]) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = await self._call(calls.Answers(tuple(but)))
        return found

    async def forget(self, spans: Collection[str]) -> None:
        await self._call(calls.Forget(tuple(spans)))

    async def cancel(self, spans: Collection[str], message: str = "") -> list[str]:
        found: list[str] = await self._call(calls.Cancel(tuple(spans), message))
        return found

    async def withdraw(self, spans: Collection[str]) -> list[str]:
        found: list[str] = await self._call(calls.Withdraw(tuple(spans)))
        return found

    async def held_by(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = await self._call(calls.HeldBy())
        return found

    async def dead(self, workers: Collection[str]) -> set[str]:
        found: set[str] = await self._call(calls.Dead(tuple(workers)))
        return found

    async def has_trace(self, span: str) -> bool:
        found: bool = await self._call(calls.HasTrace(span))
        return found

    async def shown(self, sizes: FileSizes) -> list[FilePiece]:
        plain = {span: dict(files) for span, files in sizes.items()}
        found: list[FilePiece] = await self._call(calls.Shown(plain))
        return found

    async def lacking(self, hashes: Collection[str]) -> list[str]:
        found: list[str] = await self._call(calls.Lacking(tuple(hashes)))
        return found

    async def bring(self, hash: str, content: bytes, span: str = "") -> None:
        await self._call(calls.Bring(hash, content))

    async def content(self, hash: str, span: str = "") -> bytes | None:
        found: bytes | None = await self._call(calls.Content(hash, span))
        return found

    async def message(
        self, span: str, number: int, text: str, *, last: bool = False
    ) -> MessageState:
        found: MessageState = await self._call(calls.GiveMessage(span, number, text, last))
        return found

    async def seen(self) -> QueueState:
        found: QueueState = await self._call(calls.State())
        return found


def ssh_words(url: str, hosts: SshHosts) -> list[str]:
    """The command that starts a worker there. Words for its shell are quoted; nothing of a URL can be
    taken for an option."""
    parts = urlsplit(url)
    words = ["ssh", "-T", *(word for one in _OPTIONS for word in ("-o", one))]
    words += ["-F", hosts.config] if hosts.config else []
    words += ["-p", str(parts.port)] if parts.port else []
    words += ["-l", parts.username] if parts.username else []
    far = [hosts.program, "worker", "--stdio", "--slots", str(hosts.slots)]
    far += ["--roster", hosts.roster] if hosts.roster else []
    said = " ".join(map(_quoted, far))
    folder = parts.path if parts.path not in ("", "/") else ""
    if folder:
        said = f"cd {shlex.quote(folder)} && exec {said}"
    return [*words, "--", parts.hostname or "", said]


def _quoted(word: str) -> str:
    """For the shell there, which knows its user's home."""
    home = word.startswith("~/")
    return f"~/{shlex.quote(word[2:])}" if home else shlex.quote(word)


async def _greeting(process: Process) -> calls.Hello:
    assert process.stdout is not None
    await calls.past_the_mark(process.stdout)
    hello = await calls.read_said(process.stdout)
    if not isinstance(hello, calls.Hello):
        raise EOFError("no greeting")
    return hello


async def _complaints(process: Process) -> str:
    """The last of what it says for people; all of it is read, so that it never waits for us."""
    assert process.stderr is not None
    last = b""
    while said := await process.stderr.read(65536):
        last = (last + said)[-4000:]
    return last.decode(errors="replace")


def _why(process: Process, said: str, program: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if process.returncode == _NOT_FOUND:
        return (
            f"{program}: no such program there; name it: at: {{ssh: […], program: /PATH/fanfold}}"
        )
    return lines[-1].removeprefix("fanfold: ") if lines else f"ssh ended with {process.returncode}"
