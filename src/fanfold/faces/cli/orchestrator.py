"""What an orchestrator is given so that it can delegate: a way to start `fanfold mcp` for it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import click
import msgspec

from fanfold.errors import MemberError, Terminal
from fanfold.journal.questions import ReportQuestions
from fanfold.members.entry import MemberEntry
from fanfold.members.roster import Roster, RosterSettings
from fanfold.patterns.delegate import RosterMembers, budget_words
from fanfold.price import cost, nanos
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.work.ask import Ask, Reply
from fanfold.work.budget import Amount
from fanfold.work.member import Member, Request, Tell, Traits
from fanfold.work.started import PARENT, STORE

_encode = msgspec.json.Encoder().encode
ERRORS = "errors"
concurrency_option = click.option(
    "--concurrency", type=click.IntRange(min=1), metavar="N",
    help="Calls at once, instead of the roster's max_concurrency (64).",
)  # fmt: skip


def leads_by_mcp(entry: MemberEntry) -> bool:
    """An agent that may orchestrate, or a command with `delegate_args`."""
    return entry.fields.leads_by_mcp


class Orchestrator:
    """An agent, or a command with `delegate_args`. While it works, a launcher for `fanfold mcp` is
    there, with what is left of the run's budget; what was spent through it is taken off that."""

    def __init__(self, staff: RosterMembers, entry: MemberEntry) -> None:
        self._staff, self._entry = staff, entry
        self._inner = staff.build(entry.traits.id)
        self.run: Run | None = None

    @property
    def traits(self) -> Traits:
        return self._entry.traits

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    def prepare(self, ask: Ask) -> Request:
        return self._inner.prepare(ask)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        run = self.run
        if run is None or not request.store:
            return await self._inner.ask(request, tell)
        budget, lent = run.lend()
        before = spent_below(run.store.read, run.record.no)
        try:
            words = [*_settings_words(run.settings, self._staff.settings), *budget_words(budget)]
            async with launcher(self._staff, self.traits.id, request, words) as program:
                known = set(run.store.read.runs_below(run.record.no))
                try:
                    reply = await self._equipped(program).ask(request, tell)
                except MemberError as error:
                    if why := _server_failed(run, known, program):
                        error.args = (self._without_tools(why),)
                    raise
                if why := _server_failed(run, known, program):
                    raise self._paid_without_tools(why, reply)
                return reply
        finally:
            after = spent_below(run.store.read, run.record.no)
            run.repay(lent, Amount(*(new - old for new, old in zip(after, before, strict=True))))

    def _without_tools(self, why: str) -> str:
        return f"{self.traits.id}: it has no tools to delegate with, `fanfold mcp` did not start: {why}"

    def _paid_without_tools(self, why: str, reply: Reply) -> MemberError:
        """Trying again would be paid again, and be no better."""
        amount = self._paid(reply)
        error = Terminal(self._without_tools(why), scope="member", lost=amount is None)
        error.cost, error.usage = amount, reply.usage
        return error

    def _paid(self, reply: Reply) -> int | None:
        """None: it does not say, so its whole reservation counts."""
        price, usage = self.traits.price, reply.usage
        if reply.cost_usd is not None:
            return nanos(reply.cost_usd)
        if price is None or usage is None:
            flat = price is None or not (price.input or price.output)
            return nanos(price.call if price else 0.0) if flat else None
        return cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write)

    def _equipped(self, program: Path) -> Member:
        config = {"mcpServers": {"fanfold": {"command": str(program), "args": []}}}
        entry = self._entry.delegating(_encode(config).decode(), str(program))
        roster = msgspec.structs.replace(
            self._staff.roster, entries={**self._staff.roster.entries, self.traits.id: entry}
        )
        return roster.build(self.traits.id, folder=self._staff.folder)


def spent_below(read: ReportQuestions, run: int) -> tuple[int, int, int]:
    """Nano-dollars, tokens and calls of all runs that were started on behalf of this one."""
    below = [no for no in read.runs_below(run) if no != run]
    spent = [one for no in below for one in read.spent(no).values()]
    return (
        sum(one.cost for one in spent), sum(one.tokens for one in spent),
        sum(one.charged for one in spent),
    )  # fmt: skip


@asynccontextmanager
async def launcher(
    staff: RosterMembers, leading: str, request: Request, more: list[str]
) -> AsyncIterator[Path]:
    """A program that starts `fanfold mcp` as it is meant here, whatever its caller's environment.
    `more`: words of its command line, beside what this request says.

    The members' keys are not in it, since the orchestrator could read them there: they are handed
    over on a socket, once, to whoever comes first. That is the server, which starts before the
    orchestrator's model has said a word.
    """
    folder = Path(tempfile.mkdtemp(prefix="fanfold-"))
    try:
        keys = folder / "keys"
        program = folder / "fanfold-mcp"
        words = [*_command(staff, leading, request.store), *more, "--keys-from", str(keys)]
        program.write_text(_script(words, request, folder / ERRORS), encoding="utf-8")
        program.chmod(0o700)
        async with _handing_over(keys, _keys(staff.roster)):
            yield program
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _settings_words(settings: Settings, roster: RosterSettings) -> list[str]:
    """What holds for the request holds for what is delegated on its behalf."""
    fresh = ["--fresh"] if settings.fresh else []
    return [*fresh, "--concurrency", str(roster.max_concurrency)]


def _command(staff: RosterMembers, leading: str, store: str) -> list[str]:
    words = [sys.executable, "-P", "-m", "fanfold", "mcp", "--store", store, "--without", leading]
    if staff.roster.file is not None:
        words += ["--roster", str(Path(staff.roster.file).absolute())]
    return [*words, *(["--allow-paid"] if staff.settings.allow_paid else [])]


def _script(words: list[str], request: Request, errors: Path) -> str:
    """Of our own words only, each of them quoted. That it was started, and what the server complains
    about, is in `errors`; where that cannot be written, it is started all the same."""
    passed = {PARENT: request.span, STORE: request.store}
    if "PYTHONPATH" in os.environ:
        passed["PYTHONPATH"] = os.environ["PYTHONPATH"]
    sets = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in passed.items())
    file = shlex.quote(str(errors))
    heard = f"(: >>{file}) 2>/dev/null && exec 2>>{file}\n"
    return f"#!/bin/sh\n{sets}{heard}exec {shlex.join(words)}\n"


def _server_failed(run: Run, known: set[int], program: Path) -> str:
    """Why the server that was started for it ended before its run began; else nothing. One that
    nobody started, or that was still starting without a complaint, is no failure: perhaps there was
    nothing to delegate."""
    errors = program.parent / ERRORS
    if not errors.exists() or set(run.store.read.runs_below(run.record.no)) - known:
        return ""
    said = [line.strip() for line in errors.read_text(errors="replace").splitlines()]
    complaints = [line for line in said if line and not line.startswith("fanfold mcp: ")]
    return complaints[-1].removeprefix("fanfold: ") if complaints else ""


def _keys(roster: Roster) -> dict[str, str]:
    names: Iterable[str] = roster.hidden
    return {name: os.environ[name] for name in names if name in os.environ}


@asynccontextmanager
async def _handing_over(path: Path, keys: dict[str, str]) -> AsyncIterator[None]:
    """To the first who connects; nobody after that finds a socket here."""

    async def hand_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.close()
        _remove(path)
        writer.write(_encode(keys))
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(hand_over, path)
    try:
        yield
    finally:
        server.close()


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
