"""Random plans: items with odd ids, members that fail in every way, gates, filters, shards, stops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from fanfold.errors import InvalidReply, RateLimited, Terminal, TimedOut, Transient
from fanfold.work.ask import Ask, Message, Reply, Takes, Usage
from fanfold.work.item import Item
from fanfold.work.outcome import PASS, Verdict, fail, unjudged

Trouble = Literal["transient", "limited", "refused", "lost", "raises", "unreadable", "forgets"]
Kind = Literal["good", "mends", "bad", "dropped", "odd", "undecided", "empty"]
Asked = tuple[str | None, bytes]
Stop = Literal["never", "pause", "cancel", "crash"]

TROUBLES: tuple[Trouble, ...] = (
    "transient", "limited", "refused", "lost", "raises", "unreadable", "forgets",
)  # fmt: skip
ALLOWED: dict[Kind, set[str]] = {
    "good": {"passed"},
    "mends": {"passed", "kicked"},
    "bad": {"kicked"},
    "dropped": {"skipped"},
    "odd": {"unjudged"},
    "undecided": {"unjudged"},
    "empty": {"kicked"},
}
"""How an item may end, by what is answered about it, when there is a reply at all."""


@dataclass(frozen=True)
class Subject:
    """One content: what is answered about it, after which troubles."""

    text: str
    kind: Kind
    troubles: tuple[Trouble, ...]


@dataclass(frozen=True)
class Plan:
    subjects: tuple[Subject, ...]
    items: tuple[Item, ...]
    shard: int | None
    concurrency: int
    revise: int
    free: bool
    latency: float
    stop: Stop
    moment: int

    def subject(self, text: str) -> Subject:
        return next(subject for subject in self.subjects if subject.text == text)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    kinds = st.sampled_from(("good", "good", "good", *ALLOWED))
    troubles = st.lists(st.sampled_from(TROUBLES), max_size=2).map(tuple)
    count = draw(st.integers(1, 6))
    subjects = tuple(Subject(f"subject {n}", draw(kinds), draw(troubles)) for n in range(count))
    ids = draw(st.lists(st.text(max_size=8), unique=True, max_size=12))
    items = tuple(Item(id, draw(st.sampled_from(subjects)).text) for id in ids)
    return Plan(
        subjects, items, draw(st.sampled_from((None, None, 2, 3))), draw(st.integers(1, 5)),
        draw(st.integers(0, 1)), draw(st.booleans()), draw(st.sampled_from((0.0, 1.0))),
        draw(st.sampled_from(("never", "pause", "cancel", "crash"))), draw(st.integers(0, 60)),
    )  # fmt: skip


class Answers:
    """The script of a member that carries out the troubles of a plan, each once, then answers.

    `asked` is everything it was asked, shards item by item, as (item id, content key); `calls`
    are the keys alone, once for each ask they were in.
    """

    def __init__(self, plan: Plan, *, repaired: bool = False) -> None:
        self._plan, self._repaired = plan, repaired
        self._left = {s.text: [] if repaired else list(s.troubles) for s in plan.subjects}
        self.asked: set[Asked] = set()
        self.calls: list[bytes] = []

    def __call__(self, ask: Ask, n: int) -> Reply | Exception:
        now = asked_of(ask, self._plan.free)
        self.asked |= now
        self.calls += {key for _, key in now}
        texts = [str(item.data) for item in ask.items]
        trouble = self._next_trouble(texts)
        if trouble == "forgets":
            return self._said(ask, ask.items[1:]) if len(texts) > 1 else Transient("503")
        if trouble is not None:
            return raised(trouble)
        return self._said(ask, ask.items)

    def _next_trouble(self, texts: list[str]) -> Trouble | None:
        for text in texts:
            if self._left[text]:
                return self._left[text].pop(0)
        return None

    def _said(self, ask: Ask, items: Iterable[Item]) -> Reply:
        if len(ask.items) == 1:
            return Reply(self._about(ask.items[0], bool(ask.turns)), usage=Usage(5, 5))
        answers = [{"id": item.id, "answer": self._about(item, False)} for item in items]
        return Reply(data={"answers": answers}, usage=Usage(5, 5))

    def _about(self, item: Item, again: bool) -> str:
        kind = "good" if self._repaired else self._plan.subject(str(item.data)).kind
        if kind == "empty":
            return ""
        return "good" if kind == "mends" and again else kind


def asked_of(ask: Ask, free: bool) -> set[Asked]:
    """A shard's reply is recorded under each item's own key."""
    takes: Takes = "items" if free else "messages"
    if len(ask.items) < 2:
        return {(ask.items[0].id, ask.key(takes))}
    alone = [Ask((Message("user", f"Say {item.data}"),), (item,)) for item in ask.items]
    return {(one.items[0].id, one.key(takes)) for one in alone}


def raised(trouble: Trouble) -> Exception:
    match trouble:
        case "transient":
            return Transient("503")
        case "limited":
            return RateLimited("429", retry_after=1.0)
        case "refused":
            return Terminal("400", scope="ask")
        case "lost":
            return TimedOut("no answer")
        case "unreadable":
            return InvalidReply("not JSON")
        case _:
            return ZeroDivisionError("a defect of the member")


def gate(task: Any, reply: Reply, ask: Any) -> Verdict:
    match reply.value:
        case "good" | "dropped":
            return PASS
        case "odd":
            raise KeyError("a defect of the gate")
        case "undecided":
            return unjudged("cannot tell")
        case _:
            return fail("not good")


def kept(value: Any) -> bool:
    return bool(value != "dropped")
