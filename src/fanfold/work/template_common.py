"""Which parts of a template are the same whatever the item is."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeVar

from jinja2 import nodes

from fanfold.work.media import KINDS

N = TypeVar("N", bound=nodes.Node)
_COMMON = ("task", "vars")
_STEPS = "steps"
_BLOCKS = (nodes.If, nodes.For)


def common_parts(
    tree: nodes.Template, steps: Collection[str]
) -> tuple[nodes.Template, nodes.Template]:
    """What comes before the first part that depends on the item; and what comes after it and does not.
    `steps`: those whose results are the same for all items."""
    before: list[nodes.Node] = []
    after: list[nodes.Node] = []
    differs = False
    for part in _parts(tree):
        if _is_common(part, steps):
            (after if differs else before).append(_printing(part))
        else:
            differs = True
    return _template(tree, before), _template(tree, after)


def reads_common(tree: nodes.Template) -> bool:
    """Whether something but plain text may be the same for all items."""
    texts = (nodes.TemplateData,)
    return any(not isinstance(one, texts) and _may_be_common(one) for one in _parts(tree))


def _parts(tree: nodes.Template) -> Iterator[nodes.Node]:
    for node in tree.body:
        yield from node.nodes if isinstance(node, nodes.Output) else (node,)


def _may_be_common(node: nodes.Node) -> bool:
    return {*_read(node)} <= {*_COMMON, _STEPS}


def _is_common(node: nodes.Node, steps: Collection[str]) -> bool:
    if not isinstance(node, (nodes.Expr, *_BLOCKS)) or not _may_be_common(node):
        return False
    if any(one.name in KINDS for one in _all(node, nodes.Filter)):
        return False
    named = [one for one in _all(node, nodes.Name) if one.name == _STEPS]
    fields = [one.attr for one in _all(node, nodes.Getattr) if _of_steps(one)]
    return len(named) == len(fields) and {*fields} <= {*steps}


def _read(node: nodes.Node) -> Iterator[str]:
    """The names that it reads from outside."""
    names = list(_all(node, nodes.Name))
    own = {one.name for one in names if one.ctx != "load"} | {"loop"}
    return (one.name for one in names if one.ctx == "load" and one.name not in own)


def _of_steps(node: nodes.Getattr) -> bool:
    return isinstance(node.node, nodes.Name) and node.node.name == _STEPS


def _all(node: nodes.Node, kind: type[N]) -> Iterator[N]:
    if isinstance(node, kind):
        yield node
    yield from node.find_all(kind)


def _printing(part: nodes.Node) -> nodes.Node:
    return nodes.Output([part], lineno=1) if isinstance(part, nodes.Expr) else part


def _template(tree: nodes.Template, body: list[nodes.Node]) -> nodes.Template:
    made = nodes.Template(body, lineno=1)
    assert tree.environment is not None
    made.set_environment(tree.environment)
    return made
