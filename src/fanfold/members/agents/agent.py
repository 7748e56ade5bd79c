"""The kinds `claude` and `codex`: an agent's program, in a host of its own that outlives us."""

from __future__ import annotations

import asyncio
import errno
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Concatenate, Literal, ParamSpec, cast, get_args

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, CalledOff, MemberError, Terminal, Transient
from fanfold.members.agents import messages
from fanfold.members.agents.agent_files import (
    AgentFolders,
    WorkSite,
    at_home,
    made_site,
    packed_request,
    with_files,
)
from fanfold.members.agents.continuing import EarlierSession, earlier_session
from fanfold.members.agents.dialect import (
    CommandLine,
    Dialect,
    LogReader,
    Start,
    WorkerReading,
    not_started,
    required_servers,
)
from fanfold.members.agents.dialects import DIALECTS
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.hosting import UNSEEN, Host, NotHosted, find, start
from fanfold.members.agents.logs import SpendingFiles, Tail
from fanfold.members.agents.parents import INDEX
from fanfold.members.agents.program_settings import references
from fanfold.members.agents.remote_worktree import take_branch
from fanfold.members.agents.worker import ERRORS, LOG, OUTPUT, Exit, Spec, Why
from fanfold.members.entry import ScriptedEntry, for_scripts, state
from fanfold.members.kinds import BuildContext
from fanfold.members.work_folder import outputs_of, without_outputs
from fanfold.price import dollars, nanos
from fanfold.work.ask import Ask, Reply, Schema
from fanfold.work.carried import FileTrouble
from fanfold.work.check import described
from fanfold.work.member import Event, Request, Tell, Traits, tell_nobody
from fanfold.work.nearest import remedy
from fanfold.work.started import PARENT, STORE

LOOK = 0.5  # seconds between looks at a log that somebody listens to
_COMPLAINT = 200  # letters of what a program complained about that an error repeats
HANDED_WITHIN = 5.0  # seconds that the host of a worker has to hand a message over
_SOON = 0.05
LEAST = 0.25  # of its budget: with less than that left, a worker is not worth starting
UNBOUNDED = 1_000_000_000  # tokens of an agent without `max_turns`: no budget of tokens bears that


AgentKind = Literal["claude", "codex", "gemini", "opencode"]
P = ParamSpec("P")


class _BuiltFields(AgentFields, frozen=True, kw_only=True):
    def build(self, traits: Traits, context: BuildContext) -> Agent:
        folder = self.works_in(context.folder)
        place = (folder / self.place).absolute() if self.place else None
        site = AgentFolders(
            folder.absolute(), place, self.isolation, context.hidden, self.files == "shared",
            self.remote or "", tuple(self.inputs),
        )  # fmt: skip
        return Agent(traits, self, DIALECTS[self.kind], site)


class ClaudeFields(_BuiltFields, frozen=True, kw_only=True, tag="claude"):
    absent: ClassVar[tuple[str, ...]] = ("sandbox", "network")
    priced_as: ClassVar[str] = "anthropic"


class CodexFields(_BuiltFields, frozen=True, kw_only=True, tag="codex"):
    absent: ClassVar[tuple[str, ...]] = ("fallback_model", "tools", "system")


class GeminiFields(_BuiltFields, frozen=True, kw_only=True, tag="gemini"):
    absent: ClassVar[tuple[str, ...]] = (*ClaudeFields.absent, *CodexFields.absent)


class OpencodeFields(_BuiltFields, frozen=True, kw_only=True, tag="opencode"):
    absent: ClassVar[tuple[str, ...]] = GeminiFields.absent


def _constructor(
    record: Callable[P, AgentFields],
) -> Callable[Concatenate[AgentKind, P], ScriptedEntry]:
    def agent(kind: AgentKind, *args: P.args, **fields: P.kwargs) -> ScriptedEntry:
        kinds = get_args(AgentKind)
        if kind not in kinds:
            hint = remedy(kind, kinds) if isinstance(kind, str) else f"known: {', '.join(kinds)}"
            raise BadInput(f"agent() needs the kind of an agent, not {described(kind)}: {hint}")
        return state(kind, {"id": kind, **fields})

    agent.__doc__ = record.__doc__
    made: Any = for_scripts(agent, record, "kind")
    return cast("Callable[Concatenate[AgentKind, P], ScriptedEntry]", made)


agent = _constructor(AgentFields)


class Agent:
    """Starts a worker for each ask, and reads its answer from the log that it leaves.

    A worker that goes wrong is not started again by itself: that is for the operator to decide.
    When an ask is cancelled its worker is ended, with all its children; when our process dies the
    worker continues, and `adopt` finds it again.
    """

    def __init__(
        self, traits: Traits, fields: AgentFields, dialect: Dialect, site: AgentFolders
    ) -> None:
        self._traits, self._fields, self._dialect, self._site = traits, fields, dialect, site
        self._running: set[Host] = set()

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        """Nothing to open: a missing program shows at the first ask."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        turns = self._fields.max_turns
        room = (self._traits.context or 200_000) + self._traits.max_tokens
        tokens = UNBOUNDED if turns is None else turns * room
        body = ask.spoken().encode()
        most = self._dialect.most(self._traits, self._fields)
        return Request(ask, body, tokens, most=most, least=self._least(most))

    def _least(self, most: int | None) -> int | None:
        cap = self._fields.max_budget_usd
        return None if most is None or cap is None else least_of(cap, most)

    def _granted(self, request: Request) -> AgentFields:
        """What it is started with: its budget is smaller where less is left for it."""
        most, cap = self._dialect.most(self._traits, self._fields), self._fields.max_budget_usd
        if cap is None or most is None or request.most is None or request.most >= most:
            return self._fields
        lower = dollars(nanos(cap) - (most - request.most))
        return msgspec.structs.replace(self._fields, max_budget_usd=lower)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        earlier, id = self._earlier(request), self._traits.id
        before = "" if earlier is None else earlier.folder
        site = await asyncio.to_thread(made_site, self._site, request, id, before)
        host = await self._start(request, site, earlier)
        return await self._watch(host, tell, request.store)

    async def packed(self, request: Request) -> Request:
        return await asyncio.to_thread(packed_request, self._site, request, self._traits.id)

    async def bring_back(self, span: str, store: str, reply: Reply) -> None:
        if (back := reply.branch) is not None:
            folder, id = self._site.folder, self._traits.id
            await asyncio.to_thread(take_branch, folder, Path(store), span, id, back)

    def _earlier(self, request: Request) -> EarlierSession | None:
        """The session that it is to continue; it does not begin from zero instead."""
        if not (span := request.start.continues):
            return None
        try:
            return earlier_session(self.place_of(span, request.store).absolute(), span)
        except (BadInput, OSError) as error:
            text = f"{self._traits.id}: its session cannot be continued: {error}"
            raise Terminal(text, scope="ask") from None

    # ── a worker that was started before ──

    def place_of(self, span: str, store: str) -> Path:
        """The folder of the worker that an attempt started."""
        return self._site.place or Path(store, "agents", *span.split(":"))

    def has_trace(self, span: str, store: str) -> bool:
        """When its files cannot be read it may have one: only what surely never began is started
        again without the operator's word."""
        try:
            host = find(self.place_of(span, store), span)
        except OSError:
            return True
        return host is not None and host.may_have_begun()

    async def adopt(self, span: str, store: str, tell: Tell) -> Reply | None:
        try:
            host = find(self.place_of(span, store), span)
            unseen = host is not None and host.out_of_sight()
        except OSError as error:
            said = f"{self._traits.id}: its files cannot be read: {error.strerror}"
            raise MemberError(said, lost=True) from None
        if host is None:
            return None
        if unseen:
            raise MemberError(f"{self._traits.id}: {UNSEEN}", lost=True)
        try:
            return await self._watch(host, tell, store)
        except MemberError as error:
            if error.lost and not host.may_have_begun():
                raise CalledOff(f"{self._traits.id}: its process died before it began") from None
            raise

    def end(self, why: Why, said: str, item: str = "") -> None:
        for host in tuple(self._running):
            if item in ("", host.spec.id, host.spec.span):
                host.kill(why, said)

    async def deliver(self, span: str, store: str, number: int, text: str) -> bool:
        place = self.place_of(span, store).absolute()
        host = find(place, span)
        if host is None or not host.spec.listens:
            return False
        if not messages.is_handed(place, number):
            messages.give(place, number, text)
        for _ in range(round(HANDED_WITHIN / _SOON)):
            if messages.is_handed(place, number) or not host.alive():
                break
            await asyncio.sleep(_SOON)
        return not messages.take_back(place, number)

    def set_cap(self, usd: float) -> None:
        self._fields = msgspec.structs.replace(self._fields, max_budget_usd=usd)

    # ── one worker ──

    async def _start(
        self, request: Request, site: WorkSite, earlier: EarlierSession | None
    ) -> Host:
        ask, traits, fields = request.ask, self._traits, self._granted(request)
        place, folder = self.place_of(request.span, request.store), site.folder
        if earlier is not None:
            fields = msgspec.structs.replace(fields, session=earlier.session)
        session = str(uuid.uuid4())
        label = ask.items[0].id if ask.items else traits.id
        output = str((site.home or place) / OUTPUT)
        given = Start(ask, str(folder), str(place), session, label, output)
        words = _told(self._dialect.words(traits, fields, given), request, earlier, site.base)
        spec = Spec(
            span=request.span, id=label, dialect=self._dialect.name, words=words.words,
            folder=str(folder), model=traits.model, session=fields.session or session,
            meter=words.meter, price=self._dialect.rates(traits),
            call=msgspec.structs.replace(self._dialect.call(traits, fields), prompt=len(words.stdin)),
            schema=None if ask.schema is None else ask.schema.definition,
            bounds=self._dialect.bounds(traits, fields), begun=time.time(),
            resumed=fields.session is not None, listens=words.listens,
            outputs=outputs_of(request, site.base),
            repository=None if ask.files is None else ask.files.repository,
        )  # fmt: skip
        try:
            _make_room(site, place, words)
            return await start(place, spec, words.stdin, self._environment(request, site))
        except OSError as error:
            raise self._not_started(error, words.words[0]) from None
        except (AlreadyRunning, NotHosted) as error:
            raise Terminal(f"{self._traits.id}: {error}", scope="ask") from None
        except asyncio.CancelledError:
            if (host := find(place, request.span)) is not None:
                host.kill("cancelled", "the run was cancelled")
            raise

    def _environment(self, request: Request, site: WorkSite) -> dict[str, str]:
        unseen = self._site.hidden - references(self._fields.env)
        shown = {name: value for name, value in os.environ.items() if name not in unseen}
        made = self._dialect.environment(shown, self._traits, self._fields)
        made |= {PARENT: request.span, STORE: request.server or request.store}
        if site.home is not None:
            root = site.base if self._site.place is None else self._site.folder
            made |= {"WORKER_ID": self._traits.id, "FLEET_ROOT": str(root),
                     "WORKER_OUTPUT_DIR": str(site.home / OUTPUT)}  # fmt: skip
            if site.parents is not None:
                made["WORKER_PARENTS"] = str(site.home / INDEX)
        return made

    async def _watch(self, host: Host, tell: Tell, store: str) -> Reply:
        """Until it has ended. If the ask is cancelled it is ended, and what its last call took is
        unknown."""
        self._running.add(host)
        spec = host.spec
        reader = self._dialect.reader(spec.price, resumed=spec.resumed, call=spec.call)
        try:
            exit = await self._follow(host, reader, tell)
        except asyncio.CancelledError:
            host.kill("cancelled", "the run was cancelled")
            await asyncio.wait((asyncio.ensure_future(host.ended()),), timeout=10)
            raise
        finally:
            self._running.discard(host)
        exit = exit or _exit_by_log(reader.reading)
        if exit is None:
            session = reader.reading.session or host.spec.session
            text = f"{self._traits.id}: ended without a result; its session is {session}"
            raise MemberError(text, lost=True)
        reply = self._concluded(host, reader.reading, exit)
        try:
            return await asyncio.to_thread(with_files, self._traits.id, reply, spec, Path(store))
        except FileTrouble as trouble:
            raise without_outputs(self._traits.id, reply, trouble) from None

    def _concluded(self, host: Host, reading: WorkerReading, exit: Exit) -> Reply:
        schema = None if host.spec.schema is None else Schema.of(host.spec.schema)
        made = self._dialect.conclude(self._traits.id, reading, exit, Ask(schema=schema))
        if isinstance(made, Reply):
            return made
        error = made
        if exit.why == "cancelled":
            error = CalledOff(f"{self._traits.id}: cancelled with its run")
        elif reading.lines == 0 and (why := _error_output(host)):
            error.args = (f"{error}: {why[-_COMPLAINT:]}",)
            error = required_servers(self._traits.id, why) or error
        error.usage, error.cost, error.bound = made.usage, made.cost, made.bound
        raise error

    async def _follow(self, host: Host, reader: LogReader, tell: Tell) -> Exit | None:
        """Read along while somebody listens, or there are MCP servers that may be missing: then it
        is ended, before it spends more. Else the log is read once, at the end."""
        log, meter = Tail(host.place / LOG), SpendingFiles(host.spec)
        idle = tell is tell_nobody and not self._fields.mcp
        ended = asyncio.ensure_future(host.ended())
        try:
            while not ended.done():
                await asyncio.wait((ended,), timeout=None if idle else LOOK)
                for line in log.lines():
                    for told in reader.feed(line):
                        tell(Event("note", told.text, {"kind": told.kind, "name": told.name}))
                if (missing := reader.reading.missing) and not ended.done():
                    host.kill("servers", not_started(missing))
            for line in log.rest():
                reader.feed(line)
            meter.search(reader.reading.session)
            for line in meter.lines():
                reader.meter(line)
            return ended.result()
        finally:
            ended.cancel()

    def _not_started(self, error: OSError, program: str) -> MemberError:
        why = (error.strerror or str(error)).lower()
        text = f"{self._traits.id}: cannot start `{program}`: {why}"
        if error.errno in (errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.EPERM):
            return Terminal(text, scope="member")
        return Transient(text)


def _make_room(site: WorkSite, place: Path, words: CommandLine) -> None:
    """What must be there before it starts: files that its words name, a place for its output, what its
    parents left."""
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    site.make_home()
    for name, content in words.files.items():
        (place / name).write_bytes(content)


def _told(
    words: CommandLine, request: Request, earlier: EarlierSession | None, folder: Path
) -> CommandLine:
    """With what an operator has said of this start."""
    text = at_home(words.stdin, request.ask.files, folder).decode("utf-8", "surrogatepass")
    text = text if earlier is None else earlier.prompt(text)
    said = "\n\n".join((text, *request.start.messages))
    return msgspec.structs.replace(words, stdin=said.encode("utf-8", "surrogatepass"))


def least_of(cap: float, most: int) -> int:
    """Where the most that it may take is not left, it is started with a smaller budget, down to a
    part of the one that is stated. In nano-dollars, with its last call."""
    return most - nanos(cap * (1 - LEAST))


def _exit_by_log(reading: WorkerReading) -> Exit | None:
    """Its host was killed, and its exit code is lost; but it has said how it ended."""
    return Exit(code=1 if reading.error else 0, at=time.time()) if reading.ended else None


def _error_output(host: Host) -> str:
    """What a program complained about before it ended."""
    try:
        with (host.place / ERRORS).open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 2000))
            said = stream.read(2000).decode(errors="replace")
    except OSError:
        return ""
    return " ".join(said.split())
