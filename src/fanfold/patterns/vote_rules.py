"""Who votes on a question and how the votes decide, checked before anybody is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.combine import all_of
from fanfold.gates.judge import shown_to_judge
from fanfold.patterns.arguments import PatternOptions, terms_of
from fanfold.patterns.prompt import Prompt, prompt_of
from fanfold.work.arguments import public, refuse_async
from fanfold.work.ask import Reply, Schema
from fanfold.work.check import Check, described, entries, flag, number, one_of, text, whole
from fanfold.work.document import Node
from fanfold.work.excerpt import as_text
from fanfold.work.fields import Path, path_of
from fanfold.work.item import Item, digest
from fanfold.work.nearest import remedy
from fanfold.work.options import stated
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import AskPower, Gate, ItemRead, Task, Terms, known_as, nature_of
from fanfold.work.template import unshown
from fanfold.work.vote import Rule, Vote, Voter, ballot

# ── a judge ──────────────────────────────────────────────────────────────────────────────────────


JUDGE_NAMES = frozenset({"question", "item", "answers", "steps", "task"})
PICK = (
    "Which of these answers to the question is the best? Reply with your reasons, in a sentence or"
    " two, as `reasons`, and with its letter as `choice`."
)
WRITE = "Answer the question with the help of these answers of others. Reply with your answer only."


class VoteJudge(msgspec.Struct, frozen=True):
    """Who decides, and how. `picks`: names one of the answers; else writes an answer from them."""

    prompt: Prompt
    terms: Terms
    picks: bool = True


@public
def judged(
    prompt: str | None = None,
    *,
    picks: bool = True,
    schema: dict[str, Any] | type | None = None,
    **how: Unpack[PatternOptions],
) -> VoteJudge:
    """Let a member decide a vote: for `decide`.

    It sees the answers under letters, in an order that differs from question to question and says
    nothing of who gave them. In `prompt`, `question` is what the voters were asked, `item` what it
    was about, `answers` a list of `label` and `value`; what the prompt does not show is appended.
    It replies with `{"reasons": "…", "choice": "B"}`, and its reasons are kept with the decision; or,
    with `picks=False`, with an answer of its own, which is held to the question's schema and gate. A
    judge that gives no answer leaves the question unjudged. A function receives `{"question",
    "item", "answers"}`; it may leave the reasons out.
    """
    made = prompt_of(prompt or (PICK if picks else WRITE), schema, JUDGE_NAMES, how)
    return VoteJudge(made, terms_of(how, made.schema, ""), picks)


class AnonymousAnswers(msgspec.Struct, frozen=True):
    """The answers as the judge sees them; `labels` are the letters, in the order of `votes`."""

    labels: tuple[str, ...]
    votes: tuple[Vote, ...]

    def choice(self, reply: Reply) -> Vote | None:
        """The answer whose letter the reply names, as `choice` or as its whole text."""
        said = reply.value.get("choice") if isinstance(reply.value, dict) else reply.value
        wanted = ballot(said)
        found = (vote for label, vote in self._all() if ballot(label) == wanted)
        return next(found, None)

    def reasons(self, reply: Reply) -> str:
        """Why, in the judge's words; nothing, if it gave none."""
        found = reply.value.get("reasons") if isinstance(reply.value, dict) else None
        return as_text(found).strip() if found else ""

    def names_one(self, task: Task, reply: Reply, ask: AskPower) -> Verdict:
        if self.choice(reply) is not None:
            return PASS
        return fail(f"name one of the answers as `choice`: {', '.join(self.labels)}")

    def shown(self) -> list[dict[str, Any]]:
        return [{"label": label, "value": vote.reply.value} for label, vote in self._all()]

    def _all(self) -> list[tuple[str, Vote]]:
        return list(zip(self.labels, self.votes, strict=True))


known_as("pure", AnonymousAnswers.names_one)


def anonymous(question: Task, votes: Sequence[Vote]) -> AnonymousAnswers:
    """Shuffled by the question's content: the same on resume, another order for another question."""
    seed = question.ask.key("messages" if question.ask.messages else "items")
    shuffled = sorted(votes, key=lambda vote: digest(seed + b"%d" % vote.voter.place))
    return AnonymousAnswers(_labels(len(shuffled)), tuple(shuffled))


def judge_task(judge: VoteJudge, question: Task, heard: AnonymousAnswers) -> Task:
    """The judge's ask. Raises FanfoldError when its prompt cannot be rendered."""
    made = Item(question.id, _data(judge, question, heard))
    ask = judge.prompt.about(made, _listing(judge.prompt, made.data))
    schema = ask.schema or (_choices(heard.labels) if judge.picks else question.ask.schema)
    gate = all_of(judge.terms.gate, heard.names_one if judge.picks else _gate_of(question))
    terms = msgspec.structs.replace(judge_terms(judge, question.terms), gate=gate)
    return Task(question.id, msgspec.structs.replace(ask, schema=schema), terms)


def judge_terms(judge: VoteJudge, question: Terms) -> Terms:
    step = judge.terms.step or f"{question.step}.judge"
    return msgspec.structs.replace(judge.terms, step=step)


def _gate_of(question: Task) -> Gate:
    """What is written for a question is held to the question's own gate."""
    gate = question.terms.gate
    return known_as(nature_of(gate), lambda task, reply, ask: gate(question, reply, ask))


def _data(judge: VoteJudge, question: Task, heard: AnonymousAnswers) -> dict[str, Any]:
    data = {**shown_to_judge(question), "answers": heard.shown()}
    if judge.prompt.shows("steps"):
        data["steps"] = {**judge.prompt.names.get("steps", {}), **data["item"].get("steps", {})}
    return data


def _listing(prompt: Prompt, data: dict[str, Any]) -> str:
    def answers() -> str:
        shown = [(one["label"], as_text(one["value"])) for one in data["answers"]]
        return "\n\n".join(f"### Answer {label}\n{text}" for label, text in shown)

    question = f"### Question\n{data['question']}"
    return unshown(prompt.shows, (("question", "item"), lambda: question), (("answers",), answers))


def _labels(many: int) -> tuple[str, ...]:
    """A to Z, then A1 to Z1, and so on."""
    return tuple(f"{chr(65 + n % 26)}{n // 26 or ''}" for n in range(many))


@lru_cache(64)
def _choices(labels: tuple[str, ...]) -> Schema:
    choice = {"type": "string", "enum": list(labels)}
    fields = {"reasons": {"type": "string"}, "choice": choice}
    return Schema.of({"type": "object", "properties": fields, "required": ["choice"]})


# ── who votes, and by which rule ─────────────────────────────────────────────────────────────────


ByVotes: TypeAlias = Literal["majority", "plurality", "weighted", "quorum"]
AskingOrder: TypeAlias = Literal["weight", "listed"]
Decide: TypeAlias = ByVotes | VoteJudge | Callable[[list[Vote]], Any]

RULES = ("majority", "plurality", "weighted", "quorum")
UNDECIDED = ("majority", "quorum")  # these may give no decision
USUAL_QUORUM, MOST_VOTERS = 2, 10_000


class VoteOptions(TypedDict, total=False):
    """How a vote is held.

    `samples`: so many answers of each voter instead of one. `decide`: `majority` (the answer of more
    than half of those who answered, else there is no decision), `plurality` (the answer with the
    most votes; of level ones that whose first voter stands earlier), `weighted` (a plurality by
    `weights`), `quorum` (at least `quorum` voters say the same, else there is no decision), a judge
    (see `judged`), or a function of the votes, which gives one of them or any value. `weights` by
    member (1 if not stated) count in all but a quorum. `order`: who is asked first where not all are
    asked at once: those that weigh most (`weight`), or as they are listed (`listed`), such as a cheap
    one first whose vote weighs little. `judge`: decides where the count does not.
    `quorum` (default 2, or 1 if there is only one voter): otherwise, how many must answer.

    `stop_early`: ask nobody else once the decision can no longer change; it is the same as if all
    had been asked. `confidence`: also stop when so large a share of the votes cast, at least
    `quorum` of them, agrees; that may decide otherwise than all would. `field`: compare this field
    of the replies.
    """

    samples: int | None
    decide: Decide
    weights: Mapping[str, float] | None
    order: AskingOrder | None
    quorum: int | None
    stop_early: bool
    confidence: float | None
    field: str | None
    judge: VoteJudge | None


def _share_of_votes(node: Node) -> float:
    share: float = number(above=0)(node)
    if share > 1:
        raise node.bad(f"`{node.name}` is a share of the votes, at most 1, not {share:g}")
    return share


def _weights_of(node: Node) -> dict[str, float]:
    return {name: number(least=0)(child) for name, child in entries(node)}


VOTE_OPTIONS: dict[str, Check] = {
    "samples": whole(least=1),
    "weights": _weights_of,
    "order": one_of("weight", "listed"),
    "quorum": whole(least=1),
    "stop_early": flag,
    "confidence": _share_of_votes,
    "field": text,
}


class VoteRules(msgspec.Struct, frozen=True):
    """`voters` in the order in which they are asked. `judge`:
    asked when the count gives no decision."""

    voters: tuple[Voter, ...]
    rule: Rule
    decide: Decide = "majority"
    path: Path = ()
    early: bool = False
    judge: VoteJudge | None = None

    @property
    def last_word(self) -> VoteJudge | None:
        """The judge who may be asked, if there is one."""
        return self.decide if isinstance(self.decide, VoteJudge) else self.judge

    def item_reads(self) -> list[ItemRead]:
        """What the judge's prompt reads of an item."""
        user = None if self.last_word is None else self.last_word.prompt.user
        read = set() if user is None else user.fields("item") - {"steps"}
        return [ItemRead("judge", field) for field in sorted(read)]


def vote_rules(members: Sequence[str], options: VoteOptions) -> VoteRules:
    """What does not fit together is BadInput."""
    given = stated(
        {name: value for name, value in options.items() if name in VOTE_OPTIONS},
        VOTE_OPTIONS,
        "a vote",
    )
    decide, judge = options.get("decide") or "majority", options.get("judge")
    confidence = given.get("confidence")
    early = given.get("stop_early", False) or confidence is not None
    _check_decide(decide, early)
    _check_judge(judge, decide)
    voters = _voters(members, given.get("samples"), _weights(members, given, decide))
    quorum = _quorum(given.get("quorum"), len(voters))
    turnout, agree = (1, quorum) if decide == "quorum" else (quorum, 1)
    if given.get("order") and not given.get("weights"):
        raise BadInput(
            "`order` goes with `weights`; without them voters are asked as they are listed"
        )
    in_order = tuple(voters)
    if given.get("order") != "listed":
        in_order = tuple(sorted(voters, key=lambda voter: -voter.weight))
    rule = Rule(turnout, agree, confidence, majority=decide == "majority")
    return VoteRules(in_order, rule, decide, path_of(given.get("field")), early, judge)


def _check_decide(decide: Any, early: bool) -> None:
    if isinstance(decide, str):
        if decide not in RULES:
            raise BadInput(
                f"unknown decide {decide!r}: {remedy(decide, RULES)}; or give a judge or a function"
            )
        return
    if not (isinstance(decide, VoteJudge) or callable(decide)):
        raise BadInput(f"decide is one of {', '.join(RULES)}, a judge or a function: {decide!r}")
    refuse_async("`decide`", decide)
    if early:
        raise BadInput("stop_early and confidence go with a count of votes, not with this decide")


def _check_judge(judge: Any, decide: Any) -> None:
    if judge is not None and not isinstance(judge, VoteJudge):
        raise BadInput(f"`judge` must be judged(…), not {described(judge)}")
    if judge is not None and not isinstance(decide, str):
        raise BadInput(
            "`judge` is for a count of votes that gives no decision, not for this decide"
        )
    if judge is not None and decide not in UNDECIDED:
        raise BadInput(f"decide={decide!r} always decides; a judge alone is decide=judged(…)")


def _weights(members: Sequence[str], given: Mapping[str, Any], decide: Any) -> Mapping[str, float]:
    weights: Mapping[str, float] = given.get("weights", {})
    if weights and decide not in RULES[:3]:
        raise BadInput("weights go with decide='majority', 'plurality' or 'weighted'")
    for name in weights:
        if name not in members:
            raise BadInput(f"weights: {name!r} is no voter: {remedy(str(name), members)}")
    if weights and not any(weights.get(name, 1.0) for name in members):
        raise BadInput("weights: all are 0, so no vote counts; give one voter more")
    return weights


def _voters(
    members: Sequence[str], samples: int | None, weights: Mapping[str, float]
) -> list[Voter]:
    """First one answer of each member, then a second of each, and so on."""
    if not isinstance(members, list | tuple) or not all(isinstance(one, str) for one in members):
        raise BadInput(f"members is a list of names, not {members!r}")
    if (samples or 1) * max(1, len(members)) > MOST_VOTERS:
        raise BadInput(f"more than {MOST_VOTERS:,} answers to one question; take fewer `samples`")
    if len(set(members)) < len(members):
        twice = next(name for n, name in enumerate(members) if name in members[:n])
        raise BadInput(
            f"{twice} is a duplicate voter; for several answers of one member use samples"
        )
    if not members and samples is None:
        raise BadInput("nobody votes: give members=[...], or samples=n of one member")
    named = [
        (name, sample, f"{name or ''}#{sample + 1}" if samples else name or "")
        for sample in range(samples or 1)
        for name in members or (None,)
    ]
    return [
        Voter(shown, place, float(weights.get(name or "", 1.0)), name, sample)
        for place, (name, sample, shown) in enumerate(named)
    ]


def _quorum(quorum: int | None, many: int) -> int:
    if quorum is None:
        return min(USUAL_QUORUM, many)
    if quorum > many:
        raise BadInput(f"a quorum of {quorum} cannot be reached: there are {many} voters")
    return quorum
