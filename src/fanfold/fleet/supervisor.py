"""The process that carries a launched run out: detached, one for each run, obeying the operator.

Started by `fleet.detach`, as `python -m fanfold.fleet.supervisor NAME STORE HANDLE`, with its
mission on stdin. It does nothing but wait: for replies, for agents, for signals.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from contextlib import suppress

import msgspec

from fanfold.errors import AlreadyRunning, BadInput, FanfoldError, StoreError
from fanfold.fleet.mission import Mission, Ready
from fanfold.fleet.obey import Obeying
from fanfold.observe.closing import again_command, closing, resume_command
from fanfold.observe.html.account import result_page
from fanfold.observe.standing import may_resume
from fanfold.plans.execute import Audience, Job, execute
from fanfold.run.loop import run_sync
from fanfold.work.outcome import Receipt

REFUSED, STOPPED = 2, 3


class Log:
    """Standard output, with the time before each line. On a full disk it is lost; the run is not."""

    def __init__(self) -> None:
        self._fresh = True

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ ", time.gmtime()) if self._fresh else ""
            with suppress(OSError):
                sys.stdout.write(stamp + line)
            self._fresh = line.endswith("\n")
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stdout.flush()

    def say(self, text: str) -> None:
        self.write(text.rstrip("\n") + "\n")
        self.flush()


class Report:
    """The pipe to whoever launched us: one line, then it is closed. Nobody may read it any more."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        os.set_inheritable(handle, False)

    def say(self, ready: Ready) -> None:
        """The first word counts."""
        if self._handle >= 0:
            with suppress(OSError):
                os.write(self._handle, msgspec.json.encode(ready) + b"\n")
            os.close(self._handle)
            self._handle = -1


def main() -> int:
    name, _, handle = sys.argv[1:]
    mission = msgspec.json.decode(sys.stdin.buffer.read(), type=Mission)
    report = Report(int(handle))
    leave_the_launcher()
    log = Log()
    log.say(f"supervisor of {name}, process {os.getpid()}")
    return carry_out(mission, report, log)


def leave_the_launcher() -> None:
    """Nobody's child, in a session that no terminal can get, with nothing to read from.

    SIGHUP gets a handler that does nothing instead of being ignored: that would be inherited by the
    programs of members, a handler is not.
    """
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGHUP, lambda number, frame: None)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def carry_out(mission: Mission, report: Report, log: Log) -> int:
    """The exit code is for the log only; the receipt is in the journal."""
    try:
        job = mission.job()
        obeying = Obeying(job, report.say, log)
        audience = Audience(obeying.watch, log.say, pages=result_page, warn=log.say)
        receipt = run_sync(execute(job, audience))
    except Exception as error:
        code, text = _told(error)
        log.say(text)
        report.say(Ready(error=text, code=code))
        return code
    report.say(Ready(run=receipt.run, name=receipt.name, pid=os.getpid(), planned=receipt.planned))
    store = mission.options.store
    log.say(closing(receipt, _resume(job, receipt, store), store))
    return 0


def _told(error: Exception) -> tuple[int, str]:
    """One or two lines for people; what nobody foresaw has its traceback in the log."""
    match error:
        case BadInput() | AlreadyRunning() | StoreError():
            return REFUSED, str(error)
        case FanfoldError():
            return STOPPED, str(error)
        case _:
            traceback.print_exception(error, file=sys.stdout)
            return STOPPED, " ".join(f"unexpected {type(error).__name__}: {error}".split())


def _resume(job: Job, receipt: Receipt, store: str) -> str | None:
    if job.stored.kind == "fleet" and receipt.status == "flagged":
        return again_command(receipt, store)
    return resume_command(receipt, store) if may_resume(receipt) else None


if __name__ == "__main__":
    sys.exit(main())
