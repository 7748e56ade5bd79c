"""Plans carried out in this process, with nobody who watches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fanfold.plans.execute import Audience, execute
from fanfold.plans.prepare import Job, Options, prepare
from fanfold.run.loop import run_sync
from fanfold.run.run import Run
from fanfold.work.outcome import Receipt


@asynccontextmanager
async def unwatched(run: Run) -> AsyncIterator[None]:
    yield


UNWATCHED = Audience(unwatched, say=lambda line: None)


def executed(job: Job) -> Receipt:
    return run_sync(execute(job, UNWATCHED))


class Functions:
    """Plans whose members are functions of one module, `work`."""

    def __init__(self, *names: str, code: str) -> None:
        members = (f'  - {{id: {one}, kind: function, target: "work:{one}"}}\n' for one in names)
        self._roster, self._code = "members:\n" + "".join(members), code

    def written(self, folder: Path, steps: str, head: str = "") -> Path:
        (folder / "roster.yaml").write_text(self._roster)
        (folder / "work.py").write_text(self._code)
        (folder / "p.yaml").write_text(f"name: small\n{head}steps:\n{steps}")
        return folder / "p.yaml"

    def carried(self, folder: Path, steps: str, head: str = "") -> Receipt:
        plan = self.written(folder, steps, head)
        return executed(prepare(str(plan), Options(store=str(folder / "store"))))
