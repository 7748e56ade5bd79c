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
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from fanfold.testing.running import threaded_server
from tests.faces.cli import environment, fanfold
from tests.faces.project import PRICE, write_project

LINE = re.compile(
    r"talk  (\d)/6  (\d) in flight  (\d) passed  0 kicked back  0 retries  \$(\S+) of \$100\.00"
)
AT_FIRST = ("0", "3", "0", "0.00")
IN_THE_MIDDLE = ("3", "3", "3", "0.0780")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Six items, three at once, 0.7 s each: what shows the first three came within a second."""
    with threaded_server(tmp_path / "books", price=PRICE, latency_ms=700) as server:
        write_project(tmp_path / "project", server.url)
        yield tmp_path / "project"


def on_terminal(folder: Path, *words: str) -> tuple[int, str]:
    """Run `fanfold WORDS` on a terminal of 120 columns: the exit code, and all that was drawn."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "fanfold", *words], cwd=folder, env=environment(folder),
        stdin=theirs, stdout=theirs, stderr=theirs,
    ) as process:  # fmt: skip
        os.close(theirs)
        drawn = b"".join(pieces(ours))
        code = process.wait()
    os.close(ours)
    return code, drawn.decode().replace("\r\n", "\n")


def pieces(handle: int) -> Iterator[bytes]:
    while select.select([handle], [], [], 30)[0]:
        try:
            yield os.read(handle, 4096)
        except OSError:  # the program has ended, and its side is closed
            return


def screen(drawn: str) -> list[str]:
    """The lines that are left to see: a return goes back to the beginning of its line."""
    lines = []
    for line in drawn.removesuffix("\n").split("\n"):
        seen: list[str] = []
        for part in line.split("\r"):
            seen[: len(part)] = part
        lines.append("".join(seen).rstrip())
    return lines


def test_on_a_terminal_one_line_lives_and_is_gone_at_the_end(folder: Path) -> None:
    code, drawn = on_terminal(folder, "run", "plan.yaml")
    assert code == 0
    states = LINE.findall(drawn)
    assert states[0] == AT_FIRST
    assert IN_THE_MIDDLE in states
    assert "\x1b" not in drawn, "no escape sequences"
    left = screen(drawn)
    assert left[:3] == ["talk complete", "6 of 6 done: 6 passed", "cost $0.16 of $100.00"]
    assert len(left) == 4
    rate_and_rest = r"3/6 .* of \$100\.00  \d+(\.\d)?/(s|min)  \d+\.\ds left"
    assert re.search(rate_and_rest, drawn)


def test_elsewhere_it_is_plain_lines_on_stderr(folder: Path) -> None:
    ended = fanfold(folder, "run", "plan.yaml", "--json")
    assert (ended.code, ended.receipt["passed"]) == (0, 6)
    (line,) = ended.err.splitlines()
    found = LINE.fullmatch(line)
    assert found is not None and found.groups() == AT_FIRST


def test_quiet_shows_nothing(folder: Path) -> None:
    ended = fanfold(folder, "run", "plan.yaml", "--json", "--quiet")
    assert (ended.code, ended.err, ended.receipt["passed"]) == (0, "", 6)


def test_quiet_shows_nothing_on_a_terminal_but_the_receipt(folder: Path) -> None:
    code, drawn = on_terminal(folder, "run", "plan.yaml", "--json", "--quiet")
    assert (code, msgspec.json.decode(drawn)["passed"]) == (0, 6)
