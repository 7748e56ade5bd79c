"""A gate that asks: a member judges each reply.

Its calls are the run's own: budgeted, limited, journaled, and found again when the run is resumed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from fanfold.errors import BadInput
from fanfold.gates.combine import PendingVerdict
from fanfold.gates.default import standard
from fanfold.work import check
from fanfold.work.arguments import public
from fanfold.work.ask import Ask, Message, Reply, Schema
from fanfold.work.check import Check, mapping, text
from fanfold.work.excerpt import as_text
from fanfold.work.fields import number
from fanfold.work.item import Item
from fanfold.work.media import Attachment, MediaKind
from fanfold.work.member import Named
from fanfold.work.options import HOW, option, stated, who_of
from fanfold.work.outcome import PASS, Outcome, Verdict, fail, unjudged
from fanfold.work.task import (
    AskPower,
    Budget,
    Gate,
    InDoubt,
    ItemRead,
    Task,
    Terms,
    asking,
    known_as,
    reading,
)
from fanfold.work.template import Template, unshown

NAMES = frozenset({"question", "item", "reply"})
_REASONS = {"type": "array", "items": {"type": "string"}}


class JudgeOptions(TypedDict, total=False):
    """Who judges (`member`, `members` or those good at `needs`), and how it is asked."""

    member: str | Named | None
    members: Sequence[str | Named]
    needs: Sequence[str]
    schema: dict[str, Any] | None
    step: str
    revise: int
    attempts: int
    concurrency: int
    in_doubt: InDoubt
    budget: Budget


@public
def judge(prompt: str, *, threshold: float | None = None, **how: Unpack[JudgeOptions]) -> Gate:
    """A member says whether a reply is good: `{"pass": true, "reasons": [...]}`, or with a
    `threshold` `{"score": 8, "reasons": [...]}`, which passes from the threshold on.

    In `prompt`, `reply` is the reply, `item` what it is about, `question` what was asked; what it
    does not show is appended. A function receives `{"question", "item", "reply"}`. The reasons go
    into the kick-back. A judge that fails, or says something else than it was asked for, leaves the
    reply unjudged: never pass, never fail. It is asked only about what passes the other gates.
    `schema` replaces the usual form of its reply; `pass` or `score` must be in it.
    """
    template = Template(option("prompt", prompt, text) or "", name="judge", known=NAMES)
    options = stated({**how, "threshold": threshold}, _CHECKS, "judge()")
    schema = Schema.of(options.get("schema") or _usual(threshold))
    given = {name: options[name] for name in _OF_TERMS if name in options}
    step = options.get("step", "judge")
    terms = Terms(step=step, gate=standard(None, schema), who=who_of(options), **given)

    def judgement(task: Task, reply: Reply, ask: AskPower) -> Awaitable[Verdict]:
        asked = _task(template, schema, terms, task, reply)

        async def judged() -> Verdict:
            return _verdict(await ask(asked), threshold)

        return PendingVerdict(judged)

    reads = [ItemRead("judge", field) for field in sorted(template.fields("item"))]
    return known_as("asks", reading(asking(judgement, own=[terms]), reads))


def _usual(threshold: float | None) -> dict[str, Any]:
    name, kind = ("pass", "boolean") if threshold is None else ("score", "number")
    return {
        "type": "object",
        "properties": {name: {"type": kind}, "reasons": _REASONS},
        "required": [name],
    }


_OF_TERMS = ("revise", "attempts", "concurrency", "in_doubt", "budget")
_CHECKS: dict[str, Check] = {
    **{name: HOW[name] for name in ("member", "members", "needs", "step", *_OF_TERMS)},
    "schema": mapping,
    "threshold": check.number(),
}


def _verdict(outcome: Outcome, threshold: float | None) -> Verdict:
    if outcome.state != "passed":
        why = "; ".join(outcome.reasons) or "no reason was given"
        return unjudged(f"the judge: {outcome.state}: {why}")
    value = outcome.value if isinstance(outcome.value, dict) else {}
    reasons = tuple(str(reason) for reason in value.get("reasons") or () if reason)
    if threshold is None:
        good, without = value.get("pass"), "the judge does not accept it"
    else:
        score = number(value.get("score"))
        good = None if score is None else score >= threshold
        without = f"the judge gives it {score}, less than {threshold:g}"
    if not isinstance(good, bool):
        return unjudged(f"the judge's reply has no {'`pass`' if threshold is None else '`score`'}")
    return PASS if good else fail(*(reasons or (without,)))


# ── what the judge is asked ──────────────────────────────────────────────────────────────────


def _task(template: Template, schema: Schema, terms: Terms, task: Task, reply: Reply) -> Task:
    """Under the id of the task it judges, but at no place of its own."""
    shown = {**shown_to_judge(task), "reply": reply.value}
    text, parts = template.render_with(OfTask(task), shown)
    more = unshown(
        template.uses,
        (("item", "question"), lambda: f"### What was asked\n{shown['question']}"),
        (("reply",), lambda: f"### The reply\n{as_text(shown['reply'])}"),
    )
    message = Message("user", f"{text.rstrip()}\n\n{more}" if more else text, parts)
    shared = template.shared(message.content, {}) if task.ask.shared >= 0 else -1
    return Task(task.id, Ask((message,), (Item(task.id, shown),), (), schema, shared=shared), terms)


class OfTask:
    """The files that were sent with the ask that is judged."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def attach(self, value: Any, kind: MediaKind | None) -> Attachment:
        """That of the path which an item, or a text, names; the first of its kind where it names none."""
        name = value.get("path") if isinstance(value, dict) else value
        found = [one for one in self._task.ask.attachments() if one.kind == kind]
        named = [one for one in found if one.name == name]
        if not found or (name is not None and not named):
            raise BadInput(f"the ask that is judged has no {kind}{f' {name}' if name else ''}")
        return msgspec.structs.replace((named or found)[0], at=0)


def shown_to_judge(task: Task) -> dict[str, Any]:
    """What every judge sees of the task: the question as it was put (functions are asked by their
    items alone), and the item."""
    items, messages = task.ask.items, task.ask.messages
    asked = messages[-1].content if messages else "\n\n".join(as_text(one.data) for one in items)
    return {"question": asked, "item": items[0].view() if items else {"id": task.id}}
