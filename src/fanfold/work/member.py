"""The protocol between a run and its members. Everything that crosses it is plain data."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from fanfold.price import Price, price_text
from fanfold.work.ask import Ask, Params, Reply, Takes
from fanfold.work.carried import AskFiles, FilePatterns
from fanfold.work.media import MediaKind, read_content
from fanfold.work.started import MAX_BYTES
from fanfold.work.tool import StatedTools

Tier = Literal["local", "subscription", "paid"]
FILES_MARK = "+files:"
"""What parts an answerer from the digest of the files that it needs."""


class MemberLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    concurrency: int = 16
    rpm: int | None = None
    tpm: int | None = None


class SshHosts(msgspec.Struct, frozen=True):
    """Machines that the system's ssh reaches, `ssh://USER@HOST:PORT/FOLDER` each; a member is asked on
    any of them. `program`, `roster`, `slots`: of the worker there. `config`: a file of ssh's own."""

    urls: tuple[str, ...]
    program: str = "fanfold"
    roster: str = ""
    slots: int = 8
    config: str = ""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """What the run knows of a member when it decides.

    `answerer`: who gave a reply, as far as it matters for reusing it (kind and model, or target and
    version). `sees_ask`: it takes items, but looks at the rendered prompt too. `shared`: its replies
    serve other runs too. `metered`: a call costs money or has effects, so its start is journaled
    first. `price` None is unknown, never zero. `bounded` False: what one ask
    may cost has no limit, though tokens have a price. `keeps_time`: it ends by itself at its timeout,
    and closes what it opened. `remote`: it is asked over a network, with an address, a key and a model
    that may be wrong, so the first request goes alone. `takes_tools`: an ask may offer it tools, and
    a reply may want some used. `cost_text`: what the roster says about its cost as free text, shown
    where no price is known. `media`: which files it takes, in its API or by their paths. `at`: "workers"
    if a worker asks it, on another machine, which has all of `tags`; "ssh" if one of `hosts` does; "batch"
    if its batch service does; "" if this process does. `tools`: what it may use, where a step does not say
    otherwise. `batch`: what that service asks, as a part of the price; None where there is none.
    `patterns`: the files that it needs and leaves, as they are stated; `files`: those that there are.
    `unsent`: parameters of asks that it is asked without, each by its name, or as `name: value` where that
    is so of one value.
    """

    id: str
    kind: str
    answerer: str
    takes: Takes = "messages"
    sees_ask: bool = False
    shared: bool = True
    metered: bool = True
    price: Price | None = None
    model: str | None = None
    max_tokens: int = 4096
    max_bytes: int = MAX_BYTES
    context: int | None = None
    timeout: float = 120.0
    keeps_time: bool = False
    remote: bool = False
    limits: MemberLimits = MemberLimits()
    pool: str = ""
    good_at: tuple[str, ...] = ()
    tier: Tier = "local"
    agent: bool = False
    bounded: bool = True
    enabled: bool = True
    enabled_written: bool = False
    can_orchestrate: bool = False
    can_delegate: bool = True
    takes_tools: bool = False
    media: tuple[MediaKind, ...] = ()
    budget_usd_month: float | None = None
    cost_text: str = ""
    at: str = ""
    tags: tuple[str, ...] = ()
    hosts: SshHosts | None = None
    tools: StatedTools | None = None
    batch: float | None = None
    patterns: FilePatterns | None = None
    files: AskFiles | None = None
    unsent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """What leaves this machine, or leaves files, is on record before, whatever it costs."""
        if self.at or (self.patterns is not None and self.patterns.outputs):
            msgspec.structs.force_setattr(self, "metered", True)

    @property
    def asked_as(self) -> str:
        """By which name an executor knows it: the batch service of a member is asked otherwise."""
        return f"{self.id} by batch" if self.at == "batch" else self.id

    @property
    def takes_files(self) -> bool:
        """It works on files of a folder."""
        return self.agent or self.kind == "command"

    @property
    def leaves_files(self) -> bool:
        """What others find in the folder later may be of it: agents write whatever they like."""
        return self.agent or (self.patterns is not None and bool(self.patterns.outputs))

    def asked_without(self, params: Params) -> tuple[str, ...]:
        """The parameters that have no effect on it, as they are stated."""
        stated = {name: f"{name}: {value}" for name, value in params.stated().items()}
        return tuple([said for name, said in stated.items() if {name, said} & {*self.unsent}])

    @property
    def offered_as(self) -> str:
        """Its answerer as a worker has it, which is sent the files that it needs."""
        return self.answerer.partition(FILES_MARK)[0]

    @property
    def price_text(self) -> str:
        """For people, and for models."""
        return self.cost_text if self.price is None and self.cost_text else price_text(self.price)


class MemberStats(msgspec.Struct, frozen=True):
    """How a member did so far at one kind of task: `success` is the share of its calls that settled
    one (neither errors nor kick-backs did), `seconds` the median time of an answer."""

    success: float
    seconds: float
    calls: int = 0


class NextStart(msgspec.Struct, frozen=True):
    """What an operator said of an agent's next start for an item. `continues`: the span of an earlier
    attempt, in whose session it continues; `messages`: what it is told besides its task."""

    continues: str = ""
    messages: tuple[str, ...] = ()


class BatchAsk(msgspec.Struct, frozen=True, gc=False):
    """What a request says of the batch that it goes into: the number of its step, in how many seconds from
    the first batch on that is to be done, and whether it may go online where they are few."""

    step: int
    within: float | None = None
    auto: bool = False


class Request(msgspec.Struct, frozen=True, gc=False):
    """An ask made ready for one member. The token counts are its worst case, never an estimate.

    `span` is the attempt that it is sent for, `RUNID:NO` (the run's id alone where attempts are not
    on record), in the store at `store`: what is started on its behalf names it as parent. `server`: where
    that store is, if the folder `store` has only its files.
    `most`: nano-dollars that it can cost at most, where tokens do not bound it (an agent, which decides
    itself how often it asks its model). `least`: so many would do for it too, where less than `most`
    remains; then it is sent with `most` as granted. `prefix`: a digest of what it shares with other asks,
    where the service keeps that at a lower price; about `shared` tokens. Files are not in `body`: each
    has a mark there, `\\0HASH\\0`, which no JSON can hold, in the place of its content as base64
    (`filled`). `contents`: what is in them, where they go to another machine. `queue`: what it was put
    into, where that is looked for. `batch`: for a batch service. `mirror`: the folder in which an agent of
    another machine is followed.
    """

    ask: Ask
    body: bytes = b""
    input_tokens: int = 0
    output_tokens: int = 0
    span: str = ""
    store: str = ""
    most: int | None = None
    least: int | None = None
    server: str = ""
    start: NextStart = NextStart()
    prefix: str = ""
    shared: int = 0
    contents: dict[str, bytes] = {}
    queue: str = ""
    batch: BatchAsk | None = None
    mirror: str = ""

    @property
    def has_files(self) -> bool:
        return b"\0" in self.body


def filled(request: Request) -> bytes:
    """The body as it is sent, with the contents of its files. Terminal: one of them was changed."""
    if not request.has_files:
        return request.body
    files = {one.hash: one for one in request.ask.attachments()}
    pieces = request.body.split(b"\0")
    for n in range(1, len(pieces), 2):
        pieces[n] = b64encode(read_content(files[pieces[n].decode()]))
    return b"".join(pieces)


class Event(msgspec.Struct, frozen=True):
    """Something that happens while a member works: its reply begins, a delta of text, a note, its
    session's name."""

    kind: Literal["began", "delta", "note", "session"]
    text: str = ""
    data: Any = None


Tell = Callable[[Event], None]


def tell_nobody(event: Event) -> None:
    """For callers that do not listen."""


class Member(Protocol):
    """Answers asks. It only translates: no retry, cost policy, cache or logging in here.

    `ask` gives a Reply or raises a MemberError; anything else it raises is a defect of the member
    and fails only that item. `open` runs before the first ask, `close` after the last.
    """

    @property
    def traits(self) -> Traits: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def prepare(self, ask: Ask) -> Request: ...

    async def ask(self, request: Request, tell: Tell) -> Reply: ...


class Named(Protocol):
    """A member in the place of its id, as scripts may give it."""

    @property
    def traits(self) -> Traits: ...


class Adopts(Protocol):
    """A member whose work outlives the process that started it (an agent) can find it again.

    `adopt` takes over the attempt of this span: it waits for the end if it is still at work, and gives
    its reply or raises its MemberError. None: nothing is left that says how it ended.
    """

    def place_of(self, span: str, store: str) -> Path:
        """The folder with the files of the attempt of this span."""
        ...

    def has_trace(self, span: str, store: str) -> bool: ...

    async def adopt(self, span: str, store: str, tell: Tell) -> Reply | None: ...

    def end(self, why: str, said: str, item: str = "") -> None:
        """End all that is at work, or what works for an item, on the operator's order; their asks end with
        an error."""
        ...

    async def deliver(self, span: str, store: str, number: int, text: str) -> bool:
        """Give a message to what is at work for this span; by its number, it is given once. False: the
        program takes none while it works, or has its answer already, and it has not got the message."""
        ...

    def set_cap(self, usd: float) -> None:
        """What it may spend, from its next start on."""
        ...

    async def packed(self, request: Request) -> Request:
        """For another machine: with what a worktree there begins with."""
        ...

    async def bring_back(self, span: str, store: str, reply: Reply) -> None:
        """What it did in a worktree on another machine is a branch here."""
        ...
