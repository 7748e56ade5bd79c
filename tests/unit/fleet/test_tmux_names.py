"""What is asked of tmux, without one: names it cannot misread, and nothing that reaches the run."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from fanfold.fleet.tmux import Panes, ShownRun, Tmux, close_session, session_name, show


@pytest.mark.parametrize(
    ("name", "session"),
    [("demo", "demo"), ("a.b:c", "a_b_c"), ("x/y-1_2", "x/y-1_2"), ("#(reboot)", "_reboot_"),
     ("日本", "_"), ("", "fanfold")],
)  # fmt: skip
def test_names_of_sessions_hold_nothing_that_tmux_would_read(name: str, session: str) -> None:
    assert session_name(name) == session


def test_a_window_runs_the_same_program_by_its_words() -> None:
    shown = ShownRun("demo", "01J", '/srv/it\'s; a "store"')
    assert shown.view_words("-w") == [
        sys.executable, "-P", "-m", "fanfold", "view", "--follow", "--store",
        "/srv/it's; a \"store\"", "--", "01J", "-w",
    ]  # fmt: skip
    assert shown.status_words()[-4:] == ["--store", '/srv/it\'s; a "store"', "--", "01J"]


def test_without_tmux_there_is_no_view(tmp_path: Path) -> None:
    nowhere = Tmux({"PATH": str(tmp_path)})
    assert show("demo", "01J", tmp_path, print, nowhere) is None
    close_session("demo", "01J", tmp_path, nowhere)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\necho no server here >&2\nexit 1\n", "no server here"),
        ("#!/bin/sh\nkill -9 $$\n", "tmux exited with code -9"),
        ("#!/nowhere/to/be/found\n", "FileNotFoundError"),
    ],
)
def test_whatever_goes_wrong_is_logged_once_and_raised_never(
    tmp_path: Path, script: str, said: str
) -> None:
    (tmp_path / "tmux").write_text(script)
    (tmp_path / "tmux").chmod(0o755)
    logged: list[str] = []
    panes = show("demo", "01J", tmp_path, logged.append, Tmux({"PATH": str(tmp_path)}))
    assert panes is not None
    for worker in ("a", "b", "c"):
        panes.started(worker)
    panes.close()
    assert (panes.session, len(logged)) == (None, 1)
    assert logged[0].startswith("tmux: no windows, the run continues without them: ")
    assert said in logged[0]


def test_a_tmux_that_hangs_holds_nobody_up_and_is_given_up(tmp_path: Path) -> None:
    """Asking returns at once; the thread that waits does not keep the process alive either."""
    (tmp_path / "tmux").write_text(f"#!/bin/sh\nread line < '{tmp_path}/fifo'\n")
    (tmp_path / "tmux").chmod(0o755)
    os.mkfifo(tmp_path / "fifo")
    logged: list[str] = []
    tmux = Tmux({"PATH": str(tmp_path)}, seconds=0.5)
    panes = Panes(ShownRun("demo", "01J", str(tmp_path)), logged.append, tmux)
    panes.started("a")
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "tmux"]
    assert thread.daemon
    panes.close()
    assert (panes.session, len(logged), thread.is_alive()) == (None, 1, False)
    assert "timed out after 0.5 seconds" in logged[0]
