"""Plan files: read, checked, and turned into records that can be carried out and stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from fanfold.errors import BadInput
from fanfold.members.entry import read_entry
from fanfold.members.roster import Roster
from fanfold.members.route import nearest
from fanfold.members.target import resolve_target
from fanfold.plans.flow import check_flow
from fanfold.plans.inputs import overridden
from fanfold.plans.places import check_extras
from fanfold.plans.plan import (
    INPUT_KINDS,
    Asking,
    Ensemble,
    Input,
    Map,
    Overrides,
    Plan,
    with_concurrency,
)
from fanfold.plans.steps.singles import own_member
from fanfold.plans.steps.stated import Steps
from fanfold.plans.variables import filled, read_vars, set_vars
from fanfold.plans.walk import askings
from fanfold.run.govern import Govern
from fanfold.work.check import (
    Check,
    anything,
    elements,
    fields,
    many,
    number,
    one_of,
    text,
    whole,
)
from fanfold.work.document import Node, read
from fanfold.work.nearest import remedy
from fanfold.work.options import read_budget
from fanfold.work.task import Budget, Who

_PATHS = ("jsonl", "json", "csv", "tsv", "lines", "files")
_NEED_NO_PROMPT = ("function", "replay")


def load_plan(
    path: str | Path, *, allow_outside: bool = False, overrides: Overrides = Overrides()
) -> Plan:
    """Read a plan with all it refers to: prompts and schemas are taken in, gates tried out.

    Nothing is asked, no input is read and nothing of the user's code is imported: see `import_all`.
    BadInput names the file and the line.
    """
    folder = Path(path).resolve().parent
    return read_plan(read(path), folder, allow_outside=allow_outside, overrides=overrides)


def read_plan(
    top: Node, folder: Path, *, allow_outside: bool = False, overrides: Overrides = Overrides()
) -> Plan:
    """A plan that was parsed, or made of something else; its paths start from `folder`."""
    stated = fields(top, _PLAN, "a plan", required=("steps",))
    values = set_vars(top, stated.get("vars", {}), overrides.vars)
    steps = Steps(folder, stated.get("task"), values, allow_outside=allow_outside)
    steps.read(top.child("steps"))
    given = _the_input(top, stated.get("input"), steps.input, values)
    plan = Plan(
        name=stated.get("name", Path(top.file).stem),
        file=top.file,
        folder=str(folder),
        roster=stated.get("roster"),
        budget=stated.get("budget", Budget()),
        task=stated.get("task"),
        vars=values,
        overrides=overrides,
        input=overridden(given, overrides),
        govern=stated.get("govern", Govern()),
        targets=steps.targets,
        allow_outside=allow_outside,
        keep=stated.get("keep"),
        steps=tuple(steps.steps),
    )
    check_flow(plan)
    if overrides.concurrency is not None:
        plan = with_concurrency(plan, overrides.concurrency)
    return plan


def import_all(plan: Plan) -> None:
    """Before a run: the functions that the plan names are there. Reading it has not run any code."""
    for target, line in plan.targets.items():
        resolve_target(target, plan.folder, file=plan.file, line=line)


def _the_input(
    top: Node, stated: Input | None, listed: Input | None, values: dict[str, Any]
) -> Input | None:
    if stated and listed:
        raise top.child("input").bad("state `input` or a `list_files` step, not both")
    if stated is not None and stated.kind in _PATHS:
        node = top.child("input").child(stated.kind)
        return msgspec.structs.replace(stated, value=filled(node, stated.value, values))
    return stated or listed


def _read_govern(node: Node) -> Govern:
    known: dict[str, Check] = {
        "max_tasks": whole(least=0),
        "approve_over": number(least=0),
        "cap": whole(least=0),
    }
    return Govern(**fields(node, known, "govern"))


def parse_budget(said: str) -> Budget:
    """`5` (dollars) or `usd=5,calls=900`, as typed after `--budget`."""
    amounts: dict[str, Any] = {}
    for part in said.split(",") if "=" in said else [f"usd={said}"]:
        name, _, amount = part.partition("=")
        if name.strip() in amounts:
            raise BadInput(f"--budget: `{name.strip()}` is given twice")
        amounts[name.strip()] = _amount(amount.strip())
    try:
        return read_budget(Node(amounts, "--budget", {}))
    except BadInput as error:
        raise BadInput(f"--budget: {error.what}") from None


def parse_budgets(said: str) -> tuple[Budget | None, dict[str, Budget]]:
    """The same with amounts of single steps among them: `usd=5,map.usd=2`. None: nothing was said of
    the whole."""
    whole: list[str] = []
    steps: dict[str, list[str]] = {}
    for part in said.split(",") if "=" in said else [said]:
        step, dot, name = part.partition("=")[0].strip().rpartition(".")
        if dot and "=" in part:
            steps.setdefault(step, []).append(f"{name}={part.partition('=')[2]}")
        else:
            whole.append(part)
    found = {step: parse_budget(",".join(parts)) for step, parts in steps.items()}
    for budget in found.values():
        if budget.seconds is not None:
            raise BadInput("--budget: `seconds` are of the whole run, not of a step")
    return parse_budget(",".join(whole)) if whole else None, found


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
    **dict.fromkeys(("jsonl", "json", "csv", "tsv", "lines", "files"), text),
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
    "vars": read_vars,
    "input": _read_input,
    "govern": _read_govern,
    "keep": one_of("prompts"),
    "steps": anything,
}


# ── does it fit the roster? ──────────────────────────────────────────────────────────────────


def with_commands(plan: Plan, roster: Roster) -> Roster:
    """The roster, and the programs that the plan's own steps bring along. When the operator says how
    many calls there are at once, the process takes as many."""
    added = {}
    for name, asking in askings(plan):
        if isinstance(asking, Map) and asking.command is not None:
            if name in roster.entries:
                what = f"a member of the roster is called `{name}` too; give the step another name"
                raise _bad(plan, asking, "name", what)
            added[name] = read_entry(own_member(plan.file, asking.line or 1, name, asking.command))
    settings, many = roster.settings, plan.overrides.concurrency or 0
    if many > settings.max_concurrency:
        settings = msgspec.structs.replace(settings, max_concurrency=many)
    return msgspec.structs.replace(roster, entries={**roster.entries, **added}, settings=settings)


def check_plan(plan: Plan, roster: Roster) -> None:
    """Every member the plan names is there and switched on, and someone fits every `needs`. What is
    needed to write its files is installed."""
    check_extras(plan)
    for name, asking in askings(plan):
        _check_who(plan, asking, asking.who, roster)
        _check_named(plan, asking, "fallback", asking.who.fallback, roster)
        _check_named(plan, asking, "escalate", asking.escalate, roster)
        _check_prompt(plan, name, asking, roster)
        if isinstance(asking, Ensemble):
            _check_votes(plan, asking, roster)


def _bad(plan: Plan, asking: Asking, field: str, what: str) -> BadInput:
    return BadInput(what, file=plan.file, line=asking.lines.get(field, asking.line))


def _check_who(plan: Plan, asking: Asking, who: Who, roster: Roster) -> None:
    field = next((f for f in ("member", "members", "agent", "needs") if f in asking.lines), "")
    where = roster.called
    if not roster.entries:
        raise _bad(plan, asking, field, f"{where} has no members; add one, or name another roster")
    _check_named(plan, asking, field, who.members, roster)
    if not candidates(who, roster):
        what = f"no member of {where} is good at {', '.join(who.needs)}" if who.needs else (
            f"no member of {where} is switched on")  # fmt: skip
        on = [entry.traits for entry in roster.entries.values() if entry.traits.enabled]
        near = nearest(who.needs, on)
        raise _bad(plan, asking, field, f"{what}; nearest: {near}" if near else what)


def _check_named(
    plan: Plan, asking: Asking, field: str, named: tuple[str, ...], roster: Roster
) -> None:
    for id in named:
        entry = roster.entries.get(id)
        if entry is None:
            where = roster.called if roster.own else "the roster"
            what = f"there is no member `{id}` in {where}: {remedy(id, roster.entries)}"
            raise _bad(plan, asking, field, what)
        if not entry.traits.enabled:
            raise _bad(plan, asking, field, f"member `{id}` is switched off (enabled: false)")


def candidates(who: Who, roster: Roster) -> list[str]:
    """Who may answer, by the roster alone: whether paid ones are allowed is not looked at here."""
    if who.members:
        return list(who.members)
    needs = set(who.needs)
    found = [
        id for id, entry in roster.entries.items()
        if entry.traits.enabled and needs <= set(entry.traits.good_at)
    ]  # fmt: skip
    return found[: who.use]


def _check_prompt(plan: Plan, name: str, asking: Asking, roster: Roster) -> None:
    if asking.prompt is not None:
        return
    for id in (*candidates(asking.who, roster), *asking.who.fallback, *asking.escalate):
        kind = roster.entries[id].traits.kind
        if kind not in _NEED_NO_PROMPT:
            what = f"`{name}` has no `prompt`, but member `{id}` (kind {kind}) needs one"
            raise _bad(plan, asking, "", what)


def _check_votes(plan: Plan, step: Ensemble, roster: Roster) -> None:
    voters = candidates(step.who, roster)
    many = step.samples or len(voters)
    if step.quorum is not None and step.quorum > many:
        what = f"`quorum` is {step.quorum} voters, but there are only {many} of them"
        raise _bad(plan, step, "quorum", what)
    for id in step.weights:
        if id not in voters:
            what = f"`weights` names `{id}`, which is no voter: {remedy(id, voters)}"
            raise _bad(plan, step, "weights", what)
