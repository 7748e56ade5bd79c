"""`fanfold schema`: what may be written in a file, for editors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from fanfold.fleet.records import fleet_schema
from fanfold.members.roster import roster_schema
from fanfold.plans.file import plan_schema

SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "plan": plan_schema,
    "roster": roster_schema,
    "fleet": fleet_schema,
}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@click.command()
@click.argument("file", type=click.Choice(list(SCHEMAS)))
def schema(file: str) -> None:
    """Print the JSON Schema of plan, roster or fleet files. An editor that knows it completes and
    checks what you write."""
    whole = {"$schema": _DIALECT, "title": f"fanfold {file}", **SCHEMAS[file]()}
    click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2).decode())
