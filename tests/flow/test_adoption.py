"""Agents outlive the process that started them: a resumed run takes them over, and pays for none
again. Their work lies in a `World` of its own, as their logs and processes do."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

from fanfold.errors import CalledOff, MemberError, Terminal
from fanfold.patterns.graph import graph, node
from fanfold.price import nanos
from fanfold.run.run import Run
from fanfold.testing.member import traits
from fanfold.work.ask import Ask, Reply, Usage
from fanfold.work.member import MemberLimits, Request, Tell, Traits
from fanfold.work.task import Budget
from tests.flow.simulation import Camera, Scene, cancel_at, outcomes, play

MOST = nanos(1.0)
COST = 0.25
SECONDS = {"a": 60.0, "b": 70.0, "c": 80.0, "d": 90.0}
IDS = ("a", "b", "c", "d")


@dataclass
class Work:
    """One worker: whom it was started for, and how it ends."""

    prompt: str
    ended: bool = False
    gone: bool = False
    why: Exception | None = None


@dataclass
class World:
    """What is at work on the machine, by span; it does not die with the one who started it."""

    workers: dict[str, Work] = field(default_factory=dict)

    def ended(self) -> list[str]:
        return [work.prompt for work in self.workers.values() if work.ended]

    def prompts(self) -> list[str]:
        return sorted(work.prompt for work in self.workers.values())


class Worker:
    """An agent. It takes a minute and a quarter of a dollar, of the dollar that it may."""

    def __init__(
        self, world: World, fate: dict[str, Exception] | None = None, slots: int = 64
    ) -> None:
        self._world, self._fate, self._slots = world, fate or {}, slots

    @property
    def traits(self) -> Traits:
        limits = MemberLimits(concurrency=self._slots)
        return traits("worker", agent=True, shared=False, keeps_time=True, limits=limits)

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    def prepare(self, ask: Ask) -> Request:
        return Request(ask, most=MOST)

    async def ask(self, request: Request, tell: Tell) -> Reply:
        prompt = request.ask.messages[0].content
        self._world.workers[request.span] = Work(prompt, why=self._fate.get(prompt))
        return await self._wait(request.span)

    def place_of(self, span: str, store: str) -> Path:
        return Path(store, "agents", *span.split(":"))

    def has_trace(self, span: str, store: str) -> bool:
        return span in self._world.workers

    async def adopt(self, span: str, store: str, tell: Tell) -> Reply | None:
        return None if self._world.workers[span].gone else await self._wait(span)

    def end(self, why: str, said: str) -> None:
        for work in self._world.workers.values():
            if not work.ended:
                work.why = killed()

    async def _wait(self, span: str) -> Reply:
        work = self._world.workers[span]
        try:
            await asyncio.sleep(SECONDS[work.prompt])
        except asyncio.CancelledError:
            work.why = called_off()
            raise
        work.ended = True
        if work.why is not None:
            raise work.why
        return Reply(f"{work.prompt} is done", usage=Usage(10, 5), cost_usd=COST)


def killed() -> MemberError:
    error = Terminal("killed by the operator", scope="ask")
    error.cost, error.usage = nanos(0.1), Usage(4, 1)
    return error


def called_off() -> CalledOff:
    error = CalledOff("called off with its run")
    error.cost = nanos(0.1)
    return error


def scene(store: Path, world: World, fate: dict[str, Exception] | None = None) -> Scene:
    """Two at once, then two that wait for them."""

    async def fleet(run: Run) -> None:
        await graph(
            run,
            [
                node("a", "a", member="worker"),
                node("b", "b", member="worker"),
                node("c", "c", member="worker", depends_on=["a"]),
                node("d", "d", member="worker", depends_on=["a", "b"]),
            ],
        )

    return Scene(store, (Worker(world, fate),), pattern=fleet)


def images(tmp_path: Path, first: Scene, world: World) -> list[tuple[Path, World]]:
    """The store after each commit, with the world as it was then."""

    def look() -> list[tuple[str, Work]]:
        return [(span, replace(work)) for span, work in world.workers.items()]

    camera = Camera(first.store, tmp_path / "images", look)
    play(first, after_commit=camera)
    return [(image, World(dict(seen))) for image, seen in camera.seen.items()]


def test_after_any_crash_each_worker_was_started_once(tmp_path: Path) -> None:
    world = World()
    taken = images(tmp_path, scene(tmp_path / "store", world), world)
    assert len(taken) > 10
    for image, then in taken:
        receipt = play(scene(image, then), resume=True)
        assert (outcomes(receipt), then.prompts()) == ({"passed": 4}, list(IDS)), image
        assert receipt.cost_usd == 4 * COST
        assert receipt.in_doubt == receipt.maybe_paid_twice_usd == 0


def test_the_money_of_an_adopted_worker_is_reserved_until_it_ends(tmp_path: Path) -> None:
    """$2 are two workers at once; what an adopted one did not take is there for the next."""
    world = World()
    first = replace(scene(tmp_path / "store", world), budget=Budget(usd=2.0))
    for image, then in images(tmp_path, first, world):
        receipt = play(replace(scene(image, then), budget=Budget(usd=2.0)), resume=True)
        assert (outcomes(receipt), receipt.cost_usd) == ({"passed": 4}, 1.0), image
        assert then.prompts() == list(IDS)


def test_a_worker_that_failed_meanwhile_is_not_started_again(tmp_path: Path) -> None:
    world, fate = World(), {"a": killed()}
    for image, then in images(tmp_path, scene(tmp_path / "store", world, fate), world):
        receipt = play(scene(image, then, fate), resume=True)
        assert outcomes(receipt) == {"passed": 1, "failed": 3}, image
        assert then.prompts() == ["a", "b"], image
        assert receipt.cost_usd == COST + 0.1


def test_one_that_was_called_off_with_its_run_is_started_anew(tmp_path: Path) -> None:
    world = World()
    first = play(scene(tmp_path / "store", world), meanwhile=cancel_at(30))
    assert (first.status, world.prompts()) == ("killed", ["a", "b"])
    receipt = play(scene(tmp_path / "store", world), resume=True)
    assert (outcomes(receipt), receipt.status) == ({"passed": 4}, "complete")
    assert world.prompts() == ["a", "a", "b", "b", "c", "d"]
    assert round(receipt.cost_usd, 6) == 4 * COST + 2 * 0.1


def test_one_that_is_gone_without_a_word_stays_in_doubt(tmp_path: Path) -> None:
    """The machine was restarted, say. Its money counts as spent, those after it wait, and only the
    operator has it repeated."""
    world = World()
    taken = images(tmp_path, scene(tmp_path / "store", world), world)
    image, then = next(one for one in taken if one[1].ended() == ["a"])
    gone = next(work for work in then.workers.values() if work.prompt == "b")
    gone.gone = True
    receipt = play(scene(image, then), resume=True)
    left = {"passed": 2, "in_doubt": 1, "cancelled": 1}
    assert (receipt.status, outcomes(receipt)) == ("paused", left)
    assert (receipt.cost_usd, then.prompts()) == (1.0 + 2 * COST, ["a", "b", "c"])
    receipt = play(replace(scene(image, then), settings={"retry_in_doubt": None}), resume=True)
    assert (outcomes(receipt), receipt.maybe_paid_twice_usd) == ({"passed": 4}, 1.0)
    assert then.prompts() == ["a", "b", "b", "c", "d"]


def test_one_that_is_started_anew_gets_the_slot_of_the_adopted_one(tmp_path: Path) -> None:
    """It fails while its successor, which is asked something else, waits for its only slot."""

    def alone(store: Path, world: World, sample: int) -> Scene:
        async def fleet(run: Run) -> None:
            await graph(run, [node("a", "a", member="worker", sample=sample)])

        member = Worker(world, {"a": killed()} if not sample else None, slots=1)
        return Scene(store, (member,), pattern=fleet, settings={"anew": frozenset({"a"})})

    world = World()
    taken = images(tmp_path, alone(tmp_path / "store", world, 0), world)
    at_work = [(image, then) for image, then in taken if then.workers and not then.ended()]
    assert at_work
    for image, then in at_work:
        receipt = play(alone(image, then, 1), resume=True)
        assert (outcomes(receipt), then.prompts()) == ({"passed": 1}, ["a", "a"]), image
