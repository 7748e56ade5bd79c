"""Many into one: the `reduce` step, and the `combine` and `synthesise` of the other patterns."""

from __future__ import annotations

from typing import Any

from fanfold.errors import BadInput
from fanfold.patterns import fold as reduces
from fanfold.patterns.asked_reduce import PART_NAMES
from fanfold.plans.plan import Asking, Ensemble, Reduce
from fanfold.plans.steps.asking import ASK_FIELDS, Reading, lines_of, noting
from fanfold.plans.steps.voting import VOTE_FIELDS, read_votes
from fanfold.work.check import Check, fields, mapping, one_of, text, whole
from fanfold.work.document import Lines, Node

_KINDS = (*reduces.KINDS, "ask", "ensemble")
_OWN = ("kind", "name", "fan_in")
_NAMES = tuple(sorted(PART_NAMES))


def read_reduce(node: Node, reading: Reading) -> Reduce:
    """The `reduce` step. A word alone is its kind."""
    if isinstance(node.value, str):
        node = _spelled_out(node, "kind")
    if "kind" not in mapping(node):
        raise node.bad(f"a reduce needs the field `kind`: one of {', '.join(_KINDS)}")
    return _read(node, reading, one_of(*_KINDS)(node.child("kind")), "reduce")


def read_into_one(node: Node, reading: Reading, name: str) -> Reduce:
    """`combine` and `synthesise`: an ask, when there is a prompt; else a kind, as in a reduce, or
    `module:function`."""
    if isinstance(node.value, str):
        node = _spelled_out(node, "target" if ":" in node.value else "kind")
    stated = mapping(node)
    if "kind" in stated:
        kind = one_of(*_KINDS)(node.child("kind"))
    else:
        kind = "python" if "target" in stated else "ask"
    return _read(node, reading, kind, name)


def _spelled_out(node: Node, field: str) -> Node:
    lines: Lines = {(): node.line, (field,): node.line}
    return Node({field: node.value}, node.file, lines)


def _read(node: Node, reading: Reading, kind: str, name: str) -> Reduce:
    match kind:
        case "ask":
            return _asked(node, reading, name)
        case "ensemble":
            return _voted(node, reading, name)
        case _:
            return _pure(node, reading, kind, name)


def _pure(node: Node, reading: Reading, kind: str, name: str) -> Reduce:
    own = {field: check for field, check in _TREE.items() if field in node.value}
    given = {field: check(node.child(field)) for field, check in own.items()}
    options = {field: value for field, value in node.value.items() if field not in _OWN}
    try:
        reduces.from_plan(kind, options, noting(node, reading))
    except BadInput as error:
        raise _guilty(node, error.what).bad(error.what) from None
    given.setdefault("name", name)
    return Reduce(kind=kind, options=options, lines=lines_of(node), line=node.line, **given)


def _asked(node: Node, reading: Reading, name: str) -> Reduce:
    stated = fields(node, {**ASK_FIELDS, **_TREE, "kind": text}, "an asked reduce")
    made = reading.asking(node, stated, _NAMES)
    if "prompt" not in made and not made.get("who"):
        raise node.bad("an asked reduce needs a `prompt`")
    return Reduce(
        name=stated.get("name", name), kind="ask", ask=Asking(**made),
        fan_in=stated.get("fan_in", 10), lines=lines_of(node), line=node.line,
    )  # fmt: skip


def _voted(node: Node, reading: Reading, name: str) -> Reduce:
    known = {**ASK_FIELDS, **VOTE_FIELDS, **_TREE, "kind": text}
    stated = fields(node, known, "a reduce by an ensemble", required=("prompt",))
    votes: dict[str, Any] = read_votes(node, stated, reading, _NAMES)
    own = stated.get("name", name)
    return Reduce(
        name=own, kind="ensemble", vote=Ensemble(name=own, **votes),
        fan_in=stated.get("fan_in", 10), lines=lines_of(node), line=node.line,
    )  # fmt: skip


def _guilty(node: Node, what: str) -> Node:
    """The field an error text speaks of, for its line; else the step itself."""
    named = (name for name in node.value if name != "kind" and f"`{name}`" in what)
    name = next(named, None)
    return node if name is None else node.child(name)


_TREE: dict[str, Check] = {"name": text, "fan_in": whole(least=2)}
