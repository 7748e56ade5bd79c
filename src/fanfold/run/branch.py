"""A part of a run that is on record as a run of its own, below whatever it was done for."""

from __future__ import annotations

import msgspec

from fanfold.journal.facts import AddRun, RunRecord
from fanfold.run.open import new_id
from fanfold.run.run import Run


async def open_branch(run: Run, name: str, parent: str) -> Run:
    """What is done for the span `parent` from now on. Its calls are paid out of the run's budget and
    go through its limits and members, but they are on record here, so each is counted once.

    Close it before the run. It has the session of the run: if the process dies, both have crashed.
    """
    now = run.clock.now()
    record = RunRecord(
        id=new_id(now), name=name, created=now, session=run.record.session,
        budget=run.record.budget, parent=parent,
    )  # fmt: skip
    no: int = await run.journal.write(AddRun(record))
    return run.branch(msgspec.structs.replace(record, no=no))
