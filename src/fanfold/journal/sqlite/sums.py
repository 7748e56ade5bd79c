"""Running sums over attempts, by run, step and member: what a run spent is known at once, however many
calls it made. They are kept in the transaction that changes the attempts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from fanfold.journal.facts import StartAttempt
from fanfold.journal.sqlite import bulk
from fanfold.journal.sqlite.bulk import Database

_AMOUNTS = {
    "calls": "count(*)", "cost": "sum(cost)", "input": "sum(input)", "output": "sum(output)",
    "cache_read": "sum(cache_read)", "cache_write": "sum(cache_write)", "tokens": "sum(tokens)",
    "errors": "count(*) filter (where state = 'error')",
    "in_doubt": "count(*) filter (where state = 'in_doubt')",
    "repeats": "sum(repeats)", "repeated": "sum(repeated)",
    "charged": "count(*) filter (where state <> 'error' or cost > 0)", "hedged": "count(hedge_of)",
    "late": "sum(iif(state = 'late', cost, 0))",
    "unusable": "count(*) filter (where unusable <> '')",
    "bounds": "count(*) filter (where bound <> 0 and cost > 0)",
    "sharing": "count(*) filter (where shared > 0)", "shared": "sum(shared)", "saved": "sum(saved)",
    "started": "count(*) filter (where state = 'started')",
    "reserved": "sum(iif(state = 'started', cost, 0))",
    "doubtful": "sum(iif(state = 'in_doubt', cost, 0))",
}  # fmt: skip
_PRIMES = (
    3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83
)  # fmt: skip
_WEIGHTS = dict(zip(_AMOUNTS, _PRIMES, strict=True))
SUMS = _AMOUNTS | {
    "checked": " + ".join(f"{_WEIGHTS[name]} * {amount}" for name, amount in _AMOUNTS.items())
}
"""The columns of the table, each with what it is of the attempts that were sent. `checked` is the checksum
of the others, each times its weight: it is added up as they are, so that no row is read to be sealed, and
one that is damaged stays so. Trap: a change here needs a migration that makes the table anew."""
COLUMNS = ", ".join(SUMS)
_OF_SENT = "from attempts where lost <> 'unsent'"
WHOLE = f"select run, step, member, {', '.join(SUMS.values())} {_OF_SENT}"
GROUPS = "group by run, step, member"
_WEIGHED = tuple(_WEIGHTS.values())
CHECKED = " + ".join(f"{weight} * {name}" for name, weight in _WEIGHTS.items())
FIRST_COLUMNS = tuple(_AMOUNTS)
"""Those that the table had before there was a checksum."""
FIRST_SUMS = (
    f"insert into sums (run, step, member, {', '.join(_AMOUNTS)})"
    f" select run, step, member, {', '.join(_AMOUNTS.values())} {_OF_SENT} {GROUPS}"
)
_SENT = "where lost <> 'unsent' and no in ({})"
_TO_SUMS = f"insert into sums (run, step, member, {COLUMNS})"
_MORE = "on conflict (run, step, member) do update set " + ", ".join(
    f"{name} = sums.{name} + excluded.{name}" for name in SUMS
)


def weighed(amounts: Sequence[int]) -> int:
    """The checksum of a row, of all its amounts."""
    return sum([weight * amount for weight, amount in zip(_WEIGHED, amounts, strict=True)])


def _change(sign: str) -> str:
    amounts = ", ".join(f"{sign}({amount})" for amount in SUMS.values())
    return f"{_TO_SUMS} select run, step, member, {amounts} from attempts {_SENT} {GROUPS} {_MORE}"


_ADD, _TAKE = _change("+"), _change("-")


def start(db: Database, granted: Iterable[tuple[StartAttempt, tuple[int, int]]]) -> None:
    """These attempts begin, each with what it repeats: how often, and what that may have cost. The
    same as `add`, without reading them again."""
    sums: dict[tuple[int, int, str], dict[str, int]] = {}
    for fact, (repeats, repeated) in granted:
        of = sums.setdefault((fact.run, fact.step, fact.member), dict.fromkeys(SUMS, 0))
        of["calls"] += 1
        of["charged"] += 1
        of["started"] += 1
        of["cost"] += fact.reserved
        of["reserved"] += fact.reserved
        of["tokens"] += fact.reserved_tokens
        of["hedged"] += fact.beside > 0
        of["repeats"] += repeats
        of["repeated"] += repeated
    for of in sums.values():
        of["checked"] = weighed(list(of.values())[:-1])
    bulk.put(db, _TO_SUMS, [(*key, *of.values()) for key, of in sums.items()], _MORE)


def add(db: Database, numbers: Collection[int]) -> None:
    """These attempts are new, or were taken away and have changed since."""
    bulk.among(db, _ADD, numbers)


def take(db: Database, numbers: Collection[int]) -> None:
    """These attempts are about to change: they are added again afterwards."""
    bulk.among(db, _TAKE, numbers)
