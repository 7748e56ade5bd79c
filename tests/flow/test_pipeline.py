"""pipeline end to end: as fast as its slowest stage, few items between stages, nothing twice."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sqlite3
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from heapq import heapify, heapreplace
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest

from fanfold.clock import RealClock
from fanfold.errors import FanfoldError, Terminal, Transient
from fanfold.journal.opening import open_store
from fanfold.members.function import function
from fanfold.members.openai import OpenAI
from fanfold.patterns.arguments import terms_of
from fanfold.patterns.fold import collect, count, total
from fanfold.patterns.nested import map_reduce_inside
from fanfold.patterns.pipeline import Mode, Stage, pipeline, stage
from fanfold.patterns.prompt import prompt_of
from fanfold.price import dollars
from fanfold.run.run import Run
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import threaded_server
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.member import Member
from fanfold.work.outcome import Outcome, Receipt
from fanfold.work.task import Budget, Task
from tests.examples import points, seeds
from tests.flow.crash_child import PRICE, like
from tests.flow.scale_child import Numbers, peak_mb
from tests.flow.simulation import (
    Camera,
    Provider,
    Said,
    Scene,
    cancel_at,
    carry_out,
    in_its_store,
    outcomes,
    pause_at,
    play,
    words,
)

MODES: tuple[Mode, ...] = get_args(Mode)
USAGE = Usage(10, 5)
ITEMS = 24
ROOT = Path(__file__).parents[2]
both_modes = pytest.mark.parametrize("mode", MODES)
at_points = pytest.mark.parametrize("many", points(5, 12))


def said(prompt: str) -> str:
    """Another text for another prompt, so that whatever changes early shows at the end."""
    return f"<{blake2b(prompt.encode(), digest_size=4).hexdigest()}>"


def echoing(ask: Ask, n: int) -> Said:
    """Between one and three seconds, by content."""
    prompt = ask.messages[0].content
    return Said(Reply(said(prompt), usage=USAGE), USAGE, 1 + len(prompt) * 7 % 5 / 2)


def provider(id: str, says: Callable[[Ask, int], Said] = echoing) -> Provider:
    return Provider(says, traits(id, price=PRICE, max_tokens=200))


def three(**how: Any) -> tuple[Stage, ...]:
    """Each with a member of its own: a, b and c."""
    prompts = (
        "First {{ item.text }}",
        "Then {{ steps.one }}",
        "Last {{ steps.one }}{{ steps.two }}",
    )
    names = ("one", "two", "three")
    return tuple(
        stage(prompt, step=name, member=member, **{"concurrency": 3, **how})
        for prompt, name, member in zip(prompts, names, "abc", strict=True)
    )


def scene_of(
    store: Path, members: tuple[Member, ...], stages: tuple[Stage, ...], mode: Mode, **more: Any
) -> Scene:
    items = more.pop("items", words(ITEMS))
    return Scene(
        store, members, **more,
        pattern=lambda run: pipeline(run, items, *stages, mode=mode, reduce=collect()),
    )  # fmt: skip


def expected(n: int = ITEMS) -> list[dict[str, str]]:
    first = [said(f"First word {i}") for i in range(n)]
    last = [said(f"Last {one}{said(f'Then {one}')}") for one in first]
    return [{"id": str(i), "value": value} for i, value in enumerate(last)]


# ── how long it takes ────────────────────────────────────────────────────────────────────────


class Times:
    """Service times of so many items at three stages with so many slots each, uneven by item."""

    def __init__(
        self, seed: int, scale: tuple[float, float, float], slots: int, items: int = 100
    ) -> None:
        rng, self.items = Random(seed), items
        self.times = [[rng.uniform(0.5, 1.5) * factor for _ in range(items)] for factor in scale]
        self.slots = slots

    def critical_path(self) -> float:
        """No schedule is shorter: the work of the busiest stage over its slots, and before it the
        shortest way there, after it the shortest way out."""
        ways = list(zip(*self.times, strict=True))
        return max(
            sum(times) / self.slots
            + min(sum(way[:k]) for way in ways)
            + min(sum(way[k + 1 :]) for way in ways)
            for k, times in enumerate(self.times)
        )

    def scheduled(self, mode: Mode) -> float:
        """How long it takes when a free slot never waits while there is something for it."""
        ready = [(0.0, n) for n in range(self.items)]
        for times in self.times:
            free = [0.0] * self.slots
            heapify(free)
            ended = []
            for at, n in sorted(ready):
                end = max(at, free[0]) + times[n]
                heapreplace(free, end)
                ended.append((end, n))
            end = max(ended)[0]
            ready = ended if mode == "streaming" else [(end, n) for n in range(self.items)]
        return max(ready)[0]

    def member(self, k: int) -> Scripted:
        async def script(ask: Ask, n: int) -> Reply:
            await asyncio.sleep(self.times[k][int(ask.items[0].id)])
            return Reply(said(ask.messages[0].content), usage=USAGE)

        return Scripted(script, traits("abc"[k]))

    def taken(self, store: Path, mode: Mode) -> float:
        members = tuple(self.member(k) for k in range(3))
        stages = three(concurrency=self.slots)
        receipt = play(scene_of(store, members, stages, mode, items=words(self.items)))
        assert (outcomes(receipt), receipt.calls) == ({"passed": self.items}, 3 * self.items)
        return receipt.seconds


@pytest.mark.parametrize(
    "scale",
    [
        (1, 1, 1),
        (1, 2, 1),
        (2, 1, 1),
        (1, 1, 2),
        pytest.param((1, 0.5, 2), marks=pytest.mark.sweep),
    ],
)
@pytest.mark.parametrize("seed", seeds((1, 2), quick=1))
def test_three_stages_take_hardly_longer_than_the_critical_path(
    memory_path: Path, scale: tuple[float, float, float], seed: int
) -> None:
    """Streaming; the batch form takes the sum of its stages. Where no stage is the slowest, it takes more
    items until the way in and out does not count."""
    times = Times(seed, scale, slots=4, items=100 if scale == (1, 1, 1) else 60)
    streaming = times.taken(memory_path / "streaming", "streaming")
    batch = times.taken(memory_path / "batch", "batch")
    assert times.critical_path() <= streaming <= 1.1 * times.critical_path()
    assert streaming == pytest.approx(times.scheduled("streaming"), rel=0.02)
    assert batch == pytest.approx(times.scheduled("batch"), rel=0.01)
    assert batch == pytest.approx(sum(sum(t) / 4 for t in times.times), rel=0.05)


def test_with_more_slots_no_slot_lies_idle_either(memory_path: Path) -> None:
    times = Times(3, (1, 1, 1), slots=16)
    assert times.taken(memory_path, "streaming") == pytest.approx(
        times.scheduled("streaming"), rel=0.02
    )


def test_only_few_items_wait_between_two_stages(memory_path: Path) -> None:
    """The second stage is slow: the first must wait for it, however many items there are."""
    most = done = 0

    def quick(ask: Ask, n: int) -> Reply:
        nonlocal most
        most = max(most, n + 1 - done)
        return Reply(said(ask.messages[0].content), usage=USAGE)

    async def slow(ask: Ask, n: int) -> Reply:
        nonlocal done
        await asyncio.sleep(1)
        done += 1
        return Reply("fine", usage=USAGE)

    members = (Scripted(quick, traits("a")), Scripted(slow, traits("b")))
    stages = three(concurrency=4)[:2]
    receipt = play(scene_of(memory_path, members, stages, "streaming", items=words(400)))
    assert outcomes(receipt) == {"passed": 400}
    assert 64 < most < 200


# ── nothing twice ────────────────────────────────────────────────────────────────────────────


@both_modes
@pytest.mark.parametrize("free", [False, True])
def test_a_stage_that_failed_is_repeated_without_those_before_it(
    memory_path: Path, mode: Mode, free: bool
) -> None:
    """Also when those before it are functions whose replies serve this run only."""
    broken = True

    def second(ask: Ask, n: int) -> Reply | Exception:
        fails = broken and ask.items[0].id in ("3", "7")
        return Terminal("400: no", scope="ask") if fails else echoing(ask, n).given

    changes = {"shared": False, "metered": False} if free else {}
    scripts: tuple[Any, ...] = (lambda ask, n: echoing(ask, n).given, second) * 2
    members = tuple(
        Scripted(script, traits(id, **changes))
        for id, script in zip("abc", scripts[:2] + scripts[:1], strict=True)
    )
    scene = scene_of(memory_path, members, three(on_failure="hold"), mode)
    receipt = play(scene)
    assert (receipt.status, outcomes(receipt)) == ("paused", {"passed": ITEMS - 2, "failed": 2})
    assert [len(member.asked) for member in members] == [ITEMS, ITEMS, ITEMS - 2]
    broken = False
    receipt = play(scene, resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": ITEMS})
    assert receipt.result == expected()
    assert [len(member.asked) for member in members] == [ITEMS, ITEMS + 2, ITEMS]


def durable(store: Path, prompts: list[str]) -> set[str]:
    """The prompts whose reply is on disk."""
    keys = {Ask((Message("user", prompt),)).key("messages"): prompt for prompt in prompts}
    with closing(sqlite3.connect(store / "journal.db")) as db:
        return {keys[key] for (key,) in db.execute("select key from replies")}


def under_way(store: Path) -> int:
    with closing(sqlite3.connect(store / "journal.db")) as db:
        found: int = db.execute("select count(*) from attempts where state = 'started'").fetchone()[
            0
        ]
        return found


def images(scene: Scene, folder: Path, seed: int, many: int) -> list[Path]:
    """The store as it was after some of the run's commits, chosen by chance."""
    camera = Camera(scene.store, folder, lambda: None)
    play(scene, after_commit=camera)
    return sorted(Random(seed).sample(sorted(camera.seen), many))


@at_points
@both_modes
def test_killed_anywhere_it_goes_on_and_nothing_is_paid_twice(
    memory_path: Path, mode: Mode, many: int
) -> None:
    first = tuple(provider(id) for id in "abc")
    scene = scene_of(memory_path / "store", first, three(), mode)
    taken = images(scene, memory_path / "images", 5, many)
    prompts = [prompt for one in first for prompt in one.sent]
    assert len(prompts) == len(set(prompts)) == 3 * ITEMS
    for image in taken:
        known, open_calls = durable(image, prompts), under_way(image)
        second = tuple(provider(id) for id in "abc")
        receipt = play(replace(scene, store=image, members=second), resume=True)
        assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": ITEMS})
        assert receipt.result == expected()
        sent = [prompt for one in second for prompt in one.sent]
        assert sorted(sent) == sorted(set(prompts) - known)
        assert receipt.maybe_paid_twice == open_calls
        paid = len(known) * USAGE.input * PRICE.input + len(known) * USAGE.output * PRICE.output
        assert receipt.cost_usd >= paid / 1e6 + sum(one.bill for one in second) / 1e9


@at_points
@both_modes
def test_killed_anywhere_functions_are_called_only_for_what_is_not_on_record(
    memory_path: Path, mode: Mode, many: int
) -> None:
    """Their replies stand with their outcomes, at each stage."""
    called: list[tuple[str, str]] = []

    def noting(name: str) -> Callable[[Any], Any]:
        async def target(data: Any) -> Any:
            called.append((name, data["id"]))
            await asyncio.sleep(1)
            return [*data.get("steps", {}), name]

        return target

    members = tuple(function(noting(name), id=name) for name in "abc")
    stages = tuple(stage(member=name, step=name, concurrency=3) for name in "abc")
    items = [{"id": f"i{n}"} for n in range(ITEMS)]
    scene = scene_of(memory_path / "store", members, stages, mode, items=items)
    taken = images(scene, memory_path / "images", 6, many)
    every = sorted((name, f"i{n}") for name in "abc" for n in range(ITEMS))
    assert sorted(called) == every
    for image in taken:
        with closing(sqlite3.connect(image / "journal.db")) as db:
            rows = db.execute("select step, position from outcomes").fetchall()
        known = {("abc"[step], f"i{position}") for step, position in rows}
        called.clear()
        receipt = play(replace(scene, store=image), resume=True)
        assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": ITEMS})
        assert sorted(called) == sorted(set(every) - known)


@both_modes
def test_a_pause_in_the_middle_cuts_no_call_off_and_loses_nothing(
    memory_path: Path, mode: Mode
) -> None:
    """At any time; every call under way at any stage comes to its end."""
    for seconds in (0.5, 4.2, 9.7, 13.1):
        members = tuple(provider(id) for id in "abc")
        scene = scene_of(memory_path / f"{seconds}", members, three(), mode)
        receipt = play(scene, meanwhile=pause_at(seconds))
        assert (receipt.status, receipt.planned, sum(outcomes(receipt).values())) == (
            "paused", ITEMS, ITEMS,
        )  # fmt: skip
        assert set(outcomes(receipt)) <= {"passed", "cancelled"}
        assert seconds <= receipt.seconds <= seconds + 3.1
        receipt = play(scene, resume=True)
        assert (receipt.status, receipt.result) == ("complete", expected())
        assert [one.sent_again for one in members] == [{}, {}, {}]
        assert receipt.maybe_paid_twice == 0
        assert receipt.cost_usd == dollars(sum(one.bill for one in members))


def test_cancelled_in_the_middle_what_was_under_way_is_in_doubt_and_known_as_such(
    memory_path: Path,
) -> None:
    members = tuple(provider(id) for id in "abc")
    scene = scene_of(memory_path, members, three(), "streaming")
    receipt = play(scene, meanwhile=cancel_at(9.7))
    assert receipt.status == "killed"
    assert sum(outcomes(receipt).values()) == ITEMS
    lost = receipt.in_doubt
    assert 3 <= lost <= 9
    receipt = play(scene, resume=True)
    assert (receipt.status, receipt.result) == ("complete", expected())
    assert sum(len(one.sent_again) for one in members) == receipt.maybe_paid_twice == lost


@both_modes
def test_a_second_interrupt_does_not_wait_for_the_calls_that_the_first_lets_end(
    memory_path: Path, mode: Mode
) -> None:
    async def twice(run: Run, work: asyncio.Future[Any]) -> None:
        await run.clock.sleep(9.7)
        run.pause("interrupted")
        await run.clock.sleep(0.1)
        work.cancel()

    members = tuple(provider(id) for id in "abc")
    scene = scene_of(memory_path, members, three(), mode)
    receipt = play(scene, meanwhile=twice)
    assert receipt.seconds == pytest.approx(9.8)
    lost = receipt.in_doubt
    assert lost >= 3
    receipt = play(scene, resume=True)
    assert (receipt.status, receipt.result) == ("complete", expected())
    assert sum(len(one.sent_again) for one in members) == receipt.maybe_paid_twice == lost


@both_modes
def test_out_of_money_it_pauses_and_goes_on_with_more(memory_path: Path, mode: Mode) -> None:
    members = tuple(provider(id) for id in "abc")
    scene = scene_of(memory_path, members, three(), mode, budget=Budget(usd=0.004))
    receipt = play(scene)
    assert receipt.status == "paused" and receipt.unfunded > 0
    assert sum(one.bill for one in members) <= 0.004e9
    receipt = play(replace(scene, budget=Budget(usd=1)), resume=True)
    assert (receipt.status, receipt.result) == ("complete", expected())
    assert [one.sent_again for one in members] == [{}, {}, {}]


# ── when something dies ──────────────────────────────────────────────────────────────────────


def dies_after(many: int) -> Callable[[Ask, int], Said]:
    def says(ask: Ask, n: int) -> Said:
        return echoing(ask, n) if n < many else Said(Terminal("404: gone", scope="member"))

    return says


@both_modes
def test_a_member_that_dies_half_way_is_replaced_by_the_other(
    memory_path: Path, mode: Mode
) -> None:
    members = (provider("a"), provider("b", dies_after(8)), provider("other"), provider("c"))
    one, _, three_ = three()
    two = stage("Then {{ steps.one }}", step="two", members=["b", "other"], concurrency=3)
    receipt = play(scene_of(memory_path, members, (one, two, three_), mode))
    assert (receipt.status, receipt.result) == ("complete", expected())
    answered = set(members[1].sent[:8]) | set(members[2].sent)
    assert len(answered) == ITEMS and len(members[2].sent) == ITEMS - 8


@both_modes
def test_the_only_member_of_a_stage_dies_half_way(memory_path: Path, mode: Mode) -> None:
    """The run pauses, with what the other stages have done on record."""
    members = (provider("a"), provider("b", dies_after(8)), provider("c"))
    scene = scene_of(memory_path, members, three(), mode)
    receipt = play(scene)
    assert receipt.status == "paused" and "404: gone" in (receipt.reason or "")
    alive = provider("b")
    receipt = play(replace(scene, members=(members[0], alive, members[2])), resume=True)
    assert (receipt.status, receipt.result) == ("complete", expected())
    assert [one.sent_again for one in (members[0], alive, members[2])] == [{}, {}, {}]
    assert not set(alive.sent) & set(members[1].sent[:8])


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_defect_in_the_machinery_of_one_stage_ends_the_others(memory_path: Path, at: int) -> None:
    """It is raised, soon, and nothing goes on behind it."""

    async def defect(run: Run, task: Task) -> Outcome:
        await run.clock.sleep(1)
        if task.id == "5":
            raise FanfoldError("a defect")
        return run.settle(task, Outcome(task.id, "passed", Reply("fine")))

    stages = list(three())
    stages[at] = stage(by=defect, step=("one", "two", "three")[at], concurrency=3)
    members = tuple(provider(id) for id in "abc")

    async def pattern(run: Run) -> None:
        with pytest.raises(FanfoldError, match="a defect"):
            await pipeline(run, words(ITEMS), *stages)
        assert run.clock.monotonic() < 12
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert [task for task in left if "Stream" in repr(task)] == []
        assert run.statistics().in_flight == 0

    play(Scene(memory_path, members, pattern=pattern))


def test_a_defect_ends_also_the_stages_that_wait_for_room(memory_path: Path) -> None:
    """The queue before the last stage is full when it goes wrong there."""

    async def defect(run: Run, task: Task) -> Outcome:
        await run.clock.sleep(100)
        raise FanfoldError("a defect")

    async def pattern(run: Run) -> None:
        stages = (stage(member="quick"), stage(by=defect))
        with pytest.raises(FanfoldError, match="a defect"):
            await pipeline(run, Numbers(1000), *stages)
        assert [task for task in asyncio.all_tasks() if "Stream" in repr(task)] == []

    play(Scene(memory_path, (function(lambda data: "ok", id="quick"),), pattern=pattern))


@both_modes
def test_a_failure_that_aborts_lets_calls_at_other_stages_end(
    memory_path: Path, mode: Mode
) -> None:
    def second(ask: Ask, n: int) -> Said:
        return Said(Transient("503")) if n == 4 else echoing(ask, n)

    members = (provider("a"), provider("b", second), provider("c"))
    one, two, last = three(attempts=1)
    two = stage("Then {{ steps.one }}", step="two", member="b", attempts=1, on_failure="abort")
    scene = scene_of(memory_path, members, (one, two, last), mode)
    receipt = play(scene)
    assert (receipt.status, receipt.failed, receipt.in_doubt) == ("aborted", 1, 0)
    receipt = play(scene, resume=True)
    assert (receipt.status, receipt.result) == ("complete", expected())
    assert (members[0].sent_again, members[2].sent_again) == ({}, {})
    assert list(members[1].sent_again.values()) == [2]


# ── patterns as stages ───────────────────────────────────────────────────────────────────────


def chapters(text: str) -> Stage:
    """A map_reduce over the two halves of the reply before it."""
    inner = map_reduce_inside(
        lambda item: [item["steps"]["one"][:5], item["steps"]["one"][5:]],
        prompt_of(f"{text} {{{{ item.text }}}}", None),
        terms_of({"member": "b", "concurrency": 3}, None, "halves"),
        lambda parts: "".join(part.value for part in parts),
    )
    return stage(by=inner, step="two", concurrency=3)


@at_points
@both_modes
def test_a_map_reduce_as_a_stage_killed_anywhere(memory_path: Path, mode: Mode, many: int) -> None:
    first = tuple(provider(id) for id in "abc")
    one, _, last = three()
    scene = scene_of(memory_path / "store", first, (one, chapters("Read"), last), mode)
    taken = images(scene, memory_path / "images", 7, many)
    prompts = [prompt for one in first for prompt in one.sent]
    assert len(prompts) == len(set(prompts)) == 4 * ITEMS
    results = set()
    for image in taken:
        known, open_calls = durable(image, prompts), under_way(image)
        second = tuple(provider(id) for id in "abc")
        receipt = play(replace(scene, store=image, members=second), resume=True)
        assert (receipt.status, receipt.planned) == ("complete", 3 * ITEMS)
        sent = [prompt for one in second for prompt in one.sent]
        assert sorted(sent) == sorted(set(prompts) - known)
        assert receipt.maybe_paid_twice == open_calls
        results.add(json.dumps(receipt.result))
    assert len(results) == 1


def test_a_pause_inside_a_map_reduce_loses_nothing(memory_path: Path) -> None:
    members = tuple(provider(id) for id in "abc")
    one, _, last = three()
    scene = scene_of(memory_path, members, (one, chapters("Read"), last), "streaming")
    receipt = play(scene, meanwhile=pause_at(7.3))
    assert (receipt.status, set(outcomes(receipt))) == ("paused", {"passed", "cancelled"})
    receipt = play(scene, resume=True)
    assert (receipt.status, outcomes(receipt)) == ("complete", {"passed": 3 * ITEMS})
    assert [one.sent_again for one in members] == [{}, {}, {}]


# ── over HTTP ────────────────────────────────────────────────────────────────────────────────


@both_modes
def test_over_the_model_server(tmp_path: Path, mode: Mode) -> None:
    """One member for all stages; the server says the prompt back, and its books are the measure."""
    with threaded_server(tmp_path / "books.jsonl", price=PRICE, latency_ms=2.0) as server:

        def carried_out(name: str) -> Receipt:
            member = OpenAI(like(), server.url, lambda: "key")
            stages = tuple(
                stage(prompt, step=step)
                for step, prompt in (
                    ("one", "First {{ item.text }}"), ("two", "Then {{ steps.one }}"),
                    ("three", "Last {{ steps.one }} {{ steps.two }}"),
                )
            )  # fmt: skip
            scene = scene_of(tmp_path / "store", (member,), stages, mode, name=name)

            return asyncio.run(in_its_store(scene))

        receipt = carried_out("first")
        one = [f"First word {n}" for n in range(ITEMS)]
        value = [f"Last {text} Then {text}" for text in one]
        assert receipt.result == [{"id": str(n), "value": text} for n, text in enumerate(value)]
        books = server.books()
        asked = sorted(entry.prompt for entry in books.asked)
        assert asked == sorted([*one, *(f"Then {text}" for text in one), *value])
        assert receipt.cost_usd == dollars(books.bill)
        again = carried_out("second")
        assert (again.result, again.calls, again.reused) == (receipt.result, 0, 3 * ITEMS)
        assert len(server.books().asked) == 3 * ITEMS


# ── many ─────────────────────────────────────────────────────────────────────────────────────


def one(data: dict[str, Any]) -> Any:
    return {"n": data["n"] + 1}


def two(data: dict[str, Any]) -> Any:
    return {"n": 2 * data["steps"]["stage1"]["n"]}


LOOKS: dict[int, tracemalloc.Snapshot | None] = {}  # what is held when this item is the last one


def last(data: dict[str, Any]) -> Any:
    if data["n"] in LOOKS:
        gc.collect()  # a whole one also empties Python's lists of tuples kept for later
        LOOKS[data["n"]] = tracemalloc.take_snapshot()
    return data["steps"]["stage2"]["n"]


async def many(store: str | Path, items: int) -> float:
    """Peak memory of so many items through three functions."""
    targets = (one, two, last)
    stages = [stage(member=target.__name__, concurrency=32) for target in targets]
    members = tuple(function(target, concurrency=32) for target in targets)
    scene = Scene(
        Path(store),
        members,
        pattern=lambda run: pipeline(run, Numbers(items), *stages, reduce=total()),
    )
    journal = open_store(store)
    try:
        receipt = await carry_out(journal, scene, RealClock())
    finally:
        journal.close()
    assert (outcomes(receipt), receipt.result) == ({"passed": items}, items * (items + 1))
    return peak_mb()


def peak_of(store: Path, items: int) -> float:
    code = (
        "import asyncio, pathlib, sys; from tests.flow.test_pipeline import many;"
        "print(asyncio.run(many(pathlib.Path(sys.argv[1]), int(sys.argv[2]))))"
    )
    paths = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
    told = subprocess.run(
        [sys.executable, "-c", code, str(store), str(items)],
        stdout=subprocess.PIPE, check=True, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip
    return float(told.stdout)


@pytest.mark.sweep
def test_twenty_thousand_items_in_little_memory(memory_path: Path) -> None:
    """The caches of the database fill up to 32 MB; items must not add up on top of that. What Python
    keeps of an item is measured more closely by the test below."""
    assert peak_of(memory_path / "many", 20_000) - peak_of(memory_path / "few", 500) < 36.0


def test_nothing_is_kept_of_an_item_that_has_gone_through() -> None:
    """When the last one goes through, no line of the code has made more objects that are still held
    for 1,300 items more; one of each fourth item would break the bound. In a store that commits at
    once: how much waits for a disk depends on the machine."""

    def held(items: int) -> Counter[str]:
        LOOKS[items - 1] = None
        tracemalloc.start()
        try:
            asyncio.run(many("memory:", items))
        finally:
            tracemalloc.stop()
        look = LOOKS.pop(items - 1)
        assert look is not None
        return Counter({str(line.traceback): line.count for line in look.statistics("lineno")})

    held(100)
    more = held(1600) - held(300)
    assert {line: count for line, count in more.items() if count > 1300 / 4} == {}


@pytest.mark.sweep
def test_a_hundred_thousand_items_and_four_times_as_many_in_the_same_memory(
    tmp_path: Path,
) -> None:
    assert peak_of(tmp_path / "more", 400_000) - peak_of(tmp_path / "many", 100_000) < 20.0


def test_a_thousand_items_resumed_are_read_from_the_journal(memory_path: Path) -> None:
    """Through all stages, without a call and without writing the same down again."""
    members = tuple(Scripted(lambda ask, n: Reply("x", usage=USAGE), traits(id)) for id in "abc")
    scene = Scene(
        memory_path, members,
        pattern=lambda run: pipeline(run, words(1000), *three(), reduce=count()),
    )  # fmt: skip
    play(scene)
    commits: list[int] = []
    receipt = play(scene, resume=True, after_commit=commits.append)
    assert (receipt.result, receipt.calls, receipt.reused) == (1000, 0, 3000)
    assert len(commits) < 20
