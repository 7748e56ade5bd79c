"""The rows behind budgets: what members spent in a month, and runs that others were started within.

A row of `spending` is the sum of what the attempts say, for members with a monthly budget. It changes
in the same transaction as they do. `anew` adds up once more, which finds what was spent before the
member had a budget, or by a process that knew of none.

A worker that runs `fanfold` itself starts runs below its own attempt, in the same store but in other
processes. Their starts, and those of the run above them, count against its budget, in the transaction
that claims the key. Most runs neither have any below them nor are below another: they are not looked
at further. Parts of a run that its own process executes share its ledger anyhow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fanfold.journal.decide import month_bounds, month_of
from fanfold.journal.facts import StartAttempt
from fanfold.journal.limits import SharedLimit
from fanfold.journal.sqlite import bulk, sealing
from fanfold.journal.sqlite.bulk import Database
from fanfold.price import dollars, nanos
from fanfold.work.budget import Account, Accounts, Amount
from fanfold.work.task import Budget

_HELD = "select no, member, started, state, cost from attempts where no in ({})"
_CHANGE = (
    "update spending set settled = settled + v.column3, reserved = reserved + v.column4,"
    " checked = checked + v.column3 * 3 + v.column4 * 5 from ("
)
_OF_PAIR = ") as v where spending.member = v.column1 and spending.month = v.column2"
_SPENDING = bulk.upsert("spending", "member, month, settled, reserved, checked", 2)
ADD_UP = (
    "select coalesce(sum(iif(state = 'started', 0, cost)), 0),"
    " coalesce(sum(iif(state = 'started', cost, 0)), 0) from attempts where no >= (select"
    " coalesce(min(first_attempt), 0) from runs where ended is null or ended >= :first)"
    " and member = :member and started >= :first and started < :after"
)
_ROW = (
    "select r.id, r.name, r.session, r.parent, iif(json_valid(cast(r.budget as text)),"
    " json_extract(cast(r.budget as text), '$.usd'), null),"
    " exists(select 1 from runs c"
    " where c.parent >= r.id and c.parent < r.id || ';' and c.session <> r.session)"
    " from runs r where r.{} = ?"
)
_KIND = (
    "select json_extract(cast(plan as text), '$.kind') from runs where id = ? and length(plan) > 0"
)
_RESERVED = "select reserved from attempts where no = ?"  # all that a worker starts takes no more
_BELOW = (
    "with recursive below(no, id) as (select no, id from runs where {} union"
    " select r.no, r.id from below b join runs r"
    " on r.parent = b.id or (r.parent > b.id || ':' and r.parent < b.id || ';'))"
)
_SPENT = (
    _BELOW + " select coalesce(sum(iif(a.state = 'started', 0, a.cost)), 0),"
    " coalesce(sum(iif(a.state = 'started', a.cost, 0)), 0) from attempts a"
    " where a.run in (select no from below)"
    " and a.no >= (select min(first_attempt) from runs where no in (select no from below))"
)
_TAKEN = (
    "select coalesce(sum(cost), 0), coalesce(sum(reserved), 0), coalesce(sum(tokens), 0),"
    " coalesce(sum(charged), 0), coalesce(sum(started), 0) from sums where run = ?"
)
_HELD_TOKENS = (
    "select coalesce(sum(tokens), 0) from attempts where state = 'started'"
    " and no in (select attempt from claims) and run = ?"
)

Pair = tuple[str, str]
"""A member and a month."""


def spending_over(db: Database, facts: Sequence[StartAttempt]) -> Spending | None:
    """What the starts of one transaction draw on, besides the budgets of their own process. Most
    draw on nothing else: None."""
    around = {run: _surrounding(db, run) for run in {fact.run for fact in facts}}
    monthly = [fact for fact in facts if fact.monthly is not None]
    shared = any(fact.budgets for fact in facts)
    return Spending(db, monthly, around) if monthly or shared or any(around.values()) else None


class Spending:
    """The limits that starts draw on: months of members, budgets around their runs, and those of runs that
    several processes carry out."""

    def __init__(
        self, db: Database, monthly: Sequence[StartAttempt], around: dict[int, Accounts]
    ) -> None:
        self._db, self._around = db, around
        self._months: dict[Pair, Account] = {}
        self._shared: dict[tuple[int, int | None], Account] = {}
        anew: dict[Pair, bool] = {}
        for fact in monthly:
            assert fact.monthly is not None
            pair = fact.member, fact.monthly.month
            anew[pair] = anew.get(pair, False) or fact.monthly.anew
        for pair, again in anew.items():
            row = None if again else db.execute(
                "select settled, reserved from spending where member = ? and month = ?", pair
            ).fetchone()  # fmt: skip
            self._months[pair] = _account("", 0, _added_up(db, pair) if row is None else row)

    def limits(self, fact: StartAttempt) -> Accounts:
        around = (*self._around[fact.run], *(self._of_all(fact.run, one) for one in fact.budgets))
        if fact.monthly is None:
            return around
        month = self._months[fact.member, fact.monthly.month]
        month.set_limit(Budget.of(usd=dollars(fact.monthly.limit)))
        return (*around, month)

    def _of_all(self, run: int, shared: SharedLimit) -> Account:
        """What all processes of the run took, within these limits."""
        account = self._shared.get((run, shared.step))
        if account is None:
            account = self._shared[run, shared.step] = _taken(self._db, run, shared.step)
            account.name = shared.name
        usd = None if shared.usd is None else dollars(shared.usd)
        account.set_limit(Budget.of(usd=usd, tokens=shared.tokens, calls=shared.calls))
        return account

    def put(self, granted: Iterable[StartAttempt]) -> None:
        drawn = {(f.member, f.monthly.month) for f in granted if f.monthly is not None}
        of = self._months
        rows = [sealing.of_spending(*pair, of[pair].usd, of[pair].reserved_usd) for pair in drawn]
        bulk.put(self._db, _SPENDING[0], rows, _SPENDING[1])


def _taken(db: Database, run: int, step: int | None) -> Account:
    """Of a run, or of one of its steps."""
    which, given = ("", (run,)) if step is None else (" and step = ?", (run, step))
    usd, reserved, tokens, calls, started = db.execute(_TAKEN + which, given).fetchone()
    (held,) = db.execute(_HELD_TOKENS + which, given).fetchone() if tokens else (0,)
    account = Account("", Budget(), Amount(usd - reserved, tokens - held, calls - started))
    account.reserved_usd, account.reserved_tokens, account.reserved_calls = reserved, held, started
    return account


def _added_up(db: Database, pair: Pair) -> tuple[int, int]:
    """From the attempts. They have no index by time; older ones than the first of a run that was
    still open in this month need not be looked at."""
    first, after = month_bounds(pair[1])
    given = {"member": pair[0], "first": first, "after": after}
    settled, reserved = db.execute(ADD_UP, given).fetchone()
    return settled, reserved


def lose(db: Database, attempts: Sequence[int]) -> None:
    """Before attempts get lost: what was reserved for those in progress counts as spent."""
    rows = bulk.among(db, _HELD, attempts)
    settle(db, {no: cost for no, _, _, state, cost in rows if state == "started"})


def regain(db: Database, attempt: int) -> None:
    """Before an attempt in doubt is in progress again: what counts as spent is reserved for it."""
    for _, member, started, state, cost in bulk.among(db, _HELD, [attempt]):
        if state == "in_doubt":
            bulk.put(db, _CHANGE, [(member, month_of(started), -cost, cost)], _OF_PAIR)


def release(db: Database, attempts: Iterable[int]) -> None:
    """Before attempts that were never sent are called off: they took nothing."""
    settle(db, dict.fromkeys(attempts, 0))


def settle(db: Database, costs: dict[int, int]) -> None:
    """Before attempts end: their reservation is replaced by what each took. It may be known already
    that it is over."""
    changes: dict[Pair, list[int]] = {}
    for no, member, started, state, held in bulk.among(db, _HELD, costs):
        change = changes.setdefault((member, month_of(started)), [0, 0])
        change[1 if state == "started" else 0] -= held
        change[0] += costs[no]
    rows = [(*pair, *change) for pair, change in changes.items()]
    bulk.put(db, _CHANGE, rows, _OF_PAIR)


def _surrounding(db: Database, run: int) -> Accounts:
    """The budgets around a run."""
    row = db.execute(_ROW.format("no"), (run,)).fetchone()
    if row is None:
        return ()
    found: list[Account] = []
    id, name, session, parent, usd, has_children = row
    if has_children and usd is not None:
        found.append(_account(f"run {name}", nanos(usd), _spent(db, "id = ?", id)))
    seen = {id}
    while parent is not None:
        id, _, attempt = parent.partition(":")
        above = db.execute(_ROW.format("id"), (id,)).fetchone()
        if above is None or id in seen:
            break
        seen.add(id)
        _, name, its_session, further, usd, _ = above
        elsewhere = its_session != session
        if elsewhere and attempt and bool(db.execute(_KIND, (id,)).fetchone() == ("fleet",)):
            reserved = db.execute(_RESERVED, (int(attempt),)).fetchone()
            if reserved is not None and reserved[0]:
                spent = _spent(db, "parent = ?", parent)
                found.append(_account(f"worker of {name}", reserved[0], spent, final=True))
        if elsewhere and usd is not None:
            spent = _spent(db, "id = ?", id)
            found.append(_account(f"run {name}", nanos(usd), spent, final=True))
        parent = further
    return tuple(found)


def _spent(db: Database, where: str, which: str) -> tuple[int, int]:
    settled, reserved = db.execute(_SPENT.format(where), (which,)).fetchone()
    return settled, reserved


def _account(name: str, limit: int, spent: tuple[int, int], *, final: bool = False) -> Account:
    """`spent`: what is settled and what is reserved, by all processes."""
    account = Account(name, Budget.of(usd=dollars(limit)), Amount(usd=spent[0]))
    account.reserved_usd, account.final = spent[1], final
    return account
