"""tmux as a view: a real server of the test's own, and what stands on its screens."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold.fleet.tmux import Panes, ShownRun, Tmux, close_session, open_windows, show
from fanfold.members.agents.worker import LOG
from fanfold.observe.table import cells_wide
from tests.faces.cli import SRC
from tests.unit.fleet.staged import Stage, small_fleet
from tests.unit.fleet.talk import said
from tests.waiting import LONG, wait_until

pytestmark = pytest.mark.skipif(
    not Tmux().installed, reason="needs tmux: apt-get install tmux, brew install tmux"
)

REAL = shutil.which("tmux") or ""


class Server:
    """A tmux server with a socket of its own, and nothing of this terminal's around it."""

    def __init__(self, folder: Path) -> None:
        path = os.pathsep.join([str(Path(shutil.which("tmux") or "").parent), "/usr/bin", "/bin"])
        self.environ = {"PATH": path, "TMUX_TMPDIR": str(folder), "PYTHONPATH": str(SRC)}
        self.tmux = Tmux(self.environ)

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", *words], env=self.environ, capture_output=True, text=True, timeout=LONG,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.stdout.rstrip("\n")

    def windows(self, session: str) -> list[str]:
        return self("list-windows", "-t", f"={session}:", "-F", "#{window_name}").splitlines()

    def screen(self, target: str) -> list[str]:
        return self("capture-pane", "-p", "-t", target).splitlines()

    def resize(self, target: str, width: int, height: int) -> None:
        self("resize-window", "-t", target, "-x", str(width), "-y", str(height))


@pytest.fixture
def server() -> Iterator[Server]:
    """Its folder is short: the path of a socket must not be long."""
    with tempfile.TemporaryDirectory(prefix="tm-", dir="/tmp") as folder:
        made = Server(Path(folder))
        try:
            yield made
        finally:
            made("kill-server")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = small_fleet(tmp_path / 'it\'s a "root";', name="demo.fleet", epoch=time.time() - 300)
    yield made
    made.close()


def shown_of(stage: Stage) -> ShownRun:
    return ShownRun(stage.record.name, stage.record.id, str(stage.store))


def bare(line: str) -> str:
    """A line of the table without what changes from second to second."""
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "NOW", line)
    line = re.sub(r"\b\d+m \d\ds\b", "MINUTES", line)
    return re.sub(r" {2,}", "  ", line)


ROWS = [
    "a  DONE{haiku}  5.0s{ago}  ~$0.0070 / $1.00{retries}  Hello world",
    "b  FAILED{sonnet}  14s{ago}  ~$0.63 / $1.00{retries}  ✗ stopped at its budget of $0.5",
    "c  stuck? MINUTES{sonnet}  MINUTES{ago}  ~$0.19 / $1.00{retries}  done",
    "d  FAILED{sonnet}  -{never}  - / $1.00{retries}  ✗ parent: b failed",
]


def test_the_status_looks_right_at_80_and_at_200_columns(server: Server, stage: Stage) -> None:
    session = open_windows(shown_of(stage), ["c"], server.tmux)
    target = f"={session}:status"
    for width, ago, retries in ((200, "  MINUTES ago", "  0"), (80, "", "")):
        server.resize(target, width, 40)
        rule = "─" * 70
        wait_until(
            lambda width=width: (
                server.screen(target)[:1] != []
                and server.screen(target)[0].startswith("Fleet Status")
                and any(line.startswith("~ estimated") for line in server.screen(target))
                and 70 <= max(map(cells_wide, server.screen(target))) <= width
                and ("RETRIES" in "".join(server.screen(target))) == (width == 200)
            )
        )
        lines = server.screen(target)
        titles = (
            "ID  STATUS  MODEL  ELAPSED  LAST ACTIVITY  COST  RETRIES"
            if retries
            else "ID  STATUS  ELAPSED  COST"
        )
        models = {name: f"  {name}" if retries else "" for name in ("haiku", "sonnet")}
        assert bare(lines[0]) == "Fleet Status — NOW"
        assert lines[1] == f"Fleet: demo.fleet (run {stage.record.id})"
        assert (bare(lines[5]), lines[6][:70], lines[12][:70]) == (
            f"{titles}  LAST MSG",
            rule,
            rule,
        )
        for line, row in zip(lines[7:11], ROWS, strict=True):
            whole = row.format(ago=ago, retries=retries, never="  -" if ago else "", **models)
            assert bare(line) == whole or (
                line.endswith("…") and whole.startswith(bare(line).removesuffix("…"))
            )
        assert bare(lines[11]).startswith(
            "e-by-codex  DONE  gpt-5.5(" if ago else "e-by-codex  DONE"
        )
        summary = "Fleet Summary: Total: 5  Running: 0  Done: 2  Failed: 2  Stuck: 1"
        total = "Total Cost: ~$0.83"
        expected = [f"{summary}  {total}"] if width == 200 else [summary, f"  {total}"]
        assert lines[13:] == [
            *expected,
            "budget: $0.64 spent  $1.20 reserved  of $5.00  billing: subscription",
            f"supervisor: alive (pid {os.getpid()})",
            "~ estimated: by list prices, or no bill by the dollar",
            "over: b $0.13 more than was reserved",
        ]


def test_a_worker_is_followed_to_its_end_and_its_window_stays(server: Server, stage: Stage) -> None:
    session = open_windows(shown_of(stage), ["c"], server.tmux)
    target = f"={session}:c"
    server.resize(target, 80, 40)
    wait_until(lambda: any(line[10:] == "done" for line in server.screen(target)))
    with (stage.place("c") / LOG).open("ab") as log:
        log.write(said("a sentence of many words " * 5))
    wait_until(lambda: any("many words" in line for line in server.screen(target)))
    stage.exits("c", 0, 600)
    wait_until(lambda: any(line.startswith("── ended at ") for line in server.screen(target)))
    lines = [line for line in server.screen(target) if line]
    start = next(n for n, line in enumerate(lines) if "a sentence" in line)
    words = "a sentence of many words " * 5
    shown = " ".join(line[10:] for line in lines[start : start + 2])
    assert shown == words.strip()
    assert [line[:10].strip() for line in lines[start + 1 : start + 2]] == [""]
    assert lines[start + 2].endswith(", exit code 0")
    assert max(map(cells_wide, lines)) <= 80
    assert server.windows(session) == ["status", "c"]


def test_a_window_that_ended_is_used_again_by_the_same_worker(server: Server, stage: Stage) -> None:
    session = open_windows(shown_of(stage), ["a"], server.tmux)
    dead = ("list-windows", "-t", f"={session}:", "-F", "#{window_name} #{pane_dead}")
    wait_until(lambda: "a 1" in server(*dead).splitlines())
    stage.works("a", stage.starts("a", 700), said("once more"))
    stage.lives("a")
    assert open_windows(shown_of(stage), ["a", "a"], server.tmux) == session
    wait_until(lambda: any(line[10:] == "once more" for line in server.screen(f"={session}:a")))
    assert server.windows(session) == ["status", "a"]


def test_a_session_of_another_run_is_left_alone(server: Server, stage: Stage) -> None:
    server("new-session", "-d", "-s", "demo_fleet", "-n", "theirs", "sleep", "600")
    first = open_windows(shown_of(stage), ["a"], server.tmux)
    other = open_windows(ShownRun("demo.fleet", "another", str(stage.store)), [], server.tmux)
    assert (first, other) == ("demo_fleet-2", "demo_fleet-3")
    assert server.windows("demo_fleet") == ["theirs"]
    close_session("demo.fleet", stage.record.id, stage.store, server.tmux)
    assert server("list-sessions", "-F", "#{session_name}").splitlines() == [
        "demo_fleet", "demo_fleet-3",
    ]  # fmt: skip


def test_the_name_of_one_session_is_not_taken_for_a_longer_one(
    server: Server, stage: Stage
) -> None:
    """`demo` must not find `demo-two`, as tmux by itself would."""
    server("new-session", "-d", "-s", "demo_fleet-two", "-n", "theirs", "sleep", "600")
    assert open_windows(shown_of(stage), ["a"], server.tmux) == "demo_fleet"
    assert server.windows("demo_fleet-two") == ["theirs"]


def test_the_panes_of_a_supervisor_open_windows_and_leave_them(
    server: Server, stage: Stage
) -> None:
    logged: list[str] = []
    panes = show(stage.record.name, stage.record.id, stage.store, logged.append, server.tmux)
    assert panes is not None
    for worker in ("a", "b.c", "a"):
        panes.started(worker)
    panes.close()
    assert (panes.session, logged) == ("demo_fleet", [])
    assert server.windows("demo_fleet") == ["status", "a", "b_c"]


def test_a_server_that_dies_is_logged_once_and_the_next_run_starts_another(
    server: Server, stage: Stage
) -> None:
    logged: list[str] = []
    panes = show(stage.record.name, stage.record.id, stage.store, logged.append, server.tmux)
    assert panes is not None
    panes.started("a")
    wait_until(lambda: panes.session is not None and "a" in server.windows("demo_fleet"))
    server("kill-server")
    panes.started("b")
    panes.started("c")
    panes.close()
    assert (panes.session, len(logged)) == (None, 1)
    assert open_windows(shown_of(stage), ["a"], server.tmux) == "demo_fleet"


def test_the_server_that_we_start_keeps_no_lock_of_ours(server: Server, tmp_path: Path) -> None:
    """The original's launcher waited for ever for a lock that its own tmux server had inherited."""
    lock = tmp_path / "lock"
    handle = os.open(lock, os.O_CREAT | os.O_RDWR)
    os.set_inheritable(handle, True)
    fcntl.flock(handle, fcntl.LOCK_EX)
    open_windows(ShownRun("locked", "01J", str(tmp_path)), [], server.tmux)
    os.close(handle)
    again = os.open(lock, os.O_RDWR)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(again)
    assert server("has-session", "-t", "=locked") == ""


def test_it_works_from_inside_tmux_too(server: Server, stage: Stage) -> None:
    """TMUX names the server of the terminal that one sits in; the windows go there."""
    server("new-session", "-d", "-s", "mine", "-n", "theirs", "sleep", "600")
    socket = server("display-message", "-p", "-t", "mine", "#{socket_path}")
    pid = server("display-message", "-p", "-t", "mine", "#{pid}")
    inside = {**server.environ, "TMUX": f"{socket},{pid},0", "TERM": "screen"}
    inside.pop("TMUX_TMPDIR")
    assert open_windows(shown_of(stage), ["a"], Tmux(inside)) == "demo_fleet"
    assert server.windows("demo_fleet") == ["status", "a"]


class Quick(ShownRun, frozen=True):
    """Windows with a program that starts at once."""

    def view_words(self, worker: str) -> list[str]:
        return ["sleep", "600"]


def test_fifty_workers_have_a_window_each_in_few_calls(server: Server, stage: Stage) -> None:
    """When the panes are closed all are there. A call for each would take longer than anybody waits
    on a busy machine, and those that were left would be lost."""
    bin, log = Path(server.environ["TMUX_TMPDIR"]), stage.root / "calls"
    (bin / "tmux").write_text(f'#!/bin/sh\necho >> {shlex.quote(str(log))}\nexec {REAL} "$@"\n')
    (bin / "tmux").chmod(0o755)
    counted = Tmux({**server.environ, "PATH": f"{bin}{os.pathsep}{server.environ['PATH']}"})
    logged: list[str] = []
    panes = Panes(Quick("many", stage.record.id, str(stage.store)), logged.append, counted)
    workers = [f"worker-number-{n:02}" for n in range(50)]
    panes.started(*workers)
    panes.close()
    assert (panes.session, logged) == ("many", [])
    assert server.windows("many") == ["status", *workers]
    marked = server("list-windows", "-t", "=many:", "-F", "#{@fanfold_worker} #{remain-on-exit}")
    assert marked.splitlines()[1:] == [f"{worker} on" for worker in workers]
    assert len(log.read_text()) < 20
