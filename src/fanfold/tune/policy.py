"""Ways to an answer: one member, a vote that stops early, another way for each group of items.

Each is judged on recorded replies, without another call: who would have been asked, in which order,
what that costs, and whether the answer is right. Votes are counted by the rules that an ensemble has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from fanfold.work.item import Item
from fanfold.work.routed import RouteRule
from fanfold.work.vote import Rule, Vote, Voter, decided, enough, wave

TURNOUT = 2  # answers without which an ensemble decides nothing
AT_ONCE = " ×"  # between a member and how many items it is asked about in one ask
_ABSENT, _FAILED = -2, -1

PlanStep: TypeAlias = tuple[str, dict[str, Any]]
"""The kind of step that asks this way, and its fields that say who."""

Pattern: TypeAlias = tuple[int, ...]
"""Which of the members say the same, by number; or that one was never asked, or gave no answer."""


class LabelledReply(msgspec.Struct, frozen=True):
    """`answer` as votes compare it; None where there was no reply that passed."""

    answer: str | None
    right: bool
    usd: float = 0.0
    seconds: float = 0.0


class Labelled(msgspec.Struct, frozen=True, dict=True):
    """An item whose right answer is known. `features`: what is known of it before anybody is asked."""

    id: str
    replies: dict[str, LabelledReply]
    features: dict[str, str] = {}

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The answer of each member as a number, the same for the same answer."""
        found: dict[str, int] = {}
        return {
            name: _FAILED if one.answer is None else found.setdefault(one.answer, len(found))
            for name, one in self.replies.items()
        }


class Tried(msgspec.Struct, frozen=True):
    """What a way comes to for one item, or in sum."""

    right: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    calls: float = 0


class Columns(NamedTuple):
    """The replies to all items, by member: which answer, whether it is right, and what it took."""

    numbers: dict[str, list[int]]
    right: dict[str, list[bool]]
    usd: dict[str, list[float]]
    seconds: dict[str, list[float]]


def columns_of(items: Sequence[Labelled]) -> Columns:
    found = Columns({}, {}, {}, {})
    absent = LabelledReply(None, False)
    for name in {name for item in items for name in item.replies}:
        replies = [item.replies.get(name, absent) for item in items]
        found.numbers[name] = [item.numbers.get(name, _ABSENT) for item in items]
        found.right[name] = [one.right for one in replies]
        found.usd[name] = [one.usd for one in replies]
        found.seconds[name] = [one.seconds for one in replies]
    return found


class Single(msgspec.Struct, frozen=True, tag="single", omit_defaults=True):
    """One member; `at_once`: about so many items in one ask."""

    member: str
    at_once: int = 1

    @classmethod
    def named(cls, name: str) -> Single:
        """As `text` names it, and as replies are filed."""
        member, _, size = name.rpartition(AT_ONCE)
        return cls(member, int(size)) if member and size.isdecimal() else cls(name)

    def tried(self, item: Labelled) -> Tried:
        reply = item.replies.get(self.text())
        if reply is None:
            return Tried()
        return Tried(int(reply.right), reply.usd, reply.seconds, 1 / self.at_once)

    def answer(self, item: Labelled) -> str | None:
        """What it says of an item; None where it decides nothing."""
        reply = item.replies.get(self.text())
        return None if reply is None else reply.answer

    def text(self) -> str:
        return self.member if self.at_once == 1 else f"{self.member}{AT_ONCE}{self.at_once}"

    def step(self) -> PlanStep:
        shard = {} if self.at_once == 1 else {"shard": {"items": self.at_once}}
        return "map", {"member": self.member, **shard}


class VoteInOrder(msgspec.Struct, frozen=True, tag="vote"):
    """An ensemble: asked in this order, until the leading answer has so large a share (`confidence`)
    or can no longer change."""

    members: tuple[str, ...]
    weights: tuple[float, ...] = ()
    confidence: float | None = None

    def tried(self, item: Labelled) -> Tried:
        numbers, replies = item.numbers, item.replies
        pattern = tuple([numbers.get(name, _ABSENT) for name in self.members])
        asked, chosen = _course(self.weights, self.confidence, pattern)
        paid = [replies[name] for name in self.members[:asked] if name in replies]
        right = chosen >= 0 and replies[self.members[chosen]].right
        return Tried(
            int(right),
            sum([one.usd for one in paid]),
            sum([one.seconds for one in paid]),
            len(paid),
        )

    def answer(self, item: Labelled) -> str | None:
        pattern = tuple([item.numbers.get(name, _ABSENT) for name in self.members])
        _, chosen = _course(self.weights, self.confidence, pattern)
        return None if chosen < 0 else item.replies[self.members[chosen]].answer

    def total(self, columns: Columns) -> Tried:
        """The same as `tried` of each item in sum, several times as fast."""
        numbers, rights, usds, seconds = ([of[name] for name in self.members] for of in columns)
        courses: dict[Pattern, tuple[int, int]] = {}
        right = calls = 0
        usd = time = 0.0
        for n, pattern in enumerate(zip(*numbers, strict=True)):
            course = courses.get(pattern)
            if course is None:
                course = courses[pattern] = _course(self.weights, self.confidence, pattern)
            asked, chosen = course
            right += int(chosen >= 0 and rights[chosen][n])
            for place in range(asked):
                usd += usds[place][n]
                time += seconds[place][n]
                calls += pattern[place] != _ABSENT
        return Tried(right, usd, time, calls)

    def text(self) -> str:
        until = "" if self.confidence is None else f" until {self.confidence:.0%} agree"
        if self.weights:
            pairs = zip(self.members, self.weights, strict=True)
            return (
                "weighted: " + " > ".join(f"{name} ({weight:g})" for name, weight in pairs) + until
            )
        return " > ".join(self.members) + until

    def step(self) -> PlanStep:
        fields: dict[str, Any] = {"members": list(self.members), "decide": "plurality"}
        if self.weights:
            weights = dict(zip(self.members, self.weights, strict=True))
            fields |= {"decide": "weighted", "weights": weights}
            if list(self.weights) != sorted(self.weights, reverse=True):
                fields["order"] = "listed"
        sure = 1 if self.confidence == 1 else self.confidence
        stop: dict[str, Any] = {"stop_early": True} if sure is None else {"confidence": sure}
        return "ensemble", fields | stop


Plain: TypeAlias = Single | VoteInOrder


class Routed(msgspec.Struct, frozen=True, tag="routed"):
    """Another way for each value of a feature that is known beforehand."""

    feature: str
    ways: dict[str, Plain]
    default: Plain

    def tried(self, item: Labelled) -> Tried:
        return self.chosen(item).tried(item)

    def answer(self, item: Labelled) -> str | None:
        return self.chosen(item).answer(item)

    def chosen(self, item: Labelled) -> Plain:
        return self.ways.get(item.features.get(self.feature, ""), self.default)

    def text(self) -> str:
        grouped: dict[str, list[str]] = {}
        for value, way in sorted(self.ways.items()):
            if way != self.default:
                grouped.setdefault(way.text(), []).append(value)
        told = "".join(f"{', '.join(values)}: {way}; " for way, values in grouped.items())
        return f"by {self.feature}: {told}else {self.default.text()}"

    def step(self) -> PlanStep | None:
        """Only a choice between single members is one step of a plan."""
        default = self.default
        ways = {value: way for value, way in self.ways.items() if way != default}
        to = {value: way.member for value, way in ways.items() if isinstance(way, Single)}
        if not isinstance(default, Single) or len(to) < len(ways) or not to:
            return None
        return "map", {"route": {"by": self.feature, "to": to, "else": default.member}}


class RoutedByRules(msgspec.Struct, frozen=True, tag="rules"):
    """Another member for each branch of a small tree over what is known beforehand."""

    rules: tuple[RouteRule, ...]
    default: str

    def tried(self, item: Labelled) -> Tried:
        return Single(self.chosen(item)).tried(item)

    def answer(self, item: Labelled) -> str | None:
        return Single(self.chosen(item)).answer(item)

    def chosen(self, item: Labelled) -> str:
        seen = Item(item.id, dict(item.features))
        return next((rule.member for rule in self.rules if rule.holds(seen)), self.default)

    def text(self) -> str:
        return "; ".join([*(rule.describe() for rule in self.rules), f"else {self.default}"])

    def step(self) -> PlanStep:
        rules = msgspec.json.decode(msgspec.json.encode(self.rules))
        return "map", {"route": {"rules": rules, "else": self.default}}


Way: TypeAlias = Plain | Routed | RoutedByRules


def total(way: Way, items: Iterable[Labelled]) -> Tried:
    tried = [way.tried(item) for item in items]
    return Tried(
        sum(one.right for one in tried),
        sum(one.usd for one in tried),
        sum(one.seconds for one in tried),
        sum(one.calls for one in tried),
    )


@lru_cache(maxsize=1 << 20)
def _course(
    weights: tuple[float, ...], confidence: float | None, pattern: Pattern
) -> tuple[int, int]:
    """How many are asked, and whose answer is the decision; -1 for none."""
    rule = Rule(turnout=TURNOUT, confidence=confidence)
    rest = [
        Voter(str(place), place, weights[place] if weights else 1.0)
        for place, said in enumerate(pattern)
        if said != _ABSENT
    ]
    votes: list[Vote] = []
    asked = 0
    while rest:
        many = wave(rule, votes, rest)
        taken, rest = rest[:many], rest[many:]
        asked = taken[-1].place + 1
        votes += [
            Vote(voter, None, str(pattern[voter.place]))
            for voter in taken
            if pattern[voter.place] != _FAILED
        ]
        if enough(rule, votes, rest):
            break
    found = decided(rule, votes)
    return asked, -1 if found is None else found.voter.place
