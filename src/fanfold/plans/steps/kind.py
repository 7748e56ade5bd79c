"""What every kind of step answers: how it is read, what it asks, how items flow through it, how it is
carried out, previewed and drawn. A kind is a record with these methods, in a module of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Union

import msgspec
from msgspec import UNSET

from fanfold.patterns.gathered import terms_of_nobody
from fanfold.plans.asking import Asking
from fanfold.plans.carry import PlanState
from fanfold.plans.drawing.sketch import Sketch
from fanfold.plans.flow import FieldRead, Flow
from fanfold.plans.preview.estimate import Estimate, PartPreview
from fanfold.plans.reading import StepContext
from fanfold.plans.ready import Ready
from fanfold.work.ask import Ask
from fanfold.work.blocking import item_path
from fanfold.work.document import Node
from fanfold.work.item import Item
from fanfold.work.nearest import quoted, remedy
from fanfold.work.picture import Box
from fanfold.work.reader import Misfit, read_part
from fanfold.work.task import Terms

_STEPS = "steps."


class Step:
    """A step of a plan. What most kinds answer in the same way is answered here."""

    __slots__ = ()

    name: str
    line: int | None
    written: ClassVar[Any]
    """The type of what may be written below the name of the kind; see `work/reader`."""

    # ── reading ──

    @classmethod
    def read(cls, node: Node, given: Any, reading: StepContext) -> Any:
        """The record, from what is written (`given` is `written`, read from `node`)."""
        raise NotImplementedError

    @classmethod
    def starts_anew(cls, given: Any) -> bool:
        """Whether its items are not those of the flow, so that they have no earlier replies."""
        return _produced(getattr(given, "over", None)) is not None

    def settled(self) -> Any:
        """The record once its name is final."""
        return self

    def comparable(self) -> Any:
        """Without what an operator may change while the run goes on."""
        return self

    # ── what it asks ──

    def asks(self) -> Iterator[tuple[str, Asking]]:
        """All that it asks, each by its name, votes and judges of votes included."""
        return iter(())

    def budgets(self) -> Iterator[str]:
        """The names under which its budgets can be stated anew. Votes have those of their question."""
        return (name for name, _ in self.asks())

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        """What it asks about one item of the flow; a text says why that cannot be shown alone."""
        yield self.name, f"{self.name} asks about parts of the item"

    def own_items(self) -> Iterator[OwnItem]:
        """The items that it brings along itself, those that wait for no other one first."""
        return iter(())

    def own_ask(self, own: OwnItem, ready: Ready, replies: dict[str, Any]) -> tuple[Item, Ask]:
        """One of these as it is asked about; `replies` are those of the items that it waits for."""
        item = Item(own.id, own.data)
        return item, ready.prompt(own.asking).ask((item,))

    def item_terms(self, ready: Ready) -> list[Terms]:
        """On which terms the items of the flow go through it, in order."""
        return []

    def asks_each(self, ready: Ready) -> int:
        """How many asks each item takes there at least."""
        return 1

    def all_terms(self, ready: Ready) -> list[Terms]:
        """Of everything that it asks, so that what is wrong shows before anything is asked."""
        own = self.item_terms(ready)
        there = {terms.step for terms in own}
        return own + [ready.terms(asking, at) for at, asking in self.asks() if at not in there]

    # ── the flow of items ──

    @property
    def names(self) -> tuple[str, ...]:
        """Under which names later steps see it, its own last."""
        return (self.name,)

    @property
    def produced_by(self) -> str | None:
        """The earlier step whose result, or whose replies, are its items: `over: steps.NAME`."""
        return _produced(getattr(self, "over", None))

    @property
    def takes_items(self) -> bool:
        """Whether it works on the items that are in the flow."""
        return False

    @property
    def gives_replies(self) -> bool:
        """Whether each item has a reply of its own after it, and goes on from there."""
        return False

    @property
    def gives_result(self) -> bool:
        """Whether later prompts can read what it made as one value."""
        return not self.gives_replies

    @property
    def reply_names(self) -> tuple[str, ...]:
        """Under which names the prompts of later steps read the replies to their own item."""
        return (self.names[:-1] or self.names) if self.gives_replies else ()

    @property
    def result_names(self) -> tuple[str, ...]:
        """Under which names they read what was made as one value."""
        return (self.name,) if self.gives_result else ()

    @property
    def folds_items(self) -> bool:
        """Whether the items become one there, so that no later step sees them."""
        return False

    @property
    def divides(self) -> bool:
        """Whether several processes can carry it out together, each with a part of the items."""
        return False

    @property
    def needs_flow(self) -> bool:
        """Whether it works on the items in the flow, or on their replies."""
        return self.takes_items

    @property
    def asks_about_parts(self) -> bool:
        """Whether its prompts are about parts of an item, not about items."""
        return False

    @property
    def fields_added(self) -> tuple[str, ...]:
        """What its prompts read of an item that the item has not by itself."""
        return ()

    def item_fields(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Beside its prompt, what of an item it goes by: a field of the step, and the names of an
        item's fields of which there must be one."""
        return iter(())

    def item_reads(self) -> Iterator[FieldRead]:
        """All that it reads of an item of the flow, so that what is misspelt shows before anything is
        asked."""
        first = next((asking for _, asking in self.asks()), None)
        wanted = [(reader, names, reader) for reader, names in self.item_fields()]
        if first is not None and not self.asks_about_parts:
            read = first.fields_read("item").difference(self.fields_added)
            wanted += [("prompt", (name,), "prompt") for name in sorted(read)]
            attached = [item_path(one)[0] for one in first.attach if one != "item"]
            wanted += [("attach", (name,), "attach") for name in attached]
            judged = [one for one in first.gate_reads() if one.field not in self.fields_added]
            wanted += [(one.reader, (one.field,), "gate") for one in judged]
        for reader, names, field in wanted:
            lines, whole = ({}, self.line) if first is None else (first.lines, first.line)
            prompted = reader != "prompt" or {"prompt", "prompt_file"} & lines.keys()
            unwritten = "" if prompted or not lines else self.name
            yield FieldRead(reader, names, lines.get(field, whole), unwritten)

    def plain_targets(self) -> Iterator[str]:
        """Which functions of the user's it calls without awaiting what they give, `module:function`."""
        return iter(())

    def lists_read(self) -> set[str]:
        """The steps whose lists it works on, or finds in its items."""
        return set() if self.produced_by is None else {self.produced_by}

    def check_flow(self, flow: Flow) -> None:
        """BadInput where it cannot work on what is in the flow."""
        if self.takes_items and self.produced_by is None:
            flow.need_items(self)

    def check_size(self, size: int) -> None:
        """BadInput for more items than it takes."""

    # ── run, preview, picture ──

    async def carry(self, state: PlanState) -> None:
        raise NotImplementedError

    def preview(self, estimate: Estimate) -> PartPreview:
        return PartPreview()

    def draw(self, id: str, sketch: Sketch) -> Box:
        return Box(id, self.name)


class Comparing:
    """What the steps have in common that compare the items of the flow with one another, and give each
    a reply of a few fields in the end. `compares`: what they ask about."""

    __slots__ = ()
    name: str
    compares: ClassVar[str]
    takes_items = True
    gives_replies = True
    gives_result = True
    asks_about_parts = True

    def item_asks(self) -> Iterator[tuple[str, Asking | str]]:
        yield self.name, f"{self.name} asks about {self.compares}"

    def item_terms(self, ready: Ready) -> list[Terms]:
        return [terms_of_nobody(ready.named(self.name), self.name)]


def _produced(over: Any) -> str | None:
    """`steps.NAME`: what that step produced."""
    return over.removeprefix(_STEPS) if isinstance(over, str) and over.startswith(_STEPS) else None


class OwnItem(msgspec.Struct, frozen=True):
    """An item that a step brings along itself, what is asked about it, and for which others of the
    same step it waits."""

    id: str
    data: Any
    asking: Asking
    waits_for: tuple[str, ...] = ()


class StepEntry:
    """A step as it is written: a mapping with one key, the name of its kind. `common`: what may be
    written in each, beside the fields of its kind."""

    kinds: ClassVar[Mapping[str, Any]] = {}
    unknown: ClassVar[str] = "unknown step {}"
    common: ClassVar[tuple[str, ...]] = ()

    def __init__(self, kind: str, given: Any) -> None:
        self.kind, self.given = kind, given

    @classmethod
    def from_value(cls, value: Any) -> StepEntry:
        if not isinstance(value, dict) or not value:
            raise Misfit("a step must be a mapping such as `map: {prompt: …}`")
        known = [name for name in value if name in cls.kinds]
        strange = [name for name in value if name not in cls.kinds]
        if not known:
            raise Misfit(
                f"{cls.unknown.format(quoted(strange[0]))}: {remedy(strange[0], cls.kinds)}",
                strange[0],
            )
        kind, *others = known + strange
        if others:
            what = f"`{others[0]}` is beside `{kind}`; indent what belongs to a step below its name"
            raise Misfit(what, others[0])
        given = value[kind]
        if isinstance(given, dict):
            given = {name: part for name, part in given.items() if name not in cls.common}
        return cls(kind, read_part(given, cls.kinds[kind].written, kind))

    @classmethod
    def record(cls) -> Any:
        """The same as a record, for the JSON Schema."""
        fields: list[Any] = [
            (name, Union[kind.written, msgspec.UnsetType], UNSET)  # noqa: UP007
            for name, kind in cls.kinds.items()
        ]
        return msgspec.defstruct(cls.__name__, fields, forbid_unknown_fields=True)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{cls.__name__}", "minProperties": 1, "maxProperties": 1}
