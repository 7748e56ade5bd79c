"""One item of a run, for `fanfold show`: input, prompts, replies, verdicts, attempts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from fanfold.journal.answers import AttemptRecord
from fanfold.journal.facts import RunRecord
from fanfold.observe.amounts import clock_time, count, duration, money, utc_time
from fanfold.observe.closing import NAMES
from fanfold.observe.table import Column, aligned, one_line
from fanfold.price import dollars
from fanfold.run.item_view import InputView, ItemView, PromptView, StepView
from fanfold.work.ask import Message, Reply
from fanfold.work.media import size_text
from fanfold.work.text import from_here, visible
from fanfold.work.vote import label

_encode = msgspec.json.Encoder().encode
_HOW = {
    "stored": "as sent",
    "matches": "rendered again; it is what was sent",
    "unchecked": "rendered again",
    "changed": "rendered again",
}


def item_text(run: RunRecord, views: Sequence[ItemView], width: int = 80) -> str:
    """Nothing in it can control a terminal, whatever input and replies hold."""
    lines: list[str] = []
    for view in views:
        lines += ["", *_item(run, view, width)] if lines else _item(run, view, width)
    return visible("\n".join(lines))


def _item(run: RunRecord, view: ItemView, width: int) -> list[str]:
    of = "" if view.of == "input" else f", an item of step {one_line(view.of)}"
    lines = [f"{one_line(view.id)} in {one_line(run.name)} ({run.id}){of}", *_input(view.input)]
    for step in view.steps:
        shown = _step(step, width)
        lines += ["", *shown] if step.state or len(shown) > 1 else []
    return lines


def _input(given: InputView) -> list[str]:
    head = ["", f"input: {one_line(from_here(given.where))}" if given.where else "input"]
    note = [f"  ({given.note})"] if given.note else []
    data = [] if not given.known or given.data is None else _indented(_shown(given.data))
    return [*head, *note, *data]


def _step(step: StepView, width: int) -> list[str]:
    asked_within = step.state is None and (  # by a voter or a judge, say
        bool(step.attempts) or any(one.reply and not one.reasons for one in step.prompts)
    )
    state = NAMES.get(step.state, step.state) if step.state else "no outcome yet"
    lines = [f"step {one_line(step.step)}" + ("" if asked_within else f": {state}")]
    lines += [f"  {one_line(reason, 1000)}" for reason in step.reasons]
    if step.damaged:
        lines.append("  what was recorded for it is damaged")
    for prompt in step.prompts:
        if not (asked_within and prompt.state == "unknown"):
            lines += _prompt(prompt, [one.member for one in step.votes], within=asked_within)
    lines += _votes(step)
    if step.reply is not None:
        by = f" of {one_line(step.member)}" if step.member else ""
        voted = bool(step.decided) and not step.member
        lines += _reply(step.reply, f"answer (by {step.decided})" if voted else f"reply{by}")
    return lines + _attempts(step, width)


def _votes(step: StepView) -> list[str]:
    """A line for each; all that was asked and said where a voter was kicked back."""
    if not step.votes:
        return []
    lines = ["", "votes"]
    for one in step.votes:
        why = "; ".join(one.reasons) or "its reply lacks what is voted on"
        said = one_line(label(one.answer), 200) if one.counts else f"no vote: {one_line(why, 1000)}"
        lines.append(f"  {one_line(one.member)}: {said}")
    for one in step.votes:
        for prompt in one.prompts if len(one.prompts) > 1 else ():
            lines += _prompt(prompt, within=not prompt.reasons)
    return lines


def _prompt(prompt: PromptView, voters: Sequence[str] = (), *, within: bool = False) -> list[str]:
    """`voters`: who were all asked this. `within`: its reply counts, at another step."""
    if prompt.state == "unknown":
        return ["", f"prompt: not known: {prompt.note}"]
    asked = [prompt.member] if prompt.member else list(voters)
    to = f" to {one_line(_enumerated(asked), 200)}" if asked else ""
    if not prompt.messages:
        return ["", f"prompt{to}: none; the member is given the item itself"]
    note = f" ({prompt.note})" if prompt.note else ""
    lines = ["", f"prompt{to}, {_HOW[prompt.state]}{note}"]
    for message in prompt.messages:
        lines += message_lines(message, len(prompt.messages) > 1)
    if prompt.reply is not None:
        counts = within and not prompt.reasons
        lines += _reply(prompt.reply, "reply" if counts else "reply, which did not count")
        lines += [f"  kicked back: {one_line(reason, 1000)}" for reason in prompt.reasons]
    return lines


def _enumerated(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def message_lines(message: Message, named: bool) -> list[str]:
    head = [f"  {message.role}:"] if named else []
    return head + _indented(message.shown(), "    " if named else "  ")


def _reply(reply: Reply, title: str) -> list[str]:
    by = [one_line(reply.model)] if reply.model else []
    by += [f"ended with {reply.finish}"] if reply.finish != "stop" else []
    note = f" ({', '.join(by)})" if by else ""
    return ["", f"{title}{note}", *_indented(_shown(reply.value)), *_outputs(reply)]


def _outputs(reply: Reply) -> list[str]:
    """The files that it left, as they are named below the folder of the plan."""
    if not reply.files:
        return []
    sizes = [size_text(one.size) for one in reply.files]
    paths = [one_line(one.path, 200) for one in reply.files]
    return ["", "outputs", *(f"  {path}  {size}" for path, size in zip(paths, sizes, strict=True))]


def _attempts(step: StepView, width: int) -> list[str]:
    """Calls of members that cost nothing have no record of their own when they are answered."""
    lines = []
    if step.attempts:
        lines += ["", "attempts", *aligned(_columns(step.attempts), width, "  ")]
    quiet = step.calls - len(step.attempts)
    if quiet > 0 and step.member:
        lines += ["", f"{count(quiet, 'call')} of {one_line(step.member)}, free"]
    elif not step.attempts and step.reply is not None and not step.calls and step.member:
        lines += ["", f"no call: the reply of {one_line(step.member)} was on record"]
    return lines


def _columns(tried: Sequence[AttemptRecord]) -> list[Column]:
    return [
        Column("time", [clock_time(one.started) for one in tried]),
        Column("member", [one_line(one.member, 40) for one in tried], least=8),
        Column("state", [one.state.replace("_", " ") for one in tried]),
        Column("cost", [money(one.cost, at_most=one.bound) for one in tried], right=True),
        Column("took", ["" if one.took is None else duration(one.took) for one in tried], right=True),
        Column("why this member", [_why(one) for one in tried], least=12),
        Column("error", [one_line(one.error or "", 400) for one in tried], least=12),
    ]  # fmt: skip


def _why(one: AttemptRecord) -> str:
    more = len(one.ids) - 1
    shared = f" (with {count(more, 'other item')})" if more else ""
    return one_line(one.why or "-", 80) + shared


def _shown(value: Any) -> str:
    """A text as it is, anything else as JSON on lines of its own."""
    if isinstance(value, str):
        return value
    return msgspec.json.format(_encode(value), indent=2).decode()


def _indented(text: str, by: str = "  ") -> list[str]:
    return [by + line for line in text.split("\n")] if text else [f"{by}(empty)"]


# ── for programs ─────────────────────────────────────────────────────────────────────────────


def item_json(run: RunRecord, views: Sequence[ItemView]) -> bytes:
    """An object for the item; with `also`, where other batches have the same id too."""
    first, *more = (_plain(view) for view in views)
    whole = {"run": run.id, "name": run.name, **first}
    return _encode(whole | {"also": more} if more else whole)


def _plain(view: ItemView) -> dict[str, Any]:
    given = msgspec.structs.asdict(view.input)
    return {"item": view.id, "of": view.of, "input": given, "steps": list(_steps(view.steps))}


def _steps(steps: Sequence[StepView]) -> Iterator[dict[str, Any]]:
    for one in steps:
        yield {
            "step": one.step, "state": one.state, "reasons": one.reasons, "member": one.member,
            "cost_usd": dollars(one.cost), "calls": one.calls,
            "prompts": [msgspec.structs.asdict(prompt) for prompt in one.prompts],
            "reply": one.reply, "attempts": [_attempt(tried) for tried in one.attempts],
            **(_vote(one) if one.decided else {}),
        }  # fmt: skip


def _vote(step: StepView) -> dict[str, Any]:
    return {
        "decided_by": step.decided,
        "votes": [msgspec.structs.asdict(one) for one in step.votes],
    }


def _attempt(one: AttemptRecord) -> dict[str, Any]:
    return {
        "at": utc_time(one.started), "member": one.member, "state": one.state, "why": one.why,
        "cost_usd": dollars(one.cost), "cost_at_most": one.bound, "seconds": one.took,
        "tokens": msgspec.structs.asdict(one.usage), "ids": one.ids, "error": one.error,
    }  # fmt: skip
