"""The process of a session, and the lock that only one launcher holds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fanfold.errors import AlreadyRunning, StoreError
from fanfold.fleet.detach import run_lock
from fanfold.journal.opening import open_store


def test_a_session_names_its_process(tmp_path: Path) -> None:
    journal = open_store(tmp_path)
    session = journal.sessions.enter()
    owner = journal.sessions.owner(session)
    assert owner is not None
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    assert (owner.pid, owner.started) == (int(Path("/proc/self").resolve().name), int(stat[19]))
    journal.sessions.leave(session)
    assert journal.sessions.owner(session) is None
    journal.close()


def test_the_second_launcher_is_refused_and_a_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with run_lock(store, "team"):
        said = r"another process is launching .* team right now"
        with pytest.raises(AlreadyRunning, match=said), run_lock(store, "team"):
            pass
        with run_lock(store, "another"):
            pass
        words, pipe = [sys.executable, "-c", "print(1, flush=True); input()"], subprocess.PIPE
        child = subprocess.Popen(words, stdin=pipe, stdout=pipe, close_fds=False)
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
    with run_lock(store, "team"):
        assert child.poll() is None, "the child that was started meanwhile lives"
    child.communicate(b"\n")


def test_a_store_that_cannot_be_made_is_said_to_be_that(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match="use --store DIR"),
        run_lock(str(tmp_path / "file"), "team"),
    ):
        pass
