"""Why a worker that has not started waits: told for each, from what can be seen from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from fanfold.fleet.crew import Crew, Post
from fanfold.fleet.worker_view import WorkerState, WorkerView
from fanfold.observe.amounts import duration, money

TO_START, FOR_MONEY = "is about to start", "waits for money"
_OPEN: tuple[WorkerState, ...] = ("PENDING", "RUNNING")


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """The run of those who wait. `stopped`: why nobody starts anything in it; "" while somebody does.
    `free`: nano-dollars that are neither spent nor reserved, of `limit`; None without a limit.
    `resets`: by pool, when a quota that is used up comes back."""

    now: float
    stopped: str = ""
    free: int | None = None
    resets: Mapping[str, float] = {}


def with_waits(views: Sequence[WorkerView], crew: Crew, around: Around) -> list[WorkerView]:
    """Each that is pending says what for; all others are as they were."""
    states = {one.id: one.state for one in views}
    posts = {post.id: post for post in crew.posts}
    pending = [one for one in views if one.state == "PENDING" and one.id in posts]
    why = {one.id: _before_its_turn(one, posts[one.id], crew, states, around) for one in pending}
    ready = [one for one in pending if not why[one.id]]
    line = _Line(views, sorted(one.id for one in ready if _lacks(one, crew, around)))
    for one in ready:
        why[one.id] = _in_line(one, line, crew, around)
    return [
        msgspec.structs.replace(one, waits=why[one.id], last=why[one.id]) if one.id in why else one
        for one in views
    ]


def _before_its_turn(
    one: WorkerView, post: Post, crew: Crew, states: Mapping[str, WorkerState], around: Around
) -> str:
    """What keeps it before it has a place in the line; "" when nothing does."""
    if around.stopped:
        return around.stopped
    if parents := _parents(post, states):
        return f"waits for {', '.join(parents)}"
    until = around.resets.get(crew.colleague(one.member).pool, 0.0)
    if until > around.now:
        at = datetime.fromtimestamp(until, UTC).strftime("%H:%M UTC")
        return f"waits for the rate limit of {crew.colleague(one.member).pool}, until {at}"
    return f"waits to be tried again: {one.error}" if one.error else ""


def _parents(post: Post, states: Mapping[str, WorkerState]) -> list[str]:
    """Those it still needs, each with its state where it has ended: that must be changed first."""
    found = {id: states.get(id, "PENDING") for id in post.depends_on}
    amiss = {id: state for id, state in found.items() if state != "DONE"}
    if post.partial:
        return [id for id, state in amiss.items() if state in _OPEN]
    return [id if state in _OPEN else f"{id} ({state.lower()})" for id, state in amiss.items()]


def _lacks(one: WorkerView, crew: Crew, around: Around) -> bool:
    most = crew.colleague(one.member).most
    return around.free is not None and most is not None and most > around.free


class _Line:
    """Those whose parents are done: how many are at work, when the last one began, and who waits for
    money."""

    def __init__(self, views: Sequence[WorkerView], lacking: list[str]) -> None:
        self.at_work = sum(one.state == "RUNNING" for one in views)
        self.began = max((one.began for one in views if one.began is not None), default=None)
        self.lacking = lacking


def _in_line(one: WorkerView, line: _Line, crew: Crew, around: Around) -> str:
    """A slot, money, or the pause between two starts."""
    if line.at_work >= crew.slots:
        return f"waits for a slot: {line.at_work} of {crew.slots} are at work"
    if _lacks(one, crew, around) and around.free is not None:
        most = money(crew.colleague(one.member).most or 0)
        return f"{FOR_MONEY}: it may take {most}, {money(max(0, around.free))} is free"
    if line.at_work + len(line.lacking) >= crew.slots:
        named = ", ".join(line.lacking[:3]) + (", …" if len(line.lacking) > 3 else "")
        return f"waits for a slot: others before it wait for money ({named})"
    if line.began is not None and 0 <= around.now - line.began < crew.delay:
        return f"waits for its turn: {duration(crew.delay)} between two starts"
    return TO_START
