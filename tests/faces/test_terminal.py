"""What replies, items and errors hold cannot steer the terminal of those who look at it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import msgspec

from fanfold.faces.cli.terminal import GuardedStream, Screen, raw
from fanfold.work.text import visible
from tests.faces.cli import environment, fanfold

HOSTILE = "a\x1b]0;pwned\x07\x1b[2J\x9b31m\rb\u202ec\u2066d\x7f\x00\x08\U000e0041e\tf\n"
SHOWN = (
    r"a\u001b]0;pwned\u0007\u001b[2J\u009b31m\u000db\u202ec\u2066d\u007f\u0000\u0008\udb40\udc41e"
    "\tf\n"
)


def test_what_would_steer_a_terminal_is_shown_instead() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible("plain\ttext, é 日本 👩‍🚀\r\nnext\n") == "plain\ttext, é 日本 👩‍🚀\nnext\n"


def test_json_stays_the_json_that_it_is() -> None:
    said = msgspec.json.encode({"reply": HOSTILE}).decode()
    assert json.loads(visible(said)) == {"reply": HOSTILE}


class Tty(os.PathLike[str]):
    """A terminal and what was written to it."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()

    def __fspath__(self) -> str:
        return os.ttyname(self.theirs)

    def read(self) -> str:
        os.close(self.theirs)
        found = b""
        while True:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # the other side is closed
                piece = b""
            if not piece:
                break
            found += piece
        os.close(self._ours)
        return found.decode()


SESSION = """
import sys
from fanfold.faces.cli.main import main
for words in sys.argv[1].split("|"):
    try:
        main(words.split(" "))
    except SystemExit as ended:
        sys.stdout.flush()
        print("ENDED", ended.code)
"""
COMMANDS = [
    "run plan.yaml --quiet", "run bad.yaml --quiet", "report plan", "report bad", "status bad -v",
    "status", "tree plan", "run bad.yaml --name \x1b[2Jx", "report no\x1b[2Jrun", "report --json plan",
]  # fmt: skip


def write_project(folder: Path) -> None:
    (folder / "mine.py").write_text(
        f"def answer(data): return {HOSTILE!r}\ndef check(value): return value * 0 + {HOSTILE!r}\n"
    )
    (folder / "roster.yaml").write_text("members: [{id: m, kind: function, target: 'mine:answer'}]")
    (folder / "plan.yaml").write_text("input: {list: [a]}\nsteps:\n  - map: {}\n  - reduce: concat")
    (folder / "bad.yaml").write_text(
        "input: {list: [a]}\nsteps:\n  - map: {revise: 0, gate: {python: 'mine:check'}}\n"
    )


def test_nothing_that_is_printed_to_a_terminal_steers_it(tmp_path: Path) -> None:
    """A session at a terminal, in one process; the same into a file, as it is."""
    write_project(tmp_path)
    terminal = Tty()
    subprocess.run(
        [sys.executable, "-P", "-c", SESSION, "|".join(COMMANDS)], cwd=tmp_path,
        env=environment(tmp_path), stdin=subprocess.DEVNULL, stdout=terminal.theirs,
        stderr=terminal.theirs, check=False,
    )  # fmt: skip
    said = terminal.read()
    assert said.count("ENDED") == len(COMMANDS)
    assert said.count(r"a\u001b]0;pwned\u0007") >= 1
    assert [sign for sign in "\x1b\x9b\x07\x00\x08\u202e\u2066" if sign in said] == []


def test_files_and_pipes_get_the_text_as_it_is(tmp_path: Path) -> None:
    write_project(tmp_path)
    assert fanfold(tmp_path, "run", "plan.yaml", "--json", "--quiet").receipt["result"] == HOSTILE


def test_a_screen_draws_with_its_own_sequences_only() -> None:
    terminal = Tty()
    out = GuardedStream(open(terminal.theirs, "wb", closefd=False), "utf-8", write_through=True)  # noqa: SIM115
    screen = Screen(raw(out))
    screen.draw(f"one {HOSTILE}two")
    out.write("\x1b[31m")
    out.detach()
    said = terminal.read()
    assert said.count("\x1b[K") == 2 and "\x1b[H" in said, "its own"
    assert "\x1b]0;" not in said and r"\u001b]0;pwned" in said and r"\u001b[31m" in said


def test_only_json_is_printed_past_the_guard() -> None:
    """`click.echo` of bytes writes beside the stream that shows what would steer a terminal."""
    source = Path(__file__).parents[2] / "src" / "fanfold" / "faces"
    past = [
        f"{path.name}: {line.strip()}"
        for path in source.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if "echo(" in line and ".encode(" in line and "msgspec.json.encode(" not in line
    ]
    assert past == ['report.py: click.echo(shown.encode(errors="replace"))']
