"""Plan files: read, checked, and turned into records that can be carried out and stored."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from fanfold.errors import BadInput
from fanfold.members.entry import read_entry
from fanfold.members.roster import Roster
from fanfold.members.route import nearest
from fanfold.members.target import resolve_target
from fanfold.plans.asking import Asking
from fanfold.plans.file import PlanFields
from fanfold.plans.flow import check_flow
from fanfold.plans.header import Input, Overrides
from fanfold.plans.inputs import overridden, read_input
from fanfold.plans.places import check_extras
from fanfold.plans.plan import Plan, askings, with_concurrency
from fanfold.plans.reading import StepContext
from fanfold.plans.rows import kind_of
from fanfold.plans.steps.command import own_member
from fanfold.plans.steps.ensemble import Ensemble
from fanfold.plans.steps.map import Map
from fanfold.plans.steps.sequence import StepSequence
from fanfold.plans.tools import trouble_with_tools
from fanfold.plans.variables import read_vars, set_vars
from fanfold.run.settings import Govern
from fanfold.run.tools import SHARED_ASK
from fanfold.work.arguments import is_async
from fanfold.work.batch import without_service
from fanfold.work.check import described
from fanfold.work.document import Node, read
from fanfold.work.files import resolved
from fanfold.work.media_ask import refused_media
from fanfold.work.nearest import remedy
from fanfold.work.options import budget_of
from fanfold.work.reader import read_record, stated_in
from fanfold.work.tags import check_tags
from fanfold.work.task import Budget, Who

_NEED_NO_PROMPT = ("function", "replay")


def load_plan(
    path: str | Path, *, allow_outside: bool = False, overrides: Overrides = Overrides()
) -> Plan:
    """Read a plan with all it refers to: prompts and schemas are taken in, gates tried out.

    Nothing is asked, no input is read and nothing of the user's code is imported: see `import_all`.
    BadInput names the file and the line.
    """
    top = read(path)
    return read_plan(top, resolved(path).parent, allow_outside=allow_outside, overrides=overrides)


def read_plan(
    top: Node, folder: Path, *, allow_outside: bool = False, overrides: Overrides = Overrides()
) -> Plan:
    """A plan that was parsed, or made of something else; its paths start from `folder`."""
    _refuse_input_text(top)
    given = read_record(top, PlanFields)
    stated = {} if given.vars is UNSET else read_vars(top.child("vars"))
    values = set_vars(top, stated, overrides.vars)
    task = given.task or None
    steps = StepSequence(
        StepContext(folder, task, targets={}, when={}, allow_outside=allow_outside, vars=values)
    )
    steps.read(top.child("steps"), given.steps)
    govern = {} if given.govern is UNSET else stated_in(given.govern)
    plan = Plan(
        name=given.name or Path(top.file).stem,
        file=top.file,
        folder=str(folder),
        roster=given.roster or None,
        budget=Budget() if given.budget is UNSET else budget_of(given.budget),
        task=task,
        vars=values,
        overrides=overrides,
        input=overridden(_the_input(top, given.input, steps.input, values), overrides),
        govern=Govern(**govern),
        targets=steps.targets,
        when=steps.when,
        allow_outside=allow_outside,
        keep=given.keep or None,
        tags=() if given.tags is UNSET else _tags(top.child("tags"), given.tags),
        steps=tuple(steps.steps),
    )
    check_flow(plan)
    if overrides.concurrency is not None:
        plan = with_concurrency(plan, overrides.concurrency)
    return plan


def _refuse_input_text(top: Node) -> None:
    """Only the name of a file: what it is must be said."""
    said = top.value.get("input") if isinstance(top.value, dict) else None
    if isinstance(said, str):
        kind = "files" if has_magic(said) else kind_of(Path(said))
        shown = f'{kind}: "{said}"' if kind == "files" else f"{kind or 'jsonl'}: {said}"
        how = f"{'write' if kind else 'say what it is, such as'} `input: {{{shown}}}`"
        raise top.child("input").bad(f"an input must be a mapping, not {described(said)}; {how}")


def _tags(node: Node, given: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return check_tags(given, "tags")
    except BadInput as error:
        raise node.bad(str(error)) from None


def import_all(plan: Plan) -> None:
    """Before a run: the functions that the plan names are there. Reading it has not run any code."""
    plain = {target for step in plan.steps for target in step.plain_targets()}
    for target, line in plan.targets.items():
        found = resolve_target(target, plan.folder, file=plan.file, line=line)
        if target in plain and is_async(found):
            what = f"target `{target}` is `async def`, but nothing awaits it there"
            raise BadInput(f"{what}: give a plain function", file=plan.file, line=line)


def _the_input(top: Node, given: Any, listed: Input | None, values: dict[str, Any]) -> Input | None:
    """Of the plan's `input`, or of its `list_files`."""
    if given is UNSET:
        return listed
    node = top.child("input")
    if listed is not None:
        raise node.bad("state `input` or a `list_files` step, not both")
    return read_input(node, given, values)


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
        _check_tools(plan, asking, roster)
        _check_batch(plan, name, asking, roster)
        if isinstance(asking, Ensemble):
            _check_votes(plan, asking, roster)


def _bad(plan: Plan, asking: Asking, field: str, what: str) -> BadInput:
    return BadInput(what, file=plan.file, line=asking.lines.get(field, asking.line))


def _check_who(plan: Plan, asking: Asking, who: Who, roster: Roster) -> None:
    named = ("member", "members", "agent", "needs", "route")
    field = next((field for field in named if field in asking.lines), "")
    where = roster.called
    if not roster.entries:
        raise _bad(plan, asking, field, f"{where} has no members; add one, or name another roster")
    _check_named(plan, asking, field, who.members, roster)
    for id in who.members if who.needs else ():
        if lacks := set(who.needs) - set(roster.entries[id].traits.good_at):
            what = f"`route` names `{id}`, which is not good at {', '.join(sorted(lacks))}"
            raise _bad(plan, asking, "route", what)
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
    asked = (*candidates(asking.who, roster), *asking.who.fallback, *asking.escalate)
    named = (*asking.who.members, *asking.who.fallback, *asking.escalate)
    everyone = [roster.entries[id].traits for id in asked]
    if why := refused_media(everyone, asking.media, named):
        raise _bad(plan, asking, "prompt", f"`{name}`: {why}")
    if asking.prompt is not None:
        return
    for id in asked:
        kind = roster.entries[id].traits.kind
        if kind not in _NEED_NO_PROMPT:
            what = f"`{name}` has no `prompt`, but member `{id}` (kind {kind}) needs one"
            raise _bad(plan, asking, "", what)


def _check_batch(plan: Plan, name: str, asking: Asking, roster: Roster) -> None:
    asked = candidates(asking.who, roster)
    if asking.batch is None or not asked:
        return
    if all(roster.entries[id].traits.batch is None for id in asked):
        raise _bad(plan, asking, "batch", f"`{name}`: {without_service(asked)}")


def _check_tools(plan: Plan, asking: Asking, roster: Roster) -> None:
    """Who is named takes tools, and so does somebody of those who are not; of those who may answer the
    same ask all have the same."""
    traits = {id: entry.traits for id, entry in roster.entries.items()}
    first = [traits[id] for id in (*asking.who.members, *asking.who.fallback)]
    groups = [first, *([traits[id]] for id in asking.escalate)]
    if not asking.who.members:
        routed = [traits[id] for id in candidates(asking.who, roster)]
        fit = [one for one in routed if asking.tools is None or one.takes_tools]
        groups[0] = [*(fit or routed), *first]
    if isinstance(asking, Ensemble):
        groups = [[one] for group in groups for one in group]
    for group in groups:
        if what := trouble_with_tools(asking.tools, group):
            field = "member" if asking.tools is None else "tools"
            raise _bad(plan, asking, field, what)
    if asking.tools is not None and isinstance(asking, Map) and asking.shard is not None:
        raise _bad(plan, asking, "tools", SHARED_ASK)


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
