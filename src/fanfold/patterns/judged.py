"""A member decides between the answers of others, without knowing whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Unpack

import msgspec

from fanfold.gates.combine import all_of
from fanfold.gates.judge import question_of
from fanfold.patterns.how import How, terms_of
from fanfold.patterns.prompt import Prompt, prompt_of
from fanfold.work.arguments import public
from fanfold.work.ask import Reply, Schema
from fanfold.work.item import Item, digest
from fanfold.work.outcome import PASS, Verdict, fail
from fanfold.work.task import AskPower, Gate, Task, Terms, known_as, nature_of
from fanfold.work.vote import Vote, ballot

NAMES = frozenset({"question", "item", "answers", "steps", "task"})
PICK = "Which of these answers to the question is the best? Reply with its letter as `choice`."
WRITE = "Answer the question with the help of these answers of others. Reply with your answer only."

_encode = msgspec.json.Encoder().encode


class Judge(msgspec.Struct, frozen=True):
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
    **how: Unpack[How],
) -> Judge:
    """Let a member decide a vote: for `decide`.

    It sees the answers under letters, in an order that differs from question to question and says
    nothing of who gave them. In `prompt`, `question` is what the voters were asked, `item` what it
    was about, `answers` a list of `label` and `value`; what the prompt does not show is appended.
    It replies with `{"choice": "B"}`, or, with `picks=False`, with an answer of its own, which is
    held to the question's schema and gate. A judge that gives no answer leaves the question
    unjudged. A function receives `{"question", "item", "answers"}`.
    """
    made = prompt_of(prompt or (PICK if picks else WRITE), schema, NAMES)
    return Judge(made, terms_of(how, made.schema, ""), picks)


class Hearing(msgspec.Struct, frozen=True):
    """The answers as the judge sees them; `labels` are the letters, in the order of `votes`."""

    labels: tuple[str, ...]
    votes: tuple[Vote, ...]

    def choice(self, reply: Reply) -> Vote | None:
        """The answer whose letter the reply names, as `choice` or as its whole text."""
        said = reply.value.get("choice") if isinstance(reply.value, dict) else reply.value
        wanted = ballot(said)
        found = (vote for label, vote in self._all() if ballot(label) == wanted)
        return next(found, None)

    def names_one(self, task: Task, reply: Reply, ask: AskPower) -> Verdict:
        if self.choice(reply) is not None:
            return PASS
        return fail(f"name one of the answers as `choice`: {', '.join(self.labels)}")

    def shown(self) -> list[dict[str, Any]]:
        return [{"label": label, "value": vote.reply.value} for label, vote in self._all()]

    def _all(self) -> list[tuple[str, Vote]]:
        return list(zip(self.labels, self.votes, strict=True))


known_as("pure", Hearing.names_one)


def hearing(question: Task, votes: Sequence[Vote]) -> Hearing:
    """Shuffled by the question's content: the same on resume, another order for another question."""
    seed = question.ask.key("messages" if question.ask.messages else "items")
    shuffled = sorted(votes, key=lambda vote: digest(seed + b"%d" % vote.voter.place))
    return Hearing(_labels(len(shuffled)), tuple(shuffled))


def judge_task(judge: Judge, question: Task, heard: Hearing) -> Task:
    """The judge's ask. Raises FanfoldError when its prompt cannot be rendered."""
    made = Item(question.id, _data(judge, question, heard))
    ask = judge.prompt.about(made, _listing(judge.prompt, made.data))
    schema = ask.schema or (_choices(heard.labels) if judge.picks else question.ask.schema)
    gate = all_of(judge.terms.gate, heard.names_one if judge.picks else _gate_of(question))
    terms = msgspec.structs.replace(judge_terms(judge, question.terms), gate=gate)
    return Task(question.id, msgspec.structs.replace(ask, schema=schema), terms)


def judge_terms(judge: Judge, question: Terms) -> Terms:
    step = judge.terms.step or f"{question.step}.judge"
    return msgspec.structs.replace(judge.terms, step=step)


def _gate_of(question: Task) -> Gate:
    """What is written for a question is held to the question's own gate."""
    gate = question.terms.gate
    return known_as(nature_of(gate), lambda task, reply, ask: gate(question, reply, ask))


def _data(judge: Judge, question: Task, heard: Hearing) -> dict[str, Any]:
    items = question.ask.items
    view: dict[str, Any] = items[0].view() if items else {"id": question.id}
    data: dict[str, Any] = {
        "question": question_of(question.ask),
        "item": view,
        "answers": heard.shown(),
    }
    if judge.prompt.shows("steps"):
        data["steps"] = {**judge.prompt.names.get("steps", {}), **view.get("steps", {})}
    return data


def _listing(prompt: Prompt, data: dict[str, Any]) -> str:
    blocks = []
    if not (prompt.shows("question") or prompt.shows("item")):
        blocks.append(f"### Question\n{data['question']}")
    if not prompt.shows("answers"):
        blocks += [f"### Answer {one['label']}\n{_text(one['value'])}" for one in data["answers"]]
    return "\n\n".join(blocks)


def _labels(many: int) -> tuple[str, ...]:
    """A to Z, then A1 to Z1, and so on."""
    return tuple(f"{chr(65 + n % 26)}{n // 26 or ''}" for n in range(many))


@lru_cache(64)
def _choices(labels: tuple[str, ...]) -> Schema:
    choice = {"type": "string", "enum": list(labels)}
    return Schema.of({"type": "object", "properties": {"choice": choice}, "required": ["choice"]})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _encode(value).decode()
