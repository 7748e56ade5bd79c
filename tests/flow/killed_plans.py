"""Plans over real HTTP that are killed with -9 at seeded moments, and resumed until they are done.

The moments are counted in requests: the server kills its client when so many have arrived. So none
depends on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import msgspec

from fanfold.plans.execute import execute
from fanfold.plans.prepare import Options, prepare, prepare_resume
from fanfold.price import Price
from fanfold.testing.running import RunningServer, threaded_server
from fanfold.testing.script import Asked, Says
from fanfold.work.outcome import Receipt
from tests.flow.ready import READY
from tests.flow.small_plans import UNWATCHED

ROSTER = """\
members:
  - {{id: m, kind: openai, model: one, base_url: "{url}/v1", max_tokens: 300, price: {{input: 1, output: 1}}}}
"""


class Script:
    """What the server says, and whom it kills at which of its requests. One that a dead client had
    sent may arrive when there is nobody to kill yet: then the next one counts."""

    says: Callable[[Asked], Says]
    arrived = 0
    kill_at = 0
    victim: int | None = None

    def __call__(self, asked: Asked) -> Says:
        self.arrived += 1
        if 0 < self.kill_at <= self.arrived and self.victim is not None:
            os.kill(self.victim, signal.SIGKILL)
            self.victim = None
        return self.says(asked)


script = Script()


class Killed(msgspec.Struct, frozen=True):
    """How a plan ended that was killed on the way: its last receipt, and how often each request
    was made."""

    receipt: Receipt
    asked: dict[str, int]
    kills: int

    def check(self, whole: Killed | None = None) -> None:
        """What was asked more than once (more often than in a `whole` run) was under way at a kill,
        and is on record as such."""
        once = dict.fromkeys(self.asked, 1) if whole is None else whole.asked
        assert self.asked.keys() == once.keys()
        again = sum(self.asked.values()) - sum(once.values())
        assert again <= self.receipt.maybe_paid_twice
        ends = self.receipt
        ended = ends.passed + ends.kicked + ends.failed + ends.skipped + ends.unjudged
        assert (ends.status in ("complete", "flagged"), ended) == (True, ends.planned)


def carried_through(
    folder: Path,
    plan: str,
    says: Callable[[Asked], Says],
    seed: int,
    kills: int = 3,
    roster: str = ROSTER,
    requests: int = 21,
) -> Killed:
    """Run the plan in a process of its own, kill it `kills` times, resume it to its end. Between two kills
    at least one and at most seven more requests arrive, and no more than make each kill sure: `requests`
    different ones are made at least, and what is under way at a kill is made again."""
    random, done, apart = Random(seed), 0, min(7, requests // max(1, kills))
    script.says, script.arrived, script.kill_at, script.victim = says, 0, 0, None
    with threaded_server(
        folder / "books", script="tests.flow.killed_plans:script", price=Price(input=1, output=1)
    ) as server:
        (folder / "p.yaml").write_text(plan)
        (folder / "roster.yaml").write_text(roster.format(url=server.url))
        for kill in range(kills + 1):
            last = kill == kills
            script.kill_at = 0 if last else script.arrived + random.randint(1, apart)
            receipt = _carried(folder, server, resume=kill > 0)
            done += receipt is None
            if receipt is not None:
                break
        assert receipt is not None
        asked = Counter(entry.content for entry in server.books().asked)
        assert (done, kills == 0 or len(asked) >= requests) == (kills, True), len(asked)
        return Killed(receipt, dict(asked), done)


def _carried(folder: Path, server: RunningServer, *, resume: bool) -> Receipt | None:
    """The receipt; None if it was killed."""
    told, tell = READY.Pipe()
    process = READY.Process(target=_carry, args=(str(folder), resume, tell))
    process.start()
    tell.close()
    script.victim = process.pid
    told.send_bytes(b"begin")  # not before the server knows whom to kill
    with told:
        try:
            out = told.recv_bytes()
        except EOFError:
            out = b""
    process.join()
    script.victim = None
    server.wait_idle()
    assert process.exitcode in (0, -9)
    return msgspec.json.decode(out, type=Receipt) if process.exitcode == 0 else None


def _carry(folder: str, resume: bool, tell: Connection) -> None:
    tell.recv_bytes()
    options = Options(store=f"{folder}/store", yes=True)
    job = prepare_resume("killed", options) if resume else prepare(f"{folder}/p.yaml", options)
    receipt = asyncio.run(execute(job, UNWATCHED))
    tell.send_bytes(msgspec.json.encode(receipt))
