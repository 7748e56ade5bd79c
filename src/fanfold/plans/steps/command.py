"""`command`: a map answered by a program of the step's own, which gets the prompt on its stdin."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from fanfold.members.entry import read_entry
from fanfold.plans.asking import written
from fanfold.plans.reading import StepContext
from fanfold.plans.steps.map import Map
from fanfold.work.document import Lines, Node
from fanfold.work.reader import Text

_OF_MEMBER = ("price", "effects", "version", "timeout", "limits")
_WHO = ("member", "members", "agent", "needs", "use")


class Command:
    """Read like a map, of which it makes one; `fallback` may still name others."""

    gives_replies = True

    written = written(
        Map, "a command", "command", "shard", "over", "watch", "route", *_WHO,
        name=(Text, "command"), cmd=Any,
        **dict.fromkeys(_OF_MEMBER, (Any, UNSET)),
    )  # fmt: skip

    @staticmethod
    def starts_anew(given: Any) -> bool:
        return False

    @staticmethod
    def read(node: Node, given: Any, reading: StepContext) -> Map:
        """Without a prompt it gets the reply of the step before, or the item's text."""
        made = reading.asking(node, given)
        made.setdefault("prompt", _handed_on(reading))
        if given.keep is not None:
            made["keep"] = reading.keep(node.child("keep"))
        own = {field: node.value[field] for field in ("cmd", *_OF_MEMBER) if field in node.value}
        read_entry(own_member(node.file, node.line, "command", own, node))
        return Map(**made, name=given.name, command=own)


def own_member(file: str, line: int, id: str, own: dict[str, Any], at: Node | None = None) -> Node:
    """The program of a step as it would be written in a roster."""
    place = () if at is None else at.place
    lines: Lines = {} if at is None else dict(at.lines)
    lines |= {place: line, (*place, "id"): line, (*place, "kind"): line}
    return Node({"id": id, "kind": "command", **own}, file, lines, place)


def _handed_on(reading: StepContext) -> str:
    if reading.replies:
        return f"{{{{ steps[{reading.replies[-1]!r}] }}}}"
    return "{{ item.text }}"
