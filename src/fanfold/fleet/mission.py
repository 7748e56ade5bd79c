"""What a supervisor is started with, and what it says when it is ready."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fanfold.journal.facts import RunRecord
from fanfold.members.roster import Roster
from fanfold.plans.execute import Job, Options, Stored, revised
from fanfold.work.task import Budget


class Mission(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was read and checked, on its way to the process that carries it out. The roster is
    read again there: keys are references, so nothing here is a secret."""

    name: str
    stored: Stored
    budget: Budget
    options: Options
    record: RunRecord | None = None

    def job(self) -> Job:
        """BadInput when the roster is not any more what it was a moment ago."""
        bare = Job(
            stored=self.stored, roster=Roster(), budget=self.budget, options=self.options,
            name=self.name, record=self.record,
        )  # fmt: skip
        return revised(bare, self.stored)


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor's one line: the run is on record and under way; or what is wrong."""

    run: str = ""
    name: str = ""
    pid: int = 0
    planned: int = 0
    error: str = ""
    code: int = 0


def mission_of(job: Job) -> Mission:
    """With the store as a full path: the supervisor may be anywhere."""
    store = str(Path(job.options.store).absolute())
    options = msgspec.structs.replace(job.options, store=store)
    record = job.record
    if record is not None:
        record = msgspec.structs.replace(record, plan=b"", result=None)
    return Mission(
        name=job.name, stored=job.stored, budget=job.budget, options=options, record=record
    )


def log_file(job: Job) -> Path:
    """Of a fleet beside its workers, of a plan in the store."""
    if job.stored.kind == "fleet":
        return Path(job.stored.plan.folder) / "logs" / "supervisor.log"
    plain = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in job.name)
    return Path(job.options.store).absolute() / "logs" / f"{plain}.log"


def root_folder(job: Job) -> str:
    return job.stored.plan.folder or str(Path(job.options.store).absolute().parent)
