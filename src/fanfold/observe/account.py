"""All that a report of a run says, gathered once; pages in Markdown and HTML are made of it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from fanfold.journal.answers import AttemptRecord, EndedItem
from fanfold.journal.contract import ReportQuestions, StoreView
from fanfold.journal.facts import AttemptState
from fanfold.observe.shown import inline
from fanfold.observe.standing import MemberAccount, Standing, accounts, by_member, whole_receipt
from fanfold.observe.times import Times, times
from fanfold.observe.tree import Branch, tree
from fanfold.work.outcome import STATES, Receipt, State

MOST_ITEMS = 100
MOST_REPLIES = 10_000
MOST_DOUBTS = 50
MOST_REVISED = 20
MOST_QUOTES = 3
CAUGHT: tuple[State, ...] = ("kicked", "unjudged", "failed")
_PLACE = re.compile(r"`([^`]{1,200})`")
_STEP = re.compile(r"\[(\d{1,9})\]|([^.\[\]]+)")


class Worked(msgspec.Struct, frozen=True):
    """A member over all steps; `seconds` are those of its calls, added up."""

    account: MemberAccount
    seconds: float


class Caught(msgspec.Struct, frozen=True):
    """What the gate did. `ended` are the first of `whole` items that did not get through it;
    `revised` items did, after a kick-back, and `ids` are the first of these."""

    ended: tuple[EndedItem, ...]
    whole: int
    revised: int
    ids: tuple[str, ...]


class Account(msgspec.Struct, frozen=True):
    """`receipt` is of all invocations. `times` is None where no call has left its time. `items`: the
    first of those that have an outcome, what did not pass before what did; empty unless asked for."""

    standing: Standing
    receipt: Receipt
    members: tuple[Worked, ...]
    caught: Caught
    doubts: tuple[AttemptRecord, ...]
    branch: Branch
    times: Times | None
    items: tuple[EndedItem, ...] = ()


def account(archive: StoreView, standing: Standing, *, replies: bool = False) -> Account:
    """A few questions to the store, whatever the number of items and calls. `replies`: with the
    items and what each ended with."""
    read, run = archive.read, standing.run
    found = accounts(read, run)
    spent: dict[str, float] = {}
    for total in read.member_totals([run.no]):
        spent[total.member] = spent.get(total.member, 0.0) + total.seconds
    return Account(
        standing, whole_receipt(standing, found),
        tuple(Worked(one, spent.get(one.member, 0.0)) for one in by_member(found)),
        _caught(read, standing), tuple(doubtful(read, standing)),
        tree(archive, run), times(read, run.no), _items(read, standing) if replies else (),
    )  # fmt: skip


def _items(read: ReportQuestions, standing: Standing) -> tuple[EndedItem, ...]:
    run, made = standing.run.no, standing.receipt
    others = [one for one in STATES if one != "passed" and getattr(made, one)]
    first = read.endings(run, others, MOST_REPLIES) if others else []
    return (*first, *read.endings(run, ("passed",), MOST_REPLIES - len(first)))


def _caught(read: ReportQuestions, standing: Standing) -> Caught:
    run = standing.run.no
    whole = sum(getattr(standing.receipt, state) for state in CAUGHT)
    ended = read.endings(run, CAUGHT, MOST_ITEMS) if whole else []
    revised = read.revised(run)
    ids = read.revised_ids(run, MOST_REVISED) if revised else []
    return Caught(tuple(ended), whole, revised, tuple(ids))


def doubtful(read: ReportQuestions, standing: Standing) -> list[AttemptRecord]:
    """The newest attempts that were lost under way; those of a dead process are, too."""
    if not standing.in_doubt.attempts:
        return []
    states: list[AttemptState] = ["in_doubt"]
    if standing.status == "crashed":
        states.append("started")
    return read.newest(standing.run.no, states, MOST_DOUBTS)


def quotes(one: EndedItem, most: int = 400) -> list[str]:
    """What the reply said at the places that the reasons name; else its beginning."""
    if one.value is None:
        return []
    places = [place for reason in one.reasons for place in _PLACE.findall(reason)]
    said = [_at(one.value, place) for place in dict.fromkeys(places)]
    found = [inline(value) for value in said if value is not None] or [inline(one.value)]
    return [_cut(text, most) for text in found[:MOST_QUOTES] if text.strip()]


def _at(value: Any, place: str) -> Any:
    """The value at `findings[2].evidence`; None where there is none."""
    for number, name in _STEP.findall(place):
        if number and isinstance(value, list) and int(number) < len(value):
            value = value[int(number)]
        elif name and isinstance(value, dict):
            value = value.get(name)
        else:
            return None
    return value


def _cut(text: str, most: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
