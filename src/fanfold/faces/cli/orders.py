"""`fanfold pause`, `set`, `approve` and `skip`: orders to a run, also while it runs."""

from __future__ import annotations

import getpass
from collections.abc import Sequence

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.options import json_option
from fanfold.faces.cli.store import find_run, located, looked_at, opened, store_option
from fanfold.journal.answers import OrderRecord
from fanfold.journal.facts import RunRecord
from fanfold.journal.opening import open_store
from fanfold.run.loop import run_sync
from fanfold.run.orders import Verb, WorkerMessage, give, held, is_under_way, parse_change
from fanfold.run.record import RESUMABLE
from fanfold.work.nearest import remedy

_run = click.argument("run", metavar="RUN")
_items = click.argument("items", nargs=-1, required=True, metavar="ITEM...")


@click.command()
@_run
@store_option
@json_option
def pause(run: str, store: str, as_json: bool) -> None:
    """Send nothing new until `fanfold resume RUN`; what is under way ends by itself. The process of
    the run stays."""
    _order(run, store, "pause", [""], as_json=as_json)


@click.command()
@_run
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE...")
@store_option
@json_option
def set_(run: str, changes: tuple[str, ...], store: str, as_json: bool) -> None:
    """Change a run while it runs: budget=TOTAL, concurrency=N, STEP.budget=TOTAL, STEP.concurrency=N,
    MEMBER.limits.rpm=N (or tpm, concurrency), MEMBER=on or off, WORKER.max_budget_usd=USD (from its
    next start on), or `roster`, which is then read again. The changes also apply when the run is resumed."""
    for change in changes:
        parse_change(change)
    _order(run, store, "set", changes, as_json=as_json)


@click.command()
@_run
@store_option
@json_option
def approve(run: str, store: str, as_json: bool) -> None:
    """Approve stages that turned out larger than the preview said, up to the cap."""
    _order(run, store, "approve", [""], as_json=as_json)


@click.command()
@_run
@_items
@store_option
@json_option
def skip(run: str, items: tuple[str, ...], store: str, as_json: bool) -> None:
    """Leave these items out, if they are not asked yet."""
    _order(run, store, "skip", items, as_json=as_json)


@click.command()
@_run
@click.argument("worker", metavar="WORKER")
@click.argument("text", metavar="TEXT")
@store_option
@json_option
def tell(run: str, worker: str, text: str, store: str, as_json: bool) -> None:
    """Give a worker a message. A claude at work gets it at once and reads it after its current step; any
    other worker gets it with its prompt when it is started next, such as by `fanfold relaunch`. The output
    says which."""
    _refuse_unknown_worker(run, store, worker)
    value = msgspec.json.encode(WorkerMessage(worker, text)).decode()
    _order(run, store, "tell", [value], as_json=as_json)


def _refuse_unknown_worker(run: str, store: str, worker: str) -> None:
    """An item that no agent worked for never starts again once the run is over. Before that it may."""
    with looked_at(located(run, store)) as opened:
        record, known = opened.record, opened.snapshot().names()
    if record.status not in RESUMABLE and worker not in known:
        hint = remedy(worker, known) if known else "no agent has worked in this run"
        raise BadInput(f"there is no worker {worker!r} in {record.name} ({record.id}): {hint}")


# ── giving them ──────────────────────────────────────────────────────────────────────────────


def _order(run: str, store: str, what: Verb, values: Sequence[str], *, as_json: bool) -> None:
    """One after the other; at the first that is refused it ends."""
    where = located(run, store)
    record, given = run_sync(_given(where.store, where.run, what, values))
    if as_json:
        click.echo(msgspec.json.encode(given))
    else:
        for order in given:
            click.echo(_text(order, record))
    if given[-1].state == "refused":
        raise BadInput(f"{record.name} ({record.id}): {given[-1].said}")


async def _given(
    place: str, run: str, what: Verb, values: Sequence[str]
) -> tuple[RunRecord, list[OrderRecord]]:
    with opened(place) as archive:  # a store that is not there is not made
        find_run(archive, run)
    store = open_store(place)
    try:
        record, given = find_run(store, run), list[OrderRecord]()
        for value in values:
            given.append(await give(store, record, operator(), what, value))
            if given[-1].state == "refused":
                break
        return record, given
    finally:
        store.close()


def resume_held(place: str, run: str) -> bool:
    """Let a run that is paused, and whose process waits, go on. False: there is none."""
    with opened(place) as archive:
        record = archive.read.find(run)
        if record is None or record.status != "running" or not held(archive.read, record.no):
            return False
        if not is_under_way(archive, record.no):
            return False
    record, (order,) = run_sync(_given(place, run, "resume", [""]))
    click.echo(_text(order, record))
    return True


def operator() -> str:
    """Who gives orders here."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return "the operator"


def _text(order: OrderRecord, record: RunRecord) -> str:
    what = f"{order.what} {order.value}".strip()
    if order.what == "tell" and order.state != "refused":
        id = msgspec.json.decode(order.value, type=WorkerMessage).worker
        again = f"fanfold relaunch {record.name} {id} --continue"
        said = order.said or f"it gets the message at its next start, such as by: {again}"
        return f"{record.name} ({record.id}): {id}: {said}"
    match order.state:
        case "done":
            return f"{record.name} ({record.id}): {what}"
        case "given":
            return f"{record.name} ({record.id}): {what}, when it is resumed"
    return f"{record.name} ({record.id}): {what} was refused"
