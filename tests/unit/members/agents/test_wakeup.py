"""What wakes a host, and what it hears from it: the bell and the report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fanfold.members.agents.startup import StartFailure, StartOutcome, StartReport, await_start
from fanfold.members.agents.worker import KILL, LOG, KillOrder, write_durably
from tests.unit.members.agents import wakeup_child
from tests.waiting import LONG

SHORT = 0.5


def woken(place: Path, how: str, seconds: float, do: Callable[[int], object]) -> tuple[str, float]:
    """What a process that rests says once it wakes, and for how long it did."""
    words = (sys.executable, wakeup_child.__file__, str(place), how, str(seconds))
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        do(child.pid)
        told, took = child.stdout.readline().split()
        return told, float(took)


def write(file: Path) -> Callable[[int], object]:
    def do(_: int) -> None:
        with file.open("a") as stream:
            stream.write("x")

    return do


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere files are looked at instead")
def test_a_word_in_the_log_and_an_order_wake_it(tmp_path: Path) -> None:
    (tmp_path / LOG).touch()
    order = KillOrder("killed", "now", 0.0)
    said, took = woken(tmp_path, "events", LONG, write(tmp_path / LOG))
    assert (said, took < LONG / 2) == ("False", True)
    said, took = woken(tmp_path, "events", LONG, lambda _: write_durably(tmp_path / KILL, order))
    assert (said, took < LONG / 2) == ("False", True)


def test_a_log_that_grows_does_not_keep_it_awake(tmp_path: Path) -> None:
    """After a word it waits a moment, whatever is written meanwhile: growth is noted rarely."""
    (tmp_path / LOG).touch()
    said, took = woken(tmp_path, "sleep", SHORT, write(tmp_path / LOG))
    assert (said, took > SHORT / 2) == ("False", True)


@pytest.mark.parametrize("how", ["sleep", "events"])
def test_a_signal_wakes_it_always(tmp_path: Path, how: str) -> None:
    (tmp_path / LOG).touch()
    said, took = woken(tmp_path, how, LONG, lambda pid: os.kill(pid, signal.SIGTERM))
    assert (said, took < LONG / 2) == ("True", True)


def test_where_files_do_not_tell_it_looks_again_soon(tmp_path: Path) -> None:
    """A log that is not there cannot be listened to."""
    said, took = woken(tmp_path, "events", LONG, lambda _: None)
    assert (said, took < LONG / 2) == ("False", True)


# ── the report ──


def heard(
    *say: Callable[[StartReport], object], seconds: float = LONG, close: bool = True
) -> StartOutcome:
    listens, tells = os.pipe()
    report = StartReport(tells)
    try:
        for each in say:
            each(report)
        if close:
            report.close()
        return await_start(listens, seconds)
    finally:
        report.close()
        os.close(listens)


def test_a_host_is_ready_or_says_why_not() -> None:
    error = FileNotFoundError(2, "No such file or directory", "claude")
    failure = StartFailure(2, "No such file or directory", "claude")
    assert heard(StartReport.ready) == StartOutcome(True, None)
    assert heard(lambda report: report.failed(error)) == StartOutcome(False, failure)
    assert heard(StartReport.ready, lambda report: report.failed(error)) == StartOutcome(
        True, failure
    )
    assert type(failure.error()) is FileNotFoundError


def test_a_host_that_says_nothing_or_nonsense_is_not_ready() -> None:
    assert heard() == StartOutcome(False, None)
    assert heard(close=False, seconds=0.05) == StartOutcome(False, None)
    assert heard(StartReport.ready, close=False, seconds=0.05) == StartOutcome(False, None)
    listens, tells = os.pipe()
    os.write(tells, b"ready\n{")
    os.close(tells)
    assert await_start(listens, LONG) == StartOutcome(False, None)
    os.close(listens)


def test_a_host_notices_that_nobody_listens() -> None:
    listens, tells = os.pipe()
    report = StartReport(tells)
    os.close(listens)
    assert not report.ready()
    report.close()
    assert StartReport(None).ready()
