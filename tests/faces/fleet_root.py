"""Small fleets for the verbs: workers are a stand-in that does what its prompt says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fanfold.journal import opening
from fanfold.journal.facts import RunRecord
from tests.faces.cli import Ended, environment, fanfold
from tests.waiting import wait_until

STAND_IN = Path(__file__).with_name("stand_in.py")


class Root:
    """A fleet in a folder of its own, with a home, a registry and a tmux server of its own."""

    def __init__(self, folder: Path, name: str = "team") -> None:
        self.folder, self.name = folder, name
        self.root = folder / name
        self.store = self.root / ".fanfold"
        program = folder / "claude"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {STAND_IN} "$@"\n')
        program.chmod(0o755)
        (folder / "tmux").mkdir()
        self.env = {
            "FANFOLD_CLAUDE": str(program),
            "TMUX_TMPDIR": str(folder / "tmux"),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def write(self, workers: dict[str, str], **depends_on: list[str]) -> None:
        """A fleet.json with these workers, each with its prompt."""
        listed = [
            {"id": id, "type": "write", "task": id, "model": "sonnet", "max_budget_usd": 1.0}
            | ({"depends_on": depends_on[id]} if id in depends_on else {})
            for id in workers
        ]
        config = {"launch_delay_seconds": 0, "max_concurrent": 8}
        self.root.mkdir(exist_ok=True)
        (self.root / "fleet.json").write_text(
            json.dumps({"fleet_name": self.name, "config": config, "workers": listed})
        )
        for id, prompt in workers.items():
            self.prompt(id, prompt)

    def prompt(self, id: str, text: str) -> None:
        place = self.root / "workers" / id
        place.mkdir(parents=True, exist_ok=True)
        (place / "prompt.md").write_text(text)

    def gate(self, name: str) -> Path:
        return self.folder / f"gate-{name}"

    def waits(self, name: str) -> str:
        """A prompt for a worker that waits until its gate is open."""
        return f"I am {name}\nWAIT {self.gate(name)}\n"

    def fanfold(self, *words: str) -> Ended:
        return fanfold(self.folder, *words, **self.env)

    def ok(self, *words: str) -> Ended:
        ended = self.fanfold(*words)
        assert ended.code == 0, ended
        return ended

    def launch(self, *words: str) -> dict[str, Any]:
        return self.ok("launch", str(self.root), "--no-tmux", "--json", *words).receipt

    def states(self) -> dict[str, str]:
        """As `fanfold status` tells them."""
        shown = self.ok("status", self.name, "--json").receipt
        return {one["id"]: one["status"] for one in shown["workers"]}

    def status(self) -> str:
        """The run's, by the journal."""
        return recorded(self.store)[-1].status

    def runs(self) -> int:
        return len(recorded(self.store))

    def log(self, id: str) -> Path:
        return self.root / "workers" / id / "session.jsonl"

    def written(self, id: str, name: str) -> str:
        """A file of a worker, once it is there: a worker that is started again has its files moved away
        first, and gets new ones then."""
        file, found = self.root / "workers" / id / name, list[str]()

        def is_there() -> bool:
            with suppress(FileNotFoundError):
                found.append(file.read_text())
            return bool(found)

        wait_until(is_there)
        return found[0]

    def program(self, id: str) -> int:
        """The process of a worker, once it runs and has said something. Of one that is started again, not
        the one before: its files may still be there, or be gone for a moment."""
        place, found = self.root / "workers" / id, list[int]()

        def is_at_work() -> bool:
            with suppress(FileNotFoundError):
                said = self.log(id).stat().st_size > 0
                number = int(json.loads((place / "host.json").read_text())["program"]["pid"])
                if said and lives(number):
                    found.append(number)
            return bool(found)

        wait_until(is_at_work)
        return found[0]

    def answered(self, id: str) -> None:
        """Until its model has answered once, by its log: from then on it is known what it costs."""
        wait_until(lambda: '"assistant"' in self.written(id, self.log(id).name))


def recorded(store: Path) -> list[RunRecord]:
    """The runs of a store, oldest first. A dead one is still `running` there."""
    archive = opening.look(str(store))
    try:
        return archive.read.runs()
    finally:
        archive.close()


def under_way(store: Path) -> int:
    """How many calls of the last run are."""
    archive = opening.look(str(store))
    try:
        return len(archive.read.newest(archive.read.runs()[-1].no, ("started",), limit=100))
    finally:
        archive.close()


def lives(pid: int) -> bool:
    """By the kernel's word: there, and not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@contextmanager
def fleet(folder: Path, name: str = "team") -> Iterator[Root]:
    root = Root(folder, name)
    with cleared(root):
        yield root


@contextmanager
def cleared(root: Root) -> Iterator[None]:
    """Whatever a test leaves behind is ended by `kill all`, and what does not obey by its number."""
    folder = root.folder
    try:
        yield
    finally:
        if root.store.exists():
            root.fanfold("kill", str(root.root), "all", "--force")
        if any((folder / "tmux").iterdir()):
            env = environment(folder, root.env)
            subprocess.run(["tmux", "kill-server"], env=env, check=False, capture_output=True)
        for host in root.root.glob("workers/*/host.json"):
            record = json.loads(host.read_text())
            for process in (record["host"], record["program"]):
                with suppress(ProcessLookupError):
                    if lives(process["pid"]):
                        os.kill(process["pid"], signal.SIGKILL)
