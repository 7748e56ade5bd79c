"""A map over items under the virtual clock, with a provider that keeps its own books, and crashes.

A crash is an image: the store's files as they are on disk right after a commit, which is what
`kill -9` leaves there. The run itself goes on to its end, so nothing has to be torn down.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from fanfold.clock import Clock, RealClock
from fanfold.errors import RunStopped
from fanfold.journal.contract import Store
from fanfold.journal.damage import damage_is_named
from fanfold.journal.opening import open_store
from fanfold.members.roster import RosterSettings
from fanfold.patterns.fold import collect
from fanfold.patterns.map_reduce import map_reduce
from fanfold.price import Price, cost
from fanfold.run.member_sources import GivenMembers
from fanfold.run.open import finish
from fanfold.run.record import reopen, start
from fanfold.run.run import Run
from fanfold.run.settings import Settings
from fanfold.testing.clock import VirtualClock, run_virtual
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import Member, Request, Tell, Traits
from fanfold.work.outcome import STATES, Receipt
from fanfold.work.task import Budget

PRICE = Price(input=1.0, output=5.0)
USAGE = Usage(10, 5)
NOTHING = Usage()
UNLIMITED = Budget()
MOST_COMMITS = 20_000
MOST_SECONDS = 20_000.0
Meanwhile = Callable[[Run, "asyncio.Future[Any]"], Awaitable[None]]


@dataclass(frozen=True)
class Said:
    """What a provider does with one call. `billed` is what it charges for, told or not."""

    given: Reply | Exception
    billed: Usage = NOTHING
    seconds: float = 0.0


class Provider:
    """A paid member that bills a call when it arrives, also when nobody waits for the answer.

    `says(ask, n)` is called with the n-th ask, from 0. `sent` are the first prompts of all calls.
    """

    def __init__(self, says: Callable[[Ask, int], Said], like: Traits | None = None) -> None:
        self._says = says
        self._traits = like or traits("provider", price=PRICE, max_tokens=400)
        self.sent: list[str] = []
        self.bill = self.tokens = 0

    @property
    def traits(self) -> Traits:
        return self._traits

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        text = sum(len(message.content.encode()) for message in ask.conversation())
        return Request(ask, b"", text + 1024, ask.params.max_tokens or self._traits.max_tokens)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        said = self._says(request.ask, len(self.sent))
        self.sent.append(request.ask.messages[0].content)
        self._charge(said.billed)
        await asyncio.sleep(said.seconds)
        if isinstance(said.given, Exception):
            raise said.given
        return said.given

    def _charge(self, usage: Usage) -> None:
        price = self._traits.price or Price()
        self.bill += cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write)
        self.tokens += usage.total

    @property
    def sent_again(self) -> dict[str, int]:
        return {prompt: times for prompt, times in Counter(self.sent).items() if times > 1}


@dataclass(frozen=True)
class Scene:
    """One run: where, by whom, over what, and how. A map with these arguments of `map_reduce`, or
    any other `pattern`: what is to be done with the open run."""

    store: Path
    members: tuple[Member, ...]
    items: Any = ()
    budget: Budget = UNLIMITED
    name: str = "scene"
    how: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    roster: RosterSettings = field(default_factory=RosterSettings)
    pattern: Callable[[Run], Awaitable[Any]] | None = None


def play(
    scene: Scene,
    *,
    resume: bool = False,
    after_commit: Callable[[int], None] | None = None,
    meanwhile: Meanwhile | None = None,
) -> Receipt:
    """Carry the scene out on a virtual clock and an inline journal, to its receipt.

    A run that goes round in circles is an AssertionError, not a test that never ends.
    """

    async def main(clock: VirtualClock) -> Receipt:
        journal = open_store(scene.store, thread=False, after_commit=_Bounded(after_commit))
        try:
            async with asyncio.timeout(MOST_SECONDS):
                with damage_is_named(journal):
                    return await carry_out(journal, scene, clock, resume, meanwhile)
        finally:
            journal.close()

    try:
        return run_virtual(main)
    except (_Endless, TimeoutError):
        raise AssertionError("the run goes round in circles") from None


class _Endless(KeyboardInterrupt):
    """Only such an exception leaves the event loop from a callback."""


class _Bounded:
    """The hook, and an end to a run that commits for ever."""

    def __init__(self, hook: Callable[[int], None] | None) -> None:
        self._hook, self._ended = hook, False

    def __call__(self, commit: int) -> None:
        if self._hook:
            self._hook(commit)
        if commit > MOST_COMMITS and not self._ended:
            self._ended = True
            raise _Endless


async def carry_out(
    journal: Store,
    scene: Scene,
    clock: Clock,
    resume: bool = False,
    meanwhile: Meanwhile | None = None,
) -> Receipt:
    earlier = journal.read.find(scene.name) if resume else None
    if earlier is None:
        record = await start(journal, scene.name, clock, scene.budget)
    else:
        record = await reopen(journal, earlier, clock, scene.budget)
    company = GivenMembers(*scene.members, settings=scene.roster)
    settings = Settings(budget=scene.budget, **scene.settings)
    run = Run(journal, record, company, settings, clock)
    if record.resumed:
        await run.adopt()
    with suppress(RunStopped):
        await _mapped(run, scene, meanwhile)
    return await finish(journal, run)


async def _mapped(run: Run, scene: Scene, meanwhile: Meanwhile | None) -> None:
    how = {"prompt": "Say {{ item.text }}", "reduce": collect(), **scene.how}
    pattern = scene.pattern or (lambda run: map_reduce(run, scene.items, **how))
    work: asyncio.Future[Any] = asyncio.ensure_future(pattern(run))
    beside = asyncio.ensure_future(meanwhile(run, work)) if meanwhile else None
    try:
        await work
    except asyncio.CancelledError:
        if run.stopping is None:
            raise
    finally:
        if beside is not None:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)


async def in_its_store(scene: Scene, *, resume: bool = False) -> Receipt:
    """With a store of its own, by the real clock."""
    journal = open_store(scene.store)
    try:
        return await carry_out(journal, scene, RealClock(), resume)
    finally:
        journal.close()


def cancel_at(seconds: float) -> Meanwhile:
    """What the operator does who interrupts twice: no new call, and no waiting for the others."""

    async def interrupt(run: Run, work: asyncio.Future[Any]) -> None:
        await run.clock.sleep(seconds)
        run.kill("cancelled by the operator")
        work.cancel()

    return interrupt


def pause_at(seconds: float) -> Meanwhile:
    """What the operator does who interrupts once."""

    async def interrupt(run: Run, work: asyncio.Future[Any]) -> None:
        await run.clock.sleep(seconds)
        run.pause("interrupted")

    return interrupt


class Camera:
    """Takes an image of the store after the chosen commits, with what `look` sees at that moment."""

    def __init__(self, store: Path, images: Path, look: Callable[[], Any]) -> None:
        self._store, self._images, self._look = store, images, look
        self.seen: dict[Path, Any] = {}
        self.wanted: Callable[[int], bool] = lambda commit: True

    def __call__(self, commit: int) -> None:
        if self.wanted(commit):
            image = self._images / f"after-{commit}"
            copy_store(self._store, image)
            self.seen[image] = self._look()


def copy_store(store: Path, image: Path) -> None:
    """The database and its log; not the locks of living sessions, which die with their process."""
    image.mkdir(parents=True)
    for name in ("journal.db", "journal.db-wal"):
        if (store / name).exists():
            shutil.copyfile(store / name, image / name)
    (image / "ballast").touch()


def digest_of(prompt: str) -> str:
    """Another text for another prompt, so that whatever changes below shows at the top."""
    return f"<{blake2b(prompt.encode(), digest_size=4).hexdigest()}>"


def echoing(ask: Ask, n: int) -> Said:
    """The digest of the prompt, after a second, for a fixed usage."""
    return Said(Reply(digest_of(ask.messages[0].content), usage=USAGE), USAGE, 1.0)


def outcomes(receipt: Receipt) -> dict[str, int]:
    """Those that occurred."""
    counts = {state: int(getattr(receipt, state)) for state in STATES}
    return {state: many for state, many in counts.items() if many}


def words(n: int) -> list[str]:
    return [f"word {i}" for i in range(n)]
