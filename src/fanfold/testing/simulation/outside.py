"""Work that outlives the process which started it, in a simulation: the batches of a service, and agents."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from fanfold.errors import CalledOff, MemberError, Terminal, Transient
from fanfold.price import dollars
from fanfold.testing.simulation.machine import SimulatedProcess
from fanfold.testing.simulation.services import (
    UNBILLED,
    Behaviour,
    Books,
    SentCall,
    SimulatedMember,
    SimulatedService,
    answer_to,
    error_of,
    reported,
)
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.batch import BatchLine, BatchState, LineEnd, LineResult
from fanfold.work.member import Request, Tell

CANCELLING = 3.0  # seconds until a batch that is cancelled has ended
HOURS, LONGER = 6.0, 10.0  # times as long as a call a batch takes: of most services, and of some
MOST = 4_000_000  # nano-dollars that an agent may spend
_encode, _decode = msgspec.json.encode, msgspec.json.decode


@dataclass(slots=True, eq=False)
class BatchAtService:
    """A batch that a service has. `ends`: when it is done, unless it is cancelled before."""

    id: str
    name: str
    created: float
    ends: float
    lines: dict[str, tuple[SentCall, bytes]] = field(default_factory=dict)
    cancelled: bool = False


class SimulatedBatches:
    """The batch service of a member, as one process sees it. Each request about batches may be lost, before
    or after it is carried out, or be refused: as the script of the service says."""

    most_lines, most_bytes = 3, 10_000_000

    def __init__(self, service: SimulatedService, books: Books, process: SimulatedProcess) -> None:
        self._service, self._books, self._process = service, books, process
        self.keeps_names = service.concurrency > 2

    @property
    def _now(self) -> float:
        return self._process.machine.now

    async def _request(self) -> Behaviour:
        """What becomes of one; raises what the process hears of it when it is not carried out."""
        did = self._books.next(self._service)
        await asyncio.sleep(3.0 if did == "slow" else 0.1)
        if did in UNBILLED:
            error = error_of(did, self._process.rng)
            raise error if isinstance(error, MemberError) else Transient(f"HTTP 500 ({did})")
        return did

    async def submit(self, name: str, lines: Sequence[BatchLine]) -> BatchState:
        did = await self._request()
        books, service = self._books, self._service
        made = BatchAtService(
            f"b{len(books.batches)}",
            name,
            self._now,
            self._now + (LONGER if service.concurrency == 4 else HOURS) * service.seconds,
        )
        books.batches[made.id] = made
        for line in lines:
            run, _, attempt = line.id.rpartition("-")
            ask = books.asks[line.body]
            request = Request(ask, input_tokens=1024, output_tokens=100, span=f"{run}:{attempt}")
            call, *_ = books.enter(self._process, service, request, "ok")
            call.nanos //= 2
            made.lines[line.id] = call, line.body
            books.arrived(call)
        if did == "lost_after":
            raise Transient("the connection was dropped", lost=True)
        return self._state(made)

    async def since(self, created: float, known: Collection[str]) -> list[BatchState]:
        await self._request()
        held = reversed(self._books.batches.values())
        return [self._state(one) for one in held if one.id not in known]

    async def look(self, id: str) -> BatchState:
        await self._request()
        return self._state(self._books.batches[id])

    async def cancel(self, id: str) -> None:
        did = await self._request()
        batch: BatchAtService = self._books.batches[id]
        if self._now + CANCELLING < batch.ends:
            batch.cancelled, batch.ends = True, self._now + CANCELLING
            for call, _ in batch.lines.values():
                call.nanos, call.did = 0, "refused"
        if did == "lost_after":
            raise Transient("the connection was dropped", lost=True)

    async def results(self, id: str) -> list[LineResult]:
        await self._request()
        batch: BatchAtService = self._books.batches[id]
        end: LineEnd = "cancelled" if batch.cancelled else "answered"
        for call, _ in batch.lines.values():
            call.done = True
        return [LineResult(line, end, body) for line, (_, body) in reversed(batch.lines.items())]

    def read(self, request: Request, result: LineResult) -> Reply:
        reply = answer_to(self._books.asks[result.body], "ok")
        return reported(reply, Usage(128, len(_encode(reply.value)) // 4 + 2), "ok")

    def _state(self, batch: BatchAtService) -> BatchState:
        name = batch.name if self.keeps_names else ""
        created = self._process.clock.now() - (self._now - batch.created)
        return BatchState(batch.id, self._now >= batch.ends, len(batch.lines), 0, created, name)


class BatchedMember(SimulatedMember):
    """A service that takes batches too."""

    @property
    def batches(self) -> SimulatedBatches:
        return SimulatedBatches(self._service, self._books, self._process)

    def prepare(self, ask: Ask) -> Request:
        made = super().prepare(ask)
        body = f"{ask.key('messages').hex()} {ask.sample}".encode()
        self._books.asks[body] = ask
        return msgspec.structs.replace(made, body=body)


# ── agents ───────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True, eq=False)
class AgentAtWork:
    """One agent: a process of its own, with a trace that is there before it is started."""

    item: str
    call: SentCall | None = None
    reply: Reply | None = None
    ends: float = 0.0
    killed: MemberError | None = None
    told: set[int] = field(default_factory=set)


class SimulatedAgent(SimulatedMember):
    """An agent, as a member of one process: what it started works on when that is gone."""

    def prepare(self, ask: Ask) -> Request:
        return Request(ask, most=MOST)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        books, items = self._books, request.ask.items
        work = books.agents[request.span] = AgentAtWork(items[0].id if items else "")
        await asyncio.sleep(0)  # the trace is there, and nothing else
        did = books.next(self._service)
        work.call, reply, _ = books.enter(self._process, self._service, request, did)
        work.call.nanos = 0 if did in UNBILLED else MOST // 4
        work.call.excess = 0
        if did != "no_usage":
            spent = dollars(work.call.nanos)
            reply = msgspec.structs.replace(reply, usage=Usage(50, 5), cost_usd=spent)
        work.reply = reply
        work.ends = self._process.machine.now + self._service.seconds * 3
        books.arrived(work.call)
        return await self._wait(work)

    async def _wait(self, work: AgentAtWork) -> Reply:
        assert work.call is not None and work.reply is not None
        try:
            while work.killed is None and self._process.machine.now < work.ends:
                await self._process.clock.sleep(min(1.0, work.ends - self._process.machine.now))
        except asyncio.CancelledError:
            work.killed = work.killed or self._ended(CalledOff("called off with its run"), work)
            raise
        finally:
            work.call.done = work.call.done or self._process.alive
        if work.killed is not None:
            raise work.killed
        if (error := error_of(work.call.did, self._process.rng)) is not None:
            raise error
        return work.reply

    def _ended(self, error: MemberError, work: AgentAtWork) -> MemberError:
        """It says what it took until then."""
        error.cost = work.call.nanos if work.call is not None else 0
        return error

    def place_of(self, span: str, store: str) -> Path:
        return Path(store, "agents", *span.split(":"))

    def has_trace(self, span: str, store: str) -> bool:
        return span in self._books.agents

    async def adopt(self, span: str, store: str, tell: Tell) -> Reply | None:
        work: AgentAtWork = self._books.agents[span]
        await asyncio.sleep(0)
        return None if work.call is None else await self._wait(work)

    def end(self, why: str, said: str, item: str = "") -> None:
        for work in self._books.agents.values():
            mine = work.call is not None and work.call.process.slot == self._process.slot
            if mine and item in ("", work.item) and work.killed is None and not work.call.done:
                work.killed = self._ended(Terminal(said, scope="ask"), work)

    async def deliver(self, span: str, store: str, number: int, text: str) -> bool:
        work: AgentAtWork | None = self._books.agents.get(span)
        await asyncio.sleep(0)
        if work is None or work.call is None:
            return False
        if work.killed is None and self._process.machine.now < work.ends:
            work.told.add(number)
        return number in work.told

    def set_cap(self, usd: float) -> None:
        """Its cap is far above what it takes."""


def member_of(
    service: SimulatedService, books: Books, process: SimulatedProcess, more: int, in_worker: bool
) -> SimulatedMember:
    """A service, as a member of this process."""
    made = {"batch": BatchedMember, "agent": SimulatedAgent}.get(service.kind, SimulatedMember)
    return made(service, books, process, service.traits(more, in_worker=in_worker))
