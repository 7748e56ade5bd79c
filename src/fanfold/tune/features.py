"""What is known of an item before anybody is asked: what a route may go by."""

from __future__ import annotations

from collections.abc import Sequence

from fanfold.tune.search import GROUPS
from fanfold.work.features import DERIVED
from fanfold.work.fields import number
from fanfold.work.item import Item
from fanfold.work.truth import Truth
from fanfold.work.vote import ballot, label

SHORT = 40  # characters of a field that a router may go by


def item_features(items: Sequence[Item], truth: Truth) -> dict[str, dict[str, str]]:
    """By item, what is known before anybody is asked: fields with few values, numbers, how long it is and
    in which language. Not one that says the answer itself."""
    answers = _telling(items, truth)
    values: dict[str, dict[str, str]] = {}
    for item in items:
        view = {name: value for name, value in item.view().items() if name not in answers}
        derived = {name: derive(view) for name, derive in DERIVED.items() if name not in view}
        for name, value in {**derived, **view}.items():
            if isinstance(value, str | int | float) and len(text := label(value)) <= SHORT:
                values.setdefault(name, {})[item.id] = text
    told = {
        name: found
        for name, found in values.items()
        if len(set(found.values())) in GROUPS or _numbers(found, len(items))
    }
    return {item.id: {name: own.get(item.id, "") for name, own in told.items()} for item in items}


def _telling(items: Sequence[Item], truth: Truth) -> set[str]:
    """The fields that say the answer, and the id; what follows from a text goes without them too."""
    views, right = [item.view() for item in items], [truth.of(item) for item in items]
    found = {"id", truth.name.partition(".")[0] if truth.kind == "field" else "id"}
    for name in {name for view in views for name in view} if any(right) else ():
        own = (view.get(name, "") for view in views)
        if all(ballot(one) == answer for one, answer in zip(own, right, strict=True)):
            found.add(name)
    return found


def _numbers(found: dict[str, str], many: int) -> bool:
    different = set(found.values())
    return len(found) == many and len(different) > 1 and None not in map(number, different)
