"""A worker in its host: it starts, it is found again, it ends or is ended, and the files say how."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fanfold.errors import AlreadyRunning, MemberError
from fanfold.members.agents import hosting
from fanfold.members.agents.agent import Agent
from fanfold.members.agents.agent_files import AgentFolders
from fanfold.members.agents.claude import Claude
from fanfold.members.agents.fields import AgentFields
from fanfold.members.agents.hosting import Host, find, start
from fanfold.members.agents.worker import (
    ERRORS,
    EXIT,
    FILES,
    HOST,
    KILL,
    LOG,
    PROMPT,
    SPEC,
    TIMES,
    Exit,
    KillOrder,
    Process,
    WorkerLimits,
    read_exit,
    read_host,
    read_order,
    read_spec,
    write_durably,
)
from fanfold.testing.member import traits
from fanfold.work.member import tell_nobody
from tests.faces.disk import fill, make_room, small_disk
from tests.handles import no_free_handle
from tests.unit.members.agents.hosted import (
    PATH,
    SPAN,
    Stage,
    command_lines,
    daemon,
    ended,
    how,
    kill_host,
    log_of,
    number_in,
    python,
    record_of,
    runs,
    sh,
    stated,
    until,
)
from tests.waiting import LONG, however_slow

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="judged by /proc")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    yield made
    made.clear()


# ── the start ──


def test_a_program_gets_its_prompt_and_leaves_its_words_and_its_exit(stage: Stage) -> None:
    host = stage.start(sh("cat; echo oops >&2; exit 7"), prompt=b"do this\n")
    exit = ended(host)
    assert how(exit) == (7, "", "")
    assert exit is not None and record_of(host).at <= exit.at <= time.time()
    assert log_of(host) == "do this\n"
    assert (host.place / ERRORS).read_text() == "oops\n"
    assert (host.place / hosting.HOST_LOG).read_text() == ""
    assert sorted(os.listdir(host.place)) == sorted({*FILES, hosting.HOST_LOG} - {KILL})


def test_nobody_else_may_look_into_the_folder(stage: Stage) -> None:
    host = stage.start(sh("true"))
    ended(host)
    modes = {file.name: file.stat().st_mode & 0o777 for file in host.place.iterdir()}
    assert set(modes.values()) == {0o600}
    assert host.place.stat().st_mode & 0o777 == 0o700


def test_the_variables_reach_the_program_alone_and_as_they_are(tmp_path: Path) -> None:
    place = tmp_path / "place"
    env = {**PATH, "TOKEN": "hush-hush", "ODD": "a=b\nc"}
    spec = stated(("cat", "/proc/self/environ"), tmp_path)
    host = asyncio.run(start(place, spec, b"", env))
    ended(host)
    seen = dict(entry.split("=", 1) for entry in log_of(host).split("\0") if entry)
    assert seen == {**env, "FANFOLD_PARENT": SPAN}
    told = [file.name for file in place.iterdir() if b"hush-hush" in file.read_bytes()]
    assert told == [LOG]


@pytest.mark.parametrize(
    ("words", "folder", "error", "at_fault"),
    [
        (("no-such-program",), "", FileNotFoundError, "no-such-program"),
        (("./plain",), "", PermissionError, "./plain"),
        (("./odd",), "", OSError, "./odd"),
        (("true",), "nowhere", FileNotFoundError, "nowhere"),
        (("true",), "plain", NotADirectoryError, "plain"),
    ],
)
def test_what_cannot_be_started_says_why_and_whose_fault_it_is(
    tmp_path: Path, words: tuple[str, ...], folder: str, error: type[OSError], at_fault: str
) -> None:
    (tmp_path / "plain").write_text("no program")
    (tmp_path / "odd").write_bytes(b"\0\1\2\3")
    (tmp_path / "odd").chmod(0o755)
    spec = stated(words, tmp_path / folder)
    with pytest.raises(error) as raised:
        asyncio.run(start(tmp_path / "place", spec, b"", PATH))
    fault = str(tmp_path / folder) if folder else at_fault
    assert type(raised.value) is error
    assert raised.value.filename == fault
    host = find(tmp_path / "place", SPAN)
    assert host is not None and not host.alive()
    assert how(ended(host)) == (127, "", f"cannot start `{fault}`: {raised.value.strerror}")


def test_a_host_has_nothing_to_do_with_who_started_it(stage: Stage) -> None:
    """Not its session, not its children, not its handles: a lock of ours is free when we close it."""
    lock = os.open(stage.root / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(lock, True)
    fcntl.flock(lock, fcntl.LOCK_EX)
    host = stage.start(sh("exec sleep 300"))
    record = record_of(host)
    until(lambda: os.readlink(f"/proc/{record.program.pid}/exe").endswith("sleep"))
    until(
        lambda: sorted(fds(record.program.pid)) == ["0", "1", "2"]
    )  # once its libraries are loaded
    held = [os.readlink(f"/proc/{record.host.pid}/fd/{n}") for n in fds(record.host.pid)]
    assert not any(name.endswith("/lock") for name in held)
    assert parent(record.host.pid) != os.getpid()
    assert os.getsid(record.host.pid) not in (os.getsid(0), record.program.pid)
    assert os.getsid(record.program.pid) == record.program.pid
    os.close(lock)
    again = os.open(stage.root / "lock", os.O_RDWR)
    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(again)


def fds(pid: int) -> list[str]:
    return os.listdir(f"/proc/{pid}/fd")


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def test_a_terminal_that_closes_ends_neither_host_nor_program(stage: Stage) -> None:
    host = stage.start(sh("exec sleep 300"))
    record = record_of(host)
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(record.host.pid, number)
    until(lambda: caught(record.host.pid))
    assert host.alive()
    assert runs(record.host.pid) and runs(record.program.pid)


def caught(pid: int) -> bool:
    """No signal waits for this process any more."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return all(int(line.split()[1], 16) == 0 for line in lines if line.startswith("ShdPnd"))


def test_a_module_in_the_folder_at_hand_is_not_taken_for_one_of_python(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    (stage.root / "json.py").write_text("raise SystemExit('wrong')")
    (stage.root / "typing.py").write_text("raise SystemExit('wrong')")
    monkeypatch.chdir(stage.root)
    assert how(ended(stage.start(sh("exit 3")))) == (3, "", "")


def test_files_of_an_earlier_worker_are_kept_under_one_number(stage: Stage) -> None:
    first = stage.start(sh("echo one"), prompt=b"1")
    ended(first)
    (first.place / "prompt.md").write_text("the user's")
    second = stage.start(sh("echo two"), prompt=b"2", span=SPAN + "2")
    ended(second)
    third = stage.start(sh("echo three"), prompt=b"3", span=SPAN + "3")
    ended(third)
    assert log_of(third) == "three\n"
    logs = sorted(third.place.glob(f"{LOG}.*.bak"))
    assert sorted(log.read_text() for log in logs) == ["one\n", "two\n"]
    numbers = {file.suffixes[-2] for file in third.place.glob("*.bak")}
    assert len(numbers) == 2
    assert {file.name.split(".")[0] for file in third.place.glob("*.bak")} == {
        name.split(".")[0] for name in set(FILES) - {KILL}
    }
    assert (third.place / "prompt.md").read_text() == "the user's"
    assert find(first.place, SPAN) is None


def test_a_place_where_a_worker_runs_is_refused_and_nothing_touched(stage: Stage) -> None:
    host = stage.start(sh("echo hello; exec sleep 300"))
    until(lambda: log_of(host) == "hello\n")
    with pytest.raises(AlreadyRunning, match=r"worker: still at work in .*place; end it first"):
        stage.start(sh("true"), span=SPAN + "2")
    assert host.alive()
    assert log_of(host) == "hello\n"
    assert list(host.place.glob("*.bak")) == []


def test_a_host_that_dies_before_it_can_start_the_program_is_known_as_gone(stage: Stage) -> None:
    spec = stated(sh("touch ran"), stage.root, dialect="none", bounds=WorkerLimits(turns=1))
    place = stage.root / "place"
    with pytest.raises(hosting.NotHosted, match=r"worker: its host died .*host\.log"):
        asyncio.run(start(place, spec, b"", PATH))
    host = find(place, SPAN)
    assert host is not None
    assert (host.alive(), ended(host), read_host(place)) == (False, None, None)
    assert not (stage.root / "ran").exists()


def test_a_worker_that_nobody_waits_for_any_more_is_not_started(stage: Stage) -> None:
    """Whoever wanted it died before its record was durable, so nobody could know of it."""
    place = stage.root / "place"
    hosting.prepare(place, stated(sh("touch ran"), stage.root), b"")
    listens, tells = os.pipe()
    os.close(listens)
    hosting.spawn(place, SPAN, tells, {**PATH, "FANFOLD_PARENT": SPAN})
    os.close(tells)
    until(lambda: (place / HOST).exists() or (place / TIMES).exists())
    until(lambda: not any(f"{place}" in line for line in command_lines()))
    assert sorted(os.listdir(place)) == sorted({SPEC, PROMPT, LOG, ERRORS, TIMES, hosting.HOST_LOG})
    assert not (stage.root / "ran").exists()
    host = find(place, SPAN)
    assert (host is not None and host.may_have_begun()) is False


def test_a_host_that_comes_late_does_not_touch_the_files_of_the_next_worker(stage: Stage) -> None:
    host = stage.start(sh("sleep 300"), span=f"{SPAN}2")
    before = (host.place / HOST).read_bytes()
    listens, tells = os.pipe()
    os.close(listens)
    hosting.spawn(host.place, SPAN, tells, {**PATH, "FANFOLD_PARENT": SPAN})
    os.close(tells)
    until(lambda: not any(f"{tells}\0{SPAN}\0" in line for line in command_lines()))
    assert ((host.place / HOST).read_bytes(), host.alive()) == (before, True)
    assert host.may_have_begun()


def test_a_start_that_is_called_off_leaves_no_worker(stage: Stage) -> None:
    place = stage.root / "place"

    async def call_off() -> None:
        starting = asyncio.create_task(start(place, stated(sh("sleep 300"), stage.root), b"", PATH))
        while not (place / SPEC).exists():  # noqa: ASYNC110
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(call_off())
    host = find(place, SPAN)
    assert host is not None
    assert how(ended(host)) == (-15, "cancelled", "cancelled while it was started")


# ── its log ──


def test_each_word_has_its_true_time(stage: Stage) -> None:
    host = stage.start(sh("echo one; until test -e go; do sleep 0.01; done; echo three"))
    until(lambda: (host.place / TIMES).read_text() != "")
    between = time.time()
    (stage.root / "go").touch()
    ended(host)
    (one, at_one), (all, at_all) = times(host)
    assert (one, all) == (4, 10)
    assert at_one - 0.001 <= between <= at_all + 0.001


def times(host: Host) -> list[tuple[int, float]]:
    pairs = [line.split(" ") for line in (host.place / TIMES).read_text().splitlines()]
    return [(int(offset), float(at)) for offset, at in pairs]


def test_a_log_that_grows_fast_has_few_times(stage: Stage) -> None:
    begun = time.monotonic()
    host = stage.start(python("for _ in range(300_000): print('x' * 99)"))
    assert how(ended(host)) == (0, "", "")
    took = time.monotonic() - begun
    offsets = [offset for offset, _ in times(host)]
    assert offsets == sorted(set(offsets))
    assert offsets[-1] == 30_000_000
    assert len(offsets) <= took / 0.1 + 2


# ── its end ──


def test_an_order_ends_the_program_and_says_why(stage: Stage) -> None:
    host = stage.start(sh("trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.05; done"))
    until(lambda: log_of(host) == "ready\n")
    assert host.alive()
    host.kill("killed", "killed by the operator")
    assert how(ended(host)) == (5, "killed", "killed by the operator")
    assert log_of(host) == "ready\nbye\n"
    assert not host.alive()
    assert times(host)[-1][0] == len("ready\nbye\n")


def test_the_first_of_two_orders_counts(stage: Stage) -> None:
    host = stage.start(sh("exec sleep 300"))
    host.kill("cancelled", "one")
    host.kill("killed", "two")
    assert how(ended(host)) == (-15, "cancelled", "one")
    before = {file.name: file.read_bytes() for file in host.place.iterdir()}
    host.kill("killed", "three")
    assert asyncio.run(host.killed("killed", "four"))
    assert {file.name: file.read_bytes() for file in host.place.iterdir()} == before


def test_a_host_that_is_told_to_end_without_an_order_ends_its_program(stage: Stage) -> None:
    host = stage.start(sh("exec sleep 300"))
    os.kill(record_of(host).host.pid, signal.SIGTERM)
    assert how(ended(host)) == (-15, "cancelled", "its host was asked to stop")


def test_a_written_order_counts_without_a_signal(stage: Stage) -> None:
    host = stage.start(sh("exec sleep 300"))
    write_durably(host.place / KILL, KillOrder("killed", "in writing", time.time()))
    assert how(ended(host)) == (-15, "killed", "in writing")


def test_an_order_before_the_start_is_carried_out(stage: Stage) -> None:
    place = stage.root / "place"
    spec = stated(sh("touch ran"), stage.root)
    hosting.prepare(place, spec, b"")
    host = find(place, SPAN)
    assert host is not None
    host.kill("killed", "never mind")
    hosting.launch(place, spec, PATH)
    assert how(ended(host)) == (-15, "killed", "never mind")
    assert not (stage.root / "ran").exists()


def test_a_program_that_does_not_listen_is_killed_after_a_while(stage: Stage) -> None:
    host = stage.start(sh("trap '' TERM; echo ready; while :; do sleep 300; done"))
    until(lambda: log_of(host) == "ready\n")
    assert asyncio.run(host.killed("killed", "enough"))
    assert how(host.exit()) == (-9, "killed", "enough")


def test_a_daemon_that_left_its_session_is_ended_with_the_worker(stage: Stage) -> None:
    host = stage.start(daemon(stage.root / "number", "time.sleep(300)", bare=True))
    number = number_in(stage.root / "number")
    assert os.getsid(number) != record_of(host).program.pid
    assert asyncio.run(host.killed("killed", "all of it"))
    assert not runs(number)
    assert how(host.exit()) == (-15, "killed", "all of it")


def test_what_a_program_leaves_running_does_not_outlive_it(stage: Stage) -> None:
    host = stage.start(daemon(stage.root / "number", "sys.exit(4)"))
    exit = ended(host)
    name = Path(sys.executable).name[:15]
    assert how(exit) == (4, "", f"ended what it left running: {name}")
    assert not runs(number_in(stage.root / "number"))


def test_children_that_end_soon_after_the_program_are_left_in_peace(stage: Stage) -> None:
    """This one goes on until the program is no longer its parent."""
    waits = "parent=$$; while kill -0 $parent 2>/dev/null; do sleep 0.01; done; echo done"
    host = stage.start(sh(f"({waits}) & exit 4"))
    assert how(ended(host)) == (4, "", "")
    assert log_of(host) == "done\n"


def test_killing_one_worker_does_not_touch_one_with_a_longer_name(stage: Stage) -> None:
    short = stage.start(sh("exec sleep 300"), name="a", span=SPAN)
    long = stage.start(sh("exec sleep 300"), name="ab", span=SPAN + "2")
    for host in (short, long):
        kill_host(host)
    assert asyncio.run(short.killed("killed", "only this"))
    assert not runs(record_of(short).program.pid)
    assert runs(record_of(long).program.pid)
    assert long.alive()


# ── limits ──


def test_time_is_up(stage: Stage) -> None:
    host = stage.start(sh("while :; do echo x; sleep 0.05; done"), bounds=WorkerLimits(seconds=0.5))
    exit = ended(host)
    assert how(exit) == (-15, "time", "ended at its limit of 0.5 s")
    assert exit is not None and exit.at - record_of(host).at > 0.4


def test_silence_is_counted_from_the_last_word(stage: Stage) -> None:
    """Six words, for twice as long as it may be silent."""

    def check(scale: float) -> None:
        line = f"for i in 1 2 3 4 5 6; do echo x; sleep {0.2 * scale}; done; exec sleep 300"
        host = stage.start(sh(line), name=f"at-{scale}", bounds=WorkerLimits(silence=0.6 * scale))
        assert how(ended(host)) == (-15, "silence", f"ended after {0.6 * scale:g} s without output")
        assert log_of(host) == "x\n" * 6

    however_slow(check)


def test_words_in_other_files_are_words_too(stage: Stage) -> None:
    def check(scale: float) -> None:
        rollout = f"rollout-{scale}"
        line = f"for i in 1 2 3 4 5 6; do echo x >> {rollout}; sleep {0.2 * scale}; done; sleep 300"
        host = stage.start(
            sh(line), name=f"at-{scale}", bounds=WorkerLimits(silence=0.6 * scale),
            meter=str(stage.root / f"{rollout}*"),
        )  # fmt: skip
        assert how(ended(host)) == (-15, "silence", f"ended after {0.6 * scale:g} s without output")
        assert (stage.root / rollout).read_text() == "x\n" * 6

    however_slow(check)


# ── when its host was killed ──


def test_a_program_outlives_its_host_and_is_waited_for(stage: Stage) -> None:
    host = stage.start(sh("until test -e go; do sleep 0.01; done; echo over"))
    kill_host(host)
    assert host.alive()

    async def wait() -> Exit | None:
        waiting = asyncio.ensure_future(host.ended())
        await asyncio.sleep(0)
        assert not waiting.done()
        (stage.root / "go").touch()
        return await asyncio.wait_for(waiting, 20)

    assert asyncio.run(wait()) is None
    assert log_of(host) == "over\n"
    assert (host.alive(), host.exit()) == (False, None)
    host.kill("killed", "too late")
    assert (read_order(host.place), host.exit()) == (None, None)


@pytest.mark.parametrize("grouped", [True, False])
def test_a_program_without_its_host_is_ended_with_its_tree(stage: Stage, grouped: bool) -> None:
    """The daemon lost its parents and its session; without a control group only its variables tell."""
    host = stage.start(daemon(stage.root / "number", "time.sleep(300)"))
    number, record = number_in(stage.root / "number"), record_of(host)
    if not grouped:
        stage.forget_group(host)
    kill_host(host)
    assert runs(number)
    host.kill("killed", "killed by the operator")
    assert not runs(number)
    assert not runs(record.program.pid)
    assert how(ended(host)) == (-9, "killed", "killed by the operator; its host was gone")
    assert not (grouped and record.group and Path(record.group).exists())


def test_children_of_a_program_without_its_host_need_no_mark(stage: Stage) -> None:
    host = stage.start(sh("env -i setsid sh -c 'echo $$; exec sleep 300'; true"))
    until(lambda: log_of(host).endswith("\n"))
    child = int(log_of(host))
    stage.forget_group(host)
    kill_host(host)
    assert asyncio.run(host.killed("killed", "gone"))
    assert not runs(child)


def test_a_host_that_does_not_obey_is_killed_too(stage: Stage) -> None:
    host = stage.start(sh("exec sleep 300"))
    record = record_of(host)
    os.kill(record.host.pid, signal.SIGSTOP)
    assert asyncio.run(host.killed("killed", "now", seconds=0.2))
    assert not runs(record.host.pid)
    assert not runs(record.program.pid)
    assert how(host.exit()) == (-9, "killed", "now; its host was gone")


def test_a_host_killed_while_an_order_stands_leaves_the_rest_to_who_waits(stage: Stage) -> None:
    host = stage.start(sh("trap '' TERM; echo ready; while :; do sleep 300; done"))
    until(lambda: log_of(host) == "ready\n")
    host.kill("killed", "go")
    kill_host(host)
    assert how(ended(host)) == (-9, "killed", "go; its host was gone")
    assert not runs(record_of(host).program.pid)


def test_after_a_restart_of_the_machine_nothing_is_alive(stage: Stage) -> None:
    host = stage.start(sh("exec sleep 300"))
    record = record_of(host)
    before = {
        name: msgspec.structs.replace(getattr(record, name), boot="an earlier one")
        for name in ("host", "program")
    }
    write_durably(host.place / HOST, msgspec.structs.replace(record, **before))
    assert (host.alive(), ended(host)) == (False, None)
    host.kill("killed", "nobody there")
    assert runs(record.host.pid) and runs(record.program.pid)
    write_durably(host.place / HOST, record)


def test_a_number_that_is_another_process_by_now_is_left_alone(stage: Stage) -> None:
    bystander = subprocess.Popen(("sleep", "300"))
    host = stage.start(sh("exec sleep 300"))
    record = record_of(host)
    kill_host(host)
    os.kill(record.program.pid, signal.SIGKILL)
    until(lambda: not runs(record.program.pid))
    stolen = {
        name: msgspec.structs.replace(getattr(record, name), pid=bystander.pid)
        for name in ("host", "program")
    }
    write_durably(host.place / HOST, msgspec.structs.replace(record, **stolen))
    assert (host.alive(), ended(host)) == (False, None)
    assert asyncio.run(host.killed("killed", "wrong one"))
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


# ── found by others ──


def test_only_the_very_span_is_found(stage: Stage) -> None:
    host = stage.start(sh("true"))
    ended(host)
    found = find(host.place, SPAN)
    assert found is not None and found.spec == host.spec
    assert find(host.place, SPAN[:-1]) is None
    assert find(host.place, SPAN + "0") is None
    assert find(stage.root / "nowhere", SPAN) is None


def test_another_process_can_end_a_worker(stage: Stage) -> None:
    host = stage.start(daemon(stage.root / "number", "time.sleep(300)"))
    number = number_in(stage.root / "number")
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from fanfold.members.agents.hosting import find\n"
        "host = find(Path(sys.argv[1]), sys.argv[2])\n"
        "assert host.alive()\n"
        "assert asyncio.run(host.killed('killed', 'from afar'))\n"
        "assert not host.alive()"
    )
    words = (sys.executable, "-c", code, str(host.place), SPAN)
    subprocess.run(words, check=True, timeout=LONG)
    assert not runs(number)
    assert how(ended(host)) == (-15, "killed", "from afar")


def test_many_are_waited_for_at_once_also_by_several(stage: Stage) -> None:
    """Some end just while they are found again."""
    hosts = [
        stage.start(sh(f"sleep 0.{n}; exit {n}"), name=f"{n}", span=f"{SPAN}{n}") for n in range(8)
    ]
    again = [find(host.place, host.spec.span) for host in hosts]

    async def wait() -> list[int | None]:
        waits = [host.ended() for host in (*hosts, *again) if host is not None]
        exits = await asyncio.wait_for(asyncio.gather(*waits), LONG)
        return [None if exit is None else exit.code for exit in exits]

    assert asyncio.run(wait()) == [*range(8), *range(8)]


def test_a_disk_that_is_full_at_the_end_is_waited_for(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        spec = stated(sh("echo said; until test -e go; do sleep 0.01; done; exit 6"), tmp_path)
        host = asyncio.run(start(disk / "place", spec, b"", PATH))
        until(lambda: (host.place / TIMES).read_text() != "")
        fill(disk)
        (tmp_path / "go").touch()
        until(lambda: not runs(record_of(host).program.pid))
        assert read_exit(host.place) is None
        assert host.alive()
        make_room(disk)
        assert how(ended(host)) == (6, "", "")
        assert log_of(host) == "said\n"
        assert sorted(file.name for file in host.place.glob(".*")) == []
        assert (host.place / EXIT).exists()


def test_files_that_cannot_be_read_now_do_not_make_a_worker_dead_or_never_begun(
    stage: Stage,
) -> None:
    """Else it would be started a second time, and paid twice."""
    host = stage.start(sh("sleep 300"))
    agent = Agent(
        traits("worker"), AgentFields(), Claude(), AgentFolders(stage.root, place=host.place)
    )
    with no_free_handle():
        assert (host.alive(), host.may_have_begun()) == (True, True)
        assert agent.has_trace(SPAN, str(stage.root))
        with pytest.raises(OSError, match="Too many open files"):
            find(host.place, SPAN)
    assert host.alive()


# ── another container with the same folder ──


def _agent(host: Host) -> Agent:
    folders = AgentFolders(host.place.parent, place=host.place)
    return Agent(traits("worker"), AgentFields(), Claude(), folders)


def _elsewhere(process: Process) -> Process:
    return msgspec.structs.replace(process, namespace=1)


def test_a_worker_of_another_namespace_is_not_known_to_be_dead_and_nothing_is_signalled(
    stage: Stage,
) -> None:
    """Its numbers are others' here. Taken for dead it would be paid twice."""
    host = stage.start(sh("trap '' TERM; sleep 300"))
    record = record_of(host)
    try:
        there = msgspec.structs.replace(
            record, host=_elsewhere(record.host), program=_elsewhere(record.program), group=""
        )
        write_durably(host.place / HOST, there)
        assert (host.alive(), host.out_of_sight()) == (True, True)
        with pytest.raises(MemberError, match="another container") as refused:
            asyncio.run(_agent(host).adopt(SPAN, str(stage.root), tell_nobody))
        assert refused.value.lost
        with pytest.raises(AlreadyRunning, match=r"another container.*remove .*host\.json"):
            stage.start(sh("true"))
        os.kill(record.host.pid, signal.SIGSTOP)  # nor does it take an order up
        assert not asyncio.run(host.killed("killed", "by the test", seconds=0.05))
        assert read_order(host.place) is not None
        assert (runs(record.host.pid), runs(record.program.pid)) == (True, True)
    finally:
        write_durably(host.place / HOST, record)
        os.kill(record.host.pid, signal.SIGCONT)


_STARTED_THERE = """
import asyncio, sys
from pathlib import Path
from tests.unit.members.agents.hosted import sh, Stage
host = Stage(Path(sys.argv[1])).start(sh("sleep 300"))
print("started", flush=True)
sys.stdin.read()
"""
_NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def _can_have_namespaces() -> bool:
    try:
        return (
            subprocess.run((*_NAMESPACE, "true"), capture_output=True, check=False).returncode == 0
        )
    except OSError:
        return False


@pytest.mark.skipif(not _can_have_namespaces(), reason="no namespace of processes may be made")
def test_a_worker_in_a_real_namespace_obeys_an_order_in_its_files(tmp_path: Path) -> None:
    words = (*_NAMESPACE, sys.executable, "-c", _STARTED_THERE, str(tmp_path))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as inside:
        assert inside.stdout is not None
        assert inside.stdout.readline() == b"started\n"
        spec = read_spec(tmp_path / "place")
        assert spec is not None
        host = Host(tmp_path / "place", spec)
        assert (host.alive(), host.out_of_sight()) == (True, True)
        assert asyncio.run(host.ended()) is None
        with pytest.raises(MemberError, match="another container"):
            asyncio.run(_agent(host).adopt(spec.span, str(tmp_path), tell_nobody))
        assert asyncio.run(host.killed("killed", "by the test", LONG))
        assert (host.alive(), host.out_of_sight()) == (False, False)
        assert how(read_exit(host.place))[1:] == ("killed", "by the test")
        inside.kill()
