"""Processes are known for certain, and by what they were started with to the letter."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fanfold.members.agents import processes
from fanfold.members.agents.hosting import by_looking, gone
from fanfold.members.agents.processes import (
    ProcessRow,
    below,
    identify,
    life,
    living,
    look,
    marked,
    send,
    table,
)
from fanfold.members.agents.worker import Process
from fanfold.work.machine import boot, pid_namespace
from tests.handles import no_free_handle
from tests.unit.members.agents.hosted import runs, until
from tests.waiting import LONG

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="judged by /proc")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(("sleep", "300"), env={"SPAN": "run:1", "PATH": os.defpath}) as process:
        until(lambda: named(process.pid) == "sleep")
        yield process
        process.kill()


def named(pid: int) -> str:
    row = look(pid)
    return "" if row is None else row.name


def known(process: subprocess.Popen[bytes]) -> Process:
    found = identify(process.pid)
    assert found is not None
    return found


def test_a_name_with_brackets_and_spaces_is_read(tmp_path: Path) -> None:
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen((str(odd), "300")) as process:
        until(lambda: named(process.pid) == "a) R 1 (b")
        row = look(process.pid)
        assert row is not None
        assert (row.pid, row.parent) == (process.pid, os.getpid())
        assert (row.group, row.session) == (os.getpgid(0), os.getsid(0))
        process.kill()


def test_we_are_in_the_table_ourselves() -> None:
    (row,) = [row for row in table() if row.pid == os.getpid()]
    assert row == ProcessRow(
        os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0), row.state, row.started, row.name
    )
    assert identify(os.getpid()) == Process(os.getpid(), row.started, boot(), pid_namespace())
    assert look(2**22 + 1) is None


def test_one_that_has_ended_does_not_live_even_before_it_is_reaped(
    sleeper: subprocess.Popen[bytes],
) -> None:
    process = known(sleeper)
    assert living(process)
    os.kill(sleeper.pid, signal.SIGKILL)
    until(lambda: not runs(sleeper.pid))
    assert look(sleeper.pid) is not None
    assert not living(process)
    assert not send(process, 0)


@pytest.mark.parametrize("wrong", [{"started": 1}, {"boot": "an earlier one"}])
def test_another_with_the_same_number_gets_no_signal(
    sleeper: subprocess.Popen[bytes], wrong: dict[str, object]
) -> None:
    process = known(sleeper)
    assert not send(msgspec.structs.replace(process, **wrong), signal.SIGKILL)
    assert living(process)
    assert send(process, signal.SIGKILL)
    assert sleeper.wait(timeout=LONG) == -signal.SIGKILL


def test_a_mark_counts_only_to_the_letter(sleeper: subprocess.Popen[bytes]) -> None:
    def found(name: str, value: str) -> list[int]:
        return [row.pid for row in marked(table(), name, value) if row.parent == os.getpid()]

    assert found("SPAN", "run:1") == [sleeper.pid]
    assert found("SPAN", "run:") == []
    assert found("SPAN", "run:12") == []
    assert found("PAN", "run:1") == []


def test_who_is_about_to_start_another_program_is_found_by_its_mark(tmp_path: Path) -> None:
    """Its environment is empty for a moment; a kill that looked then would leave it alive."""
    again = tmp_path / "again"
    again.write_text(f"#!/bin/sh\nexec {again}\n")
    again.chmod(0o755)
    with subprocess.Popen((again,), env={"SPAN": "run:1", "PATH": os.defpath}) as process:
        found = Counter(len(marked([known_row(process)], "SPAN", "run:1")) for _ in range(3000))
        process.kill()
    assert found == {1: 3000}


def known_row(process: subprocess.Popen[bytes]) -> ProcessRow:
    row = look(process.pid)
    assert row is not None
    return row


def test_below_are_children_and_theirs_but_not_the_dead() -> None:
    rows = [
        ProcessRow(2, 1, 2, 2, "S", 10, "root"),
        ProcessRow(3, 2, 3, 3, "S", 11, "child"),
        ProcessRow(4, 3, 3, 3, "Z", 12, "dead"),
        ProcessRow(5, 4, 3, 3, "R", 13, "child of the dead"),
        ProcessRow(6, 1, 2, 2, "S", 14, "beside"),
    ]
    assert below(rows, 2) == [rows[1], rows[3]]
    assert below(rows, 6) == []


def test_psutil_says_the_same_where_there_is_no_proc(sleeper: subprocess.Popen[bytes]) -> None:
    """But for the start, which it counts from the epoch; and it is the same whenever it is asked."""
    until(lambda: look_at(sleeper.pid).state == "S")
    (row,) = processes.by_psutil(sleeper.pid)
    assert row._replace(started=0) == look_at(sleeper.pid)._replace(started=0)
    assert row in processes.by_psutil()
    os.kill(sleeper.pid, signal.SIGKILL)
    until(lambda: not runs(sleeper.pid))
    assert processes.by_psutil(sleeper.pid) == [row._replace(state="Z")]
    sleeper.wait()
    assert processes.by_psutil(sleeper.pid) == []


def look_at(pid: int) -> ProcessRow:
    row = look(pid)
    assert row is not None
    return row


def test_psutil_without_a_free_handle_takes_nobody_for_dead(
    sleeper: subprocess.Popen[bytes],
) -> None:
    assert processes.by_psutil(sleeper.pid) != []
    with no_free_handle(), pytest.raises(OSError, match="Too many open files"):
        processes.by_psutil(sleeper.pid)


def test_the_end_of_one_that_is_no_child_is_waited_for(sleeper: subprocess.Popen[bytes]) -> None:
    process = known(sleeper)

    async def wait() -> None:
        waits = [
            asyncio.ensure_future(each) for each in (gone(process, 60), by_looking(process, 0.01))
        ]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waits)
        sleeper.kill()
        await asyncio.wait_for(asyncio.gather(*waits), 20)

    asyncio.run(wait())
    assert not runs(sleeper.pid)


def test_one_that_is_not_there_is_not_waited_for(sleeper: subprocess.Popen[bytes]) -> None:
    other = msgspec.structs.replace(known(sleeper), started=1)
    asyncio.run(asyncio.wait_for(gone(other, 60), 20))
    sleeper.kill()
    sleeper.wait()
    asyncio.run(asyncio.wait_for(gone(known_before(other), 60), 20))


def known_before(process: Process) -> Process:
    return msgspec.structs.replace(process, pid=2**22 - 1)


def test_without_a_free_handle_nobody_is_taken_for_dead(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """Nor is anybody signalled who may be another."""
    process = known(sleeper)
    with no_free_handle():
        assert (life(process), living(process)) == ("unknown", True)
        assert not send(process, signal.SIGTERM)
        with pytest.raises(OSError, match="Too many open files"):
            look(process.pid)
    assert life(process) == "alive"
    assert sleeper.poll() is None


def test_a_boot_id_that_could_not_be_read_once_is_read_later(
    sleeper: subprocess.Popen[bytes],
) -> None:
    process = known(sleeper)
    processes.boot.cache_clear()
    with no_free_handle():
        assert living(process)
    assert (processes.boot(), life(process)) == (process.boot, "alive")


def test_a_number_of_another_namespace_is_neither_alive_nor_dead_and_is_not_signalled(
    sleeper: subprocess.Popen[bytes],
) -> None:
    """Two containers on one machine have the same boot id, and each a process of this number."""
    there = msgspec.structs.replace(known(sleeper), namespace=1)
    assert (life(there), living(there)) == ("unknown", True)
    assert life(msgspec.structs.replace(there, pid=2**22 + 1)) == "unknown"
    assert not send(there, signal.SIGKILL)
    assert runs(sleeper.pid)


def test_a_process_of_an_earlier_start_of_the_machine_is_dead_in_every_namespace() -> None:
    assert life(Process(1, 1, "another boot", namespace=1)) == "dead"


def test_a_record_of_an_earlier_version_names_no_namespace(
    sleeper: subprocess.Popen[bytes],
) -> None:
    now = known(sleeper)
    old = msgspec.json.encode({"pid": now.pid, "started": now.started, "boot": now.boot})
    assert life(msgspec.json.decode(old, type=Process)) == "alive"


def test_the_end_of_a_process_of_another_namespace_is_not_seen_by_its_number() -> None:
    async def main() -> bool:
        there = Process(2**22 + 1, 1, boot(), namespace=1)
        waiting = asyncio.ensure_future(gone(there, 0.001))
        ended, _ = await asyncio.wait((waiting,), timeout=0.01)
        waiting.cancel()
        return bool(ended)

    assert not asyncio.run(main())
