"""The command line as its users have it: a process with its own folder and environment.

`new_process` is that to the letter; `started` and `fanfold` spare the time that Python takes to start.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tests.faces.warm import Call, Fork, Warm
from tests.waiting import LONG, wait_until

SRC = Path(__file__).parents[2] / "src"
PROGRESS = re.compile(r"^\S+  (planning|\d+/\d+  \d+ in flight  .*)\n", re.MULTILINE)
"""A line that is written when a run takes long, so on some machines only."""


class Ended(NamedTuple):
    """`err` is without lines of progress; `Program.said` has them."""

    code: int
    out: str
    err: str

    @property
    def receipt(self) -> dict[str, Any]:
        """The one object on stdout; anything else there is an error."""
        assert self.out.count("\n") == 1, self
        found: dict[str, Any] = msgspec.json.decode(self.out)
        return found

    @property
    def resume(self) -> list[str]:
        """The words after `fanfold` in the command that the closing lines give."""
        (line,) = re.findall(r"^to continue: (.+)$", self.out, re.MULTILINE)
        program, *words = shlex.split(line)
        assert program == "fanfold"
        return words


def streams(folder: Path) -> tuple[Path, Path]:
    """Files for what one call writes, beside those of others, which may begin at the same moment."""
    for number in itertools.count(len(list(folder.glob(".out-*")))):
        out = folder / f".out-{number}"
        with suppress(FileExistsError):
            out.touch(exist_ok=False)
            return out, folder / f".err-{number}"
    raise AssertionError


class Program:
    """`fanfold …` under way. What it writes goes to files, so that it can be read meanwhile."""

    process: subprocess.Popen[bytes] | Fork
    python = sys.executable

    def __init__(
        self,
        folder: Path,
        words: tuple[str, ...],
        env: dict[str, str],
        before: Sequence[str] = (),
        *,
        forked: bool = False,
    ) -> None:
        """`before`: words of a command that starts it elsewhere. `forked`: Python itself has started
        already, unless something is said to Python."""
        self._out, self._err = streams(folder)
        if forked and not any(name.startswith("PYTHON") for name in env):
            here, given = folder.absolute(), environment(folder, env)
            self.process = warm_for(words).start(Call(here, words, given, self._out, self._err))
            return
        command = [*before, self.python, "-m", "fanfold", *words]
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                command, cwd=folder, env=environment(folder, env), stdin=subprocess.DEVNULL,
                stdout=out, stderr=err,
            )  # fmt: skip

    @property
    def shown(self) -> str:
        """What stands on stdout by now."""
        return self._out.read_text(encoding="utf-8")

    @property
    def said(self) -> str:
        """What stands on stderr by now."""
        return self._err.read_text(encoding="utf-8")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def until(self, true: Callable[[], bool]) -> None:
        """Wait for a condition; it must come true while the program runs."""

        def happened() -> bool:
            if true():
                return True
            assert self.process.poll() is None, self.said
            return False

        wait_until(happened)

    def until_it_says(self, words: str) -> None:
        self.until(lambda: words in self.said)

    def end(self) -> Ended:
        code = self.process.wait(LONG)
        return Ended(code, self.shown, PROGRESS.sub("", self.said))


def environment(folder: Path, more: dict[str, str] | None = None) -> dict[str, str]:
    """Nothing of this machine's but the way to its programs; no home where a roster could lie."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    return {**clean, "PYTHONPATH": str(SRC), **(more or {})}


MEMBERS = [f"fanfold.members.{kind}" for kind in ("openai", "anthropic", "function", "command")]
LATER = (
    "platformdirs.unix", "encodings.ascii", "encodings.idna", "encodings.utf_8_sig",
    "fanfold.journal.postgres.store", "fanfold.journal.postgres.queue",
)  # fmt: skip
"""What commands import only when they need it; many do."""
WARM = Warm(
    "commands", environment(Path("/")), "fanfold.faces.ui.session", "fanfold.faces.serve.session",
    "fanfold.fleet.supervisor", "fanfold.members.http_aiohttp", *MEMBERS, *LATER,
)  # fmt: skip
MCP = Warm(
    "mcp", environment(Path("/")), "fanfold.faces.mcp.http", "fanfold.faces.mcp.server",
    "fanfold.faces.mcp.tools", "fanfold.members.http_aiohttp", *MEMBERS, *LATER,
)  # fmt: skip


def warm_for(words: tuple[str, ...]) -> Warm:
    """What serves MCP has more to import than other commands have, and so has `ask`, which may serve it."""
    return MCP if words[:1] in (("mcp",), ("ask",)) else WARM


@contextmanager
def started(folder: Path, *words: str, **env: str) -> Iterator[Program]:
    """Run `fanfold WORDS` in a folder; it is killed if it outlives the block."""
    with _ended(Program(folder, words, env, forked=True)) as program:
        yield program


@contextmanager
def new_process(folder: Path, *words: str, **env: str) -> Iterator[Program]:
    """The same, as its users start it: where it matters what the process is to others."""
    with _ended(Program(folder, words, env)) as program:
        yield program


@contextmanager
def _ended(program: Program) -> Iterator[Program]:
    try:
        yield program
    finally:
        program.process.kill()
        program.process.wait()


def fanfold(folder: Path, *words: str, **env: str) -> Ended:
    """Run `fanfold WORDS` to its end."""
    with started(folder, *words, **env) as program:
        return program.end()


def python(folder: Path, code: str, *words: str, env: dict[str, str]) -> Ended:
    """Run `python -W error -c CODE WORDS` to its end, in a fork too."""
    out, err = streams(folder)
    ended = WARM.run(Call(folder.absolute(), words, env, out, err, code), LONG)
    return Ended(ended, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


LACKING = """\
import runpy, sys
assert not {packages} & {{*sys.modules}}
sys.modules.update(dict.fromkeys({packages}))
runpy.run_module("fanfold", run_name="__main__", alter_sys=True)
"""


def lacking(packages: set[str], folder: Path, *words: str) -> Ended:
    """Run `fanfold WORDS` to its end where these are not installed, as far as Python can tell."""
    return python(folder, LACKING.format(packages=packages), *words, env=environment(folder))


def runs(folder: Path, *words: str) -> list[dict[str, Any]]:
    """The runs of a store, as `fanfold status --json` has them; none where there is no store."""
    ended = fanfold(folder, "status", "--json", *words)
    if ended.code == 2 and "no such store" in ended.err:
        return []
    assert ended.code == 0, ended
    found: list[dict[str, Any]] = msgspec.json.decode(ended.out)
    return found
