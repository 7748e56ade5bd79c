"""A field of an item that is null is no text: a prompt that just prints it would say `None`."""

from __future__ import annotations

from typing import Any

from jinja2 import TemplateRuntimeError, nodes

PRINTED = "_printed_field"


def printed(value: Any, field: str) -> Any:
    if value is None:
        what = (
            f"`{field}` is null; if that is meant, write {{{{ {field} | default('none', true) }}}}"
        )
        raise TemplateRuntimeError(what)
    return value


def refuse_nulls(tree: nodes.Template) -> nodes.Template:
    """Where a field of `item` is printed as it is. Tests and filters see null; so does who prints all of
    the item, as JSON, or a reply of an earlier step."""
    for output in list(tree.find_all(nodes.Output)):
        output.nodes = [_checked(one) for one in output.nodes]
    return tree


def _checked(node: nodes.Expr) -> nodes.Expr:
    names = _names(node)
    if names[:1] != ["item"] or len(names) < 2 or names[1] == "steps":
        return node
    field = nodes.Const(".".join(names), lineno=node.lineno)
    return nodes.Filter(node, PRINTED, [field], [], None, None, lineno=node.lineno)


def _names(node: nodes.Node) -> list[str]:
    """`item.a["b"]` as its names; nothing of any other expression."""
    match node:
        case nodes.Name(name=name):
            return [name]
        case nodes.Getattr(node=of, attr=name) if above := _names(of):
            return [*above, name]
        case nodes.Getitem(node=of, arg=nodes.Const(value=str(name))) if above := _names(of):
            return [*above, name]
    return []
