"""Promise 2. A call whose reply was recorded is never made again; what is repeated is told.

Paid calls are counted in the books of the one who answers, never in ours.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from fanfold.clock import RealClock
from fanfold.errors import AlreadyRunning, StoreUnavailable, TimedOut, Transient
from fanfold.journal import opening
from fanfold.journal.opening import open_store
from fanfold.journal.sqlite.marks import read_marks
from fanfold.journal.sqlite.sessions import this_process
from fanfold.price import dollars
from fanfold.run.record import reopen, start
from fanfold.testing.books import ServerBooks
from fanfold.testing.member import Scripted, traits
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Says, Script, always, by_prompt, sequence
from fanfold.testing.server import ModelServer
from fanfold.work.ask import Ask, Message, Reply, Usage
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import Budget
from tests.flow.children import Child, child, finished
from tests.flow.crash_child import PRICE, Job, answered, carried_out, progress, scene_of
from tests.flow.simulation import (
    Camera,
    Provider,
    Said,
    Scene,
    in_its_store,
    outcomes,
    pause_at,
    play,
    words,
)
from tests.waiting import wait_until

ITEMS = 40


def texts(series: str, n: int = ITEMS) -> list[str]:
    """None of them is the beginning of another."""
    return [f"<{series}-{i}>" for i in range(n)]


def counts(books: ServerBooks, items: list[str]) -> list[int]:
    """How often each was asked about, alone or in a shard, whatever came of it."""
    prompts = [entry.prompt for entry in books.asked]
    return [sum(f"Say {text}" in prompt for prompt in prompts) for text in items]


BOOT = this_process().boot.encode()

# ── kill -9 ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """It outlives its clients, and bills what they asked for also when they are gone."""
    books = tmp_path_factory.mktemp("server") / "books.jsonl"
    script = "tests.flow.crash_child:answered"
    with threaded_server(books, script=script, price=PRICE, latency_ms=4.0) as running:
        yield running


def durable(store: Path, items: list[str]) -> set[str]:
    """The items whose reply is on disk."""
    keys = {Ask((Message("user", f"Say {text}"),)).key("messages"): text for text in items}
    with closing(sqlite3.connect(store / "journal.db")) as db:
        return {keys[key] for (key,) in db.execute("select key from replies")}


def attempts(store: Path, state: str) -> int:
    with closing(sqlite3.connect(store / "journal.db")) as db:
        found: int = db.execute(
            "select count(*) from attempts where state = ?", (state,)
        ).fetchone()[0]
        return found


def perhaps_sent(store: Path) -> int:
    """Attempts of the killed process that it had begun to send."""
    marked = {no for one in read_marks(store / "sent", BOOT) for no in one.attempts}
    with closing(sqlite3.connect(store / "journal.db")) as db:
        rows = db.execute("select no from attempts where state = 'started'")
        return len(marked & {no for (no,) in rows})


def check_kill(server: RunningServer, store: Path, point: int, shard: int | None = None) -> None:
    """Kill when it is so far, resume, and compare with the server's books. Only what was sent is in
    doubt, not what was claimed ahead."""
    items = texts(f"{store.parent.name}-{point}")
    job = Job(
        store=str(store), url=server.url, items=items, die_at=point, shard=shard, concurrency=4
    )
    assert finished(child(job)) is None
    assert progress(store) >= point
    server.wait_idle()
    known, under_way = durable(store, items), perhaps_sent(store)
    assert under_way <= attempts(store, "started")
    before = dict(zip(items, counts(server.books(), items), strict=True))
    assert {before[text] for text in known} <= {1}

    told = finished(child(msgspec.structs.replace(job, die_at=None, resume=True)))
    assert told is not None
    receipt = told.receipt
    after = dict(zip(items, counts(server.books(), items), strict=True))
    assert {text: after[text] for text in known} == dict.fromkeys(known, 1)
    assert attempts(store, "in_doubt") == receipt.maybe_paid_twice == under_way
    assert sum(after.values()) <= ITEMS + under_way * (shard or 1)
    assert (receipt.status, receipt.planned, outcomes(receipt)) == (
        "complete", ITEMS, {"passed": ITEMS},
    )  # fmt: skip
    assert (receipt.maybe_paid_twice_usd > 0) == (under_way > 0)
    bill = sum(e.cost for e in server.books().asked if any(f"Say {t}" in e.prompt for t in items))
    assert dollars(bill) <= receipt.cost_usd


def steps(server: RunningServer, folder: Path, shard: int | None = None) -> int:
    """How far such a run gets. Its end is a step of its own: after that nothing is to be resumed."""
    items = texts(f"{folder.parent.name}-whole")
    job = Job(store=str(folder), url=server.url, items=items, shard=shard, concurrency=4)
    assert finished(child(job)) is not None
    return progress(folder)


def test_killed_at_any_commit_no_durable_reply_is_asked_for_again(
    server: RunningServer, tmp_path: Path
) -> None:
    """A spread of 5, from the first commit to the one with the last reply; the sweep takes each."""
    most = steps(server, tmp_path / "whole")
    assert most == 2 * ITEMS + 1
    for point in sorted({round(n * (most - 1) / 4) for n in range(5)}):
        check_kill(server, tmp_path / f"k{point}", point)


@pytest.mark.sweep
@pytest.mark.parametrize("shard", [None, 5])
def test_killed_at_every_commit(server: RunningServer, tmp_path: Path, shard: int | None) -> None:
    for point in range(steps(server, tmp_path / "whole", shard)):
        check_kill(server, tmp_path / f"k{point}", point, shard)


def test_killed_again_and_again_it_still_gets_done(server: RunningServer, tmp_path: Path) -> None:
    """Five kills in one run; what is asked more often than once was under way at one of them."""
    items = texts(tmp_path.name)
    job = Job(store=str(tmp_path), url=server.url, items=items, concurrency=2)
    for kill in range(5):
        dies = msgspec.structs.replace(job, die_at=12 * (kill + 1), resume=kill > 0)
        assert finished(child(dies)) is None
    lost = perhaps_sent(tmp_path) + attempts(tmp_path, "in_doubt")
    told = finished(child(msgspec.structs.replace(job, resume=True)))
    assert told is not None and outcomes(told.receipt) == {"passed": ITEMS}
    assert told.receipt.maybe_paid_twice == attempts(tmp_path, "in_doubt") == lost
    server.wait_idle()
    assert ITEMS <= sum(counts(server.books(), items)) <= ITEMS + lost


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(50))
def test_a_thousand_kills(server: RunningServer, tmp_path: Path, seed: int) -> None:
    """Twenty in each of fifty runs: by its own hand right after a commit, or from outside at a moment of
    chance, but by its own hand where we come too late. What is durable at one of them is never asked for
    again."""
    random = Random(seed)
    items = [f"thousand {seed} {n}." for n in range(5 * ITEMS)]
    job = Job(
        store=str(tmp_path), url=server.url, items=items, concurrency=random.choice((1, 2, 4))
    )
    durable_at: list[tuple[int, set[str]]] = []  # after so many calls
    while len(durable_at) < 20:
        point = (progress(tmp_path) if durable_at else 0) + random.randint(0, 6)
        own, resume = random.random() < 0.5, bool(durable_at)
        die_at = point if own else point + 2
        running = child(msgspec.structs.replace(job, die_at=die_at, resume=resume))
        if not own:
            wait_until(lambda running=running, point=point: is_so_far(running, tmp_path, point))
            running.process.kill()
        assert finished(running) is None
        server.wait_idle()
        known = durable(tmp_path, items) if progress(tmp_path) else set()
        durable_at.append((server.totals().asked, known))
    told = finished(child(msgspec.structs.replace(job, resume=True)))
    assert told is not None and told.receipt is not None
    assert outcomes(told.receipt) == {"passed": len(items)}
    assert told.receipt.maybe_paid_twice == attempts(tmp_path, "in_doubt")
    asked = [entry.prompt.removeprefix("Say ") for entry in server.books().asked]
    for calls, known in durable_at:
        assert known.isdisjoint(asked[calls:])
    mine = sum(text in set(items) for text in asked)
    assert len(items) <= mine <= len(items) + told.receipt.maybe_paid_twice


def is_so_far(running: Child, store: Path, point: int) -> bool:
    try:
        return progress(store) >= point
    except sqlite3.OperationalError:  # it is just being made
        assert running.process.is_alive()
        return False


# ── the same content again ───────────────────────────────────────────────────────────────────


def over_http(script: Script, body: Callable[[ModelServer], Awaitable[None]]) -> None:
    async def main() -> None:
        async with ModelServer(script, prices=PRICE, latency=0.002) as server:
            await body(server)

    asyncio.run(main())


@pytest.mark.parametrize("first", [None, 5])
@pytest.mark.parametrize("second", [None, 5])
def test_in_another_order_sharded_or_not_nothing_is_asked_again(
    tmp_path: Path, first: int | None, second: int | None
) -> None:
    """Also with another concurrency and under another name."""

    async def body(server: ModelServer) -> None:
        job = Job(store=str(tmp_path), url=server.url, items=texts("s"), shard=first)
        assert outcomes((await carried_out(job)).receipt) == {"passed": ITEMS}
        asked = len(server.books)
        assert counts(server.books, job.items) == [1] * ITEMS
        shuffled = Random(7).sample(job.items, ITEMS)
        again = msgspec.structs.replace(
            job, items=shuffled, shard=second, concurrency=3, name="another"
        )
        receipt = (await carried_out(again)).receipt
        assert (outcomes(receipt), receipt.calls, receipt.reused) == ({"passed": ITEMS}, 0, ITEMS)
        assert (receipt.cost_usd, len(server.books)) == (0.0, asked)

    over_http(answered, body)


@pytest.mark.parametrize("shard", [None, 5])
def test_two_processes_with_the_same_plan_at_once_ask_everything_once(
    server: RunningServer, tmp_path: Path, shard: int | None
) -> None:
    """Each in an order of its own; whoever comes second waits for the other's reply."""
    items = texts(tmp_path.name)
    jobs = [
        Job(store=str(tmp_path), url=server.url, items=Random(seed).sample(items, ITEMS),
            name=f"run {seed}", shard=shard)
        for seed in (1, 2)
    ]  # fmt: skip
    told = [finished(process) for process in [child(job) for job in jobs]]
    assert [outcomes(one.receipt) for one in told if one] == [{"passed": ITEMS}] * 2
    assert counts(server.books(), items) == [1] * ITEMS


def test_one_item_of_a_thousand_edited_is_one_call(tmp_path: Path) -> None:
    async def body(server: ModelServer) -> None:
        items = texts("thousand", 1000)
        job = Job(store=str(tmp_path), url=server.url, items=items, concurrency=64)
        await carried_out(job)
        assert len(server.books) == 1000
        edited = [*items[:500], "<edited>", *items[501:]]
        receipt = (await carried_out(msgspec.structs.replace(job, items=edited))).receipt
        assert (outcomes(receipt), receipt.calls, receipt.reused) == ({"passed": 1000}, 1, 999)
        assert [entry.prompt for entry in server.books.asked[1000:]] == ["Say <edited>"]

    over_http(answered, body)


def test_a_tightened_gate_costs_one_kick_back_for_what_no_longer_passes(tmp_path: Path) -> None:
    async def body(server: ModelServer) -> None:
        job = Job(store=str(tmp_path), url=server.url, items=texts("gate", 20))
        await carried_out(job)
        scene = scene_of(job)
        tight = replace(scene, name="tight", how={**scene.how, "gate": longer})
        receipt = await in_its_store(tight)
        assert (outcomes(receipt), receipt.calls, receipt.reused) == ({"passed": 20}, 2, 20)
        kicked_back = [entry.prompt for entry in server.books.asked[20:]]
        assert len(kicked_back) == 2 and all("too short" in prompt for prompt in kicked_back)

    short = Says(text="no")
    over_http(by_prompt({"not accepted": Says(text="a long answer"), "<gate-3>": short,
                         "<gate-17>": short}, always(Says(text="a long answer"))), body)  # fmt: skip


def longer(task: Any, reply: Reply, ask: Any) -> Verdict:
    return PASS if len(reply.text) > 5 else fail("too short")


def test_the_same_content_many_times_in_one_run_is_one_call(tmp_path: Path) -> None:
    async def body(server: ModelServer) -> None:
        job = Job(store=str(tmp_path), url=server.url, items=[])
        same = [{"id": str(n), "text": "same"} for n in range(30)]
        receipt = await in_its_store(replace(scene_of(job), items=same))
        assert (outcomes(receipt), len(server.books)) == ({"passed": 30}, 1)

    over_http(answered, body)


# ── doubt ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("drop", ["before", "mid"])
def test_a_connection_dropped_after_sending_counts_as_spent_and_the_repetition_is_told(
    tmp_path: Path, drop: Any
) -> None:
    async def body(server: ModelServer) -> None:
        job = Job(store=str(tmp_path), url=server.url, items=["<dropped>"])
        receipt = (await carried_out(job)).receipt
        assert (outcomes(receipt), len(server.books)) == ({"passed": 1}, 2)
        assert (receipt.calls, receipt.retries, receipt.maybe_paid_twice) == (2, 1, 1)
        lost, paid = recorded(tmp_path)
        assert (lost.state, paid.state) == ("in_doubt", "ok")
        assert lost.cost == lost.reserved > 0
        assert receipt.maybe_paid_twice_usd == dollars(lost.reserved)
        assert receipt.cost_usd == dollars(lost.reserved + paid.cost)
        assert dollars(server.books.bill) <= receipt.cost_usd

    over_http(sequence([Says(text="fine", drop=drop), Says(text="fine")]), body)


def recorded(store: Path) -> list[Any]:
    with closing(opening.look(store)) as archive:
        (run,) = archive.read.runs()
        return list(archive.read.attempts(run.no))


def test_a_refused_connection_is_refunded_and_no_doubt(tmp_path: Path) -> None:
    async def body(server: ModelServer) -> None:
        nowhere = "http://127.0.0.1:9"
        job = Job(store=str(tmp_path), url=nowhere, items=["<refused>"])
        scene = scene_of(job)
        receipt = await in_its_store(replace(scene, how={**scene.how, "attempts": 2}))
        assert (outcomes(receipt), receipt.calls) == ({"failed": 1}, 2)
        assert (receipt.cost_usd, receipt.maybe_paid_twice) == (0.0, 0)

    over_http(answered, body)


def fine(ask: Ask) -> Reply:
    if len(ask.items) < 2:
        return Reply("fine", usage=Usage(1, 1))
    answers = [{"id": item.id, "answer": "fine"} for item in ask.items]
    return Reply(data={"answers": answers}, usage=Usage(1, 1))


def test_a_lost_shard_is_one_call_that_may_be_paid_twice(memory_path: Path) -> None:
    """Not one for each of its items."""

    def says(ask: Ask, n: int) -> Said:
        return Said(TimedOut("no answer") if n == 0 else fine(ask))

    provider = Provider(says)
    receipt = play(Scene(memory_path, (provider,), words(5), how={"shard": 5}))
    assert (outcomes(receipt), len(provider.sent)) == ({"passed": 5}, 2)
    (lost, _) = recorded(memory_path)
    assert (receipt.maybe_paid_twice, receipt.maybe_paid_twice_usd) == (1, dollars(lost.reserved))


def test_a_lost_call_repeated_by_another_and_then_again_is_counted_once(memory_path: Path) -> None:
    """Lost by one, refused by the other, answered by the first: at most one call was paid twice."""
    first = Scripted(lambda ask, n: TimedOut("no answer") if n == 0 else fine(ask), traits("first"))
    second = Scripted(lambda ask, n: Transient("503"), traits("second"))
    how = {"members": ["first", "second"], "concurrency": 1}
    receipt = play(Scene(memory_path, (second, first), ["one"], how=how))
    assert outcomes(receipt) == {"passed": 1}
    assert (receipt.maybe_paid_twice, len(first.asked)) == (1, 2)


def test_doubt_is_seen_by_a_later_run(memory_path: Path) -> None:
    """The plan says hold: the run after it, under another name, does not repeat it either."""
    member = Scripted(lambda ask, n: TimedOut("no answer"))
    scene = Scene(memory_path, (member,), ["one"], how={"in_doubt": "hold"})
    assert outcomes(play(scene)) == {"in_doubt": 1}
    assert outcomes(play(replace(scene, name="later"))) == {"in_doubt": 1}
    assert len(member.asked) == 1
    freed = replace(scene, settings={"retry_in_doubt": None}, members=(Scripted(answers_fine),))
    receipt = play(freed, resume=True)
    assert (outcomes(receipt), receipt.maybe_paid_twice) == ({"passed": 1}, 1)


def test_what_another_may_still_ask_is_not_asked_again(memory_path: Path) -> None:
    """Its process cannot be looked at (no free file handle, say). Not knowing is not dead: it is
    waited for, and then the run pauses."""
    member = Scripted(answers_fine)
    scene = Scene(memory_path, (member,), ["one"], name="ours")

    class Crash(KeyboardInterrupt):
        """In mid-call."""

    def dies(ask: Ask, n: int) -> Reply:
        raise Crash

    with suppress(Crash):
        play(replace(scene, name="theirs", members=(Scripted(dies),)))
    (lock,) = (memory_path / "live").iterdir()
    lock.rename(memory_path / "away")  # deleted, it would still be held here, by who has not died
    lock.mkdir()  # can be neither opened nor locked
    receipt = play(scene)
    assert (receipt.status, len(member.asked)) == ("paused", 0)
    assert receipt.reason is not None and "whether it still runs cannot be told" in receipt.reason
    lock.rmdir()
    receipt = play(scene, resume=True)
    assert (receipt.status, len(member.asked), receipt.maybe_paid_twice) == ("complete", 1, 1)


def test_a_store_deleted_in_mid_run_is_put_back_and_nothing_is_paid_again(
    memory_path: Path,
) -> None:
    """Never told as complete; the run pauses, and what it paid is there when it is resumed."""
    store = memory_path / "store"

    def says(ask: Ask, n: int) -> Said:
        if n == 3:
            shutil.rmtree(store)
        return Said(fine(ask), Usage(1, 1), seconds=1.0)

    provider = Provider(says)
    scene = Scene(store, (provider,), words(6), how={"concurrency": 2})
    first = play(scene)
    assert (first.status, first.passed) == ("paused", 4)
    assert first.reason is not None and "deleted in mid-run" in first.reason
    second = play(scene, resume=True)
    assert (second.status, second.passed, second.maybe_paid_twice) == ("complete", 6, 0)
    assert (len(provider.sent), provider.sent_again) == (6, {})


def test_a_store_deleted_after_the_last_call_is_not_told_as_complete(memory_path: Path) -> None:
    store = memory_path / "store"

    def says(ask: Ask, n: int) -> Said:
        shutil.rmtree(store)
        return Said(fine(ask))

    provider = Provider(says)
    scene = Scene(store, (provider,), words(1))
    assert (play(scene).status, play(scene, resume=True).status) == ("paused", "complete")
    assert len(provider.sent) == 1


def test_replies_that_come_while_another_keeps_the_store_locked_are_not_paid_again(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process was stopped in the middle of a write. The run waits, then pauses; calls that were claimed
    before, two of them ahead, are still made."""
    monkeypatch.setenv("XDG_STATE_HOME", str(memory_path / "state"))
    store = memory_path / "store"
    with closing(_Lock(store / "journal.db")) as lock:

        def says(ask: Ask, n: int) -> Said:
            if n == 7:
                lock.take()
            return Said(fine(ask), Usage(1, 1), seconds=1.0)

        provider = Provider(says)
        scene = Scene(store, (provider,), words(20), how={"concurrency": 8})
        with pytest.raises(StoreUnavailable, match="10 replies are kept in"):
            play(scene)
    second = play(scene, resume=True)
    assert (second.status, second.passed, second.maybe_paid_twice) == ("complete", 20, 0)
    assert (len(provider.sent), provider.sent_again) == (20, {})


class _Lock:
    """Another connection that begins to write, and does not go on."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._db: sqlite3.Connection | None = None

    def take(self) -> None:
        self._db = sqlite3.connect(self._file, isolation_level=None)
        self._db.execute("begin immediate")

    def close(self) -> None:
        assert self._db is not None
        self._db.close()


def answers_fine(ask: Ask, n: int) -> Reply:
    return fine(ask)


# ── resuming ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("shard", [None, 5])
@pytest.mark.parametrize("free", [False, True])
def test_from_every_image_of_the_store_the_rest_is_asked_and_no_more(
    memory_path: Path, shard: int | None, free: bool
) -> None:
    """Every commit of one run under the virtual clock: killed there, resumed, and counted."""
    like = traits(takes="items", shared=False, metered=False) if free else traits()
    first = Scripted(answers_fine, like, latency=1.0)
    how = {"concurrency": 4} | ({} if shard is None else {"shard": shard})
    scene = Scene(memory_path / "store", (first,), words(25), how=how)
    camera = Camera(scene.store, memory_path / "images", lambda: passed(scene.store))
    play(scene, after_commit=camera)
    assert len(camera.seen) > 8
    for image, known in camera.seen.items():
        asked: list[str] = []
        second = Scripted(noting(asked), like)
        receipt = play(replace(scene, store=image, members=(second,)), resume=True)
        assert outcomes(receipt) == {"passed": 25}
        assert sorted(asked) == sorted(set(words(25)) - set(known))


def noting(asked: list[str]) -> Callable[[Ask, int], Reply]:
    """An answer to everything; `asked` are the items, alone or in a shard."""

    def script(ask: Ask, n: int) -> Reply:
        asked.extend(str(item.data) for item in ask.items)
        return fine(ask)

    return script


def passed(store: Path) -> list[str]:
    with closing(sqlite3.connect(store / "journal.db")) as db:
        rows = db.execute("select position from outcomes where state = 'passed'")
        return [f"word {position}" for (position,) in rows]


def test_a_functions_reply_that_was_sent_back_is_not_asked_for_again(memory_path: Path) -> None:
    """It failed the gate, and the run paused before the kick-back. It is on record all the same."""
    like = traits(takes="items", shared=False, metered=False)
    member = Scripted(lambda ask, n: Reply("long enough" if ask.turns else "no"), like, 1.0)
    scene = Scene(memory_path, (member,), ["one"], how={"gate": longer, "concurrency": 1})
    play(scene, meanwhile=pause_at(0.5))
    assert len(member.asked) == 1
    assert outcomes(play(scene, resume=True)) == {"passed": 1}
    assert len(member.asked) == 2


def test_a_functions_last_reply_to_a_kick_back_is_not_asked_for_again(memory_path: Path) -> None:
    """Kicked in the first invocation; the second judges both replies again and asks for none."""
    like = traits(takes="items", shared=False, metered=False)
    member = Scripted(lambda ask, n: Reply("no"), like)
    scene = Scene(memory_path, (member,), words(3), how={"gate": longer})
    assert outcomes(play(scene)) == {"kicked": 3}
    assert outcomes(play(scene, resume=True)) == {"kicked": 3}
    assert len(member.asked) == 6


def test_a_run_that_goes_on_elsewhere_cannot_be_resumed_a_second_time(tmp_path: Path) -> None:
    """Two processes that both saw it stopped: one of them is told that it is running."""

    async def main() -> None:
        clock = RealClock()
        first, second = open_store(tmp_path), open_store(tmp_path)
        try:
            record = await start(first, "run", clock, Budget(usd=1.0))
            first.sessions.leave(record.session)
            again = await reopen(first, record, clock, Budget(usd=1.0))
            with pytest.raises(AlreadyRunning):
                await reopen(second, record, clock, Budget(usd=1.0))
            first.sessions.leave(again.session)
        finally:
            first.close()
            second.close()

    asyncio.run(main())
