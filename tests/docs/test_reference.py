"""The tables of docs/reference.md name what there is: no less, and nothing else."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from importlib import import_module
from inspect import isawaitable

import click
import pytest

from fanfold.errors import BadArgument
from fanfold.gates import kinds as gates
from fanfold.plans.asking import AskBase
from fanfold.plans.file import PlanFields
from fanfold.plans.steps import reduce
from fanfold.plans.steps.plan_entry import PlanEntry
from fanfold.work.ask import Params
from tests.architecture.test_docs import subcommands
from tests.docs.pages import ROOT

REFERENCE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")
OF_ALL = {"--debug", "--help", "-h"}
BUT = " and those of `run` but "


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


@cache
def listed() -> dict[str, set[str]]:
    """The options of each command, as its rows list them."""
    table = REFERENCE.split("| command | does | options |\n")[1].split("\n\n")[0]
    found: dict[str, set[str]] = {}
    for called, _, options in map(cells, table.splitlines()[1:]):
        words = called.split("`")[1].split()[1:]
        name = " ".join(word for word in words if re.fullmatch("[a-z]+", word))
        own, _, lacking = options.partition(BUT)
        names = {*OPTION.findall(own), *OPTION.findall(called)}
        found.setdefault(name, set()).update(names)
        if lacking:
            found[name] |= found["run"] - {*OPTION.findall(lacking)}
    return found


def shown(command: click.Command) -> list[set[str]]:
    """The names of each option that its help has."""
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    return [{*one.opts, *one.secondary_opts} for one in options]


COMMANDS = {
    name: command
    for name, command in subcommands()
    if name and not command.hidden and (command.params or not isinstance(command, click.Group))
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_each_command_are_those_of_its_help(name: str) -> None:
    """An option with two names may be listed by either. Some that are listed are not in the help."""
    command, rows = COMMANDS[name], listed().get(name)
    options = [names for names in shown(command) if not names & OF_ALL]
    if rows is None:
        assert isinstance(command, click.Group) and options == []
        return
    assert [sorted(names) for names in options if not names & rows] == []
    known = {opt for one in command.params for opt in (*one.opts, *one.secondary_opts)}
    assert rows - known == set()


def test_all_commands_that_are_listed_exist() -> None:
    assert set(listed()) - set(COMMANDS) == set()


def in_python() -> dict[str, str]:
    """Each name of the tables of Python, and where it is from."""
    top, _, rest = (
        REFERENCE.split("## Python\n")[1].split("\nSee [patterns]")[0].partition("From their")
    )
    found = {
        name: "fanfold" for row in top.splitlines()[2:] if row.startswith("|")
        for name in re.findall(r"`([\w]+)`", cells(row)[0])
    }  # fmt: skip
    for row in rest.splitlines():
        if row.startswith("| `"):
            found[cells(row)[0].strip("`")] = cells(row)[1].strip("`")
    return found


CALLED = {name: home for name, home in in_python().items() if name not in ("fold", "Run")}


@pytest.mark.parametrize(
    "name", [name for name in CALLED if not name.endswith(("Error", "Stopped"))]
)
def test_whatever_is_called_refuses_an_argument_by_its_name(name: str) -> None:
    fn = getattr(import_module(CALLED[name]), name)

    async def call() -> None:
        made = fn(no_such_name=1)
        if isawaitable(made):
            await made
        else:
            async with made:
                raise AssertionError("it was opened")

    with pytest.raises(BadArgument, match=rf"{name}\(\) has no argument `no_such_name`: "):
        asyncio.run(call())


FIELDS = {
    "plan": set(PlanFields.__struct_fields__),
    "steps": set(PlanEntry.kinds),
    "every step that asks": {
        *Params.__struct_fields__, *AskBase.__struct_fields__, "name", *PlanEntry.common,
    },
    "kinds of reduce": set(reduce.KINDS),
    "checks of a gate": set(gates.KINDS),
}  # fmt: skip


@pytest.mark.parametrize("part", FIELDS)
def test_the_names_of_a_plan_are_those_that_it_can_state(part: str) -> None:
    (row,) = re.findall(rf"^\| {part} \| (.*) \|$", REFERENCE, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", row)) == FIELDS[part]
