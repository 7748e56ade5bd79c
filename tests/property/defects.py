"""Deliberate defects: each is a line of the product, changed while a test runs. The simulator must find them.

    python -m tests.property.defects [--most N] [NAME…]

prints how many seeds each takes, as the table of docs/testing.md has it.
"""

from __future__ import annotations
import __future__

import argparse
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from fanfold.testing.simulation.draw import world_of
from fanfold.testing.simulation.shrink import failure_of
from fanfold.testing.simulation.storage import new_database

MOST = 3000


class Defect(NamedTuple):
    """`old` stands once in the function `where` (module:name), and becomes `new`."""

    what: str
    where: str
    old: str
    new: str


DEFECTS = (
    # never overspend
    Defect("a grant reserves nothing", "fanfold.run.dispatch:Dispatch._granted",
           "reserve_all(accounts, amount)", "pass"),
    Defect("a refund is doubled", "fanfold.work.budget:settle_all",
           "one.reserved_usd -= reserved.usd", "one.reserved_usd -= 2 * reserved.usd"),
    Defect("a lost call is refunded", "fanfold.run.cost:cost_of_error",
           "return reserved if may_have_run(error)", "return NOTHING if may_have_run(error)"),
    Defect("a reply without usage costs nothing", "fanfold.run.cost:charge",
           "usd, bound = reserved.usd,", "usd, bound = 0,"),
    Defect("any reported usage is believed", "fanfold.run.cost:plausible",
           "if traits.kind in OF_THE_USER:", "if True: return reply\n    if traits.kind in OF_THE_USER:"),
    Defect("a resumed run forgets what it spent", "fanfold.run.context:share",
           "sum(spent_before(store, record.no).values(), NOTHING)", "NOTHING"),
    Defect("the budget of a step is not looked at", "fanfold.run.steps:Steps._first",
           "(self._account, own)", "(self._account,)"),
    Defect("the store does not guard the month", "fanfold.journal.decide:claim",
           "if limits and (refused", "if False and (refused"),
    Defect("what a dead process had sent is refunded", "fanfold.journal.sqlite.orphans:lose",
           "bound = 1, ended", "bound = 1, cost = 0, ended"),
    Defect("a refused call is charged", "fanfold.run.cost:cost_of_error",
           "isinstance(error, InvalidReply) else NOTHING", "isinstance(error, InvalidReply) else reserved"),
    Defect("the worst case is never refunded", "fanfold.run.cost:charge",
           "usd = cost(price, usage.input, usage.output, usage.cache_read, usage.cache_write)",
           "usd = reserved.usd"),
    Defect("a hedge that lost costs nothing", "fanfold.run.race:_lose",
           "took, usage = Charge(grant.reserved, bound=True), None",
           "took, usage = Charge(NOTHING, bound=True), None"),
    # never pay twice
    Defect("a claim is not awaited", "fanfold.run.attempt:Attempt._claim",
           "claim: Claim = await ctx.store.write(fact)",
           "ctx.store.note(fact); claim = Claim(attempt=ctx.counts.calls + 1)"),
    Defect("who holds a claim is not looked at", "fanfold.journal.decide:claim",
           "if held or (doubt and not start.take_over):", "if False:"),
    Defect("a claim does not look for replies", "fanfold.journal.decide:claim",
           "if replies and (known :=", "if False and (known :="),
    Defect("what is sent is not marked", "fanfold.run.attempt:Attempt.ask",
           "ctx.store.sent.mark(self.number)", "pass"),
    Defect("a repeated doubt is not recorded", "fanfold.journal.sqlite.attempts:_note_repetitions",
           "if by:", "if False:"),
    Defect("a holder that lives counts as dead", "fanfold.run.carry:Obtain._wait_for",
           'if life == "dead":', "if True:"),
    Defect("recovery does not ask who lives", "fanfold.journal.sqlite.store:JournalStore.recover",
           "alive[session] = self.sessions.alive(session)", "alive[session] = False"),
    Defect("a run that is under way is taken over", "fanfold.run.record:reopen",
           "_refuse_while_alive(store, record)", "pass"),
    Defect("doubt that is held is repeated", "fanfold.run.outcomes:Replies.may_repeat",
           'if policy == "retry" or self._retry_in_doubt is None:', "if True:"),
    # nothing ships ungated
    Defect("a verdict is ignored", "fanfold.run.task_state:TaskState.decide",
           "self.final = None if goes_back else state",
           'self.final = None if goes_back else ("passed" if state == "kicked" else state)'),
    Defect("a judge that fails lets pass", "fanfold.gates.judge:_verdict",
           "return unjudged(f\"the judge: {", "return PASS or unjudged(f\"the judge: {"),
    Defect("a reply on record skips its gate", "fanfold.run.task_state:TaskState.recall",
           "self._judge(known.reply, known.member)",
           'self.reply, self.member, self.final, self.verdict = known.reply, known.member, "passed", None'),
    Defect("a reduce takes what did not pass", "fanfold.journal.sqlite.read_items:ItemRows.parts",
           "after = -1",
           "after, _PASSED = -1, globals()['_PASSED'].replace(\"= 'passed'\", \"in ('passed', 'kicked')\")\n"
           "    value_of = lambda row, reply: (True, globals()['value_of'](row, reply)[1])"),
    # nothing is lost
    Defect("the rest has no outcome", "fanfold.journal.sqlite.rows:_close_one",
           "if f.rest is not None:", "if False:"),
    Defect("a slot is not given back", "fanfold.run.dispatch:Dispatch.settle",
           "self.limits.give(grant.gauge, grant.permit)", "pass"),
    Defect("who waits is not woken", "fanfold.run.dispatch:Dispatch.settle",
           "asyncio.get_running_loop().call_soon(self.poke)", "pass"),
    Defect("calls of a member are not counted", "fanfold.run.limits:Limits.take",
           "gauge.in_flight += 1", "gauge.in_flight += 0"),
    Defect("an error keeps its claim", "fanfold.journal.sqlite.attempts:_settle",
           "failed = [(k, f.answerer, f.attempt) for f in facts",
           "failed = [(k, f.answerer, f.attempt) for f in facts[:0]"),
    Defect("a skip that is done stops every resume", "fanfold.run.order_taker:OrderTaker.begin",
           "with suppress(BadInput):", "with suppress(KeyError):"),
    Defect("trouble before the run listens is not told", "fanfold.journal.sqlite.writer:Writer.listen",
           "if self._stop:", "if False:"),
    Defect("who waits for a worker does not look at its lease", "fanfold.run.queue_client:QueueClient._carry",
           "self.queue.check()", "pass"),
    Defect("a batch that cannot be read is written off", "fanfold.run.submission:Submission._told",
           "raise LeftInBatch(f\"the batch service does not say what it has: {error}\") from None", "raise"),
    Defect("a batch does not look again for money that others hold", "fanfold.run.grant:into_batch",
           "found.wait_for_money(candidate.grade, outer)", "found.wait(candidate.grade)"),
    Defect("a commit is not synced", "fanfold.journal.sqlite.folder:StoreFolder.connect",
           "pragma synchronous = full", "pragma synchronous = off"),
)  # fmt: skip


@contextmanager
def planted(defect: Defect) -> Iterator[None]:
    """The function has the defect in this block."""
    module, _, name = defect.where.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    found = inspect.unwrap(found)
    source = textwrap.dedent(inspect.getsource(found))
    assert source.count(defect.old) == 1, f"{defect.where} has not once: {defect.old}"
    text = source.replace(defect.old, defect.new)
    flags = __future__.annotations.compiler_flag
    made: dict[str, Any] = {}
    exec(compile(text, "<defect>", "exec", flags=flags, dont_inherit=True), found.__globals__, made)
    before, found.__code__ = found.__code__, made[found.__name__].__code__
    try:
        yield
    finally:
        found.__code__ = before


def seeds_until_found(defect: Defect, most: int = MOST, first: int = 0) -> tuple[int, str] | None:
    """How many seeds it takes, and what the simulator says of it; None: it is not found."""
    db = new_database()
    with planted(defect):
        for seed in range(first, first + most):
            if (error := failure_of(world_of(seed), db)) is not None:
                return seed - first + 1, str(error)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.property.defects")
    parser.add_argument("--most", type=int, default=MOST, help="seeds for each, at most")
    parser.add_argument("name", nargs="*", help="only those whose name has one of these in it")
    options = parser.parse_args()
    sys.stdout.write("| defect | seeds | found as |\n|---|--:|---|\n")
    for defect in DEFECTS:
        if not options.name or any(word in defect.what for word in options.name):
            seeds, said = seeds_until_found(defect, options.most) or (0, "NOT FOUND")
            sys.stdout.write(f"| {defect.what} | {seeds} | {said.splitlines()[0][:90]} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
