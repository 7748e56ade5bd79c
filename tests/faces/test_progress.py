"""What is shown while a run is under way: a line that lives on a terminal, plain lines elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from fanfold.testing.running import RunningServer, threaded_server
from tests.faces.cli import environment, started
from tests.faces.project import PRICE, write_function_project, write_project
from tests.waiting import LONG, wait_until

pytestmark = pytest.mark.slow

LINE = re.compile(
    r"talk  (\d)/6  (\d) in flight  (\d) passed  0 kicked back  0 retries  \$(\S+) of \$100\.00"
)
PLAIN = re.compile(LINE.pattern + r"(  \S+/(s|min|h)(  \d.* left)?)?")
"""Also later, when there is a rate: a line comes every few seconds, so on some machines only."""
AT_FIRST = ("0", "3", "0", "0.00")
IN_THE_MIDDLE = ("3", "3", "3", "0.0780")


@contextmanager
def project(tmp_path: Path, latency_ms: float) -> Iterator[tuple[Path, RunningServer]]:
    """Six items, three at once."""
    with threaded_server(tmp_path / "books", price=PRICE, latency_ms=latency_ms) as server:
        write_project(tmp_path / "project", server.url)
        yield tmp_path / "project", server


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """All calls take so long that something would be shown."""
    with project(tmp_path, 700) as (folder, _):
        yield folder


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, RunningServer]]:
    """No call is answered before it is released."""
    with project(tmp_path, 3_600_000) as made:
        yield made


def release_three(server: RunningServer) -> None:
    wait_until(lambda: server.totals().in_flight == 3)
    server.release()


class Terminal:
    """`fanfold WORDS`, or another Python program, on a terminal of 120 columns, and all that was
    drawn there."""

    def __init__(
        self, folder: Path, *words: str, program: tuple[str, ...] = ("-m", "fanfold"), **env: str
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, *program, *words], cwd=folder, env=environment(folder, env),
            stdin=theirs, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        self._drawn = b""

    @property
    def drawn(self) -> str:
        return self._drawn.decode().replace("\r\n", "\n")

    def until(self, shows: Callable[[str], object]) -> None:
        while not shows(self.drawn):
            assert self._reads(), self.drawn

    def end(self) -> int:
        while self._reads():
            pass
        os.close(self._ours)
        return self._process.wait(LONG)

    def _reads(self) -> bool:
        """False: the program has ended, and its side is closed."""
        assert select.select([self._ours], [], [], LONG)[0], "the terminal is silent"
        try:
            self._drawn += os.read(self._ours, 4096)
        except OSError:
            return False
        return True


def screen(drawn: str) -> list[str]:
    """The lines that are left to see: a return goes back to the beginning of its line."""
    lines = []
    for line in drawn.removesuffix("\n").split("\n"):
        seen: list[str] = []
        for part in line.split("\r"):
            seen[: len(part)] = part
        lines.append("".join(seen).rstrip())
    return lines


def test_on_a_terminal_one_line_lives_and_is_gone_at_the_end(
    held: tuple[Path, RunningServer],
) -> None:
    folder, server = held
    terminal = Terminal(folder, "run", "plan.yaml")
    terminal.until(lambda drawn: AT_FIRST in LINE.findall(drawn))
    release_three(server)
    terminal.until(lambda drawn: IN_THE_MIDDLE in LINE.findall(drawn))
    release_three(server)
    assert terminal.end() == 0
    drawn = terminal.drawn
    states = LINE.findall(drawn)
    assert [done for done, *_ in states] == sorted(done for done, *_ in states)
    assert "\x1b" not in drawn, "no escape sequences"
    left = screen(drawn)
    assert left[:3] == ["talk complete", "6 of 6 done: 6 passed", "cost $0.16 of $100.00"]
    assert len(left) == 4
    rate_and_rest = r"3/6 .* of \$100\.00  \d+(\.\d)?/(s|min|h)  \d[\dhms. ]* left"
    assert re.search(rate_and_rest, drawn)


def test_elsewhere_it_is_plain_lines_on_stderr(held: tuple[Path, RunningServer]) -> None:
    folder, server = held
    with started(folder, "run", "plan.yaml", "--json") as run:
        run.until(lambda: bool(LINE.search(run.said)))
        for _ in range(2):
            release_three(server)
        ended = run.end()
    assert (ended.code, ended.receipt["passed"], ended.err) == (0, 6, "")
    lines = [line for line in run.said.splitlines() if line != "talk  planning"]
    shown = [PLAIN.fullmatch(line) for line in lines]
    assert shown[0] is not None and shown[0][1] == shown[0][3] == "0"
    assert None not in shown


def test_quiet_shows_nothing(folder: Path) -> None:
    with started(folder, "run", "plan.yaml", "--json", "--quiet") as run:
        ended = run.end()
    assert (ended.code, run.said, ended.receipt["passed"]) == (0, "", 6)


def test_quiet_shows_nothing_on_a_terminal_but_the_receipt(folder: Path) -> None:
    terminal = Terminal(folder, "run", "plan.yaml", "--json", "--quiet")
    assert (terminal.end(), msgspec.json.decode(terminal.drawn)["passed"]) == (0, 6)


WIDTH = "import shutil\ndef shout(item): return str(shutil.get_terminal_size((1, 1)).columns)\n"


@pytest.mark.parametrize("env", [{}, {"PYTHONUNBUFFERED": "1"}])
def test_the_terminals_width_is_known(tmp_path: Path, env: dict[str, str]) -> None:
    """Also though the streams to it are wrapped."""
    write_function_project(tmp_path, code=WIDTH)
    terminal = Terminal(tmp_path, "run", "plan.yaml", "--json", "--quiet", **env)
    assert terminal.end() == 0, terminal.drawn
    found = msgspec.json.decode(terminal.drawn)["result"]
    assert [part["value"] for part in found] == ["120"] * 3


# ── scripts ──────────────────────────────────────────────────────────────────────────────────

SCRIPT = """\
import sys
import fanfold as ff

SHOWN = {{"": {{}}, "yes": {{"progress": True}}, "no": {{"progress": False}}}}

async def main():
    model = ff.openai(
        "m", base_url="{url}/v1", price={{"input": 1000.0, "output": 5000.0}}, max_tokens=64
    )
    options = {{"budget": ff.Budget(usd=100), **SHOWN[sys.argv[1] if sys.argv[1:] else ""]}}
    async with ff.open_run("talk", members=[model], **options) as run:
        await ff.map_reduce(run, range(6), prompt="{{{{ item }}}}", concurrency=3)
    print("done")

ff.run_sync(main())
"""


def write_script(folder: Path, server: RunningServer) -> None:
    (folder / "talk.py").write_text(SCRIPT.format(url=server.url), encoding="utf-8")


def test_a_script_has_the_same_line_on_a_terminal(held: tuple[Path, RunningServer]) -> None:
    folder, server = held
    write_script(folder, server)
    terminal = Terminal(folder, program=("talk.py",))
    terminal.until(lambda drawn: AT_FIRST in LINE.findall(drawn))
    for _ in range(2):
        release_three(server)
    assert terminal.end() == 0
    assert screen(terminal.drawn) == ["done"]


@pytest.mark.parametrize(("word", "shown"), [("", False), ("yes", True), ("no", False)])
def test_elsewhere_a_script_shows_it_only_when_told_to(
    held: tuple[Path, RunningServer], word: str, shown: bool
) -> None:
    folder, server = held
    write_script(folder, server)
    command = [sys.executable, "talk.py", *([word] if word else [])]
    with (folder / "err").open("wb") as err:
        script = subprocess.Popen(command, cwd=folder, env=environment(folder, {}), stderr=err)
        if shown:
            wait_until(lambda: LINE.search((folder / "err").read_text(encoding="utf-8")))
        for _ in range(2):
            release_three(server)
        assert script.wait(LONG) == 0
    assert bool((folder / "err").read_text(encoding="utf-8")) is shown
