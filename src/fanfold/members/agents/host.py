"""The host of one worker: a process that starts the program, watches it and records its end.

It does not depend on the process that started it. There is one for every worker, so it imports little.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fanfold.members.agents import processes
from fanfold.members.agents.limits import LimitWatch, Reached
from fanfold.members.agents.logs import LogGrowth, append
from fanfold.members.agents.messages import ProgramInput
from fanfold.members.agents.process_tree import (
    ControlGroup,
    ProcessTree,
    adopt_orphans,
    make_group,
    set_process_name,
)
from fanfold.members.agents.processes import ProcessRow
from fanfold.members.agents.startup import HeldProgram, Program, StartReport
from fanfold.members.agents.worker import (
    ERRORS,
    EXIT,
    HOST,
    KILL,
    LOG,
    PROMPT,
    Exit,
    HostRecord,
    Process,
    Spec,
    read_order,
    read_spec,
    write_durably,
)  # fmt: skip
from fanfold.work.machine import boot, pid_namespace

if TYPE_CHECKING:
    from fanfold.members.agents.dialect import LogReader

GRACE = 3.0  # seconds that a program has to end once it was told to
STRAGGLERS = 1.0  # seconds that its children have to end after it; and again, once told to
_SOON = 0.05
_AGAIN = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)  # seconds between tries to write the exit
_NOT_STARTED = 127


def main() -> None:
    """`PLACE HANDLE SPAN`: the worker's folder, the pipe to report to that it runs, whose it is."""
    report = StartReport(int(sys.argv[2]))
    if os.fork():  # so whoever starts us has no child to wait for
        os._exit(0)
    try:
        Hosting(Path(sys.argv[1]), sys.argv[3]).run(report)
    except OSError as error:
        report.failed(error)
        raise


class Hosting:
    """From the spec in the folder to the exit in the folder.

    One that comes late, when another worker has been put there, must not touch its files.
    """

    def __init__(self, place: Path, span: str) -> None:
        spec = read_spec(place)
        if spec is None or spec.span != span:
            raise FileNotFoundError(2, "no worker is described here", str(place))
        self._place, self._spec = place, spec
        self._log = LogGrowth(place)
        self._wakeups = Wakeups(place)
        self._watch = LimitWatch(spec, place, time.monotonic(), _reader(spec))
        self._input = ProgramInput(place, (place / PROMPT).read_bytes()) if spec.listens else None

    def run(self, report: StartReport) -> None:
        set_process_name(b"fanfold-host")
        firm = adopt_orphans()
        held = self._hold()
        tree = ProcessTree(_identify(held.pid), _grouped(held.pid), firm=firm)
        try:
            if self._release(held, tree, report):
                reached = self._until_end(tree)
                self._log.look(last=True)
                said = self._end_children(tree) if reached is None else self._end(tree)
                self._log.look(last=True)
                self._conclude(-signal.SIGKILL if tree.code is None else tree.code, reached, said)
        finally:
            tree.clear()
            if tree.group is not None:
                tree.group.remove()

    # ── the start ──

    def _hold(self) -> HeldProgram:
        errors, given = append(self._place / ERRORS), self._input
        prompt = given.reads if given else os.open(self._place / PROMPT, os.O_RDONLY)
        files = (prompt, self._log.handle, errors)
        try:
            return HeldProgram(Program(self._spec.words, self._spec.folder, _environment(), files))
        finally:
            os.close(prompt)
            os.close(errors)

    def _release(self, held: HeldProgram, tree: ProcessTree, report: StartReport) -> bool:
        """Start the program, unless it was called off, or whoever wanted it is gone by now.

        First its record is durable, then it runs: what nobody can find does not run.
        """
        ordered = self._ordered()
        if ordered is not None:
            held.abandon()
            self._conclude(-signal.SIGTERM, ordered)
            report.ready()
            return False
        if not report.is_heard():
            held.abandon()
            return False
        group = "" if tree.group is None else str(tree.group.path)
        me = _identify(os.getpid())
        record = HostRecord(host=me, program=tree.program, group=group, at=time.time())
        write_durably(self._place / HOST, record)
        if not report.ready():
            held.abandon()
            (self._place / HOST).unlink()
            return False
        error = held.release()
        if error is not None:
            said = f"cannot start `{error.filename}`: {error.strerror}"
            self._conclude(_NOT_STARTED, None, said)
            report.failed(error)
            return False
        report.close()
        if self._input is not None:
            self._input.begin()
        return True

    # ── its life ──

    def _until_end(self, tree: ProcessTree) -> Reached | None:
        """None: the program has ended by itself."""
        while True:
            tree.reap()
            if tree.code is not None:
                return None
            now, grown = time.monotonic(), self._log.look()
            if self._input is not None and self._input.look(grown):
                self._watch.count_turns(partial(_loaded_reader, self._spec))
            reached = self._ordered() or self._watch.look(now, grown)
            if reached is not None:
                return reached
            if grown:
                self._wakeups.sleep(TICK)
            else:
                self._wakeups.wait_for_events(self._watch.rest(now))

    def _ordered(self) -> Reached | None:
        """An order counts once it is written; a signal only makes it quick."""
        if not self._wakeups.stop_requested and not os.path.exists(self._place / KILL):
            return None
        order = read_order(self._place)
        if order is None:
            return "cancelled", "its host was asked to stop"
        return order.why, order.said

    # ── its end ──

    def _end(self, tree: ProcessTree) -> str:
        """The program is asked first, so that it can finish its log; then all are ended."""
        tree.ask()
        self._wait(lambda: tree.reap() or tree.code is not None, GRACE)
        return _not_ended(tree.clear(self._pause))

    def _end_children(self, tree: ProcessTree) -> str:
        """What a program leaves running does not outlive it: it gets a moment, is asked to end, is killed."""
        if self._wait(tree.gone, STRAGGLERS):
            return ""
        rows = tree.rows()
        processes.send_all(rows, signal.SIGTERM)
        self._wait(tree.gone, STRAGGLERS)
        left = _not_ended(tree.clear(self._pause))
        return left or f"ended what it left running: {_names(rows)}"

    def _wait(self, over: Callable[[], bool], seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not over():
            if time.monotonic() >= until:
                return False
            self._pause(_SOON)
        return True

    def _pause(self, seconds: float) -> None:
        self._log.look()
        self._wakeups.sleep(seconds)

    def _conclude(self, code: int, reached: Reached | None, said: str = "") -> None:
        """The last word, durable. On a full disk it is tried again for a while; then only the log
        is left to tell."""
        why, reason = reached or ("", "")
        told = "; ".join(filter(None, (reason, said)))
        exit = Exit(code=code, at=time.time(), why=why, said=told)
        for seconds in _AGAIN:
            try:
                return write_durably(self._place / EXIT, exit)
            except OSError:
                time.sleep(seconds)
        return write_durably(self._place / EXIT, exit)


def _identify(pid: int) -> Process:
    return processes.identify(pid) or Process(pid, 0, boot(), pid_namespace())


def _grouped(pid: int) -> ControlGroup | None:
    """A control group with this process in it, where one can be had."""
    group = make_group(f"fanfold-{os.getpid()}-{time.time_ns()}")
    if group is None:
        return None
    try:
        group.add(pid)
    except OSError:
        group.remove()
        return None
    return group


def _environment() -> dict[bytes, bytes]:
    """The environment exactly as it was handed over: Python adds a variable to its own."""
    try:
        listed = Path("/proc/self/environ").read_bytes().split(b"\0")
    except OSError:
        return dict(os.environb)
    pairs = (entry.partition(b"=") for entry in listed if b"=" in entry)
    return {name: value for name, _, value in pairs}


def _reader(spec: Spec) -> LogReader | None:
    """Only a host that has to meter loads the dialects, or one that must know the program's session
    to tell which files are its words."""
    bounds = spec.bounds
    turns = None if spec.listens else bounds.turns
    metered = (bounds.usd, turns, bounds.most) != (None, None, None)
    if not metered and (bounds.silence is None or not spec.meter):
        return None
    return _loaded_reader(spec)


def _loaded_reader(spec: Spec) -> LogReader:
    from fanfold.members.agents.dialects import DIALECTS

    return DIALECTS[spec.dialect].reader(spec.price, resumed=spec.resumed, call=spec.call)


def _names(rows: list[ProcessRow]) -> str:
    return ", ".join(sorted({row.name for row in rows}))


def _not_ended(rows: list[ProcessRow]) -> str:
    return f"could not be ended: {_names(rows)}" if rows else ""


if __name__ == "__main__":
    main()


# ── what wakes it ────────────────────────────────────────────────────────────────────────────
# It does next to nothing while its program thinks. Where the kernel does not report changes of files
# (it does on Linux), they are looked at a few times a second.

TICK = 0.2
_MODIFIED, _MOVED_IN = 0x2, 0x80


class Wakeups:
    """`stop_requested`: a signal said that we are to end. A terminal that closes, or somebody's Ctrl-C, is
    nothing to us."""

    def __init__(self, place: Path) -> None:
        self.stop_requested = False
        self._signals, ring = os.pipe()
        os.set_blocking(self._signals, False)
        os.set_blocking(ring, False)
        signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._request_stop)
        self._files = _watch_files(place)
        self._quiet, self._open = select.poll(), select.poll()
        self._quiet.register(self._signals, select.POLLIN)
        self._open.register(self._signals, select.POLLIN)
        if self._files is not None:
            self._open.register(self._files, select.POLLIN)

    def _request_stop(self, *_: object) -> None:
        self.stop_requested = True

    def sleep(self, seconds: float) -> None:
        """So long, or until there is a signal; whatever is written meanwhile."""
        if self._quiet.poll(seconds * 1000):
            self._take(self._signals)

    def wait_for_events(self, seconds: float) -> None:
        """So long, or until something happens. Written orders and growth of the log wake us too."""
        if self._files is None:
            return self.sleep(min(seconds, TICK))
        for handle, _ in self._open.poll(seconds * 1000):
            self._take(handle)
        return None

    def _take(self, handle: int) -> None:
        with suppress(BlockingIOError):
            os.read(handle, 65_536)


def _watch_files(place: Path) -> int | None:
    """A handle to read from when the log grows or a file is put into the folder (inotify)."""
    if sys.platform != "linux":
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        handle = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    except (OSError, AttributeError):
        return None
    if handle < 0:
        return None
    wanted = ((place / LOG, _MODIFIED), (place, _MOVED_IN))
    if all(library.inotify_add_watch(handle, os.fsencode(at), of) >= 0 for at, of in wanted):
        return handle
    os.close(handle)
    return None
