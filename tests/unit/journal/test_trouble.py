"""A store that does not take what it is given: locked, full, moved, deleted. Nothing paid is lost."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import RunStopped, StoreUnavailable
from fanfold.journal import opening
from fanfold.journal.answers import Claim
from fanfold.journal.contract import Patience
from fanfold.journal.facts import (
    AddRun,
    CloseRun,
    EndAttempt,
    EndItems,
    ItemEnding,
    NewReply,
    PlanItems,
)
from fanfold.journal.opening import open_store
from fanfold.journal.sqlite import marks
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.journal.sqlite.marks import Highest
from fanfold.journal.sqlite.store import JournalStore
from fanfold.journal.sqlite.unsaved import folders
from fanfold.testing.clock import run_virtual
from fanfold.work.ask import Reply
from fanfold.work.outcome import STATES
from tests.unit.journal.disks import mount, small_disk
from tests.unit.journal.processes import locking
from tests.unit.journal.test_store import fill
from tests.unit.journal.test_writer import end, record, start

KEY = b"k" * 16


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state folder."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@contextmanager
def locked(store: Path) -> Iterator[Callable[[], None]]:
    """Another connection is in the middle of a write; it lets go when told, or in the end."""
    with closing(sqlite3.connect(store / "journal.db", isolation_level=None)) as other:
        other.execute("begin immediate")

        def let_go() -> None:
            if other.in_transaction:
                other.execute("rollback")

        yield let_go
        let_go()


def closed(status: str = "complete") -> CloseRun:
    return CloseRun(run=1, status=status, reason=None, at=2.0, active=1.0, result=None)


def known(folder: Path, key: bytes = KEY) -> str | None:
    """The text of the reply under a key."""
    journal = open_store(folder, thread=False)
    try:
        found = journal.read.known([key], frozenset({"m:1"}), 1)
        return found[key].reply.text if found else None
    finally:
        journal.close()


def states(folder: Path) -> list[str]:
    archive = opening.look(folder)
    try:
        return [one.state for one in archive.read.attempts(1)]
    finally:
        archive.close()


# ── a locked store ───────────────────────────────────────────────────────────────────────────


def test_a_locked_store_is_waited_for_and_the_operator_is_told_once(memory_path: Path) -> None:
    told: list[str] = []
    stopped: list[str] = []

    async def main(clock: object) -> None:
        journal = open_store(memory_path, thread=False)
        journal.when_waiting(told.append)
        journal.when_in_trouble(stopped.append)
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        with locked(memory_path) as let_go:
            writing = journal.write(end(1, KEY))
            await asyncio.sleep(60)
            assert not writing.done()
            assert list(folders(memory_path)[0].iterdir()), "what was paid is in a file meanwhile"
            let_go()
            assert await writing == (1,)
        assert not list(folders(memory_path)[0].iterdir())
        journal.close()

    run_virtual(main)
    assert told == [f"{memory_path}/journal.db: locked by another program; waiting for it"]
    assert stopped == []
    assert known(memory_path) == "fine"


def test_a_lock_that_lasts_pauses_the_run_and_what_was_paid_is_taken_up_later(
    memory_path: Path,
) -> None:
    """Also what comes in only then: calls under way end by themselves. Nothing new is started."""
    reasons: list[str] = []

    async def main(clock: object) -> None:
        journal = open_store(memory_path, thread=False)
        journal.when_in_trouble(reasons.append)
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        await journal.write(start(b"l" * 16))
        with locked(memory_path):
            assert await journal.write(end(1, KEY)) == (0,)
            assert await journal.write(end(2, b"l" * 16)) == (0,)
            with pytest.raises(RunStopped):
                await journal.write(start(b"m" * 16))
            with pytest.raises(StoreUnavailable, match="2 replies are kept in") as caught:
                await journal.write(closed())
            assert "\n" not in str(caught.value)
            journal.close()

    run_virtual(main)
    assert len(reasons) == 1 and "1 reply is kept in" in reasons[0]
    assert states(memory_path) == ["started", "started"]
    journal = open_store(memory_path, thread=False)
    assert journal.warnings == (
        f"{memory_path}/journal.db: 2 replies that could not be saved before are in it now",
    )
    journal.close()
    assert (known(memory_path), known(memory_path, b"l" * 16)) == ("fine", "fine")
    assert states(memory_path) == ["ok", "ok"]
    assert not list(folders(memory_path)[0].iterdir()), "it is taken up once"


def test_a_store_that_is_free_again_takes_all_before_the_run_ends(memory_path: Path) -> None:
    async def main(clock: object) -> None:
        journal = open_store(memory_path, thread=False)
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        with locked(memory_path):
            assert await journal.write(end(1, KEY)) == (0,)
        assert await journal.write(closed("paused")) is True
        journal.close()

    run_virtual(main)
    assert states(memory_path) == ["ok"]
    assert not list(folders(memory_path)[0].iterdir())


def test_an_outcome_never_stands_without_its_reply(memory_path: Path) -> None:
    """Its reply went into the side file, so it had no row yet when it was judged."""

    async def main(clock: object) -> None:
        journal = open_store(memory_path, thread=False)
        await journal.write(AddRun(record("r")))
        await journal.write(PlanItems([(1, 0, 0, "a", b"h"), (1, 0, 1, "b", b"h")]))
        await journal.write(start(KEY))
        with locked(memory_path):
            (row,) = await journal.write(end(1, KEY))
        journal.note(
            EndItems(1, (ItemEnding(0, 0, 0, "passed", reply=row), ItemEnding(0, 1, 0, "failed")))
        )
        await journal.flush()
        assert [(one.id, one.state) for one in journal.read.endings(1, STATES)] == [("b", "failed")]
        journal.close()

    run_virtual(main)


def test_who_finds_the_writer_dead_takes_its_replies_up_before_it_calls_them_lost(
    memory_path: Path,
) -> None:
    """A process that was open all the time, such as a server."""

    async def main(clock: object) -> None:
        journal, other = (
            open_store(memory_path, thread=False),
            open_store(memory_path, thread=False),
        )
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY, session="0123456789abcdef"))
        with locked(memory_path):
            await journal.write(end(1, KEY))
            journal.close()
        await other.recover(9.0)
        assert other.read.attempt_state(1) == "ok"
        other.close()

    run_virtual(main)


def test_the_process_that_holds_the_lock_is_named(memory_path: Path) -> None:
    """And that it is stopped: whoever sees it knows what to do."""
    told: list[str] = []

    async def main() -> None:
        journal = open_store(memory_path, patience=Patience(notice=0.0, limit=600.0, between=0.05))
        heard = asyncio.Event()
        journal.when_waiting(lambda line: (told.append(line), heard.set()))  # type: ignore[func-returns-value]
        await journal.write(AddRun(record("a")))
        with locking(memory_path) as process:
            assert process.stdout is not None
            process.stdout.readline()
            os.kill(process.pid, signal.SIGSTOP)
            await asyncio.to_thread(os.waitid, os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
            writing = journal.write(AddRun(record("b")))
            await heard.wait()
            process.kill()
            assert await writing == 2
        who = f"process {process.pid} (python"
        assert f"locked by {who}" in told[0] and ", stopped)" in told[0]
        journal.close()

    asyncio.run(main())


# ── a full disk ──────────────────────────────────────────────────────────────────────────────


def landing(attempt: int, key: bytes, size: int) -> EndAttempt:
    landed = NewReply(key, "m:1", "m", Reply("x" * size + str(attempt)))
    return EndAttempt(
        run=1, attempt=attempt, at=1.0, released=(key,), answerer="m:1", landed=(landed,)
    )  # fmt: skip


def test_on_a_full_disk_64_replies_of_40_kb_are_recorded(tmp_path: Path) -> None:
    """Room is set aside for the calls that are under way, before they are sent."""
    keys = [bytes([n]) * 16 for n in range(64)]

    async def main(folder: Path, filler: Path) -> None:
        journal = open_store(folder)
        await journal.write(AddRun(record("r")))
        claims = await asyncio.gather(*(journal.write(start(key)) for key in keys))
        assert claims == [Claim(attempt=n + 1) for n in range(64)]
        fill(filler)
        for n, key in enumerate(keys):
            await journal.write(landing(n + 1, key, 40_000))
        journal.close()

    with small_disk(tmp_path / "disk", "32m") as disk:
        asyncio.run(main(disk / "store", disk / "filler"))
        assert states(disk / "store") == ["ok"] * 64
        assert not list((disk / "store").glob("unsaved/*"))


def test_nothing_is_sent_whose_reply_might_find_no_room(tmp_path: Path) -> None:
    reasons: list[str] = []

    async def main(folder: Path, filler: Path) -> None:
        journal = open_store(folder)
        journal.when_in_trouble(reasons.append)
        await journal.write(AddRun(record("r")))
        fill(filler)
        with pytest.raises(RunStopped):
            await journal.write(start(KEY))
        journal.close()

    with small_disk(tmp_path / "disk", "4m") as disk:
        asyncio.run(main(disk / "store", disk / "filler"))
        assert states(disk / "store") == []
    assert reasons == ["the disk is full; make room, then resume"]


def test_a_reply_that_finds_no_room_at_all_is_kept_on_another_disk(
    tmp_path: Path, state: Path
) -> None:
    async def main(folder: Path, filler: Path) -> None:
        journal = open_store(folder)
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        fill(filler)
        assert await journal.write(landing(1, KEY, 6_000_000)) == (0,)
        with pytest.raises(StoreUnavailable, match="1 reply is kept in") as caught:
            await journal.write(closed())
        assert str(state) in str(caught.value)
        journal.close()

    with small_disk(tmp_path / "disk", "4m") as disk:
        asyncio.run(main(disk / "store", disk / "filler"))
        assert states(disk / "store") == ["started"]
        (disk / "filler").unlink()
        mount("-o", "remount,size=64m", str(disk))
        assert known(disk / "store") == "x" * 6_000_000 + "1"
        assert states(disk / "store") == ["ok"]


def test_what_can_be_saved_nowhere_is_held_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A paid reply is not dropped while the process lives."""
    reasons: list[str] = []

    async def main(folder: Path, filler: Path) -> None:
        home = StoreFolder(folder)
        home.prepare()
        journal = JournalStore(home, patience=Patience(between=0.01))
        stopped = asyncio.Event()
        journal.when_in_trouble(lambda why: (reasons.append(why), stopped.set()))  # type: ignore[func-returns-value]
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        home.drop_ballast()
        fill(filler)
        writing = journal.write(landing(1, KEY, 40_000))
        await stopped.wait()
        assert not writing.done()
        os.unlink(filler)
        await writing  # in the store, or in the side file first
        journal.close()

    with small_disk(tmp_path / "disk", "4m") as disk:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
        asyncio.run(main(disk / "store", disk / "filler"))
        assert states(disk / "store") == ["ok"]


# ── a store that is not where it was ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("thread", [False, True])
def test_a_store_deleted_in_mid_run_is_put_back_and_the_run_is_not_complete(
    memory_path: Path, thread: bool
) -> None:
    store, reasons = memory_path / "store", list[str]()

    async def main() -> None:
        journal = open_store(store, thread=thread)
        journal.when_in_trouble(reasons.append)
        session = journal.sessions.enter()
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY, session=session))
        shutil.rmtree(store)
        await journal.write(end(1, KEY))
        assert await journal.write(closed()) is True
        assert [run.status for run in journal.read.runs()] == ["paused"]
        assert open_store(store, thread=False).sessions.alive(session)
        journal.sessions.leave(session)
        journal.close()

    asyncio.run(main())
    assert reasons == ["the store was deleted in mid-run; what was in it has been put back"]
    assert known(store) == "fine"


def test_nothing_is_started_in_a_store_that_is_gone(memory_path: Path) -> None:
    store = memory_path / "store"

    async def main() -> None:
        journal = open_store(store, thread=False)
        await journal.write(AddRun(record("r")))
        shutil.rmtree(store)
        with pytest.raises(RunStopped, match="deleted in mid-run"):
            await journal.write(start(KEY))
        journal.close()

    asyncio.run(main())
    assert states(store) == []


def test_a_store_moved_in_mid_run_stays_where_it_is_now(memory_path: Path) -> None:
    store, reasons = memory_path / "store", list[str]()

    async def main() -> None:
        journal = open_store(store, thread=False)
        journal.when_in_trouble(reasons.append)
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        store.rename(memory_path / "elsewhere")
        await journal.write(end(1, KEY))
        await journal.write(closed())
        assert [run.status for run in journal.read.runs()] == ["paused"]
        journal.close()

    asyncio.run(main())
    assert reasons == [
        f"the store was moved in mid-run; continue with --store {memory_path}/elsewhere"
    ]
    assert not store.exists()
    assert known(memory_path / "elsewhere") == "fine"


def test_a_store_that_another_took_the_place_of_is_saved_beside_it(memory_path: Path) -> None:
    store, reasons = memory_path / "store", list[str]()

    async def main() -> None:
        journal = open_store(store, thread=False)
        journal.when_in_trouble(reasons.append)
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        shutil.rmtree(store)
        open_store(store, thread=False).close()
        await journal.write(end(1, KEY))
        journal.close()

    asyncio.run(main())
    saved = memory_path / "store.saved-1"
    assert reasons == [
        "the store was replaced in mid-run; what was in it has been saved: continue with"
        f" --store {saved}"
    ]
    assert (known(store), known(saved)) == (None, "fine")


# ── a write-ahead log that is gone ───────────────────────────────────────────────────────────


def crashed(folder: Path, image: Path) -> None:
    """A store with one run and one reply that are only in the log, as a crash leaves it."""

    async def main() -> None:
        journal = open_store(folder, thread=False)
        await journal.write(AddRun(record("r")))
        await journal.write(start(KEY))
        await journal.write(end(1, KEY))
        shutil.copytree(folder, image)
        journal.close()

    asyncio.run(main())


def remove(log: Path) -> None:
    log.unlink()


def garble(log: Path) -> None:
    """From the middle on, so that the rest does not count."""
    whole = bytearray(log.read_bytes())
    whole[len(whole) // 3 :] = bytes(len(whole) - len(whole) // 3)
    log.write_bytes(whole)


@pytest.mark.parametrize("spoil", [remove, garble])
def test_a_log_that_was_removed_or_garbled_is_told(
    memory_path: Path, spoil: Callable[[Path], None]
) -> None:
    crashed(memory_path / "store", memory_path / "image")
    spoil(memory_path / "image" / "journal.db-wal")
    archive = opening.look(memory_path / "image")
    (seen,) = archive.warnings
    archive.close()
    journal = open_store(memory_path / "image", thread=False)
    (told,) = journal.warnings
    journal.close()
    assert seen == told
    assert told.startswith(f"{memory_path}/image/journal.db: its write-ahead log was removed or")
    assert "1 reply" in told and "\n" not in told
    again = open_store(memory_path / "image", thread=False)
    assert again.warnings == (), "it is told once to those who write"
    again.close()


def test_a_whole_store_has_no_warning_after_a_crash_or_an_end(memory_path: Path) -> None:
    crashed(memory_path / "store", memory_path / "image")
    for folder in ("store", "image"):
        home = StoreFolder(memory_path / folder)
        home.prepare()
        journal = JournalStore(home, thread=False)
        assert journal.warnings == ()
        assert home.marks.highest == Highest(1, 1, 1)
        journal.close()


@pytest.mark.parametrize("at", ["marks", "rows"])
def test_what_another_process_commits_while_a_store_is_opened_is_not_missing(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """It commits between two looks of the one that opens it: at the marks, and at the rows."""
    folder, added = memory_path / "store", count()

    async def main() -> tuple[str, ...]:
        journal, loop = open_store(folder, thread=False), asyncio.get_running_loop()
        await journal.write(AddRun(record("r")))

        async def another() -> None:
            await journal.write(AddRun(record(f"another {next(added)}")))

        def then_another(look: Callable[..., Any]) -> Callable[..., Any]:
            def looked(*args: Any) -> Any:
                found = look(*args)
                asyncio.run_coroutine_threadsafe(another(), loop).result()
                return found

            return looked

        def warnings() -> tuple[str, ...]:
            with closing(opening.look(folder)) as archive:
                return archive.warnings

        place: Any = marks.Marks if at == "marks" else marks
        name = "read" if at == "marks" else "highest"
        monkeypatch.setattr(place, name, then_another(getattr(place, name)))
        told = await asyncio.to_thread(warnings)
        journal.close()
        return told

    assert (asyncio.run(main()), next(added)) == ((), 1)
