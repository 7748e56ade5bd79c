"""`fanfold init`: a plan, a roster and an input to begin with, which run at once without a key."""

from __future__ import annotations

import shlex
from importlib import resources
from pathlib import Path

import click

from fanfold.errors import BadInput
from fanfold.faces.cli import shipped

FILES = ("plan.yaml", "roster.yaml", "items.jsonl")


@click.command()
@click.argument("folder", metavar="[FOLDER]", default=".")
def init(folder: str) -> None:
    """Make a small plan, a roster and an input, to edit. They run at once, without a key; the comments
    say what to change for a real model. No file is written over."""
    place = Path(folder)
    for name in FILES:
        if (place / name).exists() or (place / name).is_symlink():
            raise BadInput(
                f"{place / name} is there already; name another folder: fanfold init FOLDER"
            )
    _write(place)
    click.echo(f"{', '.join(str(place / name) for name in FILES)}: they need no key. To run them:")
    if place != Path("."):
        click.echo(f"  cd {shlex.quote(folder)}")
    click.echo("  fanfold run plan.yaml")
    click.echo("For a real model, and for your own items, see the comments in these files.")


def _write(place: Path) -> None:
    """All of them or none: what could not be finished does not stand in the way of a second try."""
    starter, written = resources.files("fanfold.faces.cli") / "starter", list[Path]()
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            with (place / name).open("xb") as out:  # never over one that came meanwhile
                written.append(place / name)
                out.write((starter / name).read_bytes())
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise BadInput(f"{place}: {shipped.why(error)}; name another folder") from None
