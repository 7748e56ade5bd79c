"""The gate of a leaf: its reply speaks of all reviews that it was given, each once, and of no other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

SHOWN = 8  # ids in a reason


def adds_up(value: dict[str, Any], item: Any) -> bool | str:
    """True, or all reasons in one text, for the one who is to revise it."""
    given = [str(review["id"]) for review in item.data["items"]]
    return "; ".join(_reasons(value, given)) or True


def _reasons(value: dict[str, Any], given: list[str]) -> Iterator[str]:
    counts = Counter(str(review["id"]) for review in value["reviews"])
    yield from _named("`reviews` leaves out", (id for id in given if id not in counts))
    yield from _named("`reviews` has more than once", (id for id in counts if counts[id] > 1))
    known = frozenset(given)
    yield from _named("`reviews` has ids that were not given", counts.keys() - known)
    for one in value["aspects"]:
        cited = {*map(str, one["praised"]), *map(str, one["criticised"])}
        yield from _named(f"aspect `{one['aspect']}` has ids that were not given", cited - known)
    for one in value["complaints"]:
        cited = set(map(str, one["ids"]))
        yield from _named(
            f"complaint `{one['complaint']}` has ids that were not given", cited - known
        )


def _named(what: str, ids: Iterable[str]) -> Iterator[str]:
    found = sorted(ids)
    if found:
        more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        yield f"{what}: {', '.join(found[:SHOWN])}{more}"
