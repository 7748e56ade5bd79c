"""`fanfold demo`: a reference application on its embedded default."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path

import click

from fanfold.faces.cli.carry import perform
from fanfold.plans.execute import Options, prepare

DEMOS = ("contracts",)


@click.command()
@click.argument("name", default="contracts", type=click.Choice(DEMOS))
@click.option("--store", default=".fanfold", metavar="DIR", help="Where runs are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print one receipt object, no more.")
@click.option("--quiet", is_flag=True, help="No progress.")
def demo(name: str, store: str, as_json: bool, quiet: bool) -> int:
    """Run a reference application. It needs no key, no account and no network."""
    folder = Path(store) / "demo" / name
    folder.mkdir(parents=True, exist_ok=True)
    with resources.as_file(resources.files("fanfold") / "demo" / name) as shipped:
        shutil.copytree(shipped, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    code = perform(prepare(str(folder / "plan.yaml"), Options(store=store)), as_json=as_json, quiet=quiet)
    if not as_json:
        click.echo(f"report: {folder / 'report.md'}    account: fanfold report contract-review")
    return code
