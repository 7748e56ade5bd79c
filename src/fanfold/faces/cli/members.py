"""`fanfold members`: the menu, who would be asked for a task and why, and `members set`, which changes a
member in its roster file."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from fanfold.clock import RealClock
from fanfold.errors import BadInput
from fanfold.faces.cli import members_ask
from fanfold.faces.cli.options import json_option
from fanfold.faces.cli.orchestrator import leads_by_mcp
from fanfold.faces.cli.store import opened
from fanfold.faces.cli.store import opened as _archive
from fanfold.faces.cli.store import store_option as _store
from fanfold.faces.extra import missing_extra
from fanfold.journal import opening
from fanfold.journal.decide import month_of
from fanfold.journal.places import scheme_of
from fanfold.members.edit import add_member, edit_roster, parse_edit
from fanfold.members.kinds import WORKERS
from fanfold.members.providers import PROVIDERS
from fanfold.members.roster import DEFAULT_ROSTER, Roster, find_roster, load_roster
from fanfold.members.route import ORDER, Need, explain, rank
from fanfold.observe.menu import menu, menu_json
from fanfold.run.choose import months_used_up
from fanfold.run.hosts import trouble_with_hosts
from fanfold.run.loop import run_sync
from fanfold.run.ray import trouble_with_ray
from fanfold.work.item import Item
from fanfold.work.member import MemberStats, Traits
from fanfold.work.nearest import remedy
from fanfold.work.options import needed
from fanfold.work.routed import read_route


class TaskQuery(msgspec.Struct, frozen=True):
    """The options of `--why`. `needs` may hold several words each, with commas between them."""

    why: bool = False
    needs: tuple[str, ...] = ()
    tokens: int = 0
    allow_paid: bool = False
    route: str | None = None
    item: str | None = None

    def __bool__(self) -> bool:
        return self.why or bool(self.needs) or self.tokens > 0 or self.route is not None

    @property
    def words(self) -> tuple[str, ...]:
        found = [word.strip() for given in self.needs for word in given.split(",")]
        return tuple(dict.fromkeys(word for word in found if word))


def explain_choice(roster: Roster, store: str, asked: TaskQuery, as_json: bool) -> None:
    """Nobody fits: everyone with what is in the way, then refused with the nearest miss."""
    if asked.route is not None:
        return explain_route(roster, asked, as_json)
    if asked.item is not None:
        raise BadInput("`--item` goes with `--route`")
    traits = {id: entry.traits for id, entry in roster.entries.items()}
    stats, closed = _past(traits, store)
    need = Need(
        needs=asked.words,
        tokens=asked.tokens,
        allow_paid=asked.allow_paid or roster.settings.allow_paid,
        closed=closed,
    )
    ranking = rank(tuple(traits.values()), need, stats)
    if as_json:
        said = {"ranked": ranking.ranked, "barred": ranking.barred, "miss": ranking.miss or None}
        click.echo(msgspec.json.encode(said))
    elif lines := explain(ranking):
        click.echo("\n".join([*lines, *([ORDER] if len(ranking.ranked) > 1 else ())]))
    if ranking.miss:
        raise BadInput(ranking.miss)
    return None


def explain_route(roster: Roster, asked: TaskQuery, as_json: bool) -> None:
    """Whom a route names, which was learned perhaps; with an item, who is asked about that."""
    route = needed("--route", asked.route, read_route)
    for id in route.members:
        if id not in roster.entries:
            raise BadInput(f"--route: there is no member `{id}`: {remedy(id, roster.entries)}")
    item = None
    if asked.item is not None:
        try:
            data = msgspec.json.decode(asked.item)
        except msgspec.DecodeError as error:
            raise BadInput(f"--item is not JSON: {error}") from None
        item = Item("item", data)
    if as_json:
        member = None if item is None else route.member(item)
        click.echo(msgspec.json.encode({"member": member, "route": route}))
    else:
        click.echo("\n".join(route.explain(item)))


def _past(
    traits: Mapping[str, Traits], store: str
) -> tuple[dict[str, MemberStats], dict[str, str]]:
    """How each did so far, at whatever it was asked, and who has used up its budget of the month."""
    if not opening.exists(store):
        return {}, {}
    with opened(store) as archive:
        read, clock = archive.read, RealClock()
        found = {id: read.member_stats(id, one.answerer, None) for id, one in traits.items()}
        stats = {id: one for id, one in found.items() if one is not None}
        return stats, months_used_up(read, traits, clock)


@click.command()
@click.option("--roster", metavar="FILE", help="The roster to show.")
@_store
@json_option
@click.option("--check", is_flag=True, help="Check whether each can be used from here.")
@click.option(
    "--ask", is_flag=True, help="With --check: send one short call to each, after showing the cost."
)
@click.option("--yes", is_flag=True, help="With --ask: do not ask for confirmation.")
@click.option("--why", is_flag=True, help="Who would be asked for a task, and why.")
@click.option("--needs", multiple=True, metavar="WORDS", help="What the task needs; with --why.")
@click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(0),
    default=0,
    help="Tokens of its prompt; with --why.",
)
@click.option("--allow-paid", is_flag=True, help="Paid members may be used; with --why.")
@click.option("--route", metavar="FILE", help="Learned routes: `learned`, or a file; with --why.")
@click.option("--item", metavar="JSON", help="Who is asked about this item; with --route.")
def list_members(roster: str | None, store: str, as_json: bool, check: bool, **asked: Any) -> None:
    """List the members of the roster: what each is good at and what it costs."""
    asks, yes = asked.pop("ask"), asked.pop("yes")
    found = find_roster(roster, None, Path.cwd())
    loaded = load_roster(found)
    if task := TaskQuery(**asked):
        return explain_choice(loaded, store, task, as_json)
    traits = {id: entry.traits for id, entry in loaded.entries.items()}
    if (asks and not check) or (yes and not asks):
        raise BadInput("`--ask` goes with `--check`, `--yes` with `--ask`")
    trouble = asyncio.run(_check(loaded, found, store)) if check else {}
    used = _used(traits, store)
    if as_json:
        click.echo(msgspec.json.encode(menu_json(traits, trouble, used)))
    elif not traits:
        click.echo("no members: write some into the roster, or name another with --roster")
    else:
        width = shutil.get_terminal_size((100, 24)).columns
        click.echo(menu(traits, trouble, width, used))
    if asks:
        _ask(loaded, found, store, trouble, yes)
    if found == DEFAULT_ROSTER:
        click.echo("there is no roster.yaml here: these members come with fanfold", err=True)
    return None


def _ask(
    roster: Roster, file: Path, store: str, trouble: Mapping[str, str | None], yes: bool
) -> None:
    """A line for each; exit code 1 when somebody who was asked does not answer."""
    folder = Path.cwd() if file == DEFAULT_ROSTER else file.parent
    left_out = members_ask.skipped(roster, trouble)
    ids = [id for id in roster.entries if id not in left_out]
    for id, why in left_out.items():
        click.echo(members_ask.CheckedMember(id, skipped=why).line)
    if not ids:
        return
    whole, unpriced = members_ask.most(roster, ids, folder)
    members_ask.agree(whole, unpriced, len(ids), yes)
    found = run_sync(members_ask.ask_all(roster, ids, store, whole))
    for one in found:
        click.echo(one.line)
    if any(one.error is not None for one in found):
        sys.exit(1)


def _used(traits: Mapping[str, Traits], store: str) -> dict[str, int]:
    """What members with a monthly budget took so far this month, in nano-dollars."""
    budgeted = [id for id, one in traits.items() if one.budget_usd_month is not None]
    if not budgeted or not opening.exists(store):
        return dict.fromkeys(budgeted, 0)
    with _archive(store) as archive:
        month, read = month_of(time.time()), archive.read
        return {id: read.month_use(id, month).whole for id in budgeted}


async def _check(roster: Roster, file: Path, store: str) -> dict[str, str | None]:
    folder = Path.cwd() if file == DEFAULT_ROSTER else file.parent
    placed = [one.traits for one in roster.entries.values() if one.traits.at == WORKERS]
    on_hosts = [one.traits for one in roster.entries.values() if one.traits.hosts is not None]
    ids = [id for id, one in roster.entries.items() if not one.traits.at]
    found = await asyncio.gather(*(roster.trouble_with(id, folder=folder) for id in ids))
    troubles = dict(zip(ids, found, strict=True))
    place = roster.settings.queue or store
    if placed and scheme_of(place) == "ray":
        troubles |= dict.fromkeys((one.id for one in placed), await trouble_with_ray(place))
    elif placed:
        queue = opening.open_queue(roster.settings.queue or store).state()
        troubles |= {one.id: queue.trouble(one) for one in placed}
    said = await asyncio.gather(*(trouble_with_hosts(one) for one in on_hosts))
    troubles |= {one.id: why for one, why in zip(on_hosts, said, strict=True)}
    leading = [id for id in ids if leads_by_mcp(roster.entry(id))]
    if leading and (missing := missing_extra()):
        troubles |= {id: missing for id in leading if troubles[id] is None}
    return troubles


@click.command("set")
@click.argument("id", metavar="ID")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD=VALUE...")
@click.option("--roster", metavar="FILE", help="The roster to change.")
@click.pass_context
def set_fields(
    context: click.Context, id: str, fields: tuple[str, ...], roster: str | None
) -> None:
    """Change a member in the roster file. All other lines and all comments stay as they are.

    FIELD= takes a field away. Lists and mappings go in brackets: good_at=[legal, summaries].
    """
    above = context.parent.params.get("roster") if context.parent else None
    file = find_roster(roster or above, None, Path.cwd())
    changed = edit_roster(file, id, [parse_edit(word) for word in fields])
    for one in changed:
        click.echo(f"{file}:{one.line}: {one.sign} {one.text}")
    if not changed:
        click.echo(f"{file}: nothing to change")


@click.command("add")
@click.argument("id", metavar="ID", required=False)
@click.option("--provider", metavar="NAME", help="anthropic, openai, groq, ollama, … .")
@click.option("--model", metavar="NAME", help="The model, as the provider calls it.")
@click.option(
    "--base-url", metavar="URL", help="Where it is, if not at the provider's usual address."
)
@click.option("--roster", metavar="FILE", help="The roster to change; created if missing.")
@click.pass_context
def add(
    context: click.Context, id: str | None, provider: str | None, model: str | None,
    base_url: str | None, roster: str | None,
) -> None:  # fmt: skip
    """Write a member into the roster file. What is not stated is asked: its id, its provider, its
    model."""
    above = context.parent.params.get("roster") if context.parent else None
    try:
        id = id or click.prompt("id, by which plans name it", err=True)
        provider = provider or click.prompt("provider", err=True)
        model = model or click.prompt("model", err=True)
    except click.Abort:
        raise BadInput(
            "state ID, --provider and --model; they can be typed only in a terminal"
        ) from None
    names = sorted({"anthropic", *filter(None, PROVIDERS)})
    if provider not in names:
        raise BadInput(f"unknown provider `{provider}`: {remedy(str(provider), names)}")
    who = {"kind": "anthropic"} if provider == "anthropic" else {"provider": provider}
    fields = {"id": id, **who, "model": model, **({"base_url": base_url} if base_url else {})}
    file = Path(roster or above or "roster.yaml")
    for one in add_member(file, {name: str(value) for name, value in fields.items()}):
        click.echo(f"{file}:{one.line}: {one.sign} {one.text}")


@click.pass_context
def _menu(context: click.Context, /, **given: Any) -> None:
    if context.invoked_subcommand is None:
        context.invoke(list_members, **given)


members = click.Group(
    "members", commands=[add, set_fields], callback=_menu, params=list_members.params, help=list_members.help,
    invoke_without_command=True, subcommand_metavar="[add [ID] | set ID FIELD=VALUE...]",
)  # fmt: skip
