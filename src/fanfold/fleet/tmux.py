"""tmux as a view: a session for a run, a window for each worker that shows its readable stream.

Nothing depends on it. Windows run `fanfold view … --follow`, which reads files; whether tmux is
there, dies or is killed changes nothing for the run, and nothing here ever raises into it.

Windows of workers that ended stay, so that they can be read; a worker that is relaunched gets its
own window again. They go with the session: `fanfold kill RUN all` closes it, or the operator does.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import msgspec

from fanfold.journal.places import absolute

SECONDS = 20.0
LONGEST_CALL = 12_000  # bytes; tmux takes 16 kB
OWNER, WORKER = "@fanfold_run", "@fanfold_worker"
MOST_NAMES = 20
_UNSAFE = re.compile(r"[^A-Za-z0-9_/-]+")  # a name is a format to tmux: `#(…)` in it would be run
Log = Callable[[str], None]


class NoTmux(Exception):
    """tmux is not installed or failed; stays in this file."""


class ShownRun(msgspec.Struct, frozen=True):
    """The run that is shown: `store` names where its journal is, from any folder."""

    name: str
    run: str
    store: str

    @property
    def key(self) -> str:
        """What a session is marked with, so that it is known to be this run's."""
        return f"{self.run} {self.store}"

    def view_words(self, worker: str) -> list[str]:
        return [*_program(), "view", "--follow", "--store", self.store, "--", self.run, worker]

    def status_words(self) -> list[str]:
        return [*_program(), "status", "--watch", "--store", self.store, "--", self.run]


def _program() -> list[str]:
    """As it runs now: the PATH of a tmux server that was there before may lead elsewhere. `-P`: what
    is in the folder where it is opened is not imported."""
    return [sys.executable, "-P", "-m", "fanfold"]


class Tmux:
    """The tmux of an environment: TMUX and TMUX_TMPDIR say which server, PATH which program."""

    def __init__(
        self, environ: Mapping[str, str] = os.environ, *, seconds: float = SECONDS
    ) -> None:
        self._environ, self._seconds = environ, seconds

    @property
    def installed(self) -> bool:
        return shutil.which("tmux", path=self._environ.get("PATH", os.defpath)) is not None

    def open_session(self, shown: ShownRun) -> str:
        """The session of this run: the one that is there, or a new one that begins with its status.

        Another run's session of the same name is left alone; ours gets a number then.
        """
        for name in _names(shown):
            owner = self._owner(name)
            if owner == shown.key or (owner is None and self._new_session(name, shown)):
                return name
        raise NoTmux(f"{MOST_NAMES} sessions of that name are there already")

    def _new_session(self, name: str, shown: ShownRun) -> bool:
        """False: the name was taken meanwhile."""
        size = ["-x", "200", "-y", "50"]
        words = ["new-session", "-d", "-s", name, "-n", "status", *size, *self._given()]
        owned = ["set-option", "-t", f"={name}:", OWNER, shown.key]
        done = self._run(_joined([*words, *shown.status_words()], owned, *_kept(f"={name}:")))
        if done.returncode and b"duplicate session" in done.stderr:
            return False
        _check(done)
        return True

    def open_windows(self, session: str, shown: ShownRun, workers: Iterable[str]) -> None:
        """A window for each worker. One that is there already and still follows is left as it is.
        Many go into one call: while programs start in the first windows, each call takes long."""
        there = {of: (id, dead) for id, of, dead in self._windows(session)}
        wanted = [self._window(session, shown, one, there) for one in dict.fromkeys(workers)]
        for words in _packed(wanted):
            _check(self._run(words))

    def _window(
        self, session: str, shown: ShownRun, worker: str, there: Mapping[str, tuple[str, bool]]
    ) -> list[str]:
        """The arguments for one worker; none when nothing is to be done."""
        view = [*self._given(), *shown.view_words(worker)]
        id, dead = there.get(worker, ("", False))
        if id:
            return _joined(["respawn-pane", "-k", "-t", id, *view]) if dead else []
        last = f"={session}:{{end}}"  # behind the last one, so that the next commands find it there
        made = ["new-window", "-d", "-a", "-t", last, "-n", _UNSAFE.sub("_", worker) or "_", *view]
        return _joined(made, ["set-option", "-w", "-t", last, WORKER, worker], *_kept(last))

    def close_session(self, shown: ShownRun) -> None:
        """The session of this run, if there is one; its windows only showed what is in files."""
        for name in _names(shown):
            owner = self._owner(name)
            if owner == shown.key:
                _check(self._run(["kill-session", "-t", f"={name}"]))
            if owner is None or owner == shown.key:
                return

    def _owner(self, session: str) -> str | None:
        """The run that a session shows; "" for a session of others, None when there is none."""
        if self._run(["has-session", "-t", f"={session}"]).returncode:
            return None
        return _text(self._run(["show-options", "-qv", "-t", f"={session}:", OWNER]))

    def _windows(self, session: str) -> list[tuple[str, str, bool]]:
        """Id, worker and whether its pane is dead, of each window."""
        shown = "#{window_id} #{pane_dead} #{" + WORKER + "}"
        listed = _text(_check(self._run(["list-windows", "-t", f"={session}:", "-F", shown])))
        rows = (line.split(" ", 2) for line in listed.splitlines())
        return [(row[0], row[2], row[1] == "1") for row in rows if len(row) == 3]

    def _given(self) -> list[str]:
        """A server that runs already has its own variables: where our modules are goes along."""
        path = self._environ.get("PYTHONPATH")
        return ["-e", f"PYTHONPATH={path}"] if path else []

    def _run(self, words: list[str]) -> subprocess.CompletedProcess[bytes]:
        """It gets no handle of ours but its pipes: a server that it starts would keep our locks."""
        try:
            return subprocess.run(
                ["tmux", "-u", *words], stdin=subprocess.DEVNULL, capture_output=True, check=False,
                timeout=self._seconds, close_fds=True, env=dict(self._environ),
            )  # fmt: skip
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise NoTmux(f"{type(error).__name__}: {error}") from None


class Panes:
    """The windows of a run. They are opened by a thread of its own, one after the other, so that a tmux that
    hangs delays nothing else.

    `session` is the name to attach to; None until it is there, and for good when tmux fails.
    """

    def __init__(self, shown: ShownRun, log: Log, tmux: Tmux) -> None:
        self.session: str | None = None
        self._shown, self._log, self._tmux = shown, log, tmux
        self._wanted: SimpleQueue[tuple[str, ...] | None] = SimpleQueue()
        self._failed = False
        self._thread = threading.Thread(target=self._open_all, name="tmux", daemon=True)
        self._thread.start()

    def started(self, *workers: str) -> None:
        """These run now: each has a window, a new one or the one that it had before."""
        self._wanted.put(workers)

    def close(self) -> None:
        """No more windows; those that were asked for are there then, and stay. It ends: a call that
        takes too long is the last one."""
        self._wanted.put(None)
        self._thread.join()

    def _open_all(self) -> None:
        while (workers := self._wanted.get()) is not None:
            if self._failed:
                continue
            try:
                self.session = self.session or self._tmux.open_session(self._shown)
                self._tmux.open_windows(self.session, self._shown, workers)
            except NoTmux as error:
                self._failed, self.session = True, None
                self._log(f"tmux: no windows, the run continues without them: {error}")


def show(
    name: str, run: str, store: str | Path, log: Log, tmux: Tmux | None = None
) -> Panes | None:
    """The windows of a run; None where there is no tmux."""
    tmux = Tmux() if tmux is None else tmux
    return Panes(ShownRun(name, run, absolute(store)), log, tmux) if tmux.installed else None


def open_windows(shown: ShownRun, workers: Iterable[str], tmux: Tmux) -> str:
    """A session with a window for each of these. The name of the session; raises NoTmux."""
    session = tmux.open_session(shown)
    tmux.open_windows(session, shown, workers)
    return session


def close_session(name: str, run: str, store: str | Path, tmux: Tmux | None = None) -> None:
    """Close the session of a run, if there is one. Never raises."""
    with suppress(NoTmux):
        (Tmux() if tmux is None else tmux).close_session(ShownRun(name, run, absolute(store)))


def session_name(name: str) -> str:
    """tmux takes no `.` and `:` in the name of a session."""
    return _UNSAFE.sub("_", name) or "fanfold"


def _names(shown: ShownRun) -> Iterator[str]:
    plain = session_name(shown.name)
    return (plain if n == 1 else f"{plain}-{n}" for n in range(1, MOST_NAMES + 1))


def _kept(target: str) -> list[list[str]]:
    """What makes a window stay when its program has ended, under the name that it was given."""
    options = {"remain-on-exit": "on", "automatic-rename": "off", "allow-rename": "off"}
    return [["set-option", "-w", "-t", target, name, how] for name, how in options.items()]


def _joined(*commands: list[str]) -> list[str]:
    """Several commands in one call, with nothing in between. A word that ends with `;` would end
    its command, so that is escaped."""
    found: list[str] = []
    for command in commands:
        found += [";"] if found else []
        found += [f"{word[:-1]}\\;" if word.endswith(";") else word for word in command]
    return found


def _packed(several: Iterable[list[str]]) -> Iterator[list[str]]:
    """Words of several, in as few calls as tmux takes: it refuses what is longer than a message."""
    packed: list[str] = []
    for words in filter(None, several):
        if packed and sum(len(os.fsencode(word)) + 1 for word in (*packed, *words)) > LONGEST_CALL:
            yield packed
            packed = []
        packed = [*packed, ";", *words] if packed else words
    if packed:
        yield packed


def _check(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[bytes]:
    if done.returncode:
        error = " ".join(done.stderr.decode(errors="replace").split())
        raise NoTmux(error or f"tmux exited with code {done.returncode}")
    return done


def _text(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stdout.decode(errors="replace").rstrip("\n")
