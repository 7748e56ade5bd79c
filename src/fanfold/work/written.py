"""Where the parts of a YAML text stand in it, for edits that leave everything else as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec
import yaml

Shape = Literal["mapping", "list", "scalar", "alias"]


class YamlPart(msgspec.Struct, frozen=True):
    """A value with its place: `text[start:end]`.

    A mapping's `inner` are its keys and values in turn, a list's its elements. `flow` is the style
    with brackets. `bound`: it has an anchor or a tag, which a new value would lose.
    """

    shape: Shape
    start: int
    end: int
    value: str = ""
    inner: tuple[YamlPart, ...] = ()
    flow: bool = False
    bound: bool = False

    def pairs(self) -> Iterator[tuple[YamlPart, YamlPart]]:
        return zip(self.inner[::2], self.inner[1::2], strict=True)

    def named(self, key: str) -> tuple[YamlPart, YamlPart] | None:
        """The key and the value of that name, when it is written out here."""
        return next((pair for pair in self.pairs() if pair[0].value == key), None)


def written(text: str) -> YamlPart:
    """The first document of a text that is known to be good YAML. Aliases stay what they are."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    events = iter(list(yaml.parse(text, loader)))
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            return _part(event, events)
    return YamlPart("scalar", 0, 0)


def _part(event: yaml.Event, rest: Iterator[yaml.Event]) -> YamlPart:
    start, end = _index(event.start_mark), _index(event.end_mark)
    match event:
        case yaml.AliasEvent():
            return YamlPart("alias", start, end)
        case yaml.ScalarEvent():
            bound = event.anchor is not None or event.tag is not None
            return YamlPart("scalar", start, end, value=event.value, bound=bound)
        case yaml.CollectionStartEvent():
            bound = event.anchor is not None or event.tag is not None
            shape: Shape = "mapping" if isinstance(event, yaml.MappingStartEvent) else "list"
            return _collection(shape, event, rest, bound)
    raise ValueError(f"unexpected {event}")


def _collection(
    shape: Shape, start: yaml.CollectionStartEvent, rest: Iterator[yaml.Event], bound: bool
) -> YamlPart:
    inner: list[YamlPart] = []
    for event in rest:
        if isinstance(event, yaml.CollectionEndEvent):
            flow = bool(start.flow_style)
            end = _index(event.end_mark) if flow or not inner else inner[-1].end
            return YamlPart(shape, _index(start.start_mark), end, "", tuple(inner), flow, bound)
        inner.append(_part(event, rest))
    raise ValueError("the text ends inside a collection")


def _index(mark: Any) -> int:
    """Characters before it. Every event of a text has its marks, whatever the types say."""
    index: int = mark.index
    return index


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text)


def dumped(value: Any) -> str:
    """A value as YAML, its fields in the order they have. Whoever needs it to be the same reads it
    again and compares: this is YAML 1.1."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
