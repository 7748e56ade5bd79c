"""Fleets of `odd_agent.py`, for both providers, with any field that a fleet.json can have."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.faces.fleet_root import Root, cleared
from tests.waiting import wait_until

ODD = Path(__file__).with_name("odd_agent.py")


class OddRoot(Root):
    """`counts`: a file in which each start of a worker leaves a line."""

    def __init__(self, folder: Path, name: str = "team") -> None:
        super().__init__(folder, name)
        program = folder / "agent"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {ODD} "$@"\n')
        program.chmod(0o755)
        self.counts = folder / "counts"
        self.env |= {
            "FANFOLD_CLAUDE": str(program), "FANFOLD_CODEX": str(program),
            "CODEX_HOME": str(folder / "codex"),
        }  # fmt: skip

    def plan(self, *workers: dict[str, Any], **config: Any) -> None:
        """`do` of a worker is its prompt, after the first line."""
        usual = {"launch_delay_seconds": 0, "max_concurrent": 8, "model": "sonnet"}
        self.root.mkdir(parents=True, exist_ok=True)
        listed = []
        for one in workers:
            stated = {"type": "write", "task": one["id"], **one}
            do = stated.pop("do", "")
            self.prompt(one["id"], f"I am {one['id']}\nCOUNT {self.counts}\n{do}\n")
            listed.append(stated)
        made = {"fleet_name": self.name, "config": usual | config, "workers": listed}
        (self.root / "fleet.json").write_text(json.dumps(made))

    def starts(self) -> dict[str, int]:
        """How often each worker was started, by its own word."""
        lines = self.counts.read_text().split() if self.counts.exists() else []
        return dict(Counter(lines))

    def account(self) -> dict[str, Any]:
        shown: dict[str, Any] = self.ok("status", str(self.root), "--json").receipt
        return shown

    def seen(self) -> dict[str, dict[str, Any]]:
        return {one["id"]: one for one in self.account()["workers"]}

    def over(self, *ends: str) -> str:
        """Until the run has one of these ends; which one."""
        wanted = ends or ("complete", "flagged", "paused", "killed", "aborted")
        wait_until(lambda: self.on_record() in wanted)
        return self.on_record()

    def on_record(self) -> str:
        """The run's status by the journal, where a dead one is still `running`."""
        return self.status()


@contextmanager
def odd_fleet(folder: Path, name: str = "team") -> Iterator[OddRoot]:
    root = OddRoot(folder, name)
    with cleared(root):
        yield root


def holders(root: Path) -> list[str]:
    """The processes that hold a file below a folder open, by their names."""
    found = []
    for process in Path("/proc").iterdir():
        held, name = list[str](), ""
        with suppress(OSError):  # it ends meanwhile, or is no process
            name = (process / "comm").read_text().strip()
            for handle in (process / "fd").iterdir():
                with suppress(FileNotFoundError):  # it is closed meanwhile
                    held.append(os.readlink(handle))
        if any(path.startswith(f"{root}/") for path in held):
            found.append(name)
    return found
