"""How much a template may do: rendering happens between two calls, and everything else waits for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context

MOST_STEPS = 1_000_000  # of all loops of one rendering together
MOST_CHARACTERS = 10_000_000  # that one operation makes
LARGEST = 1_000_000  # for a width or a count that a filter or a method is given
STEPS = "_steps"
COUNTED, JOINED = "_counted", "_joined"

_WIDTH = re.compile(r"\d{7,}")  # in a format such as %0999999999d
_SIZED = ("center", "indent", "batch", "slice", "round", "wordwrap", "truncate")


def check_operation(operator: str, left: Any, right: Any) -> None:
    """Refuse what would make a number or a text of any size: `10 ** 10 ** 10`, `"x" * 10 ** 9`."""
    if operator == "**" and _power(left, right) > MOST_CHARACTERS:
        raise SecurityError("a power that is too large")
    if operator == "*":
        for many, one in ((left, right), (right, left)):
            if (
                isinstance(many, int)
                and hasattr(one, "__len__")
                and many * len(one) > MOST_CHARACTERS
            ):
                raise SecurityError("a text or list that is too long")
    if operator == "+" and hasattr(left, "__len__") and hasattr(right, "__len__"):
        check_length([left, right])
    if operator == "%" and isinstance(left, str) and _WIDTH.search(left):
        raise SecurityError("a width that is too large")


def _power(left: Any, right: Any) -> float:
    """About how many bits it would have."""
    if not isinstance(left, int) or not isinstance(right, int) or right < 0:
        return 0
    return left.bit_length() * right


def check_arguments(values: Iterable[Any]) -> None:
    """Widths and counts for filters and methods: `"x".ljust(10 ** 9)`, `"{:>999999999}".format(1)`."""
    for value in values:
        if isinstance(value, int) and abs(value) > LARGEST:
            raise SecurityError(f"the number {value} is too large here")


def check_call(obj: Any, args: Iterable[Any]) -> None:
    """Methods of texts; the sandbox has `format` in a wrapper."""
    method = getattr(obj, "__wrapped__", obj)
    owner = getattr(method, "__self__", None)
    if isinstance(owner, str):
        match getattr(method, "__name__", ""):
            case "format" | "format_map":
                check_format(owner)
            case "replace":
                check_replace(owner, *args)
            case "join":
                check_length([owner, *args])
    check_arguments(args)


def check_format(value: Any, *given: Any) -> None:
    if isinstance(value, str) and _WIDTH.search(value):
        raise SecurityError("a width that is too large")


def check_replace(value: Any, old: Any = "", new: Any = "", *more: Any) -> None:
    many = len(str(value)) // max(1, len(str(old))) + 1
    if many * len(str(new)) > MOST_CHARACTERS:
        raise SecurityError("a text that is too long")


def check_join(values: Any, *more: Any) -> None:
    if isinstance(values, list | tuple):
        check_length([value for value in values if isinstance(value, str)])


def check_length(values: Iterable[Any]) -> None:
    if sum(len(value) for value in values if hasattr(value, "__len__")) > MOST_CHARACTERS:
        raise SecurityError("a text or list that is too long")


def limited_filters(filters: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """The filters whose result can be far larger than what they are given, with that bounded."""
    made = {name: _bounded(filters[name], None) for name in _SIZED if name in filters}
    own: dict[str, Callable[..., None]] = {
        "format": check_format,
        "replace": check_replace,
        "join": check_join,
    }
    return made | {name: _bounded(filters[name], check) for name, check in own.items()}


def _bounded(fn: Callable[..., Any], check: Callable[..., None] | None) -> Callable[..., Any]:
    takes = 1 if hasattr(fn, "jinja_pass_arg") else 0

    def checked(*args: Any, **named: Any) -> Any:
        check_arguments([*args[1 + takes :], *named.values()])
        if check is not None:
            check(*args[takes:])
        return fn(*args, **named)

    vars(checked).update(vars(fn))  # what Jinja notes on it: that it takes the environment
    return checked


def count_loops(tree: nodes.Template) -> nodes.Template:
    """Let every loop count its steps, those in others too, and every `~` its letters."""
    for loop in list(tree.find_all(nodes.For)):
        loop.iter = nodes.Filter(loop.iter, COUNTED, [], [], None, None, lineno=loop.lineno)
    for joined in list(tree.find_all(nodes.Concat)):
        parts = nodes.List(joined.nodes, lineno=joined.lineno)
        joined.nodes = [nodes.Filter(parts, JOINED, [], [], None, None, lineno=joined.lineno)]
    return tree


def joined(values: list[Any]) -> str:
    """`a ~ b`; doubled again and again it would be of any size."""
    texts = [str(value) for value in values]
    check_length(texts)
    return "".join(texts)


@pass_context
def counted(context: Context, values: Iterable[Any]) -> Iterator[Any]:
    steps = context.parent[STEPS]
    for value in values:
        steps[0] += 1
        if steps[0] > MOST_STEPS:
            raise SecurityError(f"more than {MOST_STEPS:,} steps of its loops")
        yield value
