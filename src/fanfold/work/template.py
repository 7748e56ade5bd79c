"""Prompt templates: Jinja2, sandboxed and strict, compiled once.

Mistakes that can be found when a template is read are reported then: syntax, unknown names, unknown
filters. Only a missing field of an item is found when that item is rendered.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from itertools import takewhile
from typing import Any, Protocol

from jinja2 import (
    StrictUndefined,
    TemplateError,
    TemplateRuntimeError,
    TemplateSyntaxError,
    meta,
    nodes,
    pass_context,
)
from jinja2 import Template as CompiledTemplate
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from fanfold.errors import BadInput, FanfoldError
from fanfold.work import template_limits as limits
from fanfold.work.media import KINDS, Attachment, MediaKind
from fanfold.work.nearest import nearest, remedy
from fanfold.work.template_common import common_parts, reads_common
from fanfold.work.template_null import PRINTED, printed, refuse_nulls
from fanfold.work.template_syntax import plain_words, single_braces

LEAST_SHARED = 1024  # characters; no service keeps less than so many tokens
_LOADS = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
_FAULTS = (
    TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError, MemoryError,
    RecursionError,
)  # fmt: skip
_GUARDS = frozenset({"default", "d", "defined", "undefined"})


class _MissingField(StrictUndefined):
    """A name or field that does not exist; any use but a test for it is an error."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        name, owner = self._undefined_name, self._undefined_obj
        if not isinstance(owner, dict):
            return f"`{name}` is not there"
        like = nearest(str(name), [key for key in owner if isinstance(key, str)])
        return f"there is no field `{name}`" + (f"; did you mean `{like}`?" if like else "")


class _Environment(ImmutableSandboxedEnvironment):
    """Fields come before methods, so `{{ item.values }}` is the field of that name. What would take
    for ever, or all memory, is refused."""

    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        limits.check_operation(operator, left, right)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Context, obj: Any, /, *args: Any, **named: Any) -> Any:
        limits.check_call(obj, [*args, *named.values()])
        return super().call(context, obj, *args, **named)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is dict and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


def _as_json(value: Any, indent: int | None = None) -> str:
    """Plain JSON; Jinja's own filter of this name escapes for HTML, which a prompt is not."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=indent)


def _printed(value: Any) -> Any:
    """Objects and lists appear in a prompt as JSON, not as Python writes them."""
    return _as_json(value) if isinstance(value, (dict, list)) else value


class MediaSource(Protocol):
    """Where `{{ item | image }}` finds the file; BadInput: there is none that fits."""

    def attach(self, value: Any, kind: MediaKind | None) -> Attachment: ...


_FILES = "_files"
_TOKEN = secrets.token_hex(8)  # nobody who writes an item knows it
_PLACE = re.compile(f"\0{_TOKEN}:(\\d+)\0")


class _Attaching:
    """The files that one rendering shows; a mark holds the place of each."""

    def __init__(self, source: MediaSource) -> None:
        self._source = source
        self._found: list[Attachment] = []

    def mark(self, value: Any, kind: MediaKind) -> str:
        try:
            self._found.append(self._source.attach(value, kind))
        except BadInput as wrong:
            raise TemplateRuntimeError(str(wrong)) from None
        return f"\0{_TOKEN}:{len(self._found) - 1}\0"

    def taken_out(self, text: str) -> tuple[str, tuple[Attachment, ...]]:
        """The text without marks, and the files at their places in it."""
        pieces, parts, size = [], [], 0
        for n, piece in enumerate(_PLACE.split(text)):
            if n % 2:
                parts.append(self._found[int(piece)].moved(size))
            else:
                pieces.append(piece)
                size += len(piece)
        return "".join(pieces), tuple(parts)


def _showing(kind: MediaKind) -> Callable[..., str]:
    @pass_context
    def show(context: Context, value: Any) -> str:
        files = context.parent.get(_FILES)
        if files is None:
            raise TemplateRuntimeError(
                f"`{kind}` has no use here: only the prompt of an ask shows files"
            )
        return str(files.mark(value, kind))

    return show


def _environment() -> _Environment:
    made = _Environment(
        undefined=_MissingField, autoescape=False, keep_trailing_newline=True, finalize=_printed
    )
    made.filters["tojson"] = _as_json
    made.filters |= {limits.COUNTED: limits.counted, limits.JOINED: limits.joined, PRINTED: printed}
    made.filters.update(limits.limited_filters(made.filters))
    made.filters |= {kind: _showing(kind) for kind in KINDS}
    del made.filters["random"], made.globals["lipsum"]  # the same input gives the same prompt
    return made


_ENVIRONMENT = _environment()
_KEPT = 256  # templates; a script that runs a pattern again and again reads its prompt once


@lru_cache(_KEPT)
def _parsed(source: str) -> nodes.Template:
    """Not to be changed."""
    return _ENVIRONMENT.parse(source)


@lru_cache(_KEPT)
def _undeclared(source: str) -> frozenset[str]:
    return frozenset(meta.find_undeclared_variables(_parsed(source)))


@lru_cache(_KEPT)
def _compiled(source: str) -> CompiledTemplate:
    return _ENVIRONMENT.from_string(refuse_nulls(limits.count_loops(_ENVIRONMENT.parse(source))))


@lru_cache(_KEPT)
def _reads_common(source: str) -> bool:
    return reads_common(_parsed(source))


@lru_cache(_KEPT)
def _common(source: str, steps: frozenset[str]) -> tuple[CompiledTemplate, CompiledTemplate]:
    parts = common_parts(_ENVIRONMENT.parse(source), steps)
    before, after = (_ENVIRONMENT.from_string(limits.count_loops(one)) for one in parts)
    return before, after


class Template:
    """A compiled prompt.

    `name` is the file it is in and `line` the line it begins on, for error texts; `known` are
    the names that `render` will be given. `media`: the kinds of files that it shows.
    """

    def __init__(self, source: str, *, name: str, known: Collection[str], line: int = 1) -> None:
        self.source, self.name, self._line = source, name, line
        try:
            self._tree = _parsed(source)
            self._check_tags()
            self._used = _undeclared(source)
            self._check_names(known)
            compiled = _compiled(source)
        except TemplateSyntaxError as wrong:
            raise self._bad(plain_words(str(wrong.message)), wrong.lineno) from None
        except (RecursionError, SyntaxError, MemoryError):  # Jinja's parser, or Python's
            raise self._bad("it is nested too deeply; take it apart with `set`", 1) from None
        self._root, self._blocks = compiled.root_render_func, compiled.blocks
        self._globals = dict(compiled.globals)
        self._head, self.media = _head(source), shown_media(source)
        self._more = _reads_common(source)
        self._begins: tuple[dict[str, Any], str] = {}, ""

    def __repr__(self) -> str:
        return f"Template({self.name!r}, uses={sorted(self._used)})"

    def render(self, **names: Any) -> str:
        """The prompt. A field that is not there raises a FanfoldError naming item and field."""
        return self._rendered(names, None)

    def render_with(
        self, source: MediaSource, names: dict[str, Any]
    ) -> tuple[str, tuple[Attachment, ...]]:
        """The same, and the files that it shows, each at its place in the text."""
        if not self.media:
            return self._rendered(names, None), ()
        attaching = _Attaching(source)
        return attaching.taken_out(self._rendered(names, attaching))

    def _rendered(self, names: dict[str, Any], files: _Attaching | None) -> str:
        given = {**self._globals, **names, limits.STEPS: [0], _FILES: files}
        context = Context(_ENVIRONMENT, given, self.name, self._blocks)
        try:
            return "".join(self._root(context))
        except _FAULTS as wrong:
            raise FanfoldError(f"{self.name}: {_which(names)}{_why(wrong)}") from None

    def head(self, names: dict[str, Any]) -> str:
        """The text that renderings begin with, whatever the item is: plain text, and of these names the
        task, `vars` and the results of steps. An item may have a result of its own by that name."""
        if not self._more:
            return self._head
        if self._begins[0] is not names:
            self._begins = names, self._common_text(names)[0].rstrip() or self._head
        return self._begins[1]

    def shared(self, text: str, names: dict[str, Any]) -> int:
        """How many characters of a rendering all of them begin with; none where that is few."""
        head = self.head(names)
        return len(head) if len(head) >= LEAST_SHARED and text.startswith(head) else 0

    def common_after(self, names: dict[str, Any]) -> str:
        """What is the same in all of them, too, but comes after something that is not."""
        return self._common_text(names)[1]

    def _common_text(self, names: dict[str, Any]) -> tuple[str, str]:
        parts = _common(self.source, frozenset(names.get("steps") or ()))
        given = {**self._globals, **names, limits.STEPS: [0]}
        try:
            before, after = (
                "".join(one.root_render_func(Context(_ENVIRONMENT, given, self.name, one.blocks)))
                for one in parts
            )
        except _FAULTS:
            return "", ""
        return before, after

    def uses(self, name: str) -> bool:
        """Whether the template reads this name from outside; a loop variable is not."""
        return name in self._used

    def fields(self, name: str) -> set[str]:
        """The fields of `name`, which may be `a.b`, that the template always needs where it reads them.

        Not among them: methods that are called, and fields that some place tests with `default` or
        `is defined`. `item` in `{% for item in items %}` counts as `item`.
        """
        read: set[str] = set()
        guarded: set[str] = set()
        for field, is_guarded in _reads(self._tree, name):
            (guarded if is_guarded else read).add(field)
        return read - guarded

    def _check_tags(self) -> None:
        if (wrong := _wrong_tag(self.source)) is not None:
            raise self._bad(*wrong)

    def _check_names(self, known: Collection[str]) -> None:
        """A name that is set only in a branch counts as defined; if it is not, rendering reports it."""
        if found := single_braces(self.source, known):
            field, line = found
            raise self._bad(f"`{{{field}}}` is no value; write {{{{ {field} }}}}", line)
        if self._used.issubset(known):
            return
        names = list(self._tree.find_all(nodes.Name))
        sets: list[nodes.Assign | nodes.AssignBlock] = [
            *self._tree.find_all(nodes.Assign),
            *self._tree.find_all(nodes.AssignBlock),
        ]
        assigned = {one.name for node in sets for one in _names_in(node.target)}
        for unknown in sorted(self._used.difference(known, assigned)):
            line = min((one.lineno for one in names if one.name == unknown), default=1)
            raise self._bad(f"`{unknown}` is not defined: {remedy(unknown, known)}", line)

    def _bad(self, what: str, lineno: int) -> BadInput:
        return BadInput(f"template: {what}", file=self.name, line=self._line + lineno - 1)


@lru_cache(_KEPT)
def _wrong_tag(source: str) -> tuple[str, int] | None:
    """The first tag or filter that a prompt cannot have, and its line."""
    tree = _parsed(source)
    for tag in tree.find_all(_LOADS):
        what = type(tag).__name__.lower()
        return f"`{what}` is not possible in a prompt: put the text here", tag.lineno
    for used in tree.find_all(nodes.Filter):
        if used.name not in _ENVIRONMENT.filters:
            like = nearest(used.name, _ENVIRONMENT.filters)
            hint = f": did you mean `{like}`?" if like else ""
            return f"there is no filter `{used.name}`{hint}", used.lineno
    return None


@lru_cache(_KEPT)
def shown_media(source: str) -> tuple[MediaKind, ...]:
    """The kinds of files that a template shows, which is known to be one."""
    used = {one.name for one in _parsed(source).find_all(nodes.Filter)}
    return tuple(kind for kind in KINDS if kind in used)


@lru_cache(_KEPT)
def _head(source: str) -> str:
    tree = _parsed(source)
    first = tree.body[0] if tree.body else None
    parts = first.nodes if isinstance(first, nodes.Output) else []
    texts = takewhile(lambda one: isinstance(one, nodes.TemplateData), parts)
    return "".join(one.data for one in texts if isinstance(one, nodes.TemplateData)).rstrip()


def _which(names: dict[str, Any]) -> str:
    """Whose prompt it is, for an error text."""
    item = names.get("item")
    if isinstance(item, dict) and "id" in item:
        return f"item `{item['id']}`: "
    many = names.get("items")
    if isinstance(many, (list, tuple)) and many and isinstance(many[0], dict):
        return f"items from `{many[0].get('id')}` on: "
    return ""


def _why(wrong: Exception) -> str:
    lines = str(wrong).splitlines()
    return lines[0] if lines else type(wrong).__name__


def _reads(node: nodes.Node, name: str, guarded: bool = False) -> Iterator[tuple[str, bool]]:
    """Each field of `name` read below a node, and whether a missing one is provided for."""
    if isinstance(node, nodes.For) and _binds(node.target, name) and not _over_items(node):
        yield from _reads(node.iter, name, guarded)
        return
    if isinstance(node, nodes.Call) and _field(node.node, name) is not None:
        below: list[nodes.Node] = [*node.args, *node.kwargs]
    else:
        field = _field(node, name)
        if field is not None:
            yield field, guarded
        below = list(node.iter_child_nodes())
    inside = guarded or (isinstance(node, (nodes.Filter, nodes.Test)) and node.name in _GUARDS)
    for child in below:
        yield from _reads(child, name, inside)


def _field(node: nodes.Node | None, name: str) -> str | None:
    """The field when the node reads one of `name`: `name.field` or `name["field"]`."""
    if not isinstance(node, (nodes.Getattr, nodes.Getitem)):
        return None
    owner, _, last = name.rpartition(".")
    if last != (_field(node.node, owner) if owner else getattr(node.node, "name", None)):
        return None
    if isinstance(node, nodes.Getattr):
        return node.attr
    arg = node.arg
    return arg.value if isinstance(arg, nodes.Const) and isinstance(arg.value, str) else None


def _binds(target: nodes.Node, name: str) -> bool:
    return any(one.name == name for one in _names_in(target))


def _names_in(target: nodes.Node) -> Iterable[nodes.Name]:
    return [target] if isinstance(target, nodes.Name) else target.find_all(nodes.Name)


def _over_items(loop: nodes.For) -> bool:
    return isinstance(loop.iter, nodes.Name) and loop.iter.name == "items"


def unshown(
    shows: Callable[[str], bool], *sections: tuple[tuple[str, ...], Callable[[], str]]
) -> str:
    """What a prompt has to show and does not show by itself, to be appended to it: the sections
    under none of whose names it reads them."""
    made = [make() for names, make in sections if not any(map(shows, names))]
    return "\n\n".join(text for text in made if text)
