"""Plan files: read, checked, and turned into records that can be carried out and stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fanfold.errors import BadInput
from fanfold.members.roster import Roster
from fanfold.plans.asking import read_budget
from fanfold.plans.plan import INPUT_KINDS, Input, Map, Plan, Reduce
from fanfold.plans.stated import Steps
from fanfold.work.check import Check, anything, elements, fields, many, text, whole
from fanfold.work.document import Node, read
from fanfold.work.nearest import remedy
from fanfold.work.task import Budget, Who

_NEED_NO_PROMPT = ("function", "replay")


def load_plan(path: str | Path) -> Plan:
    """Read a plan with all it refers to: prompts and schemas are taken in, gates tried out.

    Nothing is asked and no input is read. BadInput names the file and the line.
    """
    top = read(path)
    stated = fields(top, _PLAN, "a plan", required=("steps",))
    folder = Path(path).resolve().parent
    steps = Steps(folder, stated.get("task"))
    steps.read(top.child("steps"))
    return Plan(
        name=stated.get("name", Path(path).stem),
        file=str(path),
        folder=str(folder),
        roster=stated.get("roster"),
        budget=stated.get("budget", Budget()),
        task=stated.get("task"),
        input=_the_input(top, stated.get("input"), steps.input),
        steps=tuple(steps.steps),
    )


def _the_input(top: Node, stated: Input | None, listed: Input | None) -> Input:
    if stated and listed:
        raise top.child("input").bad("state `input` or a `list_files` step, not both")
    found = stated or listed
    if found is None:
        raise top.bad(f"a plan needs the field `input`: one of {', '.join(INPUT_KINDS)}")
    return found


def parse_budget(said: str) -> Budget:
    """`5` (dollars) or `usd=5,calls=900`, as typed after `--budget`."""
    amounts: dict[str, Any] = {}
    for part in said.split(",") if "=" in said else [f"usd={said}"]:
        name, _, amount = part.partition("=")
        if name.strip() in amounts:
            raise BadInput(f"--budget: `{name.strip()}` is there twice")
        amounts[name.strip()] = _amount(amount.strip())
    try:
        return read_budget(Node(amounts, "--budget", {}))
    except BadInput as error:
        raise BadInput(f"--budget: {error.what}") from None


def _amount(written: str) -> Any:
    for kind in (int, float):
        try:
            return kind(written)
        except ValueError:
            continue
    return written


# ── input ────────────────────────────────────────────────────────────────────────────────────


def _read_input(node: Node) -> Input:
    stated = fields(node, _INPUT, "an input")
    kinds = [kind for kind in INPUT_KINDS if kind in stated]
    if len(kinds) != 1:
        found = " and ".join(f"`{kind}`" for kind in kinds) or "none"
        raise node.bad(f"an input needs exactly one of {', '.join(INPUT_KINDS)}; found {found}")
    kind = kinds[0]
    if "id" in stated and kind in ("lines", "files", "count"):
        raise node.child("id").bad(f"`id` has no use with `{kind}`: it has no fields")
    value = stated[kind]
    return Input(
        kind, list(value) if isinstance(value, tuple) else value, stated.get("id"),
        stated.get("limit"), node.file, node.line,
    )  # fmt: skip


def _read_url(node: Node) -> str:
    url = text(node)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        secret = parts.username is not None
    except ValueError:
        usable, secret = False, False
    if secret or not usable:
        raise node.bad("`http` must be an http:// or https:// URL without a name or password")
    return url


def _read_list(node: Node) -> list[Any]:
    return [child.value for child in elements(node)]


_INPUT: dict[str, Check] = {
    **dict.fromkeys(("jsonl", "json", "csv", "lines", "files"), text),
    "list": _read_list,
    "count": whole(least=1),
    "command": many(text, least=1),
    "http": _read_url,
    "id": text,
    "limit": whole(least=1),
}
_PLAN: dict[str, Check] = {
    "name": text,
    "roster": text,
    "budget": read_budget,
    "task": text,
    "input": _read_input,
    "steps": anything,
}


# ── does it fit the roster? ──────────────────────────────────────────────────────────────────


def check_plan(plan: Plan, roster: Roster) -> None:
    """Every member the plan names is there and switched on, and someone fits every `needs`."""
    for step in plan.steps:
        if isinstance(step, Map):
            _check_who(plan, step, step.who, roster)
            _check_named(plan, step, "escalate", step.escalate, roster)
            _check_prompt(plan, step, roster)
        elif isinstance(step, Reduce) and step.kind == "ask":
            who = Who(tuple(step.options["members"]), tuple(step.options["needs"]))
            _check_who(plan, step, who, roster)


def _bad(plan: Plan, step: Map | Reduce, field: str, what: str) -> BadInput:
    return BadInput(what, file=plan.file, line=step.lines.get(field, step.line))


def _check_who(plan: Plan, step: Map | Reduce, who: Who, roster: Roster) -> None:
    field = next((f for f in ("member", "members", "agent", "needs") if f in step.lines), "")
    where = f"the roster {roster.file}" if roster.file else "the roster"
    if not roster.entries:
        raise _bad(plan, step, field, f"{where} has no members; add one, or name another roster")
    _check_named(plan, step, field, who.members, roster)
    if not _candidates(who, roster):
        what = f"no member of {where} is good at {', '.join(who.needs)}" if who.needs else (
            f"no member of {where} is switched on")  # fmt: skip
        raise _bad(plan, step, field, what)


def _check_named(
    plan: Plan, step: Map | Reduce, field: str, named: tuple[str, ...], roster: Roster
) -> None:
    for id in named:
        entry = roster.entries.get(id)
        if entry is None:
            what = f"there is no member `{id}` in the roster: {remedy(id, roster.entries)}"
            raise _bad(plan, step, field, what)
        if not entry.traits.enabled:
            raise _bad(plan, step, field, f"member `{id}` is switched off (enabled: false)")


def _candidates(who: Who, roster: Roster) -> list[str]:
    if who.members:
        return list(who.members)
    needs = set(who.needs)
    return [
        id for id, entry in roster.entries.items()
        if entry.traits.enabled and needs <= set(entry.traits.good_at)
    ]  # fmt: skip


def _check_prompt(plan: Plan, step: Map, roster: Roster) -> None:
    if step.prompt is not None:
        return
    for id in (*_candidates(step.who, roster), *step.escalate):
        kind = roster.entries[id].traits.kind
        if kind not in _NEED_NO_PROMPT:
            what = f"`{step.name}` has no `prompt`, but member `{id}` (kind {kind}) needs one"
            raise _bad(plan, step, "", what)
