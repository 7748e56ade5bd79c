"""What all asks of a step begin with, whatever each is about: system, context, examples, in this order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from fanfold.errors import BadInput
from fanfold.work.ask import Message
from fanfold.work.check import described
from fanfold.work.document import read_text
from fanfold.work.item import canonical
from fanfold.work.nesting import decode_json
from fanfold.work.reader import Misfit, Stated, Text, read_options

CacheMode = Literal["auto", "off"]


class ContextText(msgspec.Struct, frozen=True, omit_defaults=True):
    """A text of the context: that of the file `name`, sent as it is; without one, a template."""

    text: str
    name: str = ""

    def shown(self, render: Callable[[str], str]) -> str:
        if not self.name:
            return f"<document>\n{render(self.text).strip()}\n</document>"
        return f'<document name="{self.name}">\n{self.text.strip()}\n</document>'


class Example(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A question and a good reply to it: `ask` is sent as it is, an `item` through the step's own
    prompt. A reply that is no text is sent as JSON."""

    reply: Any
    ask: Stated[Text] = UNSET
    item: Any = UNSET

    def __post_init__(self) -> None:
        if (self.ask is UNSET) == (self.item is UNSET):
            raise Misfit("an example has a `reply` and either an `ask` (a text) or an `item`")
        if self.reply is None or (isinstance(self.reply, str) and not self.reply.strip()):
            raise Misfit("the `reply` of an example is empty", "reply")

    def messages(self, asked: Callable[[Any], Message]) -> tuple[Message, Message]:
        question = asked(self.item) if self.ask is UNSET else Message("user", self.ask)
        said = self.reply if isinstance(self.reply, str) else canonical(self.reply).decode()
        return question, Message("assistant", said)


class Opening(msgspec.Struct, frozen=True, omit_defaults=True):
    """`system` and the texts of `context` that are of no file are templates over what does not depend
    on the item. `cache` off: it is sent like any other text."""

    system: str = ""
    context: tuple[ContextText, ...] = ()
    examples: tuple[Example, ...] = ()
    cache: CacheMode | None = None

    def over(self, behind: Opening) -> Opening:
        """Where it does not state a part, that of `behind` holds."""
        return Opening(
            self.system or behind.system, self.context or behind.context,
            self.examples or behind.examples, self.cache or behind.cache,
        )  # fmt: skip

    def templates(self) -> tuple[str, ...]:
        own = (one.text for one in self.context if not one.name)
        return (self.system, *own) if self.system else tuple(own)

    def messages(
        self, render: Callable[[str], str], asked: Callable[[Any], Message]
    ) -> tuple[Message, ...]:
        """System and context are one message: not every model takes several of that role."""
        system = [render(self.system).strip()] if self.system else []
        texts = [*system, *(one.shown(render) for one in self.context)]
        first = (Message("system", "\n\n".join(texts)),) if texts else ()
        return first + tuple(said for one in self.examples for said in one.messages(asked))

    def describe(self) -> str:
        """In a few words, for a picture."""
        parts = ["system"] if self.system else []
        for what, found in (("context", self.context), ("examples", self.examples)):
            parts += [f"{what} ({len(found)})"] if found else []
        return ", ".join(parts)


# ── from what is written ─────────────────────────────────────────────────────────────────────


class ExamplesFields(msgspec.Struct, frozen=True):
    examples: tuple[Example, ...]


def examples_in(text: str, name: str) -> tuple[Example, ...]:
    """Those of a file: a JSON value in each line."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                found.append(one_example(decode_json(line.encode())))
            except (BadInput, ValueError) as error:
                what = error.what if isinstance(error, BadInput) else str(error)
                raise BadInput(what, file=name, line=number) from None
    return tuple(found)


def one_example(given: Any) -> Example:
    """A mapping, or in Python also a pair of ask and reply."""
    if isinstance(given, Example):
        return given
    if isinstance(given, tuple | list) and len(given) == 2:
        given = {"ask": given[0], "reply": given[1]}
    if not isinstance(given, Mapping):
        raise BadInput(
            f"an example must be a mapping with `ask` (or `item`) and `reply`, not {described(given)}"
        )
    try:
        canonical(given)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadInput(f"an example is not plain JSON: {error}") from None
    return read_options({"examples": [dict(given)]}, ExamplesFields).examples[0]


def opening_of(given: Mapping[str, object]) -> Opening:
    """From the options of a Python call. A `Path` in it is a file, whose text is sent as it is."""
    system, cache = given.get("system"), given.get("cache")
    if isinstance(system, Path):
        system = _text_of(system)
    if system is not None and not (isinstance(system, str) and system.strip()):
        raise BadInput(f"`system` must be a text or a Path, not {described(system)}")
    if cache not in (None, "auto", "off"):
        raise BadInput(f"`cache` must be auto or off, not {described(cache)}")
    context, examples = _context(given.get("context")), _examples(given.get("examples"))
    return Opening(system or "", context, examples, cache)


def _context(given: Any) -> tuple[ContextText, ...]:
    texts = [] if given is None else [given] if isinstance(given, str | Path) else given
    if not isinstance(texts, Sequence):
        raise BadInput(
            f"`context` must be a text, a Path or a list of them, not {described(given)}"
        )
    found = []
    for one in texts:
        if isinstance(one, Path):
            found.append(ContextText(_text_of(one), one.name))
        elif isinstance(one, str) and one.strip():
            found.append(ContextText(one))
        else:
            raise BadInput(f"`context` must hold texts or Paths, not {described(one)}")
    return tuple(found)


def _examples(given: Any) -> tuple[Example, ...]:
    if isinstance(given, Path):
        return examples_in(_text_of(given), str(given))
    if given is not None and (isinstance(given, str) or not isinstance(given, Sequence)):
        raise BadInput(f"`examples` must be a list or a Path, not {described(given)}")
    return tuple(one_example(one) for one in given or ())


def _text_of(path: Path) -> str:
    found = read_text(path)
    if not found.strip():
        raise BadInput("is empty", file=str(path))
    return found
