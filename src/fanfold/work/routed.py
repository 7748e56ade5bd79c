"""Who answers goes by a field of the item: another member for each of its values."""

from __future__ import annotations

import msgspec

from fanfold.errors import BadInput
from fanfold.work.fields import MISSING, leaves, path_of
from fanfold.work.item import Item
from fanfold.work.reader import Misfit, Text
from fanfold.work.vote import label


class Route(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`to`: the member for each value of the field `by`; `otherwise` (written `else`): for all other
    items."""

    called = "a route"
    by: Text
    to: dict[str, Text]
    otherwise: Text = msgspec.field(name="else")

    def __post_init__(self) -> None:
        if not self.to:
            raise Misfit("`to` needs a member for at least one value of the field", "to")
        try:
            path_of(self.by)
        except BadInput as error:
            raise Misfit(error.what, "by") from None

    @property
    def members(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.to.values(), self.otherwise)))

    def member(self, item: Item) -> str:
        path = path_of(self.by.removeprefix("item."))
        value = next((leaf for _, leaf in leaves(item.view(), path)), MISSING)
        return self.otherwise if value is MISSING else self.to.get(label(value), self.otherwise)

    def describe(self) -> str:
        named: dict[str, list[str]] = {}
        for value, member in self.to.items():
            named.setdefault(member, []).append(value)
        said = "; ".join(f"{', '.join(values)}: {member}" for member, values in named.items())
        return f"by {self.by}: {said}; else {self.otherwise}"
