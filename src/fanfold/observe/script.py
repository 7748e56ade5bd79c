"""`open_run`: how a script opens a run, with the command line's line of progress."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TextIO, Unpack, cast

from fanfold.clock import RealClock
from fanfold.members.roster import Roster
from fanfold.members.scripted import ScriptedEntry
from fanfold.observe.progress import Progress, Quiet, watched
from fanfold.run.open import Options, open_quietly
from fanfold.run.run import Run
from fanfold.work.arguments import public
from fanfold.work.check import flag
from fanfold.work.member import Member
from fanfold.work.options import option
from fanfold.work.task import Budget


class ScriptOptions(Options, total=False):
    """How it is carried out, and whether its progress is shown on stderr: None, where that is a
    terminal."""

    progress: bool | None


@public
@asynccontextmanager
async def open_run(
    name: str,
    *,
    roster: str | Path | Roster | None = None,
    members: Sequence[Member | ScriptedEntry] = (),
    budget: Budget | None = None,
    store: str | Path | None = None,
    **options: Unpack[ScriptOptions],
) -> AsyncIterator[Run]:
    """Open a run for a script. Running the script again goes on where it stopped.

    The newest run of that name goes on if it did not finish; otherwise a new one begins, which
    reuses every recorded reply all the same. `members` are used beside those of the roster, whose
    settings hold unless they are stated here (`max_concurrency`, `max_wait`, `allow_paid`).
    `store` is `.fanfold` by default; in a process that a command member started, the store of that
    member's run, whose attempt is then on record as this run's parent.
    `progress`: a line on stderr, as `fanfold run` has it; by default where that is a terminal.
    Raises RunStopped at the end when the run paused: the budget was used up, say.
    """
    wanted = option("progress", options.pop("progress", None), flag)
    opened = open_quietly(
        name,
        roster=roster,
        members=members,
        budget=budget,
        store=store,
        **cast(Options, options),
    )
    async with opened as run, watched(_progress(run, sys.stderr, wanted)):
        yield run


def _progress(run: Run, out: TextIO | None, wanted: bool | None) -> Progress | Quiet:
    """`out` is None in a program without a console."""
    live = out is not None and out.isatty()
    if out is None or not (live if wanted is None else wanted):
        return Quiet()
    progress = Progress(run, out, live=live, clock=RealClock())
    run.journal.when_waiting(progress.say)
    return progress
