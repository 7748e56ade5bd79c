"""Who answers goes by the item: by the values of one field, or by rules over what is known of it before
anybody is asked. Rules are what `tune` learns: a small tree, written down branch by branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta

from fanfold.errors import BadInput
from fanfold.work.document import Node, read
from fanfold.work.features import DERIVED
from fanfold.work.fields import MISSING, leaves, number, path_of
from fanfold.work.item import Item
from fanfold.work.reader import Count, Misfit, Stated, Text, read_record
from fanfold.work.vote import label

LEARNED = "learned"
FILE = "learned.yaml"


class Between(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Numbers above the one, and up to the other, that included."""

    called: ClassVar[str] = "a range"
    above: float | None = None
    up_to: float | None = None

    def __post_init__(self) -> None:
        if self.above is None and self.up_to is None:
            raise Misfit("a range states `above`, `up_to` or both")

    def holds(self, value: Any) -> bool:
        found = number(value)
        return (
            found is not None
            and (self.above is None or found > self.above)
            and (self.up_to is None or found <= self.up_to)
        )

    def describe(self, name: str) -> str:
        above = "" if self.above is None else f"above {self.above:g}"
        up_to = "" if self.up_to is None else f"up to {self.up_to:g}"
        return f"{name} {' and '.join(filter(None, (above, up_to)))}"


class RouteRule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`when`: by the name of a field, or `length` (letters of the item) or `language`, its values or a
    range; all of it must hold. `right` of `items` of the sample were right by this member, where it was
    learned."""

    called: ClassVar[str] = "a rule"
    when: Annotated[
        dict[str, Between | tuple[str | int | float | bool, ...]],
        Meta(extra={"expected": "fields with their values, or with {above: …, up_to: …}"}),
    ]
    member: Text
    items: Count | None = None
    right: int | None = None

    def __post_init__(self) -> None:
        for name in self.when:
            try:
                path_of(name)
            except BadInput as error:
                raise Misfit(error.what, "when") from None

    def holds(self, item: Item) -> bool:
        return all(_fits(known(item, name), one) for name, one in self.when.items())

    def describe(self) -> str:
        said = (
            one.describe(name)
            if isinstance(one, Between)
            else f"{name} is {' or '.join(label(value) for value in one)}"
            for name, one in self.when.items()
        )
        return f"{' and '.join(said) or 'all others'}: {self.member}"

    def figures(self) -> str:
        return (
            "" if self.items is None else f" ({self.right or 0} of {self.items} right when tuned)"
        )


class Route(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`to`: the member for each value of the field `by`; or `rules`, of which the first that holds says
    who. `otherwise` (written `else`): for all other items."""

    called = "a route"
    otherwise: Text = msgspec.field(name="else")
    by: Stated[Text] = UNSET
    to: Stated[dict[str, Text]] = UNSET
    rules: Stated[tuple[RouteRule, ...]] = UNSET

    def __post_init__(self) -> None:
        if (self.rules is UNSET) == (self.by is UNSET):
            raise Misfit("a route states `by` and `to`, or `rules`")
        if self.rules is not UNSET:
            if self.to is not UNSET:
                raise Misfit("`to` goes with `by`, not with `rules`", "to")
            return
        if self.to is UNSET:
            raise Misfit("a route needs the field `to`")
        if not self.to:
            raise Misfit("`to` needs a member for at least one value of the field", "to")
        try:
            path_of(str(self.by))
        except BadInput as error:
            raise Misfit(error.what, "by") from None

    @property
    def members(self) -> tuple[str, ...]:
        named = [] if self.to is UNSET else list(self.to.values())
        named += [] if self.rules is UNSET else [rule.member for rule in self.rules]
        return tuple(dict.fromkeys((*named, self.otherwise)))

    @property
    def fields(self) -> tuple[str, ...]:
        """Of items, that it goes by."""
        named = [] if self.by is UNSET else [str(self.by)]
        named += [] if self.rules is UNSET else [name for rule in self.rules for name in rule.when]
        return tuple(dict.fromkeys(named))

    @property
    def why(self) -> str:
        """For the record of an attempt."""
        return LEARNED if self.by is UNSET else f"by {self.by}"

    def member(self, item: Item) -> str:
        if self.rules is not UNSET:
            return next((rule.member for rule in self.rules if rule.holds(item)), self.otherwise)
        assert self.to is not UNSET
        value = known(item, str(self.by).removeprefix("item."))
        return self.otherwise if value is MISSING else self.to.get(label(value), self.otherwise)

    def explain(self, item: Item | None = None) -> list[str]:
        """Who is asked, and why; of one item, or of all."""
        if self.rules is UNSET:
            return [self.describe() if item is None else f"{self.member(item)}: by {self.by}"]
        rules = [rule for rule in self.rules if item is None or rule.holds(item)]
        lines = [f"{rule.describe()}{rule.figures()}" for rule in rules]
        return [*lines, f"else {self.otherwise}"] if item is None or not lines else lines[:1]

    def describe(self) -> str:
        if self.rules is not UNSET:
            return "; ".join([*(rule.describe() for rule in self.rules), f"else {self.otherwise}"])
        assert self.to is not UNSET
        named: dict[str, list[str]] = {}
        for value, member in self.to.items():
            named.setdefault(member, []).append(value)
        said = "; ".join(f"{', '.join(values)}: {member}" for member, values in named.items())
        return f"by {self.by}: {said}; else {self.otherwise}"


def known(item: Item, name: str) -> Any:
    """A field of the item, or what follows from its text; MISSING."""
    view = item.view()
    derive: Callable[[Any], Any] | None = DERIVED.get(name)
    if derive is not None and not (isinstance(view, dict) and name in view):
        return derive(view)
    return next((leaf for _, leaf in leaves(view, path_of(name.removeprefix("item.")))), MISSING)


def _fits(value: Any, one: Between | tuple[Any, ...]) -> bool:
    if value is MISSING:
        return False
    if isinstance(one, Between):
        return one.holds(value)
    return label(value) in {label(each) for each in one}


def read_route(node: Node, folder: Path = Path()) -> Route:
    """As it is written; or a text: `learned`, or the file that `tune --learned` wrote."""
    if not isinstance(node.value, str):
        return read_record(node, Route)
    file = folder / (FILE if node.value == LEARNED else node.value)
    if not file.exists():
        hint = f"`fanfold tune PLAN --learned {file.name}` writes it"
        raise node.bad(f"`{node.name}` {node.value}: there is no {file.name}; {hint}")
    return read_record(read(file), Route)
