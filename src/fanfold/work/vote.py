"""Counting votes: what counts as the same answer, who leads, and whether that can still change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from math import fsum, inf
from typing import Any
from unicodedata import normalize

import msgspec

from fanfold.work.ask import Reply
from fanfold.work.fields import number
from fanfold.work.item import canonical

_MONEY = re.compile(r"([-+]?)(?:\$\s?)?([-+]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d*)?")
_ONE_WORD = re.compile(r"\(\s*(\w+)\s*\)|\[\s*(\w+)\s*\]")
_SHOUTED = re.compile(r"(?<=[^\W\d_])[!?]+$")
_QUOTED = {'"': '"', "'": "'", "`": "`", "*": "*", "_": "_", "“": "”", "‘": "’", "«": "»"}
_WORDS = {"true": True, "false": False, "null": None}
MOST_SHOWN, LONGEST_SHOWN = 5, 60  # answers in a line, and characters of each
_NEW = "a new answer"  # no ballot reads like this: they are JSON


# ── the same answer ──────────────────────────────────────────────────────────────────────────


def ballot(value: Any) -> str:
    """The same text for what counts as the same answer.

    Numbers go by their value, also when written as text: 18, "18.0", "$18" and "1,800" as 1800. Text
    goes by its words: case, outer white space, quotes and a full stop make no difference. Objects
    and lists are compared part by part, also when they come as text. Units are part of an answer:
    "2 hours" is neither "2 minutes" nor 2, and "50%" is not 50; ask for a number to compare numbers.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"))


def label(value: Any) -> str:
    """An answer as it is shown; what has the same label is always the same answer."""
    return value.strip() if isinstance(value, str) else canonical(value).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return _plain_text(value)
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    amount = number(value)
    return value if amount is None else _whole(amount)


def _plain_text(text: str) -> Any:
    bare = _bare(normalize("NFC", text))
    if bare[:1] in ("{", "["):
        found = _document(bare)
        if found is not None:
            return _plain(found)
    amount = _amount(bare)
    if amount is not None:
        return amount
    words = " ".join(bare.casefold().split())
    return _WORDS.get(words, words)


def _bare(text: str) -> str:
    """Without what is often put around an answer. Brackets are removed only around a single word: (1, 2]
    is not [1, 2]."""
    while True:
        stripped = text.strip()
        bare = _SHOUTED.sub("", stripped.rstrip(".,;:"))
        if len(bare) > 1 and _QUOTED.get(bare[0]) == bare[-1]:
            bare = bare[1:-1]
        if word := _ONE_WORD.fullmatch(bare):
            bare = word[1] or word[2]
        if not bare.strip():
            return stripped
        if bare == text:
            return bare
        text = bare


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _amount(text: str) -> int | float | None:
    """A number, perhaps with a dollar sign or with commas between its thousands."""
    plain = number(text)
    if plain is None and (money := _MONEY.fullmatch(text)):
        before, after, whole, fraction = money.groups()
        if not (before and after):
            plain = number(f"{before}{after}{whole.replace(',', '')}{fraction or ''}")
    return None if plain is None else _whole(plain)


def _whole(amount: int | float) -> int | float:
    return int(amount) if amount == int(amount) else amount


# ── voters and votes ─────────────────────────────────────────────────────────────────────────


class Voter(msgspec.Struct, frozen=True):
    """A member that is asked. `place` is its position in the stated order, `sample` which of several
    answers of the same member this is; without a `member`, anyone who may answer."""

    name: str
    place: int
    weight: float = 1.0
    member: str | None = None
    sample: int = 0


class Vote(msgspec.Struct, frozen=True):
    """What a voter said: `value` is what is compared, `reply` all of it."""

    voter: Voter
    value: Any
    ballot: str
    reply: Reply = Reply()


class Rule(msgspec.Struct, frozen=True):
    """When there is a decision: `turnout` voters have answered, and `agree` of them say the same.

    `majority`: the leader also has more than half of the votes cast, by weight. `confidence`: the
    leader's share of the votes cast that is enough to ask no other.
    """

    turnout: int = 1
    agree: int = 1
    confidence: float | None = None
    majority: bool = False


class Tally(msgspec.Struct, frozen=True):
    """One answer in the count. Sums are exactly rounded, so their order does not matter."""

    ballot: str
    weights: tuple[float, ...] = ()
    first: float = inf

    @property
    def weight(self) -> float:
        return fsum(self.weights)

    @property
    def rank(self) -> tuple[float, float]:
        """More weight first; level ones by whose first voter comes first."""
        return -self.weight, self.first

    def with_all(self, voters: Iterable[Voter]) -> Tally:
        more = list(voters)
        return Tally(
            self.ballot,
            self.weights + tuple(voter.weight for voter in more),
            min([self.first, *(voter.place for voter in more)]),
        )


def count(votes: Iterable[Vote]) -> list[Tally]:
    """The answers, the leader first."""
    found: dict[str, list[Voter]] = {}
    for vote in votes:
        found.setdefault(vote.ballot, []).append(vote.voter)
    tallies = [Tally(name).with_all(voters) for name, voters in found.items()]
    return sorted(tallies, key=lambda tally: tally.rank)


def decided(rule: Rule, votes: Sequence[Vote]) -> Vote | None:
    """The leader's first vote, if there is a decision."""
    tallies = count(votes)
    if not _holds(rule, votes, tallies):
        return None
    return next(vote for vote in votes if vote.ballot == tallies[0].ballot)


def why_undecided(rule: Rule, votes: Sequence[Vote], of: int) -> str:
    """In words, for a vote that gave no decision; `of` is the number of voters."""
    if len(votes) < rule.turnout:
        return f"{len(votes)} of {of} voters answered, {rule.turnout} are needed"
    if rule.majority:
        return f"no majority: {counted(votes)}"
    most = max((len(tally.weights) for tally in count(votes)), default=0)
    return f"no quorum: at most {most} of {of} agree, {rule.agree} are needed"


def counted(votes: Sequence[Vote]) -> str:
    """`2 yes, 1 no`: the answers by weight, in the words of the first voter who gave each."""
    said = {vote.ballot: label(vote.value) for vote in reversed(votes)}
    tallies = count(votes)
    shown = [f"{one.weight:g} {_brief(said[one.ballot])}" for one in tallies[:MOST_SHOWN]]
    more = len(tallies) - MOST_SHOWN
    return ", ".join([*shown, f"{more} others"] if more > 0 else shown)


def _brief(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def why_unsure(rule: Rule, votes: Sequence[Vote]) -> str:
    """In words, when the leader's share of the votes is below the rule's `confidence`; else nothing."""
    if rule.confidence is None or _confident(rule, votes):
        return ""
    leader = count(votes)[0]
    share = leader.weight / (_weight_of(votes) or 1.0)
    return f"not sure: the leading answer has {share:.0%} of the votes, not {rule.confidence:.0%}"


def _holds(rule: Rule, votes: Sequence[Vote], tallies: list[Tally]) -> bool:
    if not tallies or len(votes) < rule.turnout:
        return False
    if rule.majority and 2 * tallies[0].weight <= _weight_of(votes):
        return False
    return len(tallies[0].weights) >= rule.agree


def _weight_of(votes: Sequence[Vote]) -> float:
    return fsum(vote.voter.weight for vote in votes)


# ── can it still change? ─────────────────────────────────────────────────────────────────────


def settled(rule: Rule, votes: Sequence[Vote], rest: Sequence[Voter]) -> bool:
    """The decision stays as it is (also when it is none), whatever the rest say or do not say.

    Cases: too few can answer; too few can agree; some must still answer, unless nobody can get a
    majority any more; a majority stays one; none can overtake.
    """
    tallies = count(votes)
    most = max((len(tally.weights) for tally in tallies), default=0)
    if len(votes) + len(rest) < rule.turnout or most + len(rest) < rule.agree:
        return True
    whole = fsum([vote.voter.weight for vote in votes] + [voter.weight for voter in rest])
    if not _holds(rule, votes, tallies):
        counts = rule.majority and len(votes) >= rule.turnout
        return not rest or (counts and 2 * tallies[0].with_all(rest).weight <= whole)
    leader, *rivals = tallies
    if rule.majority:
        return 2 * leader.weight > whole
    best = [rival.with_all(rest) for rival in (*rivals, Tally(_NEW))]
    return all(leader.rank < rival.rank for rival in best)


def enough(rule: Rule, votes: Sequence[Vote], rest: Sequence[Voter]) -> bool:
    """Nobody else need be asked: it is settled, or the leader's share is enough."""
    return settled(rule, votes, rest) or _confident(rule, votes)


def _confident(rule: Rule, votes: Sequence[Vote]) -> bool:
    tallies = count(votes)
    if rule.confidence is None or not _holds(rule, votes, tallies):
        return False
    total = _weight_of(votes)
    return total > 0 and tallies[0].weight / total >= rule.confidence


def wave(rule: Rule, votes: Sequence[Vote], rest: Sequence[Voter]) -> int:
    """The least number of the next voters whose answers could be enough."""
    tallies = count(votes)
    likely = [tally.ballot for tally in tallies[:1]] + [_NEW]
    for many in range(1, len(rest)):
        for answer in likely:
            more = [Vote(voter, None, answer) for voter in rest[:many]]
            if enough(rule, [*votes, *more], rest[many:]):
                return many
    return len(rest)
