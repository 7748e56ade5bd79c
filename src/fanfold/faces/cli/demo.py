"""`fanfold demo`: a reference application on its embedded default."""

from __future__ import annotations

import shlex
import shutil
from importlib import resources
from pathlib import Path

import click

from fanfold.errors import BadInput
from fanfold.faces.cli.carry import perform
from fanfold.plans.execute import Options, prepare

DEMOS = ("contracts",)
USUAL_STORE = ".fanfold"


@click.command()
@click.argument("name", metavar="[NAME]", default="contracts", type=click.Choice(DEMOS))
@click.option("--store", default=USUAL_STORE, metavar="DIR", help="Where runs are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print one receipt object, no more.")
@click.option("--quiet", is_flag=True, help="No progress.")
def demo(name: str, store: str, as_json: bool, quiet: bool) -> int:
    """Run a reference application. It needs no key, no account and no network."""
    folder = Path(store) / "demo" / name
    _unpack(name, folder)
    job = prepare(str(folder / "plan.yaml"), Options(store=store))
    code = perform(job, as_json=as_json, quiet=quiet)
    if not as_json:
        words = ["fanfold", "report", job.name, *_where(store)]
        click.echo(f"report: {folder / 'report.md'}    account: {shlex.join(words)}")
    return code


def _unpack(name: str, folder: Path) -> None:
    """The demo's files, into the store; those of an earlier time are written over."""
    ignore = shutil.ignore_patterns("__pycache__")
    try:
        with resources.as_file(resources.files("fanfold") / "apps" / name) as shipped:
            shutil.copytree(shipped, folder, dirs_exist_ok=True, ignore=ignore)
    except (OSError, shutil.Error) as error:
        why = getattr(error, "strerror", None) or "its files cannot be written"
        raise BadInput(f"{folder}: {why.lower()}; use --store DIR") from None


def _where(store: str) -> list[str]:
    return [] if store == USUAL_STORE else ["--store", store]
