"""A plan whose asks go to a batch service, in a process that is killed with -9 again and again."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

from fanfold.errors import StoreError
from fanfold.journal import opening
from fanfold.price import Price
from fanfold.testing.batches import BatchTimes
from fanfold.testing.books import BookEntry
from fanfold.testing.running import running_server
from fanfold.testing.script import Asked, Says
from fanfold.work.ask import Usage
from tests.faces.cli import Ended, started

PRICE = Price(input=1.0, output=5.0)
USED = Usage(120, 30)
HALF = (120 * 1_000 + 30 * 5_000) // 2

ROSTER = """\
members:
  - {{id: m, kind: {kind}, model: one, base_url: "{url}", key: none, max_tokens: 100, batch_price: 0.5,
     price: {{input: 1, output: 5}}}}
"""
PLAN = """\
name: batched
task: Say it.
input: {{jsonl: items.jsonl, id: id}}
steps:
  - map: {{name: say, prompt: "Say {{{{ item.id }}}}.", batch: {{within: {within}, most: {lines}}}}}
"""


_CHANCE = Random(17)


def script(asked: Asked) -> Says:
    """Requests about batches are slow to be answered, now and then the answer is lost, and now and then
    nothing is done; lines take up to a second and a half."""
    if not asked.n:
        random = _CHANCE
        if asked.method == "POST" and "cancel" not in asked.path:
            if random.random() < 0.15:
                return Says(drop="before")
            return Says(latency=random.random() * 0.4)
        if random.random() < 0.05:
            return Says(status=529)
        return Says(latency=random.random() * 0.2)
    if "late" in asked.prompt and asked.custom_id:
        return Says(hang=True)
    return Says(usage=USED, latency=Random(asked.custom_id).random() * 1.5)


def write_plan(
    folder: Path, url: str, kind: str, items: int, lines: int, within: str = "6h", late: float = 0.0
) -> None:
    names = [f"item-{n}{'-late' if n < items * late else ''}" for n in range(items)]
    (folder / "items.jsonl").write_text("".join(f'{{"id":"{name}"}}\n' for name in names))
    (folder / "plan.yaml").write_text(PLAN.format(lines=lines, within=within))
    base = f"{url}/v1" if kind == "openai" else url
    (folder / "roster.yaml").write_text(ROSTER.format(kind=kind, url=base))


def in_batches(store: str | Path) -> int:
    """Lines of the run `r` that its service has, and the store knows of it: what is only claimed would be
    submitted anew. Looking costs no process."""
    try:
        view = opening.look(store)
    except StoreError:
        return 0
    with closing(view):
        run = view.read.find("r")
        found = view.read.submissions(run.no) if run is not None else ()
        return sum(one.lines for one in found if one.state == "sent")


def serving(folder: Path) -> Any:
    return running_server(
        folder / "books",
        script="tests.flow.batch_kills:script",
        price=PRICE,
        batches=BatchTimes(cancelling=0.3, folder=folder / "kept"),
    )


def resume(folder: Path, first: bool, seconds: float | None) -> Ended | None:
    """Run, or resume; None: it was killed after so many seconds."""
    words = ("run", "plan.yaml", "--name", "r", "--json") if first else ("resume", "r", "--json")
    with started(folder, *words) as program:
        if seconds is not None:
            try:
                program.process.wait(seconds)
            except Exception:
                program.process.kill()
                program.process.wait()
                return None
        program.process.wait(900)
        return program.end()


def carried_through(folder: Path, seed: int, kills: int) -> tuple[Ended, int]:
    """Killed at so many random moments, then resumed to its end; how often it was."""
    random, done = Random(seed), 0
    while True:
        began = (folder / ".fanfold").exists()
        ended = resume(folder, not began, random.uniform(0.3, 6.0) if done < kills else None)
        if ended is not None:
            return ended, done
        done += 1


def check(entries: list[BookEntry], items: int) -> None:
    """No line was paid twice, none is missing, all at half the price."""
    paid = Counter(one.prompt for one in entries if one.billed)
    assert (len(paid), max(paid.values())) == (items, 1)
    assert sum(one.cost for one in entries) == items * HALF
    assert all(one.batch for one in entries)
