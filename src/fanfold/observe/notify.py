"""Tell somebody of a run's end, its pauses and its spending: by a command, or by a webhook.

A hook that hangs or fails harms nothing: it has so many seconds, and what went wrong is on record. What was
told of a budget or a pause is an order that the run gives itself, so it is told once, also across a resume.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.journal.facts import AnswerOrder, GiveOrder
from fanfold.price import dollars
from fanfold.run.orders import NOTIFY, held
from fanfold.run.run import Run
from fanfold.work.files import replacing
from fanfold.work.outcome import Receipt

LOOK = 0.5  # seconds between looks at the figures
WITHIN = 10.0  # seconds for a hook
PERCENTS = (50, 80, 100)
_SHELL = frozenset({"|", ">", ">>", "<", "&&", "||", ";", "&"})


def check_hook(target: str) -> str:
    """A web address or a command, as the user stated it. BadInput: neither, or there is no such
    program."""
    address = urlsplit(target)
    if address.scheme in ("http", "https"):
        if not address.hostname:
            raise BadInput(f"--notify {target!r}: the address has no host")
        return target
    if "://" in target.partition(" ")[0]:
        raise BadInput(f"--notify {target!r}: an address begins with http:// or https://")
    try:
        words = shlex.split(target)
    except ValueError as error:
        raise BadInput(f"--notify {target!r}: {error}") from None
    if not words:
        raise BadInput("--notify needs a command, or an address such as https://host/path")
    if shell := next((word for word in words[1:] if word in _SHELL), None):
        instead = shlex.join(["sh", "-c", target])
        raise BadInput(f"--notify: `{shell}` is for a shell, and none is used; give: {instead}")
    if shutil.which(words[0]) is None:
        raise BadInput(f"--notify: there is no program {words[0]!r}")
    return target


@asynccontextmanager
async def notifying(
    run: Run, stated: str | None, warn: Callable[[str], None]
) -> AsyncIterator[None]:
    """Meanwhile, and at the run's end. Without a hook that is stated the one it had before is used."""
    if (target := _kept(run, stated)) is None:
        yield
        return
    notifier = Notifier(run, target, warn)
    run.at_close.append(notifier.end)
    watch = asyncio.create_task(notifier.watch())
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        await notifier.look()


def _kept(run: Run, stated: str | None) -> str | None:
    """An address may hold a secret: it is in a file for its owner alone, not in the journal."""
    file = run.store.files / "notify" / run.record.id
    if stated is not None:
        with suppress(OSError):
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(file, mode=0o600) as new:
                new.write(stated.encode())
        return stated
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


class Notifier:
    def __init__(self, run: Run, target: str, warn: Callable[[str], None]) -> None:
        self._run, self._target, self._warn = run, target, warn
        orders = run.store.read.orders(run.record.no)
        self._told = {one.value for one in orders if one.what == NOTIFY}

    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK)

    async def look(self) -> None:
        with suppress(FanfoldError):  # a store in trouble pauses the run by itself
            due = [(key, event) for key, event in self._due() if key not in self._told]
            self._told.update(key for key, _ in due)
            await asyncio.gather(*(self._once(key, event) for key, event in due))

    def _due(self) -> list[tuple[str, dict[str, Any]]]:
        run, stats, found = self._run, self._run.statistics(), list[tuple[str, dict[str, Any]]]()
        short = run.stopping is not None and run.stopping.rest == "unfunded"
        if stats.budget:
            for percent in PERCENTS:
                if stats.cost * 100 >= percent * stats.budget or (percent == 100 and short):
                    key = f"budget {percent}% of {dollars(stats.budget):g}"
                    found.append((key, self._event("budget", percent=percent)))
        if stats.held is not None and (order := held(run.store.read, run.record.no)):
            event = self._event("pause", status="paused", reason=stats.held)
            found.append((f"pause {order.no}", event))
        return found

    async def _once(self, key: str, event: dict[str, Any]) -> None:
        run, clock = self._run, self._run.clock
        fact = GiveOrder(run.record.no, clock.now(), "fanfold", NOTIFY, key)
        number: int = await run.store.write(fact)
        failed = await asyncio.to_thread(self._send, event)
        state: Any = "refused" if failed else "done"
        await run.store.write(AnswerOrder(number, clock.now(), state, failed))

    def end(self, receipt: Receipt) -> None:
        """How this process ended the run; it waits for that, but not long."""
        event = self._event(
            "pause" if receipt.status == "paused" else "end", status=receipt.status,
            reason=receipt.reason, planned=receipt.planned, passed=receipt.passed,
            cost_usd=receipt.cost_usd,
        )  # fmt: skip
        sending = threading.Thread(target=self._send, args=(event,), daemon=True)
        sending.start()
        sending.join(WITHIN + 2)

    def _event(self, what: str, **more: Any) -> dict[str, Any]:
        record, stats = self._run.record, self._run.statistics()
        budget = None if stats.budget is None else dollars(stats.budget)
        return {
            "event": what, "run": record.id, "name": record.name, "status": "running",
            "at": self._run.clock.now(), "cost_usd": dollars(stats.cost), "budget_usd": budget,
            "planned": stats.planned, "passed": stats.passed, **more,
        }  # fmt: skip

    def _send(self, event: dict[str, Any]) -> str:
        """What went wrong; "" when nothing did."""
        body = msgspec.json.encode(event)
        web = urlsplit(self._target).scheme in ("http", "https")
        failed = _post(self._target, body) if web else _start(self._target, body)
        if failed:
            self._warn(f"--notify: {event['event']}: {failed}")
        return failed


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Only to what the user typed."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(address: str, body: bytes) -> str:
    headers = {"Content-Type": "application/json", "User-Agent": "fanfold"}
    request = urllib.request.Request(address, body, headers, method="POST")
    try:
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(request, timeout=WITHIN):
            return ""
    except (URLError, OSError, ValueError) as error:
        return f"it was not taken: {getattr(error, 'reason', '') or type(error).__name__}"


def _start(command: str, body: bytes) -> str:
    """In a session of its own, so that all of it can be ended."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            shlex.split(command), stdin=pipe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    try:
        process.communicate(body, timeout=WITHIN)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"took longer than {WITHIN:g} s"
    except OSError:  # it reads nothing
        process.wait()
    return f"ended with code {process.returncode}" if process.returncode else ""
