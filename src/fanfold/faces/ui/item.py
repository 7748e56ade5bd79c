"""The way of one item: its input, what was sent and came back at each step, and what the gate said."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import msgspec

from fanfold.errors import BadInput
from fanfold.faces.ui.changes import in_one
from fanfold.faces.ui.controls import item_controls
from fanfold.faces.ui.place import place_html
from fanfold.faces.ui.seen import STATES, SeenRun
from fanfold.faces.ui.shell import UiPage, copied, crumbs, panel, pill, run_path, state_name
from fanfold.faces.web import RequestRefused
from fanfold.fleet.run_plan import RunPlan, run_plan
from fanfold.journal.answers import AttemptRecord
from fanfold.observe.amounts import clock_time, count, duration, money
from fanfold.observe.html.page import esc, note
from fanfold.observe.html.tables import HtmlColumn, json_text, table
from fanfold.observe.item import item_json
from fanfold.plans.item import find_item
from fanfold.run.item_view import InputView, ItemView, PromptView, StepView
from fanfold.work.ask import Message, Reply
from fanfold.work.text import from_here
from fanfold.work.vote import label

MOST = 20_000  # characters of one text
MOST_COPIED = 200_000
_HOW = {
    "stored": "as sent",
    "matches": "rendered again: it is what was sent",
    "unchecked": "rendered again",
    "changed": "rendered again",
    "unknown": "not known",
}


_CONTROLS = "<!-- controls -->"
"""Where the buttons go: they are made anew for each reader, the rest may be a moment old."""


class Exchange(msgspec.Struct, frozen=True):
    """One request and what came back for it. `new`: the messages that the one before did not have."""

    prompt: PromptView
    new: tuple[Message, ...]
    reply: Reply | None
    counts: bool


def item_page(seen: SeenRun) -> UiPage:
    record, id = seen.record, seen.query.get("id", "")
    found = seen.later(f"item {id}", _body)
    up = (run_path(record.id, tab="items"), "items")
    head = crumbs(("/", "Runs"), (run_path(record.id), record.name), up) + f"<h1>{esc(id)}</h1>"
    body = found.value or note("It is being looked for.")
    body = body.replace(_CONTROLS, item_controls(seen, id), 1)
    return UiPage(
        title=id, body=head + body, follow=str(record.no), late=found.late,
        tick=5 if seen.runs_now else 0,
    )  # fmt: skip


def _body(seen: SeenRun) -> str:
    record = seen.record
    try:
        views = find_item(seen.view, record, seen.query.get("id", ""))
    except BadInput as error:
        raise RequestRefused(str(error), status=404) from None
    plan, whole = run_plan(record), item_json(record, views).decode()
    body = [part for view in views for part in _item(seen, plan, view)]
    if len(whole) <= MOST_COPIED:
        body.append(copied(whole, "Copy as JSON", shown="All of this page:"))
    return "\n".join(body)


def _item(seen: SeenRun, plan: RunPlan, view: ItemView) -> Iterator[str]:
    planned = seen.view.read.find_items(seen.record.no, view.id)
    place = next((one for one in planned if one.of == view.of), None)
    sizes = {of: size for of, (_, _, size) in seen.view.read.batches(seen.record.no).items()}
    last = next((step for step in reversed(view.steps) if step.state), None)
    state = last.state if last and last.state else "pending"
    where = (
        ""
        if place is None
        else f"item {place.position + 1:,} of {sizes.get(view.of, 0):,} of {view.of}"
    )
    cost = sum(one.cost for step in view.steps for one in step.attempts) or sum(
        s.cost for s in view.steps
    )
    calls = sum(max(step.calls, len(step.attempts)) for step in view.steps)
    yield (
        f'<p class="lead">{pill(state_name(state), f"o-{state}")}{esc(count(calls, "call"))},'
        f' {money(cost)}</p><p class="meta">{esc(where)}</p>{_CONTROLS}'
    )
    yield panel("Input", "".join(_input(view.input)))
    for step in view.steps:
        yield _step(plan, step)
    if state == "passed":
        yield place_html(seen, view, place, sizes.get(view.of, 0))


def _input(given: InputView) -> Iterator[str]:
    if given.where:
        yield f'<p class="meta">{esc(from_here(given.where))}</p>'
    if given.note:
        yield note(given.note)
    if given.known and given.data is not None:
        yield _text(given.data)


def _step(plan: RunPlan, step: StepView) -> str:
    body = []
    if step.state is not None:
        by = f" by {esc(step.member)}" if step.member else ""
        body.append(f'<p class="verdict">{pill(state_name(step.state), f"o-{step.state}")}{by}</p>')
    body += [f'<p class="reason">{esc(reason[:2000])}</p>' for reason in step.reasons]
    if step.damaged:
        body.append(note("What was recorded for it is damaged."))
    asked_within = step.state is None and bool(step.attempts)
    exchanges = [
        one for one in _exchanges(step) if not (asked_within and one.prompt.state == "unknown")
    ]
    body += [_exchange(plan, step, n, one, len(exchanges)) for n, one in enumerate(exchanges)]
    body += [
        _changes(n, a, b) for n, (a, b) in enumerate(pairwise(exchanges), 1) if a.reply and b.reply
    ]
    body += [_votes(step), _attempts(step)]
    return panel(f"Step {step.step}", "".join(body), "step")


def _votes(step: StepView) -> str:
    if not step.votes:
        return ""
    rows = [(one.member, label(one.answer)[:400] if one.counts else "no vote", "; ".join(one.reasons)[:400])
            for one in step.votes]  # fmt: skip
    columns = [HtmlColumn("voter", "short"), HtmlColumn("answer", "mid"), HtmlColumn("why", "mid")]
    return f"<h3>Votes, decided by {esc(step.decided)}</h3>{table(columns, rows)}"


def _exchanges(step: StepView) -> list[Exchange]:
    """The last one has the reply that counts. A request that was kicked back has its reply in the next
    one, where it is not shown again."""
    found: list[Exchange] = []
    before: tuple[Message, ...] = ()
    for n, prompt in enumerate(step.prompts):
        last = n == len(step.prompts) - 1
        shared = len(before) if before and prompt.messages[: len(before)] == before else 0
        new = prompt.messages[shared:]
        if shared and new and new[0].role == "assistant":
            if found[-1].reply is None:
                answered = _answered(new[0].content)
                found[-1] = msgspec.structs.replace(found[-1], reply=answered)
            new = new[1:]
        reply = step.reply if last and prompt.reply is None else prompt.reply
        found.append(Exchange(prompt, new, reply, last and reply is step.reply))
        before = prompt.messages
    return found or ([Exchange(PromptView("unknown"), (), step.reply, True)] if step.reply else [])


def _answered(content: str) -> Reply:
    """A reply as it was sent back: data where it is JSON."""
    with suppress(msgspec.DecodeError):
        return Reply(data=msgspec.json.decode(content))
    return Reply(content)


def _exchange(plan: RunPlan, step: StepView, n: int, one: Exchange, many: int) -> str:
    who = one.prompt.member or (step.member or "" if n == many - 1 else "")
    title = f"{n + 1}. {who}" if many > 1 else who
    note_text = f"{_HOW[one.prompt.state]}{f'; {one.prompt.note}' if one.prompt.note else ''}"
    said = "".join(_message(message) for message in one.new)
    if not one.prompt.messages and one.prompt.state != "unknown":
        said = note("No prompt: the member is given the item itself.")
    reply = note("No reply is on record.")
    if one.reply is not None:
        kept = "" if one.counts else _kicked(one.prompt.reasons)
        finish = f", ended with {one.reply.finish}" if one.reply.finish != "stop" else ""
        reply = f"{kept}{_text(one.reply.value)}{note(f'{one.reply.model or who}{finish}')}"
    curl = _curl(plan, who, one)
    copy = copied(curl, "Copy as curl", shown="This request:") if curl else ""
    return (
        f'<div class="exchange"><div><h3>Sent{f" · {esc(title)}" if title else ""}</h3>'
        f"{said}{note(note_text)}{copy}</div><div><h3>Reply</h3>{reply}</div></div>"
    )


def _kicked(reasons: tuple[str, ...]) -> str:
    said = "".join(f'<p class="reason">{esc(reason[:2000])}</p>' for reason in reasons)
    return f'<p class="note">Kicked back: it did not count.</p>{said}'


def _message(message: Message) -> str:
    return f'<p class="role">{esc(message.role)}</p>{_text(message.shown())}'


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value, MOST)
    more = f"\n… and {len(text) - MOST:,} more characters" if len(text) > MOST else ""
    return f"<pre>{esc(text[:MOST] + more)}</pre>"


def _changes(n: int, first: Exchange, second: Exchange) -> str:
    """What a revision or another member changed, word by word."""
    assert first.reply is not None and second.reply is not None
    a, b = (_plain(one.reply.value) for one in (first, second) if one.reply is not None)
    if a == b:
        return note(f"Reply {n + 1} is the same as reply {n}.")
    made = in_one(a, b)
    if made is None:
        return ""
    return f'<h3>What changed from reply {n} to {n + 1}</h3><pre class="diff">{made}</pre>'


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json_text(value, MOST)


def _attempts(step: StepView) -> str:
    if not step.attempts:
        if step.reply is not None and not step.calls and step.member:
            return note(f"No call: the reply of {step.member} was on record.")
        return note(f"{count(step.calls, 'call')}, free.") if step.calls else ""
    columns = [
        HtmlColumn("time", "short"), HtmlColumn("member", "short"), HtmlColumn("state", "short"),
        HtmlColumn("tokens in", "num"), HtmlColumn("out", "num"), HtmlColumn("took", "num"),
        HtmlColumn("cost", "num"), HtmlColumn("why this member", "mid"), HtmlColumn("error", "mid"),
    ]  # fmt: skip
    return f"<h3>Attempts</h3>{table(columns, [_attempt(one) for one in step.attempts])}"


def _attempt(one: AttemptRecord) -> Sequence[str]:
    more = len(one.ids) - 1
    shared = f" (with {count(more, 'other item')})" if more else ""
    return (
        clock_time(one.started), one.member, STATES[one.state],
        f"{one.usage.input + one.usage.cache_read + one.usage.cache_write:,}", f"{one.usage.output:,}",
        "" if one.took is None else duration(one.took),
        money(one.cost, at_most=one.bound or one.state == "started"),
        (one.why or "-")[:200] + shared, (one.error or "")[:400],
    )  # fmt: skip


def _curl(plan: RunPlan, who: str, one: Exchange) -> str:
    """The request for a shell: the address and the key are left to variables."""
    member = plan.member(who)
    if not one.prompt.messages or member.kind not in ("openai", "anthropic"):
        return ""
    if any(said.parts for said in one.prompt.messages):
        return ""
    body: dict[str, Any] = {"model": member.model or (one.reply.model if one.reply else "")}
    messages = [{"role": said.role, "content": said.content} for said in one.prompt.messages]
    if member.kind == "openai":
        path, key = "/chat/completions", "Authorization: Bearer $API_KEY"
        body["messages"] = messages
    else:
        path, key = "/v1/messages", "x-api-key: $API_KEY"
        system = [said["content"] for said in messages if said["role"] == "system"]
        body |= {"max_tokens": 4096, "messages": [s for s in messages if s["role"] != "system"]}
        body |= {"system": "\n".join(system)} if system else {}
    data = shlex.quote(msgspec.json.encode(body).decode())
    return (
        f'curl "$BASE_URL{path}" -H "{key}" -H "Content-Type: application/json"'
        + (' -H "anthropic-version: 2023-06-01"' if member.kind == "anthropic" else "")
        + f" --data-raw {data}"
    )
