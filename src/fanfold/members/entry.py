"""One member as a roster file or a script states it: its fields read, its traits known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import msgspec

from fanfold.errors import BadInput
from fanfold.members.keys import refuse_pasted_keys
from fanfold.members.kinds import KINDS, MemberFields, field_names, record_of
from fanfold.price import Price
from fanfold.work.arguments import public
from fanfold.work.check import elements, entries, one_of
from fanfold.work.document import Node
from fanfold.work.member import MemberLimits, Traits
from fanfold.work.nearest import quoted, remedy
from fanfold.work.options import plain
from fanfold.work.reader import read_record
from fanfold.work.tool import script_tools

F = TypeVar("F", bound=Callable[..., Any])
P = ParamSpec("P")
Fields = TypeVar("Fields", bound=MemberFields)


class MemberEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a roster, not yet built. `lines`: where each of its fields is written."""

    fields: MemberFields
    traits: Traits
    lines: dict[str, int]

    def line(self, field: str = "id") -> int:
        return self.lines.get(field, self.lines["id"])

    def delegating(self, mcp_json: str, mcp_command: str) -> MemberEntry:
        """The same member with our MCP tools: an orchestrator. See `MemberFields.delegating`."""
        fields = self.fields.delegating(mcp_json, mcp_command)
        return msgspec.structs.replace(self, fields=fields)


def read_entry(node: Node) -> MemberEntry:
    """Check one element of `members:`. Fields that belong to another kind are refused as such."""
    lines = {name: child.line for name, child in entries(node, "a member")}
    if "kind" not in node.value and "provider" in node.value:
        node = Node({"kind": "openai", **node.value}, node.file, node.lines, node.place)
    if "kind" not in node.value:
        raise node.bad(f"a member needs the field `kind`: one of {', '.join(KINDS)}")
    found: str = one_of(*KINDS)(node.child("kind"))
    record = record_of(found)
    _check_names(node, record)
    fields = read_record(node, record)
    traits = fields.traits(Path(node.file).parent)
    if traits.tools is not None:
        places = [child.line for child in elements(node.child("tools"))]
        traits = msgspec.structs.replace(traits, tools=traits.tools.placed(node.file, places))
    return MemberEntry(fields=fields, traits=traits, lines=lines)


def _check_names(node: Node, record: type[MemberFields]) -> None:
    """The record itself would not know the fields of other kinds, nor that a roster needs an id."""
    kind, known = node.value["kind"], field_names(record)
    for name, value in node.value.items():
        if name not in known:
            homes = [other for other in KINDS if name in field_names(record_of(other))]
            if homes:
                what = f"`{name}` is a field of kind {', '.join(homes)}, not of kind {kind}"
                raise node.child(name).bad(what)
            hint = remedy(name, known)
            what = f"unknown field {quoted(name)} in a member of kind {kind}: {hint}"
            raise node.child(name).bad(what)
        if value is None:
            raise node.child(name).bad(f"`{name}` is empty; give it a value, or leave it out")
    if "id" not in node.value:
        raise node.bad(f"a member of kind {kind} needs the field `id`")


# ── in scripts ───────────────────────────────────────────────────────────────────────────────


class ScriptedEntry(msgspec.Struct, frozen=True):
    """A member that a script states, for `open_run(members=[…])`. It is built when a run needs it,
    in the folder of then, like an entry of a roster file there."""

    entry: MemberEntry

    @property
    def traits(self) -> Traits:
        return self.entry.traits


def constructor(
    record: Callable[P, MemberFields], usual_id: Callable[[dict[str, Any]], object]
) -> Callable[P, ScriptedEntry]:
    """The function for scripts that states a member of a kind.

    `usual_id` makes the id where none is given, from the fields as they are given.
    """
    kind = _tag(record)
    signature = inspect.signature(record)

    def make(*args: P.args, **fields: P.kwargs) -> ScriptedEntry:
        given = signature.bind(*args, **fields).arguments
        id = usual_id(given)
        return state(kind, {"id": id if isinstance(id, str) and id.strip() else kind, **given})

    make.__name__, make.__doc__ = kind, record.__doc__
    return for_scripts(make, record)


def _tag(record: Any) -> str:
    return str(record.__struct_config__.tag)


def for_scripts(make: F, record: Callable[..., MemberFields], *first: str) -> F:
    """A public function that takes the fields of a record by name, after these arguments."""
    own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in first]
    fields = inspect.signature(record).parameters.values()
    vars(make)["__signature__"] = inspect.Signature([*own, *fields])
    return public(make)


def state(kind: str, given: Mapping[str, Any]) -> ScriptedEntry:
    """A member of a script, with these fields."""
    fields = read_fields(record_of(kind), given)
    entry = MemberEntry(fields=fields, traits=fields.traits(Path()), lines={"id": 1})
    return ScriptedEntry(entry)


def read_fields(record: type[Fields], given: Mapping[str, Any]) -> Fields:
    """What a script gives, by the rules of roster files; a price and limits may be records already.
    None is not stated."""
    kind = _tag(record)
    node = Node(plain({"kind": kind, **given}), "", {})
    refuse_pasted_keys(node)
    _check_names(node, record)
    made = {name: node.value.get(name) for name in ("price", "limits")}
    made = {name: one for name, one in made.items() if isinstance(one, Price | MemberLimits)}
    if "tools" in node.value and "tool_rounds" in record.__struct_fields__:
        made["tools"] = script_tools(node.value["tools"])
    if "limits" in made and "concurrency" in node.value:
        raise BadInput("state `limits` or `concurrency`, not both")
    written = {name: value for name, value in node.value.items() if name not in made}
    read = read_record(Node(written, "", {}), record)
    return msgspec.structs.replace(read, **made) if made else read
