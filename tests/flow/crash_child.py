"""A job that maps items over HTTP, and may kill its own process with -9 right after a commit.

`answered` is the script for the model server it talks to. `children` has processes for it.
"""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from fanfold.clock import RealClock
from fanfold.errors import StoreUnavailable
from fanfold.journal.opening import open_store
from fanfold.members.openai import OpenAI
from fanfold.price import Price
from fanfold.testing.member import traits
from fanfold.testing.script import Asked, Says
from fanfold.work.member import Traits
from fanfold.work.outcome import Receipt
from fanfold.work.task import Budget
from tests.flow.operator_scenes import OPERATORS, RECORDS
from tests.flow.simulation import Scene, carry_out

PRICE = Price(input=1.0, output=5.0)
_HEADING = re.compile(r"^### (\".*\")$", re.MULTILINE)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """`die_at`: the process dies right after the first commit that brings it so far (see `progress`).
    How many commits a run makes depends on how fast the machine is; how far it gets does not."""

    store: str
    url: str
    items: list[str]
    name: str = "job"
    resume: bool = False
    die_at: int | None = None
    concurrency: int = 8
    shard: int | None = None
    usd: float | None = None
    usd_month: float | None = None
    operator: str | None = None
    state: str = ""
    """The user's folder for what is kept beside a store on a server."""


class Told(msgspec.Struct, frozen=True):
    """The receipt, or why the store did not take it."""

    receipt: Receipt | None = None
    trouble: str = ""


def progress(store: Path) -> int:
    """How far a store is, by what is durable: a step for each call, for each reply, and for the end."""
    steps = (
        "select count(*) from attempts union all select count(*) from replies"
        " union all select count(*) from runs where status != 'running'"
    )
    with closing(sqlite3.connect(store / "journal.db")) as db:
        return sum(count for (count,) in db.execute(steps))


def like(usd_month: float | None = None) -> Traits:
    return traits(
        "http", kind="openai", answerer="openai:m", model="m", price=PRICE, max_tokens=200,
        budget_usd_month=usd_month,
    )  # fmt: skip


def answered(asked: Asked) -> Says:
    """`fine` for one item; for a shard, `fine` under each id that stands in its headings."""
    ids = [msgspec.json.decode(found) for found in _HEADING.findall(asked.prompt)]
    if not ids:
        return Says(text="fine")
    return Says(data={"answers": [{"id": id, "answer": "fine"} for id in ids]})


def scene_of(job: Job) -> Scene:
    member = OpenAI(like(job.usd_month), job.url, lambda: "key")
    if job.operator is not None:
        pattern = partial(OPERATORS[job.operator], rows=RECORDS)
        return Scene(Path(job.store), (member,), name=job.name, pattern=pattern)
    how = {"concurrency": job.concurrency}
    if job.shard is not None:
        how["shard"] = job.shard
    records = [{"id": text, "text": text} for text in job.items]
    return Scene(Path(job.store), (member,), records, Budget(usd=job.usd), name=job.name, how=how)


async def carried_out(job: Job) -> Told:
    def die(commit: int) -> None:
        if job.die_at is not None and progress(Path(job.store)) >= job.die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if job.state:
        os.environ["XDG_STATE_HOME"] = job.state
    journal = open_store(job.store, after_commit=die)
    try:
        return Told(await carry_out(journal, scene_of(job), RealClock(), job.resume))
    except StoreUnavailable as trouble:
        return Told(trouble=str(trouble))
    finally:
        journal.close()
