"""Variables of a plan: `vars` with their usual values, what `--set` says, and who reads them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fanfold.errors import BadInput
from fanfold.work.check import described, entries
from fanfold.work.document import Node
from fanfold.work.fields import number
from fanfold.work.nearest import remedy
from fanfold.work.template import Template

NAME = "vars"
_FLAGS = {"true": True, "false": False}


def read_vars(node: Node) -> dict[str, Any]:
    """Texts, numbers, true or false; empty is one that has to be set."""
    found = {}
    for name, child in entries(node, "`vars`"):
        if not name.isidentifier():
            raise child.bad(f"`{name}` cannot be a variable: use letters, digits and _")
        if isinstance(child.value, dict | list):
            what = "must be a text, a number, true or false"
            raise child.bad(f"`{name}` {what}, not {described(child.value)}")
        found[name] = child.value
    return found


def parse_vars(said: Iterable[str]) -> dict[str, str]:
    """`name=value`, as typed after `--set`."""
    found: dict[str, str] = {}
    for one in said:
        name, sign, value = one.partition("=")
        if not sign or not name:
            raise BadInput(f"--set {one}: must be NAME=VALUE")
        if name in found:
            raise BadInput(f"--set: `{name}` is given twice")
        found[name] = value
    return found


def set_vars(top: Node, stated: dict[str, Any], said: dict[str, str]) -> dict[str, Any]:
    """The values that hold: those of the plan, but for what `--set` says."""
    file = top.file
    for name in said:
        if not stated:
            raise BadInput(f"--set {name}: {file} has no `vars`")
        if name not in stated:
            raise BadInput(f"--set {name}: no variable of {file}: {remedy(name, stated)}")
    for name, usual in stated.items():
        if usual is None and name not in said:
            child = top.child(NAME).child(name)
            raise child.bad(f"the variable `{name}` has no value: --set {name}=VALUE")
    return {
        name: _typed(name, said[name], usual) if name in said else usual
        for name, usual in stated.items()
    }


def _typed(name: str, said: str, usual: Any) -> Any:
    """A number stays a number, and true or false what it is."""
    if isinstance(usual, bool):
        if said.lower() not in _FLAGS:
            raise BadInput(f"--set {name}: must be true or false, not {said!r}")
        return _FLAGS[said.lower()]
    if isinstance(usual, int | float):
        value = number(said)
        if value is None:
            raise BadInput(f"--set {name}: must be a number as in the plan, not {said!r}")
        return value
    return said


def check_reads(template: Template, values: dict[str, Any], node: Node, what: str) -> None:
    """Each variable that a template reads is one of the plan's."""
    for name in sorted(template.fields(NAME) - values.keys()):
        lacks = remedy(name, values) if values else "the plan has no `vars`"
        raise node.bad(f"{what} reads `vars.{name}`, which is not there: {lacks}")


def filled(node: Node, said: str, values: dict[str, Any]) -> str:
    """A path with the values of variables in their places."""
    if "{" not in said:
        return said
    template = _at(node, said)
    check_reads(template, values, node, f"`{node.name}`")
    return template.render(vars=values)


def _at(node: Node, said: str) -> Template:
    try:
        return Template(said, name=node.file, known=(NAME,))
    except BadInput as error:
        raise node.bad(error.what) from None
