"""How items, and what was made of items, become an ask."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from fanfold.errors import BadInput, FanfoldError
from fanfold.work import check
from fanfold.work.ask import Ask, Message, Params, Schema
from fanfold.work.blocking import item_path
from fanfold.work.excerpt import as_text, excerpt
from fanfold.work.fields import MISSING, spread
from fanfold.work.file_templates import FileTemplates, file_templates
from fanfold.work.item import Item, Source
from fanfold.work.media import Attachment, MediaKind
from fanfold.work.media_ask import refused_media
from fanfold.work.media_files import MediaFiles
from fanfold.work.member import Traits
from fanfold.work.opening import CacheMode, Opening, opening_of
from fanfold.work.options import option
from fanfold.work.reader import read_options
from fanfold.work.task import ItemRead, Place, Task, Terms
from fanfold.work.template import LEAST_SHARED, MediaSource, Template
from fanfold.work.typed import definition_of

KNOWN_NAMES = frozenset({"item", "items", "steps", "task"})
PARENT_BYTES = 16_384  # of a parent's answer, in a prompt that is no template
_PLACE = re.compile(r"\{\{\s*parents(?:\.([\w.-]+)|\[\s*([\"'])([^\"'\n]+)\2\s*\])\s*\}\}")
_MEANT = re.compile(r"\{\{-?\s*parents\b[^\n]*?(?:\}\}|$)", re.MULTILINE)


class Verbatim:
    """A prompt that is sent as it stands: what looks like a template in it is plain text."""

    media: tuple[MediaKind, ...] = ()

    def __init__(self, source: str) -> None:
        self.source = source

    def __repr__(self) -> str:
        return f"Verbatim({len(self.source)} characters)"

    def render(self, **names: Any) -> str:
        return self.source

    def render_with(
        self, source: MediaSource, names: dict[str, Any]
    ) -> tuple[str, tuple[Attachment, ...]]:
        return self.render(**names), ()

    def shared(self, text: str, names: dict[str, Any]) -> int:
        return 0

    def common_after(self, names: dict[str, Any]) -> str:
        return ""

    def uses(self, name: str) -> bool:
        return False

    def fields(self, name: str) -> set[str]:
        return set()


class WithParents(Verbatim):
    """The same, but for `{{ parents.ID }}` and `{{ parents["ID"] }}`: the answer of a parent goes
    there, with its middle left out where it is long. Nothing else in it is looked at."""

    def render(self, **names: Any) -> str:
        parents = names.get("parents", {})
        return _PLACE.sub(lambda found: _answer(parents, found[1] or found[3]), self.source)

    def fields(self, name: str) -> set[str]:
        return {id for _, id in parent_places(self.source) if id} if name == "parents" else set()


def parent_places(text: str) -> Iterator[tuple[int, str]]:
    """The line of each place for a parent's answer, and the parent's id; "" for one that looks like
    such a place but is written in a form that is not known."""
    for meant in _MEANT.finditer(text):
        found = _PLACE.match(text, meant.start())
        yield text.count("\n", 0, meant.start()) + 1, "" if found is None else found[1] or found[3]


def _answer(parents: dict[str, Any], id: str) -> str:
    if id not in parents:
        return f"(there is no answer of {id})"
    value = parents[id]
    return excerpt(as_text(value), PARENT_BYTES)


class Prompt(msgspec.Struct, frozen=True):
    """How items become an ask. Without a prompt only functions and commands can be asked.

    `names` are known to the template beside those that come with the items. `sample` is part of the
    key: another number, another ask. `opening` comes before it, the same in all asks; that, and the text
    that all renderings begin with, is what they share. `cache` off: they share nothing;
    `alone`: there is one ask only.
    `attach`: fields of an item that name files, which go before the text, or behind what is shared;
    `files` finds them, and those that the template shows. `carries`: the files that whoever works on an
    item needs and leaves.
    """

    user: Template | Verbatim | None = None
    opening: tuple[Message, ...] = ()
    schema: Schema | None = None
    params: Params = Params()
    names: dict[str, Any] = {}
    sample: int = 0
    cache: CacheMode = "auto"
    alone: bool = False
    attach: tuple[str, ...] = ()
    files: MediaSource = MediaFiles(".")
    carries: FileTemplates | None = None

    def ask(self, items: tuple[Item, ...]) -> Ask:
        """About one item, or several in one ask: `item` and `items` in the template."""
        messages: tuple[Message, ...] = ()
        if self.user is None and not self.attach and self.carries is None:
            return self._made(messages, items, {})
        views = [item.view() for item in items]
        given = self._given(views)
        if self.user is not None or self.attach:
            messages = (*self.opening, self._said(given, views))
        return self._made(messages, items, given)

    def _said(self, given: dict[str, Any], views: Sequence[dict[str, Any]] = ()) -> Message:
        """The rendered prompt with its files. Those of `attach` come first, but for a long text that
        all asks share: a service can keep that only if it comes before."""
        text, shown = "", tuple[Attachment, ...]()
        if self.user is not None:
            text, shown = self.user.render_with(self.files, given)
        if not self.attach:
            return Message("user", text, shown)
        place = self._head(text)
        found = [
            one.moved(place)
            for view in views for one in attached(view, self.attach, self.files)
        ]  # fmt: skip
        parts = sorted((*found, *shown), key=lambda one: one.at)
        return Message("user", text, tuple(parts))

    def _head(self, text: str) -> int:
        """How many characters of a rendered prompt are those of all asks; none where they are few."""
        return 0 if self.user is None else self.user.shared(text, self.names)

    def about(self, made: Item, listing: str = "") -> Ask:
        """About one thing made of others (parts, answers, parents): its fields are the names in the
        template, and a function receives it whole.

        `listing` is appended: what the prompt has to show, when it does not show it by itself.
        """
        messages: tuple[Message, ...] = ()
        given = {**self.names, **made.data}
        if self.user is not None:
            said = self._said(given, [made.view()])
            if listing and type(self.user) is not Verbatim:
                said = Message("user", f"{said.content.rstrip()}\n\n{listing}", said.parts)
            messages = (*self.opening, said)
        return self._made(messages, (made,), {"item": made.view(), **given})

    def _made(
        self, messages: tuple[Message, ...], items: tuple[Item, ...], given: dict[str, Any]
    ) -> Ask:
        shared = sum([len(message.content) for message in self.opening])
        if messages:
            shared += self._head(messages[-1].content)
        if shared < LEAST_SHARED or self.alone:
            shared = 0
        if self.cache == "off":
            shared = -1
        files = None if self.carries is None else self.carries.rendered(given)
        return Ask(
            messages, items, (), self.schema, self.params, self.sample, shared=shared, files=files
        )

    def opened(self, opening: Opening) -> Prompt:
        """The same, with what all its asks begin with. An example's item is shown as this prompt
        shows items."""
        if opening == Opening():
            return self

        def render(text: str) -> str:
            made = Template(text, name="system", known=self.names)
            if made.media:
                raise BadInput(f"`{made.media[0]}` has no use here: files go with an item")
            return made.render(**self.names)

        def asked(data: Any) -> Message:
            if self.user is None:
                raise BadInput("`examples` with an `item` need a `prompt` that shows it")
            try:
                view = Item("example", data).view()
                return self._said(self._given([view]), [view])
            except FanfoldError as error:
                raise BadInput(f"`examples`: {error}") from None

        messages = opening.messages(render, asked)
        return msgspec.structs.replace(self, opening=messages, cache=opening.cache or "auto")

    def knowing(self, **names: Any) -> Prompt:
        """The same prompt, with more names."""
        return msgspec.structs.replace(self, names={**self.names, **names})

    def shows(self, name: str) -> bool:
        return self.user is not None and self.user.uses(name)

    @property
    def media(self) -> tuple[MediaKind, ...]:
        """The kinds of files that it always shows."""
        return () if self.user is None else self.user.media

    def rendered_together(self, items: tuple[Item, ...]) -> Message | None:
        """One text for a whole shard, when the prompt was written for several items. Files that are
        attached stay with their item, under its id."""
        if self.user is None or self.attach or not self.user.uses("items"):
            return None
        return self._said(self._given([item.view() for item in items]))

    def _given(self, views: list[dict[str, Any]]) -> dict[str, Any]:
        """`steps` are the replies of the item's earlier steps, and results of the whole plan."""
        earlier, steps = self.names.get("steps"), views[0].get("steps", {})
        if earlier:
            steps = {**earlier, **steps}
        return {**self.names, "item": views[0], "items": views, "steps": steps}


def prompt_of(
    text: str | None,
    schema: dict[str, Any] | type | None,
    known: Iterable[str] = KNOWN_NAMES,
    how: Mapping[str, object] = {},
) -> Prompt:
    """From what a script gives: a template as text, a JSON Schema or a type; `how` are the
    options of the pattern, of which it takes what asks begin with."""
    made = (
        None
        if schema is None
        else Schema.of(schema if isinstance(schema, dict) else definition_of(schema))
    )
    said = option("prompt", text, check.text)
    user = None if said is None else Template(said, name="prompt", known=frozenset(known))
    return asked_with(Prompt(user, (), made, files=MediaFiles(".")), how, known)


def asked_with(prompt: Prompt, how: Mapping[str, object], known: Iterable[str]) -> Prompt:
    """The same prompt, with what the options of a pattern state of its asks."""
    sampling = option("params", how.get("params"), check.mapping) or {}
    texts = check.one_or_many(check.text)
    attach, inputs, outputs = (
        tuple(option(one, how.get(one), texts) or ()) for one in ("attach", "inputs", "outputs")
    )
    read_paths(attach)
    stated = msgspec.structs.replace(
        prompt, params=read_options(sampling, Params, "params"), attach=attach,
        carries=file_templates(inputs, outputs, known, "."),
    )  # fmt: skip
    return stated.opened(opening_of(how))


def read_paths(fields: Iterable[str]) -> None:
    """What `attach` names must be fields."""
    for field in fields:
        if field != "item":
            item_path(field)


def attached(
    view: dict[str, Any], fields: Iterable[str], files: MediaSource
) -> Iterator[Attachment]:
    """The files that these fields of an item name; a list of them is one after the other. `item` is
    the item of `files` itself."""
    for field in fields:
        found = [("item", view)] if field == "item" else [*spread(view, item_path(field))]
        for where, value in found:
            if value is MISSING or value is None:
                raise FanfoldError(f"item `{view.get('id')}`: it has no field `{where}` to attach")
            try:
                yield files.attach(value, None)
            except BadInput as error:
                raise FanfoldError(f"item `{view.get('id')}`: {error}") from None


def check_prompt(prompt: Prompt, terms: Terms, askable: Sequence[Traits]) -> None:
    """Nobody who reads a prompt is sent an empty one. Functions and recordings go by the item. Who is
    named takes the files that the prompt shows; of the others one does."""
    step, who = terms.step, terms.who
    for one in askable:
        if prompt.user is None and one.takes == "messages" and one.kind != "replay":
            what = f"`{step}` has no `prompt`, but member `{one.id}` (kind {one.kind}) needs one"
            raise BadInput(what)
        if prompt.carries is not None and not one.takes_files:
            what = f"`{step}` has `inputs` or `outputs`, which are for commands and agents"
            raise BadInput(f"{what}; member `{one.id}` is of kind {one.kind}")
    named = (*who.members, *who.fallback, *terms.escalate)
    if why := refused_media(askable, prompt.media, named):
        raise BadInput(f"`{step}`: {why}")


def lacking_field(reader: str, names: Sequence[str], item: Item) -> str | None:
    """What is wrong where an item has none of these fields."""
    has = item.view()
    if not names or any(name in has for name in names):
        return None
    said, read = "the prompt" if reader == "prompt" else f"`{reader}`", [f"item.{n}" for n in names]
    return f"{said} reads {' or '.join(read)}, but items have: {', '.join(map(str, [*has][:8]))}"


def readable(source: Source, prompts: Iterable[Prompt], checks: Iterable[ItemRead] = ()) -> Source:
    """The source, whose first item has the fields that these prompts and checks read: a name that is
    misspelt shows before anything is planned. An item that lacks one later on fails by itself."""
    first = next(iter(source.walk()), None)
    if first is None:
        return source
    wanted: list[tuple[str, str]] = []
    for prompt in prompts:
        read = () if prompt.user is None else sorted(prompt.user.fields("item"))
        wanted += [("prompt", name) for name in read]
        wanted += [("attach", item_path(one)[0]) for one in prompt.attach if one != "item"]
    for reader, name in (*wanted, *checks):
        if fault := lacking_field(reader, (name,), first[1]):
            raise BadInput(fault)
    return source


def make_task(prompt: Prompt, item: Item, terms: Terms, place: Place | None) -> Task:
    """A prompt that cannot be rendered for one item is that item's flaw, not the run's."""
    terms = terms if terms.route is None else terms.for_item(item)
    try:
        return Task(item.id, prompt.ask((item,)), terms, place)
    except FanfoldError as error:
        return Task(item.id, Ask(items=(item,)), terms, place, str(error))


def make_tasks(
    items: Iterable[tuple[int, Item]], batch: int, terms: Terms, prompt: Prompt
) -> Iterator[Task]:
    for position, item in items:
        yield make_task(prompt, item, terms, Place(batch, position))
