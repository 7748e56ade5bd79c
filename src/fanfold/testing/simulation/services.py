"""Services that answer in a simulation, and the books they keep: who sent what, and what is billed.

A service lives outside of every process: it bills a call also when nobody waits for the answer any more.
What it does is a script, call by call; after its end it answers everything well.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

import msgspec

from fanfold.errors import InvalidReply, RateLimited, Terminal, Transient
from fanfold.price import Price, cost
from fanfold.testing.simulation.machine import SimulatedProcess
from fanfold.work.ask import Ask, Call, Reply, Usage
from fanfold.work.member import MemberLimits, Request, Tell, Traits

Behaviour = Literal[
    "ok", "bad", "empty", "half", "no_usage", "absurd_usage", "overrun", "429", "429_after", "500",
    "refused", "lost_before", "lost_after", "slow", "invalid", "quota", "defect", "unholdable",
]  # fmt: skip
BEHAVIOURS: tuple[Behaviour, ...] = Behaviour.__args__  # type: ignore[attr-defined]
UNBILLED = ("429", "429_after", "500", "refused", "lost_before", "quota", "defect")
ServiceKind = Literal["api", "free", "batch", "agent", "workers"]
BAD = "BAD"
PRICE = Price(input=1.0, output=5.0)
TIMEOUT = 8.0
_encode = msgspec.json.Encoder().encode


class SimulatedService(msgspec.Struct, frozen=True):
    """One who answers. `script`: what it does with its first calls; `seconds`: how long a call takes,
    about; `monthly`: dollars that all runs together may spend there in a month. `kind`: an API, one that
    costs nothing, one with a batch service too, an agent that outlives the process, or one that workers
    ask."""

    name: str
    script: tuple[Behaviour, ...] = ()
    kind: ServiceKind = "api"
    seconds: float = 1.0
    concurrency: int = 4
    rpm: int | None = None
    monthly: float | None = None
    cost: float = 1.0

    def traits(self, more: int = 1, *, in_worker: bool = False) -> Traits:
        """`more`: so many times the budget of the month."""
        free, agent = self.kind == "free", self.kind == "agent"
        return Traits(
            id=self.name, kind="simulated", answerer=f"simulated:{self.name}",
            price=Price() if free else self.price, metered=not free,
            max_tokens=100, timeout=TIMEOUT, pool=self.name, good_at=("all",),
            limits=MemberLimits(concurrency=self.concurrency, rpm=self.rpm),
            budget_usd_month=None if self.monthly is None else self.monthly * more,
            batch=0.5 if self.kind == "batch" else None, agent=agent, keeps_time=agent,
            shared=not agent, takes_tools=not agent,
            at="workers" if self.kind == "workers" and not in_worker else "",
        )  # fmt: skip

    @property
    def price(self) -> Price:
        return Price(input=PRICE.input * self.cost, output=PRICE.output * self.cost)


@dataclass(slots=True, eq=False)
class SentCall:
    """One call, as the service saw it. `nanos`: what it bills; `done`: the process has its answer. `texts`:
    what was said, where that was text; of a shard, to each item."""

    process: SimulatedProcess
    service: str
    key: bytes
    run: str
    attempt: int
    prompt: str
    did: Behaviour
    nanos: int = 0
    excess: int = 0
    done: bool = False
    kind: ServiceKind = "api"
    texts: tuple[str, ...] = ()
    forgotten: bool = False  # the disk has lost what was on record of it


class Books:
    """What all services have seen, in order. `arrived` is called with each new call. `asks`: what the lines
    of batches are about; `batches`, `agents`: what services and agents have under way, whoever lives;
    `taken`: asks that a worker has, each since which step."""

    def __init__(self, services: tuple[SimulatedService, ...]) -> None:
        self.calls: list[SentCall] = []
        self.times = dict.fromkeys((one.name for one in services), 0)
        self.arrived: Callable[[SentCall], None] = lambda call: None
        self.asks: dict[bytes, Ask] = {}
        self.batches: dict[str, Any] = {}
        self.agents: dict[str, Any] = {}
        self.taken: dict[str, int] = {}

    def next(self, service: SimulatedService) -> Behaviour:
        """What the service does with the call that it gets now."""
        number = self.times[service.name]
        self.times[service.name] += 1
        return service.script[number] if number < len(service.script) else "ok"

    def enter(
        self, process: SimulatedProcess, service: SimulatedService, request: Request, did: Behaviour
    ) -> tuple[SentCall, Reply, Usage]:
        """The service has it: from here on it is billed."""
        ask, price = request.ask, service.price
        run, _, attempt = request.span.partition(":")
        prompt = ask.conversation()[-1].content
        reply = answer_to(ask, did)
        billed = Usage(request.input_tokens // 8, len(_encode(reply.value)) // 4 + 2)
        if did == "overrun":
            billed = Usage(billed.input, request.output_tokens * 2)
        call = SentCall(
            process, service.name, ask.key("messages"), run, int(attempt or 0), prompt, did,
            kind=service.kind, texts=_texts_of(reply),
        )  # fmt: skip
        if did not in UNBILLED and service.kind != "free":
            call.nanos = cost(price, billed.input, billed.output, 0, 0)
            call.excess = max(0, call.nanos - _worst(price, request))
        self.calls.append(call)
        return call, reply, billed


class SimulatedMember:
    """A service, as a member of one process."""

    def __init__(
        self, service: SimulatedService, books: Books, process: SimulatedProcess, traits: Traits
    ) -> None:
        self._service, self._books, self._process = service, books, process
        self.traits = traits

    async def open(self) -> None:
        """Others get a turn meanwhile."""
        await asyncio.sleep(0)

    async def close(self) -> None:
        await asyncio.sleep(0)

    def prepare(self, ask: Ask) -> Request:
        text = sum(len(message.content.encode()) for message in ask.conversation())
        return Request(ask, b"", text + 1024, ask.params.max_tokens or self.traits.max_tokens)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        did = self._books.next(self._service)
        call, reply, billed = self._books.enter(self._process, self._service, request, did)
        self._books.arrived(call)
        rng, seconds = self._process.rng, self._service.seconds
        try:
            await asyncio.sleep(
                3 * TIMEOUT if call.did == "slow" else seconds * (0.5 + rng.random())
            )
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)  # it closes what it opened
            raise
        finally:
            call.done = self._process.alive
        if (error := error_of(call.did, rng)) is not None:
            raise error
        return reported(reply, billed, call.did)


def reported(reply: Reply, billed: Usage, did: Behaviour) -> Reply:
    """With the usage that the service says it was."""
    match did:
        case "no_usage":
            return reply
        case "absurd_usage":
            return msgspec.structs.replace(reply, usage=Usage(-5, 10**12))
        case "unholdable":  # no file can hold half of a surrogate pair
            said = f"{reply.text}\ud800" if reply.text else ""
            return msgspec.structs.replace(reply, text=said, usage=billed)
    return msgspec.structs.replace(reply, usage=billed)


def _worst(price: Price, request: Request) -> int:
    return cost(price, request.input_tokens, request.output_tokens, 0, 0)


def error_of(did: Behaviour, rng: random.Random) -> Exception | None:
    match did:
        case "429":
            return RateLimited("HTTP 429")
        case "429_after":
            return RateLimited("HTTP 429", retry_after=rng.choice((0.5, 5.0, 20.0)))
        case "500" | "refused":
            return Transient(f"HTTP 500 ({did})")
        case "lost_before" | "lost_after":
            return Transient("the connection was dropped", lost=True)
        case "invalid":
            return InvalidReply("not a reply that can be read")
        case "quota":
            return Terminal("the quota is used up", scope="pool", reset_after=20.0)
        case "defect":
            return ValueError("a defect of the member")
    return None


# ── what is said ─────────────────────────────────────────────────────────────────────────────


def digest_of(text: str) -> str:
    """Another text for another prompt, so that whatever changes below shows at the top."""
    return blake2b(text.encode(), digest_size=4).hexdigest()


def _texts_of(reply: Reply) -> tuple[str, ...]:
    shard = reply.data.get("answers", ()) if isinstance(reply.data, dict) else ()
    return (reply.text, *(one["answer"] for one in shard))


def answer_to(ask: Ask, did: Behaviour) -> Reply:
    """Follows from the ask alone. One that is not good says so, and gates look for that."""
    prompt = ask.conversation()[-1].content
    said = f"{BAD if did == 'bad' else 'good'} {digest_of(prompt + str(ask.sample))}"
    if did == "empty":
        return Reply(text="")
    if did == "half":
        return Reply(text=said[:7], finish="length")
    if ask.tools is not None and not ask.tools.rounds and ask.tools.offered:
        name = ask.tools.offered[0].name
        calls = tuple(Call(f"c{n}", name, {"word": digest_of(f"{n}")}) for n in range(2))
        return Reply(text="", calls=calls)
    fields = ask.schema.definition.get("properties", {}) if ask.schema else {}
    if "pass" in fields:  # a judge, who never lets pass what is bad
        shown = "".join(one.content for one in ask.messages)
        return Reply(data={} if did == "bad" else {"pass": BAD not in shown})
    if "answers" in fields:
        answers = [{"id": one.id, "answer": f"{said} {n}"} for n, one in enumerate(ask.items)]
        return Reply(data={"answers": answers[: 1 if did == "bad" else None]})
    data: Any = ask.items[0].data if ask.items else None
    if isinstance(data, dict) and "choices" in data:
        labels = [one["label"] for one in data["choices"]]
        return Reply(text=_encode({"order": sorted(labels, key=digest_of)}).decode())
    if isinstance(data, dict) and {"a", "b"} <= data.keys():
        return Reply(text=_encode({"same": int(digest_of(prompt), 16) % 2 == 0}).decode())
    return Reply(text=said)
