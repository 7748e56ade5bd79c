"""Whether the process of a session lives: yes, no, or not known. Not known is never dead."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

import msgspec
import pytest

from fanfold.clock import RealClock
from fanfold.errors import AlreadyRunning, StoreError
from fanfold.journal.facts import AddRun, RunRecord
from fanfold.journal.opening import open_store
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.run.record import reopen
from fanfold.work.machine import pid_namespace
from fanfold.work.task import Budget
from tests.handles import no_free_handle
from tests.unit.journal.processes import entering
from tests.unit.journal.test_writer import start


def test_with_no_free_handle_a_living_session_is_unknown_and_counts_as_alive(
    tmp_path: Path,
) -> None:
    StoreFolder(tmp_path).prepare()
    ours, theirs = StoreFolder(tmp_path).sessions, StoreFolder(tmp_path).sessions
    session = ours.enter()
    with no_free_handle():
        assert (theirs.life(session), theirs.alive(session)) == ("unknown", True)
    assert theirs.life(session) == "alive"
    ours.leave(session)
    assert (theirs.life(session), theirs.alive(session)) == ("dead", False)


def test_a_process_whose_lock_file_was_deleted_is_alive(tmp_path: Path) -> None:
    """By somebody who tidies up, say: its calls are not for others to repeat."""
    StoreFolder(tmp_path).prepare()
    looking = StoreFolder(tmp_path).sessions
    with entering(tmp_path) as process:
        assert process.stdout is not None
        session = process.stdout.readline().decode().split()[0]
        (tmp_path / "live" / session).unlink()
        with no_free_handle():
            assert looking.life(session) == "unknown"
        assert looking.life(session) == "alive"
        process.kill()
        process.wait()
        assert looking.life(session) == "dead"


def test_attempts_of_a_session_that_cannot_be_looked_at_are_left_alone(tmp_path: Path) -> None:
    async def main() -> tuple[int, str, int]:
        journal, theirs = open_store(tmp_path, thread=False), StoreFolder(tmp_path).sessions
        session = theirs.enter()
        await journal.write(start(b"a" * 16, session=session))
        with no_free_handle():
            lost = await journal.recover(2.0)
        state = journal.read.attempt_state(1)
        theirs.leave(session)
        later = await journal.recover(3.0)
        journal.close()
        return lost, state, later

    assert asyncio.run(main()) == (0, "started", 1)


def test_two_who_look_at_once_do_not_take_each_other_for_the_owner(tmp_path: Path) -> None:
    store = StoreFolder(tmp_path)
    store.prepare()
    dead = tmp_path / "live" / "0123456789abcdef"
    dead.touch()
    with dead.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert store.sessions.life(dead.name) == "dead"


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [("unknown", StoreError, "cannot tell whether another process still runs"),
     ("alive", AlreadyRunning, "already running")],
)  # fmt: skip
def test_a_run_is_not_taken_over_from_who_may_be_alive(
    tmp_path: Path, spoil: str, error: type[Exception], said: str
) -> None:
    async def main() -> None:
        journal, theirs = open_store(tmp_path, thread=False), StoreFolder(tmp_path).sessions
        session = theirs.enter()
        record = RunRecord(id="R", name="talk", created=0.0, session=session)
        await journal.write(AddRun(record))
        if spoil == "unknown":
            theirs.leave(session)
            (tmp_path / "live" / session).mkdir()  # it can be neither opened nor locked
        found = journal.read.find("talk")
        assert found is not None
        try:
            with pytest.raises(error, match=said) as caught:
                await reopen(journal, found, RealClock(), Budget())
            assert "\n" not in str(caught.value)
        finally:
            journal.close()

    asyncio.run(main())


def test_no_free_handle_for_a_session_of_our_own_is_one_line(tmp_path: Path) -> None:
    store = StoreFolder(tmp_path)
    store.prepare()
    with no_free_handle(), pytest.raises(StoreError, match="Too many open files") as caught:
        store.sessions.enter()
    assert "\n" not in str(caught.value)


# ── forked children ──────────────────────────────────────────────────────────────────────────


def test_a_child_that_outlives_a_killed_process_does_not_keep_its_session(tmp_path: Path) -> None:
    """A function may fork and leave: its run ends with the process that runs it."""
    StoreFolder(tmp_path).prepare()
    with entering(tmp_path, forks=True) as process:
        assert process.stdout is not None and process.stdin is not None
        session, child = process.stdout.readline().decode().split()
        process.kill()
        process.wait()
        os.kill(int(child), 0)  # the child lives
        assert StoreFolder(tmp_path).sessions.life(session) == "dead"
        process.stdin.close()  # and ends with this


def test_a_process_of_another_namespace_is_not_the_owner_here(tmp_path: Path) -> None:
    """Whoever signals an owner by its number would reach another process. Its lock tells that it lives."""
    StoreFolder(tmp_path).prepare()
    ours, theirs = StoreFolder(tmp_path).sessions, StoreFolder(tmp_path).sessions
    session = ours.enter()
    file = tmp_path / "live" / session
    owner = theirs.owner(session)
    assert owner is not None
    assert (owner.pid, owner.namespace) == (os.getpid(), pid_namespace())
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(owner, namespace=1)))
    assert (theirs.owner(session), theirs.life(session)) == (None, "alive")
    old = msgspec.structs.replace(owner, namespace=0)  # as earlier versions wrote it
    file.write_bytes(msgspec.json.encode(old))
    assert theirs.owner(session) == old
    ours.leave(session)
