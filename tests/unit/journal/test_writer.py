"""One writer, natural group commit, and what happens when the disk is full."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from fanfold.errors import StoreError, StoreFull
from fanfold.journal.answers import Claim
from fanfold.journal.facts import (
    AddRun,
    EndAttempt,
    LoseAttempts,
    NameStep,
    NewReply,
    PlanItems,
    RunRecord,
    StartAttempt,
)
from fanfold.journal.opening import open_store
from fanfold.work.ask import Reply, Usage
from tests.unit.journal.disks import small_disk
from tests.waiting import LONG


def record(id: str, plan: bytes = b"") -> RunRecord:
    return RunRecord(id=id, name="run", created=0.0, plan=plan)


def start(key: bytes, *, session: str = "s", run: int = 1, **changes: object) -> StartAttempt:
    given = {"answerer": "m:1", "accept": ("m:1",), "reserved": 100, "reserved_tokens": 10}
    return StartAttempt(
        run=run, step=0, session=session, member="m", keys=(key,), ids=("a",), at=0.0,
        **{**given, **changes},  # type: ignore[arg-type]
    )  # fmt: skip


def end(attempt: int, key: bytes, *, run: int = 1, private: bool = False) -> EndAttempt:
    landed = NewReply(key, "m:1", "m", Reply("fine"), 7, private)
    return EndAttempt(
        run=run, attempt=attempt, usage=Usage(1, 1), cost=7, at=1.0, released=(key,),
        answerer="m:1", landed=(landed,),
    )  # fmt: skip


def failed(attempt: int, key: bytes) -> EndAttempt:
    return EndAttempt(
        run=1, attempt=attempt, state="error", error="503", at=1.0, released=(key,), answerer="m:1"
    )


# ── group commit ─────────────────────────────────────────────────────────────────────────────


def test_what_has_gathered_while_a_commit_ran_goes_in_as_one(tmp_path: Path) -> None:
    """The first commit is held up until a thousand facts are waiting: then there is one more."""
    committed, gathered = threading.Event(), threading.Event()

    def hold_up(commit: int) -> None:
        committed.set()
        gathered.wait()

    async def main() -> int:
        journal = open_store(tmp_path, after_commit=hold_up)
        first = journal.write(AddRun(record("first")))
        await asyncio.to_thread(committed.wait)
        rest = [journal.write(AddRun(record(f"{n}"))) for n in range(1000)]
        gathered.set()
        await asyncio.gather(first, *rest)
        journal.close()
        return journal.commits

    assert asyncio.run(main()) == 2


def test_inline_all_facts_of_a_turn_are_one_commit(tmp_path: Path) -> None:
    async def main() -> tuple[int, list[int]]:
        journal = open_store(tmp_path, thread=False)
        numbers = await asyncio.gather(*(journal.write(AddRun(record(f"{n}"))) for n in range(50)))
        journal.close()
        return journal.commits, numbers

    assert asyncio.run(main()) == (1, list(range(1, 51)))


@pytest.mark.parametrize("thread", [True, False])
def test_a_hook_that_raises_leaves_nobody_waiting_and_the_store_goes_on(
    tmp_path: Path, thread: bool
) -> None:
    """All facts of that commit are durable; who waits for one is told what was raised, and so is
    whoever watches for trouble."""

    def raises_at_the_second(commit: int) -> None:
        if commit == 2:
            raise ValueError("of the hook")

    async def main() -> None:
        troubles: list[str] = []
        journal = open_store(tmp_path, thread=thread, after_commit=raises_at_the_second)
        journal.when_in_trouble(troubles.append)
        try:
            async with asyncio.timeout(LONG):
                assert await journal.write(AddRun(record("a"))) == 1
                with pytest.raises(
                    StoreError, match="after commit 2 raised ValueError: of the hook"
                ):
                    await journal.write(AddRun(record("b")))
                assert await journal.write(AddRun(record("c"))) == 3
            assert len(troubles) == 1 and "of the hook" in troubles[0]
            assert [one.id for one in journal.read.runs()] == ["a", "b", "c"]
        finally:
            journal.close()

    asyncio.run(main())


def test_answers_come_back_to_those_who_asked_whatever_the_mixture(tmp_path: Path) -> None:
    async def main() -> list[object]:
        journal = open_store(tmp_path, thread=False)
        facts = [
            AddRun(record("a")), PlanItems([(1, 0, 0, "x", b"")]), AddRun(record("b")),
            start(b"k" * 16), NameStep(1, 0, "map"), start(b"l" * 16), AddRun(record("c")),
        ]  # fmt: skip
        answers = await asyncio.gather(*map(journal.write, facts))
        journal.close()
        return list(answers)

    assert asyncio.run(main()) == [1, None, 2, Claim(attempt=1), None, Claim(attempt=2), 3]


def test_a_fact_is_visible_when_and_only_when_it_is_durable(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        journal = open_store(tmp_path, thread=False)
        writing = journal.write(AddRun(record("a")))
        before = len(journal.read.runs())
        await writing
        after = len(journal.read.runs())
        journal.close()
        return before, after

    assert asyncio.run(main()) == (0, 1)


@pytest.mark.parametrize("thread", [True, False])
def test_closing_writes_down_what_nobody_waited_for(tmp_path: Path, thread: bool) -> None:
    async def main() -> None:
        journal = open_store(tmp_path, thread=thread)
        for n in range(100):
            journal.note(AddRun(record(f"{n}")))
        journal.close()

    asyncio.run(main())
    journal = open_store(tmp_path, thread=False)
    assert len(journal.read.runs()) == 100
    journal.close()


@pytest.mark.parametrize("thread", [True, False])
def test_a_fact_that_cannot_be_written_harms_nobody_else(tmp_path: Path, thread: bool) -> None:
    """Half a surrogate pair is a text in Python that no file can hold: whoever hands it in gets an
    error, those who are in the same commit do not, and the journal goes on."""

    async def main() -> list[object]:
        journal = open_store(tmp_path, thread=thread)
        try:
            facts = [AddRun(record("a")), AddRun(record("\ud800")), AddRun(record("b"))]
            async with asyncio.timeout(LONG):
                given = await asyncio.gather(*map(journal.write, facts), return_exceptions=True)
                await journal.write(AddRun(record("c")))
                return [type(answer) for answer in given] + [run.id for run in journal.read.runs()]
        finally:
            journal.close()

    first, broken, last, *ids = asyncio.run(main())
    assert (first, last, sorted(map(str, ids))) == (int, int, ["a", "b", "c"])
    assert isinstance(broken, type) and issubclass(broken, Exception)


# ── claims ───────────────────────────────────────────────────────────────────────────────────


def claims(folder: Path, *facts: object) -> list[object]:
    async def main() -> list[object]:
        journal = open_store(folder, thread=False)
        try:
            return [await journal.write(fact) for fact in facts]
        finally:
            journal.close()

    return asyncio.run(main())


def test_a_claimed_key_is_held_until_the_reply_is_there(tmp_path: Path) -> None:
    key = b"k" * 16
    first, second, _, third = claims(
        tmp_path, start(key), start(key), end(1, key), start(key, run=2)
    )
    assert first == Claim(attempt=1)
    assert isinstance(second, Claim) and second.attempt == 0
    assert [(holder.attempt, holder.state) for holder in second.held] == [(1, "started")]
    assert third == Claim(known=(key,))


def test_a_private_reply_serves_only_its_run(tmp_path: Path) -> None:
    key = b"k" * 16
    *_, own, other = claims(
        tmp_path, start(key), end(1, key, private=True), start(key), start(key, run=2)
    )
    assert (own, other) == (Claim(known=(key,)), Claim(attempt=2))


def test_a_fresh_run_takes_only_its_own_replies(tmp_path: Path) -> None:
    key = b"k" * 16
    *_, own, other = claims(
        tmp_path, start(key), end(1, key), start(key, fresh=True), start(key, run=2, fresh=True)
    )
    assert (own, other) == (Claim(known=(key,)), Claim(attempt=2))


def test_an_answerer_who_is_not_accepted_neither_serves_nor_holds(tmp_path: Path) -> None:
    key = b"k" * 16
    _, second = claims(tmp_path, start(key), start(key, answerer="n:1", accept=("n:1",)))
    assert second == Claim(attempt=2)


def test_a_failed_attempt_lets_go_of_its_key(tmp_path: Path) -> None:
    key = b"k" * 16
    *_, again = claims(tmp_path, start(key), failed(1, key), start(key))
    assert again == Claim(attempt=2)


def test_doubt_belongs_to_the_key_and_is_taken_over_only_on_purpose(tmp_path: Path) -> None:
    key = b"k" * 16
    lost = LoseAttempts((1,), 1.0)
    _, _, held, taken = claims(
        tmp_path, start(key), lost, start(key, run=2, take_over=False), start(key, run=3)
    )
    assert isinstance(held, Claim) and isinstance(taken, Claim)
    assert (held.attempt, [holder.attempt for holder in held.doubt]) == (0, [1])
    assert (taken.attempt, [holder.attempt for holder in taken.doubt]) == (2, [1])


def test_doubt_outlives_a_repetition_that_failed(tmp_path: Path) -> None:
    """The first call may still have been paid; the failure of the second says nothing about it."""
    key = b"k" * 16
    *_, held = claims(
        tmp_path,
        start(key),
        LoseAttempts((1,), 1.0),
        start(key),
        failed(2, key),
        start(key, run=2, take_over=False),
    )
    assert isinstance(held, Claim)
    assert (held.attempt, [holder.attempt for holder in held.doubt]) == (0, [1])


def test_attempts_of_the_dead_are_in_doubt_those_of_the_living_are_not(tmp_path: Path) -> None:
    async def main() -> tuple[int, list[str]]:
        journal = open_store(tmp_path, thread=False)
        alive = journal.sessions.enter()
        await journal.write(start(b"a" * 16, session=alive))
        await journal.write(start(b"b" * 16, session="0123456789abcdef"))
        lost = await journal.recover(2.0)
        states = [journal.read.attempt_state(number) for number in (1, 2)]
        journal.sessions.leave(alive)
        journal.close()
        return lost, states

    assert asyncio.run(main()) == (1, ["started", "in_doubt"])


# ── large payloads ───────────────────────────────────────────────────────────────────────────


def test_a_large_reply_is_kept_once_and_comes_back_whole(tmp_path: Path) -> None:
    text = "long " * 20_000

    async def main() -> tuple[list[str], int]:
        journal = open_store(tmp_path, thread=False)
        for n in range(3):
            key = bytes([n]) * 16
            await journal.write(start(key))
            landed = NewReply(key, "m:1", "m", Reply(text))
            await journal.write(EndAttempt(run=1, attempt=n + 1, at=1.0, landed=(landed,)))
        keys = [bytes([n]) * 16 for n in range(3)]
        known = journal.read.known(keys, frozenset({"m:1"}), 1)
        journal.close()
        return [known[key].reply.text for key in keys], (tmp_path / "journal.db").stat().st_size

    texts, size = asyncio.run(main())
    assert texts == [text] * 3
    assert size < 300_000


# ── a full disk ──────────────────────────────────────────────────────────────────────────────


def test_a_full_disk_loses_nothing_that_was_durable(tmp_path: Path) -> None:
    """The ballast lets what is under way be written; then it is an error, and what was told to be
    durable is there when there is room again."""
    with small_disk(tmp_path / "disk", "4m") as disk:
        durable, error, low = asyncio.run(_fill(disk / "store"))
        assert isinstance(error, StoreFull) and "make room, then resume" in str(error)
        assert low and len(durable) > 10
        (disk / "filler").unlink()
        journal = open_store(disk / "store")
        assert [run.id for run in journal.read.runs()] == durable
        journal.close()


async def _fill(folder: Path) -> tuple[list[str], StoreError | None, bool]:
    journal = open_store(folder)
    told: list[bool] = []
    journal.when_in_trouble(lambda why: told.append(True))
    (folder.parent / "filler").write_bytes(b"\0" * 1_500_000)
    durable: list[str] = []
    error: StoreError | None = None
    while error is None:
        name = f"{len(durable):06d}"
        try:
            await journal.write(AddRun(record(name, plan=bytes(40_000))))
            durable.append(name)
        except StoreError as full:
            error = full
    low = bool(told)
    journal.close()
    return durable, error, low
