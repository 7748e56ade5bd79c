"""How runs are doing: the figures of each, and all runs of a store in one table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from fanfold.errors import StoreDamaged
from fanfold.journal.answers import AnsweredItems, AttemptRecord, Spent, Unsettled
from fanfold.journal.contract import SentMarks
from fanfold.journal.facts import RunRecord
from fanfold.journal.questions import ReportQuestions
from fanfold.journal.submissions import InBatches
from fanfold.observe.amounts import duration, local_time, short_time, usd, utc_time
from fanfold.observe.table import Column, aligned, one_line
from fanfold.price import dollars, nanos
from fanfold.run.inherited import USUAL, store_words
from fanfold.run.orders import has_process, held
from fanfold.run.receipt import receipt
from fanfold.run.shares import SharingProcess, taking_part
from fanfold.work.ask import Usage
from fanfold.work.outcome import STATES, Receipt, RunStatus, State
from fanfold.work.waiting import WaitingCalls

Alive = Callable[[str], bool]
"""Does a session's process live? `Store.alive`."""

Shown = RunStatus | Literal["crashed", "damaged"]

DONE: tuple[State, ...] = ("passed", "kicked", "failed", "skipped", "unjudged")
AGAIN: tuple[State, ...] = ("failed", "unjudged", "unfunded", "in_doubt", "cancelled")


class RunSummary(msgspec.Struct, frozen=True):
    """A run as it is now. `crashed`: its process died, and nobody has resumed it. `damaged`: nothing is
    known of it but why; only in lists.

    `seconds` are its active ones, with those of the process that runs now or that died, as far as
    the journal can tell. The attempts of a dead process are in doubt, not under way. `held`: its
    process waits for the order to go on. `waits`: why its calls wait, as its process has noted it;
    `now`: when it was looked at.
    process waits for the order to go on. What is in `batches` is neither under way nor in doubt.
    `processes`: those that carry it out together, see `--shares`; while one of them lives it is under way,
    for another one will lead it.
    """

    run: RunRecord
    status: Shown
    receipt: Receipt
    seconds: float
    under_way: Unsettled
    in_doubt: Unsettled
    unsent: tuple[AttemptRecord, ...] = ()
    held: bool = False
    waits: tuple[WaitingCalls, ...] = ()
    now: float = 0.0
    batches: InBatches = InBatches()
    processes: tuple[SharingProcess, ...] = ()

    @property
    def done(self) -> int:
        return sum(getattr(self.receipt, state) for state in DONE)

    @property
    def pending(self) -> int:
        """Items that have no lasting outcome; resuming continues with these."""
        return max(0, self.receipt.planned - self.done)

    @property
    def resumable(self) -> bool:
        if self.status == "damaged":
            return False
        return self.held or self.status == "crashed" or may_resume(self.receipt)


def may_resume(account: Receipt) -> bool:
    """Would resuming a run that ended like this do something?"""
    if account.status in ("running", "complete"):
        return False
    return account.status != "flagged" or any(getattr(account, state) for state in AGAIN)


def summarize(
    read: ReportQuestions,
    run: RunRecord,
    alive: Alive,
    now: float,
    sent: SentMarks | None = None,
    *,
    timed: bool = True,
) -> RunSummary:
    """Look at a run. `now` is the clock's time, for what is still running. With `sent`, attempts that
    were claimed ahead and not sent yet are not counted. `timed`: as of `receipt`."""
    processes = taking_part(read, run, alive) if run.status == "running" else ()
    lives = run.status == "running" and has_process(read, run.no, run.session, alive)
    crashed = run.status == "running" and not lives
    unsent = _unsent(read, run, sent)
    under_way, in_doubt = read.unsettled(run.no, "started"), read.unsettled(run.no, "in_doubt")
    batches = read.in_batches(run.no)
    under_way = Unsettled(
        under_way.attempts - len(unsent) - batches.lines,
        under_way.at_most - sum(one.cost for one in unsent) - batches.at_most,
    )
    if crashed:
        in_doubt = Unsettled(
            under_way.attempts + in_doubt.attempts, under_way.at_most + in_doubt.at_most
        )
        under_way = Unsettled()
    seconds = run.active if run.status != "running" else _active(read, run, now if lives else None)
    pause = held(read, run.no) if lives else None
    shown: Shown = "crashed" if crashed else "paused" if pause else run.status
    account = _without(receipt(read, run, timed=timed), unsent)
    if pause is not None:
        account = msgspec.structs.replace(account, reason=f"paused by {pause.by}")
    # also what a process reserved that has died, before that is written down, and what is in batches
    if in_doubt.at_most or batches.at_most:
        account = msgspec.structs.replace(account, cost_at_most=True)
    noted = read.waits(run.no) if lives else None
    return RunSummary(
        run, shown, account, seconds, under_way, in_doubt, unsent, pause is not None,
        () if noted is None else noted.waits, now, batches, processes,
    )  # fmt: skip


def listed(
    read: ReportQuestions, run: RunRecord, alive: Alive, now: float, sent: SentMarks | None = None
) -> RunSummary:
    """For a list of runs, one of which may be damaged."""
    try:
        return summarize(read, run, alive, now, sent, timed=False)
    except StoreDamaged as error:
        account = Receipt(run.id, run.name, run.status, str(error), 0)
        return RunSummary(run, "damaged", account, run.active, Unsettled(), Unsettled())


def _unsent(
    read: ReportQuestions, run: RunRecord, sent: SentMarks | None
) -> tuple[AttemptRecord, ...]:
    if sent is None or run.status != "running":
        return ()
    started = {one.no: one for one in read.newest(run.no, ("started",), MOST_STARTED)}
    sessions = {no: session for no, session in read.open_attempts() if no in started}
    return tuple(started[no] for no in sent.unsent(sessions))


def _without(account: Receipt, unsent: tuple[AttemptRecord, ...]) -> Receipt:
    """Their reservations are no cost."""
    if not unsent:
        return account
    steps = tuple(
        msgspec.structs.replace(
            step, cost_usd=_less(step.cost_usd, sum(a.cost for a in unsent if a.step == no))
        )
        for no, step in enumerate(account.steps)
    )
    cost = _less(account.cost_usd, sum(one.cost for one in unsent))
    return msgspec.structs.replace(account, cost_usd=cost, steps=steps)


def _less(usd: float, amount: int) -> float:
    return dollars(nanos(usd) - amount)


def _active(read: ReportQuestions, run: RunRecord, until: float | None) -> float:
    """The earlier processes' time, and that of the last one: from its first sign of life on while
    it is alive, else as far as it reported."""
    start = run.created if not run.active else read.session_began(run.no, run.session)
    shown = 0.0 if until is None or start is None else until - start
    return run.active + max(read.unbooked_seconds(run.no), shown)


class MemberAccount(msgspec.Struct, frozen=True):
    """What one member did in one step. `reused`: items answered by its replies to earlier runs.
    `at_most`: some of the cost is a bound."""

    step: int
    member: str
    calls: int = 0
    answered: int = 0
    reused: int = 0
    errors: int = 0
    tokens: Usage = Usage()
    cost_usd: float = 0.0
    at_most: bool = False

    def __add__(self, other: MemberAccount) -> MemberAccount:
        """Both together, under the first one's name."""
        return MemberAccount(
            self.step, self.member, self.calls + other.calls, self.answered + other.answered,
            self.reused + other.reused, self.errors + other.errors, self.tokens + other.tokens,
            self.cost_usd + other.cost_usd, self.at_most or other.at_most,
        )  # fmt: skip


def accounts(
    read: ReportQuestions,
    run: RunRecord,
    spent: dict[tuple[int, str], Spent] | None = None,
    unsent: tuple[AttemptRecord, ...] = (),
) -> list[MemberAccount]:
    """By step and member. Calls of unmetered members have no attempts: they are counted from the
    replies and errors on record, so one that was kicked back before a resume is not among them.
    `spent` is what metered ones took, where that is known already; `unsent` ones do not count."""
    spent = dict(read.by_member(run.no) if spent is None else spent)
    for one in unsent:
        s = spent[one.step, one.member]
        fewer = msgspec.structs.replace(s, calls=s.calls - 1, cost=s.cost - one.cost)
        spent[one.step, one.member] = fewer
    answered = read.answered_items(run.no)
    pairs = sorted(pair for pair in {*spent, *answered} if pair[1])
    alone = {step for step, times in Counter(step for step, _ in pairs).items() if times == 1}
    found = []
    for step, member in pairs:
        s, a = spent.get((step, member), Spent()), answered.get((step, member), AnsweredItems())
        calls = s.calls
        if calls == s.errors:  # unmetered: only what it could not answer is an attempt
            vain = answered.get((step, ""), AnsweredItems()).calls if step in alone else 0
            calls = max(a.replies + s.errors, a.calls + vain)
        found.append(
            MemberAccount(step, member, calls, a.new + a.earlier, a.earlier, s.errors, s.usage,
                          dollars(s.cost), s.bounds > 0)
        )  # fmt: skip
    return found


def by_member(found: list[MemberAccount]) -> list[MemberAccount]:
    """All steps together, the most expensive first."""
    whole: dict[str, MemberAccount] = {}
    for one in found:
        whole[one.member] = whole[one.member] + one if one.member in whole else one
    return sorted(whole.values(), key=lambda one: (-one.cost_usd, one.member))


def whole_receipt(summary: RunSummary, found: list[MemberAccount]) -> Receipt:
    """The receipt over all invocations: `calls` are the whole run's here, `reused` the items that ended with
    a reply of an earlier run."""
    steps = tuple(
        msgspec.structs.replace(
            step,
            calls=sum(one.calls for one in found if one.step == no),
            reused=sum(one.reused for one in found if one.step == no),
        )
        for no, step in enumerate(summary.receipt.steps)
    )
    return msgspec.structs.replace(
        summary.receipt,
        calls=sum(one.calls for one in found),
        reused=sum(one.reused for one in found),
        seconds=round(summary.seconds, 3),
        steps=steps,
    )


def outcomes(account: Receipt) -> list[tuple[State, int]]:
    """The outcomes that occur, in their order."""
    counts: list[tuple[State, int]] = [(state, getattr(account, state)) for state in STATES]
    return [(state, n) for state, n in counts if n]


WIDE = 120
SHORTEST_ID = 10
NOTHING = "no runs in this store yet; start one with: fanfold run PLAN"
MOST_STARTED = 10_000
_encode = msgspec.json.Encoder().encode


def overview(
    summaries: Sequence[RunSummary], *, now: float, width: int = 80, store: str = ""
) -> str:
    """One line per run. In a wide terminal ids and times are written in full. `store` is for the
    command to continue one with."""
    if not summaries:
        return NOTHING
    lines = aligned(_columns(summaries, now, width >= WIDE), width)
    if any(s.resumable and s.run.plan for s in summaries):
        lines += ["", f"to continue one: fanfold resume RUN{store_words(store or USUAL)}"]
    if any(s.status == "crashed" for s in summaries):
        lines.append("crashed: the process died; what was recorded is safe")
    damages = [f"{s.run.name}: {s.receipt.reason}" for s in summaries if s.status == "damaged"]
    if damages:
        lines += ["", *damages]
    return "\n".join(lines)


def _columns(summaries: Sequence[RunSummary], now: float, wide: bool) -> list[Column]:
    ids = [s.run.id for s in summaries]
    # How many characters distinguish these ids; the commands take the beginning of an id
    longest = max(map(len, ids))
    enough = (n for n in range(SHORTEST_ID, longest) if len({id[:n] for id in ids}) == len(ids))
    short = next(enough, longest)

    def budget(s: RunSummary) -> str:
        return "-" if s.receipt.budget_usd is None else usd(s.receipt.budget_usd)

    def started(s: RunSummary) -> str:
        return local_time(s.run.created) if wide else short_time(s.run.created, now)

    def known(tell: Callable[[RunSummary], str]) -> list[str]:
        return ["?" if s.status == "damaged" else tell(s) for s in summaries]

    return [
        Column("NAME", [one_line(s.run.name, 60) for s in summaries], least=12),
        Column("ID", ids if wide else [id[:short] for id in ids]),
        Column("STATUS", [s.status for s in summaries]),
        Column("DONE", known(lambda s: f"{s.done:,}/{s.receipt.planned:,}"), right=True),
        Column("PASSED", known(lambda s: f"{s.receipt.passed:,}"), right=True, rank=2),
        Column("COST", known(lambda s: _cost(s.receipt)), right=True),
        Column("BUDGET", known(budget), right=True, rank=1),
        Column("STARTED", known(started), rank=3),
        Column("ACTIVE", known(lambda s: duration(s.seconds)), right=True, rank=4),
    ]


def _cost(receipt: Receipt) -> str:
    return usd(receipt.cost_usd + receipt.below_usd, at_most=receipt.cost_at_most)


class Row(msgspec.Struct, frozen=True):
    """One run of the overview, for programs. `started` is UTC, `seconds` are active ones. Of a damaged
    run counts and costs are null."""

    run: str
    name: str
    status: Shown
    reason: str | None
    planned: int | None
    done: int | None
    passed: int | None
    cost_usd: float | None
    cost_at_most: bool
    budget_usd: float | None
    started: str
    seconds: float
    resumable: bool
    tags: tuple[str, ...] = ()


def overview_json(summaries: Sequence[RunSummary]) -> bytes:
    return _encode([_row(summary) for summary in summaries])


def _row(s: RunSummary) -> Row:
    r, lost = s.receipt, s.status == "damaged"
    return Row(
        r.run, r.name, s.status, r.reason, None if lost else r.planned, None if lost else s.done,
        None if lost else r.passed, None if lost else r.cost_usd, r.cost_at_most, r.budget_usd,
        utc_time(s.run.created), round(s.seconds, 3), s.resumable, s.run.tags,
    )  # fmt: skip
