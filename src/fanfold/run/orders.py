"""Orders to a run: read from its store while it runs, answered once, kept when it is resumed.

Whoever may write to the store gives them: the command line, the page, a script. `order_taker` carries
them out.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from fanfold.clock import Clock, RealClock
from fanfold.errors import BadInput
from fanfold.journal.answers import OrderRecord
from fanfold.journal.contract import Store, StoreView
from fanfold.journal.facts import AnswerOrder, GiveOrder, RunRecord
from fanfold.journal.opening import open_store
from fanfold.journal.questions import RunQuestions
from fanfold.journal.shares import Sharer
from fanfold.run.outcomes import ShareCounts
from fanfold.run.record import RESUMABLE
from fanfold.work.arguments import public
from fanfold.work.options import parse_budget

LOOK = 0.5  # seconds between looks at the store
Verb = Literal[
    "pause", "resume", "set", "approve", "skip", "stop", "kill", "hand-over", "continue", "tell"
]
VERBS: tuple[Verb, ...] = get_args(Verb)
OF_STARTS = ("continue", "tell")
"""Of the next start of an agent: they hold until that."""
LASTING = ("set", "approve", "skip", *OF_STARTS)
"""What still holds when the run is resumed; all else is for the process that runs it."""
KILLED = "killed by the operator"
NOTIFY = "notify"
"""What a run orders of itself, see `observe/notify`; not for others."""
_counts = msgspec.json.Decoder(ShareCounts).decode
_LIMITS = ("rpm", "tpm", "concurrency")


class WorkerMessage(msgspec.Struct, frozen=True):
    """What an agent is told; the value of the order `tell`, as JSON."""

    worker: str
    text: str


_message = msgspec.json.Decoder(WorkerMessage).decode


class Change(msgspec.Struct, frozen=True):
    """One thing that is set: of the run (`name` is empty), of a step or of a member."""

    name: str
    field: Literal["budget", "concurrency", "limits", "enabled", "cap", "roster"]
    value: Any
    limit: str = ""


def parse_change(text: str) -> Change:
    """`budget=5`, `concurrency=8`, `STEP.concurrency=4`, `STEP.budget=2`, `MEMBER.limits.rpm=60`,
    `MEMBER=off`, `WORKER.max_budget_usd=2`; `roster`: its file is read again. Names may have dots."""
    if text.strip() == "roster":
        return Change("", "roster", None)
    key, equals, value = (part.strip() for part in text.partition("="))
    name, _, field = key.rpartition(".")
    if equals and field == "budget":
        return Change(name, "budget", parse_budget(value, text))
    if equals and field in _LIMITS and name.endswith(".limits"):
        return Change(name.removesuffix(".limits"), "limits", _whole(value, text), field)
    if equals and name and field == "max_budget_usd":
        return Change(name, "cap", _dollars(value, text))
    if equals and field == "concurrency":
        return Change(name, "concurrency", _whole(value, text))
    if equals and key and value in ("on", "off"):
        return Change(key, "enabled", value == "on")
    raise BadInput(
        f"{text!r} cannot be set; there are budget=TOTAL, concurrency=N, STEP.budget=TOTAL,"
        " STEP.concurrency=N, MEMBER.limits.rpm=N (or tpm, concurrency), MEMBER=on|off,"
        " WORKER.max_budget_usd=USD and roster"
    )


def _whole(value: str, text: str) -> int:
    if not value.isdecimal() or not int(value):
        raise BadInput(f"{text!r}: a whole number from 1 on, not {value!r}")
    return int(value)


def _dollars(value: str, text: str) -> float:
    with suppress(ValueError):
        if 0 < (amount := float(value)) < math.inf:
            return amount
    raise BadInput(f"{text!r}: dollars above 0, not {value!r}")


def halted(read: RunQuestions, run: int) -> OrderRecord | None:
    """The order by which a run that is under way starts nothing new: `pause` or `stop`; None: it does."""
    verbs = ("pause", "stop", "resume")
    last = next((one for one in reversed(read.orders(run, ("done",))) if one.what in verbs), None)
    return None if last is None or last.what == "resume" else last


def held(read: RunQuestions, run: int) -> OrderRecord | None:
    """The order by which a run that is under way is paused; None: it is not."""
    last = halted(read, run)
    return last if last is not None and last.what == "pause" else None


class NewOrder(NamedTuple):
    """An order that is to be given. `within`: so many seconds its answer is waited for at most."""

    by: str
    what: Verb
    value: str = ""
    within: float = math.inf


async def give(
    store: Store, run: RunRecord, by: str, what: Verb, value: str = "", within: float = math.inf
) -> OrderRecord:
    """Give an order to the process of a run and wait for its answer, so many seconds at most; of a run that
    several carry out, until all of them have taken it up. Where no process runs it, what lasts is kept until
    it is resumed; anything else is refused, but `kill`, which whoever gives it carries out then."""
    return await give_by(RealClock(), store, run, NewOrder(by, what, value, within))


async def give_by(clock: Clock, store: Store, run: RunRecord, order: NewOrder) -> OrderRecord:
    """The same, by any clock."""
    what, value = order.what, order.value
    of_start = what in OF_STARTS or (what == "set" and parse_change(value).field == "cap")
    if run.status not in RESUMABLE and not of_start:
        raise BadInput(f"{run.name} ({run.id}) is over: {run.status}")
    if what in OF_STARTS and not is_under_way(store, run.no):
        worker = _message(value).worker if what == "tell" else value
        if not store.read.find_items(run.no, worker):
            raise BadInput(f"there is no worker {worker!r} in {run.name} ({run.id})")
    now, until = clock.now(), clock.monotonic() + order.within
    number: int = await store.write(GiveOrder(run.no, now, order.by, what, value))
    if what not in (*LASTING, "kill") and not is_under_way(store, run.no):
        said = "the run is not under way"
        await store.write(AnswerOrder(number, now, "refused", said))
    while True:
        found = next(one for one in store.read.orders(run.no) if one.no == number)
        over = not is_under_way(store, run.no) or clock.monotonic() > until
        if over or (found.state != "given" and _has_reached_all(store, found)):
            return found
        await clock.sleep(LOOK / 5)


def is_under_way(store: StoreView, run: int) -> bool:
    """Whatever was known of it before."""
    status, lead = store.read.led_by(run)
    return status == "running" and has_process(store.read, run, lead, store.sessions.alive)


def has_process(read: RunQuestions, run: int, lead: str, alive: Callable[[str], bool]) -> bool:
    """One lives that carries it out, or that will take it over from the one that led it."""
    return alive(lead) or any(alive(one.session) for one in read.sharers(run))


def _has_reached_all(store: StoreView, order: OrderRecord) -> bool:
    """Those that others lead say how far they are."""
    _, lead = store.read.led_by(order.run)
    return order.state != "done" or all(
        one.gone or one.session == lead or _orders(one) >= order.no
        or not store.sessions.alive(one.session)
        for one in store.read.sharers(order.run)
    )  # fmt: skip


def _orders(one: Sharer) -> int:
    return _counts(one.counts).orders if one.counts else -1


@public
async def give_order(store: str, run: str, what: Verb, value: str = "", by: str = "") -> None:
    """Give an order to a run of another process, by its name or id: `pause`, `resume`, `set` (with
    `budget=5` and the like), `approve`, `skip` (with an item's id), `stop` (as SIGTERM does), `kill`.
    Returns when it is carried out; where no process runs it, when it is kept. Raises BadInput when it is
    refused."""
    opened = open_store(store)
    try:
        record = opened.read.find(run)
        if record is None:
            raise BadInput(f"no run {run!r} in {store}")
        given = await give(opened, record, by or f"process {os.getpid()}", what, value)
    finally:
        opened.close()
    if given.state == "refused":
        raise BadInput(f"{record.name} ({record.id}): {given.said}")
