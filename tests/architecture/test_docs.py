"""The docs keep up with the code: what they show exists, and what exists is on a page.

The lists of what has to be documented are taken from the code: errors, the fields of the roster
and the plan, the kinds of gate and reduce, the commands and their options.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from inspect import getmembers, isclass
from pathlib import Path
from typing import Any

import click

from fanfold import errors
from fanfold.faces.cli import main as cli
from fanfold.fleet.records import fleet_schema
from fanfold.members.roster import roster_schema
from fanfold.plans.file import plan_schema
from tests.architecture.sources import ROOT, imports, modules, nodes, room

FENCE = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


@cache
def docs() -> str:
    """All pages under docs/ but the decisions, which tell of the past."""
    pages = [p for p in (ROOT / "docs").rglob("*.md") if "decisions" not in p.parts]
    return "\n".join(page.read_text(encoding="utf-8") for page in sorted(pages))


@cache
def code_words() -> frozenset[str]:
    """The words that stand in code on the pages: in `spans` and in fenced blocks."""
    code = [*FENCE.findall(docs()), *SPAN.findall(FENCE.sub("", docs()))]
    return frozenset(re.findall(r"--[a-z0-9-]+|\w+|\$schema", "\n".join(code)))


# ── commands ─────────────────────────────────────────────────────────────────────────────────


@cache
def commands() -> dict[str, click.Command]:
    """The commands of the program by their name; "" is the program itself."""
    (group,) = {g for _, g in getmembers(cli) if isinstance(g, click.Group)}
    context = click.Context(group)
    listed = ((name, group.get_command(context, name)) for name in group.list_commands(context))
    return {"": group, **{name: command for name, command in listed if command}}


def options(command: click.Command) -> set[str]:
    stated = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    return {opt for opt in stated if opt.startswith("--")} | {"--help"}


@cache
def targets() -> frozenset[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def shown(program: str) -> list[list[str]]:
    """The arguments of each line in a code block of the README that calls the program."""
    blocks = FENCE.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    lines = [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]
    calls = [line for line in lines if line == program or line.startswith(f"{program} ")]
    return [shlex.split(call, comments=True)[1:] for call in calls]


def test_the_readme_shows_both_programs() -> None:
    assert shown("fanfold") != []
    assert ["demo"] in shown("make")
    assert ["test"] in shown("make")


def test_every_make_target_in_the_readme_exists() -> None:
    named = {word for words in shown("make") for word in words if re.fullmatch("[a-z-]+", word)}
    assert named - targets() == set()


def test_every_command_in_the_readme_exists_with_its_options() -> None:
    assert [wrong for words in shown("fanfold") for wrong in unknown(words)] == []


def unknown(words: list[str]) -> Iterator[str]:
    """What the program would not understand of these arguments."""
    name = next((word for word in words if not word.startswith("-")), "")
    command = commands().get(name)
    if command is None:
        yield f"fanfold {name}"
        return
    for word in words:
        option = word.split("=")[0]
        if option.startswith("--") and option not in options(command):
            yield f"fanfold {name} {option}"


def test_every_command_and_option_is_documented() -> None:
    named = {*commands(), *(opt for command in commands().values() for opt in options(command))}
    assert named - code_words() - {"", "--help"} == set()


def subcommands() -> Iterator[tuple[str, click.Command]]:
    """All commands, those below others too, with all the words that call them."""
    for name, command in commands().items():
        yield name, command
        if name and isinstance(command, click.Group):
            yield from ((f"{name} {below}", inner) for below, inner in command.commands.items())


def test_every_option_says_what_it_does_and_names_its_value() -> None:
    """click's own names for a value, such as INTEGER RANGE, tell a user nothing."""
    stated = [
        (name, param, param.make_metavar(click.Context(command)))
        for name, command in subcommands()
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
    ]
    assert [f"{name} {param.opts[0]}" for name, param, _ in stated if not param.help] == []
    assert {f"{name} {param.opts[0]}" for name, param, value in stated if "RANGE" in value} == set()


def test_the_line_of_a_command_in_a_list_is_whole() -> None:
    cut = [name for name, one in subcommands() if one.get_short_help_str(60).endswith("...")]
    below = [name for name in cut if " " in name]  # `fanfold --help` has lines of its own
    assert below == []


# ── errors and fields ────────────────────────────────────────────────────────────────────────


def test_every_error_is_documented() -> None:
    known = {name for name, _ in getmembers(errors, isclass) if not name.startswith("_")}
    ours = {name for name in known if issubclass(getattr(errors, name), errors.FanfoldError)}
    assert ours - code_words() == set()


def readers() -> list[str]:
    """The modules that read what users write."""
    checking = {found.module for found in imports() if found.target == "fanfold.work.check"}
    kinds = {"fanfold.gates.kinds", "fanfold.patterns.fold"}.intersection(modules())
    shared = {"fanfold.work.options", "fanfold.work.task"}
    found = {name for name in checking | kinds if room(name) not in ("work", "members", "plans")}
    return sorted(found | (shared & checking))


def names_in(schema: Any) -> Iterator[str]:
    """The fields of a file, by its JSON Schema."""
    for inner in schema if isinstance(schema, list) else ():
        yield from names_in(inner)
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        for inner in schema.values():
            yield from names_in(inner)


def fields_of(module: str) -> set[str]:
    """The names in the tables of a reading module: {"name": check, …} and what goes with them."""
    return {
        name
        for node in nodes(module, ast.Dict, ast.AnnAssign, ast.Call, ast.keyword)
        for name in _names(node)
    }


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Dict(keys=keys, values=values) if all(map(_is_check, values)):
            yield from _texts(keys)
        case ast.AnnAssign(
            target=ast.Name(id=name), annotation=ast.Subscript(value=ast.Name(id=kind))
        ):
            yield from (name,) if kind == "Annotated" else ()
        case ast.Call(func=ast.Attribute(attr="fromkeys"), args=[ast.Tuple(elts=names), _]):
            yield from _texts(names)
        case ast.keyword(arg="needs" | "may", value=ast.Tuple(elts=names)):
            yield from _texts(names)


def _is_check(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Dict | ast.Lambda)


def _texts(nodes: list[ast.expr] | list[ast.expr | None]) -> Iterator[str]:
    return (n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))


def in_schemas() -> set[str]:
    """The fields of the files that users write."""
    return {name for of in (roster_schema, plan_schema, fleet_schema) for name in names_in(of())}


def test_the_fields_are_found_in_the_code() -> None:
    """So that the next test cannot pass by finding nothing."""
    found = {name for module in readers() for name in fields_of(module)}
    found |= in_schemas()
    roster = {"members", "settings", "id", "kind", "budget_usd_month", "cache_write", "rpm", "cmd"}
    plan = {"steps", "input", "prompt", "shard", "concurrency", "on_failure", "quotes", "sort"}
    fleet = {"workers", "max_concurrent", "depends_on", "target_files"}
    assert (roster | plan | fleet) - found == set()


def test_every_field_that_users_can_write_is_documented() -> None:
    assert {
        module: lacks for module in readers() if (lacks := fields_of(module) - code_words())
    } == {}
    assert in_schemas() - code_words() == set()


# ── links ────────────────────────────────────────────────────────────────────────────────────


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    assert [broken for page in pages for broken in _broken(page)] == []


def _broken(page: Path) -> list[str]:
    links = LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return [f"{page.name}: {link}" for link in links if not (page.parent / link).exists()]
