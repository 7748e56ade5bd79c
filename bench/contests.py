"""Who is asked, on recorded answers: weak and strong members, routers, cascades, the oracle.

The pure half of `bench/routing.py`: what would come of each, worked out from the records, and which
of them are chosen on the first half of the questions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from bench.recorded import AGAIN, DATA, GPT4, MIXTRAL, Question, Recorded, gsm, mmlu
from fanfold.patterns.vote_rules import vote_rules
from fanfold.price import NANO
from fanfold.work.vote import Vote, ballot, decided, enough, wave

DEAR = 1.0  # dollars per 1,000 questions: who costs more may be the strong one
CHEAP = 0.1  # of the strong one's cost, at most
MOST = 6  # cheap members that are asked
HALF_THE_COST, A_POINT = 0.5, 0.01  # the aim: at most so much of the cost, at most so much worse
SHRINK = 20  # so many questions of average gain stand beside those of each subject
SMALL = ("gemma-2-9b-it", "Qwen2-7B-Instruct", "Mistral-Nemo-Instruct-2407", "Phi-3.5-mini-instruct",
         "Meta-Llama-3.1-8B-Instruct")  # fmt: skip
_MAKERS = {"llama": "meta", "gemini": "google", "gemma": "google", "mixtral": "mistral",
           "o": "openai", "gpt": "openai"}  # fmt: skip

Half = tuple[list[Question], list[Question]]
Route = Callable[[Question], str]


class Cascade(NamedTuple):
    """Cheap members are asked; where fewer than `quorum` say the same, the strong one is."""

    members: tuple[str, ...]
    quorum: int

    def __str__(self) -> str:
        return f"{self.quorum} of {len(self.members)} agree"


class Router(NamedTuple):
    """Who scores at least `above` goes to the strong one; `score` is known before anybody is asked."""

    score: Callable[[Question], float]
    above: float


class Scored(NamedTuple):
    """`usd` per 1,000 questions; `strong`: the share of questions that went to the strong member."""

    accuracy: float
    usd: float
    strong: float


class Contest(NamedTuple):
    """`cascades`: those to choose from, by what they are called; `score` is the router's. `single`:
    the cheap member that does best alone on the first half, where there are several."""

    name: str
    recorded: Recorded
    halves: Half
    weak: str
    strong: str
    score: Callable[[Question], float]
    cascades: dict[str, list[Cascade]]
    single: str | None = None

    @property
    def members(self) -> list[str]:
        """All that anybody may be asked of, each once."""
        cheap = [one.members for found in self.cascades.values() for one in found]
        alone = [self.weak, self.strong, *([self.single] if self.single else [])]
        return list(dict.fromkeys((*alone, *(member for one in cheap for member in one))))


class Choice(NamedTuple):
    router: Router
    cascades: dict[str, Cascade]


# ── what is measured ─────────────────────────────────────────────────────────────────────────


def halves(questions: list[Question]) -> Half:
    parts: Half = ([], [])
    for question in questions:
        parts[hashlib.sha256(question.id.encode()).digest()[0] % 2].append(question)
    return parts


def contests(data: Path = DATA, held: Path | None = None) -> list[Contest]:
    grade, many = gsm(data), mmlu(data)
    split = halves(grade.questions) if held is None else (grade.questions, gsm(held).questions)
    spread = halves(many.questions) if held is None else (many.questions, mmlu(held).questions)
    return [_zeroeval(grade, split), _routellm(grade, split), _mmlu(many, spread)]


def _zeroeval(recorded: Recorded, split: Half) -> Contest:
    """The strong one: of those that cost more than `DEAR` the most accurate on the first half, of
    equal ones the cheapest; not one of OpenAI's o1, whose hidden tokens were not recorded. The cheap
    ones: at most a tenth of its cost, one of each maker, the cheapest first."""
    first, _ = split
    models = sorted(set(first[0].answers) - {MIXTRAL, GPT4}, key=lambda m: _usd(recorded, first, m))
    dear = [m for m in models if _usd(recorded, first, m) > DEAR and not m.startswith("o1")]
    strong = max(dear, key=lambda m: _accuracy(first, m))
    most = CHEAP * _usd(recorded, first, strong)
    makers: dict[str, str] = {}
    low = [model for model in models if _usd(recorded, first, model) <= most]
    for model in low:
        makers.setdefault(_maker(model), model)
    cheap = tuple(makers.values())[:MOST]
    small = tuple(sorted(SMALL, key=lambda m: _usd(recorded, first, m)))
    lists = {"the cheapest": _quorums(cheap), "small open models": _quorums(small)}
    single = max(low, key=lambda m: _accuracy(first, m))
    return Contest("GSM8K, ZeroEval", recorded, split, cheap[0], strong, _length, lists, single)


def _routellm(recorded: Recorded, split: Half) -> Contest:
    """The weak member was asked twice, in two ways: it can agree with itself. As a third the
    cheapest model of all is asked."""
    cheapest = min(set(split[0][0].answers) - {MIXTRAL}, key=lambda m: _usd(recorded, split[0], m))
    lists = {
        "Mixtral with itself": [Cascade((MIXTRAL, AGAIN), 2)],
        "and one more": _quorums((MIXTRAL, AGAIN, cheapest)),
    }
    return Contest("GSM8K, RouteLLM", recorded, split, MIXTRAL, GPT4, _length, lists)


def _mmlu(recorded: Recorded, split: Half) -> Contest:
    """The router goes by what the subject gains from the strong one, for what it costs: an answer
    is one letter, so that is the length of the question."""
    gains = subject_gains(split[0])
    usual = mean(gains.values())

    def score(question: Question) -> float:
        return gains.get(question.kind, usual) / question.chars

    return Contest("MMLU, RouteLLM", recorded, split, MIXTRAL, GPT4, score, {})


def _length(question: Question) -> float:
    """Long questions are harder, more so for the weak one."""
    return question.chars


def subject_gains(questions: Sequence[Question]) -> dict[str, float]:
    """How much oftener the strong one is right, by subject; drawn to the average where few tell."""
    gains: dict[str, list[int]] = {}
    for one in questions:
        gain = one.answers[GPT4].right - one.answers[MIXTRAL].right
        gains.setdefault(one.kind, []).append(gain)
    usual = mean(gain for found in gains.values() for gain in found)
    return {
        kind: (sum(found) + SHRINK * usual) / (len(found) + SHRINK) for kind, found in gains.items()
    }


def _quorums(members: tuple[str, ...]) -> list[Cascade]:
    """Two of them or more, in this order, and how many must agree."""
    sizes = range(2, len(members) + 1)
    return [Cascade(members[:many], quorum) for many in sizes for quorum in range(2, many + 1)]


def _maker(model: str) -> str:
    name = re.split(r"[^a-z]", model.lower().removeprefix("meta-"))[0]
    return _MAKERS.get(name, name)


def _usd(recorded: Recorded, questions: Sequence[Question], model: str) -> float:
    return 1000 * sum(recorded.cost(one, model) for one in questions) / NANO / len(questions)


def _accuracy(questions: Sequence[Question], model: str) -> float:
    return mean(one.answers[model].right for one in questions)


# ── what comes of it, worked out from the records ────────────────────────────────────────────


class Ended(NamedTuple):
    """One question: was the answer right, what did it cost (nano-dollars), who was asked last?"""

    right: bool
    cost: int
    last: str


def by_route(contest: Contest, question: Question, route: Route) -> Ended:
    model = route(question)
    return Ended(question.answers[model].right, contest.recorded.cost(question, model), model)


def by_cascade(contest: Contest, question: Question, cascade: Cascade) -> Ended:
    """As `ensemble(decide="quorum", stop_early=True)` asks, then the strong one."""
    rules = vote_rules(cascade.members, {"decide": "quorum", "quorum": cascade.quorum})
    votes: list[Vote] = []
    rest, spent = list(rules.voters), 0
    while rest and not enough(rules.rule, votes, rest):
        many = wave(rules.rule, votes, rest)
        for voter in rest[:many]:
            said = question.answers[voter.name].text
            spent += contest.recorded.cost(question, voter.name)
            votes += [Vote(voter, said, ballot(said))] if said.strip() else []
        rest = rest[many:]
    winner = decided(rules.rule, votes)
    last = contest.strong if winner is None else winner.voter.name
    if winner is None:
        spent += contest.recorded.cost(question, last)
    return Ended(question.answers[last].right, spent, last)


def by_oracle(contest: Contest, question: Question) -> Ended:
    """The cheapest that is right; where nobody is, the cheapest of all."""
    in_order = sorted(contest.members, key=lambda m: contest.recorded.cost(question, m))
    right = [model for model in in_order if question.answers[model].right]
    return by_route(contest, question, lambda _: (right or in_order)[0])


def scored(contest: Contest, ended: Iterable[Ended]) -> Scored:
    found = list(ended)
    many = len(found)
    return Scored(
        sum(one.right for one in found) / many,
        1000 * sum(one.cost for one in found) / NANO / many,
        sum(one.last == contest.strong for one in found) / many,
    )


def always(contest: Contest, questions: Sequence[Question], model: str) -> Scored:
    return scored(contest, (by_route(contest, one, lambda _: model) for one in questions))


def cascaded(contest: Contest, questions: Sequence[Question], cascade: Cascade) -> Scored:
    return scored(contest, (by_cascade(contest, one, cascade) for one in questions))


def routed(contest: Contest, questions: Sequence[Question], router: Router) -> Scored:
    return scored(contest, (by_route(contest, one, route_of(contest, router)) for one in questions))


def route_of(contest: Contest, router: Router) -> Route:
    return lambda question: (
        contest.strong if router.score(question) >= router.above else contest.weak
    )


def mixing(contest: Contest, questions: Sequence[Question], usd: float) -> float:
    """The accuracy of asking one of the two by chance, at this cost on average."""
    weak = always(contest, questions, contest.weak)
    strong = always(contest, questions, contest.strong)
    share = (usd - weak.usd) / (strong.usd - weak.usd)
    return weak.accuracy + share * (strong.accuracy - weak.accuracy)


# ── choosing, on the first half ──────────────────────────────────────────────────────────────


def routers(contest: Contest) -> list[Router]:
    """Each twentieth more of the first half to the strong one, from none to all."""
    first, _ = contest.halves
    scores = sorted(contest.score(one) for one in first)
    cuts = [scores[len(scores) * n // 20] for n in range(20)]
    return [Router(contest.score, above) for above in (float("inf"), *reversed(cuts))]


def best(found: dict[Any, Scored], most: float) -> Any:
    """The one most often right of those that cost at most so much, of equal ones the cheapest; if
    all cost more, the cheapest."""
    able = {way: score for way, score in found.items() if score.usd <= most}
    if able:
        return max(able, key=lambda way: (able[way].accuracy, -able[way].usd))
    return min(found, key=lambda way: found[way].usd)


def cap(contest: Contest) -> float:
    first, _ = contest.halves
    return HALF_THE_COST * always(contest, first, contest.strong).usd


def choose(contest: Contest) -> Choice:
    """The best router, and the best cascade of each list."""
    first, _ = contest.halves
    routes = {router: routed(contest, first, router) for router in routers(contest)}
    lists = {
        name: {one: cascaded(contest, first, one) for one in found}
        for name, found in contest.cascades.items()
    }
    most = cap(contest)
    return Choice(best(routes, most), {name: best(found, most) for name, found in lists.items()})
