"""`fanfold new`: an application of ours as the beginning of one of yours."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import click

from fanfold.errors import BadInput
from fanfold.faces.cli import shipped


@click.command(epilog=shipped.listing())
@click.argument("folder", metavar="FOLDER")
@click.option("--from", "name", metavar="NAME", help="The application to begin with.")
def new(folder: str, name: str | None) -> None:
    """Copy an application into a folder of your own, to change it there."""
    if name is None:
        raise BadInput(f"say which application to begin with: --from {'|'.join(shipped.names())}")
    shipped.known(name)
    _refuse_taken(Path(folder))
    _make(name, Path(folder))
    click.echo(f"{folder}: a copy of {name}; its README.md says what to change. To run it:")
    click.echo(f"  cd {shlex.quote(folder)}")
    click.echo(f"  fanfold run {shipped.PLAN}")


def _refuse_taken(folder: Path) -> None:
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise BadInput(f"{folder}: {shipped.why(error)}; name another folder") from None
    if taken:
        raise BadInput(f"{folder} is not empty; name a new folder")


def _make(name: str, folder: Path) -> None:
    """All of it or nothing: what could not be finished does not stand in the way of a second try."""
    there = folder.exists()
    try:
        shipped.copy(name, folder)
    except OSError as error:
        for one in folder.iterdir() if folder.is_dir() else ():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        if folder.is_dir() and not there:
            folder.rmdir()
        raise BadInput(f"{folder}: {shipped.why(error)}; name another folder") from None
