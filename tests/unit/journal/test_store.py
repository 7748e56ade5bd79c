"""The store on disk: checked before it is touched, and locks that die with their process."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from fanfold.errors import StoreError, StoreFull
from fanfold.journal import opening
from fanfold.journal.facts import AddRun, RunRecord
from fanfold.journal.opening import open_store
from fanfold.journal.sqlite.folder import StoreFolder
from fanfold.journal.sqlite.migrations import MIGRATIONS
from fanfold.journal.sqlite.schema import APPLICATION_ID
from fanfold.work.outcome import StopCause
from tests.examples import seeds
from tests.unit.journal.disks import read_only, small_disk
from tests.unit.journal.processes import entering, writing
from tests.waiting import wait_until


def contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def made(folder: Path) -> Path:
    """A store that is there; the database file."""
    StoreFolder(folder).prepare()
    return folder / "journal.db"


# ── what is there before we come ─────────────────────────────────────────────────────────────


def write_text(file: Path) -> None:
    file.write_text("a diary, not a database" * 20)


def write_short(file: Path) -> None:
    file.write_bytes(b"SQLite format 3\x00")


def write_foreign(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("create table secrets (value)")
        db.execute("insert into secrets values ('precious')")
        db.commit()


def write_newer(file: Path) -> None:
    made(file.parent)
    with closing(sqlite3.connect(file)) as db:
        db.execute(f"pragma user_version = {len(MIGRATIONS) + 1}")
        db.execute("pragma journal_mode = delete")
        db.commit()


def write_torn(file: Path) -> None:
    made(file.parent)
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma journal_mode = delete")
    os.truncate(file, file.stat().st_size // 2)


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a text": (write_text, "not a fanfold store"),
    "a file that is too short": (write_short, "not a fanfold store"),
    "a foreign database": (write_foreign, "another program's database"),
    "a newer store": (write_newer, "made by a newer fanfold"),
    "a torn store": (write_torn, "torn"),
}


@pytest.mark.parametrize("open", [open_store, opening.look])
@pytest.mark.parametrize("case", CASES)
def test_what_is_not_ours_is_refused_in_one_line_and_left_untouched(
    tmp_path: Path, case: str, open: Callable[[Path], Any]
) -> None:
    write, why = CASES[case]
    write(tmp_path / "journal.db")
    before = contents(tmp_path)
    with pytest.raises(StoreError, match=why) as caught:
        open(tmp_path)
    assert "\n" not in str(caught.value) and "--store DIR" in str(caught.value)
    assert contents(tmp_path) == before


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("here I am")
    with pytest.raises(StoreError, match="is a file, not a folder"):
        open_store(tmp_path / "store")
    assert (tmp_path / "store").read_text() == "here I am"


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here I am")
    with pytest.raises(StoreError, match="--store DIR"):
        open_store(tmp_path / "file" / "store")


def test_a_damaged_page_is_a_store_error_wherever_it_is_met(tmp_path: Path) -> None:
    """Not a raw error of the database: the message says what to do."""
    asyncio.run(add_runs(tmp_path, 200))
    file = tmp_path / "journal.db"
    with closing(sqlite3.connect(file)) as db:
        db.execute("pragma journal_mode = delete")
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.seek(size // 2)
        stream.write(b"\xff" * (size - size // 2))
    with pytest.raises(StoreError, match="torn or damaged"):
        read_all(tmp_path)


async def add_runs(folder: Path, count: int) -> None:
    journal = open_store(folder)
    for n in range(count):
        journal.note(AddRun(RunRecord(id=f"{n:01000d}", name="n", created=0.0)))
    journal.close()


def read_all(folder: Path) -> None:
    journal = open_store(folder)
    try:
        journal.read.runs()
    finally:
        journal.close()


def test_looking_at_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store"):
        opening.look(tmp_path / "store")
    assert contents(tmp_path) == {} and not (tmp_path / "store").exists()


def test_looking_changes_nothing(tmp_path: Path) -> None:
    made(tmp_path)
    before = contents(tmp_path)
    archive = opening.look(tmp_path)
    assert archive.read.runs() == []
    archive.close()
    assert contents(tmp_path) == before


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        made(disk / "store")
        with read_only(disk):
            for folder in (disk / "store", disk / "new"):
                with pytest.raises(StoreError, match="--store DIR") as caught:
                    open_store(folder)
                assert "\n" not in str(caught.value)


def test_a_store_that_cannot_be_written_can_still_be_looked_at(tmp_path: Path) -> None:
    """Status and report of a store on a backup disk, say."""
    with small_disk(tmp_path / "disk", "8m") as disk:
        made(disk / "store")
        with read_only(disk):
            archive = opening.look(disk / "store")
            assert archive.read.runs() == []
            archive.close()


def test_a_store_on_a_full_disk_can_still_be_looked_at(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        made(disk / "store")
        (disk / "store" / "ballast").unlink()
        fill(disk / "filler")
        archive = opening.look(disk / "store")
        assert archive.read.runs() == []
        archive.close()


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as stream:
        while stream.write(bytes(4096)) == 4096:
            pass


def test_no_room_for_a_new_store_is_told_as_that(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "512k") as disk, pytest.raises(StoreFull, match="full"):
        open_store(disk / "store")


# ── migrations ───────────────────────────────────────────────────────────────────────────────


def test_a_new_store_has_our_name_and_the_newest_version(tmp_path: Path) -> None:
    with closing(sqlite3.connect(made(tmp_path))) as db:
        assert db.execute("pragma application_id").fetchone() == (APPLICATION_ID,)
        assert db.execute("pragma user_version").fetchone() == (len(MIGRATIONS),)
        assert db.execute("pragma journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("version", range(len(MIGRATIONS)))
def test_an_older_store_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    """Whatever version it has, the tables in the end are the same."""
    with closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as db:
        db.execute("begin")
        for step in MIGRATIONS[:version]:
            step(db)
        db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute(f"pragma user_version = {version}")
        db.execute("commit")
    assert schema(made(tmp_path)) == schema(made(tmp_path / "new"))


def schema(file: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(file)) as db:
        return db.execute("select name, sql from sqlite_master order by name").fetchall()


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("out of budget: dollars of the run: $0.01 left", StopCause("budget", "usd")),
        ("out of budget: calls of the step map: all 6", StopCause("budget", "calls", "map")),
        ("out of budget: m: does not fit its budget of the month: $1", StopCause("monthly_budget")),
        ("map would ask 9 tasks; allow it with --cap 9", StopCause("cap", cap=9)),
        ("map would ask 9 tasks; approve it with --yes or more", StopCause("approval")),
        ("nobody is left", None),
        (None, None),
    ],
)
def test_what_a_run_of_an_older_store_lacked_is_known(
    tmp_path: Path, reason: str | None, cause: StopCause | None
) -> None:
    with older(tmp_path, "stop_causes") as db:
        db.execute(
            "insert into runs (id, name, status, reason, created, session, plan, folder, budget,"
            " active, first_attempt) values ('01J', 'r', 'paused', ?, 1, '', x'', '', x'7b7d', 0, 1)",
            (reason,),
        )
    store = open_store(tmp_path)
    try:
        assert [run.cause for run in store.read.runs()] == [cause]
    finally:
        store.close()


def test_items_of_an_older_store_that_failed_only_for_a_parent_are_known(tmp_path: Path) -> None:
    reasons = ['["parent: a failed","parent: b in_doubt"]', '["parent: a failed","broken"]', None]
    with older(tmp_path, "ends_by_parents") as db:
        for position, reason in enumerate(reasons):
            db.execute(
                "insert into outcomes (run, batch, position, step, state, reasons, cost, calls)"
                " values (1, 0, ?, 0, 'failed', ?, 0, 0)",
                (position, reason),
            )
    with closing(sqlite3.connect(made(tmp_path))) as db:
        found = db.execute("select by_parent from outcomes order by position").fetchall()
    assert found == [(1,), (0,), (0,)]


@contextmanager
def older(folder: Path, before: str) -> Iterator[sqlite3.Connection]:
    """A store of the version before that migration."""
    version = [step.__name__ for step in MIGRATIONS].index(before)
    with closing(sqlite3.connect(folder / "journal.db", isolation_level=None)) as db:
        for step in MIGRATIONS[:version]:
            step(db)
        yield db
        db.execute(f"pragma application_id = {APPLICATION_ID}")
        db.execute(f"pragma user_version = {version}")


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    before = made(tmp_path).read_bytes()
    assert made(tmp_path).read_bytes() == before


# ── who may read it ──


def modes(folder: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mode & 0o777 for p in (folder, *folder.iterdir())}


def test_a_store_is_for_its_owner_alone(tmp_path: Path) -> None:
    """The folder, the database, its log, and all that is beside it."""
    before = os.umask(0)
    try:
        journal = open_store(tmp_path / "new" / "store")
        asyncio.run(journal.flush())
        journal.spool()
        found = modes(tmp_path / "new" / "store")
        journal.close()
    finally:
        os.umask(before)
    found.pop(".gitignore")
    assert {"store", "journal.db", "journal.db-wal", "journal.db-shm", "live"} < set(found)
    assert {name: mode for name, mode in found.items() if mode & 0o077} == {}


def test_an_older_store_is_closed_to_others_when_its_owner_opens_it(tmp_path: Path) -> None:
    made(tmp_path / "store")
    for path in (tmp_path / "store", *(tmp_path / "store").iterdir()):
        path.chmod(0o777 if path.is_dir() else 0o666)
    made(tmp_path / "store")
    found = modes(tmp_path / "store")
    found.pop(".gitignore")
    assert {name: mode for name, mode in found.items() if mode & 0o077} == {}


def test_a_folder_that_holds_more_than_the_store_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--store .` must not lock the others out of a project."""
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    file = made(Path("."))
    assert (tmp_path.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o755, 0o600)


# ── sessions ─────────────────────────────────────────────────────────────────────────────────


def test_a_session_is_alive_until_it_leaves(tmp_path: Path) -> None:
    ours, theirs = StoreFolder(tmp_path).sessions, StoreFolder(tmp_path).sessions
    StoreFolder(tmp_path).prepare()
    session = ours.enter()
    assert (ours.alive(session), theirs.alive(session)) == (True, True)
    ours.leave(session)
    assert (ours.alive(session), theirs.alive(session)) == (False, False)
    assert list((tmp_path / "live").iterdir()) == []


def test_a_session_nobody_entered_is_not_alive(tmp_path: Path) -> None:
    made(tmp_path)
    assert not StoreFolder(tmp_path).sessions.alive("0123456789abcdef")


def test_a_session_dies_with_its_process(tmp_path: Path) -> None:
    made(tmp_path)
    store = StoreFolder(tmp_path).sessions
    with entering(tmp_path) as process:
        assert process.stdout is not None
        session, _ = process.stdout.readline().decode().split()
        assert store.alive(session)
        process.kill()
    assert not store.alive(session)


# ── several processes ────────────────────────────────────────────────────────────────────────


def test_two_processes_write_to_one_store_at_once(tmp_path: Path) -> None:
    made(tmp_path)
    finish([writing(tmp_path, name, 100) for name in ("a", "b")])
    assert names(tmp_path) == {"a": 100, "b": 100}


@pytest.mark.parametrize("attempt", seeds(range(3), quick=1))
def test_many_processes_make_one_new_store_at_once(tmp_path: Path, attempt: int) -> None:
    """They wait for one another; none takes the half-made store of another for a torn one."""
    finish([writing(tmp_path / "store", name, 3) for name in "abcdef"])
    assert names(tmp_path / "store") == dict.fromkeys("abcdef", 3)


def test_who_only_looks_waits_for_who_is_making_the_store(tmp_path: Path) -> None:
    store, lock = tmp_path / "store", tmp_path / "store" / "setup.lock"
    open_store(str(store)).close()
    whole = (store / "journal.db").read_bytes()
    (store / "journal.db").write_bytes(whole[:8192])
    with lock.open("rb") as held, ThreadPoolExecutor(1) as other:
        fcntl.flock(held, fcntl.LOCK_EX)
        looked = other.submit(lambda: opening.look(str(store)).close())
        wait_until(lambda: looked.done() or _handles_of(lock) == 2)
        (store / "journal.db").write_bytes(whole)
        fcntl.flock(held, fcntl.LOCK_UN)
        looked.result()


def _handles_of(file: Path) -> int:
    found = 0
    for handle in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was closed meanwhile
            found += os.readlink(f"/proc/self/fd/{handle}") == str(file)
    return found


def finish(processes: list[object]) -> None:
    """Let them all begin at once, and hear that each ended well."""
    for process in processes:
        process.stdin.close()  # type: ignore[attr-defined]
        process.stdin = None  # type: ignore[attr-defined]
    errors = [process.communicate()[1].decode() for process in processes]  # type: ignore[attr-defined]
    assert errors == [""] * len(processes)


def names(folder: Path) -> dict[str, int]:
    with closing(sqlite3.connect(folder / "journal.db")) as db:
        return dict(db.execute("select name, count(*) from runs group by name").fetchall())


def test_looking_at_a_store_in_use_keeps_the_locks_of_its_other_connections(tmp_path: Path) -> None:
    """The kernel drops a process's locks on a file when any of its handles is closed. Another
    process that closes the store must still see that it is in use, and leave the log alone."""
    journal = open_store(tmp_path)
    try:
        asyncio.run(journal.flush())
        opening.look(tmp_path).close()
        StoreFolder(tmp_path).prepare()
        code = (
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
            "db.execute('select * from runs').fetchall(); db.close()"
        )
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "journal.db")], check=True)
        assert (tmp_path / "journal.db-wal").exists()
    finally:
        journal.close()
