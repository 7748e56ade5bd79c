"""Ctrl-C, SIGTERM and SIGHUP in a script: as with `fanfold run`, the first waits for what is paid, the
second does not."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from fanfold.testing.running import RunningServer
from tests.faces.cli import environment, fanfold
from tests.waiting import LONG, wait_until

pytestmark = pytest.mark.slow

SCRIPT = """\
import fanfold as ff

async def main():
    model = ff.openai("m", base_url="{url}/v1", price={{"input": 1000.0, "output": 1000.0}}, max_tokens=64)
    async with ff.open_run("talk", members=[model]) as run:
        done = await ff.map_reduce(run, range(6), prompt="{{{{ item.value }}}}", concurrency=3)
    print(done.receipt.passed, done.receipt.reused)

ff.run_sync(main())
"""


class Script:
    """The script under way; what it writes can be read meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._err = folder / "err"
        with self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "talk.py"], cwd=folder, env=environment(folder, {}),
                stdout=subprocess.PIPE, stderr=err, text=True,
            )  # fmt: skip

    @property
    def said(self) -> str:
        return self._err.read_text(encoding="utf-8")

    def interrupt(self, number: int = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=LONG)
        return self.process.returncode, out


@contextmanager
def started(folder: Path) -> Iterator[Script]:
    script = Script(folder)
    try:
        yield script
    finally:
        script.process.kill()
        script.process.wait()


@pytest.fixture
def folder(tmp_path: Path, server: RunningServer) -> Path:
    (tmp_path / "talk.py").write_text(SCRIPT.format(url=server.url), encoding="utf-8")
    return tmp_path


def status(folder: Path) -> dict[str, object]:
    found: dict[str, object] = msgspec.json.decode(fanfold(folder, "status", "talk", "--json").out)
    return found


WHY = {
    signal.SIGINT: "interrupted by Ctrl-C",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended by SIGHUP",
}


@pytest.mark.parametrize("number", WHY)
def test_the_first_pauses_and_waits_so_that_nothing_is_paid_twice(
    folder: Path, server: RunningServer, number: signal.Signals
) -> None:
    with started(folder) as script:
        wait_until(lambda: server.totals().in_flight == 3)
        script.interrupt(number)
        wait_until(lambda: "stopping: 3 calls are under way" in script.said)
        server.release()
        code, _ = script.end()
    last = script.said.splitlines()[-1]
    assert code == 1
    assert last == (
        f"fanfold.errors.RunStopped: paused: {WHY[number]}; run the script again to continue"
    )
    found = status(folder)
    assert (found["status"], found["passed"], found["in_doubt"]) == ("paused", 3, 0)
    with started(folder) as script:
        assert script.end() == (0, "6 3\n")
    assert server.totals().asked == 6


def test_the_second_cancels(folder: Path, server: RunningServer) -> None:
    with started(folder) as script:
        wait_until(lambda: server.totals().in_flight == 3)
        script.interrupt()
        wait_until(lambda: "stopping: 3 calls are under way" in script.said)
        script.interrupt()
        code, _ = script.end()
    assert code in (130, -signal.SIGINT)
    assert script.said.splitlines()[-1] == "KeyboardInterrupt"
    assert script.said.count("Traceback") == 1
    assert status(folder)["status"] in ("paused", "killed")
    assert status(folder)["in_doubt"] == 3


def test_a_second_sigterm_cancels_and_the_exit_code_says_so(
    folder: Path, server: RunningServer
) -> None:
    with started(folder) as script:
        wait_until(lambda: server.totals().in_flight == 3)
        script.interrupt(signal.SIGTERM)
        wait_until(lambda: "stopping: 3 calls are under way" in script.said)
        script.interrupt(signal.SIGTERM)
        code, _ = script.end()
    assert (code, "Traceback" in script.said) == (128 + signal.SIGTERM, False)
    assert status(folder)["in_doubt"] == 3


def test_a_signal_that_the_script_handles_itself_is_left_to_it(
    folder: Path, server: RunningServer
) -> None:
    own = "import os, signal\nsignal.signal(signal.SIGTERM, lambda *_: os._exit(7))\n"
    script_file = folder / "talk.py"
    script_file.write_text(own + script_file.read_text(encoding="utf-8"), encoding="utf-8")
    with started(folder) as script:
        wait_until(lambda: server.totals().in_flight == 3)
        script.interrupt(signal.SIGTERM)
        assert script.end() == (7, "")
