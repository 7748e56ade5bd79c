"""Money, time and counts as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from fanfold.journal.submissions import InBatches
from fanfold.price import dollars

_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def usd(amount: float, *, at_most: bool = False) -> str:
    """`$0.41`; below ten cents as many digits as say something: `$0.0123`, `$0.000030`, `$0.000006`.
    `at_most`: it is a bound, not what was billed: `≤$0.41`."""
    return ("≤" if at_most else "") + _dollars(amount)


def _dollars(amount: float) -> str:
    if amount >= 0.1 or abs(amount - round(amount, 2)) < 1e-10:
        return f"${amount:,.2f}"
    if amount >= 0.0001:
        return f"${amount:.4f}"
    return f"${amount:.6f}" if amount >= 0.00001 else f"${amount:.9f}".rstrip("0")


def money(nanos: int, *, at_most: bool = False) -> str:
    return usd(dollars(nanos), at_most=at_most)


def of_budget(cost: float, budget: float | None, *, at_most: bool = False) -> str:
    """`$0.41 of $5.00`; without a budget only the cost."""
    spent = usd(cost, at_most=at_most)
    return spent if budget is None else f"{spent} of {usd(budget)}"


def duration(seconds: float) -> str:
    """Two units at most: `4.2s`, `42s`, `1m 02s`, `1h 05m`, `2d 03h`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    for size, unit, part, below in _UNITS:
        if whole >= size:
            return f"{whole // size}{unit} {whole % size // part:02}{below}"
    return f"{whole}s"


def count(n: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`, `12,000 calls`; the plural has an s unless it is given."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def from_earlier(items: int) -> str:
    """Items by the reply that they ended with. What a run says of itself when it ends are replies that it
    took from the record: also those that were kicked back, those of voters, and its own after a resume."""
    return f"{count(items, 'item')} from replies of earlier runs"


def batches_text(found: InBatches) -> str:
    """`800 in batches, oldest submitted 2025-06-15 15:06, 100 not confirmed by the service, 1,200 lines
    back`; nothing where there are none."""
    if not found.lines:
        return ""
    since = "" if found.oldest is None else f", oldest submitted {local_time(found.oldest)}"
    back = f", {count(found.back, 'line')} back" if found.back else ""
    unsure = f", {found.unconfirmed:,} not confirmed by the service" if found.unconfirmed else ""
    return f"{found.lines:,} in batches{since}{unsure}{back}"


def size(amount: int) -> str:
    """Of files: `0 bytes`, `12.3 kB`, `1.2 GB`."""
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if amount >= least:
            return f"{amount / least:.1f} {unit}"
    return count(amount, "byte")


def per_time(rate: float) -> str:
    """Items per second, or per minute or hour when they are slow: `6.2/s`, `12/min`, `3.0/h`."""
    for factor, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if rate * factor >= 1 or unit == "h":
            break
    shown = rate * factor
    return f"{shown:,.0f}/{unit}" if shown >= 9.95 else f"{shown:.1f}/{unit}"


def local_time(stamp: float) -> str:
    """`2025-06-15 15:06`, in the zone of this machine."""
    return _local(stamp).strftime("%Y-%m-%d %H:%M")


def short_time(stamp: float, now: float) -> str:
    """The hour for what happened today, else the day: `15:06`, `06-15`, `2024-06-15`."""
    then, today = _local(stamp), _local(now)
    if then.date() == today.date():
        return then.strftime("%H:%M")
    return then.strftime("%m-%d" if then.year == today.year else "%Y-%m-%d")


def clock_time(stamp: float) -> str:
    return _local(stamp).strftime("%H:%M:%S")


def utc_time(stamp: float) -> str:
    """For programs: `2025-06-15T15:06:40Z`."""
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _local(stamp: float) -> datetime:
    return datetime.fromtimestamp(stamp, UTC).astimezone()
